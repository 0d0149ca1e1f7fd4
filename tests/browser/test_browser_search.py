from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from order_of_tests import in_one_test
from written_notebooks import EVIL

from labbook.errors import LabbookError
from labbook.findings.search_question import interpret_search
from labbook.index.query import search as search_notes
from labbook.publish.search.search_words import search_words
from labbook.store.notebook_finder import find_notebook

TRACEBACK = """Traceback (most recent call last):
  File "/home/wei/project/train.py", line 88, in <module>
    loss = criterion(model(x), y)
  File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward
    return F.linear(input, self.weight, self.bias)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x48 and 32x10)
"""


def asked(page, question: str) -> dict[str, list[str]]:
    """Group -> what it shows, once the answer to a question stands."""
    page.locator(".lbs__box").fill(question)
    page.wait_for_function(
        "question => document.querySelector('.lbs__box').value === question && "
        "document.querySelector('.lbs').dataset.answered === question",
        arg=question,
    )
    return {
        group.locator("h2").inner_text().rsplit(" ", 1)[0]: group.locator(".lbs__item").all_inner_texts()
        for group in page.locator(".lbs__group").all()
    }


@pytest.fixture
def search(site, open_page):
    """The search of the small site, opened by its key."""
    page = open_page(site.url)
    page.keyboard.press("/")
    return page


