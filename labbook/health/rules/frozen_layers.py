"""Checks of layers that do not train: how many they are, and whether they were ever trained."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import combinations

from labbook.health.evidence.layer_history import Parameter, parameters_of
from labbook.health.evidence.measurements import join_names
from labbook.health.evidence.training_kind import frozen_share
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals

_FEWEST_WEIGHTS = 64
_BLOCK = re.compile(r".*\.\d+\.(?=.*[a-z])|\d+\.(?=.*\.)")
_NUMBER = re.compile(r"\d+")
_NEAR = 0.07
_LANGUAGE_MODELS = 0.02
"""Standard deviation of the initial weights of BERT and GPT-2, whatever their width."""


@check("most_parameters_frozen", family="gradient", tier=3, needs=("models",))
def most_is_trained(run: Run, signals: Signals) -> Outcome | None:
    """Whether most of the models' elements are frozen. Source: a hint (tier 3); usual in fine-tuning and adapters."""
    share = frozen_share(signals)
    if share <= 0.5:
        return None
    known = parameters_of(signals)
    trained = sum(p.elements for p in known if p.trainable)
    return Outcome("note", message("health.most_parameters_frozen.share", share=share, trained=trained))


@check("frozen_at_random", family="gradient", tier=2, needs=("models",))
def frozen_layers_were_trained(run: Run, signals: Signals) -> Outcome | None:
    """Whether a layer that does not train still has the random weights of its initialisation, though others train.

    Source: chosen by us (tier 2): written by an initialiser, its standard deviation kept within 7 % (more for few
    weights), no state loaded; tables, as those of positions, too. Random features below a small trained head are a
    method, so they are a note, and so is a part of one block whose other parts train, as it does in the other blocks; a
    random output layer is not, nor one with gradients and a rate of 0. A layer beside which two narrow matrices train,
    as in low-rank adaptation, is left out.
    """
    if any(event.get("what") == "model" and event.get("matched") for event in signals.loaded):
        return None
    known = parameters_of(signals)
    matrices = [p for p in known if (p.is_matrix or p.is_table) and math.isfinite(p.order)]
    for model in sorted({p.model for p in matrices}):
        layers = [p for p in matrices if p.model == model]
        trained = [p for p in layers if p.is_trained]
        idle = [p for p in layers if not p.trainable or (trained and not p.is_trained)]
        random = [p for p in idle if _as_initialised(p) and not _is_adapted(p, trained)]
        frozen = [p for p in random if p.elements >= _FEWEST_WEIGHTS]
        # A model of which nothing trains is a target or a teacher; of one that trains, biases alone are not enough.
        if not frozen or not any(p.trainable for p in known if p.model == model):
            continue
        last = max(layers, key=lambda p: p.order)
        by_mistake = len(trained) > len(frozen) or last in frozen
        by_mistake = by_mistake and not all(_is_unused_part(p, trained) for p in frozen)
        by_mistake = by_mistake or any(p.trainable for p in frozen)
        verdict = "warn" if by_mistake else "note"
        # Few weights are no proof alone; beside a layer with many they are no exception either.
        names = join_names([p.name for p in random])
        observed = message("health.frozen_at_random.layers", frozen=len(random), layers=len(layers), names=names)
        return Outcome(verdict, observed, where={"parameter": random[0].name})
    return None


def _is_unused_part(frozen: Parameter, trained: Sequence[Parameter]) -> bool:
    """Whether the same part of another block trains, and other parts of this one: the last block of N-BEATS."""
    block, alike = _BLOCK.match(frozen.name), _NUMBER.sub("#", frozen.name)
    beside = block is not None and any(p.name.startswith(block.group()) for p in trained)
    return beside and any(_NUMBER.sub("#", p.name) == alike for p in trained)


def _is_adapted(frozen: Parameter, trained: Sequence[Parameter]) -> bool:
    """Whether two narrow matrices train beside a frozen one, whose product has its shape."""
    if len(frozen.shape) != 2:
        return False
    around = frozen.name.rpartition(".")[0].rpartition(".")[0]
    near = [p for p in trained if len(p.shape) == 2 and (not around or p.name.startswith(f"{around}."))]
    forms = [sorted(p.shape) for p in near if min(p.shape) < min(frozen.shape)]
    wanted = sorted(frozen.shape)
    return any(one[0] == other[0] and sorted((one[1], other[1])) == wanted for one, other in combinations(forms, 2))


def _as_initialised(parameter: Parameter) -> bool:
    """Whether an initialiser wrote the weights and they still have the deviation of a common one, around 0."""
    deviation, mean = parameter.init.get("std"), parameter.init.get("mean")
    fan_in, elements = parameter.init.get("fan_in", 0), parameter.elements
    if not parameter.init.get("writes") or not deviation or mean is None or not fan_in:
        return False
    if parameter.is_table:
        return any(abs(deviation / usual - 1) < _NEAR for usual in (1.0, _LANGUAGE_MODELS))
    # The outputs of torch's layers are the first axis, those of PaddlePaddle's Linear the last.
    fan_outs = {elements / fan_in, parameter.shape[0], parameter.shape[-1]}
    normal = any("normal" in name.lower() for name in parameter.init.get("writes", {}))
    usual = [
        *([_LANGUAGE_MODELS**2] if normal else []),
        1 / (3 * fan_in),
        1 / fan_in,
        2 / fan_in,
        *(2 / (fan_in + out) for out in fan_outs),
    ]
    margin = max(_NEAR, 2 / math.sqrt(elements))  # three standard errors of the deviation of so few weights
    near = any(abs(deviation / math.sqrt(variance) - 1) < margin for variance in usual)
    return near and abs(mean) < 4 * deviation / math.sqrt(elements)
