"""The checks that inputs and targets of validation are prepared like those of training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from labbook.health.evidence.measurements import called_in_sentence, place_of
from labbook.health.evidence.training_batches import input_leaves
from labbook.health.evidence.training_kind import REGRESSIONS
from labbook.model.check import Outcome, check
from labbook.model.events.data_kinds import Leaf, Tokens
from labbook.model.events.training_kinds import LossCall, ValueRange
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_Rows = Sequence[tuple[float, float]]

_FEWEST = 3
_WIDE, _WIDE_ALONE, _NARROW = 3, 5, 0.05
_SCALES, _TAIL, _FEWEST_TARGETS = 10, 8, 32
_OFTEN, _RARELY, _RATIO = 0.3, 0.06, 5
"""Share of a token that fills validation, and of one that is rare in training. Source: chosen by us."""

_FEWEST_IDS, _FEWEST_TOKENS = 8, 128
_TOP = 16
"""Tokens that the probe lists; the share of others is at most that of the last of them."""


@check("validation_inputs_differ", family="data", tier=2, needs=("batches", "evaluations"))
def validation_is_prepared_alike(run: Run, signals: Signals) -> Outcome | None:
    """Whether inputs of validation have another scale, another order of channels or time, or other tokens.

    Source: chosen by us (tier 2), in at least 3 training batches and 2 of validation, all of which agree. Scale: a
    deviation over 3 times the largest of any training batch, or a twentieth of the smallest, or values in [0, 1] beside
    centred ones of another mean, where a sample has 4 values and a batch 256. A single phase of at least 3 batches, as
    a prediction behind the training, counts from 5 times on. A grid beyond the training data has fewer values a sample.
    Order: channels, or the quarters of the time, whose means and deviations are those of training turned round, over 6
    times nearer than batches of one split differ. Tokens: one that fills 30 % of validation without its padding and is
    rare in training; padding with another token, where nothing else shows the model what is padding.
    """
    leaves = list(input_leaves(signals).values())
    for looks in leaves:
        trained = [leaf for _, _, leaf in looks]
        observed = _other_scale(signals, trained) or _other_values(signals, trained, len(leaves) == 1)
        if observed is not None:
            return Outcome("warn", observed)
    return None


@check("validation_targets_differ", family="data", tier=2, needs=("losses",))
def validation_targets_have_the_same_unit(run: Run, signals: Signals) -> Outcome | None:
    """Whether the targets of a regression are standardized (or scaled to [0, 1]) in one split only.

    Source: chosen by us (tier 2), over at least 3 calls and 32 targets: the means or deviations of the splits are
    further apart than 10 deviations or 10 times, without values far out in a tail, and the outputs of the model in
    validation are on the scale of the training. Outputs that are brought back to the unit of the data are right.
    """
    known = [loss for loss in signals.losses if loss.get("fn") in REGRESSIONS and _is_measured(loss)]
    trained = [loss for loss in known if loss.get("training") and not loss.get("target_trained")]
    for loss in known:
        if loss.get("training") or not trained:
            continue
        target, output, line = loss["target"], loss["input"], loss.get("line", "")
        others = [one["target"] for one in trained]
        if all(_is_other_unit(target, output, other) for other in others) and all(
            target["shape"][1:] == other["shape"][1:] for other in others
        ):
            values = {"mean": target["mean"], "std": target["std"]}
            trained_values = {"trained_mean": others[0]["mean"], "trained_std": others[0]["std"]}
            observed = message("health.validation_targets_differ.unit", **values, **trained_values)
            return Outcome("warn", observed, called_in_sentence(line), place_of(line))
    return None


def _is_measured(loss: LossCall) -> bool:
    """Whether enough values are known, none of them far out."""
    enough = (
        loss.get("observed", 0) >= _FEWEST and loss.get("observed", 0) * (loss.get("items") or 0) >= _FEWEST_TARGETS
    )
    target, output = loss.get("target") or {}, loss.get("input") or {}
    numbers = [look.get(name) for look in (target, output) for name in ("min", "max", "mean", "std")]
    is_known = enough and all(number is not None for number in numbers)
    return is_known and 0 < target["max"] - target["min"] <= _TAIL * target["std"] and output["std"] > 0


def _is_other_unit(target: ValueRange, output: ValueRange, trained: ValueRange) -> bool:
    """Whether targets of validation have another unit than those of training, which the outputs have."""
    ratio, apart = trained["std"] / target["std"], abs(target["mean"] - trained["mean"])
    if _is_standard(trained) or (trained["min"] >= 0 and trained["max"] <= 1):
        if ratio * _SCALES < 1:
            return output["std"] < target["std"] / 5 and abs(output["mean"] - trained["mean"]) < target["std"]
    elif not _is_standard(target):
        return False
    elif ratio > _SCALES:
        return output["std"] > 5 * target["std"] or abs(output["mean"] - target["mean"]) > trained["std"]
    far = apart > _SCALES * max(trained["std"], target["std"])
    return far and abs(output["mean"] - trained["mean"]) < apart / 5


def _is_standard(look: ValueRange) -> bool:
    return abs(look["mean"]) < 0.5 and 0.5 < look["std"] < 2


def _other_scale(signals: Signals, looks: Sequence[Leaf]) -> Message | None:
    """What differs where validation spreads over another range."""
    looked_at = [e for e in signals.evaluations if e.get("inputs", {}).get("std") is not None]
    phases = [e.get("inputs", {}) for e in looked_at]
    is_alone = len(phases) == 1 and looked_at[0].get("batches", 0) >= _FEWEST
    trained = [leaf for leaf in looks if leaf.get("std") is not None and not leaf.get("integer")]
    shape = trained[0].get("shape", ()) if trained else ()
    alike = [one for one in phases if one.get("shape", ())[1:] == shape[1:] and math.prod(one.get("shape", ())) >= 256]
    if len(trained) < _FEWEST or len(alike) < (1 if is_alone else 2) or math.prod(shape[1:]) < 4:
        return None
    deviations = [leaf.get("std") or 0.0 for leaf in trained]
    others = [one.get("std") or 0.0 for one in alike]
    wide = min(others) > (_WIDE_ALONE if is_alone else _WIDE) * max(deviations) > 0
    narrow = 0 < max(others) < _NARROW * min(deviations)
    raw = _is_centred(trained) and _is_raw(alike) and 0 < max(others) < 0.75 * min(deviations)
    turned = _is_raw(trained) and _is_centred(alike) and min(others) > 1.33 * max(deviations) > 0
    apart = max(abs((a.get("mean") or 0.0) - (b.get("mean") or 0.0)) for a in trained for b in alike)
    shifted = apart > 0.5 * min(max(deviations), max(others))
    if not wide and (is_alone or not (narrow or ((raw or turned) and shifted))):
        return None
    seen, known = alike[0], trained[0]
    validation = message("health.range", low=seen.get("min"), high=seen.get("max"))
    training = message("health.range", low=known.get("min"), high=known.get("max"))
    return message("health.validation_inputs_differ.scale", validation=validation, training=training)


def _is_raw(looks: Sequence[Leaf]) -> bool:
    return all((one.get("min") or 0.0) >= 0 and (one.get("max") or 0.0) <= 1 for one in looks)


def _is_centred(looks: Sequence[Leaf]) -> bool:
    return max(one.get("min") or 0.0 for one in looks) < -0.5


def _other_values(signals: Signals, trained: Sequence[Leaf], alone: bool) -> Message | None:
    """What differs of the order of the channels or the time, or of the tokens; `alone`: it is the only input."""
    seen = list(chain.from_iterable(e.get("looks", []) for e in signals.evaluations))
    if len(trained) < _FEWEST or len(seen) < 2:
        return None
    turned = (
        ("channels", "health.validation_inputs_differ.channels"),
        ("parts", "health.validation_inputs_differ.parts"),
    )
    for name, key in turned:
        known, other = list(_rows(trained, name)), list(_rows(seen, name))
        if len(known) == len(trained) and len(other) == len(seen) and is_turned_round(known, other):
            means = {"training": _means(known), "validation": _means(other)}
            return message(key, **means)
    tokens = [leaf.get("tokens", Tokens()) for leaf in trained]
    others = [leaf.get("tokens", Tokens()) for leaf in seen]
    if not all(tokens) or not all(others) or sum(one.get("count", 0) for one in others) < _FEWEST_TOKENS:
        return None
    if max(one.get("ids", 0) for one in tokens) < _FEWEST_IDS:
        return None
    pads, padded = {one.get("pad") for one in tokens}, {one.get("pad") for one in others}
    if alone and len(pads) == len(padded) == 1 and None not in pads | padded and pads != padded:
        return message("health.validation_inputs_differ.padding", validation=padded.pop(), training=pads.pop())
    token = others[0].get("top", [(0, 0.0)])[0][0]
    often, rarely = min(_share(one, token, 0.0) for one in others), max(_share(one, token) for one in tokens)
    if often >= _OFTEN and rarely <= _RARELY and often >= _RATIO * rarely:
        values = {"token": token, "validation": often, "training": rarely}
        return message("health.validation_inputs_differ.token", **values)
    return None


def _share(tokens: Tokens, token: int, least: float | None = None) -> float:
    """The share of a token; of one that is not listed `least`, or else the most that it may be."""
    top = tokens.get("top", [])
    unlisted = (top[-1][1] if len(top) == _TOP else 0.0) if least is None else least
    return next((share for one, share in top if one == token), unlisted)


def _rows(looks: Sequence[Leaf], name: str) -> Iterator[_Rows]:
    for leaf in looks:
        rows = leaf.get("channels", []) if name == "channels" else leaf.get("parts", [])
        if len(rows) >= _FEWEST and all(math.isfinite(value) for row in rows for value in row):
            yield rows


def is_turned_round(training: Sequence[_Rows], validation: Sequence[_Rows]) -> bool:
    """Whether the rows of statistics of validation are those of training in the opposite order, and in no other."""
    if len({len(rows) for rows in chain(training, validation)}) != 1:
        return False
    one, other = _centre(training), _centre(validation)
    noise = max(_distance(rows, _centre(part)) for part in (training, validation) for rows in part)
    straight, reverse = _distance(one, other), _distance(one, other[::-1])
    return straight > 6 * noise and reverse < max(0.12 * straight, min(0.25 * straight, 1.5 * noise))


def _centre(looks: Sequence[_Rows]) -> _Rows:
    return [
        (sum(r[0] for r in rows) / len(rows), sum(r[1] for r in rows) / len(rows)) for rows in zip(*looks, strict=True)
    ]


def _distance(one: _Rows, other: _Rows) -> float:
    return max(max(abs(a - c), abs(b - d)) for (a, b), (c, d) in zip(one, other, strict=True))


def _means(looks: Sequence[_Rows]) -> str:
    return ", ".join(f"{mean:.3g}" for mean, _ in _centre(looks))
