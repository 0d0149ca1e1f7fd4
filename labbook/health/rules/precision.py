"""Checks of mixed precision and of clipping: gradient scale, range of float16, autocast in effect, clipped norms."""

from __future__ import annotations

import math

from labbook.health.evidence.layer_history import Module, modules_of, parameters_of, roots_of
from labbook.health.evidence.measurements import clipping, measured_series, process_series
from labbook.health.evidence.training_kind import is_pretrained, training_loss
from labbook.health.evidence.trend_tests import blocks, mann_kendall, median
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_SKIPS_IN_100 = 5
_HALF_LARGEST = 0.5 * 65504
_LOW_PRECISION = ("float16", "bfloat16")
_MULTIPLIES = ("linear", "conv", "bilinear")
_FEWEST_LOOKS = 3
_FEW_MOVED = 0.1
_CLIPPED = 20
_SLOW = 0.8
_MOVED = 0.1


@check("scaled_gradients_stepped", family="numeric", tier=1, needs=("loop",))
def scaler_steps(run: Run, signals: Signals) -> Outcome | None:
    """Whether a gradient scaler scales the losses, and the optimizer steps without it on scaled gradients.

    Source: a logical invariant (tier 1), over 5 steps of a run in which the scaler never steps.
    """
    scaler = signals.loop.get("scaler", {})
    raw = scaler.get("raw", 0)
    if raw < 5 or scaler.get("stepped", 0):
        return None
    return Outcome("fail", message("health.scaled_gradients_stepped.raw", bad=raw))


@check("amp_scale_collapse", family="numeric", tier=2, whole=True)
def scaler_holds(run: Run, signals: Signals) -> Outcome | None:
    """Whether the gradient scaler had to skip many steps; `None` when no scaler is used.

    Source: diagnosis catalogue, `amp_scale_collapse` (tier 2): more than 5 skips in 100 steps, or a scale of at most 1
    (both frameworks halve the scale at a skip and double it after 2000 good steps).
    """
    scales = measured_series(run, "grad_scale")
    if not scales:
        return None
    drops = max(sum(b < a for a, b in zip(s.values, s.values[1:], strict=False)) for s in scales)
    drops = max([drops, *(s.loop.get("scaler", {}).get("skipped", 0) for s in run.signals)])
    steps = max(len(s.values) for s in scales)
    lowest = min(min(s.low or s.values) for s in scales)
    begun = max(s.values[0] for s in scales)
    bad = (lowest <= 1.0 and begun > 1.0) or drops > _SKIPS_IN_100 * max(1.0, steps / 100)
    return Outcome("warn" if bad else "ok", message("health.amp_scale_collapse.drops", times=drops, lowest=lowest))


@check("fp16_range_pressure", family="numeric", tier=3, needs=("modules",))
def half_precision_has_room(run: Run, signals: Signals) -> Outcome | None:
    """Whether an output in float16 came near the largest number that it can hold.

    Source: a hint (tier 3); half of 65504, paddle's CHECK_ALL_FOR_OVERFLOW.
    """
    for module in modules_of(signals):
        for step, row in module.history:
            largest = max(abs(row.get("min") or 0.0), abs(row.get("max") or 0.0))
            if (
                row.get("dtype", "").endswith("float16")
                and "bfloat" not in row.get("dtype", "")
                and largest > _HALF_LARGEST
            ):
                observed = message("health.fp16_range_pressure.largest", layer=module.label, value=largest, step=step)
                return Outcome("note", observed, where={"module": module.name, "step": step})
    return None


@check("low_precision_updates_lost", family="numeric", tier=2, needs=("params",))
def weights_resolve_updates(run: Run, signals: Signals) -> Outcome | None:
    """Whether steps change few elements of weights of 16 bits, because the updates are below half their resolution.

    Source: chosen by us (tier 2): under a tenth of the elements of half the matrices, most of which have a gradient.
    Where no element changes, `step_changed_nothing` says so.
    """
    shares = []
    for parameter in parameters_of(signals):
        if parameter.is_matrix and parameter.trainable:
            rows = [row for _, row in parameter.history if row.get("g", 0.0) > 0 and (row.get("g_zero") or 0.0) < 0.5]
            moved = [share for row in rows if (share := row.get("moved")) is not None]
            shares += [median(moved)] if len(moved) >= _FEWEST_LOOKS else []
    if not shares:
        return None
    observed = message("health.low_precision_updates_lost.moved", share=median(shares), matrices=len(shares))
    return Outcome("warn" if max(shares) > 0 and median(shares) < _FEW_MOVED else "ok", observed)


@check("autocast_ineffective", family="numeric", tier=1, needs=("modules",))
def autocast_works(run: Run, signals: Signals) -> Outcome | None:
    """Whether linear and convolution layers that ran under autocast gave the precision it promises.

    Source: a logical invariant (tier 1) by the autocast lists; TrainCheck LT-725. Only where no such layer did. That
    PaddlePaddle has no autocast on a CPU is noted: programs for GPUs are tried out there.
    """
    ignored = signals.loop.get("cast_ignored", {})
    if ignored:
        return Outcome("note", message("health.autocast_ineffective.cpu", dtype=ignored.get("dtype", "")))
    cast, low = [], 0
    for module in modules_of(signals):
        if not _multiplies(module):
            continue
        for _, row in module.history[:3]:
            if row.get("cast", "").endswith(_LOW_PRECISION):
                cast.append(module)
                low += row.get("dtype", "").endswith(_LOW_PRECISION)
    if cast and not low:
        observed = message("health.autocast_ineffective.float32", layers=len({module.name for module in cast}))
        return Outcome("fail", observed, where={"module": cast[0].name})
    left_out = _left_out(signals)
    if left_out is not None or not cast:
        return left_out
    return Outcome("ok", message("health.autocast_ineffective.ok", share=low / len(cast)))


