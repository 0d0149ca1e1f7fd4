"""Writes the filters of a query in SQL."""

from __future__ import annotations

from typing import Any

from labbook.index.query_parser import CONTAINS, EXACT, Filter, Question

_LAST = chr(0x10FFFF)


def filter_sql(question: Question) -> tuple[str, list[Any]]:
    """Returns the filters of a query as a condition on `notes n`, with its values."""
    parts, values = ["1"], []
    for wanted in question.filters:
        condition, more = _condition(wanted)
        parts.append(f"n.id {'NOT ' if wanted.negated else ''}IN (SELECT note FROM facets WHERE {condition})")
        values += more
    for bound, operator in ((question.since, ">="), (question.before, "<")):
        if bound is not None:
            parts.append(f"n.started {operator} ?")
            values.append(bound)
    return " AND ".join(parts), values


def _condition(wanted: Filter) -> tuple[str, list[Any]]:
    if wanted.key in EXACT or not wanted.values:
        marks = ", ".join("?" * len(wanted.values))
        return f"key = ? AND value IN ({marks})", [wanted.key, *wanted.values]
    if wanted.key not in CONTAINS:
        # Values with the same prefix are adjacent in the index; none sorts after the last code point.
        tests = " OR ".join(["(value >= ? AND value < ?)"] * len(wanted.values))
        return f"key = ? AND ({tests})", [wanted.key, *(end for v in wanted.values for end in (v, f"{v}{_LAST}"))]
    tests = " OR ".join(["value LIKE ? ESCAPE '\\'"] * len(wanted.values))
    return f"key = ? AND ({tests})", [wanted.key, *(f"%{escaped(value)}%" for value in wanted.values)]


def escaped(text: str) -> str:
    """Returns `text` for LIKE, with its wildcards escaped by a backslash."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
