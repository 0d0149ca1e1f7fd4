"""The roll-call of a run with several ranks: where each one stood, and which one is the odd one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from labbook.frozen import dataclass
from labbook.model.events.process_kinds import Bye, StackFrame, Stacks, UncaughtException
from labbook.model.events.training_kinds import State, Step
from labbook.probe.events import protocol
from labbook.record.run_from_journal.blocked_on import classify_wait
from labbook.record.run_from_journal.ending_events import find_user_line, parse_thread_stacks, read_stacks_text
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.store.journal import ProcessEvents

_MOST_RANKS = 64
"""Rows that are stored: all that are unlike the others, and the first of the rest."""

_MOST_FRAMES = 12
_ABORTED = 134
"""Exit status of a shell for SIGABRT."""

_SLOW = 1.5
"""A rank is slow whose own work in a step takes this many times the median of the ranks. Source: chosen by us."""

_SHARE = 0.1
"""Its excess is at least this part of a whole step. Source: chosen by us."""

_FEWEST_STEPS = 5
_FEWEST_ALIKE = 2
"""Steps in which all ranks made as many calls before one with another number counts. Source: chosen by us."""

_MOMENTS_S = 5.0
"""Failures within this time may have any order: clocks of nodes differ, and a signal travels. Source: chosen by us."""

_FATAL = {"Aborted": "SIGABRT", "Segmentation fault": "SIGSEGV", "Bus error": "SIGBUS",
          "Floating-point exception": "SIGFPE", "Illegal instruction": "SIGILL"}  # fmt: skip
"""How `faulthandler` calls the signals. Source: Modules/faulthandler.c."""

_BROKEN_BY_PEER = (
    "Connection closed by peer", "Connection reset by peer", "Connection refused", "Broken pipe", "Socket closed",
    "remote process exited", "NCCL communicator was aborted", "Timed out waiting", "timed out", "Timeout",
    "Gloo connectFullMesh failed", "unhandled system error", "connection was closed",
)  # fmt: skip
"""Parts of messages that say another rank has gone. Source: gloo/transport/tcp/pair.cc, ProcessGroupNCCL.cpp."""


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


def roll_call(
    processes: Sequence[ProcessEvents], tasks: Sequence[TaskFacts], world: int, key: str, *, running: bool = False
) -> dict[str, Any]:
    """Returns the facts of a run with several ranks; empty for a run with one.

    Args:
        processes: Events of all processes.
        tasks: The recorded tasks of a job; empty if the launcher itself was recorded.
        world: Number of tasks of the job, 0 if unknown.
        key: Names the job, or "".
        running: Whether the run goes on: a process without an end is not a killed one.

    Returns:
        `job`; `world`; `rows`, by rank: `rank`, `host`, `pid`, `status`, `steps`, `step_s`, `waiting` (see
        `classify_wait`), `call` (name of the collective), `where` (`file`, `line`, `function`, `source`), `stack`,
        `error`; `missing` (ranks that never reported); `odd`: `kind`, `ranks` and what `name_odd` adds, and `calls`
        (`step`, `own`, `usual`: the first step with another number of collective calls).
    """
    by_rank: dict[int, ProcessEvents] = {}
    for process in processes:
        rank = rank_of_process(process)
        # Of several processes of a rank, such as data loader workers, the one that trained or failed counts.
        if rank is not None and (rank not in by_rank or _weight(process) > _weight(by_rank[rank])):
            by_rank[rank] = process
    owners = {name: task for task in tasks for name in task.names}
    rows = [_row(rank, process, owners.get(str(process.folder / process.name))) for rank, process in by_rank.items()]
    seen = {name for process in by_rank.values() for name in [str(process.folder / process.name)]}
    for row in rows if running else ():
        row["status"] = "running" if row["status"] == "killed" else row["status"]
    rows += [_task_row(task) for task in tasks if not seen.intersection(task.names)]
    if len(rows) < 2 and not (tasks and world > 1):
        return {}
    rows.sort(key=lambda row: int(row["rank"]))
    missing = sorted(set(range(world)) - {task.rank for task in tasks}) if tasks else []
    odd = name_odd(rows, missing)
    note_other_calls(odd, {rank: collective_calls(process) for rank, process in by_rank.items()})
    shown = sorted(rows, key=lambda row: (row["rank"] not in odd.get("ranks", ()), row["rank"]))[:_MOST_RANKS]
    facts = {
        "job": key, "world": max(world, len(rows)), "rows": sorted(shown, key=lambda row: int(row["rank"])),
        "missing": missing, "odd": odd,
    }  # fmt: skip
    return {name: value for name, value in facts.items() if value}


def _weight(process: ProcessEvents) -> tuple[int, int, int]:
    steps = max((event.get("step", 0) for event in process.of_kind(Step)), default=0)
    return steps, len(process.of_kind(UncaughtException)), len(process.of_kind(Stacks))


def _row(rank: int, process: ProcessEvents, task: TaskFacts | None) -> dict[str, Any]:
    hello = process.hello
    raised = next((e for e in process.of_kind(UncaughtException) if e.get("exit")), None)
    ended = bool(process.of_kind(Bye))
    row: dict[str, Any] = {"rank": rank, "host": task.host if task else hello.get("host", ""), "pid": hello.get("pid")}
    row["steps"] = max((event.get("step", 0) for event in process.of_kind(Step)), default=0)
    row["step_s"], row["whole_step_s"] = own_step_s(process), _step_s(process)
    bad = first_bad_loss(process)
    if bad is not None:
        row["bad_step"], row["bad_loss"] = bad
    row["failed_at"] = raised.get("t") if raised is not None else task.failed_at if task is not None else None
    if raised is not None:
        message = next(iter(raised.get("message", "").splitlines()), "")
        row["error"] = f"{raised.get('type', '')}: {message}"[:300].rstrip(": ")
        row["where"] = find_user_line(raised.get("frames", []))
        row["call"] = collective_name(raised.get("frames", []))
    row["status"] = _status(task, raised is not None, ended)
    if task is not None:
        row["signal"], row["code"] = task.signal, task.code
    if not row.get("signal") and raised is None and not ended and (signal := _written_signal(process)):
        row["signal"] = signal
        if task is None:
            row["status"] = "interrupted" if signal == "SIGTERM" else "failed"
    frames, silent = last_stack(process)
    if frames and raised is None and row["status"] != "finished":
        row["waiting"], row["call"] = classify_wait(frames), collective_name(frames)
        row["where"] = find_user_line(frames)
        row["stack"] = [
            f"{f.get('file')}:{f.get('line')} {f.get('function')}"
            for f in frames
            if not str(f.get("file")).startswith("<frozen importlib")
        ][-_MOST_FRAMES:]
        row["silent_s"] = silent
    return {name: value for name, value in row.items() if value not in (None, "", {}, [])}


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


def _written_signal(process: ProcessEvents) -> str:
    """Returns the signal at which the interpreter wrote the stacks of a process; "" without any."""
    text = read_stacks_text(_stacks_path(process))
    if not text.strip():
        return ""
    title = next(iter(text.splitlines()), "").partition("Fatal Python error: ")[2]
    return _FATAL.get(title.strip(), "" if title else "SIGTERM")


def _stacks_path(process: ProcessEvents) -> Path:
    return process.folder / process.name.replace(".jsonl", protocol.STACKS_ENDING)


def last_stack(process: ProcessEvents) -> tuple[list[StackFrame], float | None]:
    """Returns the last known frames of the main thread of a process, innermost last, and its silence in seconds."""
    stacks = process.of_kind(Stacks)
    last = stacks[-1] if stacks else Stacks()
    text = read_stacks_text(_stacks_path(process))
    threads = parse_thread_stacks(text) if text else []
    if not threads and last.get("reason") != "moved":
        threads = last.get("threads", [])
    frames = next((thread.get("frames", []) for thread in threads if thread.get("main")), [])
    return frames, last.get("silent_s")


def collective_name(frames: Sequence[StackFrame]) -> str:
    """Returns the function of the framework that the user's code called, if it is a collective ("all_reduce")."""
    if classify_wait(frames) != "collective":
        return ""
    name = ""
    for frame in reversed(frames):
        if frame.get("user"):
            break
        function = frame.get("function", "").rpartition(".")[2]
        if function not in ("wrapper", "collective", "_call_impl", "_wrapped_call_impl", "inner", "decorate_context"):
            name = function
    return name