def _left_out(signals: Signals) -> Outcome | None:
    """Most of the weights of a model that was called under autocast were used outside of it."""
    for root in roots_of(signals):
        if not any(row.get("cast", "").endswith(_LOW_PRECISION) for _, row in root.history):
            continue
        layers = [m for m in modules_of(signals) if m.model == root.model and _multiplies(m) and m.history]
        outside = [m for m in layers if not any(row.get("cast", "") for _, row in m.history)]
        if sum(m.parameters for m in outside) > 0.5 * sum(m.parameters for m in layers):
            observed = message("health.autocast_ineffective.outside", bad=len(outside), layers=len(layers))
            first = message("health.autocast_ineffective.first", layer=outside[0].label)
            return Outcome("warn", observed, (first,), {"module": outside[0].name})
    return None


def _multiplies(module: Module) -> bool:
    return any(word in module.type.lower() for word in _MULTIPLIES)


@check("clip_before_unscale", family="numeric", tier=1, needs=("loop",))
def clipped_unscaled(run: Run, signals: Signals) -> Outcome | None:
    """Whether gradients were clipped while they were still multiplied by the factor of the gradient scaler.

    Source: a logical invariant (tier 1): the limit is then smaller by that factor, and little more than the direction
    of the gradient remains. At least 3 calls, and half of all.
    """
    calls, scaled = signals.loop.get("clip", {}).get("calls", 0), signals.loop.get("clip", {}).get("scaled", 0)
    if not calls or not signals.loop.get("scaler"):
        return None
    if scaled < 3 or scaled < 0.5 * calls:
        return Outcome("ok", message("health.clip_before_unscale.ok", times=calls))
    limit, factor = signals.loop.get("clip", {}).get("limit"), signals.loop.get("scaler", {}).get("scale_last")
    evidence: tuple[Message, ...] = ()
    if limit is not None and factor is not None:
        evidence = (message("health.clip_before_unscale.limit", limit=limit, factor=factor),)
    return Outcome("fail", message("health.clip_before_unscale.scaled", bad=scaled, calls=calls), evidence)


@check("clip_always_active", family="gradient", tier=3, needs=("loop",))
def clipping_is_rare(run: Run, signals: Signals) -> Outcome | None:
    """Whether clipping reduced nearly every gradient to a small part of its norm.

    Source: a hint (tier 3); more than 95 % of at least 200 calls, and the norm 10 times the limit: clipping in
    every step to some degree is usual in language models and policies. 100 times the limit counts after 20 calls.
    """
    clip = clipping(run, signals)
    calls, clipped, limit = clip.get("calls", 0), clip.get("clipped", 0), clip.get("limit")
    norms = [v for s in process_series(run, signals, "grad_norm") for v in s.values if math.isfinite(v)]
    if calls < _CLIPPED or clipped <= 0.95 * calls or not limit or not norms or median(norms) < 10 * limit:
        return None
    if calls < 200 and median(norms) < 100 * limit:
        return None
    share = clipped / calls
    observed = message("health.clip_always_active.share", share=share, calls=calls, norm=median(norms), limit=limit)
    return Outcome("note", observed)


def clipping_slows(run: Run, signals: Signals) -> bool:
    """Whether clipping in every step is why the loss still falls steadily at the end, from near its first value.

    Source: chosen by us: plain SGD, whose step is as small as the limit makes it; most matrices moved by less than a
    tenth, the loss lost less than a fifth, and falls significantly in the second half. Fine-tuning is left out.
    """
    clip, loss = clipping(run, signals), training_loss(run, signals)
    plain = {one.get("type") for one in signals.optimizers} in ({"SGD"}, {"Momentum"})
    always = clip.get("clipped", 0) >= clip.get("calls", 1)
    if isinstance(loss, Message) or not plain or not always or is_pretrained(signals):
        return False
    levels, late = blocks(loss.values, 4), loss.values[len(loss.values) // 2 :]
    matrices = [p for p in parameters_of(signals) if p.is_matrix and p.trainable and p.values("ratio")]
    moved = [median(p.values("ratio")) * p.history[-1][0] for p in matrices]
    slow = levels[-1] > _SLOW * levels[0] > 0 and mann_kendall(late).falling < 0.01
    return slow and bool(moved) and median(moved) < _MOVED


@check("clip_without_gradient", family="gradient", tier=1, needs=("loop",))
def clipping_sees_gradients(run: Run, signals: Signals) -> Outcome | None:
    """Whether nearly all calls that clip gradients found none, although steps had some: they come before `backward`.

    Source: a logical invariant (tier 1), over at least 20 calls.
    """
    clip = signals.loop.get("clip", {})
    calls, empty = clip.get("calls", 0), clip.get("empty", 0)
    norms = [v for s in process_series(run, signals, "grad_norm") for v in s.values if math.isfinite(v)]
    if calls < _CLIPPED or empty <= 0.9 * calls or not norms or median(norms) <= 0:
        return None
    return Outcome("warn", message("health.clip_without_gradient.empty", empty=empty, calls=calls, norm=median(norms)))
