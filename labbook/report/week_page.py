"""The page of a week's report."""

from __future__ import annotations

import html

from labbook.report.week_context import WeekSource, week_context
from labbook.store import frontmatter
from labbook.store.entry_text import merge
from labbook.store.templates import Templates

TEMPLATE = "reports/week.md.j2"
BLOCKS = ("summary", "results", "failures", "changes", "open", "people")
"""Generated parts of a report; everything else of it belongs to people."""


def week_markdown(source: WeekSource, templates: Templates, existing: str | None) -> tuple[str, str]:
    """The whole file of a report; what people wrote in `existing` survives byte for byte.

    Args:
        source: What the week is told from.
        templates: Of the notebook, in its language.
        existing: The report as it is on disk, or `None`.

    Returns:
        The file, and a sentence that names a broken template of the notebook, "" when nothing was broken.
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
    """The page without the empty lines that loops and conditions of a template leave behind."""
    kept: list[str] = []
    for line in body.strip().splitlines():
        if line.strip() or (kept and kept[-1].strip()):
            kept.append(line.rstrip())
    return "\n".join(kept) + "\n"
