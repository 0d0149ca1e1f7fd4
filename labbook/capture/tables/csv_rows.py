"""Reads the rows of a table of a training into points: each value at its step, in its run.

Columns such as `run`, `seed` or `fold` separate runs; so does a step that begins again. The values of a column such as
`phase` or `split` become part of the names.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

from labbook.capture.tables.csv_columns import CsvColumns
from labbook.capture.tables.csv_tables import CsvTable
from labbook.capture.tables.series_collector import SeriesCollector
from labbook.store.moments import moment

DOWNLOAD = re.compile("run-(.*)-tag-(.*)")
"""Name of a table that TensorBoard offers for download; its columns are `Wall time`, `Step` and `Value`."""
_EARLIEST, _LATEST = 946_684_800, 4_102_444_800
"""2000 and 2100 in Unix seconds: other numbers in a column of times are durations."""

_LARGEST_STEP = 2**40
"""Larger numbers are no steps, and sums of them do not fit into 64 bits. Source: chosen by us."""

RunKey = tuple[str, ...]
"""What separates the runs of a table: cells of the columns of runs, run of a chart, "" or the count of restarts."""


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


class CsvRows:
    """Collects the points of a table by run."""

    def __init__(self, table: CsvTable) -> None:
        self.runs: dict[RunKey, SeriesCollector] = {}
        self.times: dict[RunKey, tuple[float, float]] = {}
        self.problems: list[tuple[str, str]] = []
        self.first: list[str] = []
        self._table = table
        self.columns = CsvColumns(table.header)
        self._places: dict[RunKey, _Place] = {}
        download = DOWNLOAD.fullmatch(table.file.stem)
        metrics = [metric for metric in self.columns.metrics if metric[0] != self.columns.time]
        self._tag = download[2] if download and len(metrics) == 1 else ""
        self.counter = self.columns.counter
        if any(
            (value := table.number(row[self.counter])) is not None and math.isfinite(value) and value % 1
            for row in (table.rows() if self.counter is not None else ())
            if self.counter is not None and self.counter < len(row)
        ):
            self.counter = None  # Parts of epochs are no steps: rows are.

    def add(self, row: list[str]) -> None:
        """Adds a row; cells that are empty or no numbers are skipped, and so are rows with a word for a step."""
        self.first = self.first or row
        columns = self.columns
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
            points.add(named, place.step, value, place.begun)
            place.columns.add(column)
            if moment_of_row is not None:
                low, high = self.times.get(key, (moment_of_row, moment_of_row))
                self.times[key] = (min(low, moment_of_row), max(high, moment_of_row))

    def _move(self, place: _Place, row: list[str], filled: set[int]) -> bool:
        """Sets the step of a row: that of the row above if it has none; `False` if it has a word in its place."""
        text = _cell(row, self.counter)
        value = self._table.number(text.partition("/")[0])
        if value is None or not abs(value) <= _LARGEST_STEP:
            place.step = max(place.step + (self.counter is None), 0)
            return not text or value is not None
        count = max(int(value), 0)
        columns = self.columns
        epoch = self._table.number(_cell(row, columns.epoch)) if self.counter != columns.epoch else None
        if epoch is not None:
            begins_again = count < place.count or (count == place.count and self.counter == columns.batch)
            new = place.step + (count == 0) if begins_again else place.offset
            place.offset = place.offsets.setdefault(epoch, new)
        place.count, step = count, count + place.offset
        if step < place.step and filled & place.columns:
            if step != place.steps[0] and place.steps[bisect_left(place.steps, step)] == step:
                place.begun = set()
            elif step == place.steps[0] or len(place.steps) > 1:  # a step that was never reached is of another count
                place.steps, place.columns, place.begun = array("q"), set(), None
                place.restarts += 1
        place.step = step
        if not place.steps or step > place.steps[-1]:
            place.steps.append(step)
        return True


def _cell(row: list[str], place: int | None) -> str:
    return row[place] if place is not None and place < len(row) else ""


def _moment(text: str, table: CsvTable) -> float | None:
    """Returns the Unix seconds of a cell with a date, or with seconds or milliseconds since 1970."""
    value = table.number(text)
    if value is None:
        return moment(text)
    return next((each for each in (value, value / 1000) if _EARLIEST < each < _LATEST), None)
