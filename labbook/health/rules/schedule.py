"""Checks of learning rates and their schedulers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from labbook.health.evidence.measurements import finite_points, measured_series, optimizer_of, process_series
from labbook.health.rules.data.batch_order import loader_of, loading_place
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_TINY = 1e-5
"""A rate at which hardly anything is learnt from the start. Source: chosen by us; fine-tuning begins at about 1e-5."""
_SHARE = 0.05
_SHARE_BY_EPOCH = 0.5
_TWICE = 1.8
"""Steps of a scheduler for one of its optimizer. Accelerate makes one for each process."""

_IDLE_STEPS = 10
"""A warm-up may begin with a single step of rate 0. Source: chosen by us."""
_BY_EPOCH = (
    "StepLR",
    "MultiStepLR",
    "ExponentialLR",
    "StepDecay",
    "MultiStepDecay",
    "ExponentialDecay",
    "NaturalExpDecay",
)
_DEAD, _DEAD_BY_BATCH = 1e-5, 1e-3
"""Shares of its peak below which a rate teaches nothing. Source: chosen by us."""
_FACTOR, _FACTORS = 1 / 500, 1 / 20
_LARGEST_BASE = 0.1
"""Rates of optimizers above it are factors of a schedule, as the 1.0 of "Attention is all you need"."""


@check("learning_rate_seen", family="convergence", tier=1, whole=True, needs=("lr",))
def learning_rate_seen(run: Run, signals: Signals) -> Outcome:
    """Whether the learning rate was seen, finite, and not zero all the time.

    Source: a logical invariant (tier 1): a rate of 0 changes nothing. Whether a rate is a good one is judged by the
    update size, not here. In PaddlePaddle that of a group is a factor: under 1/500, or under 1/20 in all groups, it is
    a rate by mistake (chosen by us).
    """
    values = [v for s in measured_series(run, "lr") for v in s.values]
    finite_values = [v for v in values if math.isfinite(v)]
    if len(finite_values) < len(values):
        observed = message("health.learning_rate_seen.nonfinite", bad=len(values) - len(finite_values))
        return Outcome("fail", observed)
    if not any(finite_values):
        return Outcome("fail", message("health.learning_rate_seen.zero"))
    for optimizer in signals.optimizers if signals.framework == "paddle" else ():
        groups = [
            (factor, rate)
            for group in optimizer.get("groups", [])
            if (rate := group.get("lr", 0.0)) > 0
            and isinstance(factor := group.get("learning_rate", 1.0), float)
            and factor > 0
        ]
        if groups and (min(groups)[0] < _FACTOR or max(groups)[0] < _FACTORS):
            factor, rate = min(groups)
            observed = message("health.learning_rate_seen.factor", rate=rate, factor=factor, whole=rate / factor)
            return Outcome("warn", observed, advice=message("health.learning_rate_seen.factor_advice"))
    low, high = min(finite_values), max(finite_values)
    if low == high:
        return Outcome("ok", message("health.learning_rate_seen.constant", rate=low))
    return Outcome("ok", message("health.range", low=low, high=high))


@check("lr_schedule_wrong", family="convergence", tier=1, needs=("lr",))
def schedule_runs(run: Run, signals: Signals) -> Outcome | None:
    """Whether a scheduler was never stepped, stepped first, ran beyond its end, was 0 at an end or only warmed up.

    Source: logical invariants (tier 1); torch warns about the order, paddle does not. A cosine that rises again once
    may be meant (a note); beyond 2.5 times its length it counts steps instead of epochs. Any schedule that is stepped
    twice as often as its optimizer, and comes back from 0, is too short.
    """
    schedulers = signals.loop.get("scheduler", {})
    for opt, facts in schedulers.items():
        kind, options = facts.get("type", ""), facts.get("options", {})
        steps, updates = facts.get("steps", 0), facts.get("optimizer_steps", 0)
        if not steps and updates >= 20 and run.status == "finished" and _is_overdue(run, signals, opt):
            return Outcome("fail", message("health.lr_schedule_wrong.never", scheduler=kind, steps=updates))
        skipped = signals.loop.get("scaler", {}).get("skipped", 0)
        if facts.get("before_optimizer", 0) and updates >= 5 and not skipped:
            return Outcome("warn", message("health.lr_schedule_wrong.before", scheduler=kind))
        length = _number(options.get("T_max"))
        anneals = kind.startswith("CosineAnnealing") and "Restart" not in kind
        if anneals and length and steps > 1.2 * length:
            observed = message(
                "health.lr_schedule_wrong.beyond_end", scheduler=kind, length=length, steps=steps, updates=updates
            )
            return Outcome("fail" if steps > 2.5 * length and steps >= 0.9 * updates else "note", observed)
        length = _number(options.get("total_steps", length))
        if run.status == "finished" and 0 < steps < _SHARE * length and 0.8 * length < updates < 1.25 * length:
            observed = message(
                "health.lr_schedule_wrong.by_epoch", scheduler=kind, length=length, steps=steps, updates=updates
            )
            return Outcome("warn", observed, advice=message("health.lr_schedule_wrong.step_by_batch"))
        by_accumulation = _disagrees_with_accumulation(run, signals, facts, length)
        if by_accumulation is not None:
            return by_accumulation
        if steps >= _TWICE * updates > 0 and _comes_back(run, signals):
            observed = message("health.lr_schedule_wrong.twice", scheduler=kind, steps=steps, updates=updates)
            return Outcome("warn", observed, advice=message("health.lr_schedule_wrong.count_processes"))
    if not schedulers and signals.loop.get("steps", 0) >= 20 and run.status == "finished":
        rates = {rate for series in process_series(run, signals, "lr") for rate in finite_points(series)[1]}
        for idle in signals.loop.get("idle_schedulers", []):
            if idle.get("steps", 0) >= 3 and len(rates) == 1:
                kind, steps = idle.get("type", ""), idle.get("steps", 0)
                if idle.get("loose"):
                    observed = message("health.lr_schedule_wrong.loose", scheduler=kind)
                    return Outcome("warn", observed, advice=message("health.lr_schedule_wrong.attach"))
                return Outcome("fail", message("health.lr_schedule_wrong.other", scheduler=kind, steps=steps))
    low = _rises_to_end(run, signals) if schedulers else None
    idle_part = _dies_early(run, signals) or low or _starts_at_zero(run, signals)
    if idle_part is not None:
        return idle_part
    if not schedulers:
        return None
    return Outcome("ok", message("health.names", names=[facts.get("type", "") for facts in schedulers.values()]))


def _number(option: object) -> float:
    """Returns an option of a scheduler; 0 where it is no number."""
    return float(option) if isinstance(option, (int, float)) else 0.0


def _disagrees_with_accumulation(run: Run, signals: Signals, facts: Mapping[str, Any], length: float) -> Outcome | None:
    """A schedule is planned in batches and stepped with the optimizer, or the other way round, where they differ."""
    backwards, updates = signals.loop.get("backwards", 0), facts.get("optimizer_steps", 0)
    steps = facts.get("steps", 0)
    is_whole = run.status == "finished" and not run.asked.get("stopped") and signals.loop.get("steps", 0) == updates
    if not is_whole or backwards < _TWICE * updates or updates < 20:
        return None
    values = {"scheduler": facts.get("type", ""), "length": length, "steps": steps}
    if _is_about(steps, updates) and _is_about(length, backwards):
        observed = message("health.lr_schedule_wrong.accumulated", backwards=backwards, **values)
        return Outcome("warn", observed, advice=message("health.lr_schedule_wrong.plan_updates"))
    if _is_about(steps, backwards) and _is_about(length, updates):
        observed = message("health.lr_schedule_wrong.by_backward", updates=updates, **values)
        return Outcome("warn", observed, advice=message("health.lr_schedule_wrong.step_with_optimizer"))
    return None


def _is_about(number: float, other: float) -> bool:
    return 0.9 * other <= number <= 1.1 * other


def _comes_back(run: Run, signals: Signals) -> bool:
    """Whether the rate falls smoothly to nearly 0 in the middle of the run, and rises smoothly to half of its peak."""
    for series in process_series(run, signals, "lr"):
        rates = finite_points(series)[1]
        lowest = min(range(len(rates)), key=lambda at: rates[at], default=0)
        peak, after = max(rates[: lowest + 1], default=0.0), rates[lowest:]
        rising = after[: after.index(max(after, default=0.0)) + 1] if after else []
        is_middle = len(rates) >= 20 and 0.2 * len(rates) < lowest < 0.8 * len(rates)
        if is_middle and rates[lowest] < _SHARE * peak < 0.1 * rising[-1] and rising == sorted(rising):
            return True
    return False


def _is_overdue(run: Run, signals: Signals, opt: str) -> bool:
    """Whether a scheduler should have been stepped by the time at which it was last seen.

    At the end of the run always; one that was gone by then, as the objects of a function are, after its second epoch
    had begun.
    """
    updates = signals.loop.get("scheduler", {}).get(opt, {}).get("optimizer_steps", 0)
    total = signals.loop.get("steps", 0)
    own = [s.last_step for s in process_series(run, signals, "lr") if s.last_step and optimizer_of(s) == int(opt or 0)]
    if updates >= max(own, default=total):
        return True
    passes = Counter(
        loading_place(loader_of(signals, event))
        for event in signals.prints
        if event.get("phase") == "train" and event.get("loader") is not None
    )
    epochs = max(passes.values(), default=0)
    return epochs >= 2 and updates > 1.2 * total / epochs


def _dies_early(run: Run, signals: Signals) -> Outcome | None:
    """The rate is (nearly) 0 for more than 40 % of the run, from some step to the end.

    Decays whose lengths are usually epochs, stepped with each batch, count from a thousandth of the peak on.
    """
    for series in process_series(run, signals, "lr"):
        if ".group" in series.name:
            continue
        steps, rates = finite_points(series)
        if len(rates) < 20 or max(rates) <= 0 or steps[-1] < 20:
            continue
        facts = signals.loop.get("scheduler", {}).get(str(optimizer_of(series)), {})
        is_by_batch = facts.get("type") in _BY_EPOCH and facts.get("steps", 0) >= 0.9 * facts.get("optimizer_steps", 1)
        least = _DEAD_BY_BATCH if is_by_batch else _DEAD
        alive = max(s for s, rate in zip(steps, rates, strict=True) if rate > least * max(rates))
        if steps[-1] - alive > 0.4 * steps[-1] and steps[-1] - alive >= 20:
            observed = message(
                "health.lr_schedule_wrong.dies_early",
                peak=max(rates),
                step=alive + 1,
                steps=steps[-1],
                part=f"{round(1 / least):,}",
            )
            advice = message("health.lr_schedule_wrong.slow_down")
            return Outcome("warn", observed, where={"step": alive + 1}, advice=advice)
    return None


def _starts_at_zero(run: Run, signals: Signals) -> Outcome | None:
    """The rate of the only optimizer is exactly 0 in each of the first steps: a warm-up that rounds down to 0."""
    known = process_series(run, signals, "lr")
    steps, rates = finite_points(known[0]) if len(known) == 1 else ([], [])
    idle = next((n for n, rate in enumerate(rates) if rate), 0)
    if idle < _IDLE_STEPS:
        return None
    observed = message("health.lr_schedule_wrong.starts_at_zero", last=steps[idle - 1], steps=steps[-1])
    advice = message("health.lr_schedule_wrong.begin_above_zero")
    return Outcome("warn", observed, where={"step": steps[0]}, advice=advice)


def _rises_to_end(run: Run, signals: Signals) -> Outcome | None:
    """The rate of a run that ended by itself rises to the end and stays low: a warm-up that never ends.

    Low is below `_TINY`, or below a twentieth of the rate that the optimizer was made with (chosen by us); below half
    of it where the scheduler was stepped once in many steps, so that its warm-up may count steps.
    """
    if run.status != "finished" or run.asked.get("stopped"):
        return None
    for series in process_series(run, signals, "lr"):
        rates = finite_points(series)[1]
        is_main = ".group" not in series.name and len(rates) >= 20
        facts = signals.loop.get("scheduler", {}).get(str(optimizer_of(series)), {})
        by_epoch = 0 < facts.get("steps", 0) <= 0.2 * facts.get("optimizer_steps", 0)
        share = _SHARE_BY_EPOCH if by_epoch else _SHARE
        low = max(_TINY, share * _base_rate(signals, optimizer_of(series)))
        if is_main and rates == sorted(rates) and 1.3 * rates[len(rates) // 2] < rates[-1] < low:
            observed = message("health.lr_schedule_wrong.rises", first=rates[0], last=rates[-1])
            return Outcome("warn", observed, advice=message("health.lr_schedule_wrong.shorten"))
    return None


def _base_rate(signals: Signals, number: int) -> float:
    """The rate that an optimizer was made with; 0 where it is not known or may be a factor of the schedule."""
    options = next((one.get("options", {}) for one in signals.optimizers if one.get("index") == number), {})
    rate = options.get("lr", options.get("learning_rate"))
    return rate if isinstance(rate, float) and rate <= _LARGEST_BASE else 0.0
