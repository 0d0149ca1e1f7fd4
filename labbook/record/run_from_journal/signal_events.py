"""Builds the signals, the input of the health checks, from the events of all processes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.series import Series
from labbook.model.signals import Facts, Signals
from labbook.probe.events import protocol
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.record.run_from_journal.series_events import process_labels, to_float
from labbook.store.journal import ProcessEvents

_ENVELOPE = ("v", "n", "t", "k", "framework")
_DEEPEST = 12
_LONGEST = 4000
_MOST_ROWS = 120_000
"""Maximum rows of tensors of one process. Source: chosen by us; 100 MB of objects, 150 dense steps of a model with 800
tensors."""

_MOST = {
    protocol.MODEL: 50,
    protocol.TENSORS: 400,
    protocol.BATCH: 2000,
    protocol.PRINTS: 400,
    protocol.LOSS_CALL: 200,
    protocol.LOADED: 40,
    protocol.GRAPH: 20,
    protocol.EVALUATION: 2000,
    protocol.LOADER: 100,
    protocol.MEMORY: 2000,
    protocol.MOMENT: 50,
}
"""Maximum events of a kind; of more, the first and last ones and an even sample of the others are used."""

_PHASES = ("data", "forward", "backward", "optimizer", "other")


def fold_signals(processes: Sequence[ProcessEvents]) -> tuple[Signals, ...]:
    """Returns the signals of each process and framework that trained, ordered by rank."""
    signals = []
    for process, label in zip(processes, process_labels(processes), strict=True):
        by_framework: dict[str, list[Facts]] = {}
        for event in process.events:
            if event.get("k") in _KINDS:
                by_framework.setdefault(str(event.get("framework") or ""), []).append(event)
        for framework, events in by_framework.items():
            if any(event["k"] in _TRAINING_KINDS for event in events):
                signals.append(_signals(process, framework, label, events))
    return tuple(sorted(signals, key=lambda s: s.rank or 0))


_TRAINING_KINDS = (protocol.STEP, protocol.TENSORS, protocol.LOOP, protocol.GRAPH, protocol.LOSS_CALL, protocol.FLIGHT)
_KINDS = {*_TRAINING_KINDS, *_MOST, protocol.OPTIMIZER, protocol.STATE}


def _signals(process: ProcessEvents, framework: str, label: str, events: Sequence[Facts]) -> Signals:
    hello, rank = process.hello, rank_of_process(process)
    by_kind = {kind: _select_events([e for e in events if e["k"] == kind], kind) for kind in _MOST}
    steps = [e for e in events if e["k"] == protocol.STEP]
    loops = [e for e in events if e["k"] == protocol.LOOP]
    flights = [e for e in events if e["k"] == protocol.FLIGHT]
    modes = [str(e["mode"]) for e in events if e["k"] == protocol.STATE and e.get("mode")]
    times = [to_float(e.get("t")) for e in process.events]
    return Signals(
        framework=framework,
        label=label,
        rank=rank,
        pid=_to_int(hello.get("pid")),
        mode=modes[-1] if modes else "",
        models=by_kind[protocol.MODEL],
        tensors=_limit_rows(by_kind[protocol.TENSORS]),
        batches=by_kind[protocol.BATCH],
        prints=by_kind[protocol.PRINTS],
        losses=_last_of_each(by_kind[protocol.LOSS_CALL], "fn", "line", "training"),
        loaded=by_kind[protocol.LOADED],
        graphs=by_kind[protocol.GRAPH],
        loop=_totals(loops),
        evaluations=by_kind[protocol.EVALUATION],
        loaders=by_kind[protocol.LOADER],
        memory=by_kind[protocol.MEMORY],
        flight=_clean_event(flights[0]) if flights else {},
        moments=by_kind[protocol.MOMENT],
        phases=_phases(steps, rank),
        optimizers=tuple(_clean_event(e) for e in events if e["k"] == protocol.OPTIMIZER)[:256],
        spans=_spans(steps),
        ended=max((t for t in times if math.isfinite(t)), default=0.0),
        thinned=tuple(kind for kind, most in _MOST.items() if sum(e["k"] == kind for e in events) > most),
    )


def _select_events(events: Sequence[Facts], kind: str) -> tuple[Facts, ...]:
    return tuple(_clean_event(event) for event in _sample_evenly(events, _MOST[kind]))


def _sample_evenly(events: Sequence[Any], most: int) -> Sequence[Any]:
    """Returns at most `most` events: the first half, the last eighth and an even sample between them."""
    if len(events) <= most:
        return events
    head, tail = most // 2, most // 8
    middle = events[head : len(events) - tail]
    wanted = most - head - tail
    chosen = [middle[i * len(middle) // wanted] for i in range(wanted)]
    return [*events[:head], *chosen, *events[len(events) - tail :]]


def _limit_rows(events: Sequence[Facts]) -> tuple[Facts, ...]:
    """Returns a sample of the tensor events with at most `_MOST_ROWS` rows, or all of them."""
    rows = sum(
        len(event.get(key) or ()) for event in events for key in ("params", "modules") if _is_list(event.get(key))
    )
    if rows <= _MOST_ROWS:
        return tuple(events)
    return tuple(_sample_evenly(events, max(8, len(events) * _MOST_ROWS // rows)))


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _clean_event(event: Facts) -> dict[str, Any]:
    return {key: _clean(value, 0) for key, value in event.items() if key not in _ENVELOPE}


def _clean(value: Any, depth: int) -> Any:  # noqa: ANN401 - JSON data
    """Returns the data with "nan", "inf" and "-inf" as numbers, truncated if it is absurdly deep or long."""
    if isinstance(value, str):
        return float(value) if value in ("nan", "inf", "-inf") else value[:2000]
    if isinstance(value, Mapping):
        if depth > _DEEPEST:
            return {}
        return {str(k): _clean(v, depth + 1) for k, v in list(value.items())[:_LONGEST]}
    if isinstance(value, list):
        return [] if depth > _DEEPEST else [_clean(v, depth + 1) for v in value[:_LONGEST]]
    return value


def _last_of_each(events: Sequence[Facts], *keys: str) -> tuple[Facts, ...]:
    last: dict[tuple[str, ...], Facts] = {}
    for event in events:
        last[tuple(str(event.get(key)) for key in keys)] = event
    return tuple(last.values())


_MODEL_TOTALS = (
    *("never_grad", "never_grad_n", "never_called", "never_called_n", "trainable_n", "outside", "outside_n", "stale"),
    *("elements", "frozen", "toggled", "toggled_n"),
)
"""Totals computed from models that are still alive; at exit there may be none."""


def _totals(loops: Sequence[Facts]) -> dict[str, Any]:
    """Returns the last totals; those of models are from the last event with a trainable model."""
    if not loops:
        return {}
    totals = _clean_event(loops[-1])
    alive = next((e for e in reversed(loops) if to_float(e.get("trainable_n"), 0.0) > 0), None)
    if alive is not None and not to_float(totals.get("trainable_n"), 0.0) > 0:
        before = _clean_event(alive)
        totals = {**totals, **{key: before[key] for key in _MODEL_TOTALS if key in before}}
    return totals


def _to_int(value: object) -> int:
    number = to_float(value, 0.0)
    return int(number) if math.isfinite(number) else 0


def _spans(steps: Sequence[Facts]) -> dict[int, tuple[float, float]]:
    spans: dict[int, tuple[float, float]] = {}
    for event in steps:
        opt, t = _to_int(event.get("opt")), to_float(event.get("t"))
        if math.isfinite(t):
            first, _ = spans.get(opt, (t, t))
            spans[opt] = (first, t)
    return spans


def _phases(steps: Sequence[Facts], rank: int | None) -> dict[str, Series]:
    """Returns seconds per step of each phase (the mean of a window of steps), and samples per step."""
    points: dict[str, list[tuple[int, float]]] = {}
    for event in steps:
        step, seconds, windows = _to_int(event.get("step")), event.get("ph"), event.get("agg")
        if isinstance(seconds, Mapping):
            for name in _PHASES:
                value = _window_mean(windows, name, to_float(seconds.get(name)))
                if math.isfinite(value):
                    points.setdefault(name, []).append((step, value))
        samples = to_float(event.get("samples"))
        if math.isfinite(samples):
            points.setdefault("samples", []).append((step, samples))
    return {name: _series(name, rows, rank) for name, rows in points.items()}


def _window_mean(windows: object, name: str, value: float) -> float:
    window = windows.get(name) if isinstance(windows, Mapping) else None
    return to_float(window[2], value) if isinstance(window, list) and len(window) == 5 else value


def _series(name: str, points: Sequence[tuple[int, float]], rank: int | None) -> Series:
    values = tuple(value for _, value in points)
    return Series(name, "probe", tuple(s for s, _ in points), values, values, values, len(values), 0, rank)
