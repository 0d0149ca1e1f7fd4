"""The table of runs in a real browser: ten thousand rows, filters and order in the address, keyboard, CSV, phone."""

from __future__ import annotations

import csv
import io
import json

import pytest

GRID = ".lb-grid"
ROWS = ".lb-grid__body .lb-grid__row"


def until(page, expression: str) -> None:
    """Waits until an expression holds; Playwright's own waiting evaluates strings, which the policy forbids."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(expression)


def opened(open_page, site, part="", **more):
    page = open_page(f"{site.url}runs/index.html{part}", **more)
    page.wait_for_selector(ROWS)
    until(page, "!document.querySelector('.lb-notice').textContent.includes('Loading')")
    return page


def count(page) -> int:
    """How many runs the table has, seen or not."""
    return int(page.locator(GRID).get_attribute("aria-rowcount")) - 1


def titles(page) -> list[str]:
    return page.locator(f"{ROWS} .lb-cell a").all_inner_texts()


def column(page, name) -> list[str]:
    heads = page.locator(f"{GRID} [role=columnheader]").all_inner_texts()
    at = next(n for n, head in enumerate(heads) if head.startswith(name))
    rows = page.locator(ROWS).all()
    return [row.locator("[role=gridcell]").nth(at).inner_text() for row in rows[:12]]


@pytest.fixture(scope="module")
def fronts(large_site):
    from labbook.store.text.frontmatter import parse

    found = []
    for path in (large_site.notes / "runs").rglob("*-*-*.md"):
        head = path.read_text(encoding="utf-8").split("\n---\n", 1)[0] + "\n---\n"
        found.append(parse(head, path.name)[0])
    return found


def test_many_runs_in_any_order_of_which_only_some_are_in_the_page(large_site, open_page):
    page = opened(open_page, large_site)

    assert count(page) == large_site.run_count
    assert page.locator(ROWS).count() < 80
    assert not page.locator("#lb-runs-static").is_visible()
    page.locator(GRID).evaluate("grid => { grid.scrollTop = grid.scrollHeight / 2; }")
    first = "document.querySelector('.lb-grid__body .lb-grid__row').ariaRowIndex"
    until(page, f"Number({first}) > {large_site.run_count * 0.4}")
    assert page.locator(ROWS).count() < 80

    # Missing values are the last in both orders.
    head = page.get_by_role("button", name="loss", exact=True)

    head.click()
    rising = [float(text) for text in column(page, "loss")]
    assert rising == sorted(rising), "the smallest loss first"
    assert page.locator("[aria-sort=ascending]").inner_text().startswith("loss")
    page.get_by_role("button", name="loss", exact=True).click()
    falling = [float(text) for text in column(page, "loss")]
    assert falling == sorted(falling, reverse=True) and rising[0] < falling[-1]
    page.locator(GRID).evaluate("grid => { grid.scrollTop = grid.scrollHeight; }")
    until(page, f"document.querySelector('.lb-grid__body').lastChild.ariaRowIndex == '{large_site.run_count + 1}'")
    assert column(page, "loss")[-1] == "NaN"


def test_filters_words_and_conditions(large_site, open_page, fronts):
    page = opened(open_page, large_site)

    page.locator(".lb-chip-button", has_text="failed").click()
    failed = sum(front["status"] == "failed" for front in fronts)
    assert count(page) == failed and set(column(page, "status")) == {"failed"}
    page.get_by_label("Author").select_option("张敏")
    both = sum(front["status"] == "failed" and front["author"] == "张敏" for front in fronts)
    assert count(page) == both and 0 < both < failed
    assert f"{both}" in page.locator(".lb-notice").inner_text().replace("\u202f", "")
    page.get_by_role("button", name="Clear filters").click()
    assert count(page) == large_site.run_count

    query = page.get_by_label("Search runs")
    for text, keep in (
        ("nan", lambda f: "nan" in f"{f['title']} {f['id']}".lower() or "loss_printed_nan" in f["symptoms"]),
        ("loss<=0.3", lambda f: f["metrics"]["loss"]["last"] != "nan" and f["metrics"]["loss"]["last"] <= 0.3),
        ("lr=3.0 status:failed", lambda f: "--lr 3.0" in f["command"] and f["status"] == "failed"),
        ("batch_size<=32 gpu-07", lambda f: f["host"] == "gpu-07" and "--batch-size 64" not in f["command"]),
        ("gpu-99", lambda _: False),
    ):
        query.fill(text)
        assert (0 if page.locator(".lb-none").is_visible() else count(page)) == sum(map(keep, fronts)), text
    assert page.locator(".lb-none").inner_text() == "No run matches these filters."
    query.fill("status:finishd")
    assert "Did you mean status:finished?" in page.locator(".lb-none").inner_text()
    query.fill("status: failed")
    assert "status has no value" in page.locator(".lb-none").inner_text()
    query.fill("loss=<0.3")
    assert count(page) == sum(
        f["metrics"]["loss"]["last"] != "nan" and f["metrics"]["loss"]["last"] <= 0.3 for f in fronts
    )


def test_what_is_chosen_stands_in_the_address_and_back_takes_it_back(large_site, open_page):
    page = opened(open_page, large_site)
    page.locator(".lb-chip-button", has_text="failed").click()
    page.get_by_role("button", name="loss", exact=True).click()
    page.get_by_label("Search runs").press_sequentially("cuda")
    there, shown, rows = page.url, titles(page)[:5], count(page)
    assert "status=failed" in there and "q=cuda" in there and "sort=last%3Aloss" in there

    other = opened(open_page, large_site, there.split("index.html")[1])
    assert titles(other)[:5] == shown and count(other) == rows
    assert other.get_by_label("Search runs").input_value() == "cuda"

    page.go_back()
    assert "q=" not in page.url and count(page) > rows and page.get_by_label("Search runs").input_value() == ""
    page.go_back()
    page.go_back()
    assert count(page) == large_site.run_count and "#" not in page.url
    page.go_forward()
    assert "status=failed" in page.url and set(column(page, "status")) == {"failed"}


def test_a_wide_window_has_the_symptoms_in_view(site, open_page):
    page = open_page(site.url + "runs/index.html", width=1440)
    head = page.locator(f"{GRID} [role=columnheader]", has_text="symptom")
    head.wait_for()
    edge = page.locator(GRID).bounding_box()
    assert head.bounding_box()["x"] + head.bounding_box()["width"] <= edge["x"] + edge["width"]


def test_the_first_click_on_a_metric_has_its_best_runs_first(large_site, open_page):
    page = open_page(large_site.url + "runs/index.html", width=1440)
    for name, best in (("loss", min), ("accuracy", max)):
        page.get_by_role("button", name=name, exact=True).click()
        page.wait_for_timeout(300)
        values = [float(text) for text in column(page, name)]
        assert values[0] == best(values) and values == sorted(values, reverse=best is max)


@pytest.mark.parametrize("width", [1440, 1700, 1920, 2560])
def test_dates_verdicts_and_durations_are_whole_in_any_window(large_site, open_page, width):
    page = open_page(large_site.url + "runs/index.html", width=width)
    page.locator(ROWS).first.wait_for()
    heads = page.locator(f"{GRID} [role=columnheader]").all_inner_texts()
    names = ("started", "verdict", "status", "duration")
    places = [n for n, head in enumerate(heads) if head.strip().startswith(names)]
    assert len(places) == len(names), heads
    cut = page.locator(ROWS).evaluate_all(
        "(rows, at) => rows.flatMap((row) => at.map((n) => row.querySelectorAll('[role=gridcell]')[n]))"
        ".filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.innerText)",
        places,
    )
    assert cut == []
    used = page.locator(GRID).bounding_box()["width"] / width
    assert used > 0.85 or width > 2000


def test_columns_are_chosen(large_site, open_page):
    page = opened(open_page, large_site)
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="machine").check()
    page.get_by_role("checkbox", name="status").uncheck()
    page.keyboard.press("Escape")

    heads = [text.strip(" ↓") for text in page.locator(f"{GRID} [role=columnheader]").all_inner_texts()]
    assert "machine" in heads and "status" not in heads and "cols=" in page.url
    assert column(page, "machine")[0].startswith("gpu-")
    assert page.get_by_role("button", name="Columns").evaluate("b => b === document.activeElement")


def test_by_keyboard_alone_to_a_run_and_to_the_comparison_of_at_most_twenty(large_site, open_page):
    page = opened(open_page, large_site)
    page.locator(GRID).focus()
    for _ in range(22):
        page.keyboard.press("Space")
        page.keyboard.press("ArrowDown")
    assert page.get_by_role("link", name="Compare 20").is_visible()
    assert page.locator(".lb-notice").inner_text() == "At most 20 runs can be compared."
    page.get_by_role("button", name="Clear selection").click()
    assert page.locator("[aria-selected=true]").count() == 0

    page.locator(GRID).focus()
    page.keyboard.press("Home")
    assert page.locator(GRID).get_attribute("aria-activedescendant") == "lb-run-0"
    for key in ("End", "Home", "ArrowDown", "Space", "PageDown", "Space"):
        page.keyboard.press(key)
    active = page.locator(GRID).get_attribute("aria-activedescendant")
    assert active not in ("lb-run-0", "lb-run-1", None)
    assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    box, view = page.locator(f"#{active}").bounding_box(), page.locator(GRID).bounding_box()
    assert view["y"] <= box["y"] and box["y"] + box["height"] <= view["y"] + view["height"] + 1

    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    assert page.locator("#lb-run-1").get_attribute("aria-selected") == "true"
    chosen = page.get_by_role("link", name="Compare 2")
    assert "compare/index.html#runs=" in chosen.get_attribute("href")
    link = page.locator("#lb-run-1 a")
    address = link.evaluate("a => a.href")
    page.locator(GRID).focus()
    page.keyboard.press("Enter")
    page.wait_for_url(address)


def heads(page) -> list[str]:
    return page.locator(f"{GRID} .lb-grid__group").all_inner_texts()


def test_groups_have_a_heading_each_and_fold(large_site, open_page, fronts):
    page = opened(open_page, large_site)
    page.get_by_label("Group").select_option("author")
    authors = {front["author"] for front in fronts}
    assert "group=author" in page.url and count(page) == large_site.run_count + len(authors)
    first = heads(page)[0]
    of_first = [front for front in fronts if first.split("\n")[1] == front["author"]]
    assert f"{len(of_first)} runs" in first and "best" in first

    page.locator(GRID).focus()
    page.keyboard.press("Enter")
    assert count(page) == large_site.run_count + len(authors) - len(of_first)
    page.locator(f"{GRID} .lb-grid__group").first.click()
    assert count(page) == large_site.run_count + len(authors)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert page.locator("[aria-selected=true]").count() == 1, "a heading is no run, the row below it is"

    page = opened(open_page, large_site, "#group=param%3Alr&status=failed")
    runs = [front for front in fronts if front["status"] == "failed"]
    assert count(page) == len(runs) + len({front["command"].split("--lr ")[1].split()[0] for front in runs})
    page.locator(GRID).evaluate("grid => { grid.scrollTop = 0; }")
    assert page.get_by_label("Group").input_value() == "param:lr"


def test_pinned_runs_stay_on_top_in_the_address_and_on_the_next_visit(large_site, open_page):
    page = opened(open_page, large_site)
    titles = page.locator(f"{ROWS} .lb-cell a")
    third = titles.nth(2).evaluate("a => a.href")
    page.locator(".lb-pin").nth(2).click()
    assert titles.first.evaluate("a => a.href") == third and "pin=" in page.url
    assert count(page) == large_site.run_count
    page.get_by_role("button", name="loss", exact=True).click()
    assert titles.first.evaluate("a => a.href") == third, "whatever the order"
    again = opened(open_page, large_site)
    assert again.locator(".lb-pinned").count() == 1
    again.locator(".lb-pin").first.click()
    assert again.locator(".lb-pinned").count() == 0 and "pin=" not in again.url


def test_a_run_is_previewed_with_its_curve_and_commands(site, open_page):
    page = opened(open_page, site, width=1500)
    page.wait_for_selector(".lb-cell .lb-spark path")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    address = page.locator(ROWS, has=page.locator(".lb-spark path")).first.locator("a").evaluate("a => a.href")
    run_id = address.rsplit("/", 1)[1].removesuffix(".html")
    page.locator(ROWS, has=page.locator(f"a[href*='{run_id}']")).hover()
    box = page.locator(".lb-preview")
    box.wait_for()
    assert box.locator(".lb-spark path").count() == 1 and "val_accuracy" in box.inner_text()
    assert box.locator("a").evaluate("a => a.href") == address
    box.get_by_role("button", name="labbook rm").click()
    assert page.evaluate("navigator.clipboard.readText()") == f"labbook rm {run_id}"
    page.keyboard.press("Escape")
    page.mouse.move(5, 5)
    page.locator(GRID).focus()
    page.wait_for_timeout(500)
    assert not box.is_visible()
    page.keyboard.press("v")
    assert box.is_visible()
    page.keyboard.press("v")
    assert not box.is_visible()

    for one in page.locator(f"{ROWS} input").all()[:2]:
        one.check()
    page.locator(".lb-below").get_by_role("button", name="labbook rm").click()
    assert page.evaluate("navigator.clipboard.readText()").count("labbook rm ") == 2


def test_csv_of_what_is_shown_holds_no_formula(site, open_page):
    page = opened(open_page, site)
    evil = "=HYPERLINK(1)"
    page.evaluate(
        "evil => { const fetched = window.fetch; window.fetch = async (...all) => { const a = await fetched(...all);"
        "if (!String(all[0]).includes('2026-11')) return a; const d = await a.json(); d.title[0] = evil;"
        "return new Response(JSON.stringify(d)); }; }",
        evil,
    )
    # The table is made anew from the present data of the page.
    page.evaluate("document.querySelectorAll('#lb-runs > *:not(.lb-home-link)').forEach(part => part.remove())")
    page.add_script_tag(url=f"{site.url}assets/runs.js?again")
    page.wait_for_selector(ROWS)
    with page.expect_download() as got:
        page.get_by_role("button", name="CSV").click()
    text = got.value.path().read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))

    assert len(rows) == count(page) and all(row["id"] for row in rows)
    assert not [cell for row in rows for cell in row.values() if cell and cell[0] in "=+@"]
    assert f"'{evil}" in {row["title"] for row in rows}


def test_hostile_names_are_text_and_every_run_opens(site, open_page):
    page = opened(open_page, site)

    assert any("<script>" in title for title in titles(page))
    index = json.loads((site.folder / "data/runs/index.json").read_text())
    assert count(page) == index["runs"]
    for link in page.locator(f"{ROWS} .lb-cell a").all():
        answer = page.request.get(link.evaluate("a => a.href"))
        assert answer.ok, answer.url


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)])
def test_on_a_phone_runs_are_cards(large_site, open_page, dark):
    page = opened(open_page, large_site, width=360, height=740, dark=dark)

    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator(".lb-card").count() > 5 and not page.locator(".lb-grid__head").is_visible()
    page.get_by_role("button", name="Filters").click()
    page.get_by_label("Sort").select_option("-last:loss")
    assert "sort=-last" in page.url and count(page) == large_site.run_count


def test_without_scripts_and_from_a_disk_the_newest_runs_are_there(large_site, open_page):
    page = open_page(f"{large_site.url}runs/index.html", scripts=False)
    assert page.locator("#lb-runs-static tbody tr").count() == 100

    page = open_page((large_site.folder / "runs" / "index.html").as_uri())
    assert page.locator("#lb-runs-static tbody tr").count() == 100
    assert "labbook serve" in page.locator("#lb-runs").inner_text()