def own_step_s(process: ProcessEvents) -> float | None:
    """Returns the median seconds of a rank's own work in a step; `None` if it is not known.

    That is data, forward and the rest, without the collective calls of the program. Ranks wait for each other in the
    backward and in the optimizer step, too, where gradients are averaged. PaddlePaddle's calls are not timed, so that
    the rest is not known there. On an accelerator the host waits wherever it reads a value: only the time for data is
    known to be its own.
    """
    on_cpu, own = _is_on_cpu(process), []
    for event in process.of_kind(Step):
        phases, waited = event.get("ph"), event.get("collective", 0.0)
        if not phases:
            continue
        names = ("data", "forward", "other") if event.get("framework") == "torch" else ("data", "forward")
        if not on_cpu:
            own.append(phases.get("data", 0.0))
        elif math.isfinite(waited):
            spent = sum(seconds for name, seconds in phases.items() if name in names and isinstance(seconds, float))
            own.append(max(0.0, spent - waited))
    return round(median(own), 6) if len(own) >= _FEWEST_STEPS else None


def _is_on_cpu(process: ProcessEvents) -> bool:
    devices = [name for e in process.of_kind(State) if (found := e.get("device")) for name in _texts(found)]
    return bool(devices) and all("cpu" in name.lower() for name in devices)


