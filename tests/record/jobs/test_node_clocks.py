"""The order of failures in a job does not depend on what the clocks of its nodes show."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from labbook.record.jobs.job_journal import JobJournal
from labbook.record.jobs.node_clocks import clock_offsets
from labbook.record.run_from_journal.roll_call import roll_call
from labbook.store.journal import ProcessEvents
from labbook.store.paths import JournalPaths


def rank_events(rank, ahead, failed_at, *, steps=6, pace=1.0, group=True):
    """Events of a rank that fails, timed by a clock that is ahead by some seconds."""
    events = [
        {"k": "hello", "t": 100.0, "pid": rank + 10, "host": f"n{rank}", "env": {"RANK": str(rank), "WORLD_SIZE": "2"}},
        {"k": "state", "t": 101.0, "distributed": {"rank": rank, "world_size": 2} if group else {}},
        *({"k": "step", "t": 102.0 + step * pace, "step": step} for step in range(1, steps + 1)),
        {"k": "exception", "t": failed_at, "type": "ValueError", "message": ("label", "sample")[rank], "exit": True},
    ]
    return ProcessEvents(f"{rank}.jsonl", tuple({**event, "t": event["t"] + ahead} for event in events))


@dataclass
class Task:
    """A recorded task, as `JobJournal` reads it."""

    rank: int
    found: list[ProcessEvents]
    ended: float
    start: dict = field(default_factory=dict)

    @property
    def run_id(self):
        return f"20261127-010101-aaa{self.rank}"

    @property
    def journal(self):
        return self

    def processes(self):
        return self.found

    def read_ending(self):
        return {"code": 1, "ended": self.ended} if self.ended else {}

    @property
    def paths(self):
        return JournalPaths(Path("/nowhere"))


@pytest.mark.parametrize("ahead", [-3600.0, -30.0, -3.0, 0.0, 3.0, 30.0, 3600.0])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("lead", [0, 1])
def test_the_first_failure_is_the_same_whatever_the_clocks_show(tmp_path, ahead, first, lead):
    """The duration, too: `lead` is the task that the run has its start of."""
    times = [110.0, 112.0] if first == 0 else [112.0, 110.0]
    tasks = [
        Task(rank, [rank_events(rank, ahead * rank, at)], at + 0.1 + ahead * rank) for rank, at in enumerate(times)
    ]
    job = JobJournal(JournalPaths(tmp_path / tasks[lead].run_id), members=tasks, world=2)
    facts = roll_call(job.processes(), job.tasks(), 2, "job")
    assert (facts["odd"]["kind"], facts["odd"]["ranks"]) == ("failed", [first])
    assert job.parts()[0] is tasks[first]
    assert job.read_ending()["ended"] == pytest.approx(112.1 + ahead * lead)


def test_a_killed_recorder_leaves_its_events_as_the_time_of_its_end(tmp_path):
    tasks = [Task(rank, [rank_events(rank, 240.0 * rank, 110.0)], 0.0) for rank in range(2)]
    job = JobJournal(JournalPaths(tmp_path / tasks[1].run_id), members=tasks, world=2)
    assert [task.ended for task in job.tasks()] == [350.0, 350.0]


@pytest.mark.parametrize(
    "second",
    [
        {"steps": 2},  # too few
        {"pace": 9.0},  # each at its own pace
        {"group": False},  # without a process group nobody waits for the other one
    ],
)
def test_a_clock_is_only_judged_by_steps_that_are_made_together(second):
    processes = {0: [rank_events(0, 0.0, 110.0)], 1: [rank_events(1, 30.0, 110.0, **second)]}
    assert clock_offsets(processes) == {0: 0.0, 1: 0.0}
