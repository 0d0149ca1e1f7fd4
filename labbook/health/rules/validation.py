"""Checks of training against validation: overfitting, chance level, labels that fit nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.health.evidence.layer_history import Module, modules_of
from labbook.health.evidence.measurements import process_series, too_few_data, unobserved
from labbook.health.evidence.training_batches import training_loaders
from labbook.health.evidence.training_kind import CLASSIFIERS, TrainingLoss, training_loss, training_losses
from labbook.health.evidence.trend_tests import binomial_at_least, mann_kendall, median, theil_sen
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.metric_kinds import SPLITS, metric_kind, name_words
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.model.signals import Signals

_CHANCE = 0.05
_MANY = 10_000
_FEW = 20
_REGRESSIONS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


_MEASURES = {"mse_loss": "mse", "l1_loss": "mae", "nll_loss": "nll"}
"""What programs call the value of a loss function on held-out data: `val_mse`."""


def is_held_out(name: str) -> bool:
    """Whether a metric's name says that it was measured on other data than it was trained on."""
    parts = "".join(c.lower() if c.isalnum() else " " for c in name).split()
    return any(SPLITS.get(part, "train") != "train" for part in parts)


def validation_losses(run: Run, signals: Signals) -> list[float]:
    """Validation losses in order of time: those that the program logged, else those of the validation phases."""
    own = {_MEASURES.get(loss.get("fn", ""), "loss") for loss in training_losses(signals)[:1]}
    named = [s for s in run.series if "loss" in s.name.lower() or not own.isdisjoint(name_words(s.name))]
    logged = [s for s in named if is_held_out(s.name) and len(s.values) >= 2]
    if logged:
        return [v for v in max(logged, key=_points).values if math.isfinite(v)]
    trained_on = training_loaders(signals)
    other = [phase for phase in signals.evaluations if phase.get("loader") not in trained_on]
    seen = []
    for phase in other or signals.evaluations:
        values = [v for v in phase.get("loss", {}).values() if math.isfinite(v)]
        if len(values) == 1:
            seen.append(values[0])
    return seen


def _points(series: Series) -> int:
    return len(series.values)


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
    memorised = median(training.values[-20:]) < 0.05 * best and best > 0.25 * chance and trend.rising < 1e-4
    if end > 1.3 * best or (memorised and end > 1.05 * best):
        return Outcome("warn" if len(since) >= 0.5 * len(losses) else "note", observed, p=trend.rising)
    return Outcome("ok", observed)


@check("train_val_collapse_in_eval", family="convergence", tier=2, needs=("models",))
def same_in_evaluation_mode(run: Run, signals: Signals) -> Outcome | None:
    """Whether running statistics of batch norms are still near their initial values, and validation is much worse.

    Source: TheDeepChecker's mode switch (tier 2), from the momentum and the number of steps instead of a second pass.
    """
    steps = signals.loop.get("steps", 0)
    initial = [share for m in modules_of(signals) if (share := _initial_share(m, steps)) is not None]
    losses, training = validation_losses(run, signals), training_loss(run, signals)
    if not initial or not steps or isinstance(training, Message) or not losses:
        return None
    end = median(training.values[-20:])
    updated = 1 - max(initial)
    if max(initial) < 0.5 or median(losses[-3:]) < 1.5 * end or _always_in_training(signals):
        return Outcome("ok", message("health.train_val_collapse_in_eval.ok", share=updated))
    observed = message("health.train_val_collapse_in_eval.updated", share=updated, steps=steps)
    evidence = message("health.train_val_collapse_in_eval.losses", training=end, validation=median(losses[-3:]))
    return Outcome("warn", observed, (evidence,))


def _always_in_training(signals: Signals) -> bool:
    """Whether all validation that was seen ran in training mode."""
    return bool(signals.evaluations) and all(e.get("training") for e in signals.evaluations)


def _initial_share(module: Module, steps: int) -> float | None:
    """Share of a batch norm's running statistics that is still their initial value."""
    momentum = module.options.get("momentum")
    if "BatchNorm" not in module.type or not math.isfinite(module.order) or momentum is None or not 0 <= momentum < 1:
        return None
    return float((1 - momentum) ** steps)


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
    if loss.function.get("reduction") == "sum":
        return None
    judged = _compare_with_majority(run, signals)
    if len(losses) >= 3:
        slowly = end > 0.5 * chance and not _memorises_slowly(signals, loss, losses)
        # A first validation may lie a little below it before the model has learnt anything.
        if slowly or min(losses) < (0.95 if _guesses(signals, loss) else 1.0) * chance:
            observed = message("health.label_noise_or_shuffled.best", validation=min(losses), chance=chance)
            return Outcome("ok", observed)
        observed = message("health.label_noise_or_shuffled.losses", training=end, validation=min(losses), chance=chance)
        if judged is not None and judged[2] <= _CHANCE:
            accuracy = judged[0]
            return Outcome(
                "ok", message("health.label_noise_or_shuffled.with_accuracy", losses=observed, accuracy=accuracy)
            )
        return Outcome("fail" if _samples(signals) >= 100 or not signals.evaluations else "warn", observed)
    if judged is None or end > 0.5 * chance or judged[2] <= _CHANCE:
        return None
    best, share, _ = judged
    observed = message("health.label_noise_or_shuffled.accuracy", training=end, accuracy=best, majority=share)
    return Outcome("fail", observed)


