"""Writes the page of a report."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Any

from labbook.model.message import Message
from labbook.store import frontmatter
from labbook.store.entry_text import merge
from labbook.store.templates import Templates

TEMPLATE = "reports/week.md.j2"
"""Named as in notebooks that have their own template for reports; months and other periods use it as well."""
BLOCKS = ("summary", "results", "failures", "performance", "learnt", "changes", "open", "people")
"""Generated blocks of a report; all other text belongs to people."""


def report_markdown(
    data: Mapping[str, Any], templates: Templates, say: Callable[[Message], str], existing: str | None
) -> tuple[str, str]:
    """Returns the file of a report; text that people wrote in `existing` is preserved byte for byte.

    Args:
        data: Data of `labbook.report.period_context.period_context`, and `figures` (paths of pictures, each with its
            experiment) and `people` (whether runs are counted by author).
        templates: Templates of the notebook.
        say: Formats the facts.
        existing: The report on disk, or `None`.

    Returns:
        The file, and a sentence that names a broken template of the notebook, or "".
    """
    shown = {**data, "facts": [say(fact) for fact in data["facts"]]}
    body, trouble = templates.render_anyway(TEMPLATE, shown)
    heading = next((line.strip("# ") for line in body.splitlines() if line.startswith("# ")), data["name"])
    meta = {
        "title": html.unescape(heading),
        data["kind"] if data["kind"] in ("week", "month", "experiment") else "period": data["name"],
        "date": data["begin"],
        "runs": data["totals"]["runs"],
    }
    page = f"{frontmatter.emit(meta)}\n{_tidy(body)}"
    return (merge(existing, page, known=BLOCKS) if existing is not None else page), trouble


def _tidy(body: str) -> str:
    """Returns the page without the empty lines of loops and conditions in the template."""
    lines: list[str] = []
    for line in body.strip().splitlines():
        if line.strip() or (lines and lines[-1].strip()):
            lines.append(line.rstrip())
    return "\n".join(lines) + "\n"
