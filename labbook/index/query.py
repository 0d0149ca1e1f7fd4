"""Queries of the index: notes that match a search, notes that pass filters, a run by its short name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from labbook.errors import NothingFoundError, UsageError
from labbook.frozen import dataclass
from labbook.index.build import Refreshed, query_index
from labbook.index.fix_outcomes import confirmed_fix
from labbook.index.hit import Hit
from labbook.index.query_parser import Question, match_expression, near_filters, parse_query
from labbook.index.query_symptoms import QuerySymptoms
from labbook.index.ranking import Row, best
from labbook.index.snippet import find_snippet
from labbook.index.sql_filters import escaped, filter_sql
from labbook.model.entry import Entry
from labbook.store.notebook import Notebook

if TYPE_CHECKING:
    import sqlite3


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    Args:
        hits: Results, best first.
        total: Number of all matching notes.
        refreshed: Result of the update of the index, with the notes that cannot be read.
        words: Words to highlight in the snippets.
    """

    hits: tuple[Hit, ...]
    total: int
    refreshed: Refreshed
    words: tuple[str, ...]


@dataclass(frozen=True)
class Listed:
    """Notes that pass filters, newest first; their entries have no body."""

    entries: tuple[Entry, ...]
    total: int
    refreshed: Refreshed


def search(
    notebook: Notebook,
    words: str,
    limit: int = 10,
    *,
    meant: QuerySymptoms | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """Returns the notes that match words and filters, best first.

    Notes with all words come first, else those with words of the same beginning; then notes with some of the words.
    Runs with the symptom that the query is about come before them if the query says nothing else, see `ranking`.

    Args:
        notebook: Notebook to search.
        words: Words, "quoted phrases" and filters `key:value`, in English or Chinese.
        limit: Maximum number of results.
        meant: Failures that the query is about.
        tell: Called with (files read, files to read) while the index is updated.

    Raises:
        UsageError: The query is empty or has an invalid date.
        NothingFoundError: No note matches; the hint says what may help.
    """
    question, about = parse_search(words), meant or QuerySymptoms()
    (rows, total), refreshed = query_index(notebook, lambda index: best(index, question, about, limit), tell=tell)
    terms = _looked_for(question)
    hits = [*(_hit(notebook, row, terms) for row in rows)]
    if about.whole:
        place = sum(hit.why == "same fingerprint" or bool(hit.fix and hit.why == "same symptom") for hit in hits)
    else:
        place = next((number for number, hit in enumerate(hits) if hit.loose), len(hits))
    hits[place:place] = about.pages
    if not hits:
        raise NothingFoundError(f"nothing found for {words!r}", hint=_advice(words, question))
    return SearchResult(tuple(hits[:limit]), max(total + len(about.pages), len(hits[:limit])), refreshed, terms)


def parse_search(words: str) -> Question:
    """Returns the parsed query.

    Raises:
        UsageError: The query is empty or has an invalid date.
    """
    question = parse_query(words)
    if not question.terms and not _restricts(question):
        raise UsageError(
            "nothing to look for", hint='try `labbook search "loss nan"` or `labbook search status:failed`'
        )
    if question.terms and not match_expression(question):
        raise UsageError(f"{words!r} has no word to look for", hint="words are letters and digits")
    return question


def _looked_for(question: Question) -> tuple[str, ...]:
    asked = [term for term in question.terms if not term.minor] or question.terms
    return tuple(form for term in asked for form in term.forms)


def _hit(notebook: Notebook, row: Row, terms: tuple[str, ...]) -> Hit:
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
    tell: Callable[[int, int], None] | None = None,
) -> Listed:
    """Returns notes of one kind that pass filters and have all words in `filters`, newest first.

    Raises:
        UsageError: A date is invalid.
    """
    question = parse_query(filters)
    expression = match_expression(question)

    def rows(index: sqlite3.Connection) -> tuple[list[tuple[str, str]], int]:
        where, values = filter_sql(question)
        where = f"{where} AND n.kind = ?"
        values = [*values, kind]
        if expression:
            where += " AND n.id IN (SELECT rowid FROM words WHERE words MATCH ?)"
            values.append(expression)
        total = index.execute(f"SELECT count(*) FROM notes n WHERE {where}", values).fetchone()[0]
        order = "ORDER BY n.started DESC, n.name DESC LIMIT ?"
        query = f"SELECT n.path, n.meta FROM notes n WHERE {where} {order}"
        return index.execute(query, [*values, -1 if limit is None else limit]).fetchall(), total

    (found, total), refreshed = query_index(notebook, rows, tell=tell)
    return Listed(tuple(Entry(path, json.loads(meta)) for path, meta in found), total, refreshed)


def find_run(notebook: Notebook, word: str) -> Entry:
    """Returns the run named by "last", an id, its first or last characters, or the path of its entry.

    Raises:
        NothingFoundError: There is no such run; names the nearest ids.
        UsageError: Several runs match.
    """
    word = word.strip()
    name = word.rsplit("/", 1)[-1].removesuffix(".md")

    def rows(index: sqlite3.Connection) -> list[tuple[str, str, str]]:
        columns = "SELECT name, path, meta FROM notes WHERE kind = 'run'"
        order = "ORDER BY started DESC, name DESC"
        if name in ("last", ""):
            return index.execute(f"{columns} {order} LIMIT 1").fetchall()
        exact = index.execute(f"{columns} AND name = ?", (name,)).fetchall()
        if exact:
            return exact[:1]
        pattern = escaped(name)
        start = index.execute(f"{columns} AND name LIKE ? ESCAPE '\\' {order} LIMIT 20", (f"{pattern}%",)).fetchall()
        if start:
            return start
        return index.execute(f"{columns} AND name LIKE ? ESCAPE '\\' {order} LIMIT 20", (f"%-{pattern}",)).fetchall()

    found, _ = query_index(notebook, rows)
    if len(found) == 1:
        return Entry(found[0][1], json.loads(found[0][2]))
    if found:
        several = ", ".join(row[0] for row in found[:5])
        raise UsageError(f"{len(found)} runs begin with {word!r}: {several}", hint="give more characters of the id")
    raise _no_run(notebook, word)


def run_names(notebook: Notebook, beginning: str, limit: int = 50) -> list[tuple[str, str]]:
    """Returns (id, title) of the runs whose id has this beginning, newest first; for shell completion."""

    def rows(index: sqlite3.Connection) -> list[tuple[str, str]]:
        query = (
            "SELECT name, title FROM notes WHERE kind = 'run' AND name LIKE ? ESCAPE '\\'"
            " ORDER BY started DESC, name DESC LIMIT ?"
        )
        return index.execute(query, (f"{escaped(beginning)}%", limit)).fetchall()

    return query_index(notebook, rows)[0]


def _no_run(notebook: Notebook, word: str) -> NothingFoundError:
    from difflib import get_close_matches

    names = [name for name, _ in run_names(notebook, "", 5000)]
    if not names:
        return NothingFoundError("there is no run yet", hint="record one: labbook record -- python train.py")
    near = get_close_matches(word, names, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "`labbook list` shows the ids of recent runs"
    return NothingFoundError(f"there is no run {word!r}", hint=hint)


def _restricts(question: Question) -> bool:
    return bool(question.filters) or question.since is not None or question.before is not None


def _advice(words: str, question: Question) -> str:
    meant = near_filters(words)
    if meant:
        return f"did you mean {' '.join(meant)}?"
    if _restricts(question):
        return "leave out a filter, or try `labbook list`"
    return "try fewer or other words; `labbook list` shows all runs"
