"""Updates the index of a notebook from its files.

Any number of processes may update it at once: changes are found outside of a transaction, each batch is written in one,
and a row that another process has just updated is written again with the same content.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.frozen import dataclass
from labbook.index.cjk import segment
from labbook.index.database import Answer, give_up, transaction, with_index
from labbook.index.documents import (
    MAX_BYTES,
    Note,
    comparison_key,
    content_digest,
    failure_facets,
    indexed_text,
    note_facets,
    read_note,
    stored_names,
)
from labbook.index.folders import TICK_NS, IndexedFile, ScannedFile, known_below, note_look, scan_all, scan_changed
from labbook.store.notebook import Notebook
from labbook.store.paths import NotebookPaths

if TYPE_CHECKING:
    import sqlite3

_Reading = tuple[ScannedFile, str, int, "Note | None"]
"""A file, the digest of its content, when it was read (ns), and the note if the content has changed."""

_Request = tuple[Path, Sequence[tuple[ScannedFile, str]]]
"""The folder of a notebook, and files below it with the digests that the index has of them."""

_BATCH = 200
_MANY = 2000
"""Up to this number of notes, every note is checked for every query. Source: chosen by us; that takes 20 ms."""
_FULL_LOOK_NS = 600_000_000_000


@dataclass(frozen=True)
class RefreshResult:
    """Result of an update.

    Args:
        read: Number of new or changed files that were read.
        removed: Number of notes that no longer exist.
        problems: Notes whose front matter could not be read, as (path, reason with its line).
    """

    read: int
    removed: int
    problems: tuple[tuple[str, str], ...]


def query_index(
    notebook: Notebook,
    query: Callable[[sqlite3.Connection], Answer],
    *,
    notify: Callable[[int, int], None] | None = None,
    executor: str = "",
) -> tuple[Answer, RefreshResult]:
    """Returns the answer to a query from an up-to-date index, and the result of the update.

    A damaged or outdated index is rebuilt. If the notebook cannot be written, the index is in the user's cache folder,
    and in memory if that cannot be written either.

    Every note is checked for changes. In a notebook of more than 2,000 notes that happens once in ten minutes; in
    between, only changed folders are read. labbook, git and most editors replace files, which changes their folder; a
    change that an editor writes in place is found up to ten minutes later.

    Args:
        query: Reads from the index; may be called twice.
        notify: Called with (files read, files to read) during the update.
        executor: Where many changed notes are read, one of `labbook.executors.CHOICES`; "": in this process. The index
            is the same.

    Raises:
        NotebookError: This Python's SQLite has no full-text search.
        UsageError: The executor cannot be used.

    Cost: 0.9 s for 100,000 notes, 10 ms for their 2,000 folders; measured on 2 cores.
    """

    def work(connection: sqlite3.Connection) -> tuple[Answer, RefreshResult]:
        quick = _may_be_quick(connection)
        refreshed = _refresh(connection, notebook.paths, None, notify, quick=quick, executor=executor)
        return query(connection), refreshed

    return with_index(notebook, work)


def query_without_refresh(
    notebook: Notebook, query: Callable[[sqlite3.Connection], Answer], *, patience_s: float = 2.0
) -> Answer:
    """Returns the answer to a query from an index in which only changed folders were updated.

    Args:
        query: Reads from the index; may be called twice.
        patience_s: Most seconds to spend on an index that is not complete, newest notes first; the next call goes on.
    """

    def work(connection: sqlite3.Connection) -> Answer:
        made = connection.execute("SELECT 1 FROM looked").fetchone() is not None
        _refresh(connection, notebook.paths, None, None, time.monotonic() + patience_s, quick=made)
        return query(connection)

    return with_index(notebook, work)


def content_mark(connection: sqlite3.Connection) -> str:
    """Returns a text that is another one after any note was added, changed or removed, or the index was made again.

    Ids of notes are never used twice, and a changed note gets a new one.
    """
    made = connection.execute("PRAGMA application_id").fetchone()[0]
    if not made:
        made = int.from_bytes(os.urandom(3), "big") + 1
        connection.execute(f"PRAGMA application_id = {made}")
    newest = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'notes'").fetchone()
    count = connection.execute("SELECT count(*) FROM notes").fetchone()[0]
    return f"{made} {newest[0] if newest else 0} {count}"


def _may_be_quick(connection: sqlite3.Connection) -> bool:
    row = connection.execute("SELECT at_ns FROM looked").fetchone()
    if row is None or not 0 <= time.time_ns() - row[0] < _FULL_LOOK_NS:
        return False
    many: int = connection.execute("SELECT count(*) FROM (SELECT 1 FROM files LIMIT ?)", (_MANY + 1,)).fetchone()[0]
    return many > _MANY


def refresh(notebook: Notebook, only: Sequence[Path] | None = None) -> RefreshResult:
    """Updates the index and returns the result.

    Args:
        only: Files that may have changed; by default all of `notes/`.
    """
    return with_index(notebook, lambda connection: _refresh(connection, notebook.paths, only, None))


def _refresh(
    connection: sqlite3.Connection,
    paths: NotebookPaths,
    only: Sequence[Path] | None,
    notify: Callable[[int, int], None] | None,
    until: float = math.inf,
    *,
    quick: bool = False,
    executor: str = "",
) -> RefreshResult:
    began = time.time_ns()
    look = None
    if only is not None:
        known = _indexed_files(connection, [_relative_path(paths, path) for path in only])
        seen = {file.path: file for file in _scan(paths, only)}
    else:
        look = scan_changed(connection, paths) if quick else scan_all(paths)
        known = known_below(connection, look.listed) if quick else _indexed_files(connection, None)
        seen = {file.path: file for file in look.files}
    # Entries are named by their time: later ones get higher numbers.
    changed = [file for path, file in sorted(seen.items()) if not _unchanged(file, known.get(path))]
    if until < math.inf:
        changed.reverse()
    read = 0
    whole = True
    batches = [changed[start : start + _BATCH] for start in range(0, len(changed), _BATCH)]
    requests = [
        (paths.root, [(file, known[file.path].digest if file.path in known else "") for file in batch])
        for batch in batches
    ]
    with _reading(requests, executor if len(changed) > _MANY else "") as results:
        for number, batch in enumerate(batches):
            if time.monotonic() > until:
                whole = False
                break
            read += _write(connection, next(results))
            if notify is not None:
                notify(number * _BATCH + len(batch), len(changed))
    gone = [path for path in known if path not in seen]
    if gone:
        _forget(connection, gone)
    if look is not None and look.listed and whole:
        with transaction(connection):
            note_look(connection, look, began, whole=not quick)
    if read or gone:
        _tidy(connection)
    problems = connection.execute("SELECT path, problem FROM files WHERE problem != '' ORDER BY path").fetchall()
    return RefreshResult(read, len(gone), tuple((path, problem) for path, problem in problems))


@contextlib.contextmanager
def _reading(requests: Sequence[_Request], executor: str) -> Iterator[Iterator[list[_Reading]]]:
    """Reads batches of files, in order, in other processes if there is an executor."""
    if not executor:
        yield map(_read_files, requests)
        return
    from labbook.executors import map_in_order, open_executor

    with open_executor(executor) as (pool, workers):
        yield (made for _, made in map_in_order(pool, workers, _read_files, requests))


def _indexed_files(connection: sqlite3.Connection, paths: Sequence[str] | None) -> dict[str, IndexedFile]:
    """Returns all files, or the given ones, as the index has them."""
    columns = "SELECT path, mtime_ns, size, hash, read_ns FROM files"
    if paths is None:
        rows = connection.execute(columns).fetchall()
    else:
        rows = [row for path in paths for row in connection.execute(f"{columns} WHERE path = ?", (path,))]
    return {row[0]: IndexedFile(*row[1:]) for row in rows}


def _unchanged(file: ScannedFile, known: IndexedFile | None) -> bool:
    if known is None or (known.mtime_ns, known.size) != (file.mtime_ns, file.size):
        return False
    return known.read_ns - file.mtime_ns > TICK_NS


def _scan(paths: NotebookPaths, only: Iterable[Path]) -> Iterator[ScannedFile]:
    for path in only:
        with contextlib.suppress(OSError):
            status = path.stat()
            relative = _relative_path(paths, path)
            if relative.startswith("notes/") and relative.endswith(".md"):
                yield ScannedFile(relative, status.st_mtime_ns, status.st_size)


def _relative_path(paths: NotebookPaths, path: Path) -> str:
    return os.path.relpath(path, paths.root).replace(os.sep, "/")


def _read_files(request: _Request) -> list[_Reading]:
    """Reads files below a folder, each with the digest that the index has of it."""
    root, files = request
    ready: list[_Reading] = []
    for file, known in files:
        read_ns = time.time_ns()
        try:
            with (root / file.path).open("rb") as stream:
                content = stream.read(MAX_BYTES)
        except OSError:
            continue
        digest = content_digest(file.size, content)
        note = None if known == digest else read_note(file.path, content, file.mtime_ns / 1e9)
        ready.append((file, digest, read_ns, note))
    return ready


def _write(connection: sqlite3.Connection, ready: Sequence[_Reading]) -> int:
    """Writes what was read in one transaction, and returns the number of changed files."""
    with transaction(connection):
        for file, digest, read_ns, note in ready:
            if note is not None:
                _replace(connection, note)
                connection.execute(
                    "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
                    (file.path, file.mtime_ns, file.size, digest, read_ns, note.problem),
                )
            else:
                connection.execute(
                    "UPDATE files SET mtime_ns = ?, size = ?, read_ns = ? WHERE path = ? AND hash = ?",
                    (file.mtime_ns, file.size, read_ns, file.path, digest),
                )
    return sum(note is not None for *_, note in ready)


def _replace(connection: sqlite3.Connection, note: Note) -> None:
    connection.execute("DELETE FROM notes WHERE path = ?", (note.entry.path,))
    meta = json.dumps(dict(note.entry.meta), ensure_ascii=True, default=str)
    row = (note.entry.path, note.kind, note.entry.id, note.title, note.started, meta)
    number = connection.execute(
        "INSERT INTO notes (path, kind, name, title, started, meta) VALUES (?, ?, ?, ?, ?, ?)", row
    ).lastrowid
    facets = {(key, value.encode("utf-8", "replace").decode(), number) for key, value in note_facets(note)}
    connection.executemany("INSERT INTO facets VALUES (?, ?, ?)", facets)
    place, fixed = comparison_key(note), bool(note.entry.meta.get("fix"))
    failures = [(key, value, fixed, note.started, number, place) for key, value in failure_facets(note)]
    connection.executemany("INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?)", failures)
    if note.kind == "run" and note.entry.meta.get("status") == "finished":
        connection.execute("INSERT INTO outcomes VALUES (?, ?, ?)", (place, note.started, number))
    if note.kind == "run":
        connection.executemany("INSERT OR IGNORE INTO names VALUES (?, ?)", stored_names(note))
    columns = [segment(text) for text in indexed_text(note)]
    connection.execute(
        "INSERT INTO words (rowid, title, tags, own, parts, body) VALUES (?, ?, ?, ?, ?, ?)", (number, *columns)
    )


def _forget(connection: sqlite3.Connection, paths: Sequence[str]) -> None:
    with transaction(connection):
        connection.executemany("DELETE FROM notes WHERE path = ?", [(path,) for path in paths])
        connection.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in paths])


def _tidy(connection: sqlite3.Connection) -> None:
    """Empties the index when most of its words are of deleted notes; the next update reads the notes again."""
    newest = connection.execute("SELECT coalesce(max(id), 0) FROM notes").fetchone()[0]
    alive = connection.execute("SELECT count(*) FROM notes").fetchone()[0]
    if newest > 2 * alive + 5000:
        give_up(connection)
