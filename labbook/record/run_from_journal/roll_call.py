"""The roll-call of a run with several ranks: where each one stood, and which one is the odd one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from labbook.frozen import dataclass
from labbook.model.events.process_kinds import Bye, ChildDied, StackFrame, Stacks, UncaughtException
from labbook.model.events.training_kinds import Step
from labbook.model.run import ray_node
from labbook.probe.events import protocol
from labbook.record.run_from_journal.blocked_on import classify_wait, is_of_collective
from labbook.record.run_from_journal.ending_events import (
    find_user_line,
    parse_thread_stacks,
    program_frames,
    read_stacks_text,
)
from labbook.record.run_from_journal.odd_rank import (
    name_crossed,
    name_odd,
    name_odd_worker,
    note_other_calls,
    note_separation,
)
from labbook.record.run_from_journal.rank_differences import rank_differences
from labbook.record.run_from_journal.rank_steps import (
    collective_calls,
    collective_order,
    data_s,
    first_bad_loss,
    own_step_s,
    step_s,
)
from labbook.record.run_from_journal.ranks import exceptions_of, exit_call, rank_of_process
from labbook.store.journal import ProcessEvents

_MOST_RANKS = 64
"""Rows that are stored: all that are unlike the others, and the first of the rest."""

_MOST_FRAMES = 12
_OF_SPAWN = ("ProcessRaisedException", "ProcessExitedException")
"""Exceptions of `torch.multiprocessing.spawn` in the parent, which has then ended its other children."""

_WRAPPERS = ("wrapper", "collective", "_call_impl", "_wrapped_call_impl", "inner", "decorate_context", "_get_msg_dict")
"""Functions around a call that ranks make."""

_RESTARTS = "TORCHELASTIC_RESTART_COUNT"
_FATAL = {"Aborted": "SIGABRT", "Segmentation fault": "SIGSEGV", "Bus error": "SIGBUS",
          "Floating-point exception": "SIGFPE", "Illegal instruction": "SIGILL"}  # fmt: skip
"""How `faulthandler` calls the signals. Source: Modules/faulthandler.c."""


@dataclass(frozen=True)
class TaskFacts:
    """How one recorded task of a job ended.

    Args:
        rank: Its number.
        host: Name of the node.
        status: "killed" or "lost" if its recorder died, else "".
        code: Exit status of the command, or `None`.
        signal: Name of the signal that ended it, or "".
        ended: Unix time, s.
        failed_at: Unix time (s) of its exception or end, `None` if it ended well.
        stopped: Whether a signal from outside ended it.
        names: Paths of the event files of its processes.
        commit: The commit of the code where it ran, or "".
    """

    rank: int
    host: str
    status: str
    code: int | None
    signal: str
    ended: float
    failed_at: float | None
    stopped: bool
    names: tuple[str, ...]
    commit: str = ""


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
        by_rank = dict(enumerate(p for p in processes if _is_ray_worker(p) and any(_weight(p)[:2])))
    rows = _observed_rows(by_rank, tasks, processes, in_group=in_group, running=running, console=console)
    if not in_group:
        _describe_workers(rows, processes, stopped=stopped)
    seen = {str(process.folder / process.name) for process in by_rank.values()}
    rows += [_task_row(task) for task in tasks if not seen.intersection(task.names)]
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
        _row(rank, process, owners.get(str(process.folder / process.name)), in_group=in_group)
        for rank, process in by_rank.items()
    ]
    if in_group:
        _end_idle_workers(rows, by_rank)
    if not running:
        _end_workers(rows, by_rank, processes, console)
        _end_stopped_children(rows, by_rank, processes)
    _name_ray_nodes(rows, by_rank)
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
    return [_row(rank, process, None, in_group=True) for rank, process in ranks]


def _weight(process: ProcessEvents) -> tuple[int, int, int]:
    steps = max((event.get("step", 0) for event in process.events_of_kind(Step)), default=0)
    return steps, len(process.events_of_kind(UncaughtException)), len(process.events_of_kind(Stacks))


def _row(rank: int, process: ProcessEvents, task: TaskFacts | None, *, in_group: bool) -> dict[str, Any]:
    hello = process.hello
    errors = exceptions_of(process)
    raised = next((e for e in errors if e.get("exit") or e.get("where") == "task"), None)
    ended = bool(process.events_of_kind(Bye))
    # Ctrl-C reaches all ranks: where one was then is no failure of its own.
    stopped = raised if raised is not None and raised.get("type") == "KeyboardInterrupt" else None
    raised = None if stopped is not None else raised
    row: dict[str, Any] = {"rank": rank, "host": task.host if task else hello.get("host", ""), "pid": hello.get("pid")}
    row["steps"] = max((event.get("step", 0) for event in process.events_of_kind(Step)), default=0)
    row["step_s"], row["whole_step_s"], row["data_s"] = own_step_s(process), step_s(process), data_s(process)
    bad = first_bad_loss(process)
    if bad is not None:
        row["bad_step"], row["bad_loss"] = bad
    row["failed_at"] = raised.get("t") if raised is not None else task.failed_at if task is not None else None
    if raised is not None:
        row["error"] = _error_line(raised.get("type", ""), raised.get("message", ""))
        row["where"] = find_user_line(raised.get("frames", []))
        row["call"] = collective_name(raised.get("frames", [])) if in_group else ""
    row["status"] = _status(task, raised is not None, ended)
    if task is not None:
        row["signal"], row["code"] = task.signal, task.code
    if not row.get("signal") and raised is None and not ended and (signal := written_signal(process)):
        row["signal"] = signal
        if task is None or task.status:  # its recorder was killed, too
            row["status"] = "interrupted" if signal == "SIGTERM" else "failed"
    row["left_at"] = find_user_line(exit_call(process).get("frames", [])) if row["status"] == "finished" else {}
    frames, silent = last_stack(process)
    if stopped is not None:
        row["status"], row["signal"], frames, silent = "interrupted", "SIGINT", stopped.get("frames", []), None
    if frames and raised is None and row["status"] != "finished":
        row["waiting"], row["call"] = (
            classify_wait(frames, in_group=in_group),
            collective_name(frames) if in_group else "",
        )
        row["where"] = find_user_line(frames)
        row["stack"] = [
            f"{f.get('file')}:{f.get('line')} {f.get('function')}"
            for f in frames
            if not str(f.get("file")).startswith("<frozen importlib")
        ][-_MOST_FRAMES:]
        row["silent_s"] = silent
    return {name: value for name, value in row.items() if value not in (None, "", {}, [])}


def _end_idle_workers(rows: Sequence[dict[str, Any]], by_rank: Mapping[int, ProcessEvents]) -> None:
    """Corrects the status of workers of Ray Train in which no thread runs the program any more: their loop is over."""
    for row in rows:
        idle = row.get("stack") and not (row.get("where") or row.get("waiting"))
        if idle and row["steps"] and _is_ray_worker(by_rank[row["rank"]]):
            row["status"] = "finished"


def _error_line(kind: str, message: str) -> str:
    """Returns an exception in one line; of one that quotes a traceback, as of a DataLoader's worker, the quoted one."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    is_quoted = any(line.endswith("Traceback (most recent call last):") for line in lines[1:])
    text = lines[-1] if is_quoted else f"{kind}: {next(iter(lines), '')}"
    return text[:300].rstrip(": .")


