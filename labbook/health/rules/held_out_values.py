"""Checks of validation phases: the loss that a program logs of them, and the numbers of the classes in them."""

from __future__ import annotations

import math

from labbook.health.evidence.measurements import finite_points
from labbook.health.evidence.training_kind import training_loss
from labbook.health.evidence.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.metric_kinds import metric_kind
from labbook.model.run import Run
from labbook.model.signals import Signals

_FEWEST = 3
_BATCHES = 5
_NEAR = (0.3, 3.0)
_EXACT = 0.05
_RIGHT = 0.8
_GAIN = 0.3
_SAMPLES = 100


@check("metric_of_wrong_values", family="loop-bug", tier=2, needs=("evaluations",))
def logged_loss_is_measured(run: Run, signals: Signals) -> Outcome | None:
    """Whether a logged validation loss is smaller than that of its batches by the number of the batches.

    Source: chosen by us (tier 2): in at least 3 phases of 5 batches or more, all of them between 0.3 and 3 times the
    mean over the batches divided by their number, as a total of the last batch or one divided twice is. A sum that was
    divided by the samples is exactly the mean over the size of a batch, and left out.
    """
    phases = [phase for phase in signals.evaluations if len(phase.get("loss", {})) == 1]
    batches = [phase.get("batches", 0) for phase in phases]
    if len(phases) < max(_FEWEST, len(signals.evaluations)) or min(batches) < _BATCHES or signals.trainings:
        return None
    measured = [next(iter(phase.get("loss", {}).values())) for phase in phases]
    samples = [phase.get("samples", 0) for phase in phases]
    for series in run.series:
        kind, logged = metric_kind(series.name), finite_points(series)[1]
        held_out = kind.quantity == "loss" and kind.split in ("val", "test") and not kind.running_best
        if series.source == "probe" or not held_out or len(logged) != len(measured) or min(measured) <= 0:
            continue
        shares = [value * n / right for value, right, n in zip(logged, measured, batches, strict=True)]
        by_sample = [
            value * n / right / m for value, right, n, m in zip(logged, measured, samples, batches, strict=True)
        ]
        if all(abs(share - 1) < _EXACT for share in by_sample) or not all(_NEAR[0] < s < _NEAR[1] for s in shares):
            continue
        facts = {"name": series.name, "logged": logged[-1], "right": measured[-1], "batches": batches[-1]}
        times = median([right / value for value, right in zip(logged, measured, strict=True)])
        advice = message("health.metric_of_wrong_values.loss_advice")
        return Outcome("warn", message("health.metric_of_wrong_values.loss", times=times, **facts), advice=advice)
    return None


@check("classes_renumbered", family="data", tier=2, needs=("evaluations",))
def classes_keep_their_numbers(run: Run, signals: Signals) -> Outcome | None:
    """Whether nearly all validation predictions are right if their classes are numbered otherwise.

    Source: chosen by us (tier 2): in the last two phases of at least 100 samples the predicted classes stand for other
    ones, each for its own, with an accuracy of at least 80 % that is 30 points above the real one, while the training
    loss is below half of chance level.
    """
    loss = training_loss(run, signals)
    last = signals.evaluations[-2:]
    if isinstance(loss, Message) or loss.classes < 2 or len(last) < 2:
        return None
    if median(loss.values[-20:]) > 0.5 * math.log(loss.classes):
        return None
    for phase in last:
        found, right = phase.get("renumbered") or 0.0, phase.get("accuracy") or 0.0
        if phase.get("samples", 0) < _SAMPLES or found < max(_RIGHT, right + _GAIN):
            return None
    facts = {"accuracy": last[-1].get("accuracy"), "renumbered": last[-1].get("renumbered")}
    return Outcome("fail", message("health.classes_renumbered.found", **facts))
