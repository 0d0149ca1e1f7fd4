from __future__ import annotations

import time
from datetime import date, datetime

import pytest

from labbook.errors import UsageError
from labbook.report.period import containing_week, days_between, month_named, week_named

WEEK = week_named("2026-W47", 0.0)


def at(day: int, hour: int = 12) -> float:
    return datetime(2026, 11, day, hour).timestamp()


def test_weeks_have_names_and_days():
    assert (WEEK.name, WEEK.begin.isoformat(), WEEK.end.isoformat()) == ("2026-W47", "2026-11-16", "2026-11-22")
    begin, end = WEEK.span
    assert begin == at(16, 0) and at(22, 23) < end == at(23, 0)
    assert WEEK.days == 7 and WEEK.span_before(at(30)) == (at(9, 0), at(16, 0))


def test_weeks_that_begin_on_sunday():
    week = containing_week(at(15), "sunday")
    assert week.name == "2026-W47" and week.begin.isoformat() == "2026-11-15"
    assert containing_week(at(15)).name == "2026-W46"
    assert week_named("last", at(15), "sunday").begin.isoformat() == "2026-11-08"


def test_a_week_is_named_by_people():
    assert week_named("this", at(18)).name == week_named("", at(18)).name == "2026-W47"
    assert week_named("last", at(18)).name == "2026-W46"
    assert week_named("2026W05", at(18)).name == "2026-W05"
    for wrong in ("2026-W54", "47", "2026-11-16", "soon"):
        with pytest.raises(UsageError, match="not a week"):
            week_named(wrong, at(18))


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York", "Europe/Berlin"])
def test_weeks_are_those_of_the_local_clock(monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        begin, end = WEEK.span
        assert datetime.fromtimestamp(begin).strftime("%a %H:%M") == "Mon 00:00"
        assert containing_week(begin).name == "2026-W47" and containing_week(begin - 1).name == "2026-W46"
        assert containing_week(end - 1).name == "2026-W47" and containing_week(end).name == "2026-W48"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_months_and_days_have_names():
    november = month_named("this", at(18))
    assert (november.name, november.begin, november.end) == ("2026-11", date(2026, 11, 1), date(2026, 11, 30))
    assert month_named("last", at(18)).name == "2026-10" and month_named("2026-2", at(18)).days == 28
    days = days_between("2026-11-03", "", at(18))
    assert (days.name, days.days) == ("2026-11-03_2026-11-18", 16)
    for wrong in ("2026-13", "november"):
        with pytest.raises(UsageError, match="not a month"):
            month_named(wrong, at(18))
    with pytest.raises(UsageError, match="not a date"):
        days_between("yesterday", "", at(18))
    with pytest.raises(UsageError, match="is after"):
        days_between("2026-11-20", "2026-11-03", at(18))


def test_a_period_that_is_not_over_is_compared_up_to_the_same_moment():
    assert WEEK.span_before(at(18)) == (at(9, 0), at(11))
    assert not WEEK.is_over(at(18)) and WEEK.is_over(at(23, 0))
    assert month_named("2026-11", 0.0).span_before(at(1, 0) + 31 * 86400)[0] == datetime(2026, 10, 2).timestamp()
