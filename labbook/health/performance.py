"""Checks of where the time goes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from labbook.health.event_fields import count, finite, flag, rows, shape, words
from labbook.health.measurements import finite_points, measured_in, percent, said, too_few
from labbook.health.trend_tests import mann_kendall, median, spread, theil_sen
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_PHASES = ("data", "forward", "backward", "optimizer", "other")
_WAIT_S = 0.01
_WORTH_S = 30.0
_PARTS = 20
_GIVES_UP = 8


def phase_times(signals: Signals) -> dict[str, float]:
    """Median seconds a step of each phase after the first steps; empty when they are not known."""
    found = {}
    for name in _PHASES:
        series = signals.phases.get(name)
        if series is not None:
            values = [v for v in series.values[min(5, len(series.values) // 2) :] if math.isfinite(v) and v >= 0]
            if values:
                found[name] = median(values)
    return found


@check("dataloader_bottleneck", family="performance", tier=2, needs=("phases",))
def data_are_ready(run: Run, signals: Signals) -> Outcome | None:
    """Whether more than 30 % of a step is spent waiting for data, at least 10 ms of it; and which phase is longest.

    Source: pytorch-lightning's and SageMaker's advice on workers (tier 2); under 10 ms there is little to gain.
    """
    times = phase_times(signals)
    steps = max((len(s.values) for s in signals.phases.values()), default=0)
    total = sum(times.values())
    if steps < 20 or total <= 0:
        return too_few(steps, 20)
    wait = times.get("data", 0.0)
    longest = max(times, key=lambda name: times[name])
    told = tuple(f"{name}: {percent(t / total)} of a step, {_milliseconds(t)}" for name, t in times.items() if t > 0)
    if wait > 0.3 * total and wait >= _WAIT_S:
        observed = f"{percent(wait / total)} of a step waits for data, {_milliseconds(wait)}"
        return Outcome("warn", observed, (*told, *_loader_advice(signals)))
    return Outcome("ok", f"{_milliseconds(total)}, most in {longest} ({percent(times[longest] / total)})", told)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"


def _loader_advice(signals: Signals) -> list[str]:
    told = []
    for facts in signals.loaders[:1]:
        told.append(f"the loader has {count(facts, 'workers')} workers")
        if not flag(facts, "pin_memory") and "cuda" in str(_devices(signals)):
            told.append("its memory is not pinned")
    return told


def _devices(signals: Signals) -> set[str]:
    return {words(row, "device") for model in signals.models for row in rows(model, "parameters")}


@check("step_time_outlier", family="performance", tier=2, needs=("step_time_s",))
def steps_even(run: Run, signals: Signals) -> Outcome | None:
    """Whether steps far above the median take much of the time.

    Source: median + 8 MAD more than 10 times (tier 2), where they take over 30 % and come at equal distances that
    are not those of epochs; a busy machine does it at random, which is only noted.
    """
    for series in measured_in(run, signals, "step_time_s")[:1]:
        _, values = finite_points(series)
        values = values[10:]
        if len(values) < 100:
            return None
        center = median(values)
        limit = center + 8 * max(spread(values, center), 0.1 * center)
        places = [i for i, v in enumerate(values) if v > limit]
        taken = sum(values[i] for i in places)
        if len(places) <= 10 or taken <= 0.3 * sum(values):
            return None
        observed = f"{len(places)} of {len(values)} steps take {percent(taken / sum(values))} of the time"
        # What else the machine does makes some others slow, but not as slow as what the program itself does.
        largest = sorted(values[i] for i in places)[-(len(places) // 10 + 1)]
        slowest = [i for i in places if values[i] > 0.3 * largest]
        much = len(slowest) > 10 and sum(values[i] for i in slowest) > 0.3 * sum(values)
        every = _period(slowest) if much else 0
        if every and signals.loop and len(signals.evaluations) < 0.5 * len(places) and every not in _epochs(signals):
            return Outcome("warn", observed, (f"one in every {every} steps",))
        return Outcome("note", observed) if taken > _WORTH_S else None
    return None


def _period(places: Sequence[int]) -> int:
    """The distance at which slow steps come, though a busy machine adds some; 0 when they come at random or always."""
    gaps = [b - a for a, b in pairwise(places)]
    common, _ = Counter(gaps).most_common(1)[0]
    if common <= 2:
        return 0
    rest, times = Counter(place % common for place in places).most_common(1)[0]
    regular = [place for place in places if place % common == rest]
    slots = (regular[-1] - regular[0]) // common + 1
    return common if times > 0.75 * len(places) and times > 0.8 * slots else 0


def _epochs(signals: Signals) -> set[int]:
    """Lengths of the epochs that were seen: their ends are slow anyway."""
    return {count(e, "batches") for e in signals.prints} | {count(e, "batches") for e in signals.loaders}


@check("step_time_drift", family="performance", tier=2, needs=("step_time_s",))
def steps_stay_fast(run: Run, signals: Signals) -> Outcome | None:
    """Whether steps became slower by half or more, in a steady trend.

    Source: diagnosis catalogue, `step_time_drift` (tier 2): over 1 % in 100 steps with p < 0.001; and by half in all,
    with tau above 0.75 over the fast steps of 20 parts, because other programs slow steps, too. Batches that grow, as
    with longer samples in a curriculum, may slow steps as much.
    """
    for series in measured_in(run, signals, "step_time_s")[:1]:
        steps, values = finite_points(series)
        steps, values = steps[20:], values[20:]
        if len(values) < 200:
            return too_few(len(values), 200)
        # The fast steps of each part: what else the machine does makes the others slow.
        floors = [sorted(part)[len(part) // 10] for part in _parts(values, _PARTS)]
        early, late = median(floors[: _PARTS // 4]), median(floors[-(_PARTS // 4) :])
        trend = mann_kendall(floors)
        slope = theil_sen(range(_PARTS), floors) * _PARTS * 100 / (early * (steps[-1] - steps[0])) if early > 0 else 0.0
        observed = f"{_milliseconds(early)} in the first quarter, {_milliseconds(late)} in the last"
        grown = _batches_grow(signals)
        if slope > 0.01 and late > 1.5 * early * grown and trend.tau > 0.75 and late - early > 0.0005:
            return Outcome("warn", observed, (f"{percent(slope)} in 100 steps",), p=trend.rising)
        return Outcome("ok", observed)
    return None


def _batches_grow(signals: Signals) -> float:
    """How many times larger the batches are in the last quarter than in the first, at least 1."""
    sizes = []
    for event in signals.batches:
        if words(event, "phase") != "eval":
            size = sum(math.prod(shape(leaf, "shape")) for leaf in rows(event, "leaves"))
            sizes += [float(size)] if size else []
    quarter = len(sizes) // 4
    if not quarter:
        return 1.0
    return max(1.0, median(sizes[-quarter:]) / median(sizes[:quarter]))


def _parts(values: Sequence[float], count: int) -> list[Sequence[float]]:
    return [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]


@check("accelerator_idle_unused", family="performance", tier=1, whole=True)
def accelerator_used(run: Run, signals: Signals) -> Outcome | None:
    """Whether a graphics processor was visible and all parameters stayed on the processor.

    Source: a logical invariant (tier 1); pytorch-lightning. Small or short trainings may well run there.
    """
    for framework in run.frameworks:
        kinds = {str(device.get("kind") or "").lower() for device in framework.devices}
        told = framework.state.get("device")
        where = [str(d) for d in told] if isinstance(told, (list, tuple)) else [str(told or "")]
        if not kinds & {"cuda", "gpu", "xpu", "mps"} or not any(where) or any("cpu" not in name for name in where):
            continue
        elements = framework.state.get("parameters")
        large = isinstance(elements, (int, float)) and elements >= 1e6 and (run.duration_s or 0.0) > 60
        return Outcome("warn" if large else "note", "a graphics processor is there, all parameters are on the CPU")
    return None


@check("accelerator_underused", family="performance", tier=3, whole=True)
def accelerator_busy(run: Run, signals: Signals) -> Outcome | None:
    """Whether the graphics processor that was used was busy less than 30 % of the time, over at least 2 minutes.

    Source: a hint (tier 3), chosen by us; SageMaker LowGPUUtilization.
    """
    resources = run.captured.get("resources") or {}
    on_device = any("cpu" not in str(f.state.get("device") or "cpu") for f in run.frameworks)
    if not on_device or (run.duration_s or 0.0) < 120:
        return None
    busy = [
        u
        for g in rows(resources, "gpus")
        if count(g, "own_peak_memory_bytes") and (u := finite(g, "mean_utilisation_percent")) is not None
    ]
    if not busy or max(busy) >= 30:
        return None
    return Outcome("note", f"busy {max(busy):.0f} % of the time")


@check("implicit_sync_every_step", family="performance", tier=3, needs=("loop",))
def host_runs_ahead(run: Run, signals: Signals) -> Outcome | None:
    """Whether the program waits for the device more than once a step. Source: a hint (tier 3)."""
    syncs = finite(signals.loop, "syncs")
    return Outcome("note", f"{said(syncs)} waits a step") if syncs is not None and syncs > 1.5 else None


@check("recompilation_storm", family="performance", tier=2, needs=("loop",))
def compiled_once(run: Run, signals: Signals) -> Outcome | None:
    """Whether one function was compiled again and again. Source: torch gives up after 8 times (tier 2)."""
    times = count(signals.loop, "recompiles")
    return Outcome("warn", f"one function was compiled {times + 1} times") if times >= _GIVES_UP - 1 else None


@check("too_many_workers", family="performance", tier=3, needs=("loaders",))
def workers_fit(run: Run, signals: Signals) -> Outcome | None:
    """Whether a loader has more workers than the machine has processors. Source: a hint (tier 3); torch warns."""
    cores = finite(run.captured.get("hardware") or {}, "cores")
    workers = max((count(facts, "workers") for facts in signals.loaders), default=0)
    if cores is None or workers <= max(cores, 1):
        return None
    return Outcome("note", f"{workers} workers on {said(cores)} processors")


@check("grad_enabled_in_validation", family="performance", tier=1, needs=("evaluations",))
def validation_without_gradients(run: Run, signals: Signals) -> Outcome | None:
    """Whether validation phases recorded graphs that nobody used, over more than 10 batches.

    Source: a logical invariant (tier 1). Not asked where a model is trained in evaluation mode: its training forwards
    look the same.
    """
    wasteful = [
        e for e in signals.evaluations if flag(e, "grad") and not flag(e, "training") and count(e, "batches") >= 2
    ]
    batches = sum(count(e, "batches") for e in wasteful)
    if batches <= 10 or count(signals.loop, "backward_in_eval", "count"):
        return None
    return Outcome("warn", f"{batches} batches in {len(wasteful)} phases with gradients enabled")


@check("find_unused_parameters_needless", family="performance", tier=1, whole=True)
def no_needless_search(run: Run, signals: Signals) -> Outcome | None:
    """Whether distributed training said itself that its search found nothing. Source: torch's warning (tier 1)."""
    said_so = "did not find any unused parameters"
    told = any(said_so in str(w.get("message")) for w in run.warnings) or said_so in run.console.text
    return Outcome("warn", "find_unused_parameters=True found none") if told else None


@check("stalled_no_progress", family="performance", tier=2, whole=True)
def run_goes_on(run: Run, signals: Signals) -> Outcome | None:
    """Whether a run that was stopped from outside had been silent for long.

    Source: SageMaker StalledTraining; 10 times the median step and at least 60 s (tier 2).
    """
    last = max([signals.ended, *(end for _, end in signals.spans.values())], default=0.0)
    if run.status not in ("interrupted", "killed") or run.ended is None or last <= 0 or not signals.spans:
        return None
    times = [v for s in measured_in(run, signals, "step_time_s") for v in s.values if math.isfinite(v)]
    silence, limit = run.ended - last, max(10 * (median(times) if times else 0.0), 60.0)
    return Outcome("warn", f"no step for {silence:.0f} s before it was stopped") if silence > limit else None


CHECKS = (
    data_are_ready,
    steps_even,
    steps_stay_fast,
    accelerator_used,
    accelerator_busy,
    host_runs_ahead,
    compiled_once,
    workers_fit,
    validation_without_gradients,
    no_needless_search,
    run_goes_on,
)
