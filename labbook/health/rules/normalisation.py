"""Checks of normalisation layers: what a batch norm sees, how large `eps` is, what a layer of the program returns."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from labbook.health.evidence.layer_history import Module, Parameter, modules_of, parameters_of, roots_of
from labbook.health.evidence.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.events.inspection_kinds import ModuleInspection
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_CONFIRMED = 3
_SETTLED = 5
_LARGEST_EPS = 1e-3
_SHRUNK = 0.9
_ENLARGED = 1.15
_VARIED = 0.01
"""A variance beside which the usual `eps`, up to 1e-3, is small."""
_UNTRAINED = 0.02
_BEGUN = 100
_KEPT = 0.5
_LAYER_NORM = re.compile(r"(?:layer|rms)_?norm", re.IGNORECASE)
_OWN_NORM = re.compile(r"^(?:(?!batch|group|instance|weight|spectral|act|scale|switch|adain|ada).)*norm", re.IGNORECASE)
_NORMS = ("batchnorm", "layernorm", "groupnorm", "instancenorm", "rmsnorm")


@check("batchnorm_frozen_or_tiny_batch", family="loop-bug", tier=2, needs=("modules",))
def batch_norm_fed(run: Run, signals: Signals) -> Outcome | None:
    """Whether batch norms see hardly any value for a channel, or have running statistics far from those of the batches.

    A layer with frozen weights that is in training mode, so that its statistics still move, is a note.

    Source: diagnosis catalogue (tier 2): running variance outside [0.1, 10] times that of the batch, after 100 steps,
    or outside [0.5, 2] in the first look and in the last where a small momentum leaves it at least half of its initial
    value; fewer than 16 values for each channel is common in small healthy runs, so only fewer than 4 count.
    """
    judged, frozen = False, None
    for module in modules_of(signals):
        looks = [(step, bn) for step, row in module.history if (bn := row.get("bn")) is not None]
        sizes = [n for _, bn in looks if (n := bn.get("n")) is not None]
        if len(sizes) < _CONFIRMED:
            continue
        judged = True
        where = {"module": module.name}
        if median(sizes) < 4:
            observed = message("health.batchnorm.few_values", layer=module.label, values=median(sizes))
            return Outcome("warn", observed, where=where)
        if module.parameters and not module.facts.get("trainable", 1) and frozen is None:
            observed = message("health.batchnorm.moving", layer=module.label)
            frozen = Outcome("note", observed, where=where)
        kept = _initial_share(module, signals.framework)
        if kept is not None and not any(0.5 <= bn.get("ratio", 1.0) <= 2 for _, bn in (looks[0], looks[-1])):
            momentum, steps = module.options.get("momentum"), module.history[-1][0]
            values = {"layer": module.label, "momentum": momentum, "steps": steps, "share": kept}
            advice = message("health.batchnorm.initial_advice", default=0.9 if signals.framework == "paddle" else 0.1)
            return Outcome("warn", message("health.batchnorm.initial", **values), where=where, advice=advice)
        ratios = [r for step, bn in looks if step >= _BEGUN and (r := bn.get("ratio")) is not None]
        if len(ratios) >= _CONFIRMED and not 0.1 <= median(ratios[-5:]) <= 10:
            observed = message("health.batchnorm.stale", layer=module.label, ratio=median(ratios[-5:]))
            return Outcome("warn", observed, where=where)
    return frozen or (Outcome("ok", message("health.batchnorm.ok")) if judged else None)


def _initial_share(module: Module, framework: str) -> float | None:
    """The weight of its initial value in a running statistic, `None` below one half and in the first steps."""
    momentum, steps = module.options.get("momentum"), module.history[-1][0]
    if momentum is None or steps < _BEGUN:
        return None
    share: float = (momentum if framework == "paddle" else 1 - momentum) ** steps
    return share if share >= _KEPT else None


@check("norm_eps_dominates", family="activation", tier=2, needs=("modules", "params"))
def eps_is_small(run: Run, signals: Signals) -> Outcome | None:
    """Whether the `eps` of a normalisation is not small beside the variance of its inputs, which it then shrinks.

    Source: chosen by us (tier 2): an `eps` above 0.001 and outputs of less than 0.9 times the deviation that the
    weights ask for, in at least 3 looks and all of them. `eps` is to prevent a division by 0.
    """
    weights = {(p.model, p.name): p for p in parameters_of(signals)}
    for module in modules_of(signals):
        eps = module.options.get("eps")
        weight = weights.get((module.model, f"{module.name}.weight"))
        if eps is None or eps <= _LARGEST_EPS or not any(word in module.type.lower() for word in _NORMS):
            continue
        norms = {step: w for step, row in weight.history if (w := row.get("w"))} if weight is not None else {}
        scale = math.sqrt(weight.elements) if weight is not None else 1.0
        shares = [
            deviation * scale / norms.get(step, scale)
            for step, row in module.history
            if row.get("training") and (deviation := row.get("std")) is not None
        ]
        if len(shares) >= _CONFIRMED and max(shares) < _SHRUNK:
            values = {"layer": module.label, "eps": eps, "share": median(shares)}
            return Outcome("warn", message("health.norm_eps_dominates.shrunk", **values), where={"module": module.name})
    return None


@check("norm_output_wrong", family="activation", tier=2, needs=("modules", "params"))
def norms_normalise(run: Run, signals: Signals) -> Outcome | None:
    """Whether a normalisation that the program defines returns what its weights ask for, before they are trained.

    Source: a logical invariant, with margins chosen by us (tier 2): over its features, what a layer norm and an RMS
    norm return has a mean square of 1 while all weights are 1, or 0 and added. A shifted mean or a division by the
    variance makes it larger; an `eps` that is not small makes it smaller, where each row of its input varies. One value
    less its mean is always 0.
    """
    weights = parameters_of(signals)
    single = {(p.model, p.name.rpartition(".")[0]) for p in weights if p.elements == 1}
    for module in modules_of(signals):
        if module.type == "LayerNorm" and module.history and (module.model, module.name) in single:
            observed = message("health.norm_output_wrong.single", layer=module.label)
            advice = message("health.norm_output_wrong.single_advice")
            return Outcome("warn", observed, where={"module": module.name}, advice=advice)
        if not _OWN_NORM.search(module.type) or module.facts.get("package"):
            continue
        own = [p for p in weights if p.model == module.model and p.name.rpartition(".")[0] == module.name]
        looks = [
            (root, row.get("row_var") or 0.0)
            for step, row in module.history[:_SETTLED]
            if (root := _root_mean_square(row, own, step))
        ]
        found = [root for root, _ in looks]
        values: dict[str, Any] = {"layer": module.label, "root": median(found)} if len(found) > 1 else {}
        if values and min(found) > _ENLARGED and _LAYER_NORM.search(module.type):
            observed = message("health.norm_output_wrong.enlarged", **values)
            return Outcome("warn", observed, where={"module": module.name})
        varied = min((variance for _, variance in looks), default=0.0)
        if values and max(found) < _SHRUNK and varied >= _VARIED and _asks_for_one(module, own):
            observed = message("health.norm_output_wrong.reduced", **values, variance=varied)
            return Outcome("warn", observed, where={"module": module.name})
    return None


def _asks_for_one(module: Module, weights: Sequence[Parameter]) -> bool:
    """Whether one of the weights begins at 1 and has as many elements as the last axis of the output."""
    width = next((row.get("shape", ())[-1:] for _, row in module.history), ())
    near_one = [
        abs(p.history[0][1].get("w", 0.0) / math.sqrt(p.elements) - 1) <= _UNTRAINED for p in weights if p.history
    ]
    return any(near_one) and all(tuple(p.shape) == tuple(width) for p in weights)


def _root_mean_square(row: ModuleInspection, weights: Sequence[Parameter], step: int) -> float | None:
    """The root of the mean square of an output, `None` unless each weight is near 0 or 1 in this step."""
    mean, deviation = row.get("mean"), row.get("std")
    norms = [dict(p.history).get(step, {}).get("w") for p in weights]
    roots = [w / math.sqrt(p.elements) if w is not None else math.inf for w, p in zip(norms, weights, strict=True)]
    untrained = bool(roots) and all(min(root, abs(root - 1)) <= _UNTRAINED for root in roots)
    if mean is None or deviation is None or not untrained or any(len(p.shape) != 1 for p in weights):
        return None
    return math.hypot(mean, deviation)


def has_batch_norm(signals: Signals) -> bool:
    """Whether a model holds a batch norm."""
    return any("BatchNorm" in module.type for module in modules_of(signals))


def first_not_normalised(signals: Signals, is_table: bool = False) -> Module | None:
    """The first module with weights that gets a model's input, `None` when it is a norm or a lookup table.

    Nor where only a batch norm gets what it returns: the scale of the input does not matter then. The model itself,
    which has no weights of its own, where its layers are no modules, as those of Keras.

    Args:
        is_table: Whether the input is rows of real numbers, which no lookup table takes.
    """
    for module in modules_of(signals):
        if module.parameters and module.history and not (is_table and "embedding" in module.type.lower()):
            after = _readers(signals, module)
            scaled = bool(after) and all("batchnorm" in kind.lower() for kind in after)
            return None if scaled or _normalises_or_looks_up(module.type) else module
    weights = parameters_of(signals)
    if not weights or _normalises_or_looks_up(weights[0].name):
        return None
    return next((root for root in roots_of(signals) if root.history), None)


def _readers(signals: Signals, module: Module) -> list[str]:
    """Types of the modules that get what a module returned."""
    types = {(one.model, one.number): one.type for one in modules_of(signals)}
    feeds = [(model.get("model", 0), pair) for model in signals.models for pair in model.get("feeds", [])]
    return [types.get((key, j), "") for key, (i, j) in feeds if (key, i) == (module.model, module.number)]


def _normalises_or_looks_up(name: str) -> bool:
    return any(word in name.lower() for word in ("embedding", "normalization", *_NORMS))
