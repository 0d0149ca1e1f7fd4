"""Finds the exception that ended a run, and its line in the user's code."""

from __future__ import annotations

import re

from labbook.model.run import (
    INTERRUPTS,
    NOTEBOOK_REPORTS,
    CaughtException,
    Frame,
    Run,
    is_launcher_error,
    reports_child,
)
from labbook.model.traceback_frames import innermost_user_frame

_RAY_COPY = re.compile(r".*/working_dir_files/_ray_pkg_\w+/")
"""Where Ray unpacks the working folder of a job on a node. Source: ray/_private/runtime_env/packaging.py."""


def crashed_programs(run: Run) -> dict[int, CaughtException]:
    """Returns the programs of a shell that an exception ended in a run that finished, by process id, in order of time.

    A Python program that starts others has its own way to look at their ends.
    """
    if run.status != "finished" or any(process.role == "main" for process in run.processes):
        return {}
    programs = {process.pid for process in run.processes if process.role == "child" and process.rank is None}
    ended = sorted((e for e in run.exceptions if e.ended_process and e.type not in INTERRUPTS), key=lambda e: e.t)
    return {e.pid: e for e in ended if e.pid in programs}


def ending_exception(run: Run) -> CaughtException | None:
    """Returns the first uncaught exception that ended a process of a failed run, or `None`.

    The first in time is the cause: other ranks, and the parent process, fail because of it. Where the roll-call names
    the rank that failed first, it is one of that rank, whatever the clocks of the others say.
    """
    if run.status not in ("failed", "killed", "interrupted", "lost"):
        return None
    odd = run.facts("ranks").get("odd") or {}
    ranks = odd.get("ranks") or () if odd.get("kind") in ("failed", "alike") else ()
    left = [e for e in run.exceptions if e.type == "SystemExit" and e.rank in ranks]
    if left and run.status != "interrupted":
        return min(left, key=lambda e: e.t)
    ending = [e for e in run.exceptions if e.ended_process and e.type not in INTERRUPTS]
    if ending and all(map(reports_child, ending)):
        # A kernel outlives the error of its cell: the last one before the report counts.
        reported = min(e.t for e in ending)
        before = [e for e in run.exceptions if e.type not in (*INTERRUPTS, *NOTEBOOK_REPORTS) and e.t <= reported]
        own = [e for e in before if not reports_child(e)] or before
        of_ranks = {e.rank: e for e in sorted(own, key=lambda e: e.t) if e.where == "task" and e.rank is not None}
        if of_ranks:
            return min(of_ranks.values(), key=lambda e: e.t)
        return max(own or ending, key=lambda e: e.t)
    ending = [e for e in ending if not is_launcher_error(e.type)]
    if run.status == "interrupted":
        # An exception during an interrupt is not the reason of the end.
        return None
    if ending:
        return min([e for e in ending if e.rank in ranks] or ending, key=lambda e: e.t)
    threads = [e for e in run.exceptions if e.type not in INTERRUPTS]
    return min(threads, key=lambda e: e.t) if threads and run.status == "failed" else None


def find_interrupt(run: Run) -> CaughtException | None:
    """Returns the `KeyboardInterrupt` of an interrupted run, which has the position of the program."""
    if run.status != "interrupted":
        return None
    return next((e for e in run.exceptions if e.type == "KeyboardInterrupt"), None)


def user_frame(exception: CaughtException) -> Frame | None:
    """Returns the innermost frame in the user's code, or `None`."""
    return innermost_user_frame(exception.frames)


def shorten_path(path: str, run: Run) -> str:
    """Returns a path relative to the working folder or the top folder of the code, where it is inside."""
    for folder in _own_folders(run):
        if path.startswith(folder):
            return path[len(folder) :]
    return path


def shorten_paths(sentence: str, run: Run) -> str:
    """Returns a sentence with its paths shortened as by `shorten_path`."""
    for folder in _own_folders(run):
        if folder in sentence:
            sentence = re.sub(r"(?<![\w./~-])" + re.escape(folder) + r"(?=[\w.])", "", sentence)
    return sentence


def _own_folders(run: Run) -> list[str]:
    """Returns the working folder, the top folder of the code and Ray's copies, with a trailing slash, without `/`."""
    code = run.facts("code")
    folders = (str(folder).rstrip("/") for folder in (run.cwd, code.get("top") or ""))
    copies = {copy[0] for one in run.exceptions for frame in one.frames if (copy := _RAY_COPY.match(frame.file))}
    return [*(folder + "/" for folder in folders if folder), *copies]


def place(frame: Frame, run: Run) -> str:
    """Returns file and line of a frame: "model.py:31"."""
    return f"{shorten_path(frame.file, run)}:{frame.line}"
