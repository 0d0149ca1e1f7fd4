"""Checks of images that were scaled or normalised twice, before the model or inside it, and of labels scaled so."""

from __future__ import annotations

import math
from typing import Literal

from labbook.health.evidence.layer_history import modules_of
from labbook.health.evidence.measurements import called_in_sentence, place_of
from labbook.health.evidence.regression_outputs import target_of
from labbook.health.evidence.training_batches import input_leaves
from labbook.health.evidence.training_kind import BINARY, training_losses
from labbook.health.evidence.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.events.data_kinds import InputStatistics, Leaf
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_NEAR_MEAN = 0.25
_NEAR_DEVIATION = 0.25
_TWICE = 1e-3


@check("input_double_normalised", family="data", tier=3, needs=("batches",))
def images_scaled_once(run: Run, signals: Signals) -> Outcome | None:
    """Whether images in floating point have no value above 1/255, or look as if they were normalised twice.

    Source: a hint (tier 3); TheDeepChecker.
    """
    for path, looks in input_leaves(signals).items():
        leaves = [leaf for _, _, leaf in looks if len(leaf.get("shape", ())) == 4 and not leaf.get("integer")]
        tops, lows = [leaf.get("max") for leaf in leaves], [leaf.get("min") for leaf in leaves]
        if len(leaves) < 2 or None in tops or None in lows:
            continue
        if 0 < max(t for t in tops if t is not None) <= 1 / 255 + 1e-4 and min(v for v in lows if v is not None) >= 0:
            top = max(t for t in tops if t is not None)
            return Outcome("note", message("health.input_double_normalised.top", path=path, top=top))
        mean = median([leaf.get("mean") or 0.0 for leaf in leaves])
        deviation = median([leaf.get("std") or 0.0 for leaf in leaves])
        if _is_normalised_twice(min(v or 0.0 for v in lows), max(t or 0.0 for t in tops), mean, deviation):
            values = {"mean": mean, "deviation": deviation}
            return Outcome("note", message("health.input_double_normalised.twice", path=path, **values))
    return _scaled_inside(signals)


@check("labels_scaled", family="data", tier=2, needs=("batches", "losses"))
def labels_are_whole(run: Run, signals: Signals) -> Outcome | None:
    """Whether the labels of a binary loss have two values, 0 and one below a half: they were 0 and 1 before.

    Source: the statistics of at least 3 batches, whose mean is that of two values (tier 2). Soft labels have others.
    """
    losses = training_losses(signals)
    leaves = [leaf for batch in signals.batches if (leaf := target_of(batch)) is not None]
    if len(leaves) < 3 or len(losses) != 1 or losses[0].get("fn") not in BINARY:
        return None
    top = max(_read_statistic(leaf, "max") for leaf in leaves)
    values = [(leaf.get("min"), leaf.get("mean"), leaf.get("zero")) for leaf in leaves]
    for low, mean, zero in values:
        if low != 0 or mean is None or not zero or not math.isclose(mean, (1 - zero) * top, rel_tol=_TWICE):
            return None
    if not 0 < top < 0.5:
        return None
    line = losses[0].get("line", "")
    return Outcome("warn", message("health.labels_scaled.two", top=top), called_in_sentence(line), place_of(line))


def _scaled_inside(signals: Signals) -> Outcome | None:
    """The scaling of inputs that the model repeats before its first layer."""
    inputs = [leaf for looks in input_leaves(signals).values() for _, _, leaf in looks if not leaf.get("integer")]
    low = min((_read_statistic(leaf, "min") for leaf in inputs), default=-1.0)
    top = max((_read_statistic(leaf, "max") for leaf in inputs), default=0.0)
    for layer in modules_of(signals):
        looks = [given for _, row in layer.history if (given := row.get("given")) and given.get("max") is not None]
        if len(looks) < 2:
            continue
        lows, tops = [_read_statistic(look, "min") for look in looks], [_read_statistic(look, "max") for look in looks]
        if low >= 0 and 0.5 < top <= 1.0 and min(lows) >= 0 and math.isclose(max(tops) * 255, top, rel_tol=_TWICE):
            observed = message("health.input_double_normalised.inside", layer=layer.label, high=top, top=max(tops))
            return Outcome("note", observed)
        moments = (
            median([_read_statistic(look, "mean") for look in looks]),
            median([_read_statistic(look, "std") for look in looks]),
        )
        if len(looks[0].get("shape", ())) == 4 and _is_normalised_twice(min(lows), max(tops), *moments):
            values = {"mean": moments[0], "deviation": moments[1]}
            return Outcome("note", message("health.input_double_normalised.inside_twice", layer=layer.label, **values))
    return None


def _read_statistic(look: Leaf | InputStatistics, name: Literal["min", "max", "mean", "std"]) -> float:
    return look.get(name) or 0.0


def _is_normalised_twice(low: float, top: float, mean: float, deviation: float) -> bool:
    """Whether values fit pixels from 0 to 1 from which m was subtracted, and which were divided by s, both twice.

    Their range is then 1 / s ** 2, which gives s and, with the lowest value, m; pixels with mean m and standard
    deviation s end with mean -m / s and standard deviation 1 / s.
    """
    if top - low < 4:
        return False
    once = 1 / math.sqrt(top - low)
    middle = -low * once**2 / (1 + once)
    near = abs(mean + middle / once) < _NEAR_MEAN * deviation and abs(deviation * once - 1) < _NEAR_DEVIATION
    return near and 0 < middle < 1
