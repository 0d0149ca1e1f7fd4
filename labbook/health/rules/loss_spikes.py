"""The check of single high losses: a spike of one batch, or a jump that the update before it made."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.frozen import dataclass
from labbook.health.evidence.measurements import finite_points, process_series, unobserved
from labbook.health.evidence.training_batches import spreading_inputs
from labbook.health.evidence.training_kind import TrainingLoss, training_loss
from labbook.health.evidence.trend_tests import median, moving_median, robust_deviation
from labbook.health.rules.data.batch_order import short_last_batch
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_FEWEST = 60
_FACTOR = 10.0
_BEFORE = 10
"""Steps whose median is the level before a rise."""


@dataclass(frozen=True)
class _Rise:
    """A loss far above those before it.

    Args:
        at: Its place among the values.
        level: The usual loss of the steps before.
        lasts: Steps after it until the loss is halfway back on a log scale; at most 3.
    """

    at: int
    level: float
    lasts: int


@check("loss_spike", family="convergence", tier=2, needs=("loss",))
def loss_without_outliers(run: Run, signals: Signals) -> Outcome | None:
    """Whether rare steps had a loss far above those before and above the beginning, from which it came back.

    Source: diagnosis catalogue, `loss_spike` (tier 2); robust z above 6 is common in heavy tails, so here 10 on the log
    scale, 10 times the level and twice the beginning, in at most 5 % of the steps. The batch is an outlier where the
    next step, after its update, is at least halfway back; a loss that stays up was raised by the update before, which
    counts only where its gradient or its batch is unlike the others: else a new task may have begun. Nor where the
    inputs spread: the stages of a curriculum begin so.
    """
    loss = training_loss(run, signals)
    if isinstance(loss, Message):
        return unobserved(loss)
    if len(loss.values) < _FEWEST or min(loss.values) <= 0:
        return None
    rises = _find_rises(loss.values)
    if len(rises) > max(1, len(loss.values) // 20) or spreading_inputs(signals) is not None:
        return None
    judged = [found for rise in rises if (found := _judge_rise(run, signals, loss, rise)) is not None]
    if not judged:
        return None
    first = judged[0]
    if len(judged) == 1:
        return first
    observed = message("health.loss_spike.several", spike=first.observed, steps=len(judged))
    return Outcome("warn", observed, first.evidence, first.where, advice=first.advice)


def _find_rises(values: Sequence[float]) -> list[_Rise]:
    logs = [math.log(value) for value in values]
    smooth = moving_median(logs, 21)
    noise = max(robust_deviation([a - b for a, b in zip(logs, smooth, strict=True)]), 0.02)
    least, begin = max(10 * noise, math.log(_FACTOR)), median(values[:5])
    found: list[_Rise] = []
    for i in range(21, len(values) - 1):
        level = median(logs[i - _BEFORE : i])
        halfway = (level + logs[i]) / 2
        if logs[i] - level <= least or values[i] <= 2 * begin or logs[i - 1] > halfway:
            continue
        lasts = next((n for n, log in enumerate(logs[i + 1 : i + 4]) if log <= halfway), 3)
        if not found or i - found[-1].at > _BEFORE:  # what follows on a wrecked update is no rise of its own
            found.append(_Rise(i, math.exp(level), lasts))
    return found


def _judge_rise(run: Run, signals: Signals, loss: TrainingLoss, rise: _Rise) -> Outcome | None:
    """A spike with its batch, a jump with the update before it, or `None` where nothing says which of them it is."""
    step, before = loss.steps[rise.at], loss.steps[rise.at - 1]
    value = {"loss": loss.values[rise.at], "step": step, "level": rise.level}
    spike = message("health.loss_spike.one", **value)
    jump = message("health.loss_spike.jump", **value, before=before)
    short, at = short_last_batch(signals), None
    if short is not None and loss.steps[-1] % short[2] == 0:
        at = next((one for one in (step, before) if one % short[2] == 0), None)
    if short is not None and at is not None:
        evidence = [message("health.loss_spike.short", step=at, last=short[0], size=short[1])]
        advice = message("health.loss_spike.short_advice")
        return Outcome("warn", spike if at == step else jump, tuple(evidence), {"step": at}, advice=advice)
    if rise.lasts == 0:
        batch = next((b.get("print", "") for b in signals.batches if b.get("step", 0) == step), "")
        evidence = [message("health.loss_spike.batch", batch=batch)] if batch else []
        return Outcome("warn", spike, tuple(evidence), {"step": step})
    if evidence := _unusual_gradient(run, signals, before):
        return Outcome("warn", jump, tuple(evidence), {"step": before})
    return Outcome("warn", spike) if rise.lasts == 1 else None  # of two steps it is not known which batch is odd


def _unusual_gradient(run: Run, signals: Signals, step: int) -> list[Message]:
    """The gradient norm of a step, if it is 10 times the usual one of the steps before it."""
    series = next(iter(process_series(run, signals, "grad_norm")), None)
    steps, norms = finite_points(series) if series is not None else ([], [])
    at = steps.index(step) if step in steps else 0
    usual = median(norms[max(0, at - _BEFORE) : at]) if at >= 5 else math.inf
    if not norms or norms[at] < _FACTOR * usual:
        return []
    return [message("health.loss_spike.gradient", norm=norms[at], step=step, usual=usual)]
