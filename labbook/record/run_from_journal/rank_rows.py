"""The row of a rank in the roll-call: how its process or its task ended, and where it was then."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from labbook.frozen import dataclass
from labbook.model.events.process_kinds import Bye, StackFrame, Stacks
from labbook.model.events.training_kinds import Step
from labbook.record.run_from_journal.blocked_on import classify_wait, is_of_collective
from labbook.record.run_from_journal.ending_events import (
    find_user_line,
    parse_thread_stacks,
    program_frames,
    read_stacks_text,
)
from labbook.record.run_from_journal.rank_steps import data_s, first_bad_loss, own_step_s, step_s
from labbook.record.run_from_journal.ranks import exceptions_of, exit_call
from labbook.store.journal import ProcessEvents

_MOST_FRAMES = 12
_WRAPPERS = ("wrapper", "collective", "_call_impl", "_wrapped_call_impl", "inner", "decorate_context", "_get_msg_dict")
"""Functions around a call that ranks make."""

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


def rank_row(rank: int, process: ProcessEvents, task: TaskFacts | None, *, in_group: bool) -> dict[str, Any]:
    """Returns the row of an observed rank; `roll_call` documents the keys.

    Args:
        task: The recorded task of a job that the process belongs to, if any.
        in_group: Whether the ranks are of one process group, and not workers of Ray without one.
    """
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
        row["call"] = _collective_name(raised.get("frames", [])) if in_group else ""
    row["status"] = _status(task, raised is not None, ended)
    if task is not None:
        row["signal"], row["code"] = task.signal, task.code
    if not row.get("signal") and raised is None and not ended and (signal := written_signal(process)):
        row["signal"] = signal
        if task is None or task.status:  # its recorder was killed, too
            row["status"] = "interrupted" if signal == "SIGTERM" else "failed"
    row["left_at"] = find_user_line(exit_call(process).get("frames", [])) if row["status"] == "finished" else {}
    frames, silent = _last_stack(process)
    if stopped is not None:
        row["status"], row["signal"], frames, silent = "interrupted", "SIGINT", stopped.get("frames", []), None
    if frames and raised is None and row["status"] != "finished":
        row["waiting"] = classify_wait(frames, in_group=in_group)
        row["call"] = _collective_name(frames) if in_group else ""
        row["where"] = find_user_line(frames)
        row["stack"] = [
            f"{f.get('file')}:{f.get('line')} {f.get('function')}"
            for f in frames
            if not str(f.get("file")).startswith("<frozen importlib")
        ][-_MOST_FRAMES:]
        row["silent_s"] = silent
    return {name: value for name, value in row.items() if value not in (None, "", {}, [])}


def task_row(task: TaskFacts) -> dict[str, Any]:
    """Returns the row of a task of which no process was observed."""
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


def _error_line(kind: str, message: str) -> str:
    """Returns an exception in one line; of one that quotes a traceback, as of a DataLoader's worker, the quoted one."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    is_quoted = any(line.endswith("Traceback (most recent call last):") for line in lines[1:])
    text = lines[-1] if is_quoted else f"{kind}: {next(iter(lines), '')}"
    return text[:300].rstrip(": .")


def written_signal(process: ProcessEvents) -> str:
    """Returns the signal at which the interpreter wrote the stacks of a process; "" without any."""
    text = read_stacks_text(process)
    if not text.strip():
        return ""
    title = next(iter(text.splitlines()), "").partition("Fatal Python error: ")[2]
    return _FATAL.get(title.strip(), "" if title else "SIGTERM")


def _last_stack(process: ProcessEvents) -> tuple[list[StackFrame], float | None]:
    """Returns the last known frames of the program in a process, innermost last, and its silence in seconds."""
    stacks = process.events_of_kind(Stacks)
    last = stacks[-1] if stacks else Stacks()
    text = read_stacks_text(process)
    threads = parse_thread_stacks(text) if text else []
    if not threads and last.get("reason") != "moved":
        threads = last.get("threads", [])
    return program_frames(threads), last.get("silent_s")


def _collective_name(frames: Sequence[StackFrame]) -> str:
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
