"""Checks of the course of the loss. Trends are tested robustly, after warm-up, and only where the loss has to fall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from labbook.health.evidence.layer_history import parameters_of
from labbook.health.evidence.measurements import finite_points, process_series, too_few_data, unobserved
from labbook.health.evidence.regression_outputs import unexplained_share
from labbook.health.evidence.training_batches import spreading_inputs
from labbook.health.evidence.training_kind import (
    TrainingLoss,
    is_contrastive,
    is_pretrained,
    is_the_whole_loss,
    may_rise,
    training_loss,
)
from labbook.health.evidence.trend_tests import (
    blocks,
    mann_kendall,
    mean,
    median,
    moving_median,
    robust_deviation,
    serial_correlation,
    variance,
    welch,
)
from labbook.health.rules.data.labels import label_counts
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_FEWEST = 100
_BLOCKS = 20
_CHANCE = 0.03
_LEFT = 0.98
_A_BATCH = 0.2
_LISTED = 199
"""Classes up to which all are counted: a histogram has the 200 most frequent ones."""

_A_CLASS = 30
"""Labels a class from which on the entropy is known to 2 percent. Source: its bias is (K - 1) / 2n."""

_BOTTOMLESS = 1000.0
"""Source: chosen by us; likelihoods of continuous values are negative, but not by that much."""

_ACCELERATING = 20.0

_EXPECTED_FALL = 0.15
"""The least fall that is expected of a training, as a share of the loss. Source: chosen by us."""


@check("loss_not_decreasing", family="convergence", tier=2, needs=("loss",))
def loss_falls(run: Run, signals: Signals) -> Outcome:
    """Whether the loss fell at all: first against last 50 values, a trend, or a fall anywhere between.

    Source: one-sided Welch z < 2 and Mann-Kendall p > 0.05 (0 of 14 healthy runs, 9 faulty ones), both here, over at
    least 100 steps after warm-up; a fall anywhere (curriculum, several phases) or from the first values also counts,
    and a loss so noisy that a fall of a seventh would not be seen is not judged.
    """
    loss = training_loss(run, signals)
    if isinstance(loss, Message):
        return unobserved(loss)
    values = loss.values[_warm_up(run, signals, loss) :]
    if len(values) < _FEWEST:
        return too_few_data(len(values), _FEWEST, "health.too_few.settled_steps")
    first, last = median(loss.values[:50]), median(values[-50:])
    z, _ = welch(values[:50], values[-50:])
    trend = mann_kendall(values)
    if z >= 2 or trend.falling <= 0.05 or _fell_early(loss.values) or _largest_fall(values) > 5:
        return Outcome("ok", message("health.from_to", first=first, last=last))
    if _possible_fall(values) > _EXPECTED_FALL:
        return unobserved(message("health.not_observed.noisy", first=first, last=last))
    evidence = message("health.loss_not_decreasing.test", z=z, tau=trend.tau, p=trend.falling)
    observed = message("health.loss_not_decreasing.flat", first=first, last=last, values=len(values))
    return Outcome("note" if is_pretrained(signals) else "warn", observed, (evidence,))


def _warm_up(run: Run, signals: Signals, loss: TrainingLoss) -> int:
    """How many values lie before the learning rate first reaches half of its peak, at most half of all."""
    series = next(iter(process_series(run, signals, "lr")), None)
    if series is None:
        return 0
    steps, rates = finite_points(series)
    if not rates or max(rates) <= 0:
        return 0
    reached = next(s for s, rate in zip(steps, rates, strict=True) if rate >= 0.5 * max(rates))
    return min(sum(s < reached for s in loss.steps), len(loss.values) // 2)


def _fell_early(values: Sequence[float]) -> bool:
    """Whether the loss is below its very first values: tasks that are learnt in a few steps."""
    begin, rest = median(values[:3]), values[len(values) // 2 :]
    level = median(rest)
    return level < 0.95 * begin and begin - level > 1.5 * robust_deviation(rest)


def _possible_fall(values: Sequence[float]) -> float:
    """Upper bound (two standard errors, by blocks) of the fall from the first to the last quarter, as a share of it."""
    levels = blocks(values, _BLOCKS)
    first, last = levels[: _BLOCKS // 4], levels[-(_BLOCKS // 4) :]
    error = math.sqrt((variance(first) + variance(last)) / len(first))
    at = abs(mean(first))
    return (mean(first) - mean(last) + 2 * error) / at if at > 0 else math.inf


def _largest_fall(values: Sequence[float]) -> float:
    """Largest fall between the medians of two blocks, in standard deviations of such a difference."""
    levels = blocks(values, _BLOCKS)
    size = len(values) // _BLOCKS
    noise = median(
        [
            robust_deviation(values[i * len(values) // _BLOCKS : (i + 1) * len(values) // _BLOCKS])
            for i in range(_BLOCKS)
        ]
    )
    highest, fall = levels[0], 0.0
    for level in levels:
        highest = max(highest, level)
        fall = max(fall, highest - level)
    error = 1.25 * noise / math.sqrt(max(1, size)) * math.sqrt(2)
    return fall / error if error > 0 else (math.inf if fall > 0 else 0.0)


@check("loss_at_chance", family="convergence", tier=2, needs=("loss", "losses"))
def loss_beats_chance(run: Run, signals: Signals) -> Outcome | None:
    """Whether a classifier's loss ends at chance level and was never clearly below it.

    Source: within 3 % of ln K over the last 50 values without a trend (0 of 14 healthy runs), or of the entropy of the
    labels where they are known. Contrastive losses, whose classes are the batch, are left out, and sums in which the
    classification is only a term. A mean squared error is compared with the variance of its targets, which a constant
    output reaches (chosen by us: 98 %).
    """
    loss = training_loss(run, signals)
    if isinstance(loss, Message):
        return unobserved(loss)
    if loss.function.get("fn") == "mse_loss":
        return _judge_squared_error(run, signals, loss)
    if not loss.has_chance_level or is_contrastive(loss.function):
        return None
    values = loss.values[_warm_up(run, signals, loss) :]
    if len(values) < _FEWEST:
        return too_few_data(len(values), _FEWEST, "health.too_few.settled_steps")
    last = mean(values[-50:])
    if not is_the_whole_loss(run, signals, loss.function) and not _is_near_own_values(last, loss):
        return None
    trend = mann_kendall(values[len(values) // 2 :])
    levels = [math.log(loss.classes), *_label_entropy(signals, loss)]
    for chance in levels:
        close = abs(last - chance) <= _CHANCE * chance
        if close and trend.falling > 0.01 and min(blocks(values, _BLOCKS)) > 0.9 * chance:
            observed = message("health.loss_at_chance.stuck", loss=last, chance=chance)
            evidence = message("health.loss_at_chance.test", classes=loss.classes, p=trend.falling)
            return Outcome("fail", observed, (evidence,))
    return Outcome("ok", message("health.loss_at_chance.ok", loss=last, chance=levels[0]))


def _is_near_own_values(last: float, loss: TrainingLoss) -> bool:
    """Whether a loss ends where its function does, of which one value is known: a mean of micro-batches, a small term.

    Source: chosen by us; a fifth, by which single batches differ at chance level.
    """
    value = loss.function.get("value_last")
    return value is None or math.isclose(value, last, rel_tol=_A_BATCH)


def _judge_squared_error(run: Run, signals: Signals, loss: TrainingLoss) -> Outcome | None:
    values, share = loss.values[_warm_up(run, signals, loss) :], unexplained_share(run, signals)
    if share is None or len(values) < _FEWEST:
        return None
    last, level = share
    observed = message("health.loss_at_chance.variance", loss=last, variance=level)
    settled = mann_kendall(values[len(values) // 2 :]).falling > 0.01
    is_stuck = last > _LEFT * level and min(blocks(values, _BLOCKS)) > 0.9 * level and settled
    expected = message("health.loss_at_chance.below_variance")
    return Outcome("warn" if is_stuck else "ok", observed, expected=expected)


def _label_entropy(signals: Signals, loss: TrainingLoss) -> list[float]:
    """Entropy of the labels: the chance level of unbalanced classes, and of those of many that are in use.

    Only for as many classes as the loss has; of more than `_LISTED` the rarer ones are not known.
    """
    counts = label_counts(signals)
    total = sum(counts.values())
    if total < max(100, _A_CLASS * len(counts)) or not 1 < len(counts) <= min(loss.classes, _LISTED):
        return []
    return [-sum(c / total * math.log(c / total) for c in counts.values())]


@check("loss_diverging", family="convergence", tier=2, needs=("loss",))
def loss_stays_down(run: Run, signals: Signals) -> Outcome:
    """Whether the loss ends far above both its best level and where it began.

    Source: TheDeepChecker's 2 times the best smoothed value, fastai's 4 times, here over the last 20 values; and above
    the beginning, because a loss near 0 doubles by noise and a curriculum raises it. Only noted where the inputs spread
    to twice their deviation (chosen by us): then the data change, and a harder task has a higher loss.
    """
    loss = training_loss(run, signals)
    bottomless = _without_bottom(run, signals)
    if bottomless is not None:
        return bottomless
    if isinstance(loss, Message):
        return unobserved(loss)
    values = loss.values
    lost = _judge_lost_loss(run, signals)
    if lost is not None:
        return lost
    if _leaps_at_once(loss.values, signals):
        observed = message("health.loss_diverging.rose", best=values[0], last=values[-1], first=values[0])
        at = loss.steps[0]
        return Outcome("fail", observed, (message("health.loss_diverging.since", step=at),), {"step": at})
    if len(values) < 40:
        return _judge_short(loss) or too_few_data(len(values), 40)
    smooth = moving_median(values, 20)[19:]
    best, end, begin = min(smooth), smooth[-1], max(median(values[:3]), median(values[:20]))
    noise = robust_deviation(values[-20:]) / math.sqrt(20)
    if best <= 0 or end <= 2 * best or end <= 1.5 * begin or end - max(best, begin) < 4 * noise:
        return Outcome("ok", message("health.loss_diverging.ok", best=best, last=end))
    at = loss.steps[19 + smooth.index(best)]
    observed = message("health.loss_diverging.rose", best=best, last=end, first=values[0])
    since = message("health.loss_diverging.since", step=at)
    if (spread := spreading_inputs(signals)) is not None:
        return Outcome("note", observed, (since, spread), {"step": at})
    return Outcome("fail" if end > 4 * best else "warn", observed, (since,), {"step": at})


def _judge_short(loss: TrainingLoss) -> Outcome | None:
    """A short run whose loss rises all the time: the last third of its values is 4 times the first, and all above it.

    Source: the factor of fastai, and Mann-Kendall p < 0.001, which takes at least 10 values.
    """
    third = len(loss.values) // 3
    first, last = loss.values[:third], loss.values[-third:]
    if len(loss.values) < 10 or not 0 < max(first) < min(last) or median(last) <= 4 * median(first):
        return None
    if mann_kendall(loss.values).rising > 0.001:
        return None
    best = min(loss.values)
    observed = message("health.loss_diverging.rose", best=best, last=loss.values[-1], first=loss.values[0])
    return Outcome("warn", observed, where={"step": loss.steps[0]})


def _leaps_at_once(values: Sequence[float], signals: Signals) -> bool:
    """Whether updates as large as the weights raised the loss to over 4 times its first value, and it stayed there."""
    if len(values) < 10 or values[0] <= 0 or min(values[1:]) <= 4 * values[0]:
        return False
    looks = [row for p in parameters_of(signals) if p.is_matrix for _, row in p.history[:3]]
    return max((row.get("ratio") or 0.0 for row in looks), default=0.0) >= 1


def _without_bottom(run: Run, signals: Signals) -> Outcome | None:
    """A single loss that falls far below 0 beside what it was at the beginning: it has no lowest value.

    Below minus 1000 times of it, or 20 times if it falls faster and faster and no policy acts.
    """
    series = process_series(run, signals, "loss")
    steps, values = finite_points(series[0]) if len(series) == 1 else ([], [])
    if len(values) < 20:
        return None
    depth = -median(values[-5:]) / max(1.0, abs(values[0]))
    parts = blocks(values, 8)
    faster = len(values) >= _FEWEST and all(
        a - b < b - c for a, b, c in zip(parts[3:], parts[4:], parts[5:], strict=False)
    )
    if depth < (_ACCELERATING if faster and not may_rise(run, signals) else _BOTTOMLESS):
        return None
    observed = message("health.loss_diverging.unbounded", first=values[0], last=values[-1])
    below = next(s for s, v in zip(steps, values, strict=True) if v < 0)
    evidence = (message("health.loss_diverging.below_0", step=below),)
    return Outcome("fail", observed, evidence, {"step": below}, advice=message("health.loss_diverging.bound"))


def _judge_lost_loss(run: Run, signals: Signals) -> Outcome | None:
    """A loss that grew to 4 times its best value in at least 5 steps, each above the last, and then was not finite."""
    series = next(iter(process_series(run, signals, "loss")), None)
    if series is None or not series.nonfinite:
        return None
    first = next((i for i, v in enumerate(series.values) if not math.isfinite(v)), 0)
    before = list(series.values[max(0, first - 5) : first])
    grows = len(before) == 5 and all(b > a for a, b in pairwise(before))
    best = min(series.values[:first], default=0.0)
    if not grows or best <= 0 or before[-1] <= 4 * best or before[-1] <= 1.5 * series.values[0]:
        return None
    begin, end = series.steps[first - 5], series.steps[first - 1]
    observed = message("health.loss_diverging.to_nan", low=before[0], begin=begin, high=before[-1], end=end)
    return Outcome("fail", observed, where={"step": begin})


@check("loss_oscillating", family="convergence", tier=3, needs=("loss",))
def loss_does_not_swing(run: Run, signals: Signals) -> Outcome | None:
    """Whether the loss goes up and down in turns, as gradient descent does above its stable learning rate.

    Source: a hint (tier 3), chosen by us: correlation of neighbours under -0.6; sign changes alone are noise.
    """
    loss = training_loss(run, signals)
    if isinstance(loss, Message) or len(loss.values) < _FEWEST or _alternating_batches(signals):
        return None
    tail = loss.values[len(loss.values) // 2 :]
    flat = [a - b for a, b in zip(tail, moving_median(tail, 10), strict=True)]
    correlation = serial_correlation(flat)
    if correlation > -0.6 or robust_deviation(tail) < 0.05 * abs(median(tail)):
        return None
    return Outcome("note", message("health.loss_oscillating.correlation", correlation=correlation))


def _alternating_batches(signals: Signals) -> bool:
    """Whether there are only two batches, whose losses differ."""
    return any(e.get("phase") == "train" and 0 < e.get("batches", 0) <= 4 for e in signals.prints)


@check("loss_plateau", family="convergence", tier=3, needs=("loss",))
def loss_goes_on(run: Run, signals: Signals) -> Outcome | None:
    """Whether the loss did not fall in the second half at a constant learning rate, though it is still high.

    Source: a hint (tier 3), chosen by us: no trend over half of at least 400 steps, above half of the beginning.
    """
    loss = training_loss(run, signals)
    rates = [v for s in process_series(run, signals, "lr") for v in s.values]
    if isinstance(loss, Message) or len(loss.values) < 400 or not rates or min(rates) < 0.5 * max(rates):
        return None
    half = loss.values[len(loss.values) // 2 :]
    begin, end = median(loss.values[:5]), median(half)
    if end < 0.5 * begin or end > 0.95 * begin or mann_kendall(half).falling < 0.3:
        return None
    observed = message("health.loss_plateau.flat", loss=end, values=len(half), share=end / begin)
    return Outcome("note", observed)


@check("train_loss_to_zero", family="convergence", tier=3, needs=("loss", "losses"))
def loss_above_nothing(run: Run, signals: Signals) -> Outcome | None:
    """Whether a classifier's loss all but vanished. Source: a hint (tier 3); TheDeepChecker, 1e-5."""
    loss = training_loss(run, signals)
    if isinstance(loss, Message) or not loss.classes or len(loss.values) < 50:
        return None
    end = median(loss.values[-20:])
    return Outcome("note", message("health.train_loss_to_zero.end", loss=end)) if end < 1e-5 else None
