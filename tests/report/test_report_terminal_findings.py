"""What stands on the terminal of the health checks."""

from __future__ import annotations

import dataclasses

from labbook.model.finding import EarlierRun, Finding
from labbook.model.message import message
from labbook.model.run import CheckResult
from labbook.report.terminal_findings import finding_lines, visible_findings


def result(check_id, verdict, explained_by="", detail=""):
    return CheckResult(
        check_id, f"title of {check_id}", "", "0.5 of 2", verdict, explained_by=explained_by, detail=detail
    )


def with_checks(runs, *checks):
    return dataclasses.replace(runs["finished"](), checks=checks)


def test_a_healthy_run_says_nothing(runs):
    assert finding_lines(with_checks(runs, result("a", "ok"), result("b", "note"), result("c", "not observed"))) == []


def test_causes_with_their_advice_and_no_effects(runs):
    run = with_checks(
        runs,
        result("effect", "warn", explained_by="cause"),
        result("cause", "warn", detail="Do this."),
        result("a", "ok"),
    )

    assert [check.id for check in visible_findings(run)] == ["cause", "effect"]
    assert finding_lines(run) == ["warn  title of cause: 0.5 of 2", "      Do this."]


def test_chinese_lines_begin_below_each_other(runs):
    fail, advice, warn = finding_lines(
        with_checks(runs, result("a", "fail", detail="Do this."), result("b", "warn")), "zh"
    )
    assert (fail, advice, warn) == ("不通过  title of a：0.5 of 2", "        Do this.", "警告    title of b：0.5 of 2")


def test_what_is_worse_than_its_cause_is_told_below_it(runs):
    run = with_checks(
        runs,
        result("nan", "fail", explained_by="cause"),
        result("more", "fail", explained_by="cause"),
        result("cause", "warn", detail="Do this."),
    )

    assert finding_lines(run) == ["warn  title of cause: 0.5 of 2", "fail  title of nan: 0.5 of 2", "      Do this."]


def test_where_it_is_and_what_cured_it_before(runs):
    place = {"file": f"{runs['finished']().cwd}/train.py", "line": 12, "source": "loss.backward()"}
    seen = (EarlierRun("20261120-100000-aaaa"), EarlierRun("20261119-100000-aaaa", fix="called `zero_grad`", fits=True))
    known = Finding("cause", "loop", "loop", 1, "fail", "a title", where=place, seen_before=seen)
    run = dataclasses.replace(with_checks(runs, result("cause", "fail", detail="Do this.")), findings=(known,))

    assert finding_lines(run) == [
        "fail  title of cause: 0.5 of 2",
        "      train.py:12  loss.backward()",
        "      seen in 20261119-100000-aaaa, fixed there by: called zero_grad",
        "      Do this.",
    ]


def test_what_fixed_a_consequence_is_shown_with_its_cause(runs):
    seen = (EarlierRun("20261119-100000-aaaa", fix="--lr 500 → 0.1", fits=True),)
    known = Finding("nan", "loop", "loop", 1, "fail", "a title", seen_before=seen)
    checks = result("cause", "fail"), result("nan", "fail", explained_by="cause")
    run = dataclasses.replace(with_checks(runs, *checks), findings=(known,))

    assert "      seen in 20261119-100000-aaaa, fixed there by: --lr 500 → 0.1" in finding_lines(run)


def test_the_advice_is_that_of_the_entry_unless_the_check_has_one_for_this_run(runs):
    check = result("nan", "warn", detail="Look around.")
    finding = Finding("nan", "f", "f", 1, "warning", "NaN", fixes=("Guard the logarithm.", "Look around."))
    run = dataclasses.replace(with_checks(runs, check), findings=(finding,))
    assert finding_lines(run)[-1].strip() == "Guard the logarithm."
    advice = message("health.names", names=["Use 0.01."])
    own = dataclasses.replace(check, detail="Use 0.01.", run_messages={"detail": advice})
    assert finding_lines(dataclasses.replace(run, checks=(own,)))[-1].strip() == "Use 0.01."


def test_advice_is_cut_behind_a_sentence(runs):
    run = with_checks(runs, result("a", "warn", detail="First do this. " + "Then that, e.g. 3.5 times. " * 9))
    line = finding_lines(run)[-1]
    assert len(line) < 170 and line.endswith("times.")


def test_many_findings_are_counted_and_long_ones_cut(runs):
    long = dataclasses.replace(result("long", "fail"), observed="x" * 999)
    lines = finding_lines(with_checks(runs, long, *(result(f"c{n}", "warn") for n in range(5))))

    assert len(lines) == 4 and len(lines[0]) <= 160
    assert lines[-1] == "and 3 more findings in the entry"


def test_in_chinese(runs):
    check = dataclasses.replace(
        result("loss_spike", "fail", detail="Clip."),
        observed_message=message("health.loss_spike.one", loss=9.5, step=7, level=0.2),
        page_words={"zh": {"title": "损失没有尖峰", "expected": "", "detail": "裁剪 `grad`。"}},
    )
    lines = ["不通过  损失没有尖峰：第 7 步为 9.5，此前为 0.2", "        裁剪 grad。"]
    assert finding_lines(with_checks(runs, check), "zh") == lines


def test_an_entry_from_before_there_were_messages_is_shown_as_it_is(runs):
    check = result("loss_nonfinite", "fail", detail="Do this.")
    lines = ["不通过  title of loss_nonfinite：0.5 of 2", "        Do this."]
    assert finding_lines(with_checks(runs, check), "zh") == lines
