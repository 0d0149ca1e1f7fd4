"""Chooses the series that represents a run, and the best value of a series."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, median

from labbook.model.metric_kinds import (
    SPLITS,
    MetricGoal,
    choose_metric,
    direction_of,
    is_counter,
    metric_kind,
    name_words,
)
from labbook.model.run import Run
from labbook.model.series import Series, best_level, join_series, window_of

MEASURED_BY_PROBE = ("loss", "grad_norm", "lr", "step_time_s", "grad_scale", "update_ratio")
"""Series that the probe measures; all others are logged by the program."""

_TRUST = {"probe": 0, "labbook": 1, "text": 9}
_TRAIN_LOSS = ("loss", "train_loss", "train/loss", "loss/train", "training_loss", "total_loss", "损失")
_FEWER = 2
"""A series of at most this fraction of the steps has values of epochs, not of batches."""
_FEWEST_REPEATED = 2
_PRINTED = 5.1e-5
"""Half of the last digit of a loss that is printed with four decimals. Source: chosen by us."""
_LOGGED = 1e-6
"""Deviation of a loss that is logged with all its digits. Source: chosen by us."""
_FEWEST_FOLDS = 3

_MEAN = 1e-3
"""Relative deviation up to which a last value is the printed mean of those before, where half of its last digit is not
more. Source: chosen by us."""
_MEAN_OF_STEPS = 0.02
"""Relative deviation of a printed mean from that of the recorded steps. Source: chosen by us."""
_SEPARATORS = re.compile(r"[/. -]")
_LEAST_FIXED = 1e-4
"""Smaller numbers have an exponent in their text. Source: Python's `repr`."""
_FEWEST_STEPS = 3


def primary_series(run: Run, goal: MetricGoal | None = None) -> str:
    """Returns the name of the series that represents the run.

    The chosen metric, else the one that `choose_metric` finds; where no metric has a best value, the training loss,
    else the first logged metric. "" if there are only step times and learning rates.
    """
    series = [s for s in one_a_name(run.series) if not has_no_best(s.name)]
    series = [s for s in series if any(map(math.isfinite, s.values))] or series
    if goal is None or not goal.metric:
        series = select_averaged(series) or series
        # "final loss 0.48" says less than the losses of all steps.
        trained = [s for s in series if metric_kind(s.name).quantity == "loss" and metric_kind(s.name).is_training]
        if any(len(s.values) > 1 for s in trained):
            series = [s for s in series if len(s.values) > 1 or s not in trained]
    chosen = choose_metric({s.name: has_epoch_values(s, run.steps) for s in series}, goal)
    if chosen and ((goal is not None and goal.metric) or not metric_kind(chosen).is_training):
        return chosen
    if held_out := next((name for name in ("val", "test") if split_direction(run, name)), ""):
        return held_out
    if chosen:
        return chosen
    names = [s.name for s in series if not is_counter(s.name)]
    losses = [n for n in names if base_name(n).lower() in _TRAIN_LOSS] or [n for n in names if "loss" in n.lower()]
    return next(iter([*losses, *names]), "")


def select_averaged(series: Sequence[Series]) -> list[Series]:
    """Returns printed means of folds: `mean_auc` of all `auc`, or series that end with their mean and others do not."""
    printed = [s for s in series if s.source == "text"]
    values = {f"mean_{s.name}": s.values for s in printed if len(s.values) >= _FEWEST_FOLDS}
    means = [s for s in printed if len(s.values) == 1 and s.name in values]
    if own := [s for s in means if ends_with_mean(replace(s, values=(*values[s.name], *s.values)))]:
        return own
    ended = [s for s in printed if len(s.values) > _FEWEST_FOLDS and ends_with_mean(s)]
    return [s for s in ended if any(len(other.values) == len(s.values) - 1 for other in printed)]


def ends_with_mean(series: Series) -> bool:
    """Whether the last value of a series is the mean of those before, as printed; these are not all alike."""
    *values, last = series.values
    if not all(map(math.isfinite, series.values)) or max(values) == min(values):
        return False
    rounded = 0.5 * 10.0 ** -len(repr(last).partition(".")[2]) if abs(last) >= _LEAST_FIXED else 0.0
    return abs(last - fmean(values)) <= max(_MEAN * abs(last), rounded)


