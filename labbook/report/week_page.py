"""Writes the page of a weekly report."""

from __future__ import annotations

import html

from labbook.report.week_context import WeekSource, week_context
from labbook.store import frontmatter
from labbook.store.entry_text import merge
from labbook.store.templates import Templates

TEMPLATE = "reports/week.md.j2"
BLOCKS = ("summary", "results", "failures", "changes", "open", "people")
"""Generated blocks of a report; all other text belongs to people."""


def week_markdown(source: WeekSource, templates: Templates, existing: str | None) -> tuple[str, str]:
    """Returns the file of a report; text that people wrote in `existing` is preserved byte for byte.

    Args:
        source: Sources of the week.
        templates: Templates of the notebook.
        existing: The report on disk, or `None`.

    Returns:
        The file, and a sentence that names a broken template of the notebook, or "".
    """
    data = week_context(source)
    body, trouble = templates.render_anyway(TEMPLATE, data)
    heading = next((line.strip("# ") for line in body.splitlines() if line.startswith("# ")), source.week.name)
    meta = {
        "title": html.unescape(heading),
        "week": source.week.name,
        "date": source.week.begin.isoformat(),
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
