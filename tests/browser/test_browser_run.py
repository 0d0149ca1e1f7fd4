from __future__ import annotations

import re

import pytest


def curves(page):
    page.locator("img[src$='curves.svg']").scroll_into_view_if_needed()
    page.wait_for_selector(".lb-curve canvas")
    return page.locator(".lb-curve")


def test_a_run_is_told_verdict_first_and_can_be_copied_and_left(site, open_page):
    page = open_page(site.run("LogBackward0"))

    headings = page.locator(".md-content h2").all_inner_texts()
    assert headings[0].startswith("Diagnosis")
    assert page.locator(".lb-status").first.inner_text() == "failed"
    order = [next(n for n, head in enumerate(headings) if head.startswith(word)) for word in ("Curves", "Health")]
    assert order == sorted(order)
    folded = page.locator(".md-content details:not([open])", has_text="are ok")
    assert folded.count() == 1 and not folded.locator("td", has_text="ok").first.is_visible()
    tops = [page.locator(part).first.bounding_box()["y"] for part in (".md-content h1", ".lb-links")]
    assert tops == sorted(tops), "the symptoms stand below the headline"
    assert "certain" not in page.locator(".md-sidebar--secondary nav nav .md-ellipsis").first.inner_text()
    lists = "[...document.querySelectorAll('.md-content li ol')].map((one) => getComputedStyle(one).listStyleType)"
    assert set(page.evaluate(lists)) == {"decimal"}
    assert "--lr 3 → 0.2" in page.locator(".md-content").inner_text()
    assert page.locator(".lb-cure a").count() >= 1
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    run_id = page.locator(".lb-bar__facts code").inner_text()
    copied = []
    for word in ("id", "show", "rerun", "command"):
        page.locator(".lb-summary").get_by_text(word, exact=True).click()
        copied.append(page.evaluate("navigator.clipboard.readText()"))
    assert copied[:3] == [run_id, f"labbook show {run_id}", f"labbook rerun {run_id}"]
    assert copied[3].endswith("train.py --lr 3.0")
    assert page.locator(".md-content details:not([open]) summary", has_text="lines").count() >= 1
    page.locator("a[rel=next]").click()
    assert page.locator(".lb-bar__facts code").inner_text() != run_id


@pytest.mark.parametrize("width", [1280, 390])
def test_the_summary_of_a_run_stays_in_view_and_covers_no_heading(site, open_page, width):
    page = open_page(site.run("torch 2.13.0"), width=width)
    shown = page.locator(".lb-summary")
    assert "val_accuracy" in shown.inner_text() and shown.locator(".lb-status").inner_text() == "healthy"
    page.goto(page.url + "#console")
    page.wait_for_function("() => scrollY > 500")
    bottom = shown.evaluate("(one) => one.getBoundingClientRect().bottom")
    assert 0 < bottom < page.locator("#console").bounding_box()["y"]
    assert shown.is_visible() and page.evaluate("document.documentElement.scrollWidth") <= width
    alone = open_page(page.url, width=width, scripts=False)
    assert alone.locator(".lb-summary").is_visible() and not alone.locator(".lb-summary button").first.is_visible()


def test_curves_zoom_pan_smooth_and_have_a_log_scale(site, open_page):
    page = open_page(site.run("torch 2.13.0"))
    assert not [url for url in page.watched.fetched if "uPlot" in url], "nobody has scrolled to the curves yet"

    shown = curves(page)
    assert shown.count() == 5 and not page.locator("img[src$='curves.svg']").is_visible()
    assert shown.locator("figcaption b").all_inner_texts()[:2] == ["val_accuracy", "loss"], "the main metric is first"
    units = [text.split()[0] for text in shown.locator(".lb-curve__value").all_inner_texts()[:2]]
    assert units == ["point", "step"], "the epochs of the console are no steps"
    assert "132" in shown.nth(1).locator(".lb-curve__value").inner_text()
    first = shown.nth(1)
    before = first.locator("canvas").screenshot()
    box = first.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + 50, steps=5)
    page.mouse.up()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 50)
    zoomed = step_of(first)
    assert 10 < zoomed < 60, "the right edge is where the drag ended"
    second = shown.nth(2)
    other = second.locator(".u-over").bounding_box()
    page.mouse.move(other["x"] + other["width"] - 1, other["y"] + 50)
    assert abs(step_of(second) - zoomed) < 8, "all panels of these steps are zoomed"
    first.locator(".lb-curve__plot").focus()
    page.keyboard.press("ArrowRight")
    page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 52)
    assert step_of(first) > zoomed, "moved to later steps"
    page.get_by_role("button", name="reset").click()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 50)
    assert step_of(first) > 125
    page.mouse.move(5, 5)
    page.get_by_label("training time").check()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 50)
    assert re.match(r"[\d.]+ s: ", first.locator(".lb-curve__value").inner_text())
    page.get_by_label("training time").uncheck()
    page.mouse.move(5, 5)
    page.get_by_label("smooth").fill("0.9")
    smooth = first.locator("canvas").screenshot()
    page.get_by_label("smooth").fill("0")
    page.get_by_label("log scale").check()
    log = first.locator("canvas").screenshot()
    assert len({before, smooth, log}) == 3


