"""Hostile text in every place where it may stand, on every kind of page, in a real browser.

`open_page` fails a test when anything of it acts: scripts, handlers, addresses of other hosts, policy reports.
"""

from __future__ import annotations

import pytest
from order_of_tests import further

PAGES = (
    "",
    "runs/index.html",
    "experiments/index.html",
    "symptoms/index.html",
    "fixes/index.html",
    "reports/index.html",
)


def test_no_page_lets_hostile_text_act(site, open_page):
    """All pages of the site with hostile text, each until nothing is fetched any more."""
    page = open_page()
    shown = 0
    hostile = [path for path in site.folder.rglob("*.html") if "pwned" in path.read_text(encoding="utf-8")]
    for path in sorted({*hostile, *(site.folder / (name or "index.html") for name in PAGES)}):
        page.goto(site.url + path.relative_to(site.folder).as_posix(), wait_until="load")
        shown += "window.pwned=1</script>" in page.locator("body").inner_text()
        assert page.evaluate("window.pwned") is None, path
        assert (
            page.locator(".md-content :is(script, iframe, object, embed, form)").count() == 0
            or path.name == "index.html"
        )
    assert shown >= 3, "the hostile entry is there, as text: on the home page, in lists, and on its own page"


def test_every_page_has_a_policy_that_allows_no_inline_script(site, open_page):
    page = open_page(site.url)
    policy = page.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content")
    scripts = next(part for part in policy.split(";") if part.strip().startswith("script-src"))
    assert "unsafe-inline" not in scripts and "'unsafe-eval'" not in scripts and "http" not in scripts
    for path in site.folder.rglob("*.html"):
        assert 'http-equiv="Content-Security-Policy"' in path.read_text(encoding="utf-8"), path


def test_the_policy_stops_what_an_escape_would_have_missed(site, browser):
    """Proof that the policy works at all: the page is given an inline script, a handler and a foreign picture."""
    context = browser.new_context()
    page = context.new_page()
    reports: list[str] = []
    asked: list[str] = []
    page.on("console", lambda said: reports.append(said.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(site.url)
    page.evaluate(
        """() => {
        const script = document.createElement("script");
        script.textContent = "window.pwned = 1";
        document.body.append(script);
        const box = document.createElement("div");
        box.innerHTML = '<img src="x:" onerror="window.pwned = 2"><img src="http://other.example/beacon.png">';
        document.body.append(box);
        }"""
    )
    page.wait_for_timeout(300)
    assert page.evaluate("window.pwned") is None
    assert not [url for url in asked if "other.example" in url and "failed" not in url] or any(
        "other.example" in said for said in reports
    )
    assert len(reports) >= 2
    context.close()


@pytest.mark.parametrize("page_name", ["runs/index.html", *further(*sorted(set(PAGES) - {"runs/index.html"}))])
def test_addresses_with_hostile_questions_and_anchors(site, open_page, page_name):
    payload = '"><svg/onload=window.pwned=9>'
    page = open_page(f"{site.url}{page_name}?q={payload}&status={payload}&experiment={payload}#{payload}")
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.pwned") is None
    assert page.locator("svg[onload]").count() == 0
