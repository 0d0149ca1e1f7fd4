"""The journals of all tasks of a job, read as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from labbook.model.events.process_kinds import Bye, UncaughtException
from labbook.record.jobs.job_place import JobPlace, Member, last_sign
from labbook.record.jobs.node_clocks import clock_offsets, shift_clock
from labbook.record.run_from_journal.rank_rows import TaskFacts
from labbook.record.run_from_journal.trial_parts import time_span
from labbook.store.journal import Journal, ProcessEvents, events_of_kind

_STOPPED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")


@dataclass
class JobJournal(Journal):
    """The journals of a job; its own files are those of the first task, whose run id the entry has.

    Args:
        members: The tasks, by rank.
        world: Number of tasks that the launcher started.
    """

    members: Sequence[Member] = ()
    world: int = 0
    key: str = ""
    _events: dict[int, list[ProcessEvents]] = field(default_factory=dict, repr=False)
    _ahead: dict[int, float] = field(default_factory=dict, repr=False)

    def _processes_of(self, member: Member) -> list[ProcessEvents]:
        """Read the events of a task, timed by the clock that the start of the run has."""
        if not self._events:
            read = {each.rank: each.journal.processes() for each in self.members}
            ahead = clock_offsets(read)
            of_run = next((ahead[each.rank] for each in self.members if each.journal.run_id == self.run_id), 0.0)
            self._ahead = {rank: seconds - of_run for rank, seconds in ahead.items()}
            for rank, found in read.items():
                self._events[rank] = [shift_clock(process, self._ahead[rank]) for process in found]
        return self._events[member.rank]

    def processes(self) -> list[ProcessEvents]:
        """Read the events of the processes of all tasks, by task."""
        return [process for member in self.members for process in self._processes_of(member)]

    def tasks(self) -> list[TaskFacts]:
        """Return how each task ended, by rank."""
        return [self._task(member) for member in self.members]

    def _task(self, member: Member) -> TaskFacts:
        end, start = member.journal.read_ending(), member.start
        processes = self._processes_of(member)
        raised = [e.get("t", 0.0) for e in events_of_kind(processes, UncaughtException) if e.get("exit")]
        ended = float(end.get("ended") or last_sign(member.journal)) - self._ahead[member.rank]
        if not end and any(self._ahead.values()):  # the times of files may be those of another clock, of a server
            ended = max((time_span(process)[1] for process in processes), default=ended)
        code, signal = end.get("code"), str(end.get("signal") or "")
        lost = ""
        if not end:
            main = next((p for p in processes if p.hello.get("pid") == start.get("child_pid")), None)
            lost = "killed" if main is not None and not main.events_of_kind(Bye) else "lost"
        failed = bool(lost or signal or code != 0)
        return TaskFacts(
            rank=member.rank,
            host=str((start.get("job") or {}).get("node") or start.get("host") or ""),
            status=lost,
            code=code if isinstance(code, int) else None,
            signal=signal,
            ended=ended,
            failed_at=min([*raised, ended]) if failed else None,
            stopped=signal in _STOPPED or code in (130, 143),
            names=tuple(str(process.folder / process.name) for process in processes),
            commit=str((start.get("job") or {}).get("commit") or ""),
        )

    def _deciding_task(self) -> TaskFacts | None:
        failed = [task for task in self.tasks() if task.failed_at is not None]
        # What a signal of the launcher stopped was stopped because of another one.
        return min(failed, key=lambda task: (task.stopped, task.failed_at), default=None)

    def read_ending(self) -> dict[str, Any]:
        """Return how the job ended: as the first task that failed, with the time of the last one."""
        tasks = self.tasks()
        ended = max((task.ended for task in tasks), default=0.0)
        first = self._deciding_task()
        if first is None:
            stopped = max((each.journal.read_ending().get("stopped") or 0.0 for each in self.members), default=0.0)
            return {"code": 0, "signal": "", "ended": ended, "stopped": stopped, "output_open": False}
        member = next(member for member in self.members if member.rank == first.rank)
        end = member.journal.read_ending()
        return {**end, "ended": ended} if end else {"code": None, "signal": "", "ended": ended, "status": first.status}

    def parts(self) -> list[Journal]:
        """Return the journals of the tasks: the first that failed, then by rank."""
        first = self._deciding_task()
        members = sorted(self.members, key=lambda member: (first is None or member.rank != first.rank, member.rank))
        return [member.journal for member in members]


def read_job(place: JobPlace, members: Sequence[Member]) -> JobJournal:
    """Returns the journal of a job.

    Args:
        members: Its tasks, at least one.
    """
    lead = place.lead()
    root = next((m.journal.paths for m in members if m.journal.run_id == lead), members[0].journal.paths)
    world = max((int((m.start.get("job") or {}).get("world") or 0) for m in members), default=len(members))
    return JobJournal(root, members=tuple(members), world=world, key=place.key)
