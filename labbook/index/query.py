"""Answers from the index: notes that match a search, runs that pass filters, the run that somebody means."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from labbook.errors import NothingFoundError, UsageError
from labbook.frozen import dataclass
from labbook.index.build import Refreshed, ask
from labbook.index.passage import passage
from labbook.index.question import CONTAINS, EXACT, Filter, Question, match_expression, near_filters, understood
from labbook.model.entry import Entry
from labbook.store.notebook import Notebook

if TYPE_CHECKING:
    import sqlite3

_Row = tuple[str, str, str, str]
_WEIGHTS = "10.0, 6.0, 2.0, 1.0"
"""Of title, tags, parts of names, text. Source: chosen by us, tried on the entries of tests/index."""


@dataclass(frozen=True)
class Hit:
    """A note that was found.

    Args:
        path: Relative to the notebook, forward slashes.
        line: Where the best passage stands, from 1.
        snippet: That passage, as plain text.
        meta: The front matter.
        kind: "run", "experiment", "symptom", "report" or "note".
        loose: True when the note has some of the words only, because none has all.
    """

    path: str
    line: int
    title: str
    snippet: str
    meta: Mapping[str, Any]
    kind: str = "note"
    loose: bool = False


@dataclass(frozen=True)
class Found:
    """The answer to a search.

    Args:
        hits: Best first.
        total: How many notes match in all.
        refreshed: What the index had to do first; names the notes that cannot be read.
        words: The words that were looked for, to be marked in the snippets.
    """

    hits: tuple[Hit, ...]
    total: int
    refreshed: Refreshed
    words: tuple[str, ...]


@dataclass(frozen=True)
class Listed:
    """Notes that pass filters, newest first; the entries have no body."""

    entries: tuple[Entry, ...]
    total: int
    refreshed: Refreshed


def search(notebook: Notebook, words: str, limit: int = 10, *, tell: Callable[[int, int], None] | None = None) -> Found:
    """The notes that fit words and filters, best first.

    First those with all the words; when there is none, those with words that begin so; then those with some of them.

    Args:
        notebook: Where to look.
        words: Words, "quoted phrases" and filters `key:value`, in English or Chinese.
        limit: How many hits at most.
        tell: Called with (files read, files to read) while the index is brought up to date.

    Raises:
        UsageError: Nothing is asked, or a date cannot be read.
        NothingFoundError: No note fits; the hint says what may help.
    """
    question = understood(words)
    if not question.terms and not _restricts(question):
        raise UsageError(
            "nothing to look for", hint='try `labbook search "loss nan"` or `labbook search status:failed`'
        )
    if question.terms and not match_expression(question):
        raise UsageError(f"{words!r} has no word to look for", hint="words are letters and digits")
    (rows, total, loose), refreshed = ask(notebook, lambda index: _best(index, question, limit), tell=tell)
    if not rows:
        raise NothingFoundError(f"nothing found for {words!r}", hint=_advice(words, question))
    asked = [term for term in question.terms if not term.minor] or question.terms
    terms = [form for term in asked for form in term.forms]
    hits = []
    for path, kind, title, meta in rows:
        line, snippet = passage(notebook.paths.root / path, terms)
        hits.append(Hit(path, line, title, snippet, json.loads(meta), kind, loose))
    return Found(tuple(hits), total, refreshed, tuple(terms))


def listed(
    notebook: Notebook,
    filters: str = "",
    *,
    kind: str = "run",
    limit: int | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> Listed:
    """Notes of one kind that pass filters, newest first; words in `filters` must occur, too.

    Raises:
        UsageError: A date cannot be read.
    """
    question = understood(filters)
    expression = match_expression(question)

    def rows(index: sqlite3.Connection) -> tuple[list[tuple[str, str]], int]:
        where, values = _conditions(question)
        where = f"{where} AND n.kind = ?"
        values = [*values, kind]
        if expression:
            where += " AND n.id IN (SELECT rowid FROM words WHERE words MATCH ?)"
            values.append(expression)
        total = index.execute(f"SELECT count(*) FROM notes n WHERE {where}", values).fetchone()[0]
        order = "ORDER BY n.started DESC, n.name DESC LIMIT ?"
        query = f"SELECT n.path, n.meta FROM notes n WHERE {where} {order}"
        return index.execute(query, [*values, -1 if limit is None else limit]).fetchall(), total

    (found, total), refreshed = ask(notebook, rows, tell=tell)
    return Listed(tuple(Entry(path, json.loads(meta)) for path, meta in found), total, refreshed)


def find_run(notebook: Notebook, word: str) -> Entry:
    """The run that is meant by "last", by an id, its beginning or its last characters, or by the path of its entry.

    Raises:
        NothingFoundError: There is none; the nearest ids are named.
        UsageError: Several begin so.
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
        pattern = _escaped(name)
        start = index.execute(f"{columns} AND name LIKE ? ESCAPE '\\' {order} LIMIT 20", (f"{pattern}%",)).fetchall()
        if start:
            return start
        return index.execute(f"{columns} AND name LIKE ? ESCAPE '\\' {order} LIMIT 20", (f"%-{pattern}",)).fetchall()

    found, _ = ask(notebook, rows)
    if len(found) == 1:
        return Entry(found[0][1], json.loads(found[0][2]))
    if found:
        several = ", ".join(row[0] for row in found[:5])
        raise UsageError(f"{len(found)} runs begin with {word!r}: {several}", hint="give more characters of the id")
    raise _no_run(notebook, word)


