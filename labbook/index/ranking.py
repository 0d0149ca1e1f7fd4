"""Ranks the notes that match a query.

If the query is about a known failure and nothing else, the order is: runs with the same fingerprint; confirmed fixes of
the same failure of the same module, key or option, else the newest run with it; for each symptom
its confirmed fixes, then its page, where symptoms that are as likely are taken together; other runs with the symptom;
runs of the same family; notes with the words. If the query says more, notes with all its words in the title, the tags
or the text of people come before them.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass
from labbook.index.fix_outcomes import FixOutcome, confirmed_fix, fix_outcome
from labbook.index.hit import Hit
from labbook.index.query_fields import Filter
from labbook.index.query_parser import Question, match_expression, parse_query
from labbook.index.query_symptoms import QuerySymptoms
from labbook.index.sql_filters import filter_sql
from labbook.index.vocabulary import names_failure

if TYPE_CHECKING:
    import sqlite3

_WEIGHTS = "10.0, 6.0, 4.0, 2.0, 1.0"
"""Weights of title, tags, text of people, parts of names and generated text. Source: chosen by us, on tests/index."""

_MOST_LOOSE_TERMS = 12
"""Most words of a query that are searched one by one. Source: chosen by us; a pasted report has many."""

_COLUMNS_OF_PEOPLE = "{title tags own} :"
_COLUMN_OF_TEXT = "{own} :"

_MOST_FIXES = 3
"""Most fixes of a symptom before its page. Source: chosen by us."""

_MOST_NAMED, _FEW = 20, 3
"""Most failed runs with the names of a question that are an answer by that alone, and of a question about another
symptom. Source: chosen by us."""

_ENOUGH_WORDS = 0.65
"""Smallest share of the words of a query that a note must have, by rarity. Source: chosen by us."""

COUNTED = 2000
"""Most matching notes that are counted and ranked. Source: chosen by us; the time for ranking is proportional to the
number of notes with one of the words, 0.2 s for 100,000."""

_FRAMEWORKS = {"torch": "torch", "pytorch": "torch", "paddle": "paddle", "paddlepaddle": "paddle", "飞桨": "paddle"}

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


def find_best(
    index: sqlite3.Connection, question: Question, subject: QuerySymptoms, limit: int
) -> tuple[list[Row | Hit], int]:
    """Returns the best notes and pages, each once, and the number of matches, at most `COUNTED` and the pages."""
    answers = _Answers(limit)
    terms = match_expression(question)
    counted = 0
    answers.add(_runs_with_failure(index, question, replace(subject, symptoms=(), families=()), limit))
    with_names = _runs_with_names(index, question, subject)
    answers.add(row for row in with_names if row.meta.get("fix") or not subject.symptoms)
    if terms and not subject.whole:
        rows, counted = _match_words(
            index, question, limit, _COLUMN_OF_TEXT if subject.symptoms else _COLUMNS_OF_PEOPLE
        )
        answers.add(rows)
    if named := _find_named_filters(index, question):
        # "Wei nan": the runs of a person, project or machine come before the pages.
        own = replace(question, filters=(*question.filters, *named))
        answers.add(_runs_with_failure(index, own, replace(subject, fingerprints=(), families=()), limit))
    # Of a question about one framework, runs of another one come behind the pages.
    of_framework = replace(question, filters=(*question.filters, *_find_frameworks(question)))
    pages = {page.symptom: page for page in subject.pages}
    # Of the runs with the symptom of a pasted message, those with all its words come first: the same name or key.
    is_message = subject.whole and len(question.terms) > _MOST_FIXES
    same = {row.number for row in _match_words(index, question, limit, "")[0]} if is_message else set()
    # Of symptoms that are as likely, all fixes come before the pages.
    first, others = subject.symptoms[: subject.equal], subject.symptoms[subject.equal :]
    for names in (first, *((name,) for name in others)):
        for name in names:
            single = replace(subject, fingerprints=(), symptoms=(name,), families=())
            fixed = _runs_with_failure(index, of_framework, single, limit, fixed=(1,))
            answers.add(_distinct_fixes(sorted(fixed, key=lambda row: row.number not in same)))
        answers.add(pages[name] for name in names if name in pages)
    answers.add(subject.pages)
    answers.add(with_names)
    answers.add(_runs_with_failure(index, question, replace(subject, fingerprints=(), families=()), limit))
    if subject.whole:
        answers.add(_runs_with_failure(index, question, replace(subject, fingerprints=(), symptoms=()), limit))
    # The words of a known failure alone are evidence only where people wrote them, or in titles and tags.
    known = subject.whole and bool(answers.found)
    rows, more = _match_words(index, question, limit, _COLUMNS_OF_PEOPLE if known else "")
    answers.add(rows)
    if not answers.found:
        rows, more = _match_some_words(index, question, limit)
        answers.add(rows)
    total = max(counted, more, _count(index, question, subject) if subject.whole else 0)
    found = [one if isinstance(one, Hit) else _add_fix(index, one, subject) for one in answers.found.values()]
    return found, max(total, len(found) - len(pages)) + len(pages)


class _Answers:
    """Collects answers until there are enough, each once."""

    def __init__(self, limit: int) -> None:
        self.found: dict[int | str, Row | Hit] = {}
        self._limit = limit

    def add(self, rows: Iterable[Row | Hit]) -> None:
        """Adds answers that are not there yet."""
        for row in rows:
            if len(self.found) >= self._limit:
                return
            self.found.setdefault(row.symptom if isinstance(row, Hit) else row.number, row)


def _find_named_filters(index: sqlite3.Connection, question: Question) -> list[Filter]:
    """Returns filters for the people, projects and machines among the words of a query."""
    words = {form.lower() for term in question.terms for form in term.forms[:1]}
    marks = ", ".join("?" * len(words))
    query = f"SELECT DISTINCT key, value FROM facets WHERE key IN ('author', 'project', 'host') AND value IN ({marks})"
    return [Filter(key, (value,)) for key, value in index.execute(query, [*words]).fetchall()]


def _find_frameworks(question: Question) -> list[Filter]:
    """Returns a filter for the framework among the words of a query, if they name one."""
    named = {_FRAMEWORKS[form.lower()] for term in question.terms for form in term.forms if form.lower() in _FRAMEWORKS}
    return [Filter("framework", tuple(named))] if len(named) == 1 else []


def _runs_with_names(index: sqlite3.Connection, question: Question, subject: QuerySymptoms) -> list[Row]:
    """Returns the runs with the failure that have all names of a question: its fixes, else the newest.

    Names that no note has are left out; with all of them, a run of the same family counts. Where no run has both, the
    few failed runs with all names count, crashed ones first, unless the question is a message that the catalogue
    explains.
    """
    query = f"SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT {COUNTED}"
    named: set[int] = set()
    there: list[str] = []
    for name in subject.names:
        expression = match_expression(parse_query(f'"{name}"'))
        notes = {number for (number,) in index.execute(query, [expression]).fetchall()} if expression else set()
        if notes and (not named or named & notes):
            named, there = named & notes if named else notes, [*there, expression]
    if not named:
        return []
    has_all = len(there) == len(subject.names)
    families = subject.families if has_all else ()
    failed = _runs_with_failure(index, question, replace(subject, fingerprints=(), families=families), COUNTED)
    found = [row for row in failed if row.number in named]
    if not (found or subject.whole) and has_all:
        where, values = filter_sql(question)
        where = f"n.kind = 'run' AND n.id IN (SELECT note FROM failures) AND {where}"
        expression = " AND ".join(f"({one})" for one in there)
        rows, count = _matching(index, expression, where, values, _MOST_NAMED)
        found = [_row(row, "words") for row in rows] if count <= (_FEW if subject.symptoms else _MOST_NAMED) else []
        found.sort(key=lambda row: row.meta.get("status") == "finished")
    return [*_distinct_fixes(row for row in found if row.meta.get("fix"))] or found[:1]


def _distinct_fixes(rows: Iterable[Row]) -> Iterator[Row]:
    """Yields the newest run of each of the first fixes: a fix that helped often is one answer."""
    seen: set[str] = set()
    for row in rows:
        text, by = confirmed_fix(row.meta)
        if (text or by) not in seen:
            seen.add(text or by)
            yield row
        if len(seen) >= _MOST_FIXES:
            return


def _iter_subject_keys(subject: QuerySymptoms) -> Iterator[tuple[str, str]]:
    for key, names in (
        ("fingerprint", subject.fingerprints),
        ("symptom", subject.symptoms),
        ("family", subject.families),
    ):
        for name in names:
            yield key, name


def _runs_with_failure(
    index: sqlite3.Connection, question: Question, subject: QuerySymptoms, limit: int, fixed: Sequence[int] = (1, 0)
) -> Iterator[Row]:
    """Returns runs with the failure, best match first; among equal matches, those with a confirmed fix."""
    for key in ("fingerprint", "symptom", "family"):
        names = [name for one, name in _iter_subject_keys(subject) if one == key]
        for is_fixed in (1,) if _asks_for_fix(question) else fixed:
            for name in names:
                where, values = _remaining_filters(question, key, name)
                rows = index.execute(
                    f"SELECT {_COLUMNS} FROM failures f JOIN notes n ON n.id = f.note"
                    f" WHERE f.key = ? AND f.value = ? AND f.fixed = ? AND {where} ORDER BY f.started DESC LIMIT ?",
                    [key, name, is_fixed, *values, limit],
                )
                for row in rows.fetchall():
                    yield _row(row, f"same {key}", symptom=name if key == "symptom" else "")


def _asks_for_fix(question: Question) -> bool:
    return any(one.key == "has" and one.values == ("fix",) and not one.negated for one in question.filters)


def _remaining_filters(question: Question, key: str, name: str) -> tuple[str, list[Any]]:
    """Returns the filters that the table of failures does not cover."""
    rest = tuple(
        one
        for one in question.filters
        if one.negated or not ((one.key == key and name in one.values) or (one.key == "has" and one.values == ("fix",)))
    )
    return filter_sql(replace(question, filters=rest))


def _count(index: sqlite3.Connection, question: Question, subject: QuerySymptoms) -> int:
    """Returns the number of runs with one of the failures, at most `COUNTED`."""
    notes: set[int] = set()
    for key, name in _iter_subject_keys(subject):
        where, values = _remaining_filters(question, key, name)
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


def _match_words(index: sqlite3.Connection, question: Question, limit: int, columns: str) -> tuple[list[Row], int]:
    """Returns notes with all words, else with words of the same beginning, and their number, at most `COUNTED`.

    Of more notes than can be ranked, those with the words in title or tags come first, then the newest.

    Args:
        question: The query.
        limit: Maximum number of notes.
        columns: Columns to look in, "" for all.
    """
    where, values = filter_sql(question)
    if not question.terms:
        return _match_filters(index, question, where, values, limit)
    for prefix in (False, True):
        expression = match_expression(question, prefix=prefix)
        rows, count = _matching(index, f"{columns} ({expression})".strip(), where, values, limit)
        if count:
            return [_row(row, "words") for row in rows], count
    return [], 0


def _matching(
    index: sqlite3.Connection, expression: str, where: str, values: Sequence[Any], limit: int
) -> tuple[list[Any], int]:
    source = f"FROM words JOIN notes n ON n.id = words.rowid WHERE words MATCH ? AND {where}"
    newest = f"SELECT words.rowid {source} ORDER BY words.rowid DESC LIMIT {COUNTED}"
    numbers = [number for (number,) in index.execute(newest, [expression, *values]).fetchall()]
    if 0 < len(numbers) < COUNTED:
        query = f"SELECT {_COLUMNS} {source} ORDER BY bm25(words, {_WEIGHTS}), n.started DESC LIMIT ?"
        return index.execute(query, [expression, *values, limit]).fetchall(), len(numbers)
    return _newest_matches(index, expression, numbers, limit) if numbers else [], len(numbers)


def _match_some_words(index: sqlite3.Connection, question: Question, limit: int) -> tuple[list[Row], int]:
    """Returns notes with most of the words, by rarity; a word that no note has is as rare as can be.

    Without a word of a failure only titles, tags and the text of people are searched.
    """
    terms = [term for term in question.terms if not term.minor]
    if len(terms) < 2 or not match_expression(question):
        return [], 0
    where, values = filter_sql(question)
    columns = "" if names_failure(question.text) else _COLUMNS_OF_PEOPLE
    notes = index.execute("SELECT count(*) FROM notes").fetchone()[0]
    scores: defaultdict[int, float] = defaultdict(float)
    total = 0.0
    for term in terms[:_MOST_LOOSE_TERMS]:
        expression = match_expression(replace(question, terms=(term,)), prefix=True)
        query = "SELECT rowid FROM words WHERE words MATCH ? LIMIT ?"
        found = index.execute(query, [f"{columns} ({expression})".strip(), COUNTED]).fetchall()
        rarity = math.log(1 + notes / (1 + len(found)))
        total += rarity
        for (number,) in found:
            scores[number] += rarity
    best_first = sorted(scores, key=lambda number: -scores[number])[:COUNTED]
    enough = [number for number in best_first if scores[number] >= _ENOUGH_WORDS * total]
    marks = ", ".join("?" * len(enough))
    query = f"SELECT {_COLUMNS} FROM notes n WHERE n.id IN ({marks}) AND {where}"
    rows = index.execute(query, [*enough, *values]).fetchall()
    rows.sort(key=lambda row: (-scores[row[0]], -row[0]))
    return [_row(row, "words", loose=True) for row in rows[:limit]], len(rows)


def _newest_matches(index: sqlite3.Connection, expression: str, numbers: Sequence[int], limit: int) -> list[Any]:
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


def _match_filters(
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


def _row(row: Sequence[Any], why: str, *, symptom: str = "", loose: bool = False) -> Row:
    number, path, kind, title, meta, name = row
    return Row(number, path, kind, title, json.loads(meta), name, why, symptom, loose)


def _add_fix(index: sqlite3.Connection, row: Row, subject: QuerySymptoms) -> Row:
    listed = row.meta.get("symptoms")
    own = [str(name) for name in listed] if isinstance(listed, list) else []
    shared = row.symptom or next((name for name in own if name in subject.symptoms), own[0] if own else "")
    if row.kind == "symptom":
        shared = row.name
    held = fix_outcome(index, row.name, row.meta) if row.kind == "run" and row.meta.get("fix") else None
    return replace(row, symptom=shared, held=held)
