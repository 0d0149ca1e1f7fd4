"""Entries that nodes without a shared file system wrote for one job become one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from labbook.record.jobs.part_entries import find_parts, join_jobs, join_parts
from labbook.store.notebook_finder import find_notebook

PROGRAM = """\
import os, sys
if os.environ["SLURM_PROCID"] == "1":
    raise ValueError("label 7 is out of range")
"""


def test_two_parts_are_joined_and_headed_by_the_rank_that_failed(book, git):
    (book.folder / "train.py").write_text(PROGRAM)
    for rank in range(2):
        environ = {
            **os.environ, "SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank),
            "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2",
        }  # fmt: skip
        command = [sys.executable, "-m", "labbook", "record", "--", sys.executable, "train.py"]
        subprocess.run(command, cwd=book.folder, env=environ, capture_output=True, check=False, timeout=100)
        # Another node does not see the folder of the job.
        subprocess.run(["rm", "-r", str(book.folder / ".labbook" / "jobs")], check=True)
    notebook = find_notebook(book.folder, chosen=None, environ=dict(os.environ))
    ((job, run_ids),) = find_parts(notebook)
    assert len(run_ids) == 2

    said = book("recover").stdout

    (entry,) = [path for path in (book.folder / "notes" / "runs").rglob("*.md") if path.stem in run_ids]
    run = json.loads((entry.with_suffix("") / "run.json").read_text())
    assert entry.stem in said and run["status"] == "failed" and run["exit_code"] == 1
    assert [row["rank"] for row in run["captured"]["ranks"]["rows"]] == [0, 1]
    assert "rank 1 failed first, at train.py:3" in entry.read_text()
    assert not find_parts(notebook) and join_parts(notebook, job, [entry.stem]) == ""
    assert [
        name for name in git(book.folder, "ls-tree", "-r", "--name-only", "HEAD").split() if name.endswith(".md")
    ].count(entry.relative_to(book.folder).as_posix()) == 1


def write_part(notes, at_s: int, rank: int, world: int, duration_s: int = 100) -> str:
    """Writes the entry of one rank that started `at_s` seconds after noon."""
    run_id = f"20261121-12{at_s // 60:02d}{at_s % 60:02d}-aaa{'abcdefgh'[rank]}"
    missing = [other for other in range(world) if other != rank]
    entry = notes.run(run_id, job="k8s-train", ranks_missing=missing)
    ranks = {
        "job": "k8s-train",
        "world": world,
        "rows": [{"rank": rank, "host": f"pod{rank}", "status": "finished"}],
        "missing": missing,
    }
    facts = {"id": run_id, "status": "finished", "started": 1e9 + at_s, "ended": 1e9 + at_s + duration_s}
    entry.with_suffix("").mkdir()
    (entry.with_suffix("") / "run.json").write_text(json.dumps({**facts, "captured": {"ranks": ranks}}))
    return run_id


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
