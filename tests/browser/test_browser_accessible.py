"""What axe-core says of each kind of page, in light and dark: nothing serious and nothing critical."""

from __future__ import annotations

import pytest
from order_of_tests import further

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")


def problems(page) -> list[str]:
    """Serious and critical violations, each with the first places where it is."""
    found = axe.Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{one['id']}: {one['help']}: " + "; ".join(node["html"][:160] for node in one["nodes"][:4])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


LISTS = (
    "index.html",
    "runs/index.html",
    *(pytest.param(f"{name}/index.html", marks=pytest.mark.long) for name in ("experiments", "symptoms", "fixes")),
)


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)], ids=["light", "dark"])
@pytest.mark.parametrize("path", LISTS)
def test_lists_are_accessible(site, open_page, path, dark):
    page = open_page(site.url + path, dark=dark)
    page.wait_for_load_state("networkidle")

    assert not problems(page)


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)], ids=["light", "dark"])
def test_a_run_with_its_curves_is_accessible(site, open_page, dark):
    page = open_page(site.run("LogBackward0"), dark=dark)
    page.locator("img[src$='curves.svg']").scroll_into_view_if_needed()
    page.wait_for_selector(".lb-curve canvas")

    assert not problems(page)


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)], ids=["light", "dark"])
def test_a_symptom_and_two_compared_runs_are_accessible(site, open_page, dark):
    page = open_page(site.url + "symptoms/loss_nonfinite.html", dark=dark)
    assert not problems(page)
    if (site.folder / "compare" / "index.html").exists():
        runs = sorted(path.stem for path in (site.folder / "runs").rglob("*-*-*.html"))[-2:]
        page.goto(f"{site.url}compare/index.html?runs={','.join(runs)}", wait_until="networkidle")
        assert not problems(page)


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)], ids=["light", "dark"])
def test_the_search_is_accessible(site, open_page, dark):
    page = open_page(site.url, dark=dark)
    page.keyboard.press("/")
    page.locator(".lbs__box").fill("loss NaN")
    page.wait_for_selector(".lbs__group--run a")

    assert not problems(page)
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.querySelector('.lbs').scrollWidth <= innerWidth"), "as wide as a phone"


@pytest.mark.parametrize(
    "path",
    ["symptoms/loss_nonfinite.html", *further("", "symptoms/index.html", "fixes/")],  # of tables: test_browser_home.py
)
def test_no_page_is_wider_than_a_phone(site, open_page, path):
    page = open_page(site.url + path, width=360, height=740)
    page.wait_for_load_state("networkidle")

    assert page.evaluate("document.documentElement.scrollWidth") <= 360
