"""Writes the filters of a query in SQL."""

from __future__ import annotations

from typing import Any

from labbook.index.query_fields import CONTAINS, EXACT, FILTERS, Filter, condition_json
from labbook.index.query_parser import Question

_LAST = chr(0x10FFFF)
_OF_RUNS = frozenset({"status", "verdict"})
"""Fields that every run has and no other note: `-status:failed` finds runs."""


def filter_sql(question: Question) -> tuple[str, list[Any]]:
    """Returns the filters of a query as a condition on `notes n`, with its values.

    Fields, options and metrics of the front matter are compared by the function `fits`, which the connection has.
    """
    parts, values = ["1"], []
    for group in [(wanted,) for wanted in question.filters] + list(question.either):
        tests = []
        for wanted in group:
            test, more = _test(wanted)
            tests.append(test)
            values += more
        parts.append(f"({' OR '.join(tests)})" if len(tests) > 1 else tests[0])
    for bound, operator in ((question.since, ">="), (question.before, "<")):
        if bound is not None:
            parts.append(f"n.started {operator} ?")
            values.append(bound)
    return " AND ".join(parts), values


def _test(wanted: Filter) -> tuple[str, list[Any]]:
    if wanted.key not in FILTERS or wanted.key == "option":
        return f"(n.kind = 'run' AND {'NOT ' if wanted.negated else ''}fits(n.meta, ?))", [condition_json(wanted)]
    condition, values = _condition(wanted)
    if wanted.negated and wanted.key in _OF_RUNS:
        return f"(n.kind = 'run' AND n.id NOT IN (SELECT note FROM facets WHERE {condition}))", values
    return f"n.id {'NOT ' if wanted.negated else ''}IN (SELECT note FROM facets WHERE {condition})", values


def _condition(wanted: Filter) -> tuple[str, list[Any]]:
    if wanted.key in EXACT or wanted.operator == "=" or not wanted.values:
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
