"""The best run of some runs, and whether it is better than another by more than the noise of the experiment."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from labbook.report.run_row import RunRow

BROKEN = ("failed", "killed", "lost")
PRUNED = "pruned"
"""Tag of a trial that its search stopped early."""


def counts_as_result(row: RunRow) -> bool:
    """Whether the best value of a run means something: it ended, did not fail, and is neither unhealthy nor pruned."""
    return (
        row.best is not None
        and math.isfinite(row.best)
        and row.status not in (*BROKEN, "running")
        and row.verdict not in ("unhealthy", "failed")
        and PRUNED not in row.tags
    )


def best_run(rows: Sequence[RunRow]) -> RunRow | None:
    """Returns the run with the best value of the most frequent metric, or `None`.

    Failed and unhealthy runs are left out: their best value may be from before the failure, or mean nothing.
    """
    measured = [row for row in rows if counts_as_result(row)]
    if not measured:
        return None
    metric = Counter(row.metric for row in measured).most_common(1)[0][0]
    chosen: RunRow | None = None
    for row in measured:
        if row.metric == metric and (chosen is None or row.is_better_than(chosen) or _wins_tie(row, chosen)):
            chosen = row
    return chosen


def _wins_tie(row: RunRow, chosen: RunRow) -> bool:
    """Whether a run with the same best value ended better, or as well and earlier: a rerun does not beat its run."""
    if row.best != chosen.best:
        return False
    if row.last is None or chosen.last is None or row.last == chosen.last:
        return row.started < chosen.started
    return row.last > chosen.last if row.direction == "max" else row.last < chosen.last


def trend_of(best: RunRow | None, old: RunRow | None, rows: Sequence[RunRow]) -> str:
    """Returns how the best run compares with the best one before.

    Args:
        best: The best run, or `None`.
        old: The best run before, or `None`.
        rows: All runs of the experiment; repeats among them show its noise.

    Returns:
        "better", "worse", "same" or "noise"; "" where the noise of the experiment is not known.
    """
    if best is None or old is None or best.best is None or old.best is None:
        return ""
    if best.best == old.best:
        return "same"
    least = least_difference(rows, best.metric)
    if least is None:
        return ""
    if abs(best.best - old.best) <= least:
        return "noise"
    return "better" if best.is_better_than(old) else "worse"


_T_QUANTILE = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Quantile 0.975 of Student's t with 1 to 10 degrees of freedom."""


def least_difference(rows: Sequence[RunRow], metric: str) -> float | None:
    """Returns the least difference of two best values that is more than the noise of an experiment.

    Runs of the same configuration with other seeds are repeats; their pooled variance is the noise. The difference of
    two single runs is beyond it at the level of 5 % (two-sided t-test).

    Returns:
        `None` if no configuration was repeated.
    """
    groups: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if (
            row.configuration
            and row.metric == metric
            and row.best is not None
            and math.isfinite(row.best)
            and row.verdict != "unhealthy"
        ):
            # The same seed again measures nothing new; so does the same value without a seed: the program sets one.
            groups[row.configuration].setdefault(row.seed or repr(row.best), row.best)
    squares, freedom = 0.0, 0
    for values in (list(group.values()) for group in groups.values()):
        mean = sum(values) / len(values)
        squares += sum((value - mean) ** 2 for value in values)
        freedom += len(values) - 1
    if not freedom:
        return None
    return least_significant(math.sqrt(squares / freedom), freedom)


def least_significant(deviation: float, freedom: int) -> float:
    """Returns the least difference of two single values that is more than noise (two-sided t-test, 5 %).

    Args:
        freedom: Its degrees of freedom, at least 1.
    """
    quantile = _T_QUANTILE[freedom - 1] if freedom <= len(_T_QUANTILE) else 2.0
    return quantile * math.sqrt(2) * deviation
