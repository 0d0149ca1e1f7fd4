"""Checks of the initial loss and the initial weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

from labbook.health.evidence.layer_history import Parameter, parameters_of
from labbook.health.evidence.measurements import (
    called_in_sentence,
    join_names,
    optimizer_of,
    process_series,
    unobserved,
)
from labbook.health.evidence.training_kind import (
    CLASSIFIERS,
    REGRESSIONS,
    is_contrastive,
    is_pretrained,
    is_the_whole_loss,
    training_losses,
)
from labbook.model.check import Outcome, check
from labbook.model.events.training_kinds import LossCall
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.run_files import is_checkpoint
from labbook.model.signals import Signals, optimizer_was_restored

_FAR = 5.0
_SMALL = 1 / (10 * _FAR)
_FAR_ABOVE = 2.0
_FAR_IN_PADDLE = 2.0
_PRODUCTS = ("Mm", "Bmm", "Matmul", "Mv")
_LAYERS = ("Addmm", "Convolution", "Conv2d", "NativeLayerNorm", "LayerNorm")
_LENGTHS = frozenset({"LinalgVectorNorm", "Norm", "PNorm", "FrobeniusNorm"})


@check("init_loss_off", family="activation", tier=2, needs=("losses",))
def initial_loss(run: Run, signals: Signals) -> Outcome | None:
    """Whether an untrained classifier begins at ln(classes).

    Source: Karpathy 2019; max(0.5 ln K, 0.5) above it (0 of 14 healthy runs in torch) is noted, as Xavier weights on
    wide inputs exceed it in paddle. A warning above max(ln K, 2), TheDeepChecker's relative deviation of 1, and twice
    that in paddle (chosen by us). A loss below it is no fault, weights may have been trained before; of cosines times a
    scale, as in ArcFace, the program chooses the spread.
    """
    losses = training_losses(signals)
    # One that is summed may come after others, as in a second training.
    for loss in sorted(losses, key=lambda loss: not _is_summed(run, signals, loss)):
        outcome = _judge_summed(run, signals, loss) or _judge_first(run, signals, loss)
        if outcome is not None:
            return outcome
    functions = list(dict.fromkeys(loss.get("fn", "") for loss in losses))
    if not any(functions):
        return None
    if set(functions) <= set(REGRESSIONS):  # one reason, one row with the other checks of classes
        return unobserved(message("health.not_observed.no_classifier"))
    if all(map(is_contrastive, losses)):
        return unobserved(message("health.not_observed.contrastive", functions=functions))
    return unobserved(message("health.not_observed.no_expectation", functions=functions))


def _classes_of(loss: LossCall) -> int:
    """Returns the classes of a loss that begins at ln(classes); 0 for one that does not."""
    fn, classes = loss.get("fn", ""), loss.get("classes", 0)
    if fn not in ("cross_entropy", "nll_loss", "bce_with_logits") or loss.get("value_first") is None:
        return 0
    if is_contrastive(loss) or loss.get("soft") or loss.get("weight"):
        return 0
    return 2 if fn == "bce_with_logits" else classes if classes >= 2 else 0


def _expected(classes: int) -> Message:
    return message("health.init_loss_off.expected", classes=classes, chance=math.log(classes))


def _judge_summed(run: Run, signals: Signals, loss: LossCall) -> Outcome | None:
    """Returns a warning for a loss that is summed over its targets; None for another."""
    classes, targets = _classes_of(loss), loss.get("items", 0)
    if not classes or not targets or loss.get("reduction") != "sum" or not _is_summed(run, signals, loss):
        return None
    observed = message("health.init_loss_off.summed", loss=loss.get("value_first", 0.0), targets=targets)
    where = {"step": max(1, loss.get("step", 0))}
    place = called_in_sentence(loss.get("line", ""))
    advice = message("health.init_loss_off.summed_advice")
    return Outcome("warn", observed, place, where, expected=_expected(classes), advice=advice)


def _judge_first(run: Run, signals: Signals, loss: LossCall) -> Outcome | None:
    """Compares the first value of a loss with ln(classes); None where nothing is known of where it begins."""
    classes, is_sum = _classes_of(loss), loss.get("reduction") == "sum"
    is_later = loss.get("step", 0) > 2  # the model of a later phase has been trained before
    if not classes or is_later or (is_sum and not loss.get("items")):
        return None
    first, chance = loss.get("value_first", 0.0) / (loss.get("items", 1) if is_sum else 1), math.log(classes)
    parent = _resumed_loss(run, signals)
    if parent is not None and not is_sum:
        return _judge_resumed(run, first, chance, parent, loss)
    # A sum over some of the targets, or one of several terms, is none of the values in the table of metrics.
    place = {"function": loss.get("fn", ""), "line": loss.get("line", "")}
    observed = message("health.init_loss_off.part", loss=first, **place)
    if is_the_whole_loss(run, signals, loss):
        observed = message("health.init_loss_off.loss", loss=first)
    training, later = _worst_later_training(run, signals, loss)
    if later > max(first, chance):
        first, observed = later, message("health.init_loss_off.training", loss=later, training=training + 1)
    over = first - chance
    call = (message("health.init_loss_off.call", **place),)
    # The standard weights of PaddlePaddle are larger: 5.1 for 5 classes behind one convolution is usual there.
    far = _FAR_IN_PADDLE if signals.framework == "paddle" else 1.0
    if over > far * max(chance, _FAR_ABOVE):
        usual = is_pretrained(signals) or any(is_checkpoint(parent.path) for parent in run.parents)
        usual = usual or any(_are_cosines(graph.get("operations") or []) for graph in signals.graphs)
        return Outcome("note" if usual else "warn", observed, call, {"step": 1}, expected=_expected(classes))
    if over > max(0.5 * chance, 0.5):
        return Outcome("note", observed, call, {"step": 1}, expected=_expected(classes))
    if first < 0.5 * chance and any(e.get("what") == "model" and e.get("matched") for e in signals.loaded):
        # A checkpoint of before, or pretrained weights.
        return Outcome("ok", observed, expected=message("health.init_loss_off.loaded", classes=classes, chance=chance))
    return Outcome("ok", observed, expected=_expected(classes))


def _are_cosines(operations: Sequence[Sequence[Any]]) -> bool:
    """Whether the product nearest to the loss is of vectors that were divided by their lengths."""
    product = next((row for row in operations if row[0] in _PRODUCTS), None)
    sides = product[1] if product is not None else []
    for side in sides:
        waiting, seen = [side], {side}
        while waiting:
            name, taken, _ = operations[waiting.pop()]
            waiting += [] if name in (*_PRODUCTS, *_LAYERS) else set(taken) - seen
            seen |= set(waiting)
        if not any(operations[at][0] in _LENGTHS for at in seen):
            return False
    return len(sides) == 2


def _worst_later_training(run: Run, signals: Signals, loss: LossCall) -> tuple[int, float]:
    """Returns number and value of the highest first loss of the trainings after the first one; (0, -inf) if unknown."""
    is_only = len(training_losses(signals)) == 1 and is_the_whole_loss(run, signals, loss)
    if len(signals.trainings) < 2 or loss.get("reduction") == "sum" or not is_only:
        return 0, -math.inf
    begins = [begin for begin, _ in signals.trainings]
    firsts = {}
    for series in process_series(run, signals, "loss"):
        begin, _ = signals.spans.get(optimizer_of(series), (math.inf, 0.0))
        if begin in begins[1:] and series.first is not None and math.isfinite(series.first):
            firsts[begins.index(begin)] = series.first
    return max(firsts.items(), key=lambda pair: pair[1], default=(0, -math.inf))


def _resumed_loss(run: Run, signals: Signals) -> float | None:
    """Returns the last loss of the run from which this one goes on, with its optimizer, or `None`."""
    if not optimizer_was_restored([signals]):
        return None  # weights alone may be those of another task
    losses = [parent.loss for parent in run.parents if parent.run == run.resumed_from and run.resumed_from]
    return next((loss for loss in losses if loss is not None and math.isfinite(loss)), None)


def _judge_resumed(run: Run, first: float, chance: float, parent: float, loss: LossCall) -> Outcome:
    """Judges the first loss of a resumed training by the last one of its parent.

    Source: chosen by us; a loss near chance level, while that of the parent was below half of it, or one far above
    both, is a hint that the weights are not those of the checkpoint. Other data can be the reason as well.
    """
    expected = message("health.init_loss_off.resumed", run=run.resumed_from, loss=parent)
    observed = message("health.init_loss_off.loss", loss=first)
    call = (message("health.init_loss_off.call", function=loss.get("fn", ""), line=loss.get("line", "")),)
    lost = parent < 0.5 * chance and first > 0.9 * chance
    lost = lost or first - max(parent, chance) > max(0.5 * chance, 0.5)
    return Outcome("note" if lost else "ok", observed, call if lost else (), {"step": 1}, expected=expected)


def _is_summed(run: Run, signals: Signals, loss: LossCall) -> bool:
    """Whether `backward` is called on the sum over a batch of a classifier, which scales the rate by its size."""
    is_sum = loss.get("reduction") == "sum" and loss.get("fn", "") in CLASSIFIERS and loss.get("items", 0) >= 8
    return is_sum and is_the_whole_loss(run, signals, loss)


@check("init_symmetric", family="activation", tier=1, needs=("models",))
def initial_weights_differ(run: Run, signals: Signals) -> Outcome | None:
    """Whether the weights of several layers in a row are constant, so that their units can never become different.

    Source: a logical invariant (tier 1); TheDeepChecker. One constant layer beside random ones does no harm: heads,
    adapters and residual branches begin at 0 on purpose.
    """
    layers = [p for p in parameters_of(signals) if p.is_matrix and p.trainable and p.init]
    hidden = [p for p in layers if math.isfinite(p.order)] or layers
    alike = [p for p in hidden if p.init.get("rows_equal")]
    neighbours = [(a, b) for a, b in pairwise(hidden) if a in alike and b in alike]
    constant = [p for p in alike if (p.init.get("max") or 0.0) != 0.0]
    if not layers:
        return None
    if neighbours and (len(alike) > 0.5 * len(hidden) or len(constant) >= 2):
        observed = message(
            "health.init_symmetric.equal_rows",
            bad=len(alike),
            matrices=len(hidden),
            names=join_names([p.name for p in alike]),
        )
        return Outcome("fail", observed, where={"parameter": alike[0].name})
    return Outcome("ok", message("health.init_symmetric.ok", matrices=len(hidden)))


@check("init_scale_bad", family="activation", tier=2, needs=("models",))
def initial_scale(run: Run, signals: Signals) -> Outcome | None:
    """Whether most layers begin with weights far too large, and outputs show it, or far too small.

    Source: He, Glorot and LeCun all lie within 0.5 and 2 times 1/sqrt(fan-in); 5 times is chosen by us, because the
    ratio of SageMaker gave 4 false alarms in 12 healthy runs. Heads and adapters begin small on purpose. Small weights
    that have grown to a usual scale are a note: libraries for recommendation begin at 1e-4, and Adagrad moves far.
    """
    layers = [p for p in parameters_of(signals) if p.is_matrix and p.trainable and p.init.get("fan_in", 0) >= 8]
    scales = [(_scale(p), p) for p in layers if p.init.get("std") is not None]
    if len(scales) < 2 or is_pretrained(signals):
        return None
    large = [p for scale, p in scales if scale > _FAR]
    small = [p for scale, p in scales if scale < _SMALL]
    if len(large) > 0.5 * len(scales) and _is_amplifying(signals):
        worst = max(scales, key=lambda pair: pair[0])
        observed = message(
            "health.init_scale_bad.large", scale=worst[0], name=worst[1].name, bad=len(large), layers=len(scales)
        )
        return Outcome("warn", observed, where={"parameter": worst[1].name})
    if len(small) > 0.75 * len(scales) and len(small) >= 2:
        worst = min(scales, key=lambda pair: pair[0])
        key = "health.init_scale_bad.small" if worst[0] else "health.init_scale_bad.constant"
        observed = message(key, scale=worst[0], name=worst[1].name, bad=len(small), layers=len(scales))
        verdict = "note" if all(_last_scale(p) > _SMALL for p in small) else "warn"
        return Outcome(verdict, observed, where={"parameter": worst[1].name})
    low, high = min(s for s, _ in scales), max(s for s, _ in scales)
    return Outcome("ok", message("health.init_scale_bad.ok", low=low, high=high))


def _scale(parameter: Parameter) -> float:
    return (parameter.init.get("std") or 0.0) * math.sqrt(max(1, parameter.init.get("fan_in", 0)))


def _last_scale(parameter: Parameter) -> float:
    """The root mean square of the weights when they were last seen, as `_scale`; 0 if they were not."""
    norms = parameter.values("w")
    return norms[-1] * math.sqrt(parameter.init.get("fan_in", 0) / parameter.elements) if norms else 0.0


def _is_amplifying(signals: Signals) -> bool:
    """Whether the outputs are large in the first step: some networks scale their weights where they are used."""
    deviations = [row.get("std") or 0.0 for event in signals.tensors[:1] for row in event.get("modules", [])]
    return not deviations or max(deviations) > _FAR


@check("repeated_initialisation", family="activation", tier=1, needs=("models",))
def initialised_once(run: Run, signals: Signals) -> Outcome | None:
    """Whether nested initialisation wrote the same weights again and again.

    A recursion writes the deeper weights more often. What a library fills several times by itself, such as a layer that
    several blocks share, gets random numbers again: a note.

    Source: TrainCheck transformers-17877 (3 and 6 writes); twice is what a default and one's own call come to.
    """
    written: dict[str, list[tuple[int, int, str]]] = {}
    for parameter in parameters_of(signals):
        for function, times in parameter.init.get("writes", {}).items():
            written.setdefault(function, []).append((parameter.name.count("."), times, parameter.name))
    if not written:
        return None
    function = max(written, key=lambda each: max(times for _, times, _ in written[each]))
    _, times, name = max(written[function], key=lambda one: one[1])
    if times < 3:
        return None
    by_depth = [
        [times for _, times, _ in group] for _, group in groupby(sorted(written[function]), key=lambda one: one[0])
    ]
    is_nested = len(by_depth) > 1 and all(max(above) < min(below) for above, below in pairwise(by_depth))
    observed = message("health.repeated_initialisation.times", name=name, times=times, function=function)
    return Outcome("warn" if is_nested else "note", observed, where={"parameter": name})


@check("init_skipped", family="activation", tier=3, needs=("models",))
def initialised_at_all(run: Run, signals: Signals) -> Outcome | None:
    """Whether initial weights look like uninitialised memory: not finite, or beyond a million.

    Source: a hint (tier 3), chosen by us. Integers are no weights: Keras keeps the state of its generators as one.
    """
    for parameter in parameters_of(signals):
        if "int" in parameter.dtype:
            continue
        largest = max(abs(parameter.init.get("max") or 0.0), abs(parameter.init.get("min") or 0.0))
        if parameter.init.get("bad", 0) or largest > 1e6:
            bad = parameter.init.get("bad", 0)
            observed = message("health.init_skipped.largest", name=parameter.name, largest=largest)
            if bad:
                observed = message("health.init_skipped.nonfinite", name=parameter.name, bad=bad)
            return Outcome("note", observed, where={"parameter": parameter.name})
    return None


@check("spectral_norm_uninitialised", family="activation", tier=1, needs=("models",))
def spectral_norm_ready(run: Run, signals: Signals) -> Outcome | None:
    """Whether an old-style spectral norm was evaluated before it had ever run in training mode.

    Source: a logical invariant (tier 1); TrainCheck PT-51800: its first outputs are arbitrary.
    """
    early = [name for model in signals.models for name in model.get("spectral_eval_first", [])]
    if not early:
        return None
    observed = message("health.spectral_norm_uninitialised.early", modules=len(early))
    return Outcome("fail", observed, where={"module": early[0]})
