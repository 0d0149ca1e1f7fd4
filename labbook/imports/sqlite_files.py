"""Opens SQLite databases of other tools for reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.imports.imported_files import is_inside
from labbook.imports.imported_run import UNREADABLE, ImportedRun

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


def columns(path: Path, *names: str) -> list[set[str]]:
    """Returns the names of the columns of some tables of a database; a table that is missing has none.

    Raises:
        ValueError: The database is damaged.
    """
    with closing(open_database(path)) as connection:
        return [{row[1] for row in connection.execute(f"PRAGMA table_info({name})")} for name in names]


def runs_of_databases(
    tool: str, path: Path, patterns: Sequence[str], read: Callable[[Path], Iterator[ImportedRun]]
) -> Iterator[ImportedRun]:
    """Yields the runs of the databases in a folder; a damaged one gives those before the damage, and an empty one.

    Args:
        path: A file or a folder.
        patterns: Names of the files in a folder.
        read: Yields the runs of a database, none if it is another tool's.
    """
    import sqlite3

    for file in databases(path, *patterns):
        try:
            yield from read(file)
        except (ValueError, sqlite3.Error):  # noqa: PERF203 - few files
            yield ImportedRun(tool, file, str(file), file.name, unobserved=(("database", UNREADABLE),))
