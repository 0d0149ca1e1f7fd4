"""Reads the metrics in the CSV, TSV and JSONL files that a run wrote, by `CSVLogger`, pandas or by hand.

A table of metrics has one row for each step or epoch and a column with the name of a known metric. Predictions, data
sets and tables of several trainings are left out, unless the run did as many, and so are rows that were in a file
before the run began.
"""

from __future__ import annotations

import csv
import filecmp
import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path

from labbook.capture.metric_names import data_split, has_split
from labbook.capture.tables.csv_columns import CsvColumns
from labbook.capture.tables.csv_rows import CsvRows
from labbook.capture.tables.csv_tables import JSON_LINES, SUFFIXES, CsvTable, open_table
from labbook.capture.used_files import FilePathUse, display_path, merge_uses
from labbook.model.downsampling import downsample
from labbook.model.events.process_kinds import FileItem
from labbook.model.metric_kinds import metric_kind, name_words
from labbook.model.series import Series

_MAX_BYTES = 4 << 20
"""Limit of all tables of a run, the smallest first. Source: chosen by us; so much takes one or two seconds."""
_MAX_SERIES = 48
_SERIES_POINTS = 2000
_CLOCK_S = 2.0
"""How far the clock of a file system may differ from that of the recorder."""
_OF_SAMPLES = re.compile(
    r"(?:y[ _]?)?(?:true|preds?|predict(?:ed|ions?)|forecasts?|hat|labels?|targets?|actual|ground[ _]?truth)"
    r"|id|(?:sample|image|user|item)[ _]?(?:id)?|text|path|file(?:[ _]?name)?|actions?|states?|observations?",
    re.IGNORECASE,
)
"""Columns of tables with a row for each sample of a data set, or each move of an agent."""
_FILES_OF_SAMPLES = frozenset({
    "pred", "preds", "prediction", "predictions", "forecast", "forecasts", "submission", "sample", "samples", "data",
    "dataset", "generated", "trajectory", "trajectories", "horizon", "horizons",
})  # fmt: skip
"""Words of their names."""


def metrics_from_tables(
    items: Iterable[FileItem], cwd: Path, started: float, ended: float, trainings: int = 0
) -> list[Series]:
    """Returns the metrics in the tables that a run wrote; their source is the path of the file.

    Of columns of one name in several files only equal ones are returned, once: else it is not known which one counts.

    Args:
        items: Items of the probe's `files` events, over all processes.
        cwd: The run's working folder; paths below it are shown relative to it.
        started: Start of the run, Unix seconds. A table that changed before, or after `ended`, is not read.
        trainings: How many trainings the run did one after another, 0 for one. A table of as many is read.

    Cost:
        0.2 to 0.4 seconds for each MiB.
    """
    tables = [use for use in merge_uses(items).values() if Path(use.path).suffix.lower() in (*SUFFIXES, JSON_LINES)]
    tables.sort(key=lambda use: use.size)
    bytes_left = _MAX_BYTES
    inputs = [use.path for use in tables if use.mode == "r"]
    found: dict[str, list[Series]] = {}
    for use in tables:
        with suppress(OSError, ValueError, csv.Error):
            size = Path(use.path).stat().st_size
            if use.mode != "r" and size <= bytes_left and _is_of_run(use, inputs, started, ended):
                bytes_left -= size
                for series in _read_table(use, trainings):
                    named = replace(series, source=display_path(use.path, cwd))
                    found.setdefault(series.name.lower(), []).append(named)
    return [
        downsample(same[0], _SERIES_POINTS)
        for same in found.values()
        if all((other.steps, other.values) == (same[0].steps, same[0].values) for other in same)
    ][:_MAX_SERIES]


def _is_of_run(use: FilePathUse, inputs: Sequence[str], started: float, ended: float) -> bool:
    """Whether a file was last changed during the run, still begins with what it had before, and is no copy of inputs.

    Raises:
        OSError: The file is gone or cannot be read.
    """
    path = Path(use.path)
    facts = path.stat()
    in_time = started - _CLOCK_S <= facts.st_mtime <= ended + _CLOCK_S
    if not in_time or facts.st_size < use.size_before:
        return False
    if use.size_before and use.before:
        kept = hashlib.sha256(_bytes_before(use)).hexdigest()
        if use.before != f"sha256:{kept}":
            return False
    return not any(Path(one).is_file() and filecmp.cmp(one, path, shallow=False) for one in inputs)


