from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from labbook.store.text.frontmatter import parse

pytestmark = pytest.mark.process

SCRIPT = """\
import argparse, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--seed", type=int)
options = parser.parse_args()
print(f"val_loss: {options.lr + options.seed / 100}")
if options.lr > 5:
    sys.exit(3)
if options.lr < 0:
    time.sleep(60)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "labbook.toml").write_text('commit = "off"\nlanguage = "en"\nprobe = false\n')
    (folder / "train.py").write_text(SCRIPT)
    return folder


def command(*words):
    return [sys.executable, "-m", "labbook", "sweep", "--python", sys.executable, *words]


def sweep(project, *words):
    return subprocess.run(command(*words), cwd=project, capture_output=True, text=True)


def fronts(project):
    return [parse(path.read_text(), "")[0] for path in sorted((project / "notes" / "runs").rglob("*.md"))]


def test_each_trial_is_a_run_finished_ones_are_not_repeated_and_the_page_keeps_remarks(project):
    words = ("train.py", "lr=0.1,10", "seed=0", "--jobs", "2", "--name", "first")
    done = sweep(project, *words)
    assert done.returncode == 1 and "1 of 2 trials finished, 1 failed" in done.stderr, done.stderr
    assert [front["sweep"] for front in fronts(project)] == ["first"] * 2
    page = project / "notes" / "sweeps" / "first.md"
    meta, body = parse(page.read_text(), "")
    assert meta["trials"] == 2 and "Which options matter" in body
    page.write_text(page.read_text() + "\nA remark.\n")

    again = sweep(project, *words)

    assert "1 trial is finished already, 1 to run" in again.stderr
    assert len(fronts(project)) == 3
    assert "A remark." in page.read_text() and parse(page.read_text(), "")[0]["trials"] == 3


def test_a_sweep_stops_after_an_unhealthy_trial(project):
    done = sweep(project, "train.py", "lr=10,0.1,0.2", "seed=0", "--stop-on", "unhealthy")
    assert "is not healthy; 2 trials were not started" in done.stderr
    assert len(fronts(project)) == 1


def test_ctrl_c_ends_the_trial_with_its_entry_and_the_page_is_written(project):
    process = subprocess.Popen(
        command("train.py", "lr=-1,0.1", "seed=0", "--name", "cut"), cwd=project, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list((project / ".labbook" / "runs").glob("*/console/*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert [front["status"] for front in fronts(project)] == ["interrupted"]
    assert (project / "notes" / "sweeps" / "cut.md").exists()


def test_a_script_of_slurm_that_cannot_be_written_is_named(project):
    (project / ".labbook").mkdir(exist_ok=True)
    (project / ".labbook" / "sweeps").write_text("")
    done = sweep(project, "train.py", "lr=0.1,0.2", "--sbatch", "--mem=1G")
    assert done.returncode == 3 and "cannot write" in done.stderr and "free disk space" in done.stderr


def test_the_script_of_slurm_records_the_chosen_trial(project):
    printed = sweep(project, "train.py", "lr=0.1,0.2", "seed=0", "--name", "array", "--sbatch", "--mem=1G", "--print")
    assert "#SBATCH --array=0-1\n#SBATCH --mem=1G\n" in printed.stdout
    (project / "array.sh").write_text(printed.stdout)
    environ = {**os.environ, "SLURM_ARRAY_TASK_ID": "1"}
    script = str(project / "array.sh")
    ran = subprocess.run(
        ["bash", script], cwd="/", env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert ran.returncode == 0, ran.stderr
    (front,) = fronts(project)
    assert front["sweep"] == "array" and front["command"].endswith("--lr=0.2 --seed=0")
    again = [sys.executable, "-m", "labbook", "sweep", "--page", "array"]
    subprocess.run(again, cwd=project, check=True, capture_output=True)
    assert (project / "notes" / "sweeps" / "array.md").exists()
    none = subprocess.run([*again[:-1], "arrow"], cwd=project, capture_output=True, text=True)
    assert none.returncode == 1 and "the sweeps are: array" in none.stderr
