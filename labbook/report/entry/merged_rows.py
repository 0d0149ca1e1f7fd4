"""Merges rows of the checklist that were not observed for the same reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MIN_MERGED = 3
"""Fewest rows to merge. Source: chosen by us."""


def merge_unobserved(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows, each with its `members`; rows not observed for the same reason become one."""
    by_reason: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["verdict"] == "not observed":
            by_reason.setdefault(row["observed"], []).append(row)
    merged: list[dict[str, Any]] = []
    for row in rows:
        alike = by_reason.get(row["observed"], []) if row["verdict"] == "not observed" else []
        if len(alike) < _MIN_MERGED:
            merged.append({**row, "members": [row]})
        elif alike[0] is row:
            merged.append({**row, "expected": "", "members": alike})
    return merged
