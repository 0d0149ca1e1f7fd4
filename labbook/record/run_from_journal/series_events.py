"""Builds series from the step and scalar events of all processes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labbook.model.events.training_kinds import Scalars, Step, Window
from labbook.model.metric_kinds import is_counter
from labbook.model.series import Series
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.store.journal import ProcessEvents

_MEASURED = {"loss", "grad_norm", "step_time_s", "grad_scale", "lr"}
"""Names of the series that the probe itself measures."""


@dataclass
class _Points:
    """Points of one series, in the order of their events."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    count: int = 0
    nonfinite: int = 0
    axis: str = ""

    def add(self, step: int, value: float, window: Window | None = None) -> None:
        """Adds one point, which may represent several steps."""
        finite = math.isfinite(value)
        low, high, _, good, bad = window or (None, None, None, int(finite), int(not finite))
        self.steps.append(step)
        self.values.append(value)
        self.low.append(value if low is None else low)
        self.high.append(value if high is None else high)
        self.count += good + bad
        self.nonfinite += bad


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
                    axis=points.axis,
                )
            )
    order = {"probe": 0, "labbook": 1}
    return tuple(sorted(series, key=lambda s: (order.get(s.source, 2), s.rank or 0)))


def process_labels(processes: Sequence[ProcessEvents]) -> list[str]:
    """Returns a label for each process, empty for the first of its rank that measured something."""
    used_labels: set[tuple[int | None, str]] = set()
    seen: set[int | None] = set()
    labels = []
    for process in processes:
        rank = rank_of_process(process)
        measured = bool(process.events_of_kind(Step)) or bool(process.events_of_kind(Scalars))
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
    argv = process.hello.get("argv", [])
    # A process that `multiprocessing` spawns is an interpreter with code of the library (`-c`).
    program = argv[0] if argv and "-c" not in argv else "process"
    named = next((a for a in argv if a.endswith((".py", ".ipynb"))), program)
    return named.rsplit("/", 1)[-1]


def _process_points(process: ProcessEvents) -> dict[tuple[str, str], _Points]:
    points: dict[tuple[str, str], _Points] = {}
    logged: dict[str, int] = {}
    steps = process.events_of_kind(Step)
    passes = usual_passes(steps)
    for event in steps:
        _add_step(points, event, passes[event.get("opt", 0)])
    for scalars in process.events_of_kind(Scalars):
        _add_scalars(points, scalars, logged)
    for (name, source), collected in list(points.items()):
        if source != "probe" and (later := _split_later_result(collected)) is not None:
            points.setdefault((f"{name}.final", source), later)
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


def usual_passes(steps: Sequence[Step]) -> dict[int, int]:
    """Returns index of an optimizer -> backward passes that most of its steps add up; 1 where no number has most."""
    counts: dict[int, Counter[int]] = {}
    for event in steps:
        counts.setdefault(event.get("opt", 0), Counter())[event.get("summed", 1)] += 1
    most = {opt: (found.most_common(1)[0], found.total()) for opt, found in counts.items()}
    return {opt: passes if 2 * count > total else 1 for opt, ((passes, count), total) in most.items()}


def _add_step(points: dict[tuple[str, str], _Points], event: Step, passes: int) -> None:
    """Adds the values of a step; no loss if it adds up more or fewer `passes` than most: the two do not compare."""
    step, opt, windows = event.get("step", 0), event.get("opt", 0), event.get("agg", {})
    suffix = f".opt{opt}" if opt else ""
    loss, loss_window = event.get("loss"), windows.get("loss")
    if "step_loss" in event:
        loss, loss_window = event["step_loss"], windows.get("step_loss")
    if isinstance(loss, tuple):
        loss = sum(loss) if loss else math.nan
    if passes > 1 and not windows and event.get("summed", 1) != passes and loss is not None and math.isfinite(loss):
        loss = None
    for name, value, window in (
        ("loss", loss, loss_window),
        ("grad_norm", event.get("grad_norm"), windows.get("grad_norm")),
        ("step_time_s", event.get("dt"), windows.get("dt")),
        ("grad_scale", event.get("scale"), windows.get("scale")),
    ):
        if value is not None:
            at = event.get("norm_step", step) if name == "grad_norm" else step
            points.setdefault((name + suffix, "probe"), _Points()).add(at, value, window)
    parts = event.get("parts", {})
    for part, value in parts.items() if len(parts) > 1 else ():
        if part not in _MEASURED:
            points.setdefault((part + suffix, "probe"), _Points()).add(step, value)
    rates = event.get("lr", ())
    for group, rate in enumerate(rates if isinstance(rates, tuple) else (rates,)):
        if rate is not None:
            name = f"lr{suffix}" if group == 0 else f"lr{suffix}.group{group}"
            points.setdefault((name, "probe"), _Points()).add(step, rate)


def _add_scalars(points: dict[tuple[str, str], _Points], event: Scalars, logged: dict[str, int]) -> None:
    source = event.get("source") or "labbook"
    for name, value in event.get("values", {}).items():
        if source != "labbook" and is_counter(name):
            continue
        key = f"{source}:{name}"
        logged[key] = logged.get(key, 0) + 1
        found = points.setdefault((name, source), _Points())
        found.add(event.get("step", logged[key]), value)
        if "step" not in event:
            found.axis = "number"


def _split_later_result(points: _Points) -> _Points | None:
    """Removes and returns a second, other value of the last step, as of a model that is loaded again."""
    steps, value = points.steps, points.values[-1]
    if len(steps) < 3 or not max(steps[:-2]) < steps[-2] == steps[-1] or value == points.values[-2]:
        return None
    for each in (steps, points.values, points.low, points.high):
        each.pop()
    points.count -= 1
    points.nonfinite -= not math.isfinite(value)
    later = _Points()
    later.add(steps[-1], value)
    return later


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
        axis=points.axis,
    )
