"""Checks of what steps do to parameters: they change them, by neither too much nor too little."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.health.event_fields import count, finite, table
from labbook.health.layer_history import Parameter, parameters_of
from labbook.health.measurements import measured_in, percent, said, too_few
from labbook.health.training_kind import frozen_share
from labbook.health.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.run import Run
from labbook.model.signals import Signals

_STREAK = 3
_WARM_UP = 20
_SMALL = 64
_CLIPPED = 20
_WIPED = 3.0
_FIRST = 5
_MOVED = 0.01
_FLAT_STEPS = 50


@check(
    "step_changed_nothing",
    "parameters change",
    "by every step",
    family="gradient",
    tier=1,
    needs=("loop",),
    advice="Look at the learning rate, and keep weights in float32 when updates are below the resolution of float16.",
)
def steps_change_parameters(run: Run, signals: Signals) -> Outcome:
    """Whether steps with a gradient and a learning rate left every looked-at element bitwise as it was.

    Source: a logical invariant (tier 1) over at least 3 steps and most of those looked at; SageMaker UnchangedTensor,
    TheDeepChecker w_untrained. In bfloat16 a step may change few elements, so all of the sample must stand still.
    """
    rates = [v for s in measured_in(run, signals, "lr") for v in (s.high or s.values)]
    if len(rates) >= _STREAK and not any(rates):
        return Outcome("fail", "nothing can change: the learning rate is 0 in every step")
    told = table(signals.loop, "unchanged")
    checked = sum(count(told, opt, "checked") for opt in told)
    for opt in told:
        still, seen = count(told, opt, "unchanged"), count(told, opt, "checked")
        if count(told, opt, "streak") >= _STREAK and still >= 0.5 * seen:
            which = f" of optimizer {opt}" if len(told) > 1 else ""
            return Outcome(
                "fail", f"nothing changed in {still} of {seen} steps{which}, with gradient and learning rate"
            )
    if not checked:
        return too_few(0, 1)
    ratios = [v for p in parameters_of(signals) if p.is_matrix for v in p.values("ratio")]
    usual = median(ratios) if ratios else None
    extra = "" if usual is None else f", by {said(usual)} of their norm in the middle"
    if usual == 0.0:
        still = sum(1 for ratio in ratios if ratio == 0.0)
        extra = f"; of the looks at matrices, {percent(still / len(ratios))} saw no change"
    return Outcome("ok", f"in {checked} steps looked at{extra}")


@check(
    "update_too_large",
    "size of updates",
    "at most a tenth of the weights",
    family="gradient",
    tier=2,
    needs=("params",),
    advice="Lower the learning rate by 10, warm it up, or clip gradients.",
)
def updates_are_small(run: Run, signals: Signals) -> Outcome:
    """Whether steps change matrices by more than a tenth of their norm.

    Source: TheDeepChecker's 1e-1 as the median over 20 steps (0 of 12 healthy runs), for matrices that did not begin
    near 0 and hold 64 weights, or a fifth of all. In a run too short for that: several updates as large as the weights.
    One of the first updates may also leave nothing of the initial weights, after which the weights are so large that
    the same rate looks small: 3 times their norm in most matrices, with a loss that rises by half (chosen by us).
    """
    judged = [p for p in parameters_of(signals) if p.is_matrix and p.trainable and not _begins_at_zero(p)]
    wiped = _wiped_out(run, signals, judged)
    if wiped is not None:
        return wiped
    late = [(median(v), p) for p in judged if len(v := p.values("ratio", _WARM_UP)) >= 5]
    if late:
        worst, parameter = max(late, key=lambda pair: pair[0])
        large = [p for ratio, p in late if ratio > 0.1]
        share = sum(p.elements for p in large) / sum(p.elements for _, p in late)
        if share > 0.2 or any(p.elements >= _SMALL for p in large):
            told = f"matrices above a tenth: {len(large)} of {len(late)}, most {parameter.name}"
            verdict = "fail" if len(large) > 0.5 * len(late) else "warn"
            return Outcome(verdict, f"{said(worst)} of the norm in the middle", (told,), {"parameter": parameter.name})
        return Outcome("ok", f"up to {said(worst)} of the norm in the middle")
    early = [(sorted(v)[-3], p) for p in judged if len(v := p.values("ratio")) >= 3]
    shattered = [(ratio, p) for ratio, p in early if ratio > 1]
    if early and len(shattered) > 0.5 * len(early):
        worst, parameter = max(shattered, key=lambda pair: pair[0])
        observed = f"{said(worst)} times the norm of {parameter.name} in 3 of its first steps"
        return Outcome("fail", observed, where={"parameter": parameter.name})
    return too_few(
        max((len(p.values("ratio", _WARM_UP)) for p in judged), default=0), 5, "measured steps after warm-up"
    )


def _wiped_out(run: Run, signals: Signals, judged: Sequence[Parameter]) -> Outcome | None:
    """One of the first updates is several times as large as the weights, and the loss is worse for it."""
    first = [(max(v), p) for p in judged if (v := [r for s, r in _ratios(p) if s <= _FIRST])]
    wiped = [(ratio, p) for ratio, p in first if ratio > _WIPED]
    series = next((s for s in measured_in(run, signals, "loss") if len(s.values) > _FIRST), None)
    if series is None or len(wiped) <= 0.5 * len(first) or not wiped:
        return None
    after = [v for v in series.values[1 : 2 * _FIRST] if math.isfinite(v)]
    if not after or not series.values[0] > 0 or median(after) < 1.5 * series.values[0]:
        return None
    worst, parameter = max(wiped, key=lambda pair: pair[0])
    observed = f"{said(worst)} times the norm of {parameter.name} in one of the first steps"
    told = f"loss {said(series.values[0])} before, {said(median(after))} after"
    return Outcome("fail", observed, (told,), {"parameter": parameter.name, "step": 1})


def _ratios(parameter: Parameter) -> list[tuple[int, float]]:
    return [(step, ratio) for step, row in parameter.history if (ratio := finite(row, "ratio")) is not None]


def _begins_at_zero(parameter: Parameter) -> bool:
    """Whether it began so near 0 that every update is large beside it: zero-initialised heads, adapters."""
    deviation, mean = finite(parameter.init, "std"), finite(parameter.init, "mean")
    if deviation is None or mean is None:
        return False
    fan_in = max(1, count(parameter.init, "fan_in"))
    return math.hypot(deviation, mean) * math.sqrt(fan_in) < 0.05


@check(
    "update_too_small",
    "updates have an effect",
    "above a millionth of the weights",
    family="gradient",
    tier=3,
    needs=("params", "lr"),
    advice="Raise the learning rate, or look for gradients that vanish.",
)
def updates_have_effect(run: Run, signals: Signals) -> Outcome | None:
    """Whether all matrices hardly moved over 100 steps at a constant learning rate.

    Source: a hint (tier 3); 1e-6 of the norm. TheDeepChecker's 1e-4 gave 2 false alarms in 12 healthy runs.
    """
    rates = [v for s in measured_in(run, signals, "lr") for v in s.values if v > 0]
    ratios = [median(v) for p in parameters_of(signals) if p.is_matrix and len(v := p.values("ratio", _WARM_UP)) >= 5]
    steps = max((p.history[-1][0] for p in parameters_of(signals) if p.history), default=0)
    if (
        not ratios
        or steps < 100
        or max(ratios) >= 1e-6
        or max(ratios) <= 0
        or min(rates, default=0) < 0.5 * max(rates, default=1)
    ):
        return None
    return Outcome("note", f"at most {said(max(ratios))} of the norm in the middle, over {steps} steps")


def hardly_moved(run: Run, signals: Signals) -> Outcome | None:
    """What stands for `update_too_small` where the loss is flat as well: no matrix can have moved by a hundredth.

    Source: chosen by us. The median update times the number of steps bounds how far a matrix has come when all steps
    point the same way; of 1 % of their norm no network forgets its initial outputs. Alone it is what fine-tuning at a
    low rate does, so it says nothing without a loss that stands still.
    """
    judged = [p for p in parameters_of(signals) if p.is_matrix and p.trainable and not _begins_at_zero(p)]
    moved = [median(v) * p.history[-1][0] for p in judged if len(v := p.values("ratio")) >= _STREAK]
    steps = max((p.history[-1][0] for p in judged if p.history), default=0)
    if not moved or len(moved) < 0.5 * len(judged) or steps < _FLAT_STEPS or not 0 < max(moved) < _MOVED:
        return None
    return Outcome("warn", f"in {steps} steps no matrix can have moved by more than {percent(max(moved))} of its norm")


@check(
    "clip_always_active",
    "clipping is the exception",
    "not in every step",
    family="gradient",
    tier=3,
    needs=("loop",),
    advice="Raise the limit, or lower the learning rate: now the limit sets the size of each step.",
)
def clipping_is_rare(run: Run, signals: Signals) -> Outcome | None:
    """Whether clipping cut nearly every gradient to a small part of itself.

    Source: a hint (tier 3); more than 95 % of at least 200 calls, and the norm 10 times the limit: clipping in
    every step to some degree is usual in language models and policies. 100 times the limit is told after 20 calls.
    """
    clip = table(signals.loop, "clip")
    calls, clipped, limit = count(clip, "calls"), count(clip, "clipped"), finite(clip, "limit")
    norms = [v for s in measured_in(run, signals, "grad_norm") for v in s.values if math.isfinite(v)]
    if calls < _CLIPPED or clipped <= 0.95 * calls or not limit or not norms or median(norms) < 10 * limit:
        return None
    if calls < 200 and median(norms) < 100 * limit:
        return None
    observed = f"{percent(clipped / calls)} of {calls} calls, norm {said(median(norms))} against {said(limit)}"
    return Outcome("note", observed)


@check(
    "most_parameters_frozen",
    "most of the model trains",
    "at least half of it",
    family="gradient",
    tier=3,
    needs=("models",),
    advice="Set requires_grad (stop_gradient in paddle) of what shall be trained.",
)
def most_is_trained(run: Run, signals: Signals) -> Outcome | None:
    """Whether most of the models' elements are frozen. Source: a hint (tier 3); usual in fine-tuning and adapters."""
    share = frozen_share(signals)
    if share <= 0.5:
        return None
    known = parameters_of(signals)
    trained = sum(p.elements for p in known if p.trainable)
    return Outcome("note", f"{percent(share)} of the elements are frozen, {trained} are trained")


CHECKS = (steps_change_parameters, updates_are_small, updates_have_effect, clipping_is_rare, most_is_trained)
