"""A short run has many rows that nobody could observe: one reason is given once, in both languages."""

from dataclasses import replace

import pytest

from labbook.model.message import message
from labbook.model.run import CheckResult
from labbook.model.run_files import FileUse
from labbook.report.entry.entry_page import entry_markdown
from labbook.report.entry.merged_rows import merge_unobserved

REASON = "not observed: no optimizer step was seen"


def row(name, observed=REASON, verdict="not observed"):
    return {"id": name, "observed": observed, "verdict": verdict, "expected": "something"}


def test_rows_of_one_reason_are_one():
    found = merge_unobserved(
        [row("a"), row("b", "fine", "ok"), row("c"), row("d", "not observed: another reason"), row("e")]
    )
    assert [[one["id"] for one in each["members"]] for each in found] == [["a", "c", "e"], ["b"], ["d"]]
    assert found[0]["expected"] == "" and found[1]["expected"] == "something"


def test_two_rows_stay_two():
    assert len(merge_unobserved([row("a"), row("b")])) == 2


@pytest.mark.parametrize(
    ("language", "cell", "below"),
    [
        ("en", "| 6 checks |  | not observed", "- **6 checks**: c0, c1, c2"),
        ("zh", "| 6 项检查 |  | 未观察到", "- **6 项检查**：c0、c1"),
    ],
)
def test_the_names_of_many_checks_are_below_the_table(runs, notebook, language, cell, below):
    reason = message("health.not_observed.because", reason=message("health.not_observed.no_step"))
    checks = tuple(
        CheckResult(f"c{i}", f"c{i}", "x", REASON, "not observed", observed_message=reason) for i in range(6)
    )
    spoken = replace(notebook, config=replace(notebook.config, language=language))
    page = entry_markdown(replace(runs["crashed"](), checks=checks), spoken)
    assert cell in page and below in page


@pytest.mark.parametrize(
    ("language", "cell"),
    [
        ("en", "| initial loss, learning rate, seeds |  | not observed: no"),
        ("zh", "| 初始损失、学习率、随机种子 |  | 未观察到：没有看到优化器更新 |"),
    ],
)
def test_the_entry_tells_the_reason_once(runs, notebook, language, cell):
    names = {"init_loss_off": "初始损失", "learning_rate_seen": "学习率", "seeds_set": "随机种子"}
    titles = {"init_loss_off": "initial loss", "learning_rate_seen": "learning rate", "seeds_set": "seeds"}
    reason = message("health.not_observed.because", reason=message("health.not_observed.no_step"))
    checks = tuple(
        CheckResult(
            *(key, title, "x", REASON, "not observed"),
            observed_message=reason,
            page_words={"zh": {"title": names[key], "expected": "x"}},
        )
        for key, title in titles.items()
    )
    run = replace(runs["crashed"](), checks=checks)
    spoken = replace(notebook, config=replace(notebook.config, language=language))
    page = entry_markdown(run, spoken)
    assert cell in page and page.count("no optimizer step was seen") + page.count("没有看到优化器") <= 2


def test_the_checks_that_are_ok_are_counted_with_those_that_are_not_listed(runs, notebook):
    ok = [CheckResult(f"c{i}", f"c{i}", "x", "fine", "ok") for i in range(2)]
    counts = message("health.other_checks.counts", passed=23, unseen=5)
    further = CheckResult("other_checks", "Further checks", "", "23 ok, 5 not observed", "ok", observed_message=counts)
    page = entry_markdown(replace(runs["finished"](), checks=(*ok, further)), notebook)
    assert "<summary>25 checks, all ok</summary>" in page


@pytest.mark.parametrize(("call", "columns"), [("", 5), ("all_reduce", 6)])
def test_ranks_have_a_column_of_places_only_where_one_is_known(runs, notebook, call, columns):
    rows = [{"rank": n, "host": "a", "status": "finished", "steps": 9, "step_s": 0.1} for n in range(2)]
    rows[1]["call"] = call
    run = replace(runs["crashed"](), captured={"ranks": {"rows": rows, "world": 2}})
    lines = entry_markdown(run, notebook).split("## Ranks")[1].strip().splitlines()[:4]
    assert [line.count("|") - 1 for line in lines] == [columns] * 4


@pytest.mark.parametrize(("count", "name"), [(2, "tmp_7a/step-0.pt, tmp_7a/step-1.pt"), (9, "tmp_7a/step-*.pt")])
def test_files_that_were_deleted_again_are_counted_in_one_line(runs, notebook, count, name):
    """With those that were read before, and those of whole folders; only numbers that differ become a star."""
    gone = [FileUse(f"tmp_7a/step-{n}.pt", "written", 0, reason="gone") for n in range(count)]
    gone += [
        FileUse("old/", "written", -1, members=40, reason="gone"),
        FileUse("z.pt", "read and written", -1, reason="gone"),
    ]
    run = replace(runs["crashed"](), files=(FileUse("best.pt", "written", 9), *gone), artifacts=(), parents=())
    section = entry_markdown(run, notebook).split("## Inputs and outputs")[1].split("\n## ")[0]
    assert section.count(" | written | ") == 1
    assert f"{count + 41} files were written and deleted again: `old/, {name}, z.pt`" in section


@pytest.mark.parametrize(("count", "rows"), [(4, 5), (12, 2)])
def test_files_that_differ_only_in_numbers_are_one_row_where_they_are_many(runs, notebook, count, rows):
    files = [FileUse(f"ck/epoch={n}-loss={n / 9:.2f}.ckpt", "written", 1024, f"sha256:{n}") for n in range(count)]
    run = replace(runs["crashed"](), files=(FileUse("best.pt", "written", 9), *files), artifacts=(), parents=())
    section = entry_markdown(run, notebook).split("## Inputs and outputs")[1].split("\n## ")[0]
    assert section.count(" | written | ") == rows
    assert ("| `ck/epoch=*-loss=*.ckpt` (12 files) | written | 12 KiB |" in section) == (count == 12)
