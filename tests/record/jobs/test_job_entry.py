"""Several recorders of one job make one entry, however they end; launchers are simulated by their variables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """\
import os, sys, time
rank = int(os.environ["SLURM_PROCID"])
print("hello from", rank, flush=True)
if "raise" in sys.argv and rank == 1:
    raise ValueError("label 7 is out of range")
if "wait" in sys.argv:
    open(f"ready{rank}", "w").close()
    while not os.path.exists(f"go{rank}"):
        time.sleep(0.02)
if "vanish" in sys.argv:
    os.rename(".labbook", "elsewhere")
    open(".labbook", "w").close()
sys.exit(3 if "status" in sys.argv and rank == 1 else 0)
"""


def slurm(rank: int, world: int, job: str = "77", **more: str) -> dict[str, str]:
    return {
        **os.environ, "SLURM_JOB_ID": job, "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(world), "SLURM_NTASKS": str(world), "SLURMD_NODENAME": f"n{1 + rank // 2}", **more,
    }  # fmt: skip


def start(book, rank: int, world: int, *arguments: str, **more: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "labbook", "record", "--", sys.executable, "train.py", *arguments],
        cwd=book.folder, env=slurm(rank, world, **more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def end(task: subprocess.Popen) -> int:
    task.communicate(timeout=100)
    return task.returncode


def entries(book) -> list[Path]:
    return sorted(path for path in (book.folder / "notes" / "runs").rglob("*.md") if path.stem[:2] == "20")


def facts(book) -> dict:
    (entry,) = entries(book)
    return json.loads((entry.with_suffix("") / "run.json").read_text())


def wait_for(*paths: Path) -> None:
    deadline = time.monotonic() + 90
    while not all(path.exists() for path in paths) and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.fixture
def job(book):
    (book.folder / "train.py").write_text(PROGRAM)
    return book


def test_tasks_that_end_at_once_make_one_entry_headed_by_the_first_failure(job):
    tasks = [start(job, rank, 4, "raise") for rank in range(4)]
    printed = [task.communicate(timeout=100) for task in tasks]

    assert [task.returncode for task in tasks] == [0, 1, 0, 0]
    assert [out for out, _ in printed] == [f"hello from {rank}\n" for rank in range(4)]
    assert sum("committed as" in err for _, err in printed) == 1
    run, text = facts(job), entries(job)[0].read_text()
    rows = run["captured"]["ranks"]["rows"]
    assert [row["rank"] for row in rows] == [0, 1, 2, 3] and [row["host"] for row in rows] == ["n1", "n1", "n2", "n2"]
    assert run["status"] == "failed" and run["exit_code"] == 1
    assert "rank 1 failed first, at train.py:5" in text and "label 7 is out of range" in text
    assert "[rank3]: hello from 3" in run["console"]["text"] and "job: slurm_77_0" in text
    assert job("recover").stdout.startswith("nothing") or len(entries(job)) == 1


@pytest.mark.long
def test_a_killed_recorder_is_folded_in_by_recover(job):
    tasks = [start(job, rank, 3, "wait") for rank in range(3)]
    wait_for(*(job.folder / f"ready{rank}" for rank in range(3)))
    for rank in (1, 2):
        (job.folder / f"go{rank}").touch()
        assert end(tasks[rank]) == 0
    os.killpg(tasks[0].pid, signal.SIGKILL)
    end(tasks[0])
    (job.folder / "go0").touch()

    deadline = time.monotonic() + 90
    while "killed" not in (text := job("recover").stdout) and "lost" not in text and time.monotonic() < deadline:
        time.sleep(0.5)
    run = facts(job)
    statuses = {row["rank"]: row["status"] for row in run["captured"]["ranks"]["rows"]}
    assert statuses == {0: statuses[0], 1: "finished", 2: "finished"} and statuses[0] in ("killed", "lost")
    assert run["captured"]["ranks"]["odd"]["ranks"] == [0]
    assert not list((job.folder / ".labbook" / "jobs" / "open").iterdir())


def test_a_task_that_never_reports_is_named_and_folded_in_when_it_comes_late(job):
    first = start(job, 0, 2)
    assert end(first) == 0
    assert facts(job)["captured"]["ranks"]["missing"] == [1]
    assert "rank 1 never reported" in entries(job)[0].read_text()

    late = start(job, 1, 2, "status")
    assert end(late) == 3
    run = facts(job)
    assert "missing" not in run["captured"]["ranks"] and run["status"] == "failed" and run["exit_code"] == 3


@pytest.mark.long
def test_a_single_task_an_array_and_a_requeue_are_runs_of_their_own(job):
    for more in ({}, {"job": "78"}, {"SLURM_RESTART_COUNT": "1"}):
        assert end(start(job, 0, 1, **more)) == 0

    texts = [path.read_text() for path in entries(job)]
    assert len(texts) == 3
    first = entries(job)[0].stem
    assert [f"attempt_before: {first}" in text for text in texts] == [False, False, True]


@pytest.mark.long
def test_a_job_folder_that_cannot_be_written_leaves_plain_runs(job):
    (job.folder / ".labbook" / "jobs").mkdir(parents=True)
    (job.folder / ".labbook" / "jobs" / "slurm_77_0").write_text("in the way")
    tasks = [start(job, rank, 2, "status") for rank in range(2)]

    assert [end(task) for task in tasks] == [0, 3]
    assert len(entries(job)) == 2


def test_a_shared_folder_that_vanishes_during_the_run_leaves_the_status_of_the_command(job):
    task = start(job, 1, 2, "vanish", "status")
    printed, error = task.communicate(timeout=100)

    assert (task.returncode, printed) == (3, "hello from 1\n")
    assert "Traceback" not in error and (job.folder / "elsewhere").is_dir()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("fault", "status"), [("os.kill(os.getpid(), 9)", "killed"), ("raise ValueError('planted')", "failed")]
)
def test_the_rank_of_spawn_that_fails_in_its_first_step_is_named(book, fault, status):
    script = book.folder / "spawned.py"
    script.write_text(
        "import os, torch, torch.distributed as dist\n"
        "def train(rank):\n"
        "    dist.init_process_group('gloo', init_method='file://' + __file__ + '.store', rank=rank, world_size=2)\n"
        "    if rank == 1:\n"
        f"        {fault}\n"
        "    dist.barrier()\n"
        "if __name__ == '__main__':\n"
        "    torch.multiprocessing.spawn(train, nprocs=2)\n"
    )
    book.record(sys.executable, "spawned.py", check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    facts = json.loads(((book.folder / book.run()["entry"]).with_suffix("") / "run.json").read_text())
    rows = facts["captured"]["ranks"]["rows"]
    assert facts["captured"]["ranks"]["odd"]["ranks"] == [1]
    assert (rows[1]["status"], rows[0]["status"] in ("failed", "interrupted")) == (status, True)
    assert status == "killed" or rows[1]["where"]["line"] == 5
    assert {process["rank"] for process in facts["processes"]} == {None, 0, 1}