def find_primary_series(run: Run) -> Series | None:
    """Returns the primary series of the first rank and the most reliable source, or `None`."""
    name = run.primary or primary_series(run)
    return next((s for s in run_series(run) if s.name == name), None)


def find_series(run: Run, name: str) -> Series | None:
    """Returns the series of a name, of the first rank and the most reliable source, or `None`."""
    return next((s for s in sort_by_trust(run.series) if s.name == name), None)


def find_training_loss(run: Run) -> Series | None:
    """Returns the training loss of the first rank and the most reliable source, or `None`."""
    losses = [s for s in run_series(run) if base_name(s.name).lower() in _TRAIN_LOSS]
    return min(losses, key=lambda series: ".opt" in series.name, default=None)


def primary_direction(run: Run) -> str:
    """Returns the direction of the primary series: "max", "min", or "" where no value is the best one."""
    if run.direction:
        return "" if run.direction == "none" else run.direction
    series = find_primary_series(run)
    return series_direction(series) if series is not None else direction_of(run.primary)


def series_direction(series: Series) -> str:
    """Returns the direction of a metric by its name; "" for a score that mostly is lower than at first.

    More is better in a game; the validation score of a regression may be an error.
    """
    direction, words = direction_of(series.name), name_words(series.name)
    values = [v for v in series.values if math.isfinite(v)]
    is_unclear = "score" in words and metric_kind(series.name).quantity == "reward" and bool(values)
    return "" if is_unclear and median(values) < values[0] else direction


def split_direction(run: Run, name: str) -> str:
    """Returns the direction of a printed metric that has only the name of a data split: `Loss: 0.4, Val: 0.81`.

    Where the values of the training split are the measured losses (`train 0.61 val 0.65`), so are the others. What is
    printed beside a loss is another quantity, whose values improve early in the training.

    Returns:
        "max" or "min"; "" for any other series and where its first value is in the middle of all.
    """
    series = find_series(run, name)
    if series is None or series.source != "text" or name not in SPLITS:
        return ""
    if (training := find_series(run, "train")) is not None and _prints_measured_loss(run, training):
        return "min"
    if not any(metric_kind(p.name).quantity == "loss" for p in (*run.printed, *run.series) if p.source == "text"):
        return ""
    values = [v for v in series.values if math.isfinite(v)]
    usual = median(values) if values else 0.0
    return "max" if values and usual > values[0] else "min" if values and usual < values[0] else ""


def _prints_measured_loss(run: Run, printed: Series) -> bool:
    """Whether each printed value is the loss of a step, to the digits of the print, or the mean since the last one."""
    measured = find_training_loss(run)
    values = [v for v in printed.values if math.isfinite(v)]
    if measured is None or measured.source != "probe" or not _FEWEST_REPEATED <= len(values) <= len(measured.values):
        return False
    digits = max(len(repr(value).partition(".")[2]) for value in values)
    for place, value in enumerate(values):
        begin, end = (point_at_share(measured, (place + k) / len(values)) for k in (0, 1))
        is_step = any(abs(loss - value) < 0.51 * 10.0**-digits for loss in measured.values[begin : end + 1])
        losses = [v for v in measured.values[begin:end] if math.isfinite(v)]
        if not is_step and (not losses or abs(fmean(losses) - value) > _MEAN_OF_STEPS * abs(value)):
            return False
    return True


def point_at_share(series: Series, share: float) -> int:
    """Returns the place of the point after a share of the steps: the first steps have more points than later ones."""
    return bisect_right(series.steps, max(0.0, share) * series.steps[-1])


def has_epoch_values(series: Series, steps: int) -> bool:
    """Whether a series has values of epochs or of whole data sets, not of single batches.

    Args:
        steps: Number of optimizer steps of the run, 0 if unknown.
    """
    if not metric_kind(series.name).is_training:
        return True
    if series.source == "probe":
        return False
    if metric_kind(series.name).quantity == "reward":
        return True  # of episodes
    words = series.name.lower()
    if "epoch" in words or words.endswith("_step"):
        return "epoch" in words
    points = series.count or len(series.values)
    if steps and points * _FEWER > steps:
        return False
    # Epochs are counted one by one; a loop that prints each hundredth batch prints its number.
    return all(b - a == 1 for a, b in pairwise(series.steps))


