"""Reruns of real runs, of a program without a framework so that they are quick."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
from order_of_tests import further

from labbook.rerun.recorded_code import _raise_on_sigterm
from labbook.rerun.rerun_run import _recorded_stop

PROGRAM = """
import argparse, random, model
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--noise", type=float, default=0.0)
args = parser.parse_args()
start = float(open("data/start.txt").read())
for epoch in range(4):
    print(f"epoch {epoch} val_loss: {start * model.factor() ** epoch * args.lr + args.noise * random.random():.17g}")
open("weights.npy", "w").write(str(start))
"""

pytestmark = pytest.mark.process


@pytest.fixture
def code(project, git):
    folder = project.folder
    (folder / "train.py").write_text(PROGRAM)
    (folder / "model.py").write_text("def factor():\n    return 0.5\n")
    with (folder / ".gitignore").open("a") as ignored:
        ignored.write("data/\n*.npy\n__pycache__/\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "code")
    (folder / "data").mkdir()
    (folder / "data" / "start.txt").write_text("3.0")
    (folder / "model.py").write_text("def factor():\n    return 0.25\n")
    return folder


def verdict(done):
    return done.stdout.splitlines()[-6:]


def test_uncommitted_code_and_ignored_data_give_the_same_result(project, code, git):
    project("record", "--", "python", "train.py", "--lr", "0.5")
    (code / "model.py").write_text("def factor():\n    return 0.9\n")
    before = git(code, "status", "--porcelain")

    done = project("reproduce", "last")

    assert "Bitwise identical." in done.stdout and "1 written file has equal contents." in done.stdout
    assert git(code, "status", "--porcelain") == before
    assert len(git(code, "worktree", "list").splitlines()) == 1
    entries = sorted(code.glob("notes/runs/*/*/*/*.md"))
    assert len(entries) == 2
    assert f"         {entries[1].relative_to(code).as_posix()}  " in done.stderr
    assert all("reproduction: identical" in entry.read_text() for entry in entries)
    assert f"rerun_of: {entries[0].stem}" in entries[1].read_text()
    assert "branch:" not in entries[1].read_text().partition("## Changes")[2].partition("\n## ")[0]


@pytest.mark.parametrize(("place", "started_in"), [("code", "data"), ("sub/code", ".")])
def test_a_program_started_outside_of_its_repository_runs_again(project, git, place, started_in):
    """As in `cd data && python ../code/train.py`, and a script in a submodule."""
    code, folder = project.folder / place, project.folder / started_in
    for each in (code, folder):
        each.mkdir(parents=True, exist_ok=True)
    git(project.folder, "clone", "-q", ".", str(code))
    for key in ("name", "email"):
        git(code, "config", f"user.{key}", "wei@example.com")
    (code / "train.py").write_text("import sys\nprint('val_loss:', open(sys.argv[1]).read())\n")
    git(code, "add", "-A")
    git(code, "commit", "-qm", "code")
    (folder / "start.txt").write_text("3.0")
    project("record", "--", "python", os.path.relpath(code / "train.py", folder), "start.txt", cwd=folder)
    (code / "train.py").write_text("raise SystemExit('another version')\n")

    assert "Identical in all printed digits." in project("reproduce", "last").stdout
    assert len(git(code, "worktree", "list").splitlines()) == 1


def test_a_rerun_in_a_container_records_the_command_alone(project, code, tmp_path):
    project("record", "--", "python", "train.py")
    (data,) = code.glob("notes/runs/*/*/*/*/run.json")
    run = json.loads(data.read_text())
    run["captured"]["container"] = {"kind": "docker", "image": "team/train:7"}
    data.write_text(json.dumps(run))
    engine = tmp_path / "engines" / "docker"
    engine.parent.mkdir()
    engine.write_text(
        '#!/bin/sh\n[ "$1" = info ] && exit 0\nwhile [ "$1" != team/train:7 ]; do shift; done\nshift\nexec "$@"\n'
    )
    engine.chmod(0o755)

    project("rerun", "last", "--rebuild", env={**os.environ, "PATH": f"{engine.parent}:{os.environ['PATH']}"})

    *_, again = sorted(code.glob("notes/runs/*/*/*/*/run.json"))
    found = json.loads(again.read_text())
    assert (found["argv"], found["rerun_of"]) == (run["argv"], run["id"])
    assert found["captured"]["container"]["image"] == "team/train:7"
    assert [change for change in found["changes"] if change["kind"] in ("argument", "code", "hardware")] == []


def test_changed_data_is_told_before_and_after(project, code):
    project("record", "--", "python", "train.py")
    (code / "data" / "start.txt").write_text("4.0")
    done = project("reproduce", "last", check=False)
    assert done.returncode == 1
    assert "an input has changed since: data/start.txt" in done.stderr
    assert "First difference: val_loss at step 0" in done.stdout and "Another input: data/start.txt" in done.stdout


def test_a_rerun_of_a_rerun_has_the_data_of_the_first_run_by_the_same_path(project, code):
    project("record", "--", "python", "train.py")
    project("rerun", "last")
    project("rerun", "last", "--", "--lr", "0.5")
    first, again = (json.loads(path.read_text()) for path in sorted(code.glob("notes/runs/*/*/*/*/run.json"))[1:])
    for run in (first, again):
        assert "data/start.txt" in [row["path"] for row in run["files"]]
        assert not [change for change in run["changes"] if change["kind"] == "input"]
    (code / "data" / "start.txt").write_text("4.0")
    assert "an input has changed since: data/start.txt" in project("rerun", "last").stderr


def test_options_are_added_and_the_status_is_that_of_the_command(project, code):
    project("record", "--", "python", "train.py")
    assert "val_loss: 6" in project("rerun", "last", "--", "--lr", "2").stdout
    assert project("rerun", "last", "--", "--unknown", check=False).returncode == 2


@pytest.mark.parametrize(
    ("stopped", "option"),
    [
        ({"option": "max-steps", "step": 120, "expression": ""}, "max_steps"),
        ({"option": "stop-on", "step": 7, "expression": "loss > 3"}, "stop-on"),
        (None, None),
    ],
)
def test_a_run_that_was_stopped_is_stopped_again(stopped, option):
    requests = _recorded_stop({"asked": {"stopped": stopped}})
    assert list(requests) == ([option] if option else [])
    assert requests.get("max_steps", 120) == 120


def test_sigterm_lets_the_worktree_be_removed():
    removed = []
    with pytest.raises(SystemExit, match="143"), _raise_on_sigterm():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        finally:
            removed.append(True)
    assert removed and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("harm", ["patch", "data", "running", *further("commit", "masked")])
def test_what_cannot_be_run_again_is_told(project, code, harm):
    secret = "sk-" + "abcdefghij0123456789" * 2
    extra = ["--api-key", secret] if harm == "masked" else []
    project("record", "--", "python", "train.py", *extra, check=False)
    (entry,) = code.glob("notes/runs/*/*/*/*.md")
    facts = entry.with_suffix("") / "run.json"
    if harm == "commit":
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=code, capture_output=True, text=True).stdout.strip()
        facts.write_text(facts.read_text().replace(head, "0" * 40))
    elif harm == "patch":
        patch = entry.with_suffix("") / "changes.patch"
        patch.write_text(patch.read_text().replace("return 0.5", "return 0.7"))
    elif harm == "data":
        facts.write_text("{")
    elif harm == "running":  # its entry is there, and has no data yet
        facts.unlink()
        entry.write_text(entry.read_text().replace("status: finished", "status: running"))
    done = project("rerun", "last", check=False)
    seen = {
        "commit": "is in no repository here",
        "patch": "does not apply",
        "masked": "masked",
        "data": "cannot be read",
        "running": "has not ended",
    }
    assert done.returncode != 0 and seen[harm] in done.stderr and "Traceback" not in done.stderr


BISECTED = """
import argparse, model, settings
parser = argparse.ArgumentParser()
for name in ("lr", "width", "depth", "seed", "drop"):
    parser.add_argument("--" + name, type=float, default=1.0)
