"""Checks of training against validation: overfitting, chance level, labels that fit nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from labbook.health.evidence.held_out_metrics import (
    HeldOutMetric,
    has_collapsed,
    held_out_metrics,
    is_below_guessing,
    is_held_out,
    is_measured_during_training,
    is_single_classifier,
    validation_accuracies,
    validation_labels,
    validation_losses,
    validation_samples,
)
from labbook.health.evidence.layer_history import roots_of
from labbook.health.evidence.measurements import join_names, missing_reason, too_few_data, unobserved
from labbook.health.evidence.training_kind import (
    TrainingLoss,
    beats_label_shares,
    has_fallen,
    training_loss,
    training_losses,
)
from labbook.health.evidence.trend_tests import binomial_at_least, blocks, mann_kendall, median, theil_sen
from labbook.health.rules.data.labels import find_classifier, label_counts
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.metric_kinds import name_words
from labbook.model.run import Run
from labbook.model.signals import Signals

_CHANCE = 0.05
_FEWEST = 5
"""Values from which on the course of a metric is judged, because shorter demos may not have learnt yet."""

_FEWEST_STEPS = 100
_STILL, _RARE = 2e-3, 0.9
_ZERO_WITHOUT_ITEMS = ("overlap", "f1", "precision and recall")
_DISTANCES = frozenset({"mse", "mae", "rmse"})
_LOSSES = _DISTANCES | {"nll"}
_OVERLAPS = frozenset({"dice", "ssim", "jaccard", "tversky"})
_MANY = 10_000


@check("overfitting", family="convergence", tier=2, needs=("loss",))
def no_overfitting(run: Run, signals: Signals) -> Outcome:
    """Whether the validation loss rises significantly, by much, while the training loss falls.

    Source: diagnosis catalogue, `overfitting` (tier 2), by Mann-Kendall from the best epoch on over at least 6 epochs,
    and 30 % above it; the rules on one epoch or on a gap of 0.1 fired on 10 of 12 healthy runs. A classifier that
    has memorised its training data while its validation loss was never below a quarter of the chance level, and has
    risen by a twentieth since, counts as well (chosen by us). Only a note where earlier weights are put back after the
    last step. Where the loss is written by hand, its validation loss may be called a distance or a likelihood, as
    `val_rmse`.
    """
    if run.facts("trainings"):
        return unobserved(message("health.not_observed.several_trainings"))
    losses = validation_losses(run, signals)
    if not losses and not training_losses(signals):
        own = (m for m in held_out_metrics(run) if is_held_out(m.name) and _LOSSES & {*name_words(m.name)})
        losses = next((m.values for m in own), [])
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
        lasts = len(since) >= 0.5 * len(losses) and not _is_restored(signals)
        return Outcome("warn" if lasts else "note", observed, p=trend.rising)
    return Outcome("ok", observed)


def _is_restored(signals: Signals) -> bool:
    """Whether a copy of earlier weights is put into a model after the last step, as early stopping does."""
    steps = signals.loop.get("steps", 0)
    states = (one for one in signals.loaded if one.get("what") == "model" and not one.get("alias"))
    return any(one.get("step", 0) >= steps > 0 for one in states)


@check("label_noise_or_shuffled", family="data", tier=2, needs=("losses",))
def labels_mean_something(run: Run, signals: Signals) -> Outcome | None:
    """Whether a classifier fits its training data while its validation loss was never below chance level.

    Source: diagnosis catalogue, `label_noise_or_shuffled` (tier 2): at least 3 validations, none below ln K, and an
    accuracy, where it is known, no better than the majority class. Certain over at least 100 samples only. A training
    loss that is still above half of chance level counts if it falls while the validation loss rises, and the last
    accuracies are those of guessing (chosen by us).
    """
    loss = training_loss(run, signals)
    if isinstance(loss, Message) or not loss.has_chance_level or len(loss.values) < 50:
        return None
    losses = validation_losses(run, signals)
    chance, end = math.log(loss.classes), median(loss.values[-20:])
    if _is_one_answer_of_one_column(run, signals):
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
            key = "health.label_noise_or_shuffled.with_accuracy"
            return Outcome("ok", message(key, losses=observed, accuracy=judged[0]))
        return Outcome("fail" if validation_samples(signals) >= 100 or not signals.evaluations else "warn", observed)
    below = judged is not None and is_below_guessing(signals, judged[0], loss.classes)  # wrong labels make no worse
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
    samples = validation_samples(signals)
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
        if chance > _CHANCE and _is_one_answer_of_one_column(run, signals):
            observed = message("health.below_trivial_baseline.one_column", accuracy=best, majority=share)
            return Outcome("warn", observed, advice=message("health.below_trivial_baseline.one_column_advice"))
        # A loss that weights the classes gives up right answers of the usual one for those of the others.
        is_weighted = best < 0.98 * share and any(one.get("weight") for one in training_losses(signals))
        if chance > _CHANCE and not is_weighted:
            return Outcome("warn", message("health.below_trivial_baseline.no_better", accuracy=best, majority=share))
        return Outcome("ok", message("health.below_trivial_baseline.accuracy", accuracy=best, majority=share))
    trained = signals.loop.get("steps", 0) >= _FEWEST_STEPS and is_single_classifier(signals)
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
    is_same = (
        quantity == "accuracy" and len(set(values)) == 1 and values[0] <= 0.6 and validation_samples(signals) >= 100
    )
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
        splits = {metric.kind.split} if metric.kind.split else {other.kind.split for other in metrics}
        beside = [other for other in metrics if other.kind.split in splits and other.kind.quantity != "loss"]
        if not has_collapsed(metric) or any(other.ends_better for other in beside) or _may_be_loss(metric):
            continue
        if is_measured_during_training(metric, run, signals):
            best = max(metric.values) if metric.kind.direction == "max" else min(metric.values)
            facts = {"name": metric.name, "best": best, "last": metric.values[-1], "of": len(metric.values)}
            number = metric.values.index(best) + 1
            observed = message("health.metric_collapsed.fell", **facts, number=number, **_loss_facts(loss))
            return Outcome("warn", observed)
    return None


def _may_be_loss(metric: HeldOutMetric) -> bool:
    """Whether an overlap is printed beside the losses, best in its first value: a term `1 - dice` is called so, too."""
    names_loss = not _OVERLAPS.isdisjoint(name_words(metric.name)) and not metric.kind.split
    return names_loss and metric.values[0] == max(metric.values)


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


def _compare_with_majority(run: Run, signals: Signals) -> tuple[float, float, float] | None:
    """Best of the last accuracies, share of the majority class, and the probability that guessing does as well."""
    counts = label_counts(signals)
    total, accuracies = sum(counts.values()), validation_accuracies(run, signals)
    if total < 100 or len(counts) < 2 or len(accuracies) < 3 or signals.loop.get("steps", 0) < _FEWEST_STEPS:
        return None
    share = max(counts.values()) / total
    if share > 0.8:
        return None
    best, samples = max(accuracies[-3:]), validation_labels(signals)
    # Of an unknown number of samples, and of folds, only an accuracy that is no better at all counts.
    samples = samples if samples >= 50 and not run.captured.get("trainings") else _MANY
    return best, share, binomial_at_least(round(best * samples), samples, share)


@check("new_labels_in_val", family="data", tier=1, needs=("prints",))
def validation_classes_known(run: Run, signals: Signals) -> Outcome | None:
    """Whether validation has classes that a whole epoch of training has not. Source: deepchecks NewLabel (tier 1)."""
    training, held_out = label_counts(signals), label_counts(signals, "eval")
    if find_classifier(signals) is None or sum(training.values()) < 100 or len(training) < 2 or len(training) >= 200:
        return None
    seen = _all_labels(signals)
    new = [name for name in held_out if name not in seen]
    if not new or sum(held_out[name] for name in new) < 3:
        return None
    observed = message("health.new_labels_in_val.new", classes=len(new), names=join_names(new))
    return Outcome("warn", observed)


def _all_labels(signals: Signals) -> set[str]:
    """All labels that any epoch, batch or loss of the training had: later phases may have other classes."""
    seen = {name for e in signals.prints if e.get("phase") == "train" for name in e.get("histogram", {})}
    seen |= {
        name for b in signals.batches if b.get("phase") == "train" for name in b.get("labels", {}).get("histogram", {})
    }
    targets = [loss.get("target", {}) for loss in training_losses(signals)]
    ends = [end for target in targets for end in (target.get("min"), target.get("max"))]
    whole = [int(end) for end in ends if end is not None and end == int(end)]
    if whole and not {str(end) for end in whole} <= seen:
        # A loss got labels that no look at the data has: what lies between them may have been there as well.
        seen |= {str(name) for name in range(min(whole), min(max(whole), min(whole) + 10_000) + 1)}
    return seen
