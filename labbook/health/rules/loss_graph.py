"""Checks of what a loss consists of: terms without a gradient, penalties, and the layers in its autograd graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from labbook.health.evidence.layer_history import parameters_of
from labbook.health.evidence.measurements import called_in_sentence, join_names, place_of, process_series
from labbook.health.evidence.training_kind import REGRESSIONS, is_pretrained, is_the_whole_loss, training_losses
from labbook.health.evidence.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_SOFTMAX = ("Softmax", "SafeSoftmax")
_PRODUCTS = ("Bmm", "Matmul")
_NORMALISING = ("Norm", "Rsqrt", "Std", "Var")
_ACTIVATIONS = ("Relu", "Gelu", "Silu", "Elu", "LeakyRelu", "Mish", "Hardswish")
_FUSED = "ScaledDotProduct"

_LARGEST_SHRINK = 0.01
_SHRUNK = 0.7
_PULLS = 3.0
_FIRST = 5
_STREAK = 3
_CRUSHED = 0.6
_PLAIN = ("SGD", "Momentum")
_COUPLED = (*_PLAIN, "Adam", "RMSprop", "RMSProp", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam")
"""Optimizers that add weight decay to the gradient; AdamW and the like shrink the weights apart from it."""

Operations = Sequence[Sequence[Any]]


@check("loss_term_without_gradient", family="loop-bug", tier=1, needs=("graphs",))
def terms_have_gradients(run: Run, signals: Signals) -> Outcome | None:
    """Whether something that changes from step to step is added to the loss and has no gradient.

    Source: a logical invariant (tier 1) over 3 steps: such a term is shown and never minimised.
    """
    for graph in signals.graphs:
        for term in graph.get("constant", []):
            values = term.get("values", [])
            if len(values) >= 3:
                number = term.get("number", False)
                key = (
                    "health.loss_term_without_gradient.number" if number else "health.loss_term_without_gradient.tensor"
                )
                return Outcome(
                    "warn",
                    message(key, values=values),
                    called_in_sentence(term.get("line", "")),
                    place_of(term.get("line", "")),
                )
    return None


@check("twins_without_stop_gradient", family="loop-bug", tier=2, needs=("losses",))
def one_side_is_fixed(run: Run, signals: Signals) -> Outcome | None:
    """Whether all that is minimised is the difference of two results that are both trained: no data are the target.

    Source: Chen and He 2021, 4.1; chosen by us (tier 2): in all calls of the only loss function, which is the whole
    loss. The residual of an equation has conditions beside it, or derivatives, for which the inputs need a gradient.
    """
    losses = training_losses(signals)
    one = losses[0] if len(losses) == 1 else {}
    seen, line = one.get("observed", 0), one.get("line", "")
    if one.get("fn") not in REGRESSIONS or seen < _FIRST or one.get("target_trained", 0) < seen:
        return None
    explained = any(graph.get("penalised") or graph.get("bootstrapped") for graph in signals.graphs)
    if explained or not is_the_whole_loss(run, signals, one):
        return None
    if any(not leaf.get("parameter") for graph in signals.graphs for leaf in graph.get("foreign", ())):
        return None
    observed = message("health.twins_without_stop_gradient.both", function=one.get("fn", ""), calls=seen)
    advice = message("health.twins_without_stop_gradient.both_advice")
    return Outcome("warn", observed, called_in_sentence(line), place_of(line), advice=advice)


@check("residual_missing", family="activation", tier=2, needs=("graphs",))
def attention_has_residuals(run: Run, signals: Signals) -> Outcome | None:
    """Whether all that the loss is computed from passes through the attention of one layer, below which lies another.

    Source: Vaswani et al. 2017, 3.1: `x + Sublayer(x)`. Only self-attention counts, both its queries and its keys come
    from the layer below: the attention that pools a sequence has queries of its own. The layers of a transformer have
    a normalisation between them, those of a hierarchy of words and sentences have none. Likewise whether all that
    attention gets from the one below, around which a connection leads, passes through the activation of a feed-forward
    part.
    """
    for graph in signals.graphs:
        operations = graph.get("operations") or []
        attentions = _attentions(operations)
        if any(_lacks_way_around_mlp(operations, attentions, last) for last in attentions):
            return Outcome("warn", message("health.residual_missing.feed_forward", layers=len(attentions)))
        taken = {at for _, inputs, _ in operations for at in inputs}
        met = _reach(operations, set(range(len(operations))) - taken, attentions) & set(attentions)
        if len(met) != 1:
            continue
        (last,) = met
        sides = [_reach(operations, [side], ()) & set(attentions) for side in attentions[last]]
        between = _reach(operations, attentions[last], attentions)
        is_normalised = any(word in operations[at][0] for at in between for word in _NORMALISING)
        if len(sides) == 2 and all(sides) and is_normalised:
            return Outcome("warn", message("health.residual_missing.layers", layers=len(attentions)))
    return None


def _lacks_way_around_mlp(operations: Operations, attentions: dict[int, list[int]], last: int) -> bool:
    """Whether an attention gets the one below it through activations only, and what lies before that one past it."""
    near = _reach(operations, attentions[last], attentions) & set(attentions)
    if len(near) != 1:
        return False
    (low,) = near
    activations = {at for at, (name, _, _) in enumerate(operations) if name.startswith(_ACTIVATIONS)}
    without_mlp = _reach(operations, attentions[last], {low, *activations})
    past = _reach(operations, attentions[last], {low})
    before = _reach(operations, attentions[low], ())
    has_way_around = any(operations[at][1] for at in past & before)
    is_normalised = any("LayerNorm" in operations[at][0] or "Rms" in operations[at][0] for at in past)
    return low not in without_mlp and has_way_around and is_normalised


def _attentions(operations: Operations) -> dict[int, list[int]]:
    """Row of each product of attention weights and values -> the rows of its queries and keys."""
    found = {}
    for at, (name, taken, _) in enumerate(operations):
        if name.startswith(_FUSED) and len(taken) >= 3:
            found[at] = taken[:2]
        for side in taken if name in _PRODUCTS else ():
            weights = _skip_single(operations, side)
            if operations[weights][0] in _SOFTMAX and operations[weights][1]:
                scores = _skip_single(operations, operations[weights][1][0])
                found |= {at: operations[scores][1]} if operations[scores][0] in _PRODUCTS else {}
    return found


def _skip_single(operations: Operations, at: int) -> int:
    """The first row from here down that is a product or a softmax, or takes from several."""
    while len(operations[at][1]) == 1 and operations[at][0] not in (*_PRODUCTS, *_SOFTMAX):
        at = operations[at][1][0]
    return at


def _reach(operations: Operations, start: Iterable[int], barriers: Iterable[int]) -> set[int]:
    """The rows that `start` takes from, itself included, without those behind a barrier."""
    waiting, seen, barriers = list(start), set(), set(barriers)
    while waiting:
        at = waiting.pop()
        if at not in seen:
            seen.add(at)
            waiting += operations[at][1] if at not in barriers else ()
    return seen


@check("regularisation_dominates", family="gradient", tier=2, needs=("losses",))
def regularisation_is_small(run: Run, signals: Signals) -> Outcome | None:
    """Whether a penalty on the weights is most of the loss, or weight decay pulls harder than the gradient.

    Source: chosen by us (tier 2): a loss of more than 10 times its only loss function where its graph holds a penalty,
    or of 3 times where their sum ends at chance level, or well above 0 with most matrices at 0.6 of their norm; decay
    of 3 times the gradient in most matrices within the first 5 steps, coupled to it as in SGD and Adam, that shrinks
    weights by a tenth over the run, or, in SGD and in optimizers that decay apart from the gradient, of a hundredth a
    step, that leaves 0.7 of them. Of weights that were trained before the gradients may rightly be small.
    """
    return _penalty(run, signals) or _decay(run, signals)


def _penalty(run: Run, signals: Signals) -> Outcome | None:
    losses, series = training_losses(signals), process_series(run, signals, "loss")
    if not losses or len(series) != 1 or not any(graph.get("penalised") for graph in signals.graphs):
        return None
    values, total = [loss.get("value_first") or 0.0 for loss in losses], series[0].values[0]
    # Several losses may have weights, as 100 for the distance of two images.
    if any(loss.get("reduction") != "mean" for loss in losses) or min(values) <= 0:
        return None
    one = losses[0] if len(losses) == 1 else {}
    classes, ends = one.get("classes") or 0, median(list(series[0].values[-10:]))
    guessing = min(values[0], math.log(classes)) if classes > 1 else values[0]
    # The penalty falls, the loss function does not, and their sum ends at the level of guessing.
    won = total > 3 * guessing and ends < 0.5 * total and ends > 0.95 * guessing
    won = won and (one.get("value_last") or 0.0) > 0.8 * guessing
    functions, left = join_names([loss.get("fn", "") for loss in losses]), _norms_left(signals)
    if total <= (10 if one else 200) * sum(values) and not won:
        final = one.get("value_last") or 0.0
        if not one or not left < _CRUSHED or not 0.05 * values[0] < final < ends / 3:
            return None
        last = {"total": ends, "function": functions, "value": final, "left": left}
        observed = message("health.regularisation_dominates.penalty_wins", **last)
        return Outcome("warn", observed, called_in_sentence(one.get("line", "")))
    observed = message("health.regularisation_dominates.penalty", total=total, function=functions, value=sum(values))
    return Outcome("warn", observed, called_in_sentence(losses[0].get("line", "")), {"step": 1})


def _decay(run: Run, signals: Signals) -> Outcome | None:
    optimizer = signals.optimizers[0] if len(signals.optimizers) == 1 else None
    decay = optimizer.get("options", {}).get("weight_decay") if optimizer is not None else None
    if optimizer is None or not isinstance(decay, (int, float)) or decay <= 0:
        return None
    rates = [v for s in process_series(run, signals, "lr") for v in s.values if math.isfinite(v)]
    is_plain, rate = optimizer.get("type") in _PLAIN, max(rates, default=0.0)
    if is_plain or optimizer.get("type") not in _COUPLED:
        inertia = optimizer["options"].get("momentum") if is_plain else 0.0
        shrunk = _shrinking(signals, decay, rate / (1 - inertia) if inertia and inertia < 1 else rate)
        if shrunk is not None or not is_plain:
            return shrunk
    steps = signals.loop.get("steps", 0)
    if is_pretrained(signals) or (is_plain and sum(rates) / max(1, len(rates)) * decay * steps < 0.1):
        return None
    looks = [
        (decay * look["w"] / look["g"], parameter)
        for parameter in parameters_of(signals)
        if parameter.is_matrix and parameter.trainable
        for step, look in parameter.history[:3]
        if step <= _FIRST and look.get("g", 0.0) > 0 and math.isfinite(look.get("w", math.nan))
    ]
    if len(looks) < _STREAK or median([ratio for ratio, _ in looks]) < _PULLS:
        return None
    ratio, parameter = max(looks, key=lambda pair: pair[0])
    observed = message("health.regularisation_dominates.decay", decay=decay, ratio=ratio, name=parameter.name)
    return Outcome("warn", observed, where={"parameter": parameter.name, "step": 1})


def _shrinking(signals: Signals, decay: float, rate: float) -> Outcome | None:
    """Decay that takes more than a hundredth of the weights a step, and wins against the gradient.

    Args:
        rate: Of the optimizer; with momentum, what it sums up to.
    """
    left = _norms_left(signals)
    if rate * decay < _LARGEST_SHRINK or left > _SHRUNK:
        return None
    observed = message("health.regularisation_dominates.shrinks", decay=decay, share=rate * decay, left=left)
    return Outcome("warn", observed)


def _norms_left(signals: Signals) -> float:
    """The median share of its first norm that a trained matrix ends with; 1 where none was looked at often enough."""
    norms = [v for p in parameters_of(signals) if p.is_matrix and p.trainable and len(v := p.values("w")) >= _STREAK]
    return median([norm[-1] / norm[0] for norm in norms if norm[0] > 0] or [1.0])
