"""What ended a run: the exception that came first, and the line of the user's code that it came from."""

from __future__ import annotations

import re

from labbook.model.run import CaughtException, Frame, Run

_INTERRUPTS = ("KeyboardInterrupt", "SystemExit")


def ending_exception(run: Run) -> CaughtException | None:
    """The first uncaught exception that ended a process of a run that failed; `None` when there was none.

    The first in time is the cause: the other ranks, and the parent that waits for them, fail because of it.
    """
    if run.status not in ("failed", "killed", "interrupted", "lost"):
        return None
    ending = [e for e in run.exceptions if e.ended_process and e.type not in _INTERRUPTS]
    if run.status == "interrupted":
        # What a program raises while it is being stopped is no reason of its own.
        return None
    if ending:
        return min(ending, key=lambda e: e.t)
    threads = [e for e in run.exceptions if e.type not in _INTERRUPTS]
    return min(threads, key=lambda e: e.t) if threads and run.status == "failed" else None


def find_interrupt(run: Run) -> CaughtException | None:
    """The `KeyboardInterrupt` of an interrupted run, which tells where the program was."""
    if run.status != "interrupted":
        return None
    return next((e for e in run.exceptions if e.type == "KeyboardInterrupt"), None)


def user_frame(exception: CaughtException) -> Frame | None:
    """The innermost frame in the user's own code, or `None`."""
    return next((f for f in reversed(exception.frames) if f.user), None)


def shown_path(path: str, run: Run) -> str:
    """A path as the entry shows it: relative to the working folder or the code's top folder where it lies below."""
    for folder in _own_folders(run):
        if path.startswith(folder):
            return path[len(folder) :]
    return path


def shown_text(sentence: str, run: Run) -> str:
    """A sentence in which paths stand as `shown_path` shows them."""
    for folder in _own_folders(run):
        if folder in sentence:
            sentence = re.sub(r"(?<![\w./~-])" + re.escape(folder) + r"(?=[\w.])", "", sentence)
    return sentence


def _own_folders(run: Run) -> list[str]:
    """The working folder and the code's top folder, each with its last slash; not the root."""
    code = run.captured.get("code") or {}
    folders = (str(folder).rstrip("/") for folder in (run.cwd, code.get("top") or ""))
    return [folder + "/" for folder in folders if folder]


def place(frame: Frame, run: Run) -> str:
    """File and line of a frame: "model.py:31"."""
    return f"{shown_path(frame.file, run)}:{frame.line}"
