"""Periods of reports: ISO weeks (2026-W47), months (2026-11), days from one date to another; in local time."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from labbook.errors import UsageError
from labbook.frozen import dataclass

_WEEK = re.compile(r"(\d{4})-?[Ww](\d{1,2})")
_MONTH = re.compile(r"(\d{4})-(\d{1,2})")


@dataclass(frozen=True)
class Period:
    """Some whole days.

    Args:
        kind: "week", "month" or "days".
        name: `2026-W47`, `2026-11` or `2026-11-03_2026-11-20`; the name of the report's file.
    """

    kind: str
    name: str
    begin: date
    end: date

    @property
    def days(self) -> int:
        """Number of days."""
        return (self.end - self.begin).days + 1

    @property
    def span(self) -> tuple[float, float]:
        """Unix seconds of the begin (inclusive) and the end (exclusive), in local time."""
        return _midnight(self.begin), _midnight(self.end + timedelta(days=1))

    def is_over(self, now: float) -> bool:
        """Whether the period has ended at a moment (Unix seconds)."""
        return now >= self.span[1]

    def span_before(self, now: float) -> tuple[float, float]:
        """Returns the span of the same length just before, in Unix seconds.

        Of a period that is not over, only the part until now is compared: on a Wednesday at noon, the week before until
        its Wednesday at noon.
        """
        begin, end = self.span
        before = _midnight(self.begin - timedelta(days=self.days))
        return before, begin if self.is_over(now) else min(begin, before + max(0.0, min(now, end) - begin))


def containing_week(moment: float, week_start: str = "monday") -> Period:
    """Returns the week of a moment.

    Args:
        moment: Unix seconds.
        week_start: "monday" or "sunday".
    """
    first_day = _first_day(week_start)
    # A Sunday that begins a week belongs to the ISO week of the Monday after it.
    year, number, _ = (datetime.fromtimestamp(moment).date() - timedelta(days=first_day)).isocalendar()
    return _week(year, number, first_day)


def week_named(name: str, now: float, week_start: str = "monday") -> Period:
    """Returns the week named `2026-W47`, "this" or "last".

    Raises:
        UsageError: The name is not one of these.
    """
    this = containing_week(now, week_start)
    if name in ("", "this"):
        return this
    if name == "last":
        return containing_week(_midnight(this.begin - timedelta(days=3)), week_start)
    found = _WEEK.fullmatch(name.strip())
    try:
        if found:
            return _week(int(found[1]), int(found[2]), _first_day(week_start))
    except ValueError:
        pass
    raise UsageError("errors.report.not_a_week", name=name, example=this.name)


def month_named(name: str, now: float) -> Period:
    """Returns the month named `2026-11`, "this" or "last".

    Raises:
        UsageError: The name is not one of these.
    """
    today = datetime.fromtimestamp(now).date()
    if name in ("", "this"):
        return _month(today.year, today.month)
    if name == "last":
        last = today.replace(day=1) - timedelta(days=1)
        return _month(last.year, last.month)
    found = _MONTH.fullmatch(name.strip())
    try:
        if found:
            return _month(int(found[1]), int(found[2]))
    except ValueError:
        pass
    raise UsageError("errors.report.not_a_month", name=name, example=f"{today:%Y-%m}")


def days_between(since: str, until: str, now: float) -> Period:
    """Returns the days from one date to another, both included.

    Args:
        since: `2026-11-03`.
        until: `2026-11-20`, or "" for today.
        now: Unix seconds.

    Raises:
        UsageError: One is not a date, or they are in the wrong order.
    """
    begin = _date_named(since, now)
    end = _date_named(until, now) if until else datetime.fromtimestamp(now).date()
    if end < begin:
        raise UsageError("errors.report.wrong_order", begin=str(begin), end=str(end))
    return Period("days", f"{begin}_{end}", begin, end)


def _date_named(text: str, now: float) -> date:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        today = datetime.fromtimestamp(now).date()
        raise UsageError("errors.report.not_a_date", text=text, today=str(today)) from None


def _week(year: int, number: int, first_day: int) -> Period:
    begin = date.fromisocalendar(year, number, 1) + timedelta(days=first_day)
    return Period("week", f"{year}-W{number:02d}", begin, begin + timedelta(days=6))


def _month(year: int, number: int) -> Period:
    begin = date(year, number, 1)
    return Period("month", f"{begin:%Y-%m}", begin, (begin + timedelta(days=31)).replace(day=1) - timedelta(days=1))


def _first_day(week_start: str) -> int:
    """Returns 0 if weeks begin on Monday, -1 if they begin on the Sunday before."""
    return -1 if week_start == "sunday" else 0


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day).timestamp()
