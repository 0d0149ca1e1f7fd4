"""Data of the pictures of the home page: calendar of a year, shares of statuses, progress of experiments. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from labbook.publish.pages.page import SiteSource
from labbook.report.best_runs import BROKEN, counts_as_result
from labbook.report.period import containing_week
from labbook.report.run_row import RunRow

_WEEKS = 53
_LEVELS = (1, 3, 6, 11)
"""Runs a day for each darker shade. Source: chosen by us, tried on a team of four."""

_PITCH = 13
"""Distance of squares in units of the picture."""

_SPARK = (84, 22)
_MOST_RUNS = 40
"""Width and height of a small curve, and the most runs in it, the newest. Source: chosen by us."""

_TOP = 16
"""Space above the squares for the names of months."""


def calendar(source: SiteSource, labels: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a year of days, a column for each week, the current one last.

    Args:
        labels: Words of the home page with names of months.

    Returns:
        `width` and `height` of the picture, `days` with `x`, `y`, `level` (0 to 4), `day`, `runs` and `broken`, and
        `months` with `x` and `name`.
    """
    counts: dict[date, int] = defaultdict(int)
    broken: dict[date, int] = defaultdict(int)
    for row in source.rows:
        if row.started > 0:
            day = datetime.fromtimestamp(row.started).date()
            counts[day] += 1
            broken[day] += row.status in BROKEN
    begin = containing_week(source.now, source.week_start).begin - timedelta(weeks=_WEEKS - 1)
    today = datetime.fromtimestamp(source.now).date()
    names = list(labels["months"])
    days: list[dict[str, Any]] = []
    months: list[dict[str, Any]] = []
    for offset in range(_WEEKS * 7):
        day = begin + timedelta(days=offset)
        if day > today:
            break
        week, weekday = divmod(offset, 7)
        level = sum(counts[day] >= step for step in _LEVELS)
        place = {"x": week * _PITCH, "y": _TOP + weekday * _PITCH}
        days.append(place | {"day": day.isoformat(), "runs": counts[day], "broken": broken[day], "level": level})
        # The name of a month is above its first whole week, unless it would not fit.
        if weekday == 0 and day.day <= 7 and week < _WEEKS - 1:
            months.append({"x": week * _PITCH, "name": names[day.month - 1]})
    return {"width": _WEEKS * _PITCH - 2, "height": _TOP + 7 * _PITCH - 2, "days": days, "months": months}


def verdict_share(counts: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Returns the parts of a bar of 1000 units: `verdict`, `runs`, `x`, `width`; every part is visible."""
    total = sum(runs for _, runs in counts)
    widths = [max(8.0, 1000 * runs / total) for _, runs in counts]
    stretch = 1000 / sum(widths) if widths else 0.0
    parts = []
    x = 0.0
    for (verdict, runs), width in zip(counts, widths, strict=True):
        end = x + width * stretch
        parts.append({"verdict": verdict, "runs": runs, "x": round(x), "width": round(end) - round(x)})
        x = end
    return parts


def progress_path(rows: Sequence[RunRow], metric: str) -> str:
    """Returns the best values of a metric over the last runs as the path of a small curve, "" for fewer than three.

    Args:
        rows: Runs of an experiment, newest first.
    """
    values = [row.best for row in rows if row.metric == metric and row.best is not None and counts_as_result(row)]
    values = values[:_MOST_RUNS][::-1]
    if len(values) < 3:
        return ""
    width, height = _SPARK
    low, span = min(values), max(values) - min(values)
    heights = [(value - low) / span if span else 0.5 for value in values]
    across = (width - 2) / (len(values) - 1)
    return "M" + "L".join(
        f"{1 + across * place:.1f} {height - 2 - (height - 4) * up:.1f}" for place, up in enumerate(heights)
    )
