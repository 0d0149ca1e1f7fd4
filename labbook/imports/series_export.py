"""Writes the series of a run as TensorBoard event files or as CSV."""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labbook.imports.logged_content import MAX_DEPTH
from labbook.imports.wire_format import encode_message, frame_record
from labbook.model.run import Run
from labbook.model.run_fields import flatten
from labbook.store.journal import write_atomically

_FLOAT, _STRING = 1, 7
"""`DataType` of TensorFlow."""


def write_tensorboard(run: Run, folder: Path) -> Path:
    """Writes the series and the options of a run as one TensorBoard event file and returns its path.

    Args:
        run: The run. Its points have no times of their own: they are spread evenly over its duration.
        folder: Created if it is missing; the folder of the run in TensorBoard.

    Raises:
        OSError: The file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{int(run.started):010d}.labbook.{run.id}"
    write_atomically(path, b"".join(frame_record(event) for event in _events(run)))
    return path


def _events(run: Run) -> Iterator[bytes]:
    begin = float(run.started)
    last = max((series.last_step or 0 for series in run.series), default=0) or 1
    yield encode_message((1, begin), (3, "brain.Event:2"))
    options = [pair for arguments in run.arguments for pair in flatten(arguments.values, deepest=MAX_DEPTH)]
    if options:
        yield encode_message((1, begin), (5, encode_message((1, _hparams(options, begin)))))
        rows = "\n".join(f"| {name} | {value} |" for name, value in options)
        table = f"| option | value |\n|---|---|\n{rows}"
        tensor = encode_message((1, _STRING), (2, encode_message((2, encode_message((1, 1))))), (8, table))
        metadata = encode_message((1, encode_message((1, "text"))))
        yield encode_message(
            (1, begin),
            (5, encode_message((1, encode_message((1, "options/text_summary"), (8, tensor), (9, metadata))))),
        )
    span = run.duration_s or 0.0
    for series in run.series:
        metadata = encode_message((1, encode_message((1, "scalars"))))
        for place, (step, value) in enumerate(zip(series.steps, series.values, strict=True)):
            tensor = encode_message((1, _FLOAT), (2, b"")) + _floats(value)
            summary = encode_message((1, _name(run, series)), (8, tensor), *([] if place else [(9, metadata)]))
            moment = begin + span * min(1.0, max(0.0, step / last))
            yield encode_message((1, moment), (2, step), (5, encode_message((1, summary))))


def _floats(value: float) -> bytes:
    """Returns `float_val` of a tensor with one value; values beyond 32 bits become infinite."""
    try:
        data = struct.pack("<f", value)
    except OverflowError:
        data = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return encode_message((5, data))


def _hparams(options: list[tuple[str, Any]], begin: float) -> bytes:
    """Returns the summary from which the HPARAMS tab reads the options of a run."""
    entries = []
    for name, value in options:
        if isinstance(value, bool):
            wrapped = encode_message((4, int(value)))
        elif isinstance(value, (int, float)):
            wrapped = encode_message((2, float(value)))
        else:
            wrapped = encode_message((3, str(value)))
        entries.append((1, encode_message((1, name), (2, wrapped))))
    content = encode_message((3, encode_message(*entries, (5, begin))))
    metadata = encode_message((1, encode_message((1, "hparams"), (2, content))))
    return encode_message((1, "_hparams_/session_start_info"), (9, metadata))


def _name(run: Run, series: Any) -> str:  # noqa: ANN401 - a series of the run
    ranks = {each.rank for each in run.series if each.name == series.name}
    return f"{series.name}/rank{series.rank}" if len(ranks) > 1 and series.rank is not None else str(series.name)


def write_csv(run: Run, path: Path) -> Path:
    """Writes the series of a run as a table and returns its path: a row for each step, a column for each series.

    Cells without a value are empty; numbers that are not finite are `nan`, `inf`, `-inf`. Values are not rounded.

    Args:
        path: The file; its folder is created.

    Raises:
        OSError: The file cannot be written.
    """
    names: list[str] = []
    rows: dict[tuple[int, int], dict[str, float]] = {}
    for series in run.series:
        name = _name(run, series)
        names += [name] if name not in names else []
        repeats: dict[int, int] = {}
        for step, value in zip(series.steps, series.values, strict=True):
            # A series with several values at one step gets a row for each.
            repeats[step] = repeats.get(step, -1) + 1
            rows.setdefault((step, repeats[step]), {})[name] = value
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", *names])
    for step, repeat in sorted(rows):
        row = rows[step, repeat]
        writer.writerow([step, *(repr(row[name]) if name in row else "" for name in names)])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue().encode("utf-8", "replace"))
    return path
