"""Queries of the index: notes that match a search, notes that pass filters, a run by its short name."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labbook.errors import NothingFoundError, UsageError
from labbook.frozen import dataclass
from labbook.index.build import RefreshResult, query_index
from labbook.index.cjk import normalize_text
from labbook.index.fix_outcomes import confirmed_fix
from labbook.index.hit import Hit
from labbook.index.query_error import QueryError, unknown
from labbook.index.query_fields import FILTERS, FieldNames, Filter, condition_json, field_names, fits, unmatched_value
from labbook.index.query_parser import Question, match_expression, parse_query
from labbook.index.query_symptoms import QuerySymptoms
from labbook.index.ranking import Row, find_best
from labbook.index.snippet import find_snippet
from labbook.index.sql_filters import escape_like, filter_sql, store_compared_values
from labbook.model.entry import Entry
from labbook.model.run_fields import as_number, field_values
from labbook.store.notebook import Notebook

if TYPE_CHECKING:
    import sqlite3

_LOOK_BACK = 1000
"""Most runs among which "last" looks for one that nobody else has recorded. Source: chosen by us; 20 ms."""


_MOST_RANGED = 2000
"""Newest runs whose values are read for the range of a comparison that no run fits."""


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    Args:
        hits: Results, best first.
        refreshed: Result of the update of the index, with the notes that cannot be read.
        words: Words to highlight in the snippets.
    """

    hits: tuple[Hit, ...]
    total: int
    refreshed: RefreshResult
    words: tuple[str, ...]


@dataclass(frozen=True)
class NoteList:
    """Notes that pass filters, newest first; their entries have no body.

    Args:
        missing: Without any entry, the value that no note has, if there is one.
        keys: Options, metrics and other fields that the query compares.
    """

    entries: tuple[Entry, ...]
    total: int
    refreshed: RefreshResult
    missing: QueryError | None = None
    keys: tuple[str, ...] = ()