def test_a_colleague_finds_the_fix_of_a_loss_that_became_nan(site, open_page):
    """In Chinese and English words mixed, from any page, without the mouse."""
    page = open_page(site.run("torch 2.13.0"))
    page.keyboard.press("/")
    page.keyboard.type("loss 变成 NaN")
    page.wait_for_selector(".lbs__group--fix a")

    found = asked(page, "loss 变成 NaN ")

    assert list(found)[:3] == ["Confirmed fixes", "Symptoms", "Runs"]
    assert found["Confirmed fixes"][0].startswith("--lr 3 → 0.2")
    assert found["Symptoms"][0].startswith("NaN or infinite loss") and "--lr 3 → 0.2" in found["Symptoms"][0]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/**")
    assert "LogBackward0" in page.locator(".md-content").inner_text()


def test_words_in_english_and_chinese_and_whole_messages_find_the_symptom(search):
    english = asked(search, "cuda out of memory")
    assert "GPU out of memory" in english["Symptoms"][0]
    chinese = asked(search, "显存不足")
    assert "GPU out of memory" in chinese["Symptoms"][0]
    assert any("训练.py：显存不足" in run for run in chinese["Runs"]), "a run with a Chinese title"
    assert "训练.py：显存不足" in str(asked(search, "批大小"))
    pasted = asked(search, TRACEBACK)
    assert any("linear layer" in symptom.lower() for symptom in pasted["Symptoms"][:2]), pasted["Symptoms"]
    notes = asked(search, "cosine schedules")
    assert notes["Notes, experiments, reports"][0].startswith("Ideas for the next quarter")
    assert len(asked(search, "weight loss plan for two weeks").get("Symptoms", [])) < 2, "no word of a failure"
    assert asked(search, "zzzyx qwkjh") == {}
    assert asked(search, "train timetable qwkjh zzzyx") == {}, "a common word among nonsense"
    assert "No results" in search.locator(".lbs__status").inner_text()


@in_one_test(
    ("question", "title"),
    [
        ("词表越界怎么办", "Embedding index out of range"),
        ("forgot to clear the gradients", "zero_grad"),
        ("忘记清空梯度", "zero_grad"),
        ("学习率设高了", "learning rate too high"),
        ("输入没有归一化", "Inputs not normalised"),
    ],
)
def test_words_with_one_meaning_find_the_same_symptom(search, question, title):
    assert any(title in symptom for symptom in asked(search, question)["Symptoms"][:3])


ASKED = (
    "loss nan", "nan loss", "损失变成nan", "gradient nan", "nan in weights", "zero_grad missing", "梯度没清零",
    "model.eval forgotten", "labels out of range", "标签越界", "rank hangs", "file not found", "random seed",
    "leaf variable", "loss scale", "duplicate samples",
)  # fmt: skip


def test_the_first_symptom_of_a_question_is_that_of_the_terminal(site, search):
    book = find_notebook(site.notes.parent, chosen=site.notes.parent, environ={})
    differs = {}
    for question in ASKED:
        subject = interpret_search(book, question)[1]
        asked(search, question)
        link = search.locator(".lbs__group--symptom .lbs__item").first.get_attribute("href")
        found = link.rsplit("#", 1)[-1].rsplit("/", 1)[-1].removesuffix(".html")
        if found not in subject.symptoms[: subject.equal]:
            differs[question] = (found, subject.symptoms)
    assert not differs, f"{len(differs)} of {len(ASKED)}"


def test_filters_narrow_what_is_found(search):
    everything = asked(search, "loss")
    search.get_by_label("author").select_option("张敏")
    narrowed = asked(search, "显存")
    assert set(narrowed) == {"Runs"} and len(narrowed["Runs"]) == 1
    search.get_by_label("author").select_option("")
    search.get_by_label("status").select_option("finished")
    runs = asked(search, "loss ")
    assert set(runs) == {"Runs"} and len(runs["Runs"]) >= 2 and set(everything) > set(runs)
    assert all("finished" in run for run in runs["Runs"])
    search.get_by_label("status").select_option("")
    search.get_by_label("framework").select_option("paddle")
    assert "digits_paddle.py" in str(asked(search, "digits")["Runs"])


QUESTIONS = (
    "status:failed", "2026-11-20", "2026-11", "before:2026-11-21", "since:2026-11-21", "lr<1", "lr>=3", "--lr",
    "lr:0.2 OR lr:3", "has:fix", "-status:finished author:Wei", "author:张", "val_accuracy>0.5 status:finished",
    "framework:paddle digits", "digits since:2026-11-19", "project:book", "zzz:1", "staus:failed", "lr<high",
    "status:broken",
)  # fmt: skip


def test_an_empty_box_has_examples_and_of_many_values_one_is_typed(search):
    examples = search.locator(".lbs__examples button")
    examples.first.wait_for()
    assert examples.count() > 3
    examples.first.click()
    search.wait_for_selector(".lbs__group--symptom a")
    assert search.locator(".lbs__box").input_value() == "loss is nan" and not examples.count()
    field = search.get_by_label("symptom")
    assert field.evaluate("one => one.tagName") == "INPUT" and search.locator("#lbs-symptom option").count() > 100
    everything = asked(search, "loss")
    field.fill("loss_nonf")
    assert asked(search, "loss ") == everything, "half a name is no filter"
    field.fill("loss_nonfinite")
    assert len(asked(search, "loss")["Symptoms"]) == 1


def test_conditions_and_dates_find_the_same_runs_as_in_the_terminal(site, search):
    book = find_notebook(site.notes.parent, chosen=site.notes.parent, environ={})
    differs = {}
    for question in QUESTIONS:
        try:
            hits = search_notes(book, interpret_search(book, question)[0], 200).hits
            wanted = {Path(hit.path).stem for hit in hits if hit.kind == "run"}
        except LabbookError:
            wanted = set()
        asked(search, question)
        while (more := search.locator(".lbs__group--run .lbs__more")).count():
            more.first.click()
            search.wait_for_timeout(200)
        links = search.locator(".lbs__group--run .lbs__item").evaluate_all("all => all.map((one) => one.pathname)")
        found = {link.rsplit("/", 1)[-1].removesuffix(".html") for link in links}
        if found != wanted:
            differs[question] = (found, wanted)
    assert not differs, f"{len(differs)} of {len(QUESTIONS)}"
    asked(search, "staus:failed")
    assert "status:failed" in search.locator(".lbs__status").inner_text()
    assert asked(search, "digits.py:88 shuffle=True"), "parts of code are words"


def test_the_search_is_used_without_a_mouse(search):
    def focused() -> str:
        return search.evaluate("document.activeElement.classList[0] || document.activeElement.tagName")

    assert focused() == "lbs__box"
    asked(search, "NaN")
    search.keyboard.press("ArrowDown")
    search.keyboard.press("ArrowDown")
    assert focused() == "lbs__item"
    search.keyboard.press("End")
    search.keyboard.press("Home")
    search.keyboard.press("ArrowUp")
    assert focused() == "lbs__box"
    for _ in range(40):
        search.keyboard.press("Tab")
        assert search.evaluate("document.activeElement === document.body || !!document.activeElement.closest('.lbs')")
    search.keyboard.press("Escape")
    assert not search.locator(".lbs").is_visible()
    assert search.evaluate("document.querySelector('.lbs').open") is False
    search.keyboard.press("Control+k")
    assert search.locator(".lbs").is_visible()
    asked(search, "NaN")
    search.keyboard.press("ArrowDown")
    search.keyboard.type(" loss")
    assert search.locator(".lbs__box").input_value() == "NaN loss", "whoever goes on typing loses no space"


def test_what_is_hostile_is_shown_as_text(site, open_page, search):
    found = str(asked(search, "window.pwned onload"))
    assert "<script>window.pwned=1</script>" in found
    assert search.locator(".lbs script, .lbs img, .lbs svg").count() == 0
    for payload in (EVIL, '"><img src=x onerror=window.pwned=6>', "javascript:window.pwned=7"):
        page = open_page(f"{site.url}?q={payload}")
        page.wait_for_selector(".lbs[data-answered]")
        assert page.locator(".lbs__box").input_value() == payload[:5000]
        assert page.locator(".lbs script, .lbs img, .lbs svg").count() == 0


def test_the_browser_and_the_index_mean_the_same_words(search):
    texts = [
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x48 and 32x10)",
        "loss 变成 NaN，显存不足; 損失。学",
        "torch.OutOfMemoryError DataLoader num_workers=4 at 0x7f3a9c00 deadbeef12 3e-4 1e10",
        "ﬁle ＮａＮ LayerNorm2d conv2d a I ＣＵＤＡ",
        "out of memory, 12 GiB; v1:eb836c3a466e4814",
        TRACEBACK,
        EVIL,
    ]
    theirs = search.evaluate("texts => texts.map((text) => window.labbookSearch.wordsOf(text))", texts)
    assert json.dumps(theirs) == json.dumps([search_words(text) for text in texts])

    # A long message is asked by what it says.
    terms = search.evaluate("text => window.labbookSearch.termsOf(text)", TRACEBACK)
    assert terms[:4] == ["runtime", "error", "mat1", "mat2"]
    assert "home" not in terms and "opt" not in terms and len(terms) <= 14


def test_many_runs_are_searched_with_few_bytes(large_site, open_page):
    page = open_page(fresh=True)
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    sizes: dict[str, float] = {}
    names: dict[str, str] = {}
    session.on("Network.responseReceived", lambda e: names.update({e["requestId"]: e["response"]["url"]}))
    session.on("Network.loadingFinished", lambda e: sizes.update({e["requestId"]: e["encodedDataLength"]}))
    page.goto(large_site.url + "runs/index.html", wait_until="networkidle")

    page.keyboard.press("/")
    page.wait_for_load_state("networkidle")
    found = asked(page, "loss 变成 NaN")
    page.wait_for_load_state("networkidle")

    assert found["Confirmed fixes"][0].startswith("--lr 3.0 → 0.1") and len(found["Runs"]) == 5
    assert re.search(r"× \d", found["Confirmed fixes"][0]), "the same fix of the same symptom is one line"
    assert len(set(found["Confirmed fixes"])) == len(found["Confirmed fixes"])
    fetched = sum(size for key, size in sizes.items() if "/search/" in names.get(key, ""))
    assert 5 * large_site.run_count < fetched < 600_000
    assert "2026-11" in found["Runs"][0], "the newest month first"
    page.get_by_role("button", name="Also search older runs").click()
    page.wait_for_function("document.querySelectorAll('.lbs__group--run .lbs__item').length >= 5")


def test_a_site_on_a_disk_says_what_the_search_needs(site, open_page):
    page = open_page(f"file://{site.folder}/index.html")
    page.keyboard.press("/")
    assert "labbook serve" in page.locator(".lbs__status").inner_text()


def test_a_site_in_a_folder_of_a_server_is_searched(site, open_page, serve, tmp_path):
    """Addresses are relative: the same files work below any folder."""
    (tmp_path / "team" / "x").mkdir(parents=True)
    (tmp_path / "team" / "x" / "book").symlink_to(site.folder)
    with serve(tmp_path) as url:
        page = open_page(f"{url}team/x/book/symptoms/index.html")
        page.keyboard.press("/")
        asked(page, "NaN")
        page.locator(".lbs__item").first.click()
        page.wait_for_url("**/team/x/book/runs/**")
        assert page.locator(".md-content h1").is_visible()