def _texts(one: str | Sequence[str]) -> Sequence[str]:
    return [one] if isinstance(one, str) else one


def _step_s(process: ProcessEvents) -> float | None:
    times = [event["dt"] for event in process.of_kind(Step) if math.isfinite(event.get("dt", math.nan))]
    return round(median(times), 6) if len(times) >= _FEWEST_STEPS else None


def collective_calls(process: ProcessEvents) -> dict[int, int]:
    """Returns how many collective calls the program made in each step of which it is known: step -> calls."""
    return {
        event["step"]: event["calls"] for event in process.of_kind(Step) if "calls" in event and event.get("n") == 1
    }


def note_other_calls(odd: dict[str, Any], calls: Mapping[int, Mapping[int, int]]) -> None:
    """Adds to a hang the first step in which the odd ranks made another number of collective calls than all others.

    Args:
        odd: Of `name_odd`; gets `calls`: `step`, `own` and `usual`.
        calls: Rank -> step -> calls.
    """
    if odd.get("kind") not in ("differs", "behind", "ended", "elsewhere") or not set(odd["ranks"]) < set(calls):
        return
    known = sorted(set.intersection(*(set(one) for one in calls.values())))
    differing = [step for step in known if len({one[step] for one in calls.values()}) > 1]
    if not differing or known.index(differing[0]) < _FEWEST_ALIKE:
        return
    own, usual = ({one[differing[0]] for rank, one in calls.items() if (rank in odd["ranks"]) == is_odd}
                  for is_odd in (True, False))  # fmt: skip
    if len(own) == len(usual) == 1:
        odd["calls"] = {"step": differing[0], "own": own.pop(), "usual": usual.pop()}


def first_bad_loss(process: ProcessEvents) -> tuple[int, str] | None:
    """Returns the first step with a loss that is not finite, and that loss: "nan", "inf" or "-inf"; else `None`.

    The probe ends a window of steps at the first such loss.
    """
    for event in process.of_kind(Step):
        loss = event.get("loss")
        for value in loss if isinstance(loss, tuple) else (loss,):
            if isinstance(value, float) and not math.isfinite(value):
                return event.get("step", 0), str(value)
    return None


def name_odd(rows: Sequence[Mapping[str, Any]], missing: Sequence[int] = ()) -> dict[str, Any]:
    """Returns which ranks are unlike the others, in the order of what explains most.

    Args:
        rows: The rows of a roll-call; of a run that still goes on, `status` is "running".
        missing: Ranks that never reported.

    Returns:
        Empty, or `kind` and `ranks`: "failed" (raised first), "killed" (ended by a signal first), "lost" (its recorder
        died), "alike" (several failed with one error at one place, none of them first), "missing" (never reported),
        "ended" (finished while others wait in a collective), "elsewhere" (not in the collective in which the others
        wait), "apart" (all broke, these at another place than most), "broke" (all broke within `seconds` and none is
        unlike the others: `ranks` is empty, `all` are those), "differs" (in another call than the others), "behind" (at
        an earlier step), "bad_loss" (the loss became `loss` first, those of others in step `later`), "slow" (`ratio`
        to the median); `where`, `call`, `waiting` of the first of them; `others`:
        `call`, `where` and `ranks` of those that wait.
    """
    waiting = [row for row in rows if row.get("waiting") == "collective"]
    first = _first_failed(rows)
    ended = [row for row in rows if row["status"] == "finished"]
    # Where ranks fail only because a peer has gone, one that has ended or never came is the reason.
    broken = [row for row in rows if _may_follow(row, rows)] if first is not None and _may_follow(first, rows) else []
    if first is not None and not broken:
        alike = _alike(first, rows)
        kind = {"killed": "killed", "lost": "lost"}.get(str(first["status"]), "failed")
        return _odd("alike" if kind == "failed" and len(alike) > 1 else kind, alike, waiting)
    if missing:
        return {"kind": "missing", "ranks": list(missing), **_others(waiting)}
    if ended and (waiting or broken):
        return _odd("ended", ended, waiting or broken)
    apart = [row for row in rows if row.get("where") and row.get("waiting") != "collective" and row not in broken]
    if apart and (waiting or broken):
        return _odd("elsewhere", apart, waiting or broken)
    if broken:
        return _apart([*broken, *(row for row in waiting if row not in broken)])
    if len(waiting) > 1:
        places = Counter(_place(row) for row in waiting)
        if len(places) > 1:
            commonest = places.most_common(1)[0][0]
            low = min(int(row.get("steps", 0)) for row in waiting)
            behind = [row for row in waiting if row.get("steps", 0) == low]
            others = [row for row in waiting if row not in behind]
            if others and places.most_common(1)[0][1] == 1:
                return _odd("behind", behind, others)
            rest = [row for row in waiting if _place(row) != commonest]
            return _odd("differs", rest, [row for row in waiting if row not in rest])
    return _first_bad(rows) or _slowest(rows)


