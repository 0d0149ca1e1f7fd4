"""Builds the signals, the input of the health checks, from the events of all processes."""

from __future__ import annotations

import math
import typing
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from labbook.model.events.data_kinds import Batch, Loader, Memory, Prints
from labbook.model.events.inspection_kinds import Flight, Graph, LoadedState, Model, ParameterRow, Tensors
from labbook.model.events.loop_kinds import Loop
from labbook.model.events.process_kinds import Event
from labbook.model.events.request_kinds import Moment
from labbook.model.events.training_kinds import Evaluation, LossCall, Optimizer, State, Step
from labbook.model.series import Series
from labbook.model.signals import Signals
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.record.run_from_journal.series_events import process_labels
from labbook.record.run_from_journal.training_order import step_spans, trainings_in_turn
from labbook.store.journal import ProcessEvents

_MOST_ROWS = 120_000
"""Maximum rows of tensors of one process. Source: chosen by us; 100 MB of objects, 150 dense steps of a model with 800
tensors."""

_MOST: dict[type[Event], int] = {
    Model: 50,
    Tensors: 400,
    Batch: 2000,
    Prints: 400,
    LossCall: 200,
    LoadedState: 40,
    Graph: 20,
    Evaluation: 2000,
    Loader: 100,
    Memory: 2000,
    Moment: 50,
}
"""Maximum events of a kind; of more, the first and last ones and an even sample of the others are used."""

_TRAINING_KINDS: tuple[type[Event], ...] = (Step, Tensors, Loop, Graph, LossCall, Flight)
_MOST_OPTIMIZERS = 256
_PHASES: tuple[Literal["data", "forward", "backward", "optimizer", "other", "probe"], ...] = (
    *("data", "forward", "backward", "optimizer", "other", "probe"),
)
_Kind = TypeVar("_Kind", bound=Event)


def fold_signals(processes: Sequence[ProcessEvents]) -> tuple[Signals, ...]:
    """Returns the signals of each process and framework that trained, ordered by rank.

    One that only called losses or evaluated counts if none made a step. The phases of the parent of processes that
    train are those of the first of these.
    """
    stepped = any(process.events_of_kind(Step) for process in processes)
    kinds: list[type[Event]] = [kind for kind in _TRAINING_KINDS if kind is not LossCall or not stepped]
    kinds += [] if stepped else [Evaluation]
    signals: list[Signals] = []
    beside: list[Evaluation] = []
    for process, label in zip(processes, process_labels(processes), strict=True):
        trained = {event.get("framework", "") for kind in kinds for event in process.events_of_kind(kind)}
        frameworks = dict.fromkeys(event.get("framework", "") for event in process.events)
        signals += [_fold(process, framework, label) for framework in frameworks if framework in trained]
        if not trained:
            beside += process.events_of_kind(Evaluation)
    signals.sort(key=lambda s: s.rank or 0)
    first = next((at for at, one in enumerate(signals) if not one.evaluations), None) if beside else None
    if first is not None:
        own = [phase for phase in beside if phase.get("framework") == signals[first].framework]
        signals[first] = replace(signals[first], evaluations=tuple(own))
    return tuple(signals)


def _fold(process: ProcessEvents, framework: str, label: str) -> Signals:
    """Returns the signals of one framework in one process; `label` is the prefix of the names of its series."""

    def events(kind: type[_Kind]) -> list[_Kind]:
        return [event for event in process.events_of_kind(kind) if event.get("framework", "") == framework]

    def sample(kind: type[_Kind]) -> tuple[_Kind, ...]:
        return tuple(_sample_evenly(events(kind), _MOST[kind]))

    steps, rank = events(Step), rank_of_process(process)
    loop = _totals(events(Loop))
    toggled = frozenset(loop.get("toggled", []))
    modes = [mode for event in events(State) if (mode := event.get("mode"))]
    losses = {(e.get("call"), e.get("fn"), e.get("line"), e.get("training")): e for e in sample(LossCall)}
    return Signals(
        framework=framework,
        label=label,
        rank=rank,
        pid=process.hello.get("pid", 0),
        mode=modes[-1] if modes else "",
        models=tuple(_set_free(model, toggled) for model in sample(Model)),
        tensors=_limit_rows(sample(Tensors)),
        batches=sample(Batch),
        prints=sample(Prints),
        losses=tuple(losses.values()),
        loaded=sample(LoadedState),
        graphs=sample(Graph),
        loop=loop,
        evaluations=sample(Evaluation),
        loaders=sample(Loader),
        memory=sample(Memory),
        flight=next(iter(events(Flight)), Flight()),
        moments=sample(Moment),
        phases=_phases(steps, rank),
        optimizers=tuple(events(Optimizer)[:_MOST_OPTIMIZERS]),
        spans=step_spans(process),
        trainings=tuple((one[0].begin, one[-1].end) for one in trainings_in_turn(process)),
        ended=max((event.get("t", 0.0) for event in process.events), default=0.0),
    )


