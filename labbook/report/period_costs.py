"""Step time, memory and machine time of the experiments of a period, compared with the time before."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass
from labbook.model.confirmed_fix import describe_changes
from labbook.report import numbers
from labbook.report.run_row import RunRow
from labbook.store.paths import run_of_trial
from labbook.store.text.sentences import Sentences

if TYPE_CHECKING:  # 12 ms: with the classes of all events
    from labbook.model.run import Change

_RATIO = 1.15
"""Least ratio of two median step times in a report. Source: chosen by us; the same program varies by a few percent."""
_FEW = 2
"""Most differences of two runs that are named as the cause."""


@dataclass(frozen=True)
class Cost:
    """What a run took.

    Args:
        host: Its machine.
        step_s: Median step time, s, or `None`.
        memory_bytes: Peak memory of the GPU that it used most, else of the processes, or `None`.
        on_gpu: Whether that is memory of a GPU.
    """

    host: str = ""
    step_s: float | None = None
    memory_bytes: float | None = None
    on_gpu: bool = False


def cost_rows(
    rows: Sequence[RunRow],
    before: Sequence[RunRow],
    costs: Mapping[str, Cost],
    changes: Mapping[str, Sequence[Change]],
    sentences: Sentences,
) -> list[dict[str, Any]]:
    """Returns a row for each experiment and machine on which a step time or the memory was measured.

    Args:
        rows: Runs of the period, the oldest first.
        before: Runs of the time before, the oldest first.
        costs: Run id -> what the run took.
        changes: Run id -> changes since its previous run.
    """
    now, then = _group_by_place(rows, costs), _group_by_place(before, costs)
    found = []
    for (experiment, host, on_gpu), group in sorted(now.items()):
        earlier = then.get((experiment, host, on_gpu), [])
        step, old = _median([costs[row.id].step_s for row in group]), _median([costs[row.id].step_s for row in earlier])
        trend = _trend(group, earlier, costs)
        memory = [size for row in group if (size := costs[row.id].memory_bytes) is not None]
        if step is None and not memory:
            continue
        found.append(
            {
                "experiment": experiment,
                "host": host,
                "step": numbers.duration(step) if step is not None else "",
                "step_before": numbers.duration(old) if old is not None else "",
                "trend": trend,
                "by": _cause(group, earlier, costs, changes, sentences) if trend else "",
                "memory": numbers.size(max(memory)) if memory else "",
                "on_gpu": on_gpu,
                "time": numbers.duration(sum_time(group)),
            }
        )
    return found


def sum_time(rows: Sequence[RunRow]) -> float:
    """Returns the seconds that runs took: those of a trial are in those of its run."""
    ids = {row.id for row in rows}
    return sum(row.duration_s or 0.0 for row in rows if run_of_trial(row.id) not in ids)


def _group_by_place(rows: Sequence[RunRow], costs: Mapping[str, Cost]) -> dict[tuple[str, str, bool], list[RunRow]]:
    groups: dict[tuple[str, str, bool], list[RunRow]] = defaultdict(list)
    for row in rows:
        cost = costs.get(row.id)
        if cost is not None and row.experiment:
            groups[row.experiment, cost.host, cost.on_gpu].append(row)
    return groups


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _trend(group: Sequence[RunRow], earlier: Sequence[RunRow], costs: Mapping[str, Cost]) -> str:
    """Returns "slower" or "faster" if every run of now is on one side of every run before, else ""."""
    now = [step for row in group if (step := costs[row.id].step_s)]
    then = [step for row in earlier if (step := costs[row.id].step_s)]
    if not now or not then:
        return ""
    ratio = statistics.median(now) / statistics.median(then)
    if ratio >= _RATIO and min(now) > max(then):
        return "slower"
    return "faster" if ratio <= 1 / _RATIO and max(now) < min(then) else ""


def _cause(
    group: Sequence[RunRow],
    earlier: Sequence[RunRow],
    costs: Mapping[str, Cost],
    changes: Mapping[str, Sequence[Change]],
    sentences: Sentences,
) -> str:
    """Returns what changed between the last run before and the first one of now, if that is one or two things."""
    first = next(row for row in group if costs[row.id].step_s)
    if not any(first.previous == row.id for row in earlier):
        return ""
    return likely_cause(changes.get(first.id, ()), sentences)


def likely_cause(changes: Sequence[Change], sentences: Sentences) -> str:
    """Returns one or two differences in words, "" if there are more: then none of them is known to be the cause."""
    settings = tuple(change for change in changes if change.kind != "metric")
    return sentences(describe_changes(settings)) if 0 < len(settings) <= _FEW else ""
