"""Checks of what a loss pulls the model to: pairs of a contrastive loss, targets of temporal differences."""

from __future__ import annotations

import math

from labbook.health.measurements import called_in, place_of
from labbook.health.training_kind import is_contrastive, training_losses
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_CALLS = 3
_ALWAYS = 0.95
_STEPS = 200
_OF_CHANCE = 0.8


@check("contrastive_pairs_wrong", family="loop-bug", tier=1, needs=("losses",))
def pairs_differ(run: Run, signals: Signals) -> Outcome | None:
    """Whether a contrastive loss compares samples with themselves, as positives or as negatives.

    Source: a logical invariant (tier 1): a constant positive similarity or a symmetric table in 95 % of the calls.
    """
    for loss in training_losses(signals):
        seen, line = loss.get("observed", 0), loss.get("line", "")
        if seen < _CALLS:
            continue
        if loss.get("self_pairs", 0) >= _ALWAYS * seen:
            observed = message("health.contrastive_pairs_wrong.positives", calls=seen)
        elif loss.get("self_negatives", 0) >= _ALWAYS * seen:
            observed = message("health.contrastive_pairs_wrong.negatives", calls=seen)
        else:
            continue
        return Outcome("fail", observed, called_in(line), place_of(line))
    return None


@check("contrastive_temperature", family="loop-bug", tier=2, needs=("losses",))
def similarities_are_sharp(run: Run, signals: Signals) -> Outcome | None:
    """Whether the range of all similarities is too small for a contrastive loss to fall, as with `* temperature`.

    Source: chosen by us (tier 2): even if each positive had the largest similarity of the run and each negative the
    least, the loss would stay above 80 % of its chance level ln(n).
    """
    for loss in training_losses(signals):
        scores, classes, line = loss.get("input", {}), loss.get("classes", 0), loss.get("line", "")
        low, high = scores.get("min"), scores.get("max")
        usual = loss.get("fn") == "cross_entropy" and is_contrastive(loss) and classes >= 8
        if not usual or low is None or high is None or loss.get("observed", 0) < 5 or loss.get("soft"):
            continue
        least = math.log1p((classes - 1) * math.exp(low - high)) if high - low < 1.0 else 0.0
        if least > _OF_CHANCE * math.log(classes):
            chance = math.log(classes)
            observed = message("health.contrastive_temperature.flat", low=low, high=high, least=least, chance=chance)
            return Outcome("warn", observed, called_in(line), place_of(line))
    return None


@check("target_not_detached", family="loop-bug", tier=2, needs=("graphs",))
def targets_have_no_gradient(run: Run, signals: Signals) -> Outcome | None:
    """Whether the target of a temporal difference, reward plus discounted value, has a gradient to the same model.

    Source: the graph of the loss; Sutton and Barto, semi-gradient methods. Residual gradients are rarely meant.
    """
    for graph in signals.graphs:
        line = graph.get("bootstrapped")
        if line is not None:
            observed = message("health.target_not_detached.graph")
            return Outcome("warn", observed, called_in(line), place_of(line))
    return None


@check("target_network_never_updated", family="loop-bug", tier=2, needs=("loop",))
def target_network_follows(run: Run, signals: Signals) -> Outcome | None:
    """Whether a copy of the untrained model gives the targets in most steps, on other inputs, and never changes.

    Source: chosen by us (tier 2); over 200 steps. A teacher or reference model is a copy of a trained one, or is given
    what the trained model is given.
    """
    steps = signals.loop.get("steps", 0)
    if steps < _STEPS:
        return None
    for copy in signals.loop.get("copies", []):
        calls, compared = copy.get("steps", 0), copy.get("compared", 0)
        untouched = copy.get("untrained") and not copy.get("changed")
        if untouched and calls > 0.5 * steps and compared >= 16 and not copy.get("equal", 0):
            observed = message("health.target_network_never_updated.unchanged", type=copy.get("type", ""), calls=calls)
            return Outcome("warn", observed)
    return None


CHECKS = (pairs_differ, similarities_are_sharp, targets_have_no_gradient, target_network_follows)
