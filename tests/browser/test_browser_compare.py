"""Runs side by side in a real browser, and that the page says what the terminal says."""

from __future__ import annotations

import json

import pytest

from labbook.compare.run_table import KINDS, MAX_ROWS, collect_facts, compare_facts


def ids(site) -> list[str]:
    """Runs of the small notebook that were recorded for real, newest first."""
    found = [path.parent.name for path in (site.notes / "runs").rglob("run.json")]
    return sorted(found, reverse=True)


def until(page, expression: str) -> None:
    """Waits until an expression holds; Playwright's own waiting evaluates strings, which the policy forbids."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(expression)


def compared(open_page, site, runs, **more):
    page = open_page(f"{site.url}compare/index.html#runs={','.join(runs)}", **more)
    page.wait_for_selector(".lb-head")
    return page


def test_the_page_says_what_the_terminal_says(site, open_page):
    runs = ids(site)[:6]
    page = compared(open_page, site, runs)

    facts = []
    for run in runs:
        (path,) = (site.notes / "runs").rglob(f"{run}/run.json")
        facts.append(collect_facts(json.loads(path.read_text())))
    for chosen in (facts, facts[:2], facts[1:4], facts[::-1]):
        seen = page.evaluate("facts => labbook.differences(facts)", chosen)
        # Both show no more than so many rows of one kind; the page says how many more when it draws them.
        shown = [row for kind in KINDS for row in [row for row in seen if row["kind"] == kind][:MAX_ROWS]]
        expected = [row for row in compare_facts(chosen) if row.values != ("",) * len(chosen)]
        assert [(row["kind"], row["what"], tuple(row["values"])) for row in shown] == [
            (row.kind, row.what, row.values) for row in expected
        ]
        assert expected
    page.locator("#differences ~ div tr.lb-differs").first.wait_for()
    assert page.locator("#differences ~ div tr.lb-differs").count() == sum(
        row.values != ("",) * len(runs) for row in compare_facts(facts)
    )


def test_runs_are_called_by_the_options_in_which_they_differ(site, open_page):
    wanted = {}
    for path in sorted((site.notes / "runs").rglob("run.json")):
        argv = json.loads(path.read_text())["argv"]
        if argv[-2:-1] == ["--lr"]:  # no other option
            wanted.setdefault(argv[-1], path.parent.name)
    page = compared(open_page, site, [wanted[rate] for rate in ("0.1", "0.2", "3.0")])
    page.wait_for_selector(".lb-plot canvas")

    names = page.locator(".lb-legend span").all_inner_texts()
    assert sorted(name.split(" · ")[0] for name in names) == ["lr 0.1", "lr 0.2", "lr 3.0"], names
    assert page.locator(".lb-head small").first.inner_text().count("2026-") == 1, "a card has the date, too"


def test_two_runs_their_numbers_and_their_curves(site, open_page):
    runs = [run for run in ids(site) if json.loads((site.folder / f"data/run/{run}.json").read_text())["curves"]][:3]
    page = compared(open_page, site, runs)
    page.wait_for_selector(".lb-plot canvas")

    assert page.locator(".lb-head__line").count() == 3
    assert "--lr" in page.locator(".lb-compare-table").first.inner_text()
    metrics = page.locator(".lb-plots figcaption b").all_inner_texts()
    assert len(metrics) > 1 and len(set(metrics)) == len(metrics), "a diagram for each metric"
    assert page.locator(".lb-legend .lb-swatch").count() == 3
    plot = page.locator("figure", has=page.get_by_text("loss", exact=True))
    before = plot.locator("canvas").screenshot()
    page.get_by_label("Log scale").set_checked(not page.get_by_label("Log scale").is_checked())
    assert plot.locator("canvas").screenshot() != before
    plot.locator(".u-over").hover()
    assert plot.locator(".lb-plot__one").count() >= 2, "the values of all runs at a step"
    page.get_by_label("Also show equal values").check()
    assert page.locator("tr:not(.lb-differs) th[scope=row]", has_text="numpy").count() >= 1

    page.locator(".lb-remove").first.click()
    until(page, "document.querySelectorAll('.lb-head__line').length === 2")
    assert runs[0] not in page.url
    page.go_back()
    until(page, "document.querySelectorAll('.lb-head__line').length === 3")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "Select 2 to 20 runs"),
        ("#runs=20200101-000000-none", "No run 20200101-000000-none on this site"),
        ("#runs=<img src=x onerror=window.pwned=1>,../../x", "Select 2 to 20 runs"),
    ],
)
def test_addresses_that_name_no_runs(site, open_page, given, said):
    page = open_page(f"{site.url}compare/index.html{given}")
    page.get_by_text(said).wait_for()
    assert page.get_by_role("link", name="Run table").is_visible()


def test_runs_without_data_are_compared_by_their_front_matter(large_site, open_page):
    notes = sorted((large_site.notes / "runs").rglob("*-*-*.md"))
    runs = [notes[-1].stem, notes[-2].stem, notes[100].stem]
    page = compared(open_page, large_site, runs)

    assert page.locator(".lb-hint").inner_text().startswith("3 of 3 runs have no data")
    assert page.locator(".lb-head__line").count() == 3
    assert "accuracy" in page.locator(".lb-compare-table").last.inner_text()
    one = compared(open_page, large_site, runs[:1])
    assert "Select at least two runs." in one.locator(".lb-app").inner_text()


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)])
def test_on_a_phone_the_page_does_not_scroll_sideways(site, open_page, dark):
    page = compared(open_page, site, ids(site)[:4], width=360, height=740, dark=dark)
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_from_a_run_to_its_comparison_with_the_one_before(site, open_page):
    page = open_page(site.run("LogBackward0"))
    run = page.locator(".lb-bar__facts code").inner_text()

    page.get_by_role("link", name="Compare with previous run").click()
    page.wait_for_selector(".lb-head")
    assert page.url.endswith(f",{run}") and page.locator(".lb-head__line").count() == 2
    assert page.locator("tr.lb-differs th", has_text="--lr").count() == 1
