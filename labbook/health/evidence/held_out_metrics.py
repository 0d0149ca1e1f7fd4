"""Metrics on held-out data that a program logged or printed, and the losses and accuracies of its validation phases."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from labbook.frozen import dataclass
from labbook.health.evidence.measurements import finite_points
from labbook.health.evidence.training_batches import training_loaders
from labbook.health.evidence.training_kind import CLASSIFIERS, training_losses
from labbook.health.evidence.trend_tests import binomial_at_least, mann_kendall, median
from labbook.model.metric_kinds import QUANTITIES, SPLITS, MetricKind, metric_kind, name_words
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.model.signals import Signals

_MEASURES = {
    "mse_loss": {"mse", "rmse"},
    "l1_loss": {"mae", "l1"},
    "nll_loss": {"nll"},
    "cross_entropy": {"ce", "xent", "nll"},
    "smooth_l1_loss": {"huber"},
    "huber_loss": {"huber"},
    "binary_cross_entropy": {"bce"},
    "binary_cross_entropy_with_logits": {"bce"},
}
"""What programs call the value of a loss function on held-out data, or one that rises with it: `val_mse`."""

_MEANS = frozenset({"mean", "m", "avg", "average", "macro", "micro", "weighted", "overall", "score", "rate"})
_CUT_OFF = ("precision and recall", "average precision")
"""Quantities of which a number behind the word is a cut-off: `hits10`, `ap50`."""

_SHARES = (
    *("overlap", "accuracy", "f1", "area under curve", "precision and recall", "average precision"),
    *("text overlap", "correlation", "agreement of clusters"),
)
_RISING_IF_WORSE = ("error", "perplexity")

_NUMBERED = re.compile(r"(?<![A-Za-z0-9@])\d")
"""A number of a class, task or layer, as in `iou_3`; that of `recall@10` is a cut-off."""

_FEW = 20

_KNOWN = {quantity: {*words.split()} | _MEANS | SPLITS.keys() for quantity, _, words in QUANTITIES}


@dataclass(frozen=True)
class HeldOutMetric:
    """A metric of the whole model with a known direction.

    Args:
        values: Finite values in order; shares are between 0 and 1.
    """

    name: str
    kind: MetricKind
    values: list[float]

    @property
    def ends_better(self) -> bool:
        """Whether the last third of the values is, in the median, better than the first value."""
        end, begin = median(self.values[-max(1, len(self.values) // 3) :]), self.values[0]
        return end > begin if self.kind.direction == "max" else end < begin


def held_out_metrics(run: Run) -> Iterator[HeldOutMetric]:
    """The logged or printed metrics that are not of training, and not of one class, task or variant of the model."""
    for series in run.series:
        kind, values = metric_kind(series.name), finite_points(series)[1]
        of_training = series.source == "probe" or kind.split == "train" or kind.running_best
        if kind.direction and values and not of_training and _is_of_whole_model(series.name, kind):
            shares = as_shares(values) if kind.direction == "max" else []
            yield HeldOutMetric(series.name, kind, shares or values)


def _is_of_whole_model(name: str, kind: MetricKind) -> bool:
    known = _KNOWN.get(kind.quantity, _MEANS)
    bare = [word.rstrip("0123456789") if kind.quantity in _CUT_OFF else word for word in name_words(name)]
    return not _NUMBERED.search(name) and all(word in known for word in bare)


def has_collapsed(metric: HeldOutMetric) -> bool:
    """Whether the last third of the values is far below the best one, and the values fall.

    That is by 0.1 and to under half of it (Mann-Kendall p < 0.05) or 0.7 of it (p < 0.025), as an accuracy of two
    classes falls to chance; of an error or a perplexity, to over twice the least one and over half of the first.
    """
    values, quantity, trend = metric.values, metric.kind.quantity, mann_kendall(metric.values)
    last = values[-max(2, len(values) // 3) :]
    if quantity in _RISING_IF_WORSE:
        return min(last) > max(2 * min(values), 0.5 * values[0]) and trend.rising < 0.05
    is_plain = quantity == "precision and recall" and not any(character.isdigit() for character in metric.name)
    best, end = max(values), max(last)
    if quantity not in _SHARES or is_plain or end > best - 0.1:
        return False
    return (end <= 0.5 * best and trend.falling < 0.05) or (end <= 0.7 * best and trend.falling < 0.025)


def is_measured_during_training(metric: HeldOutMetric, run: Run, signals: Signals) -> bool:
    """Whether training went on between the values, as the validation phases show.

    Where none was seen, as of a model that is evaluated by its weights, a falling loss that is logged as often counts.
    """
    if signals.evaluations:
        steps = {phase.get("end_step", 0) for phase in signals.evaluations}
        left_out = max(phase.get("phases", 0) for phase in signals.evaluations) - len(signals.evaluations)
        return len(steps) + max(0, left_out) >= len(metric.values) - 1
    losses = [s for s in (*run.series, *run.printed) if s.source != "probe" and metric_kind(s.name).quantity == "loss"]
    return any(
        metric_kind(s.name).is_training and abs(len(s.values) - len(metric.values)) <= 1 and s.values[-1] < s.values[0]
        for s in losses
    )


def is_held_out(name: str) -> bool:
    """Whether a metric's name says that it was measured on other data than it was trained on."""
    parts = "".join(c.lower() if c.isalnum() else " " for c in name).split()
    return any(SPLITS.get(part, "train") != "train" for part in parts)