def _place(row: Mapping[str, Any]) -> tuple[object, ...]:
    where = row.get("where") or {}
    return row.get("call"), where.get("file"), where.get("line")


def _first_failed(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Returns the row of the rank that failed first; what may have followed from another rank's end comes last."""
    failed = [row for row in rows if row["status"] in ("failed", "killed", "lost")]
    return min(
        failed, key=lambda row: (_may_follow(row, rows), float(row.get("failed_at") or float("inf"))), default=None
    )


def _may_follow(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the end of a rank may be the consequence of another one's: it says so, or a library aborted it.

    gloo aborts a rank whose message does not fit, which need not be its fault; the watchdog of NCCL aborts all ranks.
    """
    if row["status"] != "failed":
        return False
    if row.get("error"):
        return any(part in str(row["error"]) for part in _BROKEN_BY_PEER)
    if row.get("signal") != "SIGABRT" and row.get("code") != _ABORTED:
        return False
    failed = [other for other in rows if other is not row and other["status"] == "failed"]
    aborted = any(other.get("signal") == "SIGABRT" or other.get("code") == _ABORTED for other in failed)
    return bool(failed) and (aborted or not row.get("where") or row.get("waiting") == "collective")


def _alike(first: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the ranks that ended in the same way as the first one, so soon after it that the order says nothing."""
    names = ("status", "error", "signal", "code", "where") if first.get("failed_at") else ("status", "failed_at")
    began = float(first.get("failed_at") or 0.0)
    return [
        row
        for row in rows
        if all(row.get(name) == first.get(name) for name in names)
        and float(row.get("failed_at") or 0.0) - began <= _MOMENTS_S
    ]


def _apart(broken: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns who was where when all ranks broke; those are odd that were at another place than most."""
    placed = [row for row in broken if row.get("where")]
    places = Counter(map(_place, placed)).most_common(2)
    if len(places) > 1 and places[0][1] > places[1][1]:
        rest = [row for row in placed if _place(row) != places[0][0]]
        return _odd("apart", rest, placed)
    times = [float(row["failed_at"]) for row in broken if row.get("failed_at")]
    facts = {"kind": "broke", "ranks": [], "all": [row["rank"] for row in broken], **_others(placed)}
    return {**facts, "seconds": round(max(times) - min(times), 3) if times else 0.0}


def _odd(kind: str, odd: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    one = odd[0]
    facts = {name: one[name] for name in ("where", "call", "waiting", "error", "signal", "code") if name in one}
    rest = [row for row in others if row not in odd]
    return {"kind": kind, "ranks": [row["rank"] for row in odd], "steps": one.get("steps", 0), **facts, **_others(rest)}


def _others(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not rows:
        return {}
    commonest = Counter(_place(row) for row in rows).most_common(1)[0][0]
    same = [row for row in rows if _place(row) == commonest]
    one = same[0]
    return {"others": {"call": one.get("call", ""), "where": one.get("where", {}), "ranks": [r["rank"] for r in same]}}


def _first_bad(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the ranks whose loss became NaN or infinite in an earlier step than that of all others."""
    first = min((int(row["bad_step"]) for row in rows if "bad_step" in row), default=None)
    odd = [row for row in rows if row.get("bad_step") == first]
    # A rank that did not get as far may have had one, too.
    if first is None or len(odd) == len(rows) or any(int(row.get("steps", 0)) < first for row in rows):
        return {}
    later = [int(row["bad_step"]) for row in rows if "bad_step" in row and row not in odd]
    return {"kind": "bad_loss", "ranks": [row["rank"] for row in odd], "steps": first, "loss": odd[0]["bad_loss"],
            **({"later": min(later)} if later else {})}  # fmt: skip


def _slowest(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    times = {row["rank"]: float(row["step_s"]) for row in rows if row.get("step_s")}
    if len(times) < 2 or len(times) < len(rows):
        return {}
    slowest = max(times, key=lambda rank: times[rank])
    usual = median(seconds for rank, seconds in times.items() if rank != slowest)
    excess = times[slowest] - usual
    whole = max((float(row.get("whole_step_s") or 0.0) for row in rows), default=0.0)
    if not usual or excess < (_SLOW - 1.0) * usual or excess < max(1e-3, _SHARE * whole):
        return {}
    return {"kind": "slow", "ranks": [slowest], "ratio": round(times[slowest] / usual, 2),
            "step_s": times[slowest], "usual_s": usual}  # fmt: skip
