"""Checks of what a program logs of its validation against what its batches gave."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.health.evidence.computed_metrics import WrongDefinition, find_wrong_definition, is_plain_accuracy
from labbook.health.evidence.held_out_metrics import (
    as_shares,
    is_below_guessing,
    is_held_out,
    is_single_classifier,
    point_count,
)
from labbook.health.evidence.measurements import (
    called_in_sentence,
    finite_points,
    missing_reason,
    place_of,
    process_series,
    unobserved,
)
from labbook.health.evidence.training_kind import training_loss, training_losses
from labbook.health.evidence.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.metric_kinds import metric_kind
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.model.signals import Signals

_CARRIED = 2
_FEWEST = 5
_NEAR, _EXACT = (0.3, 3.0), 0.05
_WAYS = {
    "last": ("health.metric_of_wrong_values.how_last", "health.metric_of_wrong_values.whole_advice"),
    "mean": ("health.metric_of_wrong_values.how_mean", "health.metric_of_wrong_values.whole_advice"),
    "divided": ("health.metric_of_wrong_values.how_divided", "health.metric_of_wrong_values.whole_advice"),
    "half": ("health.metric_of_wrong_values.how_half", "health.metric_of_wrong_values.threshold_advice"),
    "zero": ("health.metric_of_wrong_values.how_zero", "health.metric_of_wrong_values.threshold_advice"),
    "carried": ("health.metric_of_wrong_values.how_carried", "health.metric_of_wrong_values.reset_advice"),
    "carried_mean": ("health.metric_of_wrong_values.how_carried_mean", "health.metric_of_wrong_values.reset_advice"),
    "squared": ("health.metric_of_wrong_values.how_squared", "health.metric_of_wrong_values.root_advice"),
    "root": ("health.metric_of_wrong_values.how_root", "health.metric_of_wrong_values.root_advice"),
    "crossed": ("health.metric_of_wrong_values.how_crossed", "health.metric_of_wrong_values.shape_advice"),
    "ignored": ("health.metric_of_wrong_values.how_ignored", "health.metric_of_wrong_values.ignored_advice"),
}
"""Variant -> keys of what it is, and of its advice."""

_REGRESSIONS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


@check("metric_of_wrong_values", family="loop-bug", tier=2)
def metrics_are_of_their_batches(run: Run, signals: Signals) -> Outcome | None:
    """Whether logged metrics are what the outputs and labels of their passes give, each pass by itself.

    Source: paddle.metric.Metric.reset; at least two passes over the data began after a value had been read. Else chosen
    by us: a metric that in at least 3 passes is not the usual one and fits, within rounding, a common mistake in each.
    """
    carried = signals.loop.get("metrics_carried", {})
    if carried.get("count", 0) >= _CARRIED:
        facts = {"type": carried.get("function", ""), "passes": carried.get("count", 0) + 1}
        observed, line = message("health.metric_of_wrong_values.carried", **facts), carried.get("line", "")
        advice = message("health.metric_of_wrong_values.carried_advice")
        return Outcome("warn", observed, called_in_sentence(line), place_of(line), advice=advice)
    reason = missing_reason(run, signals, "evaluations")
    if reason is not None:
        return unobserved(reason)
    wrong = None if signals.trainings else find_wrong_definition(run, signals)
    return _compare_logged_loss(run, signals) if wrong is None else _describe_wrong_definition(wrong)


def _describe_wrong_definition(wrong: WrongDefinition) -> Outcome:
    number = "health.metric_of_wrong_values.share" if wrong.is_share else "health.metric_of_wrong_values.number"
    how, advice = _WAYS[wrong.how]
    facts = {"name": wrong.name, "passes": wrong.passes, "samples": wrong.samples}
    observed = message(
        "health.metric_of_wrong_values.computed",
        how=message(how, divisor=wrong.divisor),
        logged=message(number, value=wrong.logged),
        right=message(number, value=wrong.right),
        **facts,
    )
    return Outcome("warn", observed, advice=message(advice))


def _compare_logged_loss(run: Run, signals: Signals) -> Outcome | None:
    """A warning for a validation loss that is smaller than that of its batches by the number of the batches.

    Source: chosen by us (tier 2): in at least 5 phases of 5 batches or more, all of them between 0.3 and 3 times the
    mean over the batches divided by their number. A sum divided by the samples is the mean over the size of a batch.
    """
    phases = [phase for phase in signals.evaluations if len(phase.get("loss", {})) == 1]
    batches = [phase.get("batches", 0) for phase in phases]
    if len(phases) < max(_FEWEST, len(signals.evaluations)) or min(batches) < _FEWEST or signals.trainings:
        return None
    measured = [next(iter(phase.get("loss", {}).values())) for phase in phases]
    sizes = [phase.get("samples", 0) / phase.get("batches", 1) for phase in phases]
    for series in run.series if min(measured) > 0 else ():
        kind, logged = metric_kind(series.name), finite_points(series)[1]
        is_loss = kind.quantity == "loss" and kind.split in ("val", "test") and not kind.running_best
        if series.source == "probe" or not is_loss or len(logged) != len(measured):
            continue
        parts = [value / right for value, right in zip(logged, measured, strict=True)]
        is_exact = all(abs(part * size - 1) < _EXACT for part, size in zip(parts, sizes, strict=True))
        if is_exact or not all(_NEAR[0] < part * m < _NEAR[1] for part, m in zip(parts, batches, strict=True)):
            continue
        facts = {"logged": logged[-1], "right": measured[-1], "batches": batches[-1], "times": 1 / median(parts)}
        observed = message("health.metric_of_wrong_values.loss", name=series.name, **facts)
        return Outcome("warn", observed, advice=message("health.metric_of_wrong_values.loss_advice"))
    return None


@check("accuracy_contradicts_loss", family="loop-bug", tier=2, needs=("losses",))
def accuracy_fits_outputs(run: Run, signals: Signals) -> Outcome | None:
    """Whether the logged accuracy is far below what the model's outputs give, or below chance while the loss is low.

    Source: chosen by us (tier 2). Where the probe saw scores and labels of each validation: near guessing at the end,
    0.15 and 30 % below its own count in all of at least 2; not near guessing, only beside a logged loss that is the
    one the probe saw. Accuracies of attacked inputs are left out. Else, of a classifier whose training loss ends below
    half of chance level: at most 0.7 of 1 / K in the last third, which guessing gives with a probability under
    0.0001. Of a regression whose loss has halved: exactly 0 in at least 3 reports. Of a single loss: exactly 1 in each
    report, where the probe counts less than 0.9 in each validation.
    """
    names = [s for s in run.series if s.source != "probe" and is_plain_accuracy(s.name) and len(s.values) >= 2]
    in_eval = signals.loop.get("backward_in_eval", {}).get("count", 0)
    attacked = in_eval or any(e.get("asked") for e in signals.evaluations)
    if not names or signals.trainings or len(signals.models) > 1 or attacked:
        return None
    logged = max(names, key=point_count)
    values = as_shares([v for v in logged.values if math.isfinite(v)])
    seen = [a for phase in signals.evaluations if (a := phase.get("accuracy")) is not None]
    compared = is_held_out(logged.name) and bool(seen)
    if compared and {*values} == {1.0} and max(seen) < 0.9 and len(training_losses(signals)) == 1:
        facts = {"name": logged.name, "times": len(values), "right": max(seen)}
        return Outcome("warn", message("health.accuracy_contradicts_loss.always_one", **facts))
    if compared and len(seen) == len(values):
        wrong = [pair for pair in zip(values, seen, strict=True) if pair[0] < min(pair[1] - 0.15, 0.7 * pair[1])]
        observed = message(
            "health.accuracy_contradicts_loss.measured", name=logged.name, logged=values[-1], right=seen[-1]
        )
        # The loss may have been that of the training data: then only an accuracy as by guessing counts.
        guessing = max((1 / one.get("classes", 0) for one in training_losses(signals) if one.get("classes")), default=0)
        near = max(values[-max(1, len(values) // 3) :]) <= guessing + 0.05
        certain = near or (is_single_classifier(signals) and _logs_loss_beside(run, signals, logged))
        return Outcome("warn" if certain and len(wrong) == len(values) else "ok", observed)
    regression = _compare_regression(run, signals, logged.name, values)
    if regression is not None:
        return regression
    loss = training_loss(run, signals)
    if isinstance(loss, Message) or not is_single_classifier(signals) or len(values) < 2 or len(loss.values) < 20:
        return None
    end, chance, best = median(loss.values[-20:]), math.log(loss.classes), max(values[-max(1, len(values) // 3) :])
    if end > 0.5 * chance or best > 0.7 / loss.classes or not is_below_guessing(signals, best, loss.classes):
        return None
    observed = message(
        "health.accuracy_contradicts_loss.below_chance", name=logged.name, logged=best, classes=loss.classes, loss=end
    )
    return Outcome("warn", observed)


def _logs_loss_beside(run: Run, signals: Signals, accuracy: Series) -> bool:
    """Whether a loss of the same split, logged as often as an accuracy, is that of each validation phase within 1 %."""
    seen = [next(iter(phase.get("loss", {}).values()), math.nan) for phase in signals.evaluations]
    split = metric_kind(accuracy.name).split
    return any(
        (kind := metric_kind(s.name)).quantity == "loss"
        and kind.split == split
        and s.source != "probe"
        and len(s.values) == len(seen)
        and all(math.isclose(a, b, rel_tol=0.01, abs_tol=1e-3) for a, b in zip(s.values, seen, strict=True))
        for s in run.series
    )


def _compare_regression(run: Run, signals: Signals, name: str, values: Sequence[float]) -> Outcome | None:
    """An accuracy of real numbers, which are never equal to their targets."""
    losses, seen = training_losses(signals), process_series(run, signals, "loss")
    if len(losses) != 1 or losses[0].get("fn") not in _REGRESSIONS or len(seen) != 1 or len(values) < 3 or any(values):
        return None
    first, last = (median(part) for part in (seen[0].values[:5], seen[0].values[-5:]))
    if len(seen[0].values) < 20 or not last < 0.5 * first:
        return None
    facts = {"name": name, "times": len(values), "function": losses[0].get("fn", ""), "first": first, "last": last}
    observed = message("health.accuracy_contradicts_loss.never_equal", **facts)
    return Outcome("warn", observed, advice=message("health.accuracy_contradicts_loss.never_equal_advice"))
