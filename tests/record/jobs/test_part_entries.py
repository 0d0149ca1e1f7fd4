"""Entries that nodes without a shared file system wrote for one job become one."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from labbook.record.jobs.part_entries import find_parts, join_parts
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
    ((job, run_ids),) = find_parts(notebook).items()
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
