"""The first line on the terminal says status, verdict and result, in both languages."""

from dataclasses import replace
from pathlib import Path

import pytest

from labbook.model.run import CheckResult, Process, Run
from labbook.model.series import Series
from labbook.record.end_summary import FinishedRun
from labbook.report.run_data import judged
from labbook.store.entry_commit import CommitOutcome

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
    run = judged(replace(RUN, **fields))
    for language, expected in (("en", english), ("zh", chinese)):
        done = FinishedRun(run, Path("notes/a.md"), CommitOutcome("unchanged"), "notes/a.md", language)
        assert expected in done.summary()[0]
