"""Prepares the tables and the JSON data of `labbook compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.frozen import dataclass
from labbook.model.run import Change, Run
from labbook.report.numbers import duration, number
from labbook.report.series_choice import base_name, is_of_batches, run_best, run_series
from labbook.store.text.escape import table_cell


@dataclass(frozen=True)
class MetricRow:
    """One number of several runs.

    Args:
        what: "last", "best", "level" for the best median of values of single batches, or "median" for step times.
        values: The value in each run, `None` for a run without one.
    """

    name: str
    what: str
    values: tuple[float | None, ...]


def metric_table(runs: Sequence[Run]) -> list[MetricRow]:
    """Returns last and best value of each series: the primary one first, then those that all runs have.

    Of step times it is the median, as in the entry: the last step alone says little.

    The best value is left out if it is the last one in all runs, and for series of which no value is the best one.
    """
    sides = [{series.name: series for series in run_series(run)} for run in runs]
    names = list(dict.fromkeys(name for side in sides for name in side))
    rows = []
    primary = {run.primary for run in runs}
    for name in sorted(names, key=lambda name: (name not in primary, any(name not in side for side in sides))):
        if base_name(name) == "step_time_s":
            rows.append(MetricRow(name, "median", tuple(side[name].median if name in side else None for side in sides)))
            continue
        last = tuple(side[name].last if name in side else None for side in sides)
        best = tuple(run_best(run, side[name]) if name in side else None for run, side in zip(runs, sides, strict=True))
        of_batches = any(name in side and is_of_batches(side[name], run) for run, side in zip(runs, sides, strict=True))
        for what, values in (("last", last), ("level" if of_batches else "best", best)):
            if (what == "last" or values != last) and any(value is not None for value in values):
                rows.append(MetricRow(name, what, values))
    return rows


def summary_rows(runs: Sequence[Run]) -> list[tuple[str, tuple[str, ...]]]:
    """Returns title, status, verdict and duration of the runs, each with its value in every run."""
    return [
        ("title", tuple(run.title for run in runs)),
        ("status", tuple(run.status for run in runs)),
        ("verdict", tuple(run.verdict for run in runs)),
        ("duration", tuple(duration(run.duration_s) for run in runs)),
    ]


def comparison_data(before: Run, now: Run, changes: Sequence[Change], commits: Sequence[Any]) -> dict[str, Any]:
    """Returns the comparison of two runs as JSON data."""
    return {
        "before": before.id,
        "now": now.id,
        "status": [before.status, now.status],
        "verdict": [before.verdict, now.verdict],
        "duration_s": [before.duration_s, now.duration_s],
        "metrics": {f"{row.name} ({row.what})": list(row.values) for row in metric_table([before, now])},
        "changes": [
            {"kind": c.kind, "what": c.what, "before": c.before, "now": c.now, "detail": c.detail} for c in changes
        ],
        "commits": [{"commit": c.commit, "when": c.when, "author": c.author, "subject": c.subject} for c in commits],
    }


Rows = Sequence[tuple[str, str, tuple[str, ...]]]
"""Differences as (kind, what, value in each run)."""


def runs_data(runs: Sequence[Run], rows: Rows, metrics: Sequence[MetricRow]) -> dict[str, Any]:
    """Returns the comparison of several runs as JSON data."""
    return {
        "runs": [run.id for run in runs],
        "status": [run.status for run in runs],
        "verdict": [run.verdict for run in runs],
        "duration_s": [run.duration_s for run in runs],
        "metrics": {f"{row.name} ({row.what})": list(row.values) for row in metrics},
        "changes": [{"kind": kind, "what": what, "values": list(values)} for kind, what, values in rows],
    }


def comparison_markdown(
    runs: Sequence[Run], rows: Rows, metrics: Sequence[MetricRow], labels: Mapping[str, Any]
) -> str:
    """Returns the comparison of several runs as a Markdown table with one column per run."""
    words, kinds = labels["comparison"], labels["week"]["kinds"]

    def line(kind: str, what: str, values: Sequence[str]) -> str:
        return f"| {' | '.join([kind, table_cell(what), *(table_cell(value) or '–' for value in values)])} |"

    lines = [
        f"|  |  | {' | '.join(table_cell(run.id) for run in runs)} |",
        "|" + "---|" * (len(runs) + 2),
        f"| {words['status']} |  | {' | '.join(str(labels['status'].get(run.status, run.status)) for run in runs)} |",
        line(str(words["verdict"]), "", [str(labels["run_verdict"].get(run.verdict, run.verdict)) for run in runs]),
        line(str(words["duration"]), "", [duration(run.duration_s) for run in runs]),
    ]
    for row in metrics:
        name = row.name if row.what == "last" else f"{row.name} ({words[row.what]})"
        lines.append(line(str(words["metric"]), name, [number(v) if v is not None else "" for v in row.values]))
    lines += [line(str(kinds.get(kind, kind)), what, values) for kind, what, values in rows]
    return "\n".join(lines) + "\n"
