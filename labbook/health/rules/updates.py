"""Checks of what steps do to parameters: they change them, by neither too much nor too little."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.health.evidence.layer_history import Parameter, parameters_of
from labbook.health.evidence.measurements import optimizer_suffix, process_series, too_few_data, unobserved
from labbook.health.evidence.training_kind import has_fallen, is_pretrained, training_loss
from labbook.health.evidence.trend_tests import blocks, mann_kendall, median
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_STREAK = 3
_WARM_UP = 20
_FEWEST_LATE = 3
"""Looks after the warm-up. Source: chosen by us; a busy machine takes some of five off a short run."""
_SMALL = 64
_WIPED = 3.0
_FIRST = 5
SHATTERED, DOUBLED = 0.3, 0.7
"""First updates, times the norm, that explain a flat loss; and an answer that is no better than the usual class."""
_MOVED = 0.01
_MOVED_CLIPPED = 0.1
_UNMOVED = 1e-3
_STANDING = 1e-5
_FLAT_STEPS = 50
_IDLE_SHARE = 0.4
_CRAWL = 1e-5
_CRAWLED = 0.03
_LEAP = 4.0
"""Times its first value to which a loss leaps, as in `loss_diverging`."""

_SLOWEST = 1e-5


@check("step_changed_nothing", family="gradient", tier=1, needs=("loop",))
def steps_change_parameters(run: Run, signals: Signals) -> Outcome:
    """Whether steps with a gradient and a learning rate left every inspected element bitwise as it was.

    Source: a logical invariant (tier 1) over at least 3 steps and most of those looked at; SageMaker UnchangedTensor,
    TheDeepChecker w_untrained. In bfloat16 a step may change few elements, so all of the sample must stand still. The
    last steps of a training that has nothing left to learn are below the precision of the weights. Where nothing is
    known of optimizers and rates, as in Keras: from some step on, in 5 looks over 40 % of the run (chosen by us).
    """
    rates = [v for s in process_series(run, signals, "lr") for v in (s.high or s.values)]
    if len(rates) >= _STREAK and not any(rates):
        return Outcome("fail", message("health.step_changed_nothing.no_rate"))
    since = None if rates else _stopped_after(signals)
    if since is not None:
        observed = message(
            "health.step_changed_nothing.stopped", step=since + 1, steps=_steps_seen(parameters_of(signals))
        )
        return Outcome("fail", observed, where={"step": since + 1})
    looks = signals.loop.get("unchanged", {})
    checked = sum(look.get("checked", 0) for look in looks.values())
    for opt, look in looks.items():
        still, seen = look.get("unchanged", 0), look.get("checked", 0)
        if (
            look.get("streak", 0) >= _STREAK
            and still >= 0.5 * seen
            and not _has_learnt_all(run, signals, opt, still < seen)
        ):
            which = optimizer_suffix(opt, looks)
            observed = message("health.step_changed_nothing.unchanged", bad=still, seen=seen, optimizer=which)
            return Outcome("fail", observed)
    if not checked:
        histories = [row for p in parameters_of(signals) for _, row in p.history]
        is_idle = bool(histories) and not any(row.get("g") for row in histories)
        return unobserved(message("health.not_observed.no_gradient")) if is_idle else too_few_data(0, 1)
    lrs = process_series(run, signals, "lr")
    idle = {
        step for one in lrs[:1] for step, rate in zip(one.steps, one.values, strict=True) if rate == 0 and not lrs[1:]
    }
    rows = [row for p in parameters_of(signals) if p.is_matrix and p.trainable for s, row in p.history if s not in idle]
    ratios = [v for row in rows if row.get("g") and (v := row.get("ratio")) is not None and math.isfinite(v)]
    extra: Message | str = ""
    if ratios and median(ratios) == 0.0:
        still = sum(1 for ratio in ratios if ratio == 0.0)
        extra = message("health.step_changed_nothing.often_still", share=still / len(ratios))
    changed = checked - sum(look.get("unchanged", 0) for look in looks.values())
    key = "health.step_changed_nothing.ok" if changed == checked else "health.step_changed_nothing.most"
    is_learnt = all(_has_learnt_all(run, signals, opt, True) for opt, look in looks.items() if look.get("unchanged"))
    return Outcome("ok" if is_learnt else "note", message(key, changed=changed, steps=checked, extra=extra))


def _stopped_after(signals: Signals) -> int | None:
    """The last step at which any matrix moved, `None` unless all stand still after it in spite of a gradient."""
    judged = [p for p in parameters_of(signals) if p.is_matrix and p.trainable]
    moved = max((step for p in judged for step, ratio in _ratios(p) if ratio > 0), default=0)
    still = {
        step for p in judged for step, row in p.history if step > moved and row.get("g") and row.get("ratio") == 0.0
    }
    idle = any(not row.get("g") for p in judged for step, row in p.history if step > moved)
    steps = _steps_seen(judged)
    return moved if moved and not idle and len(still) >= _FIRST and steps - moved > _IDLE_SHARE * steps else None


def _has_learnt_all(run: Run, signals: Signals, opt: str, has_moved: bool) -> bool:
    """Whether the loss has fallen to a millionth of its first value (chosen by us), or L-BFGS has ended after steps."""
    if has_moved and any(str(o.get("index")) == opt and o.get("type") == "LBFGS" for o in signals.optimizers):
        return True
    losses = [series.values for series in process_series(run, signals, "loss") if series.values]
    return bool(losses) and all(abs(v[0]) > 0 and abs(v[-1]) <= 1e-6 * abs(v[0]) for v in losses)


@check("update_too_large", family="gradient", tier=2, needs=("params",))
def updates_are_small(run: Run, signals: Signals) -> Outcome:
    """Whether steps change matrices by more than a tenth of their norm.

    Source: TheDeepChecker's 1e-1 as the median over 20 steps (0 of 12 healthy runs), for matrices that did not begin
    near 0 and hold 64 weights, or a fifth of all. In a run too short for that: several updates as large as the weights.
    One of the first updates may also leave nothing of the initial weights, after which the weights are so large that
    the same rate looks small: 3 times their norm in most matrices, with a loss that rises by half (chosen by us).
    Updates below the norm are a note where the loss has halved: those of private training are mostly noise; where few
    matrices have them, as in language models without an optimizer, where it has fallen by a tenth.
    """
    judged = [p for p in parameters_of(signals) if p.is_matrix and p.trainable and not _begins_at_zero(p)]
    wiped = _judge_wiped_out(run, signals, judged)
    if wiped is not None:
        return wiped
    late = [(median(v), p) for p in judged if len(v := p.values("ratio", _WARM_UP)) >= _FEWEST_LATE]
    if late:
        worst, parameter = max(late, key=lambda pair: pair[0])
        large = [p for ratio, p in late if ratio > 0.1]
        share = sum(p.elements for p in large) / sum(p.elements for _, p in late)
        if share > 0.2 or any(p.elements >= _SMALL for p in large):
            evidence = message("health.update_too_large.matrices", large=len(large), all=len(late), name=parameter.name)
            verdict, fallen = ("fail", 0.5) if len(large) > 0.5 * len(late) else ("warn", 0.9)
            verdict = "note" if worst < 1 and has_fallen(run, signals, fallen) else verdict
            observed = message("health.update_too_large.median", ratio=worst)
            where = {"parameter": parameter.name}
            return Outcome(verdict, observed, (evidence,), where, advice=_advise_lower_rate(run, signals, worst))
        looks = max(len(p.values("ratio", _WARM_UP)) for _, p in late)
        return Outcome("ok", message("health.update_too_large.ok", ratio=worst, steps=_WARM_UP, looks=looks))
    early = [(sorted(v)[-3], p) for p in judged if len(v := p.values("ratio")) >= 3]
    shattered = [(ratio, p) for ratio, p in early if ratio > 1]
    if early and len(shattered) > 0.5 * len(early):
        worst, parameter = max(shattered, key=lambda pair: pair[0])
        observed = message("health.update_too_large.three_steps", ratio=worst, name=parameter.name)
        where = {"parameter": parameter.name}
        return Outcome("fail", observed, where=where, advice=_advise_lower_rate(run, signals, worst))
    if not judged:
        return unobserved(message("health.not_observed.no_matrix"))
    measured = max(len(p.values("ratio", _WARM_UP)) for p in judged)
    return too_few_data(measured, _FEWEST_LATE, "health.too_few.settled_steps")


def _advise_lower_rate(run: Run, signals: Signals, ratio: float) -> Message | None:
    """Returns the advice with a lower learning rate, `None` where the rate of the run is not known.

    It is the largest rate divided by 10, or by the power of ten after which an update of `ratio` norms is below 0.1.
    """
    rates = [v for s in process_series(run, signals, "lr") for v in s.values if math.isfinite(v) and v > 0]
    factor = 10.0 ** max(1, math.ceil(math.log10(10 * ratio)))
    return message("health.lower_rate", rate=max(rates) / factor) if rates else None


def _judge_wiped_out(run: Run, signals: Signals, judged: Sequence[Parameter]) -> Outcome | None:
    """One of the first updates is several times as large as the weights, and the loss is worse for it."""
    first = _largest_of_first_steps(judged)
    wiped = [one for one in first if one[0] > _WIPED]
    series = next((s for s in process_series(run, signals, "loss") if len(s.values) > _FIRST), None)
    if series is None or len(wiped) <= 0.5 * len(first) or not wiped:
        return None
    after = [v for v in series.values[1 : 2 * _FIRST] if math.isfinite(v)]
    if not after or not series.values[0] > 0 or median(after) < 1.5 * series.values[0]:
        return None
    worst, step, parameter = max(wiped, key=lambda one: one[0])
    observed = message("health.update_too_large.one_step", ratio=worst, name=parameter.name, step=step)
    evidence = message("health.update_too_large.loss", before=series.values[0], after=median(after))
    where = {"parameter": parameter.name}  # without a step: those before it may have thrown the loss off already
    advice = _advise_lower_rate(run, signals, max(_first_ratio(p) for *_, p in wiped))  # later gradients have grown
    return Outcome("fail", observed, (evidence,), where, advice=advice)


def _largest_of_first_steps(judged: Sequence[Parameter]) -> list[tuple[float, int, Parameter]]:
    """Returns `(ratio, step, parameter)` of the largest of its first updates, for each parameter that has some."""
    early = ((p, [(ratio, step) for step, ratio in _ratios(p) if step <= _FIRST]) for p in judged)
    return [(*max(pairs, key=lambda pair: pair[0]), p) for p, pairs in early if pairs]


def _ratios(parameter: Parameter) -> list[tuple[int, float]]:
    return [(step, ratio) for step, row in parameter.history if (ratio := row.get("ratio")) is not None]


def _first_ratio(parameter: Parameter) -> float:
    """Returns the first update that is not 0, as that of a warm-up which begins at a rate of 0 is."""
    return next((ratio for _, ratio in _ratios(parameter) if ratio > 0), 1.0)


def _begins_at_zero(parameter: Parameter) -> bool:
    """Whether it began so near 0 that every update is large beside it: zero-initialised heads, adapters."""
    deviation, mean = parameter.init.get("std"), parameter.init.get("mean")
    if deviation is None or mean is None:
        return False
    fan_in = max(1, parameter.init.get("fan_in", 0))
    return math.hypot(deviation, mean) * math.sqrt(fan_in) < 0.05


@check("update_too_small", family="gradient", tier=3, needs=("params", "lr"))
def updates_have_effect(run: Run, signals: Signals) -> Outcome | None:
    """Whether all matrices hardly moved over 100 steps at a constant learning rate.

    Source: a hint (tier 3); 1e-6 of the norm. TheDeepChecker's 1e-4 gave 2 false alarms in 12 healthy runs. In a short
    run the largest update times the number of steps bounds how far a matrix has come: a thousandth teaches nothing.
    A group of parameters with a rate of less than 1e-5 times that of another one stands still (chosen by us).
    """
    for optimizer in signals.optimizers:
        groups = sorted(rate for group in optimizer.get("groups", []) if (rate := group.get("lr", 0.0)) > 0)
        if groups and groups[0] < _SLOWEST * groups[-1]:
            observed = message("health.update_too_small.group", rate=groups[0], largest=groups[-1])
            return Outcome("warn", observed)
    rates = [v for s in process_series(run, signals, "lr") for v in s.values if v > 0]
    ratios = [median(v) for p in parameters_of(signals) if p.is_matrix and len(v := p.values("ratio", _WARM_UP)) >= 5]
    steps = _steps_seen(parameters_of(signals))
    furthest = _furthest(signals)
    crawling = crawls(run, signals)
    if crawling is not None:
        return crawling
    if steps >= _WARM_UP and 0 < furthest < _UNMOVED:
        return Outcome("note", message("health.update_too_small.moved", steps=steps, share=furthest))
    if (
        not ratios
        or steps < 100
        or max(ratios) >= 1e-6
        or max(ratios) <= 0
        or min(rates, default=0) < 0.5 * max(rates, default=1)
    ):
        return None
    return Outcome("note", message("health.update_too_small.median", ratio=max(ratios), steps=steps))


def crawls(run: Run, signals: Signals) -> Outcome | None:
    """A loss that falls significantly, but by less than a thirtieth, at a constant and very small rate.

    Source: chosen by us, over at least 100 steps; fine-tuning begins at rates of about 1e-5, and is left out.
    """
    loss, rates = (
        training_loss(run, signals),
        [v for s in process_series(run, signals, "lr") for v in s.values if v > 0],
    )
    if isinstance(loss, Message) or is_pretrained(signals) or len(loss.values) < 100:
        return None
    levels = blocks(loss.values, 4)
    fallen = 1 - levels[-1] / levels[0] if levels[0] > 0 else 1.0
    is_constant = 0 < max(rates, default=0) <= min(_CRAWL, 2 * min(rates, default=0))
    if not is_constant or not 0 < fallen < _CRAWLED or mann_kendall(loss.values).falling > 0.01:
        return None
    observed = message("health.update_too_small.crawls", rate=max(rates), share=fallen, steps=loss.steps[-1])
    return Outcome("note", observed)


def _steps_seen(parameters: Sequence[Parameter]) -> int:
    return max((p.history[-1][0] for p in parameters if p.history), default=0)


def _furthest(signals: Signals) -> float:
    """Returns how far the matrices can have come at most, as a share of their norm; 0 if that was not measured."""
    ratios = [p.values("ratio") for p in parameters_of(signals) if p.is_matrix and p.trainable]
    return max((max(v) for v in ratios if len(v) >= _STREAK), default=0.0) * _steps_seen(parameters_of(signals))


def stands_still(run: Run, signals: Signals) -> bool:
    """Whether no matrix can have moved by a hundred-thousandth in all steps, at a rate that is not warming up.

    Source: chosen by us. No output changes by more than rounding does, so nothing was trained, whatever the loss does.
    """
    rates = [v for s in process_series(run, signals, "lr") for v in s.values if v > 0]
    is_constant = min(rates, default=0) >= 0.5 * max(rates, default=1)
    return is_constant and _steps_seen(parameters_of(signals)) >= _WARM_UP and 0 < _furthest(signals) < _STANDING


def hardly_moved(signals: Signals, clipped: bool) -> Outcome | None:
    """Returns `update_too_small` for a loss that is flat as well: no matrix can have moved by a hundredth.

    Source: chosen by us; a tenth where clipping has cut every gradient down. The sum of the updates bounds how far a
    matrix has come when all steps point the same way; of 1 % of their norm no network forgets its initial outputs.
    Alone it is what fine-tuning at a low rate does, so it means nothing without a flat loss.
    """
    judged = [p for p in parameters_of(signals) if p.is_matrix and p.trainable and not _begins_at_zero(p)]
    moved = [_path(pairs) for p in judged if len(pairs := _ratios(p)) >= _STREAK]
    steps, most = _steps_seen(judged), _MOVED_CLIPPED if clipped else _MOVED
    if not moved or len(moved) < 0.5 * len(judged) or steps < _FLAT_STEPS or not 0 < max(moved) < most:
        return None
    return Outcome("warn", message("health.update_too_small.moved", steps=steps, share=max(moved)))


def _path(pairs: Sequence[tuple[int, float]]) -> float:
    """Returns the sum of the updates up to the last look; each step before a look counts as the larger neighbour."""
    path, before, last = 0.0, 0, 0.0
    for step, ratio in pairs:
        path += ratio + (step - before - 1) * max(last, ratio)
        before, last = step, ratio
    return path


def begins_too_large(run: Run, signals: Signals, least: float = SHATTERED) -> Outcome | None:
    """Returns `update_too_large` for a flat loss: a first step that moved most matrices by `least` of their norm.

    The first step itself may be missing, as of Keras: then the loss leaps, and stays there.

    Source: chosen by us. Weights that were thrown off in the first steps are so large afterwards that the same rate
    looks small; where the loss came down again, the steps were none too large.
    """
    judged = [p for p in parameters_of(signals) if p.is_matrix and p.trainable and not _begins_at_zero(p)]
    first = _largest_of_first_steps(judged)
    large = [one for one in first if one[0] > least]
    if not large or len(large) <= 0.5 * len(first):
        return _leaps(run, signals)
    worst, step, parameter = max(large, key=lambda one: one[0])
    observed = message("health.update_too_large.one_step", ratio=worst, name=parameter.name, step=step)
    where = {"parameter": parameter.name}
    advice = _advise_lower_rate(run, signals, max(_first_ratio(p) for *_, p in large))
    return Outcome("fail", observed, where=where, advice=advice)


def _leaps(run: Run, signals: Signals) -> Outcome | None:
    """The loss leaps in the first steps to several times its first value, and ends as high."""
    series = next((s for s in process_series(run, signals, "loss") if len(s.values) >= _FLAT_STEPS), None)
    if series is None or not series.values[0] > 0 or process_series(run, signals, "lr"):
        return None
    first, after, end = series.values[0], median(series.values[1 : _FIRST + 1]), median(series.values[-_WARM_UP:])
    if not min(after, end) > _LEAP * first:
        return None
    observed = message("health.update_too_large.leap", before=first, after=after)
    return Outcome("fail", observed, where={"step": 1}, advice=_advise_lower_rate(run, signals, 1.0))
