"""Entries that nodes without a shared file system wrote for one job become one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from labbook.record.jobs.part_entries import find_parts, join_jobs, join_parts
from labbook.report.run_data import load_run
from labbook.store.notebook_finder import find_notebook

PROGRAM = """\
import os, sys
if os.environ["SLURM_PROCID"] == "1":
    raise ValueError("label 7 is out of range")
"""


SLURM = {"SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0", "SLURM_PROCID": "{}", "SLURM_STEP_NUM_TASKS": "2"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "a", "MASTER_ADDR": "n", "MASTER_PORT": "40001", "RANK": "{}", "WORLD_SIZE": "2"}
PADDLE = {"PADDLE_TRAINER_ENDPOINTS": "n:62000,m:39170", "PADDLE_TRAINER_ID": "{}", "PADDLE_TRAINERS_NUM": "2"}


@pytest.mark.parametrize(
    ("variables", "below"), [(SLURM, False), (TORCHRUN, False), (TORCHRUN, True), (PADDLE, True)],
    ids=["slurm", "torchrun", "recorded torchrun", "recorded paddle.distributed.launch"],
)  # fmt: skip
def test_two_parts_are_joined_and_headed_by_the_rank_that_failed(book, git, variables, below):
    """The launcher starts the recorder of each rank, or the recorder of each node starts a launcher (`below`)."""
    (rank_of,) = (name for name, value in variables.items() if value == "{}")
    (book.folder / "train.py").write_text(PROGRAM.replace("SLURM_PROCID", rank_of))
    for rank in range(2):
        own = {name: value.format(rank) for name, value in variables.items()}
        launch = ["env", *(f"{name}={value}" for name, value in own.items())] if below else []
        command = [sys.executable, "-m", "labbook", "record", "--", *launch, sys.executable, "train.py"]
        environ = {**os.environ, **({} if below else own)}
        subprocess.run(command, cwd=book.folder, env=environ, capture_output=True, check=False, timeout=100)
        # Another node does not see the folder of the job.
        subprocess.run(["rm", "-rf", str(book.folder / ".labbook" / "jobs")], check=True)
    notebook = find_notebook(book.folder, chosen=None, environ=dict(os.environ))
    ((job, run_ids),) = find_parts(notebook)
    assert len(run_ids) == 2

    said = book("recover").stdout

    (entry,) = [path for path in (book.folder / "notes" / "runs").rglob("*.md") if path.stem in run_ids]
    run = json.loads((entry.with_suffix("") / "run.json").read_text())
    assert entry.stem in said and run["status"] == "failed" and run["exit_code"] == 1
    assert [row["rank"] for row in run["captured"]["ranks"]["rows"]] == [0, 1]
    assert "rank 1 failed first, at train.py:3" in entry.read_text()
    assert "\nranks_missing: []\n" in entry.read_text()
    assert not find_parts(notebook) and join_parts(notebook, job, [entry.stem]) == ""
    assert [
        name for name in git(book.folder, "ls-tree", "-r", "--name-only", "HEAD").split() if name.endswith(".md")
    ].count(entry.relative_to(book.folder).as_posix()) == 1


def write_part(notes, at_s: int, rank: int, world: int, duration_s=100, job="k8s-train", text="", captured=()) -> str:
    """Writes the entry of one rank that started `at_s` seconds after noon, with an output as the recorder stores it."""
    run_id = f"20261121-12{at_s // 60:02d}{at_s % 60:02d}-aaa{'abcdefgh'[rank]}"
    missing = [other for other in range(world) if other != rank]
    entry = notes.run(run_id, job=job, ranks_missing=missing)
    ranks = {
        "job": job,
        "world": world,
        "rows": [{"rank": rank, "host": f"pod{rank}", "status": "finished"}],
        "missing": missing,
    }
    facts = {"id": run_id, "status": "finished", "started": 1e9 + at_s, "ended": 1e9 + at_s + duration_s}
    entry.with_suffix("").mkdir()
    console = {"text": text[:1000], "lines": text.count("\n")}
    if len(text) > 1000:
        (entry.with_suffix("") / "console.txt").write_text(text)
    data = {**facts, "console": console, "captured": {"ranks": ranks, **dict(captured)}}
    (entry.with_suffix("") / "run.json").write_text(json.dumps(data))
    return run_id


@pytest.mark.parametrize(
    ("job", "is_joined"),
    [
        ("slurm_9_0", True),
        ("slurm_9_0_r1", True),
        ("torchelastic_run7_n1_41873", True),
        ("torchelastic_run7_n1_41873_r2", True),
        ("paddle_n1_62000_n2_39170", True),
        ("openmpi_134152193_cbb1eeeeb4bd4b2e_cd07ad231b6d61dc", True),
        ("openmpi_134152193", False),
        ("torchelastic_run7_n1_29500", False),  # a port that somebody chose
        ("torchelastic_none_n1_41873", False),
        ("paddle_n1_6070_n2_6070", False),
        ("kubernetes_a_1", False),
    ],
)
def test_clocks_of_nodes_may_differ_by_hours_where_each_launch_has_a_number(notes, job, is_joined):
    parts = [write_part(notes, at, rank, 2, job=job) for at, rank in ((0, 0), (3000, 1))]

    assert find_parts(notes.notebook, is_complete=True) == ([(job, parts)] if is_joined else [])


@pytest.mark.parametrize("lengths", [(300_000, 100), (100, 300_000), (300_000, 300_000), (100, 100)])
def test_a_long_output_has_a_file_of_its_own_in_the_joined_entry(notes, lengths):
    texts = ["".join(f"rank {rank} line {n}\n" for n in range(size // 15)) for rank, size in enumerate(lengths)]
    first, other = (write_part(notes, 0, rank, 2, text=text) for rank, text in enumerate(texts))
    assert join_parts(notes.notebook, "k8s-train", [first, other]) == first

    folder = notes.notebook.paths.attachments(first)
    whole = load_run(notes.notebook.paths, first).console.text
    assert whole.startswith(texts[0]) and whole.endswith("".join(texts[1].splitlines(True)[-40:]))
    assert (folder / "console.txt").exists() is (len(whole) > 256 * 1024)
    assert len((folder / "run.json").read_text()) < 256 * 1024


def test_launches_with_the_same_id_stay_apart(notes):
    """A PyTorchJob that is sent again under its name has the same address; its pods have new file systems."""
    first = [write_part(notes, at, rank, 3) for at, rank in ((0, 0), (7, 1), (3, 2))]
    second = [write_part(notes, at, rank, 3) for at, rank in ((160, 0), (165, 1))]  # rank 2 never came
    write_part(notes, 900, 2, 3)  # of a third launch, of which only this one is here
    job = "k8s-train"

    assert sorted(find_parts(notes.notebook)) == [(job, sorted(first)), (job, second)]
    assert find_parts(notes.notebook, is_complete=True) == [(job, sorted(first))]
    assert join_jobs(notes.notebook, is_complete=True) == [first[0]]
    assert join_jobs(notes.notebook) == [second[0]]
    assert find_parts(notes.notebook) == []
    assert len(list(notes.folder.rglob("run.json"))) == 3


def test_two_jobs_with_one_id_at_the_same_time_stay_separate(notes):
    """Two PyTorchJobs of one name in two namespaces: which pods belong together is unknown."""
    for at, rank in ((0, 0), (5, 0), (2, 1), (6, 1)):
        write_part(notes, at, rank, 2)
    assert find_parts(notes.notebook) == [] == join_jobs(notes.notebook)


@pytest.mark.parametrize(("job", "is_by_clock"), [("kubernetes_bert_master_0_23456", True), ("slurm_9_0", False)])
def test_an_entry_that_only_the_clock_joined_says_so(notes, job, is_by_clock):
    first, _ = (write_part(notes, at, rank, 2, job=job) for at, rank in ((0, 0), (4, 1)))
    assert join_jobs(notes.notebook) == [first]
    line = f"- the parts were joined by their times: launches of {job} have no id of their own\n"
    assert (line in notes.notebook.paths.entry(first).read_text()) is is_by_clock


def test_what_differs_between_the_nodes_of_a_joined_entry_is_listed(notes):
    def captured(rank):
        variables = {"NCCL_ALGO": "Ring" if rank else "Tree", "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"}
        packages = {"numpy": f"2.{rank}", "unused": str(rank), "tqdm": "4"}
        return {
            "code": {"commit": "ab"[rank] * 40}, "command": {"environment": variables},
            "python": {"version": "3.11.7", "packages": packages, "loaded": ["numpy", "tqdm"]},
        }  # fmt: skip

    first, _ = (write_part(notes, 0, rank, 2, job="slurm_9_0", captured=captured(rank)) for rank in (0, 1))
    assert join_jobs(notes.notebook) == [first]
    page = notes.notebook.paths.entry(first).read_text()
    named = [line for line in page.splitlines() if line.startswith("- not the same ")]
    assert [line.split()[4] for line in named] == ["commit", "numpy", "NCCL_ALGO"]
