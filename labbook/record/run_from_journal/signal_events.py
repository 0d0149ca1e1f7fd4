"""Folds the events of all processes into the signals that checks look at, whatever a probe may have written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.series import Series
from labbook.model.signals import Facts, Signals
from labbook.probe.events import protocol
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.record.run_from_journal.series_events import number, process_labels
from labbook.store.journal import ProcessEvents

_ENVELOPE = ("v", "n", "t", "k", "framework")
_DEEPEST = 12
_LONGEST = 4000
_MOST_ROWS = 120_000
"""Rows of tensors that are kept of one process. Source: chosen by us; some 100 MB of objects, 150 dense steps of a
model with 800 tensors."""

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
"""How many events of a kind are kept; of more, the first and last ones and an even choice of those between."""

_PHASES = ("data", "forward", "backward", "optimizer", "other")


def fold_signals(processes: Sequence[ProcessEvents]) -> tuple[Signals, ...]:
    """The signals of every process that trained, ranks in order; a process that trained with two frameworks has two."""
    found = []
    for process, label in zip(processes, process_labels(processes), strict=True):
        by_framework: dict[str, list[Facts]] = {}
        for event in process.events:
            if event.get("k") in _KINDS:
                by_framework.setdefault(str(event.get("framework") or ""), []).append(event)
        for framework, events in by_framework.items():
            if any(event["k"] in _OF_TRAINING for event in events):
                found.append(_signals(process, framework, label, events))
    return tuple(sorted(found, key=lambda s: s.rank or 0))


_OF_TRAINING = (protocol.STEP, protocol.TENSORS, protocol.LOOP, protocol.GRAPH, protocol.LOSS_CALL, protocol.FLIGHT)
_KINDS = {*_OF_TRAINING, *_MOST, protocol.OPTIMIZER, protocol.STATE}


def _signals(process: ProcessEvents, framework: str, label: str, events: Sequence[Facts]) -> Signals:
    hello, rank = process.hello, rank_of_process(process)
    kept = {kind: _chosen([e for e in events if e["k"] == kind], kind) for kind in _MOST}
    steps = [e for e in events if e["k"] == protocol.STEP]
    loops = [e for e in events if e["k"] == protocol.LOOP]
    flights = [e for e in events if e["k"] == protocol.FLIGHT]
    modes = [str(e["mode"]) for e in events if e["k"] == protocol.STATE and e.get("mode")]
    times = [number(e.get("t")) for e in process.events]
    return Signals(
        framework=framework,
        label=label,
        rank=rank,
        pid=_whole(hello.get("pid")),
        mode=modes[-1] if modes else "",
        models=kept[protocol.MODEL],
        tensors=_bounded(kept[protocol.TENSORS]),
        batches=kept[protocol.BATCH],
        prints=kept[protocol.PRINTS],
        losses=_last_of_each(kept[protocol.LOSS_CALL], "fn", "line", "training"),
        loaded=kept[protocol.LOADED],
        graphs=kept[protocol.GRAPH],
        loop=_totals(loops),
        evaluations=kept[protocol.EVALUATION],
        loaders=kept[protocol.LOADER],
        memory=kept[protocol.MEMORY],
        flight=_clean_event(flights[0]) if flights else {},
        moments=kept[protocol.MOMENT],
        phases=_phases(steps, rank),
        optimizers=tuple(_clean_event(e) for e in events if e["k"] == protocol.OPTIMIZER)[:256],
        spans=_spans(steps),
        ended=max((t for t in times if math.isfinite(t)), default=0.0),
        thinned=tuple(kind for kind, most in _MOST.items() if sum(e["k"] == kind for e in events) > most),
    )


def _chosen(events: Sequence[Facts], kind: str) -> tuple[Facts, ...]:
    return tuple(_clean_event(event) for event in _even(events, _MOST[kind]))


def _even(events: Sequence[Any], most: int) -> Sequence[Any]:
    """At most `most` of them: the first half and last eighth as they are, an even choice between."""
    if len(events) <= most:
        return events
    head, tail = most // 2, most // 8
    middle = events[head : len(events) - tail]
    wanted = most - head - tail
    chosen = [middle[i * len(middle) // wanted] for i in range(wanted)]
    return [*events[:head], *chosen, *events[len(events) - tail :]]


def _bounded(events: Sequence[Facts]) -> tuple[Facts, ...]:
    """As many of the tensor events as keep their rows under the limit."""
    rows = sum(
        len(event.get(key) or ()) for event in events for key in ("params", "modules") if _is_list(event.get(key))
    )
    if rows <= _MOST_ROWS:
        return tuple(events)
    return tuple(_even(events, max(8, len(events) * _MOST_ROWS // rows)))


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _clean_event(event: Facts) -> dict[str, Any]:
    return {key: _clean(value, 0) for key, value in event.items() if key not in _ENVELOPE}


def _clean(value: Any, depth: int) -> Any:  # noqa: ANN401 - JSON data
    """The same data with "nan", "inf" and "-inf" as numbers, cut where it is absurdly deep or long."""
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


_OF_MODELS = (
    *("never_grad", "never_grad_n", "never_called", "never_called_n", "trainable_n", "outside", "outside_n", "stale"),
    *("elements", "frozen", "toggled", "toggled_n"),
)
"""Totals that are worked out from living models; at exit they may be gone."""


def _totals(loops: Sequence[Facts]) -> dict[str, Any]:
    """The last totals; what is worked out from models is that of the last time that there were any."""
    if not loops:
        return {}
    told = _clean_event(loops[-1])
    alive = next((e for e in reversed(loops) if number(e.get("trainable_n"), 0.0) > 0), None)
    if alive is not None and not number(told.get("trainable_n"), 0.0) > 0:
        before = _clean_event(alive)
        told = {**told, **{key: before[key] for key in _OF_MODELS if key in before}}
    return told


def _whole(value: object) -> int:
    told = number(value, 0.0)
    return int(told) if math.isfinite(told) else 0


def _spans(steps: Sequence[Facts]) -> dict[int, tuple[float, float]]:
    spans: dict[int, tuple[float, float]] = {}
    for event in steps:
        opt, t = _whole(event.get("opt")), number(event.get("t"))
        if math.isfinite(t):
            first, _ = spans.get(opt, (t, t))
            spans[opt] = (first, t)
    return spans


def _phases(steps: Sequence[Facts], rank: int | None) -> dict[str, Series]:
    """Seconds a step of each phase, the mean of a window where it stands for several steps; and samples a step."""
    points: dict[str, list[tuple[int, float]]] = {}
    for event in steps:
        step, told, windows = _whole(event.get("step")), event.get("ph"), event.get("agg")
        if isinstance(told, Mapping):
            for name in _PHASES:
                value = _mean_of(windows, name, number(told.get(name)))
                if math.isfinite(value):
                    points.setdefault(name, []).append((step, value))
        samples = number(event.get("samples"))
        if math.isfinite(samples):
            points.setdefault("samples", []).append((step, samples))
    return {name: _series(name, of, rank) for name, of in points.items()}


def _mean_of(windows: object, name: str, value: float) -> float:
    window = windows.get(name) if isinstance(windows, Mapping) else None
    return number(window[2], value) if isinstance(window, list) and len(window) == 5 else value


def _series(name: str, points: Sequence[tuple[int, float]], rank: int | None) -> Series:
    values = tuple(value for _, value in points)
    return Series(name, "probe", tuple(s for s, _ in points), values, values, values, len(values), 0, rank)
