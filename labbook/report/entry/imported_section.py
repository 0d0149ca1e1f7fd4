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
    steps: dict[tuple[str, str], list[int]] = {}
    for each in source.get("texts") or ():
        if each.get("text"):
            steps.setdefault((str(each.get("tag")), str(each["text"])), []).append(each.get("step") or 0)
    pictures = list(source.get("pictures") or ())
    return {
        "tool": source.get("tool", ""),
        "path": source.get("path", ""),
        "run": source.get("run", ""),
        "description": shorten_middle(str(source.get("description") or ""), limits.message),
        "texts": [
            {
                "tag": shorten_middle(tag, limits.cell),
                "step": at[0],
                "last": at[-1],
                "count": len(at),
                "text": shorten_middle(text, limits.message),
            }
            for (tag, text), at in [*steps.items()][: limits.rows]
        ],
        "pictures": [
            {
                "tag": shorten_middle(str(each.get("tag")), limits.cell),
                "step": each.get("step"),
                "file": each.get("file"),
                "caption": shorten_middle(str(each.get("caption") or ""), limits.cell),
            }
            for each in pictures[:_SHOWN_PICTURES]
        ],
        "more": max(0, len(steps) - limits.rows) + max(0, len(pictures) - _SHOWN_PICTURES),
        "folder": run.id,
    }
