"""The SQLite file of the index; created if it is missing, outdated or damaged."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from labbook.errors import NotebookError
from labbook.index.query_fields import fits, value_fits
from labbook.store.notebook import Notebook, prepare_private

if TYPE_CHECKING:
    import sqlite3

SCHEMA_VERSION = 7
"""Increased with every change of `schema.sql` or of the rows; an index of another version is replaced."""

Answer = TypeVar("Answer")

_BUSY_S = 20.0
_CACHE_KIB = 65536
"""Page cache. Source: chosen by us; with SQLite's default of 2 MB, pages of a large index are read repeatedly."""
_OUTDATED = 999


def with_index(notebook: Notebook, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
    """Calls `work` with the index in the notebook, else in the user's cache, else in memory.

    A damaged or outdated index is rebuilt, and `work` is called again.

    Raises:
        NotebookError: This Python's SQLite has no full-text search.
    """
    import sqlite3

    for place in _places(notebook):
        # Not writable, full, no locks on this file system, or locked for long: try the next place.
        with contextlib.suppress(sqlite3.OperationalError, OSError):
            return _use_or_rebuild(place, work)
    with contextlib.closing(_prepare(None)) as connection:
        return work(connection)


def _use_or_rebuild(place: Path, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
    """Calls `work` with the index at one place, and replaces a damaged index."""
    import sqlite3

    try:
        with contextlib.closing(_prepare(place)) as connection:
            return work(connection)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        _remove(place)
    with contextlib.closing(_prepare(place)) as connection:
        return work(connection)


def require_module(connection: sqlite3.Connection, name: str = "fts5") -> None:
    """Checks that SQLite has a module.

    Raises:
        NotebookError: It does not.
    """
    import sqlite3

    try:
        connection.execute(f"CREATE VIRTUAL TABLE temp.probe USING {name} (text)")
        connection.execute("DROP TABLE temp.probe")
    except sqlite3.OperationalError as error:
        if "no such module" not in str(error):
            raise
        raise NotebookError("errors.index.no_fts", version=sqlite3.sqlite_version, reason=error) from error


def give_up(connection: sqlite3.Connection) -> None:
    """Marks the index as outdated; it is rebuilt when it is opened next."""
    connection.execute(f"PRAGMA user_version = {_OUTDATED}")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Runs the block in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _places(notebook: Notebook) -> Iterator[Path]:
    """Returns possible places of the index, the best first."""
    paths = notebook.paths
    try:
        prepare_private(notebook)
    except NotebookError:
        # The notebook is read-only for this user.
        pass
    else:
        yield paths.index
    from platformdirs import user_cache_path

    name = hashlib.sha256(str(paths.root.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    yield user_cache_path("labbook") / f"index-{name}.sqlite"


def _prepare(place: Path | None) -> sqlite3.Connection:
    import sqlite3

    if place is not None:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    connection = sqlite3.connect(":memory:" if place is None else place, timeout=_BUSY_S, isolation_level=None)
    try:
        require_module(connection)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, SCHEMA_VERSION):
            raise sqlite3.DatabaseError("another schema")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.create_function("fits", 2, fits)
        connection.create_function("value_fits", 2, value_fits)
        # The index can be rebuilt at any time, so it is not synced to disk.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if version == 0:
            _create(connection)
        # Fails at once where the file cannot be written.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _create(connection: sqlite3.Connection) -> None:
    schema = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
    connection.execute("BEGIN IMMEDIATE")
    if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
        for statement in _statements(schema):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _statements(schema: str) -> Iterator[str]:
    """Yields the statements of a script; `executescript` would end the transaction."""
    import sqlite3

    statement = ""
    for line in schema.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _remove(place: Path) -> None:
    for name in (place, place.with_name(f"{place.name}-journal")):
        with contextlib.suppress(OSError):
            name.unlink()
