"""Finds several trainings that a program did one after another, by the models of its optimizers. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, cast

from labbook.model.events import KIND_NAMES
from labbook.model.events.inspection_kinds import LoadedState
from labbook.model.events.loop_kinds import Loop
from labbook.model.events.process_kinds import Event, UncaughtException
from labbook.model.events.training_kinds import Optimizer, Scalars, Step
from labbook.model.run import Run
from labbook.record.run_from_journal.script_loops import repeated_values
from labbook.record.run_from_journal.trial_parts import TrialPart, split_labelled
from labbook.report.series_choice import ends_with_mean, find_primary_series, primary_direction, run_best
from labbook.store.journal import ProcessEvents

_MOST = 1000
_OPTIMIZER, _EXCEPTION = KIND_NAMES[Optimizer], KIND_NAMES[UncaughtException]
_LARGER = 1.1
"""Ratio of sizes of models or batches from which they differ on purpose, not by the data of a fold. Source: chosen by
us."""

_CONTAINERS = ("Sequential", "ModuleDict", "ModuleList", "LayerList", "LayerDict")
_LATE = 2
"""Rows of steps that an optimizer has if it takes no turns: its own, and the queued ones that are written later."""


@dataclass(frozen=True)
class Phase:
    """A part of a training in which the same optimizers step.

    Attributes:
        optimizers: They, in order of their first steps.
        begin: Time of the first step.
        end: Time of the last one.
    """

    optimizers: tuple[Optimizer, ...]
    begin: float
    end: float

    @property
    def models(self) -> set[int]:
        """Numbers of the models that are trained."""
        return {optimizer.get("trains", -1) for optimizer in self.optimizers}

    @property
    def suffix(self) -> str:
        """What follows the name of a series of its first optimizer."""
        index = self.optimizers[0].get("index", 0)
        return f".opt{index}" if index else ""


def successive_trainings(run: Run, processes: Sequence[ProcessEvents], script: str = "") -> dict[str, Any]:
    """Returns the trainings of a program that trained several models one after another; empty for any other.

    The optimizers of a GAN or of an actor and its critic take turns, and fine-tuning goes on with the same model: these
    are one training. With several ranks, those of the first process that trained count.

    Args:
        run: The run with its series.
        script: Text of the program.

    Returns:
        `metric`: what the program reports once a training, else "loss". `rows`, one a training: `number`, `params`
        (options of the optimizer, dropout, sizes of model and batch, values of loops around it that differ), `steps`,
        `best`, `last`, `duration_s`. If they differ, `best`: the number of the best training, `value`: its value,
        `series`: the name of the series with its loss. Equal ones (folds, seeds) have `mean`, `low` and `high`.
    """
    trained = next((process for process in processes if process.events_of_kind(Step)), None)
    found = trainings_in_turn(trained)[:_MOST] if trained is not None else []
    if trained is None or not found:
        return {}
    options = [_plain_options(phases[-1].optimizers[0]) for phases in found]
    for name, sizes in (("parameters", _model_sizes(found)), ("batch_size", _batch_sizes(trained, found))):
        if min(sizes) > 0 and max(sizes) > _LARGER * min(sizes):
            options = [{**each, name: size} for each, size in zip(options, sizes, strict=True)]
    kinds = {phases[-1].optimizers[0].get("type", "") for phases in found}
    if looped := repeated_values(script, min(kinds), len(found)) if script and len(kinds) == 1 else []:
        options = [{**ours, **each} for each, ours in zip(options, looped, strict=True)]
    names = dict.fromkeys(name for each in options for name in each)
    differing = [name for name in names if len({str(each.get(name)) for each in options}) > 1]
    losses = {series.name: series for series in run.series if series.source == "probe"}
    metric, reported, mean = _find_reported_metric(run, _logged_once(trained, found), len(found))
    counts = _steps_of(trained)
    rows: list[dict[str, Any]] = []
    for number, phases in enumerate(found):
        loss = losses.get("loss" + phases[-1].suffix)
        best = run_best(run, loss) if loss is not None else None
        rows.append(
            {
                "number": number,
                "params": {name: options[number][name] for name in differing if name in options[number]},
                "steps": sum(max(counts.get(o.get("index", 0), 0) for o in phase.optimizers) for phase in phases),
                "best": reported[number] if reported else best,
                "last": reported[number] if reported else loss.last if loss is not None else None,
                "duration_s": max(0.0, phases[-1].end - phases[0].optimizers[0].get("t", 0.0)),
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
    return {**facts, "best": best, "value": value, "series": "loss" + found[best][-1].suffix}


def trainings_as_trials(run: Run, processes: Sequence[ProcessEvents]) -> list[TrialPart]:
    """Returns the trainings of a program that tried several options, each with the events that are known to be its own.

    These are its steps and what was logged during them. Folds and seeds, whose options are alike, are no trials. An
    error of the program is of the last one if that made fewer steps than any other.

    Args:
        run: The run with its `trainings`.
    """
    facts = run.captured.get("trainings") or {}
    rows: Sequence[Mapping[str, Any]] = facts.get("rows") or ()
    trained = next((process for process in processes if process.events_of_kind(Step)), None)
    if trained is None or not any(row["params"] for row in rows):
        return []
    found = trainings_in_turn(trained)[: len(rows)]
    of_optimizer = {o.get("index", 0): at for at, one in enumerate(found, 1) for p in one for o in p.optimizers}
    spans = [(phases[0].optimizers[0].get("t", 0.0), phases[-1].end) for phases in found]
    logged = {id(event): at for at, events in enumerate(_logged_during(trained, found), 1) for event in events}
    has_ended = run.status == "finished" or rows[-1]["steps"] >= min(row["steps"] for row in rows[:-1])
    marked: list[Event] = []
    for event in trained.events:
        label = logged.get(id(event), 0)
        if event.get("k") == _OPTIMIZER:
            label = of_optimizer.get(cast(Optimizer, event).get("index", -1), 0)
        elif event.get("k") == _EXCEPTION and not has_ended:
            label = len(found)
        marked.append(cast(Event, {**event, "trial": label}) if label else event)
    _, parts = split_labelled(replace(trained, events=tuple(marked)), range(1, len(found) + 1))
    is_reported = facts["metric"] != "loss"
    return [
        TrialPart(
            ("", "", at + 1),  # as the table of trainings counts them
            rows[at]["params"],
            "complete" if at + 1 < len(found) or has_ended else "",
            (rows[at]["best"],) if is_reported else (),
            (),
            begin,
            end,
            (parts[at + 1],),
            result=facts["metric"],
        )
        for at, (begin, end) in enumerate(spans)
    ]


def _logged_during(process: ProcessEvents, trainings: Sequence[Sequence[Phase]]) -> list[list[Scalars]]:
    """Returns for each training what was logged from its first step until the next training.

    What was also logged before the first training may be the state in which each one begins: between two trainings it
    is left out.
    """
    begins = [phases[0].optimizers[0].get("t", 0.0) for phases in trainings]
    found: list[list[Scalars]] = [[] for _ in trainings]
    early: set[str] = set()
    for event in process.events_of_kind(Scalars):
        t, names = event.get("t", 0.0), set(event.get("values", {}))
        at = bisect_right(begins, t) - 1
        if at < 0:
            early |= names
        elif t <= trainings[at][-1].end or not names & early:
            found[at].append(event)
    return found


def _logged_once(process: ProcessEvents, trainings: Sequence[Sequence[Phase]]) -> dict[str, list[float]]:
    """Returns name -> values of what was logged once a training."""
    found: dict[str, list[list[float]]] = {}
    for at, events in enumerate(_logged_during(process, trainings)):
        for name, value in (pair for event in events for pair in event.get("values", {}).items()):
            found.setdefault(name, [[] for _ in trainings])[at].append(value)
    return {
        name: [value for (value,) in values] for name, values in found.items() if all(len(each) == 1 for each in values)
    }


def _model_sizes(trainings: Sequence[Sequence[Phase]]) -> list[int]:
    """Returns the number of parameters of each training, 0 where unknown."""
    return [sum(o.get("parameters", 0) for o in phases[-1].optimizers) for phases in trainings]


def _batch_sizes(process: ProcessEvents, trainings: Sequence[Sequence[Phase]]) -> list[float]:
    """Returns the usual number of samples of a step of each training, 0 where unknown."""
    found: dict[int, list[float]] = {}
    for step in process.events_of_kind(Step):
        found.setdefault(step.get("opt", 0), []).append(step.get("samples", 0))
    return [median(found.get(phases[-1].optimizers[0].get("index", 0), (0,))) for phases in trainings]


def training_phases(processes: Sequence[ProcessEvents]) -> dict[str, Any]:
    """Returns the phases of a program that trains with one optimizer after another; empty for any other.

    Returns:
        `count`: how many, at least 2. `series`: the name of the series with the loss of the last one.
    """
    trained = next((process for process in processes if process.events_of_kind(Step)), None)
    phases = phases_in_turn(trained) if trained is not None else []
    return {"count": len(phases), "series": "loss" + phases[-1].suffix} if len(phases) > 1 else {}


def trainings_in_turn(process: ProcessEvents) -> list[list[Phase]]:
    """Returns the phases of each training if there are several, and each trains a new model after the one before.

    All train models of the same classes, and of the same sizes where a model is called while another one is trained: a
    teacher and its student are no repeated training. A model that goes on where the one before ended, from its
    checkpoint, belongs to the same training.
    """
    found: list[list[Phase]] = []
    loads = [
        e.get("t", 0.0)
        for e in process.events_of_kind(LoadedState)
        if e.get("what") == "model" and e.get("matched", 0) > 0
    ]
    for phase in phases_in_turn(process):
        goes_on = bool(found) and any(phase.models & one.models for one in found[-1])
        if goes_on or (found and _begins_from_checkpoint(process, found[-1][-1], phase, loads)):
            found[-1].append(phase)
        else:
            found.append([phase])
    kinds = {_kind_of(each) for each in found}
    are_alike = len(kinds) == 1 and not any("" in kind for kind in kinds)
    sizes = {tuple(o.get("parameters", 0) for phase in each for o in phase.optimizers) for each in found}
    if len(sizes) > 1 and any(
        loop.get("forwards", {}).get("of_others", 0) for loop in process.events_of_kind(Loop)[-1:]
    ):
        return []
    models = [set().union(*(phase.models for phase in each)) for each in found]
    are_new = sum(map(len, models)) == len(set().union(*models))
    return found if len(found) > 1 and are_new and are_alike else []


def phases_in_turn(process: ProcessEvents) -> list[Phase]:
    """Returns the phases of a process in order; optimizers whose steps overlap in time are in one."""
    made = {event.get("index", 0): event for event in process.events_of_kind(Optimizer)}
    spans = step_spans(process)
    if not spans or not spans.keys() <= made.keys():
        return []
    found: list[Phase] = []
    for index, (begin, end) in spans.items():
        if found and begin < found[-1].end:
            last = found.pop()
            found.append(Phase((*last.optimizers, made[index]), last.begin, max(last.end, end)))
        else:
            found.append(Phase((made[index],), begin, end))
    return found


def _begins_from_checkpoint(process: ProcessEvents, before: Phase, after: Phase, loads: Sequence[float]) -> bool:
    """Whether a state was loaded between two phases, and the loss begins nearer to where the last one ended.

    `loads` are the times at which the state of a model was loaded.
    """
    if not any(before.end <= t <= after.begin for t in loads):
        return False
    first, last = _ends_of_loss(process, before.optimizers[0])
    again, _ = _ends_of_loss(process, after.optimizers[0])
    return last < first and again < (first + last) / 2


def _ends_of_loss(process: ProcessEvents, optimizer: Optimizer) -> tuple[float, float]:
    """Returns the first and the last loss of an optimizer, NaN where unknown."""
    steps = [step for step in process.events_of_kind(Step) if step.get("opt", 0) == optimizer.get("index", 0)]
    values = [v for step in steps if isinstance(v := step.get("step_loss", step.get("loss")), float)]
    return (values[0], values[-1]) if values else (math.nan, math.nan)


def _kind_of(phases: Sequence[Phase]) -> tuple[str, ...]:
    """Returns the classes of the models of a training; those that only contain others with their size, too.

    Of models that were not found only the number of parameters is known; one alone may be an optimised input.
    """
    names: dict[int, tuple[str, int]] = {}
    for optimizer in (optimizer for phase in phases for optimizer in phase.optimizers):
        _, size = names.get(optimizer.get("trains", -1), ("", 0))
        names[optimizer.get("trains", -1)] = (optimizer.get("root", ""), max(size, optimizer.get("tensors", 0)))
    sized = ("", *_CONTAINERS)
    return tuple(sorted(f"{name} {size}" if name in sized and size > 1 else name for name, size in names.values()))


def _steps_of(process: ProcessEvents) -> dict[int, int]:
    """Returns optimizer -> its steps."""
    counts: dict[int, int] = {}
    for event in process.events_of_kind(Step):
        counts[event.get("opt", 0)] = max(counts.get(event.get("opt", 0), 0), event.get("step", 0))
    return counts


def step_spans(process: ProcessEvents) -> dict[int, tuple[float, float]]:
    """Returns optimizer -> times of its first and last step, in the order in which they began.

    The last queued steps of an optimizer are written when another one is made or at the exit: those do not count.
    """
    times: dict[int, list[tuple[float, float]]] = {}
    last = None
    for step in process.events_of_kind(Step):
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
    counts = _steps_of(process)
    total, most, until = 0, 0, -math.inf
    for index, (begin, end) in step_spans(process).items():
        if begin > until:
            total, most = total + most, 0
        most, until = max(most, counts[index]), max(until, end)
    return total + most


def _find_reported_metric(
    run: Run, logged: Mapping[str, Sequence[float]], count: int
) -> tuple[str, list[float], float | None]:
    """Returns name and values of the primary metric if the program reports it once a training, and its printed mean.

    `logged` has what was logged once a training: equal steps are one point of a series.
    """
    series = find_primary_series(run)
    if series is None or series.source == "probe":
        return "", [], None
    if series.name in logged and all(map(math.isfinite, logged[series.name])):
        return series.name, list(logged[series.name]), None
    values, mean = list(series.values), None
    if len(values) == count + 1 and ends_with_mean(series):
        mean = values.pop()
    is_once = len(values) == count and all(map(math.isfinite, values))
    return (series.name, values, mean) if is_once else ("", [], None)


def _plain_options(optimizer: Optimizer) -> dict[str, Any]:
    options: dict[str, Any] = {"optimizer": optimizer.get("type", ""), **(optimizer.get("options") or {})}
    if rates := optimizer.get("dropout"):
        options["dropout"] = rates[0] if len(rates) == 1 else ", ".join(f"{rate:g}" for rate in rates)
    return {name: value for name, value in options.items() if isinstance(value, (bool, int, float, str))}
