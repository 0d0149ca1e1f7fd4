"""The home page in a real browser: what it counts is what it opens; wide and narrow, light and dark."""

from __future__ import annotations

import pytest
from order_of_tests import further


def test_what_a_tile_counts_is_what_it_opens(site, open_page):
    page = open_page(site.url)
    tiles = {tile.locator("span").inner_text(): tile for tile in page.locator(".lb-tile").all()}

    assert list(tiles) == ["runs", "healthy", "failed", "fixed this week", "machine time"]
    for name in ("runs", "healthy", "failed"):
        number = int(tiles[name].locator("b").inner_text())
        if name == "healthy" and not number:
            continue
        address = tiles[name].evaluate("a => a.href")
        other = open_page(address)
        other.wait_for_selector(".lb-grid__body .lb-grid__row")
        assert int(other.locator(".lb-grid").get_attribute("aria-rowcount")) - 1 == number > 0, name
    assert int(tiles["fixed this week"].locator("b").inner_text()) == 1
    shares = page.locator(".lb-share").get_attribute("aria-label")
    counted = {name: int(number) for name, _, number in (part.rpartition(" ") for part in shares.split(", "))}
    assert sum(counted.values()) == int(tiles["runs"].locator("b").inner_text())
    assert counted.get("healthy", 0) == int(tiles["healthy"].locator("b").inner_text())


def test_a_year_of_days_with_their_months(site, open_page):
    page = open_page(site.url)
    days = page.locator(".lb-calendar rect")

    assert 365 <= days.count() <= 371
    assert page.locator(".lb-calendar text").count() >= 11
    today = days.last
    assert " runs, " in today.locator("title").text_content()
    colours = {part.evaluate("r => getComputedStyle(r).fill") for part in (days.first, today)}
    assert len(colours) == 2, "a day with runs is darker than one without"
    assert "runs in the last twelve months" in page.locator(".lb-calendar-legend").inner_text()


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("width", [360, *further(1440)])
def test_no_page_of_tables_scrolls_sideways(site, open_page, width, dark):
    for path in ("", "runs/index.html", "experiments/index.html", "compare/index.html"):
        page = open_page(site.url + path, width=width, dark=dark)
        page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
