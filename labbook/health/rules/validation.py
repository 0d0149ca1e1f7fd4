"""Checks of training against validation: overfitting, chance level, labels that fit nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from labbook.health.evidence.held_out_metrics import (
    HeldOutMetric,
    as_shares,
    has_collapsed,
    held_out_metrics,
    is_held_out,
    is_measured_during_training,
    point_count,
    validation_accuracies,
    validation_losses,
)
from labbook.health.evidence.layer_history import roots_of
from labbook.health.evidence.measurements import finite_points, missing_reason, process_series, too_few_data, unobserved
from labbook.health.evidence.training_kind import (
    CLASSIFIERS,
    TrainingLoss,
    beats_label_shares,
    has_fallen,
    training_loss,
    training_losses,
)
from labbook.health.evidence.trend_tests import binomial_at_least, blocks, mann_kendall, median, theil_sen
from labbook.health.rules.labels import label_counts
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.metric_kinds import SPLITS, metric_kind, name_words
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.model.signals import Signals

_CHANCE = 0.05
_FEWEST = 5
"""Values from which on the course of a metric is judged, because shorter demos may not have learnt yet."""

_FEWEST_STEPS = 100
_STILL, _RARE = 2e-3, 0.9
_NEAR, _EXACT = (0.3, 3.0), 0.05
_ZERO_WITHOUT_ITEMS = ("overlap", "f1", "precision and recall")
_DISTANCES = frozenset({"mse", "mae", "rmse"})
_MANY = 10_000
_FEW = 20
_REGRESSIONS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


@check("overfitting", family="convergence", tier=2, needs=("loss",))
def no_overfitting(run: Run, signals: Signals) -> Outcome:
    """Whether the validation loss rises significantly, by much, while the training loss falls.

    Source: diagnosis catalogue, `overfitting` (tier 2), by Mann-Kendall from the best epoch on over at least 6 epochs,
    and 30 % above it; the rules on one epoch or on a gap of 0.1 fired on 10 of 12 healthy runs. A classifier that
    has memorised its training data while its validation loss was never below a quarter of the chance level, and has
    risen by a twentieth since, counts as well (chosen by us).
    """
    losses = validation_losses(run, signals)
    if len(losses) < 6:
        if not losses:
            return unobserved(message("health.not_observed.no_validation_loss"))
        return too_few_data(len(losses), 6, "health.too_few.validation_losses")
    training = training_loss(run, signals)
    if isinstance(training, Message):
        return unobserved(training)
    best = min(losses)
    since = losses[losses.index(best) :]
    end = median(since[-3:])
    number = losses.index(best) + 1
    observed = message("health.overfitting.losses", best=best, number=number, of=len(losses), last=losses[-1])
    falling = theil_sen(training.steps, training.values) < 0
    trend = mann_kendall(since)
    if len(since) < 5 or not falling or trend.rising > 0.01 or best <= 0:
        return Outcome("ok", observed)
    chance = math.log(training.classes) if training.classes > 1 else math.inf
    memorised = median(training.values[-20:]) < 0.05 * best and best > 0.25 * chance and trend.rising < 1e-3
    if end > 1.3 * best or (memorised and end > 1.05 * best):
        return Outcome("warn" if len(since) >= 0.5 * len(losses) else "note", observed, p=trend.rising)
    return Outcome("ok", observed)


@check("label_noise_or_shuffled", family="data", tier=2, needs=("losses",))
def labels_mean_something(run: Run, signals: Signals) -> Outcome | None:
    """Whether a classifier fits its training data while its validation loss was never below chance level.

    Source: diagnosis catalogue, `label_noise_or_shuffled` (tier 2): at least 3 validations, none below ln K, and an
    accuracy, where it is known, no better than the majority class. Certain over at least 100 samples only. A training
    loss that is still above half of chance level counts if it falls while the validation loss rises, and the last
    accuracies are those of guessing (chosen by us).
    """
    loss = training_loss(run, signals)
    if isinstance(loss, Message) or loss.classes < 2 or len(loss.values) < 50:
        return None
    losses = validation_losses(run, signals)
    chance, end = math.log(loss.classes), median(loss.values[-20:])
    if loss.function.get("reduction") == "sum" or _is_one_answer_of_one_column(run, signals):
        return None
    judged = _compare_with_majority(run, signals)
    if len(losses) >= 3:
        slowly = end > 0.5 * chance and not _memorises_slowly(run, signals, loss, losses)
        # A first validation may lie a little below it before the model has learnt anything.
        if slowly or min(losses) < (0.95 if _guesses(run, signals, loss) else 1.0) * chance:
            observed = message("health.label_noise_or_shuffled.best", validation=min(losses), chance=chance)
            return Outcome("ok", observed)
        observed = message("health.label_noise_or_shuffled.losses", training=end, validation=min(losses), chance=chance)
        if judged is not None and judged[2] <= _CHANCE:
            accuracy = judged[0]
            return Outcome(
                "ok", message("health.label_noise_or_shuffled.with_accuracy", losses=observed, accuracy=accuracy)
            )
        return Outcome("fail" if _samples(signals) >= 100 or not signals.evaluations else "warn", observed)
    below = judged is not None and _is_below_guessing(signals, judged[0], loss.classes)  # wrong labels make no worse
    if judged is None or end > 0.5 * chance or judged[2] <= _CHANCE or below:
        return None
    best, share, _ = judged
    observed = message("health.label_noise_or_shuffled.accuracy", training=end, accuracy=best, majority=share)
    return Outcome("fail", observed)


def _memorises_slowly(run: Run, signals: Signals, loss: TrainingLoss, losses: Sequence[float]) -> bool:
    """Whether training falls and validation rises significantly, with accuracies as by guessing."""
    since = losses[losses.index(min(losses)) :]
    return (
        _guesses(run, signals, loss)
        and len(since) >= 5
        and mann_kendall(since).rising < 0.01
        and mann_kendall(loss.values).falling < 0.01
    )


def _guesses(run: Run, signals: Signals, loss: TrainingLoss) -> bool:
    """Whether the last three accuracies of at least 100 samples are those of guessing."""
    samples = _samples(signals)
    seen = validation_accuracies(run, signals)[-3:]
    guessed = [binomial_at_least(round(a * samples), samples, 1 / loss.classes) > _CHANCE for a in seen]
    return len(guessed) == 3 and all(guessed) and samples >= 100


@check("below_trivial_baseline", family="convergence", tier=2)
def beats_trivial_answer(run: Run, signals: Signals) -> Outcome | None:
    """Whether held-out metrics are better than those of an answer that ignores the inputs.

    Source: deepchecks SimpleModelComparison, Karpathy 2019: the last validation accuracies against the share of the
    majority class, or of guessing where the labels are not known, by binomial tests; not judged where one class is over
    80 %. Chosen by us: at least 5 values that `_trivial_values` describes, while the training loss halves.
    """
    accuracy = _judge_accuracy(run, signals)
    found = None if accuracy is not None and accuracy.verdict == "warn" else _judge_trivial_values(run, signals)
    reason = missing_reason(run, signals, "prints")
    return found or accuracy or (unobserved(reason) if reason is not None else None)


def _judge_accuracy(run: Run, signals: Signals) -> Outcome | None:
    judged, loss = _compare_with_majority(run, signals), training_loss(run, signals)
    if judged is not None:
        best, share, chance = judged
        observed = message("health.below_trivial_baseline.accuracy", accuracy=best, majority=share)
        if chance > _CHANCE and _is_one_answer_of_one_column(run, signals):
            observed = message("health.below_trivial_baseline.one_column", accuracy=best, majority=share)
            return Outcome("warn", observed, advice=message("health.below_trivial_baseline.one_column_advice"))
        return Outcome("warn" if chance > _CHANCE else "ok", observed)
    trained = signals.loop.get("steps", 0) >= _FEWEST_STEPS and _is_single_classifier(signals)
    if isinstance(loss, Message) or not trained or not _guesses(run, signals, loss):
        return None
    accuracies = validation_accuracies(run, signals)
    if len(accuracies) < _FEWEST and median(loss.values[-20:]) > 0.9 * math.log(loss.classes):
        return None
    observed = message("health.below_trivial_baseline.guessing", accuracy=max(accuracies[-3:]), classes=loss.classes)
    return Outcome("warn", observed)


def _is_one_answer_of_one_column(run: Run, signals: Signals) -> bool:
    """Whether a model with one output column has exactly the same accuracy each time, although its loss has halved."""
    accuracies = validation_accuracies(run, signals)
    outputs = [leaf.get("shape", ()) for root in roots_of(signals) for leaf in root.facts.get("output", [])]
    has_one = bool(outputs) and all(len(form) == 2 and form[1] == 1 for form in outputs)
    return has_one and len(accuracies) >= _FEWEST and len(set(accuracies)) == 1 and has_fallen(run, signals, 0.5)


def _judge_trivial_values(run: Run, signals: Signals) -> Outcome | None:
    loss = _steadily_falling_loss(run, signals, 0.5)
    for metric in held_out_metrics(run):
        if loss is None or len(metric.values) < _FEWEST:
            continue
        key = _trivial_values(metric, loss, signals)
        if key and is_measured_during_training(metric, run, signals):
            zeros = next((n for n, value in enumerate(metric.values[::-1]) if value), len(metric.values))
            facts = {"name": metric.name, "times": zeros or len(metric.values) - 1, "last": metric.values[-1]}
            return Outcome("warn", message(key, **facts, **_loss_facts(loss)))
    return None


def _trivial_values(metric: HeldOutMetric, loss: TrainingLoss, signals: Signals) -> str:
    """Returns the key of the sentence on values of a metric that are trivial, or "".

    zero: a score of found items is 0 in all values after the first, although the loss is too low for that, or at least
    from a third of ten and more on where nine of ten labels are 0: all predictions are then.
    negative: R2 is negative, and does not rise. still: a distance hardly moves, or an accuracy of at most 0.6 over
    100 samples is the same in all values, although the training loss falls by another third after the first of them.
    """
    values, quantity = metric.values, metric.kind.quantity
    is_rare = (loss.function.get("target", {}).get("zero") or 0.0) >= _RARE and len(values) >= 2 * _FEWEST
    if quantity in _ZERO_WITHOUT_ITEMS and not any(values[len(values) // 3 if is_rare else 1 :]):
        return "health.below_trivial_baseline.zero" if beats_label_shares(loss) or is_rare else ""
    if "r2" in name_words(metric.name):
        is_worse = max(values[1:]) < 0 and mann_kendall(values).rising > 0.2
        return "health.below_trivial_baseline.negative" if is_worse else ""
    parts = blocks(loss.values, len(values))
    if parts[-1] > 0.67 * parts[1]:
        return ""
    is_same = quantity == "accuracy" and len(set(values)) == 1 and values[0] <= 0.6 and _samples(signals) >= 100
    # Equal values may be rounded ones, and a share of errors may have converged.
    is_distance = not _DISTANCES.isdisjoint(name_words(metric.name))
    hardly_moves = is_distance and 0 < max(values) - min(values) < _STILL * min(values)
    return "health.below_trivial_baseline.still" if is_same or hardly_moves else ""


@check("metric_collapsed", family="convergence", tier=2, needs=("loss",))
def metrics_stay_up(run: Run, signals: Signals) -> Outcome | None:
    """Whether a held-out metric becomes far worse than it was, and stays there, while the training loss falls.

    Source: chosen by us (tier 2): at least 5 values that fall as `has_collapsed` says, and no other metric of the same
    data becomes better. Plain precision and recall, of which any threshold exchanges one for the other, are left out.
    """
    loss = _steadily_falling_loss(run, signals, 0.9)
    if loss is None:
        return None
    metrics = [metric for metric in held_out_metrics(run) if len(metric.values) >= _FEWEST]
    for metric in metrics:
        beside = [other for other in metrics if other.kind.split == metric.kind.split and other.kind.quantity != "loss"]
        if not has_collapsed(metric) or any(other.ends_better for other in beside):
            continue
        if is_measured_during_training(metric, run, signals):
            best = max(metric.values) if metric.kind.direction == "max" else min(metric.values)
            facts = {"name": metric.name, "best": best, "last": metric.values[-1], "of": len(metric.values)}
            number = metric.values.index(best) + 1
            observed = message("health.metric_collapsed.fell", **facts, number=number, **_loss_facts(loss))
            return Outcome("warn", observed)
    return None


def _steadily_falling_loss(run: Run, signals: Signals, share: float) -> TrainingLoss | None:
    """The training loss if it ends below a share of its beginning and never leaps, as by a new task or pruning."""
    loss = training_loss(run, signals)
    if isinstance(loss, Message) or signals.trainings or not has_fallen(run, signals, share):
        return None
    parts = blocks(loss.values, 10)
    lowest = accumulate(parts, min)
    return loss if all(b <= 1.5 * low + 0.1 * parts[0] for low, b in zip(lowest, parts[1:], strict=False)) else None


def _loss_facts(loss: TrainingLoss) -> dict[str, float]:
    return {"loss_first": median(loss.values[:3]), "loss_last": median(loss.values[-20:])}


@check("metric_of_wrong_values", family="loop-bug", tier=2, needs=("evaluations",))
def logged_loss_is_measured(run: Run, signals: Signals) -> Outcome | None:
    """Whether a logged validation loss is smaller than that of its batches by the number of the batches.

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
    0.0001. Of a regression whose loss has halved: exactly 0 in at least 3 reports.
    """
    names = [s for s in run.series if s.source != "probe" and _is_plain_accuracy(s.name) and len(s.values) >= 2]
    in_eval = signals.loop.get("backward_in_eval", {}).get("count", 0)
    attacked = in_eval or any(e.get("asked") for e in signals.evaluations)
    if not names or signals.trainings or len(signals.models) > 1 or attacked:
        return None
    logged = max(names, key=point_count)
    values = as_shares([v for v in logged.values if math.isfinite(v)])
    seen = [a for phase in signals.evaluations if (a := phase.get("accuracy")) is not None]
    if is_held_out(logged.name) and seen and len(seen) == len(values):
        wrong = [pair for pair in zip(values, seen, strict=True) if pair[0] < min(pair[1] - 0.15, 0.7 * pair[1])]
        observed = message(
            "health.accuracy_contradicts_loss.measured", name=logged.name, logged=values[-1], right=seen[-1]
        )
        # The loss may have been that of the training data: then only an accuracy as by guessing counts.
        guessing = max((1 / one.get("classes", 0) for one in training_losses(signals) if one.get("classes")), default=0)
        near = max(values[-max(1, len(values) // 3) :]) <= guessing + 0.05
        certain = near or (_is_single_classifier(signals) and _logs_loss_beside(run, signals, logged))
        return Outcome("warn" if certain and len(wrong) == len(values) else "ok", observed)
    regression = _compare_regression(run, signals, logged.name, values)
    if regression is not None:
        return regression
    loss = training_loss(run, signals)
    if isinstance(loss, Message) or not _is_single_classifier(signals) or len(values) < 2 or len(loss.values) < 20:
        return None
    end, chance, best = median(loss.values[-20:]), math.log(loss.classes), max(values[-max(1, len(values) // 3) :])
    if end > 0.5 * chance or best > 0.7 / loss.classes or not _is_below_guessing(signals, best, loss.classes):
        return None
    observed = message(
        "health.accuracy_contradicts_loss.below_chance", name=logged.name, logged=best, classes=loss.classes, loss=end
    )
    return Outcome("warn", observed)


def _is_below_guessing(signals: Signals, accuracy: float, classes: int) -> bool:
    """Whether an accuracy is so low that guessing among the classes has it with a probability under 0.0001."""
    samples = _samples(signals)
    return samples >= _FEW and binomial_at_least(round(accuracy * samples) + 1, samples, 1 / classes) >= 1 - 1e-4


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


def _is_plain_accuracy(name: str) -> bool:
    """Whether a metric is the share of right answers: not of top 5 or of whole sequences, and no mean over classes."""
    kind, words = metric_kind(name), set(name_words(name))
    known = {"acc", "accuracy", "pixel", "准确率", "正确率", *SPLITS}
    return kind.quantity == "accuracy" and kind.split != "train" and words <= known


def _is_single_classifier(signals: Signals) -> bool:
    """Whether the training has one loss function, of classes, with one label a sample or pixel."""
    losses = training_losses(signals)
    if len(losses) != 1 or losses[0].get("fn") not in CLASSIFIERS or losses[0].get("weight") or losses[0].get("soft"):
        return False
    scores, target = losses[0].get("input", {}).get("shape", ()), losses[0].get("target", {}).get("shape", ())
    pixels = len(scores) == 4 and len(target) == 3
    samples = {b.get("samples", 0) for b in signals.batches if b.get("phase") == "train"}
    return losses[0].get("classes", 0) > 2 and (pixels or (len(target) == 1 and target[0] in samples))


def _compare_with_majority(run: Run, signals: Signals) -> tuple[float, float, float] | None:
    """Best of the last accuracies, share of the majority class, and the probability that guessing does as well."""
    counts = label_counts(signals)
    total, accuracies = sum(counts.values()), validation_accuracies(run, signals)
    if total < 100 or len(counts) < 2 or len(accuracies) < 3 or signals.loop.get("steps", 0) < _FEWEST_STEPS:
        return None
    share = max(counts.values()) / total
    if share > 0.8:
        return None
    best = max(accuracies[-3:])
    samples = _samples(signals)
    # Of an unknown number of samples only an accuracy that is no better at all counts.
    samples = samples if samples >= 50 else _MANY
    return best, share, binomial_at_least(round(best * samples), samples, share)


def _samples(signals: Signals) -> int:
    return max((phase.get("samples", 0) for phase in signals.evaluations), default=0)
