"""The page of an experiment in a real browser: options against results, as points and as lines."""

from __future__ import annotations

import json


def experiment(site) -> str:
    """The experiment with the most runs that have options."""
    sizes = {
        path.stem: len(json.loads(path.read_text())["id"]) for path in (site.folder / "data/experiments").glob("*")
    }
    return max(sizes, key=lambda name: sizes[name])


def test_each_point_is_a_run(site, open_page):
    name = experiment(site)
    page = open_page(f"{site.url}experiments/{name}.html")
    page.wait_for_selector("#lb-explore svg")

    seen = json.loads((site.folder / f"data/experiments/{name}.json").read_text())
    held = seen["params"]["lr"].get("r", list(range(len(seen["id"]))))
    finite = [
        n
        for k, n in enumerate(seen["metrics"]["loss"].get("r", range(len(seen["id"]))))
        if n in held and any(isinstance(seen["metrics"]["loss"][what][k], (int, float)) for what in ("best", "last"))
    ]
    page.get_by_label("Option", exact=True).select_option("lr")
    page.get_by_label("Metric", exact=True).select_option("loss")
    points = page.locator("#lb-explore svg a")
    assert points.count() == len(finite) >= 2
    assert page.locator("#lb-explore svg").get_attribute("aria-label") == f"loss over lr for {len(finite)} runs"
    for point in points.all():
        address = point.evaluate("a => new URL(a.href.baseVal, document.baseURI).href")
        assert page.request.get(address).ok, address
    before = page.locator("#lb-explore svg").screenshot()
    box = page.get_by_label("Log x")
    box.set_checked(not box.is_checked())
    assert page.locator("#lb-explore svg").screenshot() != before


def test_on_a_phone_and_without_scripts(site, open_page):
    name = experiment(site)
    page = open_page(f"{site.url}experiments/{name}.html", width=360, dark=True)
    page.wait_for_selector("#lb-explore svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360

    page = open_page(f"{site.url}experiments/{name}.html", scripts=False)
    assert page.locator(".md-content table tbody tr").count() >= 2