def _memorises_slowly(signals: Signals, loss: TrainingLoss, losses: Sequence[float]) -> bool:
    """Whether training falls and validation rises significantly, with accuracies as by guessing."""
    since = losses[losses.index(min(losses)) :]
    return (
        _guesses(signals, loss)
        and len(since) >= 5
        and mann_kendall(since).rising < 0.01
        and mann_kendall(loss.values).falling < 0.01
    )


def _guesses(signals: Signals, loss: TrainingLoss) -> bool:
    """Whether the last three accuracies of at least 100 samples are those of guessing."""
    samples = _samples(signals)
    seen = [a for phase in signals.evaluations if (a := phase.get("accuracy")) is not None][-3:]
    guessed = [binomial_at_least(round(a * samples), samples, 1 / loss.classes) > _CHANCE for a in seen]
    return len(guessed) == 3 and all(guessed) and samples >= 100


@check("below_trivial_baseline", family="convergence", tier=2, needs=("prints",))
def beats_majority_class(run: Run, signals: Signals) -> Outcome | None:
    """Whether the best validation accuracy beats always predicting the majority class, by a binomial test.

    Source: deepchecks SimpleModelComparison, Karpathy 2019. Not judged where one class is over 80 %.
    """
    judged = _compare_with_majority(run, signals)
    if judged is None:
        return None
    best, share, chance = judged
    observed = message("health.below_trivial_baseline.accuracy", accuracy=best, majority=share)
    return Outcome("warn" if chance > _CHANCE else "ok", observed)


@check("accuracy_contradicts_loss", family="loop-bug", tier=2, needs=("losses",))
def accuracy_fits_outputs(run: Run, signals: Signals) -> Outcome | None:
    """Whether the logged accuracy is far below what the model's outputs give, or below chance while the loss is low.

    Source: chosen by us (tier 2). Where the probe saw scores and labels of each validation: near guessing at the end,
    0.15 and 30 % below its own count in all of at least 2; not near guessing, only beside a logged loss that is the
    one the probe saw. Accuracies of attacked inputs are left out. Else, of a classifier whose training loss ends below
    half of chance level: at most half of 1 / K in the last third, which guessing gives with a probability under
    0.0001. Of a regression whose loss has halved: exactly 0 in at least 3 reports.
    """
    names = [s for s in run.series if s.source != "probe" and _is_plain_accuracy(s.name) and len(s.values) >= 2]
    in_eval = signals.loop.get("backward_in_eval", {}).get("count", 0)
    attacked = in_eval or any(e.get("asked") for e in signals.evaluations)
    if not names or signals.trainings or len(signals.models) > 1 or attacked:
        return None
    logged = max(names, key=_points)
    values = _as_shares([v for v in logged.values if math.isfinite(v)])
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
    samples = _samples(signals)
    guessed = 1 - binomial_at_least(round(best * samples) + 1, samples, 1 / loss.classes)
    if end > 0.5 * chance or best > 0.5 / loss.classes or samples < _FEW or guessed > 1e-4:
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
    return Outcome("warn", message("health.accuracy_contradicts_loss.never_equal", **facts))


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
    counts = next((h for e in signals.prints if e.get("phase") == "train" and (h := e.get("histogram", {}))), {})
    total, accuracies = sum(counts.values()), _accuracies(run, signals)
    if total < 100 or len(counts) < 2 or len(accuracies) < 3 or signals.loop.get("steps", 0) < 100:
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


def _accuracies(run: Run, signals: Signals) -> list[float]:
    seen = [a for phase in signals.evaluations if (a := phase.get("accuracy")) is not None]
    if seen:
        return seen
    logged = [s for s in run.series if is_held_out(s.name) and "acc" in s.name.lower()]
    if not logged:
        return []
    values = [v for v in logged[0].values if math.isfinite(v)]
    return _as_shares(values)


def _as_shares(values: Sequence[float]) -> list[float]:
    """Accuracies between 0 and 1; percentages are divided by 100, anything else is none."""
    if not values or min(values) < 0 or max(values) > 100:
        return []
    return [v / 100 for v in values] if max(values) > 1 else list(values)
