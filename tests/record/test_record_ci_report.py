"""What `labbook record` tells a CI service: annotations, job summary, Code Quality report; and what it leaves alone."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.model.finding import Finding
from labbook.model.run import CaughtException, Frame, Run
from labbook.record.ci_report import annotation, report_to_ci
from labbook.record.end_summary import FinishedRun
from labbook.store.commit.entry_commit import CommitOutcome
from labbook.store.config import Config

SECRET = "sk-proj-" + "4fT9xQ2mB7vL1cZ8rN3wK6yH5"
CRASH = """import os
print('a result')
path = 'missing, 100%.csv'
token = os.environ['SERVICE_TOKEN']
raise FileNotFoundError(2, 'No such file or directory: ' + token, path)
"""
NAN = "for step in range(1, 4):\n    print(f'step {step} loss: {[0.7, 0.5, float(\"nan\")][step - 1]}')\n"


@pytest.fixture
def actions(book, tmp_path, monkeypatch):
    """Records a program in a folder of a checkout, as a step of GitHub Actions and of GitLab."""
    (book.folder / "src").mkdir()
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    for name, value in {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(book.folder),
        "GITHUB_STEP_SUMMARY": str(summary),
        "CI_PROJECT_DIR": str(book.folder),
        "LABBOOK_CODE_QUALITY_FILE": str(tmp_path / "quality.json"),
        "SERVICE_TOKEN": SECRET,
    }.items():
        monkeypatch.setenv(name, value)

    def run(program: str, *options: str):
        (book.folder / "src" / "train.py").write_text(program)
        done = book("record", *options, "--", sys.executable, "train.py", check=False, cwd=book.folder / "src")
        return done, summary.read_text(), tmp_path / "quality.json"

    return run


def commands(text: str) -> list[re.Match[str]]:
    return list(re.finditer(r"^::(error|warning) ([^\n]*?)::([^\n]*)$", text, re.MULTILINE))


def test_a_crash_is_an_error_at_its_line(actions):
    done, summary, quality = actions(CRASH)

    assert done.returncode == 1 and done.stdout == "a result\n"
    (command,) = commands(done.stderr)
    properties = dict(item.split("=", 1) for item in command[2].split(","))
    assert command[1] == "error" and properties["file"] == "src/train.py" and properties["line"] == "5"
    assert "file_not_found" in unquote(properties["title"])
    message = unquote(command[3])
    assert "missing, 100%.csv" in message and "cause: " in message and "fix: " in message and "notes/runs/" in message

    assert summary.startswith("before\n## src/train.py")
    assert "### Diagnosis" in summary and "**Possible causes:**" in summary and "**Fix:**" in summary
    assert "labbook:begin" not in summary and "](../" not in summary
    (issue,) = json.loads(quality.read_text())
    assert issue["location"] == {"path": "src/train.py", "lines": {"begin": 5}} and issue["severity"] == "critical"
    assert issue["check_name"] in properties["title"] and len(issue["fingerprint"]) == 64
    assert SECRET not in summary + command[0] + quality.read_text()

    # The same failure again is one issue; the second summary follows the first.
    done, summary, quality = actions(CRASH, "--quiet")
    assert not commands(done.stderr) and summary.count("### Diagnosis") == 2
    assert len(json.loads(quality.read_text())) == 1


def test_an_unhealthy_run_is_a_warning(actions):
    done, summary, _ = actions(NAN)
    assert done.returncode == 0
    (command,) = commands(done.stderr)
    assert command[1] == "warning" and "NaN" in unquote(command[0])
    assert "### Diagnosis" in summary


def test_nothing_is_reported_without_need(actions, monkeypatch):
    healthy, summary, quality = actions("print('fine')\n")
    assert not commands(healthy.stderr) and summary == "before\n" and not quality.exists()
    monkeypatch.setenv("LABBOOK_CI_REPORT", "off")
    failed, summary, quality = actions("raise SystemExit(3)\n")
    assert failed.returncode == 3 and not commands(failed.stderr) and summary == "before\n" and not quality.exists()


def test_a_summary_that_cannot_be_written_changes_nothing(actions, monkeypatch, tmp_path):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    (tmp_path / "quality.json").write_text("{ damaged")
    done, _, quality = actions("import sys\nprint('out')\nsys.exit('bad')\n")
    assert done.returncode == 1 and done.stdout == "out\n" and "Traceback" not in done.stderr
    assert len(commands(done.stderr)) == 1 and len(json.loads(quality.read_text())) == 1


def finished(**finding) -> FinishedRun:
    run = Run("20260101-000000-abcd", "failed", ("python", "a.py"), "/w/sub", 0.0, ended=2.0, exit_code=1)
    given = {"symptom": "x", "family": "other", "class_": "c", "tier": 1, "severity": "error", "title": "t", **finding}
    run = replace(run, verdict="failed", findings=(Finding(**given),))
    return FinishedRun(run, Path("notes/a.md"), CommitOutcome("committed", "0" * 40), "notes/a.md")


@given(st.text(), st.text(), st.text(min_size=1).filter(lambda name: "\0" not in name and "/" not in name))
def test_an_annotation_is_one_line_and_nothing_else(title, sentence, name):
    line = annotation(finished(title=title, evidence=(sentence,), where={"file": f"/w/{name}", "line": 7}), "/w")
    assert "\n" not in line and "\r" not in line
    head, properties, _ = re.fullmatch(r"::(error) (.*?)::(.*)", line, re.DOTALL).groups()
    keys = [item.partition("=")[0] for item in properties.split(",")]
    assert head == "error" and keys[-1] == "title" and set(keys) <= {"file", "line", "title"}


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/w/a.py", "file=a.py,"),
        ("b.py", "file=sub/b.py,"),
        ("/elsewhere/c.py", ""),
        ("In[3]", ""),
        ("<string>", ""),
        ("", ""),
    ],
)
def test_paths_are_relative_to_the_checkout(file, shown):
    line = annotation(finished(where={"file": file, "line": 3}), "/w")
    assert line.startswith(f"::error {shown}") and ("file=" in line) == bool(shown)


def test_a_run_that_hung_until_the_job_was_cancelled_is_a_warning(capsys):
    hung = finished(symptom="stalled_no_progress", where={"file": "/w/a.py", "line": 8})
    hung = replace(hung, run=replace(hung.run, status="interrupted", verdict="suspect"))
    report_to_ci(hung, Config(), {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": "/w"})
    assert capsys.readouterr().err.startswith("::warning file=a.py,line=8,")


def test_an_exception_that_no_page_knows_is_shown_at_its_line():
    frames = (Frame("/w/sub/a.py", 4, "load", user=True), Frame("/lib/json.py", 9, "loads"))
    raised = CaughtException("main", "OddError", "b", "?", frames=frames, ended_process=True)
    unknown = finished()
    unknown = replace(unknown, run=replace(unknown.run, findings=(), exceptions=(raised,)))
    assert annotation(unknown, "/w").startswith("::error file=sub/a.py,line=4,title=")


def test_a_withheld_entry_is_not_reported(tmp_path, capsys):
    held = replace(finished(), commit=CommitOutcome("withheld", reason="a secret"))
    summary = tmp_path / "summary.md"
    report_to_ci(
        held,
        Config(),
        {
            "GITHUB_ACTIONS": "true",
            "GITHUB_STEP_SUMMARY": str(summary),
            "LABBOOK_CODE_QUALITY_FILE": str(tmp_path / "quality.json"),
        },
    )
    assert capsys.readouterr() == ("", "") and not list(tmp_path.iterdir())