def run_names(notebook: Notebook, beginning: str, limit: int = 50) -> list[tuple[str, str]]:
    """Ids of runs that begin so, newest first, each with its title; for shell completion."""

    def rows(index: sqlite3.Connection) -> list[tuple[str, str]]:
        query = (
            "SELECT name, title FROM notes WHERE kind = 'run' AND name LIKE ? ESCAPE '\\'"
            " ORDER BY started DESC, name DESC LIMIT ?"
        )
        return index.execute(query, (f"{_escaped(beginning)}%", limit)).fetchall()

    return ask(notebook, rows)[0]


def _no_run(notebook: Notebook, word: str) -> NothingFoundError:
    from difflib import get_close_matches

    names = [name for name, _ in run_names(notebook, "", 5000)]
    if not names:
        return NothingFoundError("there is no run yet", hint="record one: labbook record -- python train.py")
    near = get_close_matches(word, names, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "`labbook list` shows the ids of recent runs"
    return NothingFoundError(f"there is no run {word!r}", hint=hint)


def _best(
    index: sqlite3.Connection, question: Question, limit: int
) -> tuple[list[tuple[str, str, str, str]], int, bool]:
    where, values = _conditions(question)
    columns = "n.path, n.kind, n.title, n.meta"
    for expression, loose in _attempts(question):
        if not expression:
            query = f"SELECT {columns} FROM notes n WHERE {where} ORDER BY n.started DESC, n.name DESC LIMIT ?"
            total = index.execute(f"SELECT count(*) FROM notes n WHERE {where}", values).fetchone()[0]
            return index.execute(query, [*values, limit]).fetchall(), total, False
        source = f"FROM words JOIN notes n ON n.id = words.rowid WHERE words MATCH ? AND {where}"
        total = index.execute(f"SELECT count(*) {source}", [expression, *values]).fetchone()[0]
        if total:
            order = f"ORDER BY bm25(words, {_WEIGHTS}), n.started DESC"
            query = f"SELECT {columns} {source} {order} LIMIT ?"
            return index.execute(query, [expression, *values, limit]).fetchall(), total, loose
    return [], 0, False


def _attempts(question: Question) -> Iterator[tuple[str, bool]]:
    yield match_expression(question), False
    if question.terms:
        yield match_expression(question, prefix=True), False
    if len(question.terms) > 1:
        yield match_expression(question, any_term=True, prefix=True), True


def _restricts(question: Question) -> bool:
    return bool(question.filters) or question.since is not None or question.before is not None


def _conditions(question: Question) -> tuple[str, list[Any]]:
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
    ahead = "%" if wanted.key in CONTAINS else ""
    tests = " OR ".join(["value LIKE ? ESCAPE '\\'"] * len(wanted.values))
    return f"key = ? AND ({tests})", [wanted.key, *(f"{ahead}{_escaped(value)}%" for value in wanted.values)]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _advice(words: str, question: Question) -> str:
    meant = near_filters(words)
    if meant:
        return f"did you mean {' '.join(meant)}?"
    if _restricts(question):
        return "leave out a filter, or try `labbook list`"
    return "try fewer or other words; `labbook list` shows all runs"
