"""Rows of the checklist that were not observed for one and the same reason, told once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_JOINED = 3
"""Rows from which they are one. Source: chosen by us."""


def merge_unobserved(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows, each with its `members`; those that were not observed for one reason are a single row."""
    by_reason: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["verdict"] == "not observed":
            by_reason.setdefault(row["observed"], []).append(row)
    told: list[dict[str, Any]] = []
    for row in rows:
        alike = by_reason.get(row["observed"], []) if row["verdict"] == "not observed" else []
        if len(alike) < _JOINED:
            told.append({**row, "members": [row]})
        elif alike[0] is row:
            told.append({**row, "expected": "", "members": alike})
    return told
