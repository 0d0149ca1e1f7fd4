"""Writes rows as Parquet files: equal bytes for equal rows and the same release of pyarrow."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from labbook.dataset.dataset_tables import DATASET_SCHEMA, TABLES
from labbook.dataset.entry_rows import Rows

if TYPE_CHECKING:
    import pyarrow

_ROW_GROUP = 1 << 20


def arrow_schema(table: str) -> pyarrow.Schema:
    """Returns the schema of a table, with the meaning of each column in its metadata."""
    import pyarrow

    kinds = {
        "text": pyarrow.string(),
        "texts": pyarrow.list_(pyarrow.string()),
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "bool": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", "UTC"),
    }
    fields = [pyarrow.field(each.name, kinds[each.kind], metadata={"meaning": each.meaning}) for each in TABLES[table]]
    return pyarrow.schema(fields, metadata={"labbook.schema": str(DATASET_SCHEMA)})


def pack_rows(rows: Rows) -> dict[str, bytes]:
    """Returns table -> its rows in the stream format of Arrow, to send them between processes."""
    import pyarrow

    packed = {}
    for table, columns in rows.items():
        sink = io.BytesIO()
        made = pyarrow.table(columns, schema=arrow_schema(table))
        with pyarrow.ipc.new_stream(sink, made.schema) as stream:
            stream.write_table(made)
        packed[table] = sink.getvalue()
    return packed


def parquet_bytes(table: str, packed: Iterable[bytes], kept: bytes | None, replaced: Collection[str]) -> bytes:
    """Returns the file of one table and month.

    Args:
        packed: Rows of new and changed runs, see `pack_rows`.
        kept: The present file, `None` if there is none.
        replaced: Runs whose rows of the present file are left out.
    """
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet

    schema = arrow_schema(table)
    parts = [pyarrow.ipc.open_stream(each).read_all() for each in packed]
    if kept is not None:
        old = pyarrow.parquet.read_table(io.BytesIO(kept), schema=schema)
        runs = pyarrow.array(sorted(replaced), pyarrow.string())
        parts.append(old.filter(pyarrow.compute.invert(pyarrow.compute.is_in(old["run"], runs))))
    whole = pyarrow.concat_tables([schema.empty_table(), *parts])
    if whole.num_rows:
        # Rows of a run keep their order: the sort is stable.
        order = pyarrow.compute.sort_indices(whole["run"])
        whole = whole.take(order).combine_chunks()
    sink = io.BytesIO()
    pyarrow.parquet.write_table(
        whole.replace_schema_metadata(schema.metadata),
        sink,
        compression="zstd",
        row_group_size=_ROW_GROUP,
        use_dictionary=_dictionaries(table),
        store_schema=False,
    )
    return sink.getvalue()


def _dictionaries(table: str) -> list[str]:
    """Returns the columns in which values repeat."""
    return [column.name for column in TABLES[table] if column.kind in ("text", "int") or column.name == "number"]
