"""ISO weeks: names (2026-W47), and their begin and end in local time."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from labbook.errors import UsageError
from labbook.frozen import dataclass

_NAME = re.compile(r"(\d{4})-?[Ww](\d{1,2})")


@dataclass(frozen=True)
class Week:
    """A week.

    Args:
        year: ISO year.
        number: ISO week.
        first_day: 0 if weeks begin on Monday, -1 if they begin on the Sunday before.
    """

    year: int
    number: int
    first_day: int = 0

    @property
    def name(self) -> str:
        """`2026-W47`."""
        return f"{self.year}-W{self.number:02d}"

    @property
    def begin(self) -> date:
        """The first day."""
        return date.fromisocalendar(self.year, self.number, 1) + timedelta(days=self.first_day)

    @property
    def end(self) -> date:
        """The last day."""
        return self.begin + timedelta(days=6)

    @property
    def span(self) -> tuple[float, float]:
        """Unix seconds of the begin (inclusive) and the end (exclusive), in local time."""
        return _midnight(self.begin), _midnight(self.begin + timedelta(days=7))

    def before(self) -> Week:
        """Returns the previous week."""
        return _of_iso_day(date.fromisocalendar(self.year, self.number, 1) - timedelta(days=7), self.first_day)

    def contains(self, moment: float) -> bool:
        """Whether a moment (Unix seconds) is in the week."""
        begin, end = self.span
        return begin <= moment < end


def containing_week(moment: float, week_start: str = "monday") -> Week:
    """Returns the week of a moment.

    Args:
        moment: Unix seconds.
        week_start: "monday" or "sunday".
    """
    first_day = -1 if week_start == "sunday" else 0
    # A Sunday that begins a week belongs to the ISO week of the Monday after it.
    day = datetime.fromtimestamp(moment).date() - timedelta(days=first_day)
    return _of_iso_day(day, first_day)


def week_named(name: str, now: float, week_start: str = "monday") -> Week:
    """Returns the week named `2026-W47`, "this" or "last".

    Raises:
        UsageError: The name is not one of these.
    """
    this = containing_week(now, week_start)
    if name in ("", "this"):
        return this
    if name == "last":
        return this.before()
    found = _NAME.fullmatch(name.strip())
    try:
        if found:
            date.fromisocalendar(int(found[1]), int(found[2]), 1)
            return Week(int(found[1]), int(found[2]), this.first_day)
    except ValueError:
        pass
    raise UsageError(f"{name!r} is not a week", hint=f"a week is written like {this.name}; `last` is the one before")


def _of_iso_day(day: date, first_day: int) -> Week:
    year, number, _ = day.isocalendar()
    return Week(year, number, first_day)


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day).timestamp()
