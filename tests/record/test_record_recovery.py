"""A recorder that dies loses nothing: the next command finishes the entry."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest


def start_recording(book, *command, stdin=subprocess.DEVNULL):
    return subprocess.Popen(
        [sys.executable, "-m", "labbook", "record", "--", *command],
        cwd=book.folder,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def wait_for(condition, seconds=90.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def console_text(book):
    journal = next((book.folder / ".labbook" / "runs").iterdir())
    return "".join(p.read_text(errors="replace") for p in (journal / "console").glob("*") if p.is_file())


def journals(book) -> set[str]:
    """Ids of the runs that have a journal."""
    return {path.parent.name for path in (book.folder / ".labbook" / "runs").glob("*/run.json")}


def test_the_next_command_finishes_a_killed_run(book, git):
    (book.folder / "slow.py").write_text("import time\nprint('epoch 1 loss: 0.5', flush=True)\ntime.sleep(60)\n")
    recorder = start_recording(book, sys.executable, "slow.py")
    wait_for(lambda: (book.folder / ".labbook" / "runs").is_dir() and "epoch 1" in console_text(book))
    os.killpg(recorder.pid, signal.SIGKILL)
    recorder.communicate()

    done = book("list")

    assert "recovered" in done.stderr
    run = book.run()
    assert run["status"] in ("killed", "lost")
    assert "epoch 1 loss: 0.5" in book.entry()
    assert run["entry"] in git(book.folder, "ls-tree", "-r", "--name-only", "HEAD")


def test_a_recorder_killed_at_the_time_limit_of_its_job_is_recovered_with_these_words(book, monkeypatch):
    """Slurm kills recorder and command a short `KillWait` after SIGTERM, which the command ignores."""
    with monkeypatch.context() as job:
        job.setenv("SLURM_JOB_END_TIME", str(int(time.time())))
        recording = start_recording(book, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    [journal] = wait_for(lambda: list((book.folder / ".labbook" / "runs").glob("*/console")))
    wait_for(lambda: "ready" in console_text(book) and "time_limit" in (journal.parent / "run.json").read_text())
    recording.terminate()
    wait_for((journal.parent / "stopped.json").exists)
    pid = json.loads((journal.parent / "run.json").read_text())["child_pid"]
    recording.kill()
    os.kill(pid, signal.SIGKILL)
    recording.communicate()
    book("recover")
    [run] = [json.loads(path.read_text()) for path in (book.folder / "notes").rglob("run.json")]
    assert "the job's time limit" in next((book.folder / "notes" / "runs").rglob("*.md")).read_text()
    assert run["captured"]["ending"]["time_limit"]["values"]["variable"] == "SLURM_JOB_END_TIME"


def test_recovering_twice_changes_nothing(book, git):
    recorder = start_recording(book, "sleep", "60")
    wait_for(lambda: list((book.folder / ".labbook" / "runs").glob("*/run.json")))
    wait_for(lambda: "child_pid" in next((book.folder / ".labbook" / "runs").glob("*/run.json")).read_text())
    os.killpg(recorder.pid, signal.SIGKILL)
    recorder.communicate()

    assert "recovered" in book("recover").stdout
    head, entry = git(book.folder, "rev-parse", "HEAD"), book.entry()
    assert "nothing to recover" in book("recover").stdout

    assert (git(book.folder, "rev-parse", "HEAD"), book.entry()) == (head, entry)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("run.json", {"started": "yesterday"}),
        ("run.json", {"argv": 5}),
        ("before.json", {"command": "x"}),
        ("end.json", {"ended": [1]}),
        ("console/counts.json", {"lines": "x"}),
    ],
)
def test_a_damaged_journal_stops_neither_other_runs_nor_commands(book, file, damage):
    (book.folder / "train.py").write_text("print('done')\n")
    book("record", "--", sys.executable, "train.py")
    runs = book.folder / ".labbook" / "runs"
    [good] = runs.iterdir()
    for run in ("20200101-000000-aaaa", "20200102-000000-bbbb"):
        shutil.copytree(good, runs / run, ignore=shutil.ignore_patterns("done.json"))
        start = runs / run / "run.json"
        start.write_text(start.read_text().replace(good.name, run))
    damaged = runs / "20200101-000000-aaaa" / file
    damaged.write_text(json.dumps({**json.loads(damaged.read_text()), **damage}))

    done = book("list")

    assert "cannot recover 20200101-000000-aaaa" in done.stderr
    assert "recovered 20200102-000000-bbbb" in done.stderr


def test_a_running_run_is_not_recovered(book):
    recorder = start_recording(book, "cat", stdin=subprocess.PIPE)
    wait_for(lambda: list((book.folder / ".labbook" / "runs").glob("*/run.json")))

    assert "nothing to recover" in book("recover").stdout

    recorder.communicate(timeout=60)
    assert book.run()["status"] == "finished"


def test_a_process_that_goes_on_after_the_command_is_added_when_it_has_ended(book):
    (book.folder / "late.py").write_text(
        "import time, labbook\ntime.sleep(3)\nlabbook.log(late_score=0.5)\nprint('over', flush=True)\n"
    )
    done = book("record", "--", "sh", "-c", f"{sys.executable} late.py > late.txt 2>&1 & sleep 0.5")
    assert "go on in the background: 1" in done.stderr
    assert "late_score" not in book.entry()

    wait_for(lambda: "over" in (book.folder / "late.txt").read_text())
    wait_for(lambda: "recovered" in book("recover").stdout)
    assert "late_score" in book.entry()
    assert "nothing to recover" in book("recover").stdout


@pytest.mark.parametrize("chain", ["while [ ! -e go ]; do sleep 0.1; done", f"{sys.executable} -c 'input()' < pipe"])
def test_a_python_that_begins_after_the_command_is_added_when_it_has_ended(book, chain):
    """The command leaves a shell, whose Python has not begun or is followed by another one."""
    os.mkfifo(book.folder / "pipe")
    (book.folder / "late.py").write_text("import labbook\nlabbook.log(late_score=0.5)\n")
    (book.folder / "late.sh").write_text(f"{chain}\n{sys.executable} late.py\n")
    done = book("record", "--", "sh", "-c", "sh late.sh > late.txt 2>&1 &")
    assert "go on in the background" in done.stderr
    assert "nothing to recover" in book("recover").stdout

    (book.folder / "go").touch()
    if "pipe" in chain:
        (book.folder / "pipe").write_text("\n")
    wait_for(lambda: "recovered" in book("recover").stdout)
    assert "late_score" in book.entry()
    assert "nothing to recover" in book("recover").stdout


def test_a_process_left_that_is_no_python_does_not_change_the_entry(book):
    book("record", "--", "sh", "-c", "sh -c 'while [ ! -e go ]; do sleep 0.1; done; touch gone' > late.txt 2>&1 &")
    before = book.entry()
    (book.folder / "go").touch()
    wait_for((book.folder / "gone").exists)
    wait_for(lambda: book("recover") and not any((book.folder / ".labbook" / "background").iterdir()))
    assert book.entry() == before


@pytest.mark.parametrize("name", ["default_worker.py", "server.py"])
def test_a_process_left_that_adds_nothing_is_no_recovery_and_a_worker_of_ray_none_that_goes_on(book, name):
    (book.folder / name).write_text("import os, time\nwhile not os.path.exists('go'): time.sleep(0.1)\nos._exit(0)\n")
    done = book("record", "--", "sh", "-c", f"{sys.executable} {name} > late.txt 2>&1 & sleep 1")
    assert ("go on in the background" in done.stderr) == (name == "server.py")
    before = book.entry()
    (book.folder / "go").touch()
    printed = []
    folder = book.folder / ".labbook" / "background"
    wait_for(lambda: printed.append(book("recover").stdout) or not (folder.is_dir() and any(folder.iterdir())))
    assert book.entry() == before and not [text for text in printed if "recovered" in text]


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("ending", "status"),
    [("raise ValueError('planted')", "failed"), ("os.kill(os.getpid(), 9)", "killed"), ("sys.exit()", "finished")],
)
def test_a_run_ends_as_its_training_in_the_background(book, ending, status):
    (book.folder / "late.py").write_text(
        "import os, sys, time, torch\nmodel = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(3):\n    optimizer.zero_grad(); model(torch.ones(4, 2)).mean().backward(); optimizer.step()\n"
        "open('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
        f"print('over', flush=True)\n{ending}\n"
    )
    begun = "while [ ! -e begun ]; do sleep 0.05; done"
    book("record", "--", "sh", "-c", f"{sys.executable} late.py > late.txt 2>&1 & {begun}")
    (book.folder / "go").touch()
    wait_for(lambda: "over" in (book.folder / "late.txt").read_text())
    wait_for(lambda: "recovered" in book("recover").stdout)
    assert f"\nstatus: {status}\n" in book.entry()
    assert ("at late.py:9" in book.entry()) == (status == "failed")
    assert "\nduration_s: 0." not in book.entry()


@pytest.mark.slow
def test_the_command_survives_its_recorder(book):
    """Only the recorder is killed: the program must end as if nothing had happened."""
    (book.folder / "work.py").write_text(
        "import time\nprint('begin', flush=True)\n"
        "for i in range(20):\n    time.sleep(0.1); print('tick', i, flush=True)\n"
        "open('result.txt', 'w').write('done')\n"
    )
    recorder = start_recording(book, sys.executable, "work.py")
    wait_for(lambda: (book.folder / ".labbook" / "runs").is_dir() and "begin" in console_text(book))
    recorder.send_signal(signal.SIGKILL)

    wait_for((book.folder / "result.txt").exists)
    out, _ = recorder.communicate(timeout=30)

    assert b"tick 19" in out
    wait_for(lambda: "recovered" in book("recover").stdout)
    assert "tick 19" in book.entry()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_at_random_moments_every_run_has_its_entry(book, git):
    """Seven kills here; `benchmarks/kills.py` does two hundred."""
    chance = random.Random(7)
    started: set[str] = set()
    for number in range(7):
        recorder = start_recording(book, "sh", "-c", "echo started; sleep 0.2; echo ended")
        if number % 3:
            # A busy machine may need longer than the random time before there is anything to recover.
            wait_for(lambda: journals(book) - started or recorder.poll() is not None)  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.9))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(recorder.pid, signal.SIGKILL)
        recorder.communicate()
        started |= journals(book)
    assert len(started) >= 4

    wait_for(lambda: "nothing to recover" in book("recover").stdout)

    listed = {row["id"]: row for row in json.loads(book("list", "--json", "-n", "100").stdout)}
    assert started == set(listed)
    assert not [row for row in listed.values() if row["status"] == "running"]
    git(book.folder, "fsck", "--strict")
    book.record("true")
