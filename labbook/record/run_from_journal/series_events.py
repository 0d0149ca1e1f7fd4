"""Builds series from the step and scalar events of all processes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labbook.model.metric_kinds import is_counter
from labbook.model.series import Series
from labbook.probe.events import protocol
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.store.journal import ProcessEvents

_STEP_NAMES = {"loss": "loss", "grad_norm": "grad_norm", "dt": "step_time_s", "scale": "grad_scale"}
"""Field of a step event -> name of its series."""


@dataclass
class _Points:
    """Points of one series, in the order of their events."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    count: int = 0
    nonfinite: int = 0

    def add(self, step: int, value: float, window: Sequence[Any] | None = None) -> None:
        """Adds one point; `window` is [min, max, mean, finite, non-finite] of several steps."""
        low = high = value
        finite, nonfinite = (1, 0) if math.isfinite(value) else (0, 1)
        if window is not None and len(window) == 5:
            low, high = to_float(window[0], value), to_float(window[1], value)
            finite, nonfinite = int(to_float(window[3], 0)), int(to_float(window[4], 0))
        self.steps.append(step)
        self.values.append(value)
        self.low.append(low)
        self.high.append(high)
        self.count += finite + nonfinite
        self.nonfinite += nonfinite


def fold_series(processes: Sequence[ProcessEvents]) -> tuple[Series, ...]:
    """Returns all series of a run: those of the optimizer steps, then those of the program.

    Each rank has its own series, marked by `rank`. When several processes without ranks trained (a script with two
    Python steps), the names of all but the first begin with their script: `finetune.py/loss`.
    """
    series: list[Series] = []
    labels = process_labels(processes)
    for process, label in zip(processes, labels, strict=True):
        rank = rank_of_process(process)
        for (name, source), points in _process_points(process).items():
            series.append(
                Series(
                    name=f"{label}/{name}" if label else name,
                    source=source,
                    steps=tuple(points.steps),
                    values=tuple(points.values),
                    low=tuple(points.low),
                    high=tuple(points.high),
                    count=points.count,
                    nonfinite=points.nonfinite,
                    rank=rank,
                )
            )
    order = {"probe": 0, "labbook": 1}
    return tuple(sorted(series, key=lambda s: (order.get(s.source, 2), s.rank or 0)))


def to_float(value: object, default: float = math.nan) -> float:
    """Returns a number of an event as a float; JSON has the strings "nan", "inf" and "-inf"."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    return default


def process_labels(processes: Sequence[ProcessEvents]) -> list[str]:
    """Returns a label for each process, empty for the first of its rank that measured something."""
    used_labels: set[tuple[int | None, str]] = set()
    seen: set[int | None] = set()
    labels = []
    for process in processes:
        rank = rank_of_process(process)
        measured = process.of_kind(protocol.STEP) or process.of_kind(protocol.SCALARS)
        label = ""
        if measured and rank in seen:
            script = _script(process)
            count = 1
            label = script
            while (rank, label) in used_labels:
                count += 1
                label = f"{script}#{count}"
            used_labels.add((rank, label))
        if measured:
            seen.add(rank)
        labels.append(label)
    return labels


def _script(process: ProcessEvents) -> str:
    argv = [str(a) for a in process.hello.get("argv") or ()]
    named = next((a for a in argv if a.endswith((".py", ".ipynb"))), argv[0] if argv else "process")
    return named.rsplit("/", 1)[-1]


def _process_points(process: ProcessEvents) -> dict[tuple[str, str], _Points]:
    points: dict[tuple[str, str], _Points] = {}
    logged: dict[str, int] = {}
    for event in process.events:
        kind = event.get("k")
        if kind == protocol.STEP:
            _add_step(points, event)
        elif kind == protocol.SCALARS:
            _add_scalars(points, event, logged)
    ascending = {key: _ascending(collected) for key, collected in points.items()}
    return {key: p for key, p in ascending.items() if not _repeats_first_group(key, p, ascending)}


def _repeats_first_group(key: tuple[str, str], points: _Points, all_points: Mapping[tuple[str, str], _Points]) -> bool:
    """Whether this parameter group always has the learning rate of the first group."""
    name, source = key
    base, separator, _ = name.partition(".group")
    if not separator:
        return False
    first = all_points.get((base, source))
    return first is not None and first.steps == points.steps and first.values == points.values


def _add_step(points: dict[tuple[str, str], _Points], event: Mapping[str, Any]) -> None:
    step = int(to_float(event.get("step"), 0))
    opt = int(to_float(event.get("opt"), 0))
    suffix = f".opt{opt}" if opt else ""
    windows = event.get("agg") or {}
    for name, series_name in _STEP_NAMES.items():
        value = event.get(name)
        if value is None:
            continue
        if isinstance(value, list):
            several = [to_float(v) for v in value]
            value = sum(several) / len(several) if several else math.nan
        points.setdefault((series_name + suffix, "probe"), _Points()).add(step, to_float(value), windows.get(name))
    rates = event.get("lr")
    for group, rate in enumerate(rates if isinstance(rates, list) else [rates]):
        if rate is not None:
            name = f"lr{suffix}" if group == 0 else f"lr{suffix}.group{group}"
            points.setdefault((name, "probe"), _Points()).add(step, to_float(rate))


def _add_scalars(points: dict[tuple[str, str], _Points], event: Mapping[str, Any], logged: dict[str, int]) -> None:
    source = str(event.get("source") or "labbook")
    for name, value in (event.get("values") or {}).items():
        if source != "labbook" and is_counter(str(name)):
            continue
        key = f"{source}:{name}"
        logged[key] = logged.get(key, 0) + 1
        step = event.get("step")
        at = int(step) if isinstance(step, (int, float)) else logged[key]
        points.setdefault((str(name), source), _Points()).add(at, to_float(value))


def _ascending(points: _Points) -> _Points:
    """Returns the points ordered by step; of several values of one step the last one counts."""
    if all(a < b for a, b in zip(points.steps, points.steps[1:], strict=False)):
        return points
    rows: dict[int, tuple[float, float, float]] = {}
    for step, value, low, high in zip(points.steps, points.values, points.low, points.high, strict=True):
        rows[step] = (value, low, high)
    steps = sorted(rows)
    return _Points(
        steps=steps,
        values=[rows[s][0] for s in steps],
        low=[rows[s][1] for s in steps],
        high=[rows[s][2] for s in steps],
        count=points.count,
        nonfinite=points.nonfinite,
    )
