"""Records the trials of a sweep on this machine, a few at a time; finished ones are not run again."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from labbook.frozen import dataclass
from labbook.index.query import list_notes
from labbook.index.query_error import QueryError
from labbook.model.entry import Entry
from labbook.store.notebook import Notebook

_POLL_S = 0.1
_COMMAND_LETTERS = 500
"""Length of a command line in a front matter."""
BAD = ("unhealthy", "failed")
"""Verdicts that end a sweep with `--stop-on unhealthy`."""


@dataclass(frozen=True)
class SweepRequest:
    """What to run.

    Args:
        record_options: Options of `labbook record` for each trial.
        jobs: Trials at a time.
        stop_on_unhealthy: Whether no trial starts after one whose verdict is in `BAD`.
    """

    name: str
    commands: Sequence[tuple[str, ...]]
    record_options: tuple[str, ...] = ()
    jobs: int = 1
    stop_on_unhealthy: bool = False


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended.

    Args:
        finished: Trials that are finished now, those of earlier calls included.
        failed: Trials that failed in this call.
        left: Trials that were not started.
        stopped_by: Id of the run that ended the sweep, or "".
        interrupted: Whether Ctrl-C ended it.
    """

    finished: int
    failed: int
    left: int
    stopped_by: str = ""
    interrupted: bool = False


def list_trials(notebook: Notebook, name: str) -> list[Entry]:
    """Returns the runs of a sweep, oldest first."""
    try:
        found = list_notes(notebook, f'sweep="{name}"').entries
    except QueryError:  # no run of the notebook is a trial yet
        return []
    return [entry for entry in reversed(found) if entry.meta.get("sweep") == name]


def list_sweeps(notebook: Notebook) -> list[str]:
    """Returns the names of all sweeps of a notebook."""
    return sorted({str(entry.meta["sweep"]) for entry in list_notes(notebook).entries if entry.meta.get("sweep")})


def run_trials(notebook: Notebook, request: SweepRequest, notify: Callable[..., None]) -> SweepResult:
    """Records the trials that are not finished and returns how the sweep ended.

    Args:
        notify: Called with the key of a sentence and its values.
    """
    done = _finished_trials(notebook, request.name)
    waiting = [command for command in request.commands if _key(command) not in done]
    skipped = len(request.commands) - len(waiting)
    if skipped:
        notify("sweep.resumed", skipped=skipped, left=len(waiting))
    running: list[tuple[tuple[str, ...], subprocess.Popen[bytes]]] = []
    failed, stopped_by, interrupted = 0, "", False
    position = skipped
    try:
        while running or (waiting and not stopped_by):
            while waiting and not stopped_by and len(running) < request.jobs:
                command = waiting.pop(0)
                position += 1
                notify("sweep.trial", number=position, total=len(request.commands), command=shlex.join(command))
                running.append((command, _start(notebook, request, command)))
            time.sleep(_POLL_S)
            for pair in [pair for pair in running if pair[1].poll() is not None]:
                running.remove(pair)
                failed += pair[1].returncode != 0
                if request.stop_on_unhealthy and not stopped_by:
                    stopped_by = _bad_run(notebook, request.name, pair[0])
    except KeyboardInterrupt:
        interrupted = True
        _interrupt([process for _, process in running])
    finished = _finished_trials(notebook, request.name)
    count = sum(_key(command) in finished for command in request.commands)
    return SweepResult(count, failed, len(waiting), stopped_by, interrupted)


def _start(notebook: Notebook, request: SweepRequest, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    quiet = ("-q",) if request.jobs > 1 else ()
    words = ("record", "--notebook", str(notebook.paths.root), *request.record_options, *quiet, "--", *command)
    output: Any = subprocess.DEVNULL if request.jobs > 1 else None
    # A session of its own: Ctrl-C reaches the trials once, from here.
    return subprocess.Popen(
        [sys.executable, "-m", "labbook", *words],
        env={**os.environ, "LABBOOK_SWEEP": request.name},
        stdin=subprocess.DEVNULL,
        stdout=output,
        start_new_session=True,
    )


def _interrupt(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Interrupts trials and waits until their entries are written; a second Ctrl-C does not wait."""
    for process in processes:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
    with suppress(KeyboardInterrupt):
        for process in processes:
            process.wait()


def _finished_trials(notebook: Notebook, name: str) -> set[str]:
    return {str(e.meta.get("command")) for e in list_trials(notebook, name) if e.meta.get("status") == "finished"}


def _key(command: Sequence[str]) -> str:
    return shlex.join(command)[:_COMMAND_LETTERS]


def _bad_run(notebook: Notebook, name: str, command: Sequence[str]) -> str:
    for entry in reversed(list_trials(notebook, name)):
        if entry.meta.get("command") == _key(command):
            return entry.id if entry.meta.get("verdict") in BAD else ""
    return ""
