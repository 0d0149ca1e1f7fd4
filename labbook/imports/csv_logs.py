"""Reads logs in CSV: of Lightning's and Keras' `CSVLogger`, of Ultralytics, and any table with a column of steps.

A long table with the columns `series`, `step` and `value`, as `metrics.csv` of an entry, is read as well, and so are
the tables that TensorBoard, MLflow and W&B offer for download. Columns such as `run`, `seed` or `fold` separate runs;
so does a step that begins again. The values of a column such as `phase` or `split` become part of the names.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labbook.imports.csv_columns import CsvColumns
from labbook.imports.csv_tables import CsvTable, open_table
from labbook.imports.imported_run import (
    NO_STATUS,
    NO_TIMES,
    ImportedRun,
    Reader,
    SeriesCollector,
    parse_typed,
    root_of,
    walk,
)
from labbook.imports.yaml_files import read_yaml
from labbook.store.moments import moment

_SUFFIXES = (".csv", ".tsv")
_PARAMETER_FILES = ("hparams.yaml", "args.yaml", "config.yaml", "params.yaml")
_GENERIC = ("metrics", "results", "log", "logs", "history", "training", "progress")
_DOWNLOAD = re.compile("run-(.*)-tag-(.*)")
"""Name of a table that TensorBoard offers for download; its columns are `Wall time`, `Step` and `Value`."""
_EARLIEST, _LATEST = 946_684_800, 4_102_444_800
"""2000 and 2100 in Unix seconds: other numbers in a column of times are durations."""

_Key = tuple[str, ...]
"""What separates the runs of a table: cells of the columns of runs, run of a chart, "" or the count of restarts."""


def _runs(path: Path) -> Iterator[ImportedRun]:
    """Yields the runs in each table.

    Raises:
        ValueError: A table that was named has no names of columns, or no column of numbers.
    """
    for table in [open_table(path)] if path.is_file() else _tables(path):
        yield from _read(table, path)


def _tables(path: Path) -> Iterator[CsvTable]:
    for file in [path] if path.is_file() else _list_csv_files(path):
        if file.suffix.lower() in _SUFFIXES:
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
    rows = _Rows(table)
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
        name, own = rows.describe(key, _name(Path(os.path.relpath(file, root_of(root))), file))
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
    download = _DOWNLOAD.fullmatch(file.stem)
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


@dataclass
class _Place:
    """Where the rows of one run, data split or series are.

    Args:
        count: Last number in the column of steps.
        steps: Steps in ascending order; a row that goes back adds none.
        offsets: First step of an epoch, where steps count from the beginning of each epoch.
        restarts: How often the steps began again.
        columns: Columns that have had a value since then.
        begun: Columns that have had a value since a resumed run went back; `None` before that.
    """

    count: int = -1
    step: int = -1
    steps: array[int] = field(default_factory=lambda: array("q"))
    offsets: dict[float, int] = field(default_factory=dict)
    offset: int = 0
    restarts: int = 0
    columns: set[int] = field(default_factory=set)
    begun: set[str] | None = None


class _Rows:
    """Collects the points of a table by run."""

    def __init__(self, table: CsvTable) -> None:
        self.runs: dict[_Key, SeriesCollector] = {}
        self.times: dict[_Key, tuple[float, float]] = {}
        self.problems: list[tuple[str, str]] = []
        self.first: list[str] = []
        self._table = table
        self._columns = CsvColumns(table.header)
        self._places: dict[_Key, _Place] = {}
        download = _DOWNLOAD.fullmatch(table.file.stem)
        metrics = [metric for metric in self._columns.metrics if metric[0] != self._columns.time]
        self._tag = download[2] if download and len(metrics) == 1 else ""
        self._counter = self._columns.counter
        if any(
            (value := table.number(row[self._counter])) is not None and math.isfinite(value) and value % 1
            for row in (table.rows() if self._counter is not None else ())
            if self._counter is not None and self._counter < len(row)
        ):
            self._counter = None  # Parts of epochs are no steps: rows are.

    def add(self, row: list[str]) -> None:
        """Adds a row; cells that are empty or no numbers are skipped, and so are rows with a word for a step."""
        self.first = self.first or row
        columns = self._columns
        run = tuple(_cell(row, place) for place in (*columns.names, *columns.options))
        split = _cell(row, columns.split)
        split = (
            f"{self._table.header[columns.split]}{split}" if split.isdigit() and columns.split is not None else split
        )
        series = _cell(row, columns.series) if columns.is_long else ""
        place = self._places.setdefault((*run, split, series), _Place())
        values = [
            (column, chart, series or self._tag or name, value)
            for column, chart, name in columns.metrics
            if (value := self._table.number(_cell(row, column))) is not None
        ]
        moment_of_row = _moment(_cell(row, columns.time), self._table)
        if moment_of_row is not None:
            values = [each for each in values if each[0] != columns.time]
        if not self._move(place, row, {column for column, *_ in values}):
            return
        for column, chart, name, value in values:
            key = (*run, chart, str(place.restarts or ""))
            points = self.runs.setdefault(key, SeriesCollector("csv"))
            named = f"{split}/{name}" if split else name
            if place.begun is None:
                points.add(named, place.step, value)
            else:
                points.add_of_file(place.begun, named, place.step, value)
            place.columns.add(column)
            if moment_of_row is not None:
                low, high = self.times.get(key, (moment_of_row, moment_of_row))
                self.times[key] = (min(low, moment_of_row), max(high, moment_of_row))

    def _move(self, place: _Place, row: list[str], filled: set[int]) -> bool:
        """Sets the step of a row: that of the row above if it has none; `False` if it has a word in its place."""
        text = _cell(row, self._counter)
        value = self._table.number(text.partition("/")[0])
        if value is None or not math.isfinite(value):
            place.step = max(place.step + (self._counter is None), 0)
            return not text or value is not None
        count = max(int(value), 0)
        columns = self._columns
        epoch = self._table.number(_cell(row, columns.epoch)) if self._counter != columns.epoch else None
        if epoch is not None:
            begins_again = count < place.count or (count == place.count and self._counter == columns.batch)
            new = place.step + (count == 0) if begins_again else place.offset
            place.offset = place.offsets.setdefault(epoch, new)
        place.count, step = count, count + place.offset
        if step < place.step and filled & place.columns:
            if step == place.steps[0]:
                place.steps, place.columns, place.begun = array("q"), set(), None
                place.restarts += 1
            elif place.steps[bisect_left(place.steps, step)] == step:
                place.begun = set()
        place.step = step
        if not place.steps or step > place.steps[-1]:
            place.steps.append(step)
        return True

    def describe(self, key: _Key, name: str) -> tuple[str, dict[str, Any]]:
        """Returns the name of a run and its parameters, by the columns that separate runs.

        Args:
            key: The run.
        """
        header, columns = self._table.header, self._columns
        *cells, chart, restarts = key
        own = next(filter(None, [*cells[: len(columns.names)], chart]), name)
        options = {
            header[p]: cell for p, cell in zip(columns.options, cells[len(columns.names) :], strict=True) if cell
        }
        words = [f"{option} {cell}" for option, cell in options.items()] if len(self.runs) > 1 else []
        if restarts:
            words.append(str(int(restarts) + 1))
        return ", ".join([own, *words]), {option: parse_typed(cell) for option, cell in options.items()}


def _cell(row: list[str], place: int | None) -> str:
    return row[place] if place is not None and place < len(row) else ""


def _moment(text: str, table: CsvTable) -> float | None:
    """Returns the Unix seconds of a cell with a date, or with seconds or milliseconds since 1970."""
    value = table.number(text)
    if value is None:
        return moment(text)
    return next((each for each in (value, value / 1000) if _EARLIEST < each < _LATEST), None)


CSV = Reader("csv", "CSV", _tables, _runs)
"""Reads tables with a row for each step."""
