"""Checks of step times, of the use of the accelerator, and of runs that stall."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from labbook.health.evidence.measurements import finite_points, process_series, too_few_data
from labbook.health.evidence.training_kind import acts_in_environment
from labbook.health.evidence.trend_tests import mann_kendall, median, robust_deviation, theil_sen
from labbook.model.check import Outcome, check
from labbook.model.events.training_kinds import Evaluation
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.series import join_series
from labbook.model.signals import Signals

_PHASE_NAMES = {
    "data": message("health.phase.data"),
    "forward": message("health.phase.forward"),
    "backward": message("health.phase.backward"),
    "optimizer": message("health.phase.optimizer"),
    "other": message("health.phase.other"),
}
_WAIT_S = 0.01
_WAIT_IN_ALL_S = 2.0
_WORTH_S = 30.0
_MOST_OWN = 0.2
"""The largest share of the probe in a step of which the parts are shown. Source: chosen by us."""
_PARTS = 20
_GIVES_UP = 8
_BUSY_LOAD, _STARVED_CORES = 2.0, 0.5
"""From how many processes a core, and below how many cores for the run, other programs slow it down. Source: chosen by
us; at 10 processes a core, a loader without workers seemed to take 68 % of steps that need 20 ms."""


def phase_times(signals: Signals) -> dict[str, float]:
    """Returns median seconds per step of each phase of the program; empty when they are not known.

    That is also where the probe takes more than a fifth of the followed steps: between its own work and its waits for
    a busy machine the parts of the program are not seen.
    """
    found = _median_times(signals)
    own = found.pop("probe", 0.0)
    return found if own <= _MOST_OWN * (own + sum(found.values())) else {}


def _median_times(signals: Signals) -> dict[str, float]:
    """Returns median seconds per step of each phase after the first steps, also of the `probe`."""
    found = {}
    for name in (*_PHASE_NAMES, "probe"):
        series = signals.phases.get(name)
        if series is not None:
            values = [v for v in series.values[min(5, len(series.values) // 2) :] if math.isfinite(v) and v >= 0]
            if values:
                found[name] = median(values)
    return found


@check("dataloader_bottleneck", family="performance", tier=2, needs=("phases",))
def data_are_ready(run: Run, signals: Signals) -> Outcome | None:
    """Whether a step spends over 30 % of its time, and at least 10 ms, waiting for data; and which phase is longest.

    Source: pytorch-lightning's and SageMaker's advice on workers (tier 2); under 10 ms a step, or 2 s in all, there is
    little to gain.
    """
    times = _median_times(signals)
    own = times.pop("probe", 0.0)
    steps = max((len(s.values) for s in signals.phases.values()), default=0)
    parts = sum(times.values())
    if steps < 20 or parts <= 0:
        return too_few_data(steps, 20, "health.too_few.timed_steps")
    wait = times.get("data", 0.0)
    longest = max(times, key=lambda name: times[name])
    # The medians of the phases do not add up to the median of the step, which is what the entry shows elsewhere, too.
    step_times = process_series(run, signals, "step_time_s")
    step_times = join_series(step_times) if run.trains_in_turn else step_times
    total = next((s.median for s in step_times if s.median), parts)
    phases = tuple(
        message("health.step_time.phase", phase=_PHASE_NAMES[name], share=t / parts, seconds=total * t / parts)
        for name, t in times.items()
        if t > 0
    )
    if wait > 0.3 * (parts + own) and wait >= _WAIT_S:
        observed = message("health.dataloader_bottleneck.waits", share=wait / parts, seconds=total * wait / parts)
        long = wait * max(steps, signals.loop.get("steps", 0)) >= _WAIT_IN_ALL_S
        busy = _load_of_others(run)
        return Outcome("warn" if long and not busy else "note", observed, (*phases, *_loader_facts(signals), *busy))
    share = times[longest] / parts
    has_closure = any(optimizer.get("closure") for optimizer in signals.optimizers)  # which runs other phases in it
    if has_closure or own > _MOST_OWN * (parts + own):
        return Outcome("ok", message("health.step_time.median", seconds=total))
    observed = message("health.step_time.longest", seconds=total, phase=_PHASE_NAMES[longest], share=share)
    return Outcome("ok", observed, phases)


def _load_of_others(run: Run) -> list[Message]:
    """Returns the load of the machine if other programs left the run less than half a core: its times say little then.

    Source: the mean number of processes that want a core, as `uptime` prints it (tier 3).
    """
    used = run.facts("resources")
    load = used.get("load_per_core") or 0.0
    if load < _BUSY_LOAD or used.get("cpu_mean_cores", _STARVED_CORES) >= _STARVED_CORES:
        return []
    return [message("health.dataloader_bottleneck.busy", load=load, cores=used["cpu_mean_cores"])]


def _loader_facts(signals: Signals) -> list[Message]:
    found = []
    for facts in signals.loaders[:1]:
        found.append(message("health.dataloader_bottleneck.workers", workers=facts.get("workers", 0)))
        if not facts.get("pin_memory") and "cuda" in str(_devices(signals)):
            found.append(message("health.dataloader_bottleneck.not_pinned"))
    return found


def _devices(signals: Signals) -> set[str]:
    return {row.get("device", "") for model in signals.models for row in model.get("parameters", [])}


@check("step_time_outlier", family="performance", tier=2, needs=("step_time_s",))
def steps_even(run: Run, signals: Signals) -> Outcome | None:
    """Whether steps far above the median take much of the time.

    Source: median + 8 MAD more than 10 times (tier 2), where they take over 30 % and come at equal distances that
    are not those of epochs or of a policy that acts; a busy machine does it at random, which is only noted.
    """
    for series in process_series(run, signals, "step_time_s")[:1]:
        _, values = finite_points(series)
        values = values[10:]
        if len(values) < 100:
            return None
        center = median(values)
        limit = center + 8 * max(robust_deviation(values, center), 0.1 * center)
        places = [i for i, v in enumerate(values) if v > limit]
        slow_s = sum(values[i] for i in places)
        if len(places) <= 10 or slow_s <= 0.3 * sum(values):
            return None
        share = slow_s / sum(values)
        observed = message("health.step_time_outlier.slow", bad=len(places), steps=len(values), share=share)
        # What else the machine does makes some others slow, but not as slow as what the program itself does.
        largest = sorted(values[i] for i in places)[-(len(places) // 10 + 1)]
        slowest = [i for i in places if values[i] > 0.3 * largest]
        much = len(slowest) > 10 and sum(values[i] for i in slowest) > 0.3 * sum(values)
        every = _period(slowest) if much else 0
        # A policy that acts collects between its updates.
        judged = signals.loop and len(signals.evaluations) < 0.5 * len(slowest) and not acts_in_environment(signals)
        if every and judged and every not in _epochs(signals):
            return Outcome("warn", observed, (message("health.step_time_outlier.period", steps=every),))
        return Outcome("note", observed) if slow_s > _WORTH_S else None
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


def _epochs(signals: Signals) -> set[int | None]:
    """Lengths of the epochs that were seen: their ends are slow anyway."""
    lengths = {e.get("length") for e in signals.loaders}  # of batches that are not followed
    return lengths | {e.get("batches", 0) for e in (*signals.prints, *signals.loaders)}


@check("step_time_drift", family="performance", tier=2, needs=("step_time_s",))
def steps_stay_fast(run: Run, signals: Signals) -> Outcome | None:
    """Whether steps became slower by half or more, in a steady trend.

    Source: diagnosis catalogue, `step_time_drift` (tier 2): over 1 % in 100 steps with p < 0.001; and by half in all,
    with tau above 0.75 over the fast steps of 20 parts, because other programs slow steps, too. Batches that grow, as
    with longer samples in a curriculum, may slow steps as much.
    """
    for series in process_series(run, signals, "step_time_s")[:1]:
        steps, values = finite_points(series)
        steps, values = steps[20:], values[20:]
        if len(values) < 200:
            return too_few_data(len(values), 200, "health.too_few.settled_steps")
        # The fast steps of each part: what else the machine does makes the others slow.
        floors = [sorted(part)[len(part) // 10] for part in _parts(values, _PARTS)]
        early, late = median(floors[: _PARTS // 4]), median(floors[-(_PARTS // 4) :])
        trend = mann_kendall(floors)
        slope = theil_sen(range(_PARTS), floors) * _PARTS * 100 / (early * (steps[-1] - steps[0])) if early > 0 else 0.0
        observed = message("health.step_time_drift.quarters", early=early, late=late)
        grown = _batches_grow(signals)
        if slope > 0.01 and late > 1.5 * early * grown and trend.tau > 0.75 and late - early > 0.0005:
            return Outcome("warn", observed, (message("health.step_time_drift.slope", share=slope),), p=trend.rising)
        return Outcome("ok", observed)
    return None


def _batches_grow(signals: Signals) -> float:
    """How many times larger the batches are in the last quarter than in the first, at least 1."""
    sizes = []
    for event in signals.batches:
        if event.get("phase") != "eval":
            size = sum(math.prod(leaf.get("shape", ())) for leaf in event.get("leaves", []))
            sizes += [float(size)] if size else []
    quarter = len(sizes) // 4
    if not quarter:
        return 1.0
    return max(1.0, median(sizes[-quarter:]) / median(sizes[:quarter]))


def _parts(values: Sequence[float], count: int) -> list[Sequence[float]]:
    return [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]


@check("accelerator_idle_unused", family="performance", tier=1, whole=True)
def accelerator_used(run: Run, signals: Signals) -> Outcome | None:
    """Whether a GPU was visible and all parameters stayed on the CPU.

    Source: a logical invariant (tier 1); pytorch-lightning. Small or short trainings may well run there.
    """
    for framework in run.frameworks:
        kinds = {str(device.get("kind") or "").lower() for device in framework.devices}
        if not kinds & {"cuda", "gpu", "xpu", "mps"} or not framework.is_on_cpu:
            continue
        elements = framework.state.get("parameters")
        large = isinstance(elements, (int, float)) and elements >= 1e6 and (run.duration_s or 0.0) > 60
        return Outcome("warn" if large else "note", message("health.accelerator_idle_unused.cpu"))
    return None


@check("accelerator_underused", family="performance", tier=3, whole=True)
def accelerator_busy(run: Run, signals: Signals) -> Outcome | None:
    """Whether the GPU in use was busy less than 30 % of the time, over at least 2 minutes.

    Source: a hint (tier 3), chosen by us; SageMaker LowGPUUtilization.
    """
    resources = run.facts("resources")
    on_device = any(f.parameter_devices and not f.is_on_cpu for f in run.frameworks)
    if not on_device or (run.duration_s or 0.0) < 120:
        return None
    busy = [
        u
        for g in resources.get("gpus") or ()
        if g.get("own_peak_memory_bytes", 0) and (u := g.get("mean_utilisation_percent")) is not None
    ]
    if not busy or max(busy) >= 30:
        return None
    return Outcome("note", message("health.accelerator_underused.busy", percent=max(busy)))


@check("recompilation_storm", family="performance", tier=2, needs=("loop",))
def compiled_once(run: Run, signals: Signals) -> Outcome | None:
    """Whether one function was compiled again and again. Source: torch gives up after 8 times (tier 2)."""
    times = signals.loop.get("recompiles", 0)
    if times < _GIVES_UP - 1:
        return None
    return Outcome("warn", message("health.recompilation_storm.times", times=times + 1))


@check("too_many_workers", family="performance", tier=3, needs=("loaders",))
def workers_fit(run: Run, signals: Signals) -> Outcome | None:
    """Whether a loader has more workers than the machine has CPU cores. Source: a hint (tier 3); torch warns."""
    cores = run.facts("hardware").get("cores")
    workers = max((facts.get("workers", 0) for facts in signals.loaders), default=0)
    if not isinstance(cores, (int, float)) or workers <= max(cores, 1):
        return None
    return Outcome("note", message("health.too_many_workers.counts", workers=workers, cores=float(cores)))


@check("grad_enabled_in_validation", family="performance", tier=1, needs=("evaluations",))
def validation_without_gradients(run: Run, signals: Signals) -> Outcome | None:
    """Whether evaluation phases recorded graphs that were never used, over more than 10 batches.

    Source: a logical invariant (tier 1). Not judged where a model is trained in evaluation mode: its training forwards
    look the same. Attacks ask for gradients. Single samples without a loader or a loss are generated: they cost little.
    """
    graphs = [e for e in signals.evaluations if e.get("grad") and not e.get("training") and not e.get("asked")]
    wasteful = [e for e in graphs if e.get("batches", 0) >= 2 and not _is_generation(e)]
    batches = sum(e.get("batches", 0) for e in wasteful)
    if batches <= 10 or signals.loop.get("backward_in_eval", {}).get("count", 0):
        return None
    observed = message("health.grad_enabled_in_validation.batches", batches=batches, phases=len(wasteful))
    return Outcome("warn", observed)


def _is_generation(phase: Evaluation) -> bool:
    return (
        0 < phase.get("samples", 0) <= phase.get("batches", 0) and phase.get("loader") is None and not phase.get("loss")
    )


@check("find_unused_parameters_needless", family="performance", tier=1, whole=True)
def no_needless_search(run: Run, signals: Signals) -> Outcome | None:
    """Whether distributed training warned that its search found nothing. Source: torch's warning (tier 1)."""
    warning = "did not find any unused parameters"
    found = any(warning in str(w.get("message")) for w in run.warnings) or warning in run.console.text
    return Outcome("warn", message("health.find_unused_parameters_needless.none")) if found else None


@check("stalled_no_progress", family="performance", tier=2, whole=True)
def run_goes_on(run: Run, signals: Signals) -> Outcome | None:
    """Whether a run that was stopped from outside had been silent for long.

    Source: SageMaker StalledTraining; 10 times the median step and at least 60 s (tier 2).
    """
    last = max([signals.ended, *(end for _, end in signals.spans.values())], default=0.0)
    if run.status not in ("interrupted", "killed") or run.ended is None or last <= 0 or not signals.spans:
        return None
    times = [v for s in process_series(run, signals, "step_time_s") for v in s.values if math.isfinite(v)]
    silence, limit = run.ended - last, max(10 * (median(times) if times else 0.0), 60.0)
    hung_s = run.facts("ranks").get("hung_s")
    if silence <= limit and not hung_s:
        return None
    return Outcome("warn", message("health.stalled_no_progress.silence", seconds=hung_s or silence))
