"""The last lines of `labbook record`, in the language of the notebook: status, verdict, result, entry, commit."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from labbook.model.run import CaughtException, CheckResult, Process, Run
from labbook.model.series import Series
from labbook.record.end_summary import FinishedRun
from labbook.report.entry.configuration_section import resources_section
from labbook.report.run_data import add_verdict
from labbook.store.commit.entry_commit import CommitOutcome

OUTCOMES = [
    CommitOutcome("committed", "0123456789abcdef"),
    CommitOutcome("unchanged"),
    CommitOutcome("off", reason="commits are switched off"),
    CommitOutcome("off"),
    CommitOutcome("queued", reason="the branch kept moving"),
]


def summary(language, commit, status="finished"):
    run = Run("20260101-000000-abcd", status, ("python", "a.py"), "/w", 0.0, asked={"stopped": {
        "option": "stop-on", "expression": "", "step": 3}}, ended=2.0, exit_code=0)  # fmt: skip
    return FinishedRun(add_verdict(run), Path("notes/a.md"), commit, "notes/a.md", language).summary()


@pytest.mark.parametrize("commit", OUTCOMES, ids=lambda outcome: f"{outcome.status}-{bool(outcome.reason)}")
@pytest.mark.parametrize("status", ["finished", "interrupted"])
def test_chinese_lines_contain_no_english(commit, status):
    known = r"notes/a\.md|--stop-on|012345678|\d+(\.\d+)? s"
    for line in summary("zh", commit, status):
        assert re.search(r"[a-zA-Z]", re.sub(known, "", line)) is None, line


def test_english_lines():
    assert summary("en", OUTCOMES[0]) == [
        "finished after 2 s, verdict unknown (no training step was observed): no metric recorded",
        "         ended by --stop-on after step 3",
        "         notes/a.md  committed as 012345678",
    ]


@pytest.mark.parametrize(("role", "shown"), [("child", True), ("main", False)])
def test_programs_of_a_shell_that_failed_are_counted_though_the_command_went_well(role, shown):
    command = ("python", "a.py")
    raised = CaughtException("main", "RuntimeError", "builtins", "Half and Float", pid=2, ended_process=True)
    run = Run(
        "20260101-000000-abcd", "finished", ("sh", "a.sh"), "/w", 0.0, ended=2.0, exit_code=0, exceptions=(raised,),
        processes=(Process(2, 1, command, "child"), Process(3, 1, command, role, steps=9)),
    )  # fmt: skip
    lines = FinishedRun(add_verdict(run), Path("notes/a.md"), OUTCOMES[0], "notes/a.md", "en").summary()
    line = "2 Python programs ended with an error; the last of them: RuntimeError: Half and Float"
    assert any(line in one for one in lines) == shown
    rows = resources_section(run)["processes"]
    assert [row["error"] for row in rows] == ["RuntimeError" if shown else "", ""]


ACCURACY = Series("val_acc", "text", (1, 2), (0.5, 0.75))
RUN = Run(
    "i", "finished", ("python", "a.py"), "/w", 0.0, ended=12.0, exit_code=0, series=(ACCURACY,),
    processes=(Process(1, 0, ("python", "a.py"), "main", steps=40),),
    checks=(CheckResult("loss_seen", "", "", "", "ok"),),
)  # fmt: skip
WARNED = CheckResult("x", "Loss falls", "", "", "warn")


@pytest.mark.parametrize(
    ("fields", "english", "chinese"),
    [
        (
            {},
            "finished after 12 s, healthy: val_acc 0.5 → 0.75 in 40 steps",
            "用时 12 s，健康：val_acc",
        ),
        (
            {"checks": (*RUN.checks, WARNED)},
            "finished after 12 s, suspect (Loss falls): val_acc",
            "12 s，可疑",
        ),
        (
            {"checks": (replace(WARNED, verdict="fail"),)},
            "finished after 12 s, unhealthy: ",
            "12 s，不健康：",
        ),
        (
            {"processes": ()},
            "verdict unknown (no training step was observed): ",
            "没有观察到训练步",
        ),
        ({"status": "failed", "exit_code": 2}, "failed after 12 s: exit code 2", "失败，用时 12 s：退出码 2"),
    ],
)
def test_the_first_line(fields, english, chinese):
    run = add_verdict(replace(RUN, **fields))
    for language, expected in (("en", english), ("zh", chinese)):
        done = FinishedRun(run, Path("notes/a.md"), CommitOutcome("unchanged"), "notes/a.md", language)
        assert expected in done.summary()[0]