def test_a_click_on_a_layer_of_the_model_shows_its_series(site, open_page):
    page = open_page(site.run("a run with a diagram"))
    layers = page.locator(".lb-model g[data-history]")
    layers.first.wait_for()

    layers.first.click()
    dialog = page.locator("dialog.lb-layer")
    assert "gradient norm at the inspected steps" in dialog.inner_text() and dialog.locator("path").count() == 2
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    layers.nth(1).focus()
    page.keyboard.press("Enter")
    assert dialog.is_visible()
    assert page.get_by_role("link", name="Open the picture alone").get_attribute("href").endswith("model.svg")


def step_of(panel) -> float:
    return float(re.search(r"step ([\d.]+)", panel.locator(".lb-curve__value").inner_text())[1])


def test_a_loss_that_became_nan_says_so_in_its_curve(site, open_page):
    page = open_page(site.run("LogBackward0"), dark=True)

    shown = curves(page)

    assert "NaN" in shown.nth(0).locator(".lb-curve__value").inner_text()


def test_without_scripts_and_on_paper_the_picture_stays(site, open_page):
    url = site.run("torch 2.13.0")
    plain = open_page(url, scripts=False)
    assert plain.locator("img[src$='curves.svg']").is_visible()
    page = open_page(url, dark=True)
    curves(page)
    page.emulate_media(media="print")
    assert page.locator("img[src$='curves.svg']").is_visible() and not page.locator(".lb-curves").is_visible()
    assert not page.locator(".md-header").is_visible() and not page.locator(".lb-bar__steps").is_visible()
    inks = page.evaluate(
        "[...document.querySelectorAll('.md-content p, .md-content li, .md-content td')]"
        ".filter((one) => one.offsetParent && one.innerText.trim())"
        ".map((one) => getComputedStyle(one).color)"
    )
    pale = [ink for ink in set(inks) if contrast_with_white(ink) < 4.5]
    assert inks and not pale, "dark letters on paper, although the screen was dark"


def contrast_with_white(color: str) -> float:
    """Contrast ratio of an `rgb(...)` color on white paper, 1 to 21.

    Source: WCAG 2.2, relative luminance and contrast ratio; 4.5 is the least for body text (1.4.3).
    """
    channels = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


def test_a_run_page_is_light(site, open_page):
    """Bytes as they go over the wire, text compressed: the page before anybody scrolls, and all scripts."""
    page = open_page(fresh=True)
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    sizes: dict[str, int] = {}
    names: dict[str, str] = {}
    session.on("Network.responseReceived", lambda e: names.update({e["requestId"]: e["response"]["url"]}))
    session.on("Network.loadingFinished", lambda e: sizes.update({e["requestId"]: int(e["encodedDataLength"])}))

    page.goto(site.run("torch 2.13.0"), wait_until="networkidle")
    curves(page)
    page.wait_for_load_state("networkidle")

    everything = {names[key].removeprefix(site.url): size for key, size in sizes.items() if key in names}
    # The search comes behind, when the page stands still.
    seen = {url: size for url, size in everything.items() if not url.startswith("search/")}
    entries = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/search/'))"
    begun = page.evaluate(f"Math.min(...{entries}.map((one) => one.startTime))")
    assert begun > page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") + 400
    scripts = sum(size for url, size in seen.items() if url.endswith(".js"))
    assert not [url for url in seen if "sitemap" in url], "what grows with the notebook is not loaded"
    first = sum(size for url, size in seen.items() if not url.endswith((".js", ".csv")) and "uPlot" not in url)
    assert first < 60_000, seen
    assert scripts < 150_000 and seen["assets/vendor/uPlot/uPlot.iife.min.js"] < 30_000


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)], ids=["light", "dark"])
def test_a_run_fits_a_phone(site, open_page, dark):
    page = open_page(site.run("LogBackward0"), width=360, height=740, dark=dark)

    curves(page)

    assert page.evaluate("document.documentElement.scrollWidth") == 360