def _end_workers(
    rows: Sequence[dict[str, Any]],
    by_rank: Mapping[int, ProcessEvents],
    processes: Sequence[ProcessEvents],
    console: str,
) -> None:
    """Corrects the status of workers of Ray, which it ends without a word when the program does.

    One that died before that is known from the error that the program got for it, or from what Ray printed.
    """
    errors = [
        e for p in processes if not _is_ray_worker(p) for e in p.events_of_kind(UncaughtException) if e.get("exit")
    ]
    for row in rows:
        died = any(_names_pid(error.get("message", ""), row.get("pid", 0)) for error in errors)
        died = died or f"Worker PID: {row.get('pid')} Worker exit type: SYSTEM_ERROR" in console
        if row["status"] == "killed" and not died and _is_ray_worker(by_rank[row["rank"]]):
            row["status"] = "interrupted" if errors or row.get("stack") else "finished"


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


def _describe_workers(rows: Sequence[dict[str, Any]], processes: Sequence[ProcessEvents], *, stopped: bool) -> None:
    """Adds process ids, which Ray prints; a worker of a program that ended well did not fail to return."""
    own = [p for p in processes if not _is_ray_worker(p)]
    errors = any(event.get("exit") for p in own for event in p.events_of_kind(UncaughtException))
    ended_well = not (stopped or errors) and all(p.events_of_kind(Bye) for p in own)
    for row in rows:
        row["host"] = f"{row.get('host', '')} pid {row.get('pid')}".strip()
        if ended_well and row["status"] == "interrupted":
            row["status"] = "finished"
            row.pop("where", None), row.pop("stack", None), row.pop("waiting", None)


