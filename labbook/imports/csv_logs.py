"""Reads logs in CSV: of Lightning's and Keras' `CSVLogger`, of Ultralytics, and any table with a column of steps.

A long table with the columns `series`, `step` and `value`, as `metrics.csv` of an entry, is read as well, and so are
the tables that TensorBoard, MLflow and W&B offer for download. Columns such as `run`, `seed` or `fold` separate runs;
so does a step that begins again. The values of a column such as `phase` or `split` become part of the names.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from labbook.capture.tables.csv_columns import CsvColumns
from labbook.capture.tables.csv_rows import DOWNLOAD, CsvRows, RunKey
from labbook.capture.tables.csv_tables import SUFFIXES, CsvTable, open_table
from labbook.imports.imported_files import read_yaml, root_of, walk
from labbook.imports.imported_run import NO_STATUS, NO_TIMES, ImportedRun, Reader, parse_typed

_PARAMETER_FILES = ("hparams.yaml", "args.yaml", "config.yaml", "params.yaml")
_GENERIC = ("metrics", "results", "log", "logs", "history", "training", "progress")


def _runs(path: Path) -> Iterator[ImportedRun]:
    """Yields the runs in each table.

    Raises:
        ValueError: A table that was named has no names of columns, or no column of numbers.
    """
    for table in [open_table(path)] if path.is_file() else _tables(path):
        yield from _read(table, path)


def _tables(path: Path) -> Iterator[CsvTable]:
    for file in [path] if path.is_file() else _list_csv_files(path):
        if file.suffix.lower() in SUFFIXES:
            table = open_table(file)
            if len(table.header) > 1 and CsvColumns(table.header).counter is not None:
                yield table


def _list_csv_files(path: Path) -> Iterator[Path]:
    for folder, _, files in walk(path):
        yield from (folder / name for name in files)


def _read(table: CsvTable, root: Path) -> Iterator[ImportedRun]:
    file = table.file
    if not table.header:
        raise ValueError(f"{file} has no row with the names of its columns")
    rows = CsvRows(table)
    try:
        for row in table.rows():
            rows.add(row)
    except csv.Error as error:
        rows.problems.append(("table", f"the rest of it cannot be read: {error}"))
    if not any(points.series() for points in rows.runs.values()):
        raise ValueError(f"{file} has no column of numbers")
    modified = file.stat().st_mtime
    params = _parameters(file.parent, root_of(root))
    first_row = hashlib.sha256(repr((list(table.header), rows.first)).encode()).hexdigest()[:12]
    for key, points in rows.runs.items():
        times = rows.times.get(key)
        name, own = _describe(rows, table.header, key, _name(Path(os.path.relpath(file, root_of(root))), file))
        yield ImportedRun(
            tool="csv",
            path=file,
            identity=f"{file.resolve().parent.name}/{file.name}/{'/'.join(filter(None, key))}/{first_row}",
            name=name,
            experiment=root.resolve().name if root.is_dir() else file.resolve().parent.name,
            params=params | own,
            series=points.series(),
            started=times[0] if times else modified,
            ended=times[1] if times else modified,
            unobserved=(NO_STATUS, *(() if times else (NO_TIMES,)), *rows.problems),
        )


def _name(place: Path, file: Path) -> str:
    """Returns the name of a run: of `version_3/metrics.csv` the folder, of `seed7.csv` the file."""
    download = DOWNLOAD.fullmatch(file.stem)
    if download is not None:
        return download[1]
    if file.stem.lower() in _GENERIC:
        return place.parent.as_posix() if place.parent.name else file.resolve().parent.name
    return place.with_suffix("").as_posix()


def _parameters(folder: Path, root: Path) -> dict[str, Any]:
    for name in _PARAMETER_FILES:
        found = read_yaml(folder / name, root)
        if found:
            return found
    return {}


def _describe(rows: CsvRows, header: Sequence[str], key: RunKey, name: str) -> tuple[str, dict[str, Any]]:
    """Returns the name of a run and its parameters, by the columns that separate runs.

    Args:
        key: The run.
    """
    columns = rows.columns
    *cells, chart, restarts = key
    own = next(filter(None, [*cells[: len(columns.names)], chart]), name)
    options = {header[p]: cell for p, cell in zip(columns.options, cells[len(columns.names) :], strict=True) if cell}
    words = [f"{option} {cell}" for option, cell in options.items()] if len(rows.runs) > 1 else []
    if restarts:
        words.append(str(int(restarts) + 1))
    return ", ".join([own, *words]), {option: parse_typed(cell) for option, cell in options.items()}


CSV = Reader("csv", "CSV", _tables, _runs)
"""Reads tables with a row for each step."""
