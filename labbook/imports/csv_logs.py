"""Reads logs in CSV: of Lightning's and Keras' `CSVLogger`, of Ultralytics, and any table with a column of steps.

A long table with the columns `series`, `step` and `value`, as `metrics.csv` of an entry, is read as well. A column
`run` separates runs in one table.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labbook.imports.imported_run import NO_STATUS, NO_TIMES, ImportedRun, Reader, SeriesCollector, root_of, walk
from labbook.imports.yaml_files import read_yaml
from labbook.model.metric_kinds import is_counter

_STEPS = ("step", "global_step", "_step", "steps", "iteration", "iter", "batch", "epoch", "epochs")
_TIMES = ("timestamp", "_timestamp", "wall_time", "walltime", "created_at")
_RUNS = ("run", "run_name", "run_id")
_SUFFIXES = (".csv", ".tsv")
_PARAMETER_FILES = ("hparams.yaml", "args.yaml", "config.yaml", "params.yaml")
_LONG = ("series", "step", "value")
_EARLIEST, _LATEST = 946_684_800, 4_102_444_800
"""2000 and 2100 in Unix seconds: other numbers in a column of times are durations."""


def _runs(path: Path) -> Iterator[ImportedRun]:
    """Yields a run for each table, or for each value of its column `run`.

    Raises:
        ValueError: A table that was named has no column of numbers.
    """
    for file in [path] if path.is_file() else _tables(path):
        yield from _read(file, path)


def _tables(path: Path) -> Iterator[Path]:
    for file in [path] if path.is_file() else _list_csv_files(path):
        if file.suffix.lower() in _SUFFIXES:
            header = _header(file)
            named = [_clean_name(name) for name in header]
            if set(_LONG) <= set(named) or (len(header) > 1 and any(name in _STEPS for name in named)):
                yield file


def _list_csv_files(path: Path) -> Iterator[Path]:
    for folder, _, files in walk(path):
        yield from (folder / name for name in files)


def _clean_name(name: str) -> str:
    return name.strip().lower().rpartition("/")[2]


def _header(file: Path) -> list[str]:
    try:
        with file.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
            line = stream.readline(100_000)
    except OSError:
        return []
    return next(csv.reader([line], delimiter=_delimiter(line)), []) if "\0" not in line else []


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def _rows(file: Path) -> Iterator[list[str]]:
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        first = stream.readline()
        stream.seek(0)
        lines = (line.replace("\0", "") for line in stream)
        yield from csv.reader(lines, delimiter=_delimiter(first))


def _read(file: Path, root: Path) -> Iterator[ImportedRun]:
    rows = _rows(file)
    header = [name.strip() for name in next(rows, [])]
    columns = {_clean_name(name): place for place, name in reversed(list(enumerate(header)))}
    table = _Table(header, columns, long=set(_LONG) <= set(columns))
    try:
        for row in rows:
            table.add(row)
    except csv.Error as error:
        table.problems.append(("table", f"the rest of it cannot be read: {error}"))
    if not any(points.series() for points in table.runs.values()):
        raise ValueError(f"{file} has no column of numbers")
    modified = file.stat().st_mtime
    params = _parameters(file.parent, root_of(root))
    first_row = hashlib.sha256(repr((header, table.first)).encode()).hexdigest()[:12]
    place = os.path.relpath(file, root_of(root))
    for run, points in table.runs.items():
        times = table.times.get(run)
        yield ImportedRun(
            tool="csv",
            path=file,
            identity=f"{file.resolve().parent.name}/{file.name}/{run}/{first_row}",
            name=run or _name(Path(place), file),
            experiment=root.resolve().name if root.is_dir() else file.resolve().parent.name,
            params=params,
            series=points.series(),
            started=times[0] if times else modified,
            ended=times[1] if times else modified,
            unobserved=(NO_STATUS, *(() if times else (NO_TIMES,)), *table.problems),
        )


def _name(place: Path, file: Path) -> str:
    """Returns the name of a run: of `version_3/metrics.csv` the folder, of `seed7.csv` the file."""
    generic = file.stem.lower() in ("metrics", "results", "log", "logs", "history", "training", "progress")
    if generic:
        return place.parent.as_posix() if place.parent.name else file.resolve().parent.name
    return place.with_suffix("").as_posix()


def _parameters(folder: Path, root: Path) -> dict[str, Any]:
    for name in _PARAMETER_FILES:
        found = read_yaml(folder / name, root)
        if found:
            return found
    return {}


class _Table:
    """Collects the points of a table by run.

    Args:
        header: Names of the columns.
        columns: Plain name -> place of the first column of that name.
        long: Whether each row has one value of a named series.
    """

    def __init__(self, header: Sequence[str], columns: Mapping[str, int], *, long: bool) -> None:
        self.runs: dict[str, SeriesCollector] = {}
        self.times: dict[str, tuple[float, float]] = {}
        self.problems: list[tuple[str, str]] = []
        self.first: list[str] = []
        self._columns = columns
        self._long = long
        self._step = next((columns[name] for name in _STEPS if name in columns), None)
        self._time = next((columns[name] for name in _TIMES if name in columns), None)
        self._run = next((columns[name] for name in _RUNS if name in columns), None)
        special = {self._step, self._time, self._run}
        self._metrics = [
            (place, name) for place, name in enumerate(header) if name and place not in special and not is_counter(name)
        ]
        self._last: dict[str, int] = {}

    def add(self, row: list[str]) -> None:
        """Adds a row; cells that are empty or no numbers are skipped."""
        self.first = self.first or row
        run = row[self._run].strip() if self._run is not None and self._run < len(row) else ""
        points = self.runs.setdefault(run, SeriesCollector("csv"))
        step = self._step_of(row, run)
        moment = _number(row, self._time)
        if moment is not None and _EARLIEST < moment < _LATEST:
            low, high = self.times.get(run, (moment, moment))
            self.times[run] = (min(low, moment), max(high, moment))
        if self._long:
            value = _number(row, self._columns["value"])
            place = self._columns["series"]
            if value is not None and place < len(row):
                points.add(row[place], step, value)
            return
        for place, name in self._metrics:
            value = _number(row, place)
            if value is not None:
                points.add(name, step, value)

    def _step_of(self, row: list[str], run: str) -> int:
        """Returns the step of a row; that of the row above, or the next number, if it has none."""
        value = _number(row, self._step)
        before = self._last.get(run, -1)
        finite = value is not None and math.isfinite(value)
        step = int(value) if finite and value is not None else before if self._step is not None else before + 1
        self._last[run] = step
        return max(step, 0)


def _number(row: Sequence[str], place: int | None) -> float | None:
    if place is None or place >= len(row):
        return None
    text = row[place].strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(text.lower())


CSV = Reader("csv", "CSV", _tables, _runs)
"""Reads tables with a row for each step."""
