"""Opens SQLite databases of other tools for reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.imports.imported_run import is_inside

if TYPE_CHECKING:
    import sqlite3


def is_sqlite(path: Path) -> bool:
    """Whether a file is a SQLite database by its first bytes."""
    try:
        with path.open("rb") as stream:
            return stream.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def databases(path: Path, *patterns: str) -> Iterator[Path]:
    """Yields a file, or the files of these names in a folder, that are SQLite databases."""
    found = [file for pattern in patterns for file in sorted(path.glob(pattern)) if is_inside(file, path)]
    yield from filter(is_sqlite, [path] if path.is_file() else found)


def open_database(path: Path) -> sqlite3.Connection:
    """Returns a connection that only reads; bytes in text columns are replaced where they are not UTF-8.

    Raises:
        ValueError: The database is damaged.
    """
    import sqlite3

    address = path.resolve().as_uri()
    error: Exception | None = None
    # A database in WAL mode in a folder that cannot be written opens as unchanging only.
    for mode in ("mode=ro", "immutable=1"):
        try:
            connection = sqlite3.connect(f"{address}?{mode}", uri=True)
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            connection.execute("SELECT name FROM sqlite_master").fetchall()
            return connection
        except sqlite3.Error as failed:  # noqa: PERF203 - two turns
            error = failed
    raise ValueError(f"{path} cannot be read as a database: {error}")


def tables(path: Path) -> set[str]:
    """Returns the names of the tables of a database; empty if it cannot be read."""
    try:
        with closing(open_database(path)) as connection:
            return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except ValueError:
        return set()
