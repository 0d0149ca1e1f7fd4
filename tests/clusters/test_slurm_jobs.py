"""Jobs on a real Slurm of two nodes; see `slurm_two_nodes.sh`. Run by `make test-cluster`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
LABBOOK = [sys.executable, "-m", "labbook", "record", "--", sys.executable, "train.py"]
PROGRAM = """\
import os, signal, sys, time
rank, what = int(os.environ["SLURM_PROCID"]), sys.argv[1]
print("rank", rank, flush=True)
if what == "kill" and rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if what == "status" and rank == 2:
    sys.exit(7)
if what == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep({"hang": 600, "deaf": 600, "wait": 30}.get(what, 0.2))
"""


@pytest.fixture(scope="module", autouse=True)
def slurm() -> None:
    nodes = ""
    if shutil.which("srun") and shutil.which("sinfo"):
        asked = subprocess.run(["sinfo", "-h", "-o", "%D"], capture_output=True, text=True, check=False, timeout=20)
        nodes = asked.stdout.strip()
    if nodes in ("", "0", "1"):
        pytest.skip("no Slurm with two nodes: bash tests/clusters/slurm_two_nodes.sh start")


@pytest.fixture
def job(book):
    (book.folder / "train.py").write_text(PROGRAM)
    return book


def srun(book, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run(["srun", *options], cwd=book.folder, capture_output=True, text=True, timeout=280, check=False)


def runs(book) -> list[dict]:
    paths = sorted(Path(book.folder).glob("notes/runs/*/*/*/*/run.json"))
    return [json.loads(path.read_text()) for path in paths]


def submit(book, script: str, *options: str) -> str:
    (book.folder / "job.sh").write_text(f"#!/bin/bash\n{script}\n")
    done = subprocess.run(
        ["sbatch", "--parsable", "-N2", "-n4", "-o", "out.%A.%a", *options, "job.sh"],
        cwd=book.folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def wait_for_job(job_id: str, limit_s: float = 200.0) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        asked = subprocess.run(["squeue", "-h", "-j", job_id], capture_output=True, text=True, check=False)
        if not asked.stdout.strip():
            return
        time.sleep(1)


def test_four_tasks_on_two_nodes_are_one_entry(job):
    done = srun(job, "-N2", "-n4", *LABBOOK, "status")

    (run,) = runs(job)
    rows = run["captured"]["ranks"]["rows"]
    assert done.returncode == 7 and run["exit_code"] == 7
    assert [(row["rank"], row["host"]) for row in rows] == [(0, "n1"), (1, "n1"), (2, "n2"), (3, "n2")]
    assert run["captured"]["ranks"]["odd"]["ranks"] == [2]


def test_a_task_killed_by_a_signal_heads_the_entry(job):
    srun(job, "-N2", "-n4", *LABBOOK, "kill")

    (run,) = runs(job)
    assert run["status"] == "killed"
    assert run["captured"]["ranks"]["odd"]["kind"] == "killed" and run["captured"]["ranks"]["odd"]["ranks"] == [1]


def test_an_array_gives_one_entry_for_each_element(job):
    wait_for_job(submit(job, f"srun {' '.join(LABBOOK)} ok", "--array=1-2"))

    assert [len(run["captured"]["ranks"]["rows"]) for run in runs(job)] == [4, 4]
    assert len({run["captured"]["ranks"]["job"] for run in runs(job)}) == 2


def test_a_requeued_job_points_to_its_first_attempt(job):
    record = f"srun {' '.join(LABBOOK)} ok"
    first_time = f"{record}; scontrol requeue $SLURM_JOB_ID; sleep 30"
    script = f'if [ "${{SLURM_RESTART_COUNT:-0}}" = 0 ]; then {first_time}; fi\n{record}'
    number = submit(job, script, "--requeue")
    deadline = time.monotonic() + 200
    while len(runs(job)) < 2 and time.monotonic() < deadline:
        subprocess.run(["scontrol", "update", f"JobId={number}", "StartTime=now"], capture_output=True, check=False)
        time.sleep(2)

    first, second = runs(job)
    assert second["captured"]["attempt"] == {"before": first["id"]}


@pytest.mark.parametrize(("command", "why"), [("scancel", "cancelled"), ("scontrol requeuehold", "requeued")])
def test_why_slurm_ended_a_job_is_in_the_entry(job, command, why):
    number = submit(job, f"srun {' '.join(LABBOOK)} hang", "--requeue")
    deadline = time.monotonic() + 100
    while len(processes_of(number, "n2")) < 4 and time.monotonic() < deadline:
        time.sleep(1)
    time.sleep(5)
    subprocess.run([*command.split(), number], check=True)
    while not (runs(job) and runs(job)[0]["status"] == "interrupted") and time.monotonic() < deadline:
        time.sleep(1)
    subprocess.run(["scancel", number], check=False)

    (run,) = runs(job)
    assert run["captured"]["ending"]["batch_end"]["key"] == f"capture.ending.{why}"


def test_a_node_whose_tasks_and_recorders_are_gone_is_lost(job):
    """As if it had lost its power: everything of the job on the second node is killed at once."""
    number = submit(job, f"srun --kill-on-bad-exit=0 {' '.join(LABBOOK)} wait", "--no-requeue")
    deadline = time.monotonic() + 100
    while len(found := processes_of(number, "n2")) < 4 and time.monotonic() < deadline:
        time.sleep(1)
    time.sleep(5)
    for process in processes_of(number, "n2") or found:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    wait_for_job(number)

    (run,) = runs(job)
    assert run["captured"]["ranks"]["odd"]["node"] == "n2"
    assert run["findings"][0]["symptom"] == "node_lost"


def processes_of(number: str, node: str) -> list[int]:
    """Returns the tasks and recorders of a job on a node."""
    wanted = {f"SLURM_JOB_ID={number}".encode(), f"SLURMD_NODENAME={node}".encode(), b"SLURM_STEP_ID=0"}
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted <= set((folder / "environ").read_bytes().split(b"\0")):
                found.append(int(folder.name))
    return found


@pytest.mark.long
@pytest.mark.parametrize("what", ["hang", "deaf"])
def test_a_time_limit_is_told_as_such(job, what):
    """Where the program ignores the first signal, Slurm kills the recorders with it."""
    wait_for_job(submit(job, f"srun {' '.join(LABBOOK)} {what}", "--time=1"))
    job("recover")

    (run,) = runs(job)
    assert run["status"] in ("interrupted", "killed")
    assert run["captured"]["ending"]["time_limit"]["key"].endswith("_limit")


@pytest.mark.long
def test_64_tasks_that_end_at_once_make_one_entry(job):
    done = srun(job, "-N2", "-n64", "--overcommit", *LABBOOK, "ok")

    (run,) = runs(job)
    assert done.returncode == 0
    assert [row["rank"] for row in run["captured"]["ranks"]["rows"]] == list(range(64))


def test_mpirun_gives_one_entry(book):
    if not shutil.which("mpirun"):
        pytest.skip("no mpirun: apt-get install openmpi-bin")
    (book.folder / "train.py").write_text(PROGRAM.replace("SLURM_PROCID", "OMPI_COMM_WORLD_RANK"))
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3"]
    done = subprocess.run([*mpirun, *LABBOOK, "status"], cwd=book.folder, capture_output=True, text=True, timeout=200)

    book("list")  # one second after a rank has failed, mpirun kills the other recorders: then this writes the entry
    (run,) = runs(book)
    assert done.returncode == 7 and run["captured"]["ranks"]["odd"]["ranks"] == [2]