def _set_free(model: Model, toggled: frozenset[str]) -> Model:
    """Returns a model with those parameters as trainable that were set free, or frozen, while it was trained."""
    freed: dict[int, int] = {}
    rows: list[ParameterRow] = []
    for row in model.get("parameters", []):
        if row.get("name") in toggled and not row.get("trainable"):
            freed[row.get("module", 0)] = freed.get(row.get("module", 0), 0) + math.prod(row.get("shape", ()))
            row = {**row, "trainable": True}
        rows.append(row)
    if not freed:
        return model
    modules = [
        {**row, "trainable": row.get("trainable", 0) + freed.get(row.get("i", 0), 0)}
        for row in model.get("modules", [])
    ]
    return typing.cast(Model, {**model, "parameters": rows, "modules": modules})


def _sample_evenly(events: Sequence[_Kind], most: int) -> Sequence[_Kind]:
    """Returns at most `most` events: the first half, the last eighth and an even sample between them."""
    if len(events) <= most:
        return events
    head, tail = most // 2, most // 8
    middle = events[head : len(events) - tail]
    wanted = most - head - tail
    chosen = [middle[i * len(middle) // wanted] for i in range(wanted)]
    return [*events[:head], *chosen, *events[len(events) - tail :]]


def _limit_rows(events: tuple[Tensors, ...]) -> tuple[Tensors, ...]:
    """Returns a sample of the tensor events with at most `_MOST_ROWS` rows, or all of them."""
    rows = sum(len(event.get("params", [])) + len(event.get("modules", [])) for event in events)
    if rows <= _MOST_ROWS:
        return events
    return tuple(_sample_evenly(events, max(8, len(events) * _MOST_ROWS // rows)))


_MODEL_TOTALS = (
    *("never_grad", "never_grad_n", "never_called", "never_called_n", "trainable_n", "outside", "outside_n", "stale"),
    *("models_left_out", "elements", "frozen", "toggled", "toggled_n"),
)
"""Totals computed from models that are still alive; at exit there may be none."""


def _totals(loops: Sequence[Loop]) -> Loop:
    """Returns the last totals; those of models are from the last event with a trainable model."""
    if not loops:
        return Loop()
    alive = next((event for event in reversed(loops) if event.get("trainable_n")), loops[-1])
    return typing.cast(Loop, {**loops[-1], **{key: value for key, value in alive.items() if key in _MODEL_TOTALS}})


def _phases(steps: Sequence[Step], rank: int | None) -> dict[str, Series]:
    """Returns seconds per step of each phase (the mean of a window of steps), and samples per step."""
    points: dict[str, list[tuple[int, float]]] = {}
    for event in steps:
        step, windows = event.get("step", 0), event.get("agg", {})
        for name in _PHASES if "ph" in event else ():
            window, value = windows.get(name), event["ph"].get(name)
            value = value if window is None or window[2] is None else window[2]
            if value is not None and math.isfinite(value):
                points.setdefault(name, []).append((step, value))
        if "samples" in event:
            points.setdefault("samples", []).append((step, event["samples"]))
    return {name: _series(name, rows, rank) for name, rows in points.items()}


def _series(name: str, points: Sequence[tuple[int, float]], rank: int | None) -> Series:
    return Series.of_values(name, "probe", (step for step, _ in points), (value for _, value in points), rank=rank)
