"""`labbook fix` and a symptom question as a user types them; a script without a framework, so that it is quick."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

SCRIPT = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=3)
rows = list(range(parser.parse_args().rows))
print("loss:", 1 / rows[5])
"""
PASTED = """Traceback (most recent call last):
  File "/x/train.py", line 7, in <module>
    print("loss:", 1 / rows[5])
IndexError: list index out of range
"""


def test_a_proposal_is_confirmed_found_by_a_pasted_error_and_taken_back(project):
    (project.folder / "train.py").write_text(SCRIPT)
    project.record(sys.executable, "train.py", check=False)
    failed = project.run()["id"]
    done = project.record(sys.executable, "train.py", "--rows", "9")
    by = project.run()["id"]
    assert f"may have fixed {failed}: --rows 3 → 9" in done.stderr

    seen = json.loads(project("fix", "last", "--json").stdout)
    assert (seen["status"], seen["run"], seen["by"], seen["text"]) == ("confirmed", failed, by, "--rows 3 → 9")
    assert seen["committed"] == "committed" and any(file.endswith(f"{failed}.md") for file in seen["files"])
    assert project.run(failed)["fix"] == by
    assert f"fixed in {by}: --rows 3 → 9" in project("diagnose", failed).stdout

    found = project("search", "IndexError: list index out of range").stdout
    assert failed in found and "fixed by --rows 3 → 9" in found
    asked = [sys.executable, "-m", "labbook", "search", "-", "--json"]
    done = subprocess.run(asked, input=PASTED, cwd=project.folder, capture_output=True, text=True, timeout=100)
    first = json.loads(done.stdout)[0]
    assert failed in first["path"] and first["why"] == "same fingerprint"
    assert (first["fix"], first["fix_text"], first["held"]) == (by, "--rows 3 → 9", 0)

    for arguments, code, says in (
        (["zzzz"], 1, "no run"),
        ([failed, "--by", failed], 2, "cannot fix itself"),
        (["last", "--reject", "-m", "x"], 2, "--reject"),
        ([failed], 2, "already recorded"),
    ):
        done = project("fix", *arguments, check=False)
        assert done.returncode == code and says in done.stderr and "Traceback" not in done.stderr
    assert "is not the fix" in project("fix", failed, "--reject").stdout
    assert project.run(failed)["fix"] == ""


def test_the_question_shows_what_differs_and_the_answer_is_the_fix(project, git):
    (project.folder / "train.py").write_text(SCRIPT)
    project.record(sys.executable, "train.py", check=False)
    failed = project.run()["id"]
    project.record(sys.executable, "train.py", "--rows", "9")
    git(project.folder, "commit", "-qam", "code")

    ours, theirs = pty.openpty()
    asked = [sys.executable, "-m", "labbook", "fix", "last"]
    process = subprocess.Popen(asked, cwd=project.folder, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    os.write(ours, b"print more rows\n")
    assert process.wait(100) == 0
    shown = os.read(ours, 100_000).decode()
    os.close(ours)

    assert f"The failure of {failed} is gone" in shown and "--rows 3 \u2192 9" in shown
    assert "print more rows" in project.entry(failed)
    assert "notes/symptoms" not in git(project.folder, "status", "--porcelain", "-uall")
    assert "used more rows" in project("fix", failed, "--yes", "-m", "used more rows").stdout


def test_a_fix_is_one_for_its_project_only(project, tmp_path):
    """Two projects with a `train.py` in one notebook: no experiment, no previous run and no proposal in common."""
    runs = []
    for name, rows in (("one", 3), ("two", 9)):
        folder = tmp_path / name
        (folder / ".git").mkdir(parents=True)
        (folder / "train.py").write_text(SCRIPT.replace("default=3", f"default={rows}"))
        command = ("record", "--notebook", str(project.folder), "--", sys.executable, "train.py")
        runs.append(project(*command, cwd=folder, check=False).stderr)
        seen = project.run()
        assert (seen["project"], seen["previous"]) == (str(folder), "")

    assert "exp001_train_dynamic" in runs[0] and "exp002_two-train_dynamic" in runs[1]
    assert "may have fixed" not in runs[1]


def test_a_failure_without_a_page_is_shown_its_fix_when_it_comes_back(project):
    (project.folder / "train.py").write_text(
        "import sys\n"
        "class QuotaError(Exception): pass\n"
        "limit = int(sys.argv[2])\n"
        'if limit < 120: raise QuotaError(f"120 clicks are more than {limit}")\n'
        'if limit > 500: raise QuotaError("no such plan")\n'
    )
    project.record(sys.executable, "train.py", "--limit", "100", check=False)
    failed = project.run()
    assert failed["symptoms"] == [] and len(failed["fingerprints"]) == 1
    project.record(sys.executable, "train.py", "--limit", "150")
    project("fix", "last", "--yes")
    fix = f"seen in {failed['id']}, fixed there by: --limit 100 → 150"
    assert fix in project.record(sys.executable, "train.py", "--limit", "90", check=False).stderr
    assert "fixed by --limit 100 → 150" in project.entry()
    other = project.record(sys.executable, "train.py", "--limit", "900", check=False)
    assert "fixed there by" not in other.stderr and "no such plan" in other.stderr
