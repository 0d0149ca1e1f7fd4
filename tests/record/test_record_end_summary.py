"""The last lines of `labbook record`, in the language of the notebook."""

import re
from pathlib import Path

import pytest

from labbook.model.run import Run
from labbook.record.end_summary import FinishedRun
from labbook.store.entry_commit import CommitOutcome

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
    return FinishedRun(run, Path("notes/a.md"), commit, "notes/a.md", language).summary()


@pytest.mark.parametrize("commit", OUTCOMES, ids=lambda outcome: f"{outcome.status}-{bool(outcome.reason)}")
@pytest.mark.parametrize("status", ["finished", "interrupted"])
def test_chinese_lines_contain_no_english(commit, status):
    known = r"notes/a\.md|--stop-on|012345678|\d+(\.\d+)? s"
    for line in summary("zh", commit, status):
        assert re.search(r"[a-zA-Z]", re.sub(known, "", line)) is None, line


def test_english_lines():
    assert summary("en", OUTCOMES[0]) == [
        "finished after 2 s: no metric recorded",
        "         ended by --stop-on after step 3",
        "         notes/a.md  committed as 012345678",
    ]
