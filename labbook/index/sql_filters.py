"""Writes the filters of a query in SQL."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labbook.index.database import transaction
from labbook.index.query_fields import CONTAINS, EXACT, FILTERS, Filter, condition_json
from labbook.index.query_parser import Question
from labbook.model.run_fields import field_values

if TYPE_CHECKING:
    import sqlite3

_LAST = chr(0x10FFFF)
_OF_RUNS = frozenset({"status", "verdict"})
"""Fields that every run has and no other note: `-status:failed` finds runs."""


_MANY = 2000
"""Up to this number of runs, values are read out of the front matter for every query. Source: chosen by us; 40 ms."""


def store_compared_values(index: sqlite3.Connection, question: Question) -> Question:
    """Stores, in a notebook of many runs, the values that the query compares; returns the query with their keys.

    A value of a run is read out of its front matter by the first query that compares it.

    Cost: 4 s for a key of 100,000 runs, then 2 ms and what is new.
    """
    keys = question.compared_keys
    many = "SELECT count(*) FROM (SELECT 1 FROM notes WHERE kind = 'run' LIMIT ?)"
    if not keys or index.execute(many, (_MANY + 1,)).fetchone()[0] <= _MANY:
        return question
    index.execute("CREATE TABLE IF NOT EXISTS stored_keys (key TEXT PRIMARY KEY, newest INTEGER NOT NULL)")
    newest = index.execute("SELECT max(id) FROM notes").fetchone()[0]
    stored = dict(index.execute("SELECT key, newest FROM stored_keys").fetchall())
    for key in (key for key in keys if stored.get(key, 0) < newest):
        with transaction(index):
            query = "SELECT id, meta FROM notes WHERE kind = 'run' AND id > ? AND id <= ?"
            found = index.execute(query, (stored.get(key, 0), newest)).fetchall()
            values = ((number, field_values(json.loads(meta), key)) for number, meta in found)
            rows = ((_facet_key(key), json.dumps(value), number) for number, several in values for value in several)
            index.executemany("INSERT OR IGNORE INTO facets VALUES (?, ?, ?)", rows)
            index.execute("INSERT OR REPLACE INTO stored_keys VALUES (?, ?)", (key, newest))
    return replace(question, stored_keys=frozenset(keys))


def _facet_key(key: str) -> str:
    """Returns the key of the facets with the values of a field of the front matter."""
    return f"={key}"


def filter_sql(question: Question) -> tuple[str, list[Any]]:
    """Returns the filters of a query as a condition on `notes n`, with its values.

    Fields, options and metrics of the front matter are compared by the function `fits`, which the connection has.
    """
    parts, values = ["1"], []
    for group in [(wanted,) for wanted in question.filters] + list(question.either):
        tests = []
        for wanted in group:
            test, more = _test(wanted, is_stored=wanted.key in question.stored_keys)
            tests.append(test)
            values += more
        parts.append(f"({' OR '.join(tests)})" if len(tests) > 1 else tests[0])
    for bound, operator in ((question.since, ">="), (question.before, "<")):
        if bound is not None:
            parts.append(f"n.started {operator} ?")
            values.append(bound)
    return " AND ".join(parts), values


def _test(wanted: Filter, *, is_stored: bool) -> tuple[str, list[Any]]:
    if is_stored:
        fitting = "SELECT note FROM facets WHERE key = ? AND value_fits(value, ?)"
        test = f"(n.kind = 'run' AND n.id {'NOT ' if wanted.negated else ''}IN ({fitting}))"
        return test, [_facet_key(wanted.key), condition_json(wanted)]
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
    return f"key = ? AND ({tests})", [wanted.key, *(f"%{escape_like(value)}%" for value in wanted.values)]


def escape_like(text: str) -> str:
    """Returns `text` for LIKE, with its wildcards escaped by a backslash."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