def with_axis(series: Series, steps: int) -> Series:
    """Returns a series that knows what its steps number.

    Numbers that a program gives are steps, except those of values or epochs, one by one (or a bare "[12/20]") and too
    few for the run. One value in each step is numbered by the steps. Numbers that lines begin with are those of epochs,
    unless they are over half of the steps: an epoch of two steps or more cannot have such a number.

    Args:
        steps: Number of optimizer steps of the run, 0 if unknown.
    """
    last = series.steps[-1] if series.steps else 0
    if series.axis == "line":
        return replace(series, axis="step" if 0 < steps < 2 * last - 1 else "epoch")
    if series.source == "probe" or series.axis == "epoch" or (series.axis == "number" and last != steps):
        return series
    in_a_row = series.axis == "fraction" or all(b - a == 1 for a, b in pairwise(series.steps))
    return replace(series, axis="number" if in_a_row and 2 * last <= steps else "step")


def is_of_batches(series: Series, run: Run) -> bool:
    """Whether a series has values of single batches; also one that a program prints once an epoch.

    What a program compares with its best has values of what it judges the model by.
    """
    kind = metric_kind(series.name)
    if series.name == run.facts("watched").get("metric") and not (kind.quantity == "loss" and kind.is_training):
        return False
    trainings = len(run.facts("trainings").get("rows") or ())
    if trainings and series.source != "probe" and len(series.values) in (trainings, trainings + 1):
        return False  # one value a training, and perhaps their mean
    repeats = _repeats_batches(series, run)
    if repeats is not None:
        return repeats
    return not has_epoch_values(series, run.steps) and not _is_of_evaluations(series, run)


def _is_of_evaluations(series: Series, run: Run) -> bool:
    """Whether a program logs or prints a series once in each validation phase, or beside a value of held-out data."""
    points = series.count or len(series.values)
    if series.source == "probe" or points < _FEWEST_REPEATED:
        return False
    counts = {max(len(s.evaluations), s.evaluations[-1].get("phases", 0)) for s in run.signals if s.evaluations}
    beside = (s for s in run.series if s.source == series.source and s.steps == series.steps)
    return points in counts or any(not metric_kind(each.name).is_training for each in beside)


def _repeats_batches(series: Series, run: Run) -> bool | None:
    """Whether all values of a training loss are losses of single steps that the probe measured, `None` if unknown.

    A loss that is logged in full, as Lightning does with the mean of an epoch, is of steps only if each value is one.
    """
    kind = metric_kind(series.name)
    if not kind.is_training or kind.quantity != "loss" or len(series.values) < _FEWEST_REPEATED:
        return None
    losses = [s for s in run.series if s.source == "probe" and base_name(s.name) == "loss"]
    measured = sorted(v for s in losses for v in s.values if math.isfinite(v))
    digits = _PRINTED if series.is_from_text else _LOGGED
    for value in series.values:
        near = bisect_left(measured, value - digits)
        if math.isfinite(value) and not (near < len(measured) and measured[near] <= value + digits):
            is_whole = all(s.count <= len(s.values) for s in losses) and bool(measured)
            return False if is_whole and not series.is_from_text else None
    return True if measured else None


def best_value(
    series: Series, steps: int, direction: str | None = None, *, of_batches: bool | None = None
) -> float | None:
    """Returns the best value of a series; `None` where no value is the best one.

    Of values of single batches it is the best median of a window, see `window_of`.

    Args:
        steps: Number of optimizer steps of the run, 0 if unknown.
        direction: "max" or "min"; by default that of its name.
        of_batches: Whether its values are of single batches; by default as its name and length say.
    """
    direction = series_direction(series) if direction is None else direction
    if not direction or has_no_best(series.name):
        return None
    better = max if direction == "max" else min
    if has_epoch_values(series, steps) if of_batches is None else not of_batches:
        finite = [v for v in (*series.values, *series.low, *series.high) if math.isfinite(v)]
        return better(finite) if finite else None
    return best_level(series.values, window_of(series), max_first=direction == "max")


