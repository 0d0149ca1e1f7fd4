"""What two runs have in common and where they differ, for `labbook compare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labbook.frozen import dataclass
from labbook.model.run import Change, Run
from labbook.model.series import Series
from labbook.report.numbers import duration
from labbook.report.series_choice import one_a_name


@dataclass(frozen=True)
class MetricRow:
    """One number of both runs.

    Args:
        name: The series.
        what: "last" or "best".
        before: Its value in the first run, `None` where it has none.
        now: Its value in the second run.
    """

    name: str
    what: str
    before: float | None
    now: float | None


def metric_rows(before: Run, now: Run) -> list[MetricRow]:
    """Last and best value of each series that one of the runs has, those that both have first."""
    old, new = ({series.name: series for series in one_a_name(run.series)} for run in (before, now))
    names = [
        *(name for name in old if name in new),
        *(name for name in {**old, **new} if (name in old) != (name in new)),
    ]
    rows = []
    for name in names:
        first, second = old.get(name), new.get(name)
        for what in ("last", "best"):
            values = _value(first, what), _value(second, what)
            if what == "best" and values == (_value(first, "last"), _value(second, "last")):
                continue
            if values != (None, None):
                rows.append(MetricRow(name, what, *values))
    return rows


def _value(series: Series | None, what: str) -> float | None:
    value = getattr(series, what) if series is not None else None
    return float(value) if value is not None else None


def heads(before: Run, now: Run) -> list[tuple[str, str, str]]:
    """What a reader asks first, as (what, first run, second run)."""
    return [
        ("title", before.title, now.title),
        ("status", before.status, now.status),
        ("duration", duration(before.duration_s), duration(now.duration_s)),
    ]


def comparison_data(before: Run, now: Run, changes: Sequence[Change], commits: Sequence[Any]) -> dict[str, Any]:
    """The comparison as JSON data, for programs."""
    return {
        "before": before.id,
        "now": now.id,
        "status": [before.status, now.status],
        "duration_s": [before.duration_s, now.duration_s],
        "metrics": {f"{row.name} ({row.what})": [row.before, row.now] for row in metric_rows(before, now)},
        "changes": [
            {"kind": c.kind, "what": c.what, "before": c.before, "now": c.now, "detail": c.detail} for c in changes
        ],
        "commits": [{"commit": c.commit, "when": c.when, "author": c.author, "subject": c.subject} for c in commits],
    }
