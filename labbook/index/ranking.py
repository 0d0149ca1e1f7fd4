"""Ranks the notes that match a query.

If the query is about a known failure and nothing else, the order is: runs with the same fingerprint, runs with the same
symptom and a confirmed fix, other runs with the symptom, runs of the same family, notes with the words. If the query
says more, notes with all its words come before runs with the symptom.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass
from labbook.index.fix_outcomes import FixOutcome, fix_outcome
from labbook.index.query_parser import Question, match_expression
from labbook.index.query_symptoms import QuerySymptoms
from labbook.index.sql_filters import filter_sql

if TYPE_CHECKING:
    import sqlite3

_WEIGHTS = "10.0, 6.0, 2.0, 1.0"
"""Weights of title, tags, parts of names and text. Source: chosen by us, tried on the entries of tests/index."""

_MOST_LOOSE_TERMS = 12
"""Most words of a query that are searched one by one. Source: chosen by us; a pasted report has many."""

COUNTED = 2000
"""Most matching notes that are counted and ranked. Source: chosen by us; the time for ranking is proportional to the
number of notes with one of the words, 0.2 s for 100,000."""

_COLUMNS = "n.id, n.path, n.kind, n.title, n.meta, n.name"


@dataclass(frozen=True)
class Row:
    """A matching note.

    Args:
        why: "same fingerprint", "same symptom", "same family", "words" or "filters".
        symptom: Symptom shared with the query, else its first one, else "".
        held: Outcome of its fix, `None` without a fix.
    """

    number: int
    path: str
    kind: str
    title: str
    meta: Mapping[str, Any]
    name: str
    why: str
    symptom: str = ""
    loose: bool = False
    held: FixOutcome | None = None


def best(index: sqlite3.Connection, question: Question, meant: QuerySymptoms, limit: int) -> tuple[list[Row], int]:
    """Returns the best notes, each once, and the number of matches, at most `COUNTED`."""
    found: dict[int, Row] = {}

    def take(rows: Iterable[Row]) -> None:
        for row in rows:
            if len(found) >= limit:
                return
            found.setdefault(row.number, row)

    known = bool(meant.symptoms or meant.fingerprints)
    total = 0
    first = meant if meant.whole else replace(meant, symptoms=(), families=())
    take(_alike(index, question, first, limit))
    if len(found) < limit:
        rows, total = _by_words(index, question, limit, known)
        loose = bool(rows) and rows[0].loose
        if not loose:
            take(rows)
        if not meant.whole:
            take(_alike(index, question, replace(meant, fingerprints=()), limit))
        if loose:
            take(rows)
    else:
        total = _count(index, question, first)
    return [_with_fix(index, row, meant) for row in found.values()], max(total, len(found))


def _wanted(meant: QuerySymptoms) -> Iterator[tuple[str, str]]:
    for key, names in (("fingerprint", meant.fingerprints), ("symptom", meant.symptoms), ("family", meant.families)):
        for name in names:
            yield key, name


def _alike(index: sqlite3.Connection, question: Question, meant: QuerySymptoms, limit: int) -> Iterator[Row]:
    """Returns runs with the failure, best match first; among equal matches, those with a confirmed fix."""
    for key in ("fingerprint", "symptom", "family"):
        names = [name for one, name in _wanted(meant) if one == key]
        for fixed in (1,) if _asks_for_fix(question) else (1, 0):
            for name in names:
                where, values = _rest(question, key, name)
                rows = index.execute(
                    f"SELECT {_COLUMNS} FROM failures f JOIN notes n ON n.id = f.note"
                    f" WHERE f.key = ? AND f.value = ? AND f.fixed = ? AND {where} ORDER BY f.started DESC LIMIT ?",
                    [key, name, fixed, *values, limit],
                )
                for row in rows.fetchall():
                    yield _row(row, f"same {key}", symptom=name if key == "symptom" else "")


def _asks_for_fix(question: Question) -> bool:
    return any(one.key == "has" and one.values == ("fix",) and not one.negated for one in question.filters)


def _rest(question: Question, key: str, name: str) -> tuple[str, list[Any]]:
    """Returns the filters that the table of failures does not cover."""
    rest = tuple(
        one
        for one in question.filters
        if one.negated or not ((one.key == key and name in one.values) or (one.key == "has" and one.values == ("fix",)))
    )
    return filter_sql(replace(question, filters=rest))


def _count(index: sqlite3.Connection, question: Question, meant: QuerySymptoms) -> int:
    """Returns the number of runs with one of the failures, at most `COUNTED`."""
    notes: set[int] = set()
    for key, name in _wanted(meant):
        where, values = _rest(question, key, name)
        # Without a filter the notes are not read.
        source = "failures f" if where == "1" else "failures f JOIN notes n ON n.id = f.note"
        rows = index.execute(
            f"SELECT f.note FROM {source} WHERE f.key = ? AND f.value = ? AND f.fixed >= ? AND {where} LIMIT ?",
            [key, name, int(_asks_for_fix(question)), *values, COUNTED],
        )
        notes.update(number for (number,) in rows.fetchall())
        if len(notes) >= COUNTED:
            return COUNTED
    return len(notes)


def _by_words(index: sqlite3.Connection, question: Question, limit: int, known: bool) -> tuple[list[Row], int]:
    """Returns notes with the words, and their number, at most `COUNTED`.

    Of more notes than can be ranked, those with the words in title or tags come first, then the newest.

    Args:
        index: The index.
        question: The query.
        limit: Maximum number of notes.
        known: Whether there are other results: then notes with only some of many words are left out.
    """
    where, values = filter_sql(question)
    source = f"FROM words JOIN notes n ON n.id = words.rowid WHERE words MATCH ? AND {where}"
    for expression, loose in _attempts(question, known):
        if not expression:
            return _by_filters(index, question, where, values, limit)
        newest = f"SELECT words.rowid {source} ORDER BY words.rowid DESC LIMIT {COUNTED}"
        numbers = [number for (number,) in index.execute(newest, [expression, *values]).fetchall()]
        if not numbers:
            continue
        if len(numbers) < COUNTED:
            query = f"SELECT {_COLUMNS} {source} ORDER BY bm25(words, {_WEIGHTS}), n.started DESC LIMIT ?"
            rows = index.execute(query, [expression, *values, limit]).fetchall()
        else:
            rows = _newest(index, expression, numbers, limit)
        return [_row(row, "words", loose=loose) for row in rows], len(numbers)
    return [], 0


def _newest(index: sqlite3.Connection, expression: str, numbers: Sequence[int], limit: int) -> list[Any]:
    """Returns the newest notes with the words in title or tags, then the newest others."""
    titled = index.execute(
        "SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? ORDER BY rowid DESC LIMIT ?",
        [f"{{title tags}} : ({expression})", numbers[-1], COUNTED],
    )
    there = set(numbers)
    chosen = list(dict.fromkeys([*(number for (number,) in titled.fetchall() if number in there), *numbers]))[:limit]
    marks = ", ".join("?" * len(chosen))
    rows = index.execute(f"SELECT {_COLUMNS} FROM notes n WHERE n.id IN ({marks})", chosen).fetchall()
    return sorted(rows, key=lambda row: chosen.index(row[0]))


def _by_filters(
    index: sqlite3.Connection, question: Question, where: str, values: list[Any], limit: int
) -> tuple[list[Row], int]:
    order = "ORDER BY n.started DESC, n.name DESC"
    if any(one.key in ("symptom", "family", "fingerprint") and not one.negated for one in question.filters):
        fixed = "n.id IN (SELECT note FROM facets WHERE key = 'has' AND value = 'fix')"
        order = f"ORDER BY {fixed} DESC, n.started DESC, n.name DESC"
    query = f"SELECT {_COLUMNS} FROM notes n WHERE {where} {order} LIMIT ?"
    total = index.execute(f"SELECT count(*) FROM (SELECT 1 FROM notes n WHERE {where} LIMIT {COUNTED})", values)
    rows = index.execute(query, [*values, limit]).fetchall()
    return [_row(row, "filters") for row in rows], total.fetchone()[0]


def _attempts(question: Question, known: bool) -> Iterator[tuple[str, bool]]:
    yield match_expression(question), False
    if question.terms:
        yield match_expression(question, prefix=True), False
    if len(question.terms) > 1 and not (known and len(question.terms) > _MOST_LOOSE_TERMS):
        yield match_expression(question, any_term=True, prefix=True), True


def _row(row: Sequence[Any], why: str, *, symptom: str = "", loose: bool = False) -> Row:
    number, path, kind, title, meta, name = row
    return Row(number, path, kind, title, json.loads(meta), name, why, symptom, loose)


def _with_fix(index: sqlite3.Connection, row: Row, meant: QuerySymptoms) -> Row:
    listed = row.meta.get("symptoms")
    own = [str(name) for name in listed] if isinstance(listed, list) else []
    shared = row.symptom or next((name for name in own if name in meant.symptoms), own[0] if own else "")
    if row.kind == "symptom":
        shared = row.name
    held = fix_outcome(index, row.name, row.meta) if row.kind == "run" and row.meta.get("fix") else None
    return replace(row, symptom=shared, held=held)
