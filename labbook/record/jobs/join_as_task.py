"""Makes a run a task of its job when it starts, if its launcher started several."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.capture.job_identity import batch_attempt, find_job

if TYPE_CHECKING:
    from labbook.record.jobs.job_place import JobPlace, Member
    from labbook.store.journal import Journal
    from labbook.store.paths import NotebookPaths


def join_as_task(
    paths: NotebookPaths, journal: Journal, start: dict[str, Any]
) -> tuple[Member | None, JobPlace | None]:
    """Puts a task of a job with several tasks into the folder of its job; else the run is one of its own.

    Adds to `start`: `job` (`key`, `generation`, `system`, `rank`, `world`, `node`) and `attempt_before`, the run id of
    the attempt before a requeue.
    """
    task, attempt = find_job(os.environ, socket.gethostname()), batch_attempt(os.environ)
    if task is None and attempt is None:
        return None, None
    from labbook.record.jobs.job_place import Member, join_job, note_attempt

    member = place = None
    with suppress(OSError):
        if task is not None:
            place = join_job(paths, task, journal.run_id)
            start["job"] = {
                "key": task.key, "generation": place.root.name, "system": task.system, "rank": task.rank,
                "world": task.world, "node": task.node,
            }  # fmt: skip
            member = Member(task.rank, journal, start)
        if attempt is not None and (place is None or place.lead() == journal.run_id):
            before = note_attempt(paths, *attempt, journal.run_id)
            start.update({"attempt_before": before} if before else {})
    return member, place


def note_commit(start: dict[str, Any]) -> None:
    """Adds to the `job` in `start` the commit of the code that this task runs; nodes may have different checkouts."""
    from labbook.capture.command import find_program_file
    from labbook.store.git.git_process import discover
    from labbook.store.git.git_state import head_commit

    program = find_program_file(start["argv"], Path.cwd())
    repository = discover(program.home)
    if "job" in start and repository is not None:
        start["job"]["commit"] = head_commit(repository)
