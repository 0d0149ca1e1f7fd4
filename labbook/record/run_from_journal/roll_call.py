"""The roll-call of a run with several ranks: where each one was, and which one is unlike the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.events.process_kinds import Bye, ChildDied, Stacks, UncaughtException
from labbook.model.events.training_kinds import Step
from labbook.record.run_from_journal.odd_rank import (
    name_crossed,
    name_odd,
    name_odd_worker,
    note_other_calls,
    note_separation,
)
from labbook.record.run_from_journal.rank_differences import rank_differences
from labbook.record.run_from_journal.rank_rows import TaskFacts, rank_row, task_row
from labbook.record.run_from_journal.rank_steps import (
    collective_calls,
    collective_order,
)
from labbook.record.run_from_journal.ranks import exceptions_of, rank_of_process
from labbook.record.run_from_journal.ray_worker_rows import (
    describe_workers,
    end_idle_workers,
    end_workers,
    is_ray_worker,
    name_nodes,
)
from labbook.store.journal import ProcessEvents

_MOST_RANKS = 64
"""Rows that are stored: all that are unlike the others, and the first of the rest."""

_OF_SPAWN = ("ProcessRaisedException", "ProcessExitedException")
"""Exceptions of `torch.multiprocessing.spawn` in the parent, which has then ended its other children."""

_RESTARTS = "TORCHELASTIC_RESTART_COUNT"


def roll_call(
    processes: Sequence[ProcessEvents],
    tasks: Sequence[TaskFacts],
    world: int,
    key: str,
    *,
    running: bool = False,
    stopped: bool = False,
    console: str = "",
) -> dict[str, Any]:
    """Returns the facts of a run with several ranks; empty for a run with one.

    Args:
        tasks: The recorded tasks of a job; empty if the launcher itself was recorded.
        world: Number of ranks of the job, 0 if unknown.
        key: Names the job, or "". Without `tasks`, ranks that are not here may be on other nodes.
        running: Whether the run goes on: a process without an end is not a killed one.
        stopped: Whether a signal from outside ended the run.
        console: What the run printed: Ray prints which of its workers died.

    Returns:
        `of`: "workers" for workers of Ray without a process group, numbered as they began; `job`; `world`; `rows`, by
        rank: `rank`, `host`, `pid`, `status`, `steps`, `step_s`, `waiting` (see `classify_wait`), `call` (name of the
        collective), `where` (`file`, `line`, `function`, `source`), `stack`, `error`; `missing` (ranks that never
        reported); `attempts` (of a run that its launcher restarted and that then ended well: `odd` of each earlier
        attempt); `differences` (`what`, `values`: value -> ranks); `odd`: `kind`, `ranks` and what `name_odd` adds,
        and `calls` (`step`, `own`, `usual`: the first step with another number of collective calls).
    """
    earlier, last = _split_attempts(processes)
    if earlier and not running and all(map(_has_ended_well, last)):
        facts = roll_call(last, tasks, world, key, stopped=stopped, console=console)
        return {**facts, "attempts": [name_odd(_rows_of_ranks(attempt)) for attempt in earlier]} if facts else {}
    by_rank = _process_of_each_rank(processes)
    in_group = bool(by_rank or tasks)
    if not in_group:
        by_rank = dict(enumerate(p for p in processes if is_ray_worker(p) and any(_weight(p)[:2])))
    rows = _observed_rows(by_rank, tasks, processes, in_group=in_group, running=running, console=console)
    if not in_group:
        describe_workers(rows, processes, stopped=stopped)
    seen = {str(process.folder / process.name) for process in by_rank.values()}
    rows += [task_row(task) for task in tasks if not seen.intersection(task.names)]
    if not rows or (len(rows) < 2 and world < 2):
        return {}
    rows.sort(key=lambda row: int(row["rank"]))
    missing = sorted(set(range(world)) - ({task.rank for task in tasks} if tasks else set(by_rank)))
    odd = name_odd(rows, missing if tasks else ()) if in_group else name_odd_worker(rows)
    for row in () if in_group else rows:
        row.pop("silent_s" if row.get("where") else "stack", None)
    differences = rank_differences(by_rank, {task.rank: task.commit for task in tasks})
    note_separation(odd, rows, differences)
    odd = name_crossed(odd, rows, {rank: order for rank, p in by_rank.items() if (order := collective_order(p))})
    note_other_calls(odd, {rank: collective_calls(process) for rank, process in by_rank.items()})
    shown = sorted(rows, key=lambda row: (row["rank"] not in odd.get("ranks", ()), row["rank"]))[:_MOST_RANKS]
    facts = {
        "of": "" if in_group else "workers", "job": key if tasks or missing else "",
        "world": max(world, len(rows)) if in_group else 0,
        "rows": sorted(shown, key=lambda row: int(row["rank"])),
        "missing": missing, "odd": odd, "differences": differences,
    }  # fmt: skip
    return {name: value for name, value in facts.items() if value}


def _process_of_each_rank(processes: Sequence[ProcessEvents]) -> dict[int, ProcessEvents]:
    """Returns one process a rank: of several, such as data loader workers, the one that trained or failed."""
    by_rank: dict[int, ProcessEvents] = {}
    for process in processes:
        rank = rank_of_process(process)
        if rank is not None and (rank not in by_rank or _weight(process) > _weight(by_rank[rank])):
            by_rank[rank] = process
    return by_rank


def _observed_rows(
    by_rank: Mapping[int, ProcessEvents],
    tasks: Sequence[TaskFacts],
    processes: Sequence[ProcessEvents],
    *,
    in_group: bool,
    running: bool,
    console: str,
) -> list[dict[str, Any]]:
    """Returns the rows of the ranks that were observed, with what a launcher did to them."""
    owners = {name: task for task in tasks for name in task.names}
    rows = [
        rank_row(rank, process, owners.get(str(process.folder / process.name)), in_group=in_group)
        for rank, process in by_rank.items()
    ]
    if in_group:
        end_idle_workers(rows, by_rank)
    if not running:
        end_workers(rows, by_rank, processes, console)
        _end_stopped_children(rows, by_rank, processes)
    name_nodes(rows, by_rank)
    for row in rows if running else ():
        row["status"] = "running" if row["status"] == "killed" else row["status"]
    return rows


def _split_attempts(processes: Sequence[ProcessEvents]) -> tuple[list[list[ProcessEvents]], list[ProcessEvents]]:
    """Returns the ranks of each attempt before the last restart by torchelastic, and all other processes."""
    attempts: dict[int, list[ProcessEvents]] = {}
    for process in processes:
        number = process.hello.get("env", {}).get(_RESTARTS, "")
        if number.isdigit() and rank_of_process(process) is not None:
            attempts.setdefault(int(number), []).append(process)
    earlier = [attempts[number] for number in sorted(attempts)[:-1]]
    return earlier, [process for process in processes if not any(process in attempt for attempt in earlier)]


def _has_ended_well(process: ProcessEvents) -> bool:
    return bool(process.events_of_kind(Bye)) and not any(e.get("exit") for e in exceptions_of(process))


def _rows_of_ranks(processes: Sequence[ProcessEvents]) -> list[dict[str, Any]]:
    ranks = sorted(((rank_of_process(process) or 0, process) for process in processes), key=lambda pair: pair[0])
    return [rank_row(rank, process, None, in_group=True) for rank, process in ranks]


def _weight(process: ProcessEvents) -> tuple[int, int, int]:
    steps = max((event.get("step", 0) for event in process.events_of_kind(Step)), default=0)
    return steps, len(process.events_of_kind(UncaughtException)), len(process.events_of_kind(Stacks))


def _end_stopped_children(
    rows: Sequence[dict[str, Any]], by_rank: Mapping[int, ProcessEvents], processes: Sequence[ProcessEvents]
) -> None:
    """Corrects the status of ranks that `spawn` ended because another one had failed; others of its are reported."""
    parents = {
        p.hello.get("pid"): {death.get("pid") for death in p.events_of_kind(ChildDied)}
        for p in processes
        if any(error.get("type") in _OF_SPAWN for error in p.events_of_kind(UncaughtException))
    }
    for row in rows:
        died = parents.get(by_rank[row["rank"]].hello.get("ppid"))
        if row["status"] == "killed" and died is not None and row.get("pid") not in died:
            row.update(status="interrupted", signal="SIGTERM")