args = parser.parse_args()
{comment}
value = settings.BASE * model.factor(args.width) + 0.001 * (args.width + args.depth + args.seed + args.drop)
print(f"epoch 1 val_loss: {{value:.17g}}")
"""


def test_the_guilty_line_is_found_among_innocent_differences(project, git):
    folder = project.folder
    # Both versions of a module have the same size, and may be of the same second: bytecode of the first would run.
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("good", "bad"):
        bad = name == "bad"
        (folder / "train.py").write_text(BISECTED.format(comment="# tidied" if bad else "# as it was"))
        (folder / "settings.py").write_text("# the base\n" * 3 * bad + "BASE = 1.0\n" + "EXTRA = 2\n" * bad)
        lines = [
            "def factor(width):",
            f"    scale = {5.0 if bad else 1.0}",
            f"    near = {int(bad)}",
            "    # b",
            "    return scale",
        ]
        (folder / "model.py").write_text("\n".join([*lines, "", *(["NAME = 'b'"] if bad else ["NAME = 'a'"]), ""]))
        git(folder, "add", "train.py", "settings.py", "model.py")
        git(folder, "commit", "-qm", name)
        options = ("--width", "2", "--depth", "3", "--seed", "4") if bad else ("--drop", "2")
        project("record", "--", "python", "train.py", *options, env=environ)
    # Two runs of one second are not in the order of their ids.
    entries = sorted(folder.glob("notes/runs/*/*/*/*.md"), key=lambda path: path.stat().st_mtime_ns)
    ids = [path.stem for path in entries]

    before = git(folder, "status", "--porcelain")
    done = project("bisect", ids[0], ids[1])

    assert "model.py:2: scale = 1.0 → scale = 5.0\n" in done.stdout
    assert "9 differences to search" in done.stderr and "with 4 runs" in done.stdout
    assert (
        "## Bisection"
        in (folder / "notes" / "runs" / f"{ids[1][:4]}").joinpath(ids[1][4:6], ids[1][6:8], f"{ids[1]}.md").read_text()
    )
    assert git(folder, "status", "--porcelain") == before


@pytest.mark.parametrize("command", ["bisect", "reproduce"])
def test_a_signal_ends_the_series_and_not_one_run_alone(project, git, tmp_path, command):
    folder, slow = project.folder, tmp_path / "slow"
    (folder / "train.py").write_text(
        "import os, signal, sys, time\nprint('loss: 1.0')\n"
        f"if os.path.exists({str(slow)!r}):\n    os.kill(os.getppid(), signal.SIGTERM)\n    time.sleep(100)\n"
        "assert '--bad' not in sys.argv\n"
    )
    git(folder, "add", "train.py")
    git(folder, "commit", "-qm", "train")
    for options in ([], ["--bad", "--a", "1"]):
        project("record", "--", "python", "train.py", *options, check=False)
    # Two runs of one second are not in the order of their ids.
    good, bad = sorted(folder.glob("notes/runs/*/*/*/*.md"), key=lambda path: path.stat().st_mtime_ns)
    slow.touch()

    words = ["bisect", good.stem, bad.stem] if command == "bisect" else ["reproduce", good.stem, "--runs", "3"]
    done = project(*words, check=False)

    assert done.returncode == 130 and "stopped by a signal" in done.stderr
    assert len(list(folder.glob("notes/runs/*/*/*/*.md"))) == 3
