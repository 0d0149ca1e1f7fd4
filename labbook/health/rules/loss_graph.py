"""Checks of the autograd graph of losses: terms without a gradient, and layers without residual connections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from labbook.health.evidence.measurements import called_in_sentence, place_of
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_SOFTMAX = ("Softmax", "SafeSoftmax")
_PRODUCTS = ("Bmm", "Matmul")
_NORMALISING = ("Norm", "Rsqrt", "Std", "Var")
_ACTIVATIONS = ("Relu", "Gelu", "Silu", "Elu", "LeakyRelu", "Mish", "Hardswish")
_FUSED = "ScaledDotProduct"

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
