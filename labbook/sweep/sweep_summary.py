"""What a sweep shows: its best trials and which options the metric depends on. Pure."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from labbook.frozen import dataclass
from labbook.health.evidence.trend_tests import mid_ranks
from labbook.model.entry import Entry
from labbook.model.run_fields import as_number, differing_names, option_values
from labbook.report.best_runs import BROKEN, PRUNED
from labbook.report.run_row import Goals, RunRow, run_row

_FEWEST = 4
"""Fewest measured trials for a statement about options. Source: chosen by us."""


@dataclass(frozen=True)
class SweepTrial:
    """One trial: its row, and the values of the options that differ between the trials."""

    row: RunRow
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Importance:
    """How much the metric depends on one option.

    Args:
        values: Number of different values.
        trials: Number of trials with a value and a finite metric.
        correlation: Spearman's rank correlation with the metric, `None` if the values are no numbers.
        explained: Share of the variance of the metric's ranks between the values, corrected for their number
            (epsilon squared), 0 to 1; `None` with as many values as trials.
    """

    option: str
    values: int
    trials: int
    correlation: float | None
    explained: float | None

    @property
    def order(self) -> float:
        """The larger of explained variance and squared correlation."""
        return max(self.explained or 0.0, (self.correlation or 0.0) ** 2)


@dataclass(frozen=True)
class SweepSummary:
    """A sweep.

    Args:
        metric: Name of the metric of most trials, or "".
        direction: "max", "min" or "".
        trials: Best first, then those that were pruned or failed, then those without the metric, oldest first.
        options: Options that differ between the trials, the most important first.
        importance: Those that can be judged.
    """

    metric: str
    direction: str
    trials: tuple[SweepTrial, ...]
    options: tuple[str, ...]
    importance: tuple[Importance, ...]


def summarize_sweep(entries: Sequence[Entry], goals: Goals | None = None) -> SweepSummary:
    """Returns the summary of a sweep.

    Args:
        entries: Its runs, oldest first.
        goals: Experiment -> the metric that people chose for it.
    """
    rows = [run_row(entry, goals) for entry in entries]
    given = [option_values(entry.meta) for entry in entries]
    differing = differing_names(given)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        if row.metric and _has_metric(row):
            counts[row.metric, row.direction] += 1
    metric, direction = max(counts, key=lambda each: counts[each]) if counts else ("", "")
    trials = [
        SweepTrial(row, {name: values.get(name) for name in differing}) for row, values in zip(rows, given, strict=True)
    ]
    measured = [trial for trial in trials if trial.row.metric == metric and _has_metric(trial.row)]
    sign = -1.0 if direction == "max" else 1.0
    ranked = sorted(measured, key=lambda trial: (_is_cut(trial.row), sign * _value(trial.row)))
    rest = [trial for trial in trials if trial not in measured]
    measured = [trial for trial in measured if PRUNED not in trial.row.tags]
    judged = [found for name in differing if (found := _importance(name, measured)) is not None]
    judged.sort(key=lambda each: -each.order)
    known = {each.option for each in judged}
    options = [*(each.option for each in judged), *(name for name in differing if name not in known)]
    return SweepSummary(metric, direction, (*ranked, *rest), tuple(options), tuple(judged))


def _is_cut(row: RunRow) -> bool:
    """Whether a trial did not get to its end: its value is an early one."""
    return row.status in BROKEN or PRUNED in row.tags


def _value(row: RunRow) -> float:
    value = row.best if row.best is not None else row.last
    return math.nan if value is None else value


def _has_metric(row: RunRow) -> bool:
    return math.isfinite(_value(row))


def _importance(name: str, trials: Sequence[SweepTrial]) -> Importance | None:
    pairs = [(trial.values[name], _value(trial.row)) for trial in trials if trial.values.get(name) is not None]
    different = len({str(value) for value, _ in pairs})
    if len(pairs) < _FEWEST or different < 2:
        return None
    metric = mid_ranks([value for _, value in pairs])
    numbers = [as_number(value) for value, _ in pairs]
    finite = [number for number in numbers if number is not None and not math.isnan(number)]
    correlation = _correlation(mid_ranks(finite), metric) if len(finite) == len(pairs) else None
    return Importance(name, different, len(pairs), correlation, _explained_share([str(v) for v, _ in pairs], metric))


def _correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Returns Pearson's correlation, `None` if all values of one side are equal."""
    with suppress(statistics.StatisticsError):
        return statistics.correlation(one, other)
    return None


def _explained_share(groups: Sequence[str], ranks: Sequence[float]) -> float | None:
    members: dict[str, list[float]] = defaultdict(list)
    for group, rank in zip(groups, ranks, strict=True):
        members[group].append(rank)
    count, mean = len(ranks), sum(ranks) / len(ranks)
    total = sum((rank - mean) ** 2 for rank in ranks)
    if not total or count <= len(members):
        return None
    within = sum(sum((rank - sum(each) / len(each)) ** 2 for rank in each) for each in members.values())
    return max(0.0, 1 - (within / (count - len(members))) / (total / (count - 1)))
