"""Writes the entry of a job when its last task has ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from labbook.record.jobs.job_journal import read_job
from labbook.record.jobs.job_place import LEFT, LOST, JobPlace, Member
from labbook.store.locks import hold_lock, is_locked

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor
    from labbook.record.end_summary import FinishedRun
    from labbook.store.notebook import Notebook

WAIT_S = 5.0
"""Longest wait of the last task for tasks that have not joined yet, or whose life on another host is unknown.
Source: chosen by us; a late task writes the entry again."""

_LOOK_S = 0.2


def leave_job(notebook: Notebook, place: JobPlace, member: Member, redactor: Redactor) -> FinishedRun | None:
    """Leaves the journal of a task that has ended to its job; writes the entry if nobody else will.

    Args:
        place: Folder of the job.
        member: The task; its `end.json` is written.

    Returns:
        The finished run, or `None` if another task of the job is going to write it.

    Raises:
        LabbookError: The entry cannot be written; the job stays open for `labbook recover`.
        OSError: The same.
    """
    _mark(member, LEFT, place.lead())
    place.reopen()
    return settle_job(notebook, place, redactor, wait_s=WAIT_S)


def settle_job(notebook: Notebook, place: JobPlace, redactor: Redactor, wait_s: float = 0.0) -> FinishedRun | None:
    """Writes the entry of a job unless one of its tasks lives or nothing is new; returns the finished run or `None`.

    A task marks its journal before it tries the lock, and whoever had the lock looks again after releasing it. So a
    task that ends meanwhile is seen by one of both.

    Raises:
        LabbookError: The entry cannot be written.
    """
    finished: FinishedRun | None = None
    while True:
        with hold_lock(place.write_lock, 0.0) as lock:
            if lock is None and is_locked(place.write_lock):
                return finished
            members = _wait_for_members(place, wait_s)
            states = {member.journal.run_id: member.state or LOST for member in members}
            if not members or any(member.is_alive() for member in members):
                return finished
            if place.read_written() == states:
                place.close()
                return finished
            finished = _write(notebook, place, members, states, redactor)
            wait_s = 0.0


def _wait_for_members(place: JobPlace, wait_s: float) -> list[Member]:
    """Returns the tasks, after a bounded wait for those that are missing."""
    deadline = time.monotonic() + wait_s
    while True:
        members = place.members()
        world = max((int((m.start.get("job") or {}).get("world") or 0) for m in members), default=0)
        unclear = len(members) < world or any(member.may_live() for member in members)
        if any(m.is_alive() for m in members) or not unclear or time.monotonic() >= deadline or place.read_written():
            return members
        time.sleep(_LOOK_S)


def _write(
    notebook: Notebook, place: JobPlace, members: list[Member], states: Mapping[str, str], redactor: Redactor
) -> FinishedRun:
    from labbook.record.finalize import finalize

    finished = finalize(notebook, read_job(place, members), redactor)
    for member in members:
        if not member.state:
            _mark(member, LOST, place.lead())
    with suppress(OSError):
        place.note_written(dict(states))
    return finished


def _mark(member: Member, state: str, lead: str) -> None:
    """Closes the journal of a task; the facts of the entry are in that of the first task."""
    journal = member.journal
    done = journal.read(journal.paths.done)
    journal.write(journal.paths.done, {**done, "task": state, "run": lead}, durable=False)
