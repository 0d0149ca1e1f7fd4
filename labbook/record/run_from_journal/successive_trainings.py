"""Finds several trainings that a program did one after another, by what it built for each. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from labbook.model.events.inspection_kinds import Model
from labbook.model.events.training_kinds import Optimizer, Step
from labbook.model.run import Run
from labbook.report.series_choice import find_primary_series, primary_direction, run_best
from labbook.store.journal import ProcessEvents

_MOST = 1000
_MEAN = 0.02
"""Relative deviation up to which a last value is the printed mean of those before. Source: chosen by us."""

_CONTAINERS = ("Sequential", "ModuleDict", "ModuleList", "LayerList", "LayerDict")
_LATE = 2
"""Rows of steps that an optimizer has if it takes no turns: its own, and the queued ones that are written later."""


def successive_trainings(run: Run, processes: Sequence[ProcessEvents]) -> dict[str, Any]:
    """Returns the trainings of a program that built a new model and a new optimizer for each; empty for any other.

    The optimizers of a GAN or of an actor and its critic take turns, and fine-tuning goes on with the same model: these
    are one training. With several ranks, those of the first process that trained count.

    Args:
        run: The run with its series.
        processes: Events of its processes.

    Returns:
        `metric`: what the program reports once a training, else "loss". `rows`, one a training: `number`, `params`
        (options of the optimizer that differ), `steps`, `best`, `last`, `duration_s`. If they differ, `best`: the
        number of the best training, `value`: its value, `series`: the name of the series with its loss. Equal ones
        (folds, seeds) have `mean`, `low` and `high`.
    """
    trained = next((process for process in processes if process.of_kind(Step)), None)
    found = trainings_in_turn(trained)[:_MOST] if trained is not None else []
    if not found:
        return {}
    options = [_plain_options(optimizer) for optimizer, _ in found]
    names = dict.fromkeys(name for each in options for name in each)
    differing = [name for name in names if len({str(each.get(name)) for each in options}) > 1]
    losses = {series.name: series for series in run.series if series.source == "probe"}
    metric, reported, mean = _reported(run, len(found))
    ends = [end for _, end in step_spans(trained).values()] if trained is not None else []
    rows: list[dict[str, Any]] = []
    for number, (optimizer, steps) in enumerate(found):
        index = optimizer.get("index", 0)
        loss = losses.get(f"loss.opt{index}" if index else "loss")
        best = run_best(run, loss) if loss is not None else None
        rows.append(
            {
                "number": number,
                "params": {name: options[number][name] for name in differing if name in options[number]},
                "steps": max(step.get("step", 0) for step in steps),
                "best": reported[number] if reported else best,
                "last": reported[number] if reported else loss.last if loss is not None else None,
                "duration_s": max(0.0, ends[number] - optimizer.get("t", 0.0)),
            }
        )
    values = [row["best"] for row in rows if row["best"] is not None and math.isfinite(row["best"])]
    facts = {"metric": metric or "loss", "rows": rows}
    if len(values) < len(rows):
        return facts
    if not differing:
        return {**facts, "mean": fmean(values) if mean is None else mean, "low": min(values), "high": max(values)}
    direction = primary_direction(run) if reported else "min"
    if not direction:
        return facts
    value = max(values) if direction == "max" else min(values)
    best = values.index(value)
    index = found[best][0].get("index", 0)
    return {**facts, "best": best, "value": value, "series": f"loss.opt{index}" if index else "loss"}


def trainings_in_turn(process: ProcessEvents) -> list[tuple[Optimizer, list[Step]]]:
    """Returns the optimizers with their steps if there are several and each trained a new model after the one before.

    All models are of one class: a teacher and its student are no repeated training.
    """
    if len(process.of_kind(Optimizer)) < 2:
        return []
    found: dict[int, tuple[Optimizer, list[Step]]] = {}
    roots: dict[int, str | None] = {}
    models: set[int] = set()
    made: str | None = None
    last = -1
    for event in process.events:
        kind = event.get("k")
        if kind == "model":
            model: Model = event  # type: ignore[assignment]
            if model.get("model", 0) in models:
                continue
            models.add(model.get("model", 0))
            # Its description may follow the first step.
            if found and roots[last] is None and len(found[last][1]) < 2:
                roots[last] = _kind_of(model)
            else:
                made = _kind_of(model)
        elif kind == "optimizer":
            last = event.get("index", 0)  # type: ignore[assignment]
            found[last] = (event, [])  # type: ignore[assignment]
            roots[last], made = made, None
        elif kind == "step":
            step: Step = event  # type: ignore[assignment]
            if step.get("opt", 0) not in found:
                return []
            found[step.get("opt", 0)][1].append(step)
    spans = step_spans(process)
    is_in_turn = all(one[1] <= other[0] for one, other in pairwise(spans.values()))
    is_repeated = None not in roots.values() and len(set(roots.values())) == 1
    return list(found.values()) if is_in_turn and is_repeated and spans.keys() == found.keys() else []


def _kind_of(model: Model) -> str:
    """Returns the class of a model; models of a class that only contains others have as many parameters."""
    name = model.get("root", "")
    return f"{name} {len(model.get('parameters', []))}" if name in _CONTAINERS else name


def step_spans(process: ProcessEvents) -> dict[int, tuple[float, float]]:
    """Returns optimizer -> times of its first and last step, in the order in which they began.

    The last queued steps of an optimizer are written when another one is made or at the exit: those do not count.
    """
    times: dict[int, list[tuple[float, float]]] = {}
    last = None
    for step in process.of_kind(Step):
        index, t = step.get("opt", 0), step.get("t", 0.0)
        found = times.setdefault(index, [])
        if index == last:
            found[-1] = (found[-1][0], t)
        else:
            found.append((t, t))
        last = index
    return {index: (each[0][0], each[0 if len(each) <= _LATE else -1][1]) for index, each in times.items()}


def steps_in_all(process: ProcessEvents) -> int:
    """Returns the steps of a process: those of optimizers that take turns count once, of one after another all."""
    counts: dict[int, int] = {}
    for event in process.of_kind(Step):
        counts[event.get("opt", 0)] = max(counts.get(event.get("opt", 0), 0), event.get("step", 0))
    total, most, until = 0, 0, -math.inf
    for index, (begin, end) in step_spans(process).items():
        if begin > until:
            total, most = total + most, 0
        most, until = max(most, counts[index]), max(until, end)
    return total + most


def _reported(run: Run, count: int) -> tuple[str, list[float], float | None]:
    """Returns name and values of the primary metric if the program reports it once a training, and its printed mean."""
    series = find_primary_series(run)
    if series is None or series.source == "probe":
        return "", [], None
    values, mean = list(series.values), None
    if len(values) == count + 1 and math.isclose(values[-1], fmean(values[:-1]), rel_tol=_MEAN):
        mean = values.pop()
    is_once = len(values) == count and all(map(math.isfinite, values))
    return (series.name, values, mean) if is_once else ("", [], None)


def _plain_options(optimizer: Optimizer) -> dict[str, Any]:
    options = {"optimizer": optimizer.get("type", ""), **(optimizer.get("options") or {})}
    return {name: value for name, value in options.items() if isinstance(value, (bool, int, float, str))}
