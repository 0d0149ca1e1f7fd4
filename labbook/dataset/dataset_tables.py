"""The tables of the data set with their columns; the documentation and the Parquet schemas are made from them."""

from __future__ import annotations

from pathlib import Path

from labbook.frozen import dataclass
from labbook.store.toml_parser import parse_toml

DATASET_SCHEMA = 1
"""Format version of the data set; a data set of another version is written again."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Args:
        kind: "text", "int", "float", "bool", "time" (microseconds, UTC) or "texts" (a list of text).
        meaning: One line for the documentation.
    """

    name: str
    kind: str
    meaning: str


_RUN = Column("run", "text", "id of the run")

TABLES: dict[str, tuple[Column, ...]] = {
    table: (_RUN, *(Column(name, *text.split(": ", 1)) for name, text in columns.items()))
    for table, columns in parse_toml(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}
"""Table -> its columns. Rows of a month are ordered by run; those of a run as in its entry."""
