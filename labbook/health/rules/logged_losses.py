"""Check of the held-out loss that a program logs against the losses that its validation phases had."""

from __future__ import annotations

from labbook.health.evidence.measurements import finite_points
from labbook.health.evidence.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.metric_kinds import metric_kind
from labbook.model.run import Run
from labbook.model.signals import Signals

_FEWEST = 3
_BATCHES = 5
_NEAR = (0.3, 3.0)
_EXACT = 0.05


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
