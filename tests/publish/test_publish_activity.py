"""A year of days and the shares of a week's endings, as places in a picture."""

from __future__ import annotations

from datetime import datetime

import pytest

from labbook.publish.pages.activity import calendar, verdict_share
from labbook.publish.pages.page import SiteSource
from labbook.report.run_row import RunRow
from labbook.store.text.templates import Templates

NOW = datetime(2026, 11, 21, 12).timestamp()


def row(day: datetime, status: str = "finished") -> RunRow:
    return RunRow("x", "notes/runs/x.md", status, "t", started=day.timestamp())


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_day_of_a_year_has_its_place(language):
    rows = [row(datetime(2026, 11, 21, 9))] * 3 + [row(datetime(2026, 11, 16), "failed"), row(datetime(2020, 1, 1))]
    said = Templates(None, language).words["site_home"]
    made = calendar(SiteSource(rows, now=NOW), said)

    days = {day["day"]: day for day in made["days"]}
    assert len(days) == 52 * 7 + 6 and list(days)[-1] == "2026-11-21"
    assert len({(day["x"], day["y"]) for day in made["days"]}) == len(days)
    assert (days["2026-11-21"]["runs"], days["2026-11-21"]["level"]) == (3, 2)
    assert days["2026-11-16"] == {"x": 52 * 13, "y": 16, "day": "2026-11-16", "runs": 1, "broken": 1, "level": 1}
    assert max(day["x"] for day in made["days"]) + 11 == made["width"]
    assert max(day["y"] for day in made["days"]) + 11 == made["height"]
    names = [month["name"] for month in made["months"]]
    assert 11 <= len(names) <= 13 and names[0] == ("Dec" if language == "en" else "12月")


def test_the_shares_fill_the_bar_and_the_rarest_is_seen():
    parts = verdict_share([("finished", 9_998), ("failed", 1), ("lost", 1)])

    assert all(part["width"] >= 7 for part in parts)
    assert [part["x"] + part["width"] for part in parts] == [*(part["x"] for part in parts[1:]), 1000]
    assert [(p["x"], p["width"]) for p in verdict_share([("finished", 1), ("failed", 3)])] == [(0, 250), (250, 750)]
    assert verdict_share([]) == []