def validation_losses(run: Run, signals: Signals) -> list[float]:
    """Validation losses in order of time: those that the program logged, else those of the validation phases."""
    own = {word for loss in training_losses(signals)[:1] for word in _MEASURES.get(loss.get("fn", ""), {"loss"})}
    named = [s for s in run.series if "loss" in s.name.lower() or not own.isdisjoint(name_words(s.name))]
    logged = [s for s in named if is_held_out(s.name) and len(s.values) >= 2]
    if logged:
        return [v for v in max(logged, key=point_count).values if math.isfinite(v)]
    trained_on = training_loaders(signals)
    other = [phase for phase in signals.evaluations if phase.get("loader") not in trained_on]
    seen = []
    for phase in other or signals.evaluations:
        values = [v for v in phase.get("loss", {}).values() if math.isfinite(v)]
        if len(values) == 1:
            seen.append(values[0])
    return seen


def validation_accuracies(run: Run, signals: Signals) -> list[float]:
    """Accuracies of the validation phases, else those that the program logged, between 0 and 1.

    One without a data split in its name counts if it has a value for each phase.
    """
    seen = [a for phase in signals.evaluations if (a := phase.get("accuracy")) is not None]
    if seen:
        return seen
    kinds = [(s, metric_kind(s.name)) for s in run.series if s.source != "probe"]
    named = [(s, kind) for s, kind in kinds if kind.quantity == "accuracy" and _is_of_whole_model(s.name, kind)]
    whole = [s for s, kind in named if not kind.split and len(s.values) == len(signals.evaluations)]
    logged = [s for s, _ in named if is_held_out(s.name)] or whole
    return as_shares([v for v in logged[0].values if math.isfinite(v)]) if logged else []


def point_count(series: Series) -> int:
    """Number of points that a series keeps."""
    return len(series.values)


def as_shares(values: Sequence[float]) -> list[float]:
    """Accuracies between 0 and 1; percentages are divided by 100, anything else is none."""
    if not values or min(values) < 0 or max(values) > 100:
        return []
    return [v / 100 for v in values] if max(values) > 1 else list(values)


def is_single_classifier(signals: Signals) -> bool:
    """Returns whether the training has one loss function, of classes, with one label a sample or pixel."""
    losses = training_losses(signals)
    if len(losses) != 1 or losses[0].get("fn") not in CLASSIFIERS or losses[0].get("weight") or losses[0].get("soft"):
        return False
    scores, target = losses[0].get("input", {}).get("shape", ()), losses[0].get("target", {}).get("shape", ())
    pixels = len(scores) == 4 and len(target) == 3
    samples = {b.get("samples", 0) for b in signals.batches if b.get("phase") == "train"}
    return losses[0].get("classes", 0) > 2 and (pixels or (len(target) == 1 and target[0] in samples))


def is_below_guessing(signals: Signals, accuracy: float, classes: int) -> bool:
    """Returns whether an accuracy is so low that guessing among the classes has it with a probability under 0.0001."""
    samples = validation_samples(signals)
    return samples >= _FEW and binomial_at_least(round(accuracy * samples) + 1, samples, 1 / classes) >= 1 - 1e-4


def validation_samples(signals: Signals) -> int:
    """Returns the number of samples of the largest validation phase."""
    return max((phase.get("samples", 0) for phase in signals.evaluations), default=0)


def validation_labels(signals: Signals) -> int:
    """Returns the number of labels of the largest validation phase: of a sequence as many as it has in the training."""
    batches = [b.get("samples", 0) for b in signals.batches if b.get("phase") == "train"]
    targets = [loss.get("items", 0) for loss in training_losses(signals)]
    each, rest = divmod(targets[0], batches[0]) if targets and batches and batches[0] else (1, 0)
    return validation_samples(signals) * (each if each > 1 and not rest else 1)