def run_best(run: Run, series: Series) -> float | None:
    """Returns the best value of a series of a run, in the direction that people chose for the primary one.

    Where the loss may rise, as with several optimizers or for a reward, no measured loss has a best value.
    """
    direction = primary_direction(run) if series.name == run.primary else split_direction(run, series.name) or None
    rises = run.direction == "none" or metric_kind(run.primary).quantity == "reward"
    if series.source == "probe" and (rises or run.facts("watched").get("loss_may_rise")):
        direction = ""
    of_batches = is_of_batches(series, run)
    if of_batches and not run.direction and direction_of(series.name) == "max":
        return None  # of one batch, or the mean of an epoch so far, which begins with one batch
    return best_value(series, run.steps, direction, of_batches=of_batches)


def sort_by_trust(series: Sequence[Series]) -> list[Series]:
    """Returns the series with points: measured, then logged, then read from text; first ranks first."""
    return sorted((s for s in series if s.values), key=lambda s: (_TRUST.get(s.source, 5), s.rank or 0))


def one_a_name(series: Sequence[Series]) -> list[Series]:
    """Returns for each name the most reliable series of the first rank."""
    chosen: dict[str, Series] = {}
    for each in sort_by_trust(series):
        chosen.setdefault(each.name, each)
    # `eval_f1` that is printed is `eval/f1` that a logger has.
    logged = {_SEPARATORS.sub("_", name) for name, each in chosen.items() if each.source != "text"}
    return [s for name, s in chosen.items() if s.source != "text" or _SEPARATORS.sub("_", name) not in logged]


def run_series(run: Run) -> list[Series]:
    """Returns for each name the series that represents the run.

    Where a program trained several times or in several phases, `loss` and what else the probe measures are those of the
    best training or the last phase, and those of the first one are `loss.opt0`.
    """
    series = one_a_name(run.series)
    facts = run.captured.get("trainings") or run.facts("phases")
    best = str(facts.get("series") or "").partition(".")[2]
    return [replace(s, name=_best_label(s.name, best)) for s in series] if best else series


def _best_label(name: str, best: str) -> str:
    if base_name(name) not in MEASURED_BY_PROBE:
        return name
    own = re.search(r"\.(opt\d+)", name)
    if own is not None:
        return name.replace(own[0], "", 1) if own[1] == best else name
    script, slash, rest = name.rpartition("/")
    head, dot, tail = rest.partition(".")
    return f"{script}{slash}{head}.opt0{dot}{tail}"


def base_name(name: str) -> str:
    """Returns the name without script, optimizer and group: "loss" for "tune.py/loss.opt1"."""
    head, slash, tail = name.rpartition("/")
    if slash and not head.endswith((".py", ".ipynb")) and not head.rpartition("#")[0].endswith((".py", ".ipynb")):
        return name
    return tail.split(".opt")[0].split(".group")[0]


def has_no_best(name: str) -> bool:
    """Whether a series is one of the probe that has no best value, such as a learning rate or a step time."""
    return base_name(name) in MEASURED_BY_PROBE and base_name(name) != "loss"


def first_nonfinite_step(series: Series) -> int | None:
    """Returns the step from which on all values are not finite, or `None`."""
    since = None
    for step, value in zip(series.steps, series.values, strict=True):
        if math.isfinite(value):
            since = None
        elif since is None:
            since = step
    return since


def step_time_series(run: Run) -> Series | None:
    """Returns the step times of the first rank if at least three were measured, else `None`.

    Its median is the step time of the run: the first steps (compilation, warm-up) do not affect it.
    """
    own = [s for s in run.series if s.name.split(".opt")[0] == "step_time_s" and s.rank in (None, 0)]
    own = join_series(own) if run.trains_in_turn else own
    return next((s for s in own if sum(map(math.isfinite, s.values)) >= _FEWEST_STEPS), None)
