"""Checks of what undoes or disturbs a training: evaluations that train, and states that are loaded again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from labbook.health.evidence.measurements import called_in_sentence, finite_points, place_of, process_series
from labbook.health.evidence.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.metric_kinds import metric_kind
from labbook.model.run import Run
from labbook.model.signals import Signals

_RISING = 3
_RUNS = 3
_FALLEN = 0.97
_REPORTS = 4
_PRINTED, _DIGITS = 5e-4, 6e-5
"""Relative and absolute difference of a printed loss with four digits behind the point."""

_LEAST_WEIGHT = 0.02
"""Share that the samples of the last batch have of those of a whole one. Source: chosen by us."""

_RETURNED = 0.7
"""Share of the way back to its first level that the loss goes. Source: chosen by us."""


@check("parameters_initialised_again", family="loop-bug", tier=1, needs=("loop",))
def parameters_are_initialised_once(run: Run, signals: Signals) -> Outcome | None:
    """Whether the program that initializes the parameters ran again in each epoch. Folds and seeds may begin anew.

    Source: a logical invariant (tier 1): what was trained before is lost; in three epochs or more. So it is where one
    line loads a state as often and the loss is back at its first level, under one optimizer that goes on.
    """
    loaded = _loaded_again(run, signals)
    if loaded is not None:
        return loaded
    again = signals.loop.get("restarts", {})
    rising, line = again.get("rising", 0), again.get("line", "")
    if rising < _RISING:
        return None
    observed = message("health.parameters_initialised_again.epochs", runs=rising)
    return Outcome("fail", observed, called_in_sentence(line), place_of(line))


def _loaded_again(run: Run, signals: Signals) -> Outcome | None:
    """A warning for a state that is loaded again and again, after which the loss begins anew."""
    lines = Counter(e.get("line", "") for e in signals.loaded if e.get("trained") and e.get("step", 0) > 0)
    line, loads = lines.most_common(1)[0] if lines else ("", 0)
    series = process_series(run, signals, "loss")
    if loads < _RISING or len(series) != 1 or any(e.get("what") == "optimizer" for e in signals.loaded):
        return None
    loss = dict(zip(series[0].steps, series[0].values, strict=True))
    before, after = [], []
    for step in (e.get("step", 0) for e in signals.loaded if e.get("line") == line and e.get("step", 0) > 0):
        before += [loss[at] for at in range(step - 2, step + 1) if at in loss]
        after += [loss[at] for at in range(step + 1, step + 4) if at in loss]
    first = median(series[0].values[:_RISING])
    # It has to fall in between, or nothing was lost.
    if len(after) < loads or not before or median(before) > _FALLEN * first:
        return None
    if median(after[-_RISING:]) < median(before) + _RETURNED * (first - median(before)):
        return None
    observed = message("health.parameters_initialised_again.loaded", loads=loads, first=first, after=median(after))
    return Outcome("warn", observed, called_in_sentence(line), place_of(line))


@check("evaluation_updates_parameters", family="loop-bug", tier=2, needs=("loop",))
def evaluation_leaves_parameters(run: Run, signals: Signals) -> Outcome | None:
    """Whether an evaluation makes optimizer steps: its loss is that of steps, or a static program with them runs in it.

    Source: a logical invariant; tier 2, because a function, or a metric, may have a name that misleads.
    """
    wrong = signals.loop.get("evaluation_updates", {})
    runs, line, function = wrong.get("count", 0), wrong.get("line", ""), wrong.get("function", "")
    if runs < _RUNS:
        return _loss_of_steps(run, signals)
    if wrong.get("held_out"):
        observed = message("health.evaluation_updates_parameters.held_out", runs=runs)
    elif function:
        observed = message("health.evaluation_updates_parameters.function", runs=runs, function=function)
    else:
        observed = message("health.evaluation_updates_parameters.copy", runs=runs)
    return Outcome("warn", observed, called_in_sentence(line), place_of(line))


def _loss_of_steps(run: Run, signals: Signals) -> Outcome | None:
    """A warning for a validation loss that is, in each report, the mean loss of the last steps before it.

    It is to be so for one number of steps only, less than an epoch: of a loss that no longer moves, any mean is alike.
    """
    losses = process_series(run, signals, "loss")
    if len(losses) != 1 or losses[0].steps != tuple(range(1, len(losses[0].steps) + 1)):
        return None
    steps = losses[0].values
    for series in run.series:
        kind, logged = metric_kind(series.name), finite_points(series)[1]
        is_held_out = kind.quantity == "loss" and kind.split in ("val", "test") and series.source != "probe"
        if not is_held_out or kind.running_best or not _REPORTS <= len(logged) == len(series.values):
            continue
        for period, ends in _places_of_reports(series.steps, len(steps)):
            fitting = [last for last in range(1, period + 1) if _are_means(steps, ends, last, logged)]
            # A step more is the same where its weight is that of a few samples.
            if fitting and fitting[-1] - fitting[0] < 2 and 1 < fitting[0] < period:
                facts = {"name": series.name, "last": fitting[0], "period": period, "times": len(logged)}
                return Outcome("warn", message("health.evaluation_updates_parameters.loss_of_steps", **facts))
    return None


def _places_of_reports(epochs: Sequence[int], count: int) -> Iterator[tuple[int, list[int]]]:
    """Yields the steps of an epoch and those up to each report: after epochs from 0 or 1 on, or after all epochs."""
    for numbers in (epochs, [number + 1 for number in epochs], range(1, len(epochs) + 1)):
        period, rest = divmod(count, max(1, numbers[-1]))
        if not rest and period:
            yield period, [number * period for number in numbers]


def _are_means(steps: Sequence[float], ends: Sequence[int], last: int, logged: Sequence[float]) -> bool:
    """Whether logged values are means of the last steps before, where the last one may be of a smaller batch."""
    sums = [sum(steps[end - last : end - 1]) for end in ends]
    whole = zip(sums, ends, logged, strict=True)
    # Each report gives the weight of the last step; that of the one which it changes most is the least rounded.
    weights = [
        (abs(value - steps[end - 1]), total - value * (last - 1), value - steps[end - 1]) for total, end, value in whole
    ]
    _, above, below = max(weights)
    weight = min(1.0, above / below) if below else 1.0
    if weight < _LEAST_WEIGHT:
        return False
    means = [(total + weight * steps[end - 1]) / (last - 1 + weight) for total, end in zip(sums, ends, strict=True)]
    return all(math.isclose(a, b, rel_tol=_PRINTED, abs_tol=_DIGITS) for a, b in zip(means, logged, strict=True))
