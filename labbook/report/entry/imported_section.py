"""The section of an entry on the tool that a run was imported from, with the texts and images that the run logged."""

from __future__ import annotations

from typing import Any

from labbook.model.run import Run
from labbook.report.entry.section_limits import Limits, shorten_middle

_SHOWN_PICTURES = 12


def imported_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns source, description, texts and images of an imported run, or `None`."""
    source = run.imported_from
    if not source:
        return None
    texts = [text for text in source.get("texts") or () if text.get("text")]
    pictures = list(source.get("pictures") or ())
    return {
        "tool": source.get("tool", ""),
        "path": source.get("path", ""),
        "run": source.get("run", ""),
        "description": shorten_middle(str(source.get("description") or ""), limits.message),
        "texts": [
            {
                "tag": shorten_middle(str(text.get("tag")), limits.cell),
                "step": text.get("step"),
                "text": shorten_middle(str(text["text"]), limits.message),
            }
            for text in texts[: limits.rows]
        ],
        "pictures": [
            {
                "tag": shorten_middle(str(each.get("tag")), limits.cell),
                "step": each.get("step"),
                "file": each.get("file"),
            }
            for each in pictures[:_SHOWN_PICTURES]
        ],
        "more": max(0, len(texts) - limits.rows) + max(0, len(pictures) - _SHOWN_PICTURES),
        "folder": run.id,
    }
