"""Answers SQL over the notebook: DuckDB reads the tables from a data set in the notebook's private folder."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.dataset.dataset_tables import DATASET_SCHEMA, TABLES
from labbook.errors import UsageError
from labbook.index.build import content_mark, query_index
from labbook.store.journal import write_atomically
from labbook.store.notebook import Notebook

if TYPE_CHECKING:
    import duckdb
    import pyarrow

_COLUMN = re.compile(
    r'Referenced column "(.+?)" not found|does not have a column named "(.+?)"|column named "(.+?)" does not'
)
_TABLE = re.compile(r"Table with name (.+?) does not exist")
_MOST_TEXT = 300
_MARK = "index-mark"
"""File with the state of the index that the private data set has."""


def run_query(notebook: Notebook, sql: str, *, notify: Callable[[int, int], None] | None = None) -> pyarrow.Table:
    """Returns the answer to one SELECT statement over the tables of the data set.

    The statement sees only these tables: it cannot read or write files, load extensions or change settings.

    Args:
        notebook: The notebook; its private data set is brought up to date first.

    Raises:
        UsageError: DuckDB is not installed, or the statement is no SELECT or cannot be answered.
    """
    try:
        import duckdb
        import pyarrow  # noqa: F401 - the tables are exchanged with it
    except ImportError as error:
        raise UsageError("dataset.not_installed", reason=error) from error
    folder = notebook.paths.private / "dataset"
    _check_statement(sql)
    _bring_up_to_date(notebook, folder, notify)
    with duckdb.connect(":memory:") as connection:
        _open_tables(connection, str(folder))
        try:
            return connection.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise _explain(error) from error


def _bring_up_to_date(notebook: Notebook, folder: Path, notify: Callable[[int, int], None] | None) -> None:
    """Exports the notebook to its private data set, unless nothing changed since the last time."""
    # Taken before the export: what changes meanwhile is exported by the next query.
    mark = f"{DATASET_SCHEMA} {query_index(notebook, content_mark, executor='processes')[0]}"
    state = folder / _MARK
    with contextlib.suppress(OSError):
        if state.read_text("utf-8") == mark:
            return
    from labbook.dataset.dataset_export import export  # 0.2 s with what it imports

    export(notebook, str(folder), withheld=True, notify=notify)
    write_atomically(state, mark.encode(), durable=False)


def _check_statement(sql: str) -> None:
    import duckdb

    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise _not_answered(error) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError("dataset.only_select", advice="dataset.syntax_advice")


def _open_tables(connection: duckdb.DuckDBPyConnection, folder: str) -> None:
    """Makes a view for each table, and closes everything else to the statement."""
    import glob

    from labbook.dataset.parquet_files import arrow_schema

    for table in TABLES:
        files = f"{folder}/{table}"
        if any(Path(files).glob("month=*/*.parquet")):
            place = f"{glob.escape(files)}/month=*/part-0.parquet".replace("'", "''")
            connection.execute(
                f"CREATE VIEW \"{table}\" AS SELECT * FROM read_parquet('{place}', hive_partitioning = true,"
                " hive_types = {'month': VARCHAR})"
            )
        else:
            empty = arrow_schema(table).empty_table()
            connection.register("empty", empty)
            connection.execute(f"CREATE TABLE \"{table}\" AS SELECT *, '' AS month FROM empty")
            connection.unregister("empty")
    # Times are shown as they are on disk, in UTC.
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET autoload_known_extensions = false")
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET allowed_directories = ['" + f"{folder}/".replace("'", "''") + "']")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _explain(error: Exception) -> UsageError:
    """Returns the error for an unanswered statement, with the nearest name of a column or table."""
    text = str(error)
    if found := _COLUMN.search(text):
        name = next(group for group in found.groups() if group)
        named = [column.name for columns in TABLES.values() for column in columns]
        return _unknown("dataset.unknown_column", name, named)
    if found := _TABLE.search(text):
        return _unknown("dataset.unknown_table", found[1], list(TABLES))
    return _not_answered(error)


def _unknown(key: str, name: str, known: list[str]) -> UsageError:
    near = get_close_matches(name.lower(), sorted(set(known)), n=1, cutoff=0.5)
    tables = [table for table, columns in TABLES.items() if near and near[0] in {column.name for column in columns}]
    advice = "dataset.nearest_name" if near else "dataset.tables_advice"
    return UsageError(key, name=name, near=near, tables=tables or list(TABLES), advice=advice)


def _not_answered(error: Exception) -> UsageError:
    return UsageError("dataset.not_answered", reason=_first_line(error), advice="dataset.syntax_advice")


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:_MOST_TEXT]