def search(
    notebook: Notebook,
    words: str,
    limit: int = 10,
    *,
    subject: QuerySymptoms | None = None,
    notify: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """Returns the notes that match words and conditions, best first.

    Notes with all words come first, else those with words of the same beginning; without any, notes with most of the
    words. Runs and pages of the symptoms that the query is about come before, see `ranking`.

    Args:
        words: Words, "quoted phrases" and conditions (`key:value`, `lr<0.02`), in English or Chinese.
        subject: Failures that the query is about.
        notify: Called with (files read, files to read) while the index is updated.

    Raises:
        QueryError: The query is empty, or has an unknown name or value.
        NothingFoundError: No note matches; the hint says what may help.
    """
    about = subject or QuerySymptoms()

    def answer(index: sqlite3.Connection) -> tuple[list[Row | Hit], int, Question, QueryError | None]:
        question = store_compared_values(index, parse_search(words, field_names(index)))
        rows, total = find_best(index, question, about, limit)
        return rows, total, question, None if rows else _find_missing_value(index, question)

    (rows, total, question, missing), refreshed = query_index(notebook, answer, notify=notify)
    wanted = [term for term in question.terms if not term.minor] or question.terms
    terms = tuple(form for term in wanted for form in term.forms)
    hits = [row if isinstance(row, Hit) else _build_hit(notebook, row, terms) for row in rows]
    if not hits:
        raise _nothing_found_error(words, question, missing)
    return SearchResult(tuple(hits[:limit]), max(total, len(hits[:limit])), refreshed, terms)


def read_field_names(notebook: Notebook) -> FieldNames:
    """Returns the names of all fields, options and metrics by which runs of a notebook can be filtered."""
    return query_index(notebook, field_names)[0]


def parse_search(words: str, names: FieldNames | None = None) -> Question:
    """Returns the parsed query.

    Raises:
        QueryError: The query is empty, or has an unknown name or value.
    """
    question = parse_query(words, names)
    if not question.is_restricted and not match_expression(question):
        raise QueryError("terminal.query.nothing_to_look_for", advice="terminal.query.nothing_advice")
    return question


def _find_missing_value(index: sqlite3.Connection, question: Question) -> QueryError | None:
    """Returns what is wrong with a query without an answer: a value that no note has."""
    found = unmatched_value(index, question.filters)
    return _unknown_value(*found) if found is not None else _find_missing_option_value(index, question)


def _unknown_value(wanted: Filter, known: Sequence[str]) -> QueryError:
    write, name = (lambda near: f"{wanted.key}:{near}"), ",".join(wanted.values)
    return unknown("terminal.query.no_such_value", name, known, write, field=wanted.key)


def _find_missing_option_value(index: sqlite3.Connection, question: Question) -> QueryError | None:
    """Returns what is wrong with a condition on an option or metric that no run fits: its values, or their range."""
    for wanted in question.filters:
        is_range = wanted.operator not in (":", "=")
        if wanted.negated or (wanted.key in FILTERS and not is_range):
            continue
        newest = "SELECT meta FROM notes WHERE kind = 'run' ORDER BY started DESC LIMIT ?"
        metas = [meta for (meta,) in index.execute(newest, (_MOST_RANGED,)).fetchall()]
        values = [value for meta in metas for value in field_values(json.loads(meta), wanted.key)]
        numbers = [number for number in map(as_number, values) if number is not None and math.isfinite(number)]
        if not (numbers if is_range else values) or any(fits(meta, condition_json(wanted)) for meta in metas):
            continue
        if not is_range:
            return _unknown_value(wanted, [str(value) for value in values if isinstance(value, (str, int, float))])
        low, high = f"{min(numbers):.4g}", f"{max(numbers):.4g}"
        return QueryError("terminal.query.beyond", name=wanted.key, low=low, high=high, advice="terminal.query.all")
    return None


def _nothing_found_error(words: str, question: Question, missing: QueryError | None) -> NothingFoundError:
    if missing is not None:
        return NothingFoundError.from_data(missing.as_data())
    advice = "terminal.search.no_match_filters" if question.is_restricted else "terminal.search.no_match_words"
    return NothingFoundError("terminal.search.no_match", words=words, advice=advice)


def _build_hit(notebook: Notebook, row: Row, terms: tuple[str, ...]) -> Hit:
    line, snippet = find_snippet(notebook.paths.root / row.path, terms)
    text, by = confirmed_fix(row.meta)
    return Hit(
        row.path, line, row.title, snippet, row.meta, row.kind, row.loose, row.why, row.symptom, text, by,
        row.held.runs if row.held else None, row.held.returned if row.held else "",
    )  # fmt: skip


def list_notes(
    notebook: Notebook,
    filters: str = "",
    *,
    kind: str = "run",
    limit: int | None = None,
    notify: Callable[[int, int], None] | None = None,
) -> NoteList:
    """Returns notes of one kind that pass conditions and have all words in `filters`, newest first.

    Raises:
        QueryError: A name or a value is not known, or a date cannot be read.
    """

    def rows(index: sqlite3.Connection) -> tuple[list[tuple[str, str]], int, QueryError | None, tuple[str, ...]]:
        question = parse_query(filters, field_names(index) if filters else None, strict=True)
        expression = match_expression(question)
        question = store_compared_values(index, question)
        where, values = filter_sql(question)
        where = f"{where} AND n.kind = ?"
        values = [*values, kind]
        if expression:
            where += " AND n.id IN (SELECT rowid FROM words WHERE words MATCH ?)"
            values.append(expression)
        total = index.execute(f"SELECT count(*) FROM notes n WHERE {where}", values).fetchone()[0]
        order = "ORDER BY n.started DESC, n.name DESC LIMIT ?"
        query = f"SELECT n.path, n.meta FROM notes n WHERE {where} {order}"
        found = index.execute(query, [*values, -1 if limit is None else limit]).fetchall()
        return found, total, None if found else _find_missing_value(index, question), question.compared_keys

    (found, total, missing, keys), refreshed = query_index(notebook, rows, notify=notify)
    return NoteList(tuple(Entry(path, json.loads(meta)) for path, meta in found), total, refreshed, missing, keys)


def find_run(notebook: Notebook, word: str, *, project: str | None = None) -> Entry:
    """Returns the run named by "last", an id, its first or last characters, or the path of its entry.

    "last" is the newest run that nobody else has recorded, else the newest of all; no trial inside of another run.

    Args:
        project: Identity of a project: "last" is its newest run that has ended, if there is one.

    Raises:
        NothingFoundError: There is no such run; names the nearest ids.
        UsageError: Several runs match.
    """
    word = word.strip()
    name = normalize_text(word).rsplit("/", 1)[-1].removesuffix(".md")

    def rows(index: sqlite3.Connection) -> tuple[list[tuple[str, str, str]], int]:
        columns = "name, path, meta FROM notes WHERE kind = 'run'"
        order = "ORDER BY started DESC, name DESC"
        if name in ("last", ""):
            from labbook.store.git.git_identity import run_author

            own = (None, "", run_author(notebook.paths.root, notebook.config.author))
            cursor = index.execute(f"SELECT {columns} AND name NOT LIKE '%-____t%' {order} LIMIT {_LOOK_BACK}")
            newest = cursor.fetchone()
            if newest is None:
                return [], 0
            # Read until the first one of the user: mostly the newest.
            entries = ((row, json.loads(row[2])) for row in itertools.chain([newest], cursor))
            of_user = ((row, meta) for row, meta in entries if meta.get("author") in own)
            first: tuple[Any, dict[str, Any]] = next(of_user, (newest, {}))
            if project is None:
                return [first[0]], 1
            ended = (row for row, meta in itertools.chain([first], of_user) if _has_ended_in(project, meta))
            return [next(ended, first[0])], 1
        exact = index.execute(f"SELECT {columns} AND name = ?", (name,)).fetchall()
        if exact:
            return exact, 1
        for pattern in (f"{escape_like(name)}%", f"%-{escape_like(name)}"):
            where = f"{columns} AND name LIKE ? ESCAPE '\\'"
            found = index.execute(f"SELECT {where} {order} LIMIT 5", (pattern,)).fetchall()
            if found:
                return found, index.execute(f"SELECT count(*), {where}", (pattern,)).fetchone()[0]
        return [], 0

    (found, count), _ = query_index(notebook, rows)
    if found and count == 1:
        return Entry(found[0][1], json.loads(found[0][2]))
    if found:
        several = ", ".join(row[0] for row in found)
        raise UsageError("errors.run.several", count=count, word=word, several=several)
    raise _no_run(notebook, word)


def _has_ended_in(project: str, meta: Mapping[str, Any]) -> bool:
    """Whether a run belongs to a project and is no longer recorded."""
    return str(meta.get("project") or "") == project and meta.get("status") not in (None, "running")


def run_names(notebook: Notebook, beginning: str, limit: int = 50) -> list[tuple[str, str]]:
    """Returns (id, title) of the runs whose id has this beginning, newest first; for shell completion."""

    def rows(index: sqlite3.Connection) -> list[tuple[str, str]]:
        query = (
            "SELECT name, title FROM notes WHERE kind = 'run' AND name LIKE ? ESCAPE '\\'"
            " ORDER BY started DESC, name DESC LIMIT ?"
        )
        return index.execute(query, (f"{escape_like(beginning)}%", limit)).fetchall()

    return query_index(notebook, rows)[0]


def _no_run(notebook: Notebook, word: str) -> NothingFoundError:
    from difflib import get_close_matches

    names = [name for name, _ in run_names(notebook, "", 5000)]
    if not names:
        return NothingFoundError("errors.run.none_yet")
    near = get_close_matches(word, names, n=3, cutoff=0.6)
    advice = "errors.run.near_advice" if near else ""
    return NothingFoundError("errors.run.unknown", word=word, near=near, advice=advice)