def _names_pid(message: str, pid: int) -> bool:
    return re.search(rf"\bpid: {pid}\b", message) is not None


def _is_ray_worker(process: ProcessEvents) -> bool:
    return bool(ray_node(process.hello.get("argv", [])))


def _name_ray_nodes(rows: Sequence[dict[str, Any]], by_rank: Mapping[int, ProcessEvents]) -> None:
    """Adds the id of the node to the host of Ray's workers where several nodes are on one host."""
    nodes = {rank: ray_node(process.hello.get("argv", [])) for rank, process in by_rank.items()}
    for host in {row["host"] for row in rows if "host" in row}:
        here = [row for row in rows if row.get("host") == host and nodes.get(row["rank"])]
        if len({nodes[row["rank"]] for row in here}) > 1:
            for row in here:
                row["host"] = f"{host}/{nodes[row['rank']][:8]}"


def _task_row(task: TaskFacts) -> dict[str, Any]:
    row = {"rank": task.rank, "host": task.host, "status": _status(task, False, False), "signal": task.signal,
           "code": task.code, "failed_at": task.failed_at}  # fmt: skip
    return {name: value for name, value in row.items() if value not in (None, "")}


def _status(task: TaskFacts | None, raised: bool, ended: bool) -> str:
    if task is None:
        return "failed" if raised else "finished" if ended else "killed"
    if task.status:
        return task.status
    if task.signal == "SIGKILL" or task.code == 137:
        return "killed"
    if task.stopped:
        return "interrupted"
    return "finished" if task.code == 0 and not task.signal else "failed"


def written_signal(process: ProcessEvents) -> str:
    """Returns the signal at which the interpreter wrote the stacks of a process; "" without any."""
    text = read_stacks_text(stacks_path(process))
    if not text.strip():
        return ""
    title = next(iter(text.splitlines()), "").partition("Fatal Python error: ")[2]
    return _FATAL.get(title.strip(), "" if title else "SIGTERM")


def stacks_path(process: ProcessEvents) -> Path:
    """Returns the path of the stacks that the interpreter writes itself, at a signal."""
    return process.folder / process.name.replace(".jsonl", protocol.STACKS_ENDING)


def last_stack(process: ProcessEvents) -> tuple[list[StackFrame], float | None]:
    """Returns the last known frames of the program in a process, innermost last, and its silence in seconds."""
    stacks = process.events_of_kind(Stacks)
    last = stacks[-1] if stacks else Stacks()
    text = read_stacks_text(stacks_path(process))
    threads = parse_thread_stacks(text) if text else []
    if not threads and last.get("reason") != "moved":
        threads = last.get("threads", [])
    return program_frames(threads), last.get("silent_s")


def collective_name(frames: Sequence[StackFrame]) -> str:
    """Returns the outermost function of PyTorch or PaddlePaddle in which ranks wait ("all_reduce"); "" outside of one.

    Other libraries may be between it and the rank's own code: all of a training may be one call of theirs.
    """
    if classify_wait(frames, in_group=True) != "collective":
        return ""
    name = ""
    for frame in reversed(frames):
        if frame.get("user"):
            called = re.search(r"(\w+)\(", frame.get("source", ""))
            return name or (called[1] if called else "")
        function = frame.get("function", "").rpartition(".")[2]
        if (is_of_collective(frame) or function == "backward") and function not in _WRAPPERS:
            name = function
    return name
