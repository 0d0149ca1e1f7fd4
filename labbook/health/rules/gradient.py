"""Checks of gradients: cleared, present, reaching every parameter, neither vanishing nor exploding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile

from labbook.health.evidence.layer_history import Parameter, parameters_of, recovers
from labbook.health.evidence.measurements import (
    clipping,
    finite_points,
    join_names,
    measured_series,
    optimizer_suffix,
    process_series,
    too_few_data,
    unobserved,
)
from labbook.health.evidence.training_kind import (
    acts_in_environment,
    has_bootstrapped_targets,
    has_master_weights,
    has_opposed_optimizers,
)
from labbook.health.evidence.trend_tests import change_point, mann_kendall, median, robust_deviation
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.model.signals import Signals

_STREAK = 3
_WHOLE_RUN = 20
"""Points from which on a run that changed nothing was no short trial. Source: as in `loss_exactly_zero`."""
_DISCARDED = 5
_FEWEST_LOOKS = 5
_QUERIES_AND_KEYS = frozenset(("q", "k", "qk", "query", "key", "queries", "keys", "wq", "wk"))
"""Words in the names of these layers in the libraries for transformers."""


@check("grad_not_cleared", family="gradient", tier=1, needs=("loop.cleared",))
def gradients_cleared(run: Run, signals: Signals) -> Outcome:
    """Whether the gradients of the optimizer that steps were zero before a backward since its last step.

    Source: a logical invariant (tier 1) where it holds for at least 3 steps in a row; 0 of 14 healthy runs.
    """
    cleared = signals.loop.get("cleared", {})
    for opt, looks in cleared.items():
        streak, bad = looks.get("streak", 0), looks.get("not_cleared", 0)
        seen = looks.get("checked", 0)
        has_copies = has_master_weights(signals) and signals.loop.get("optimizers", 0) > 0
        if streak >= _STREAK and bad > 0.5 * seen and not has_copies:
            largest = looks.get("largest")
            norm = message("health.grad_not_cleared.norm", norm=largest) if largest is not None else ""
            which = optimizer_suffix(opt, cleared)
            stale = message("health.grad_not_cleared.stale", optimizer=which, bad=bad, seen=seen, norm=norm)
            rare = message("health.grad_not_cleared.less_often", good=seen - bad)
            return Outcome("fail", stale, (rare,) if seen - bad > 1 else ())
    empty = signals.loop.get("steps_without_gradient", {})
    judged = [looks for opt, looks in cleared.items() if empty.get(opt, {}).get("none", 0) < looks.get("checked", 0)]
    if cleared and not judged:
        return unobserved(message("health.not_observed.no_gradient"))
    checked = sum(looks.get("checked", 0) for looks in judged)
    if not checked:
        return too_few_data(0, 1)
    kept = sum(looks.get("not_cleared", 0) for looks in judged)
    if kept:
        return Outcome("ok", message("health.grad_not_cleared.most", good=checked - kept, steps=checked))
    key = "health.grad_not_cleared.held" if signals.loop.get("outside") else "health.grad_not_cleared.ok"
    return Outcome("ok", message(key, steps=checked))


@check("accumulation_discarded", family="gradient", tier=2, needs=("loop",))
def micro_batches_accumulate(run: Run, signals: Signals) -> Outcome | None:
    """Whether a step follows several backward passes of one line, and uses the gradients of the last one alone.

    Source: a logical invariant, in at least 9 of 10 steps and 5 of them; no reason is known to do so on purpose.
    """
    used, accumulation = signals.loop.get("accumulated", {}), signals.loop.get("accumulation", {})
    usual = max(accumulation, key=lambda k: accumulation[k], default="")
    for opt, looks in used.items():
        bad = looks.get("discarded", 0)
        seen = sum(count for count in looks.values() if isinstance(count, int))
        if bad >= _DISCARDED and bad >= 0.9 * seen and usual.isdigit() and int(usual) > 1:
            observed = message(
                "health.accumulation_discarded.discarded",
                optimizer=optimizer_suffix(opt, used),
                bad=bad,
                seen=seen,
                backwards=int(usual),
            )
            return Outcome("fail", observed)
    return None


@check("step_with_no_gradient", family="gradient", tier=1, needs=("loop",))
def steps_have_gradients(run: Run, signals: Signals) -> Outcome:
    """Whether an optimizer stepped after a backward pass that gave its parameters no gradient.

    Source: a logical invariant (tier 1). Zeros count only while the loss is not exactly 0, as a satisfied hinge is.
    """
    empty = signals.loop.get("steps_without_gradient", {})
    steps = max(1, signals.loop.get("steps", 0))
    satisfied = any(low == 0.0 for s in process_series(run, signals, "loss") for low in (s.low or s.values))
    for opt, times in empty.items():
        none, zero = times.get("none", 0), 0 if satisfied else times.get("zero", 0)
        seen = times.get("checked") or _steps_of(run, signals, opt) or steps
        since = _stopped_at(process_series(run, signals, "grad_norm")) if zero >= _STREAK else None
        if none + zero >= _STREAK and (since is not None or none + zero >= 0.5 * seen):
            key = "health.step_with_no_gradient.none" if none >= zero else "health.step_with_no_gradient.zero"
            observed = message(key, bad=none + zero, steps=seen, optimizer=optimizer_suffix(opt, signals.optimizers))
            if since is not None:
                observed = message("health.step_with_no_gradient.stopped", observed=observed, step=since)
            return Outcome("fail", observed, where={"step": since} if since is not None else {})
    return Outcome("ok", message("health.step_with_no_gradient.ok", steps=steps))


def _stopped_at(norms: Sequence[Series]) -> int | None:
    """The step of the first of at least 3 zeros at the end of the only series of gradient norms that were above 0."""
    steps, values = finite_points(norms[0]) if len(norms) == 1 else ([], [])
    begun = sum(1 for _ in takewhile(lambda norm: norm > 0, values))
    return steps[begun] if begun and len(values) - begun >= _STREAK and not any(values[begun:]) else None


def _steps_of(run: Run, signals: Signals, opt: str) -> int:
    name = "lr" if opt == "0" else f"lr.opt{opt}"
    found = (s for s in process_series(run, signals, "lr") if s.name.rpartition("/")[2] == name)
    return next((s.last_step or 0 for s in found), 0)


@check("gradient_all_zero", family="gradient", tier=1, whole=True, needs=("grad_norm",))
def gradient_nonzero(run: Run, signals: Signals) -> Outcome:
    """Whether the gradient was ever exactly zero for several steps in a row.

    Source: diagnosis catalogue, `gradient_all_zero` (tier 1): exactly 0 for 3 steps with finite loss. Where the loss
    itself is 0, as for a hinge that is satisfied, nothing is wrong, unless that was so from the first step to the last.
    """
    series = measured_series(run, "grad_norm")
    losses = {(s.rank, s.name.replace("loss", "grad_norm")): s for s in measured_series(run, "loss")}
    for each in series:
        loss = losses.get((each.rank, each.name))
        start, length = _longest_zero(each, loss)
        if length >= _STREAK:
            observed = message("health.gradient_all_zero.zero", points=length, step=start)
            return Outcome("fail", observed, where={"step": start})
    lows = [low for each in series for low in (each.low or each.values) if math.isfinite(low)]
    if not lows:
        return unobserved(message("health.not_observed.no_finite_value"))
    highs = [high for each in series for high in (each.high or each.values) if math.isfinite(high)]
    span = message("health.range", low=min((low for low in lows if low > 0), default=0.0), high=max(highs))
    zeros = sum(value == 0.0 for each in series for value in each.values)
    looks, steps = (sum(one.count or len(one.values) for one in each) for each in (series, losses.values()))
    if not zeros:
        return Outcome(
            "ok", message("health.gradient_all_zero.some", span=span, points=looks) if looks < steps else span
        )
    return Outcome("ok", message("health.gradient_all_zero.single", span=span, points=zeros))


def _longest_zero(series: Series, loss: Series | None) -> tuple[int, int]:
    """Step of the first point and number of points of the longest stretch of exact zeros under a loss that is not.

    All points if no point of a whole run is anything else, whatever the loss is.
    """
    highs: Sequence[float] = series.high or series.values
    if len(series.values) >= _WHOLE_RUN and not any(series.values) and not any(highs):
        return series.steps[0], len(series.values)
    losses = dict(zip(loss.steps, loss.values, strict=True)) if loss is not None else {}
    best, length, start = (0, 0), 0, 0
    for step, value, high in zip(series.steps, series.values, highs, strict=True):
        if value == 0.0 and high == 0.0 and losses.get(step, 1.0) != 0.0:
            start = start if length else step
            length += 1
            best = max(best, (start, length), key=lambda pair: pair[1])
        else:
            length = 0
    return best


@check("gradient_zero_in_part", family="gradient", tier=2, needs=("params",))
def gradient_in_every_layer(run: Run, signals: Signals) -> Outcome | None:
    """Whether the gradient of some matrices is exactly 0 in every look, and that of most others is not.

    Source: chosen by us (tier 2), over at least 5 looks. Two factors that both begin at 0 hide each other's gradient,
    as in a wrong low-rank adapter: 3 looks are enough, and they may be most of what trains. An expert of a mixture that
    gets no tokens is a note. The gradient of a linear weight is a multiple of the input, that of its bias is not.
    """
    known = [p for p in parameters_of(signals) if (p.is_matrix or p.is_table) and p.trainable]
    seen = [(p, norms) for p in known if len(norms := p.values("g")) >= _STREAK]
    # Of a model that was rebuilt, as with adapters, earlier looks are those of other parameters.
    still = [p for p, norms in seen if not any(norms[-_STREAK:]) and set(p.values("w")[-_STREAK:]) == {0.0}]
    at_zero = len(still) > 1
    if not at_zero:
        seen = [(p, norms) for p, norms in seen if len(norms) >= _FEWEST_LOOKS]
        still = [parameter for parameter, norms in seen if not any(norms)]
    if not still or len(still) == len(seen) or (2 * len(still) > len(seen) and not at_zero):
        return None
    names, idle = join_names([p.name for p in still]), all("expert" in p.name.lower() for p in still)
    observed = message("health.gradient_zero_in_part.zero", bad=len(still), matrices=len(seen), names=names)
    evidence = (message("health.gradient_zero_in_part.factors"),) if at_zero else ()
    where = {"parameter": still[0].name}
    layers = join_names([name for p in still if (name := _given_zeros(p, signals))])
    if layers:
        observed = message("health.gradient_zero_in_part.input", layers=layers)
        return Outcome("warn", observed, where=where, advice=message("health.gradient_zero_in_part.input_advice"))
    advice = message("health.gradient_zero_in_part.no_state") if all("weight_hh" in p.name for p in still) else None
    return Outcome("note" if idle else "warn", observed, evidence, where, advice=advice)


def _given_zeros(weight: Parameter, signals: Signals) -> str:
    """Returns the name of the linear layer of a weight without gradient, "" unless its bias has one in every look."""
    layer = weight.name.rpartition(".")[0]
    biases = (p for p in parameters_of(signals) if (p.model, p.name) == (weight.model, f"{layer}.bias"))
    norms = next((bias.values("g") for bias in biases), ())
    return layer if weight.name.endswith(".weight") and len(norms) >= _FEWEST_LOOKS and all(norms) else ""


@check("vanishing_gradient", family="gradient", tier=2, needs=("params",))
def gradients_reach_the_front(run: Run, signals: Signals) -> Outcome | None:
    """Whether gradient norms fall log-linearly over depth towards the input.

    Source: AUTOTRAINER's pair (first/last < 1e-3 and first < 1e-4; 0 of 12 healthy runs), and only with a monotonous
    profile (Kendall's tau above 0.6 over at least 4 layers, of weights or of biases): the mean alone gave false alarms.
    Queries and keys are left out: their gradients pass through a softmax that is nearly uniform at the start, and are
    tiny there while those of values and outputs of the same layer are not. So are weights in front of one that begins
    as 0, as the first matrix of LoRA.
    """
    profile = _profile(signals)
    if len(profile) < 4:
        trained = (p for p in parameters_of(signals) if p.is_matrix and p.trainable and math.isinf(p.order))
        if any(p.values("g", 2) for p in trained):
            return unobserved(message("health.not_observed.layers_without_order"))
        return unobserved(message("health.not_observed.few_layers"))
    norms = [norm for _, norm in profile]
    if vanishing_layers(signals):
        return Outcome("fail", _ends(profile), (_depth_message(profile),), {"parameter": profile[0][0].name})
    return Outcome("ok", message("health.vanishing_gradient.ok", first=norms[0], last=norms[-1]))


def vanishing_layers(signals: Signals) -> list[tuple[Parameter, float]]:
    """The weights whose gradient vanishes, with its norm; empty where `vanishing_gradient` does not fire."""
    profile = _profile(signals)
    if len(profile) < 4:
        return []
    last = profile[-1][1]
    found = [(parameter, norm) for parameter, norm in profile if norm / last < 1e-3 and norm < 1e-4]
    if not found or found[0][0] is not profile[0][0] or recovers(profile[0][0], profile[-1][0]):
        return []
    return found if max(_tau(profile), _tau(_profile(signals, biases=True))) > 0.6 else []


_EARLY = 6
"""Looks after step 1 that are taken on a busy machine too. Source: `SURE` of the sampling schedule of the probe."""


def _ends(profile: Sequence[tuple[Parameter, float]]) -> Message:
    (front, first), (back, last) = profile[0], profile[-1]
    return message("health.gradient.ends", front=front.name, first=first, back=back.name, last=last)


def _depth_message(profile: Sequence[tuple[Parameter, float]]) -> Message:
    shown = profile if len(profile) <= 8 else [*profile[:4], *profile[-4:]]
    layers = [message("health.gradient.layer", name=parameter.name, norm=norm) for parameter, norm in shown]
    return message("health.gradient.by_depth", layers=layers)


def _tau(profile: Sequence[tuple[Parameter, float]]) -> float:
    """How monotonously the norms rise over depth; their noise where all is lost hides it in weights, not in biases."""
    return mann_kendall([math.log(norm) for _, norm in profile]).tau if len(profile) >= 4 else 0.0


def _profile(signals: Signals, *, biases: bool = False) -> list[tuple[Parameter, float]]:
    """Matrices, or biases, in the order in which they run, with the median norm of their gradient after step 1.

    Only the first looks count: they are the same in every run of a program, later ones depend on the time they take.
    """
    found = []
    zeros = [p for p in parameters_of(signals) if p.is_matrix and p.trainable and (p.init or {}).get("zero") == 1.0]
    for parameter in parameters_of(signals):
        wanted = parameter.is_bias if biases else parameter.is_matrix
        if not wanted or not parameter.trainable or not math.isfinite(parameter.order) or _is_query_or_key(parameter):
            continue
        if any(parameter.order < zero.order and parameter.name.startswith(_branch(zero)) for zero in zeros):
            continue
        norms = [value for value in parameter.values("g", 2)[:_EARLY] if value > 0]
        if len(norms) >= 3:
            found.append((parameter, median(norms)))
    return found


def _branch(parameter: Parameter) -> str:
    """Returns how the names of weights in the block of this one begin."""
    parts = parameter.name.split(".")
    return "".join(f"{part}." for part in parts[: -3 if len(parts) > 3 else -2])


def _is_query_or_key(parameter: Parameter) -> bool:
    """Whether it belongs to such a layer, or to an adapter in one: `query.lora_B.default.weight`."""
    *outer, layer = [set(part.split("_")) for part in parameter.name.lower().split(".")[:-1]] or [set()]
    return not _QUERIES_AND_KEYS.isdisjoint(layer) or any(
        words & _QUERIES_AND_KEYS and words <= _QUERIES_AND_KEYS | {"proj", "lin", "to"} for words in outer
    )


@check("exploding_gradient", family="gradient", tier=2, needs=("grad_norm",))
def gradients_stay_small(run: Run, signals: Signals) -> Outcome:
    """Whether the norm rose far above where it began and stayed there, or grows from layer to layer.

    Source: diagnosis catalogue, `exploding_gradient` (tier 2): 10 times the running median and a robust z above 8, here
    for 5 points in a row, above the level of the first 20 (a converged run spikes below it), and not while the loss
    falls (a run that leaves a plateau has larger gradients).
    """
    if has_opposed_optimizers(run, signals) or acts_in_environment(signals) or has_bootstrapped_targets(signals):
        return Outcome("ok", message("health.exploding_gradient.not_judged"))
    losses = process_series(run, signals, "loss")
    for number, series in enumerate(process_series(run, signals, "grad_norm")):
        steps, values = finite_points(series)
        at = _explosion(values)
        if at is None:
            continue
        loss = losses[number] if number < len(losses) else None
        before = median(values[max(0, at - 50) : at])
        if loss is not None and _falls_across(loss, steps[at]) and not _is_out_of_proportion(values, at, loss):
            continue
        now = max(values[at : at + 5])
        observed = message("health.exploding_gradient.rose", before=before, now=now, step=steps[at])
        clipped = clipping(run, signals).get("calls", 0) > 0
        return Outcome("note" if clipped else "fail", observed, where={"step": steps[at]})
    return _judge_rising_norm(run, signals) or _grows_by_layer(signals)


def _judge_rising_norm(run: Run, signals: Signals) -> Outcome | None:
    """A norm whose second half lies far above its beginning and out of proportion to the loss, with heavy noise."""
    losses = process_series(run, signals, "loss")
    for series in process_series(run, signals, "grad_norm")[:1]:
        steps, values = finite_points(series)
        if len(values) < 60 or not losses or clipping(run, signals).get("calls", 0):
            continue
        at, p = change_point(values)
        if p < 1e-6 and 20 <= at <= 0.8 * len(values) and _is_out_of_proportion(values, at, losses[0]):
            begin, now = median(values[:20]), median(values[at:])
            observed = message("health.exploding_gradient.level", before=begin, now=now, step=steps[at])
            return Outcome("warn", observed, where={"step": steps[at]}, p=p)
    return None


def _explosion(values: Sequence[float]) -> int | None:
    """Index at which the norm leaves its range for 5 points or more, `None` when it does not."""
    logs = [math.log(value) for value in values if value > 0]
    if len(logs) < 30 or len(logs) < len(values):
        return None
    level = median(logs[:20])
    streak = 0
    for index in range(20, len(logs)):
        before = logs[max(0, index - 50) : index - streak]
        at = median(before)
        z = (logs[index] - at) / max(robust_deviation(before, at), 0.05)
        high = logs[index] > max(at, level) + math.log(10) and z > 8
        streak = streak + 1 if high else 0
        if streak >= 5:
            return index - 4
    return None


def _is_out_of_proportion(values: Sequence[float], at: int, loss: Series) -> bool:
    """Whether the norm stays 10 times its first level, above 10 and above 10 times the loss, though the loss falls.

    Not where the loss falls below 0: a density that narrows round its data has larger and larger gradients.
    """
    after, finite_losses = median(values[at:]), [v for v in loss.values if math.isfinite(v)]
    late = median(finite_losses[len(finite_losses) // 2 :])
    if late < min(0.0, median(finite_losses[:20])):
        return False
    level = abs(late)
    return after > 10 * median(values[:20]) and after > 10 * max(level, 1.0)


def _falls_across(loss: Series, step: int) -> bool:
    before = [v for s, v in zip(loss.steps, loss.values, strict=True) if s < step and math.isfinite(v)][-20:]
    after = [v for s, v in zip(loss.steps, loss.values, strict=True) if s >= step and math.isfinite(v)][:50]
    return bool(before) and len(after) >= 10 and median(after[len(after) // 2 :]) < 0.9 * median(before)


def _grows_by_layer(signals: Signals) -> Outcome:
    """AUTOTRAINER's 70 times from last to first layer, where the profile is monotonous and the first one is large."""
    profile = _profile(signals)
    if exploding_layers(signals):
        return Outcome("warn", _ends(profile), (_depth_message(profile),), {"parameter": profile[0][0].name})
    return Outcome("ok", message("health.exploding_gradient.ok"))


def exploding_layers(signals: Signals) -> list[tuple[Parameter, float]]:
    """The weights whose gradient is 70 times that of the last layer, where it grows from layer to layer, else none."""
    profile = _profile(signals)
    norms = [norm for _, norm in profile]
    if len(profile) < 5 or norms[0] / norms[-1] <= 70 or norms[0] <= 10 or _tau(profile) >= -0.8:
        return []
    return [(parameter, norm) for parameter, norm in profile if norm / norms[-1] > 70]
