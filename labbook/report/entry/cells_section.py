"""The section *Cells* of the entry of an executed notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.run import Run
from labbook.report import numbers
from labbook.report.entry.section_limits import Limits

_MOST_CELLS = 30
_CODE_LINES = 12
_OUTPUT_LINES = 12


def cells_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns the cells in order, with code, outputs, figures and times; `None` for another program.

    Of many cells, those that failed are shown first of all, then the first ones and the last one.
    """
    facts = run.facts("notebook")
    rows = facts.get("cells") or []
    if not rows:
        return None
    most = min(_MOST_CELLS, limits.rows)
    failed = [row for row in rows if row["state"] in ("failed", "running")]
    wanted = {row["cell"] for row in [*failed[:3], rows[-1], *rows][:most]}
    shown = [_cell(row, limits) for row in rows if row["cell"] in wanted]
    return {
        "cells": shown,
        "more": max(len(rows), int(facts.get("total") or 0)) - len(shown),
        "failed": failed[0]["cell"] if failed else None,
        "is_running": bool(failed) and failed[0]["state"] == "running",
        "unhealthy": _unhealthy_cell(run, rows),
        "order": list(facts.get("order") or []),
        "file": str(facts.get("file") or ""),
        "folder": run.id,
    }


def _unhealthy_cell(run: Run, rows: Sequence[Mapping[str, Any]]) -> dict[str, int] | None:
    """Returns the cell, and its line, in which a check first failed; `None` if no check knows its line."""
    cells = {f"In[{row['count']}]": row["cell"] for row in rows if row.get("count")}
    places = [check.where for check in run.checks if check.verdict == "fail" and check.where.get("file") in cells]
    if not places:
        return None
    first = min(places, key=lambda place: float(place.get("step") or 0))
    return {"cell": cells[str(first["file"])], "line": int(first.get("line") or 0)}


def _cell(row: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    return {
        "number": row["cell"],
        "count": row.get("count"),
        "state": row["state"],
        "duration": numbers.duration(row["duration_s"]) if row["duration_s"] is not None else "",
        "text": _lines(row["source"], _CODE_LINES, limits, tail=False),
        "last": _lines(row["output"], _OUTPUT_LINES, limits, tail=True),
        "cut": row["cut"],
        "figures": list(row["figures"]),
    }


def _lines(text: str, most: int, limits: Limits, *, tail: bool) -> str:
    """Returns the first or the last lines of a text, each cut at 200 characters."""
    lines = [line[:200] for line in text.strip("\n").splitlines()]
    most = min(most, max(2, limits.console_lines // 5))
    if len(lines) > most:
        lines = ["...", *lines[-most:]] if tail else [*lines[:most], "..."]
    return "\n".join(lines)
