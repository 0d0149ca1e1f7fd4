"""Queries of the index: notes that match a search, notes that pass filters, a run by its short name."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
from labbook.model.message import message
from labbook.model.run_fields import as_number, field_values
from labbook.store.notebook import Notebook
from labbook.store.project_folder import list_projects_around

if TYPE_CHECKING:
    import sqlite3

_LOOK_BACK = 1000
"""Most runs among which "last" looks for one that nobody else has recorded. Source: chosen by us; 20 ms."""


_RUNS = "SELECT name, path, meta FROM notes WHERE kind = 'run'"
_NEWEST_FIRST = "ORDER BY started DESC, name DESC"

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


def find_run(notebook: Notebook, word: str, *, has_ended: bool = False) -> Entry:
    """Returns the run named by "last", an id, its first or last characters, or the path of its entry.

    "last" is the newest run of the project that the working folder belongs to; elsewhere, and where that project has no
    run, the newest of the notebook. Runs that somebody else has recorded, and trials inside of another run, are left
    out; without others the newest of all counts.

    Args:
        has_ended: Whether "last" leaves out runs that are going on.

    Raises:
        NothingFoundError: There is no such run; names the nearest ids.
        UsageError: Several runs match.
    """
    word = word.strip()
    name = normalize_text(word).rsplit("/", 1)[-1].removesuffix(".md")
    is_last = name in ("last", "")

    def rows(index: sqlite3.Connection) -> tuple[list[tuple[str, str, str]], int]:
        if is_last:
            return _last_runs(index, notebook, has_ended=has_ended), 1
        exact = index.execute(f"{_RUNS} AND name = ?", (name,)).fetchall()
        if exact:
            return exact, 1
        for pattern in (f"{escape_like(name)}%", f"%-{escape_like(name)}"):
            where = "AND name LIKE ? ESCAPE '\\'"
            found = index.execute(f"{_RUNS} {where} {_NEWEST_FIRST} LIMIT 5", (pattern,)).fetchall()
            if found:
                count = f"SELECT count(*) FROM notes WHERE kind = 'run' {where}"
                return found, index.execute(count, (pattern,)).fetchone()[0]
        return [], 0

    (found, count), _ = query_index(notebook, rows)
    if found and count == 1:
        entry = Entry(found[0][1], json.loads(found[0][2]))
        if is_last and notebook.notify is not None and entry.meta.get("project"):
            project = str(entry.meta["project"]).rpartition("/")[2]
            notebook.notify(message("terminal.last_run", run=entry.id, project=project))
        return entry
    if found:
        several = ", ".join(row[0] for row in found)
        raise UsageError("errors.run.several", count=count, word=word, several=several)
    raise _no_run(notebook, word)


def _last_runs(index: sqlite3.Connection, notebook: Notebook, *, has_ended: bool) -> list[tuple[str, str, str]]:
    """Returns the run that "last" names, in a list; empty if there is none."""
    from labbook.store.git.git_identity import run_author

    own = (None, "", run_author(notebook.paths.root, notebook.config.author))
    newest = f"{_RUNS} AND name NOT LIKE '%-____t%' {_NEWEST_FIRST} LIMIT {_LOOK_BACK}"
    projects = list_projects_around(Path.cwd(), notebook)
    first: list[tuple[str, str, str]] = []
    of_user: dict[str | None, tuple[str, str, str]] = {}
    for row in index.execute(newest):
        meta, first = json.loads(row[2]), first or [row]
        if meta.get("author") not in own or (has_ended and meta.get("status") in (None, "running")):
            continue
        project = str(meta.get("project") or "")
        of_user.setdefault(None, row)
        of_user.setdefault(project, row)
        if project == projects[0]:
            break
    return next(([of_user[one]] for one in (*projects, None) if one in of_user), first)


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