def _bytes_before(use: FilePathUse) -> bytes:
    """Returns as much of a file as there was before the run."""
    with Path(use.path).open("rb") as file:
        return file.read(use.size_before)


def _read_table(use: FilePathUse, trainings: int) -> list[Series]:
    """Returns the metrics in the rows that the run added, known names first; empty if it is no table of metrics.

    Args:
        trainings: As of `metrics_from_tables`.
    """
    path = Path(use.path)
    table = open_table(path)
    if not table.header and (tag := _tag_of_scalar(path)):
        table = replace(table, header=("step", tag))
    columns = CsvColumns(table.header)
    of_samples = not _FILES_OF_SAMPLES.isdisjoint(name_words(path.stem))
    if columns.counter is None or of_samples or any(map(_OF_SAMPLES.fullmatch, table.header)):
        return []
    lines_before = _bytes_before(use).count(b"\n")
    table = replace(table, lines_before=max(table.lines_before, lines_before))
    cells = list(table.rows())
    if any(len(row) > 1 and all(table.number(cell) is None for cell in row) for row in cells):
        return []  # Another header: the columns below it are other ones.
    if any(_is_text(table, [row[place] for row in cells if place < len(row)]) for place, _, _ in columns.metrics):
        return []
    rows = CsvRows(table)
    for row in cells:
        rows.add(row)
    runs = [[_without_gaps(each) for each in points.series()] for points in rows.runs.values()]
    is_step_table = all(a < b for series in runs for each in series for a, b in pairwise(each.steps))
    series = _join_runs(runs) if len(runs) == trainings > 1 else runs[0] if len(runs) == 1 else []
    axis = "number" if rows.counter is None else "epoch" if rows.counter == columns.epoch else ""
    series = [replace(each, axis=each.axis or axis) for each in series]
    known = [each for each in series if metric_kind(each.name).quantity]
    if not is_step_table or not known:
        return []
    return [_with_split(each, table) for each in (*known, *(each for each in series if each not in known))]


def _join_runs(runs: Sequence[Sequence[Series]]) -> list[Series]:
    """Returns the series that all trainings of a table have, those of one behind those of the other."""
    by_name = [{each.name: each for each in series} for series in runs]
    joined = []
    for name in by_name[0]:
        parts = [one[name] for one in by_name if name in one and one[name].values]
        if len(parts) == len(runs):
            values = [value for part in parts for value in part.values]
            starts = tuple(accumulate((len(part.values) for part in parts[:-1]), initial=0))
            joined.append(Series.of_values(name, "", range(1, len(values) + 1), values, starts=starts, axis="number"))
    return joined


def _tag_of_scalar(path: Path) -> str:
    """Returns the name of a scalar that TorchRL's `CSVLogger` writes to `scalars/<name>.csv`, "" for other files."""
    folders, scalars, name = path.with_suffix("").as_posix().rpartition("/scalars/")
    return name if folders and scalars else ""


def _is_text(table: CsvTable, cells: Sequence[str]) -> bool:
    """Whether every row has words in a column, most of them other ones, as a prompt."""
    are_words = all(cell and table.number(cell) is None and not re.search(r"\d", cell) for cell in cells)
    return are_words and 2 * len(set(cells)) > max(len(cells), 2)


def _without_gaps(series: Series) -> Series:
    """Returns a held-out metric without the NaN of epochs without a validation, after which it has numbers again."""
    finite = [place for place, value in enumerate(series.values) if math.isfinite(value)]
    resumes = bool(finite) and not all(map(math.isfinite, series.values[: finite[-1]]))
    if metric_kind(series.name).is_training or not resumes:
        return series
    steps = [series.steps[place] for place in finite]
    values = [series.values[place] for place in finite]
    return Series.of_values(series.name, series.source, steps, values)


def _with_split(series: Series, table: CsvTable) -> Series:
    """Returns a series with the data split that the name of its file has, where no column has one: `val_log.csv`."""
    split = data_split(table.file.stem)
    return replace(series, name=f"{split}/{series.name}") if split and not any(map(has_split, table.header)) else series
