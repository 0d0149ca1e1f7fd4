"""Finishes the entries of runs whose recorder died, from their journals."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from labbook.errors import LabbookError
from labbook.frozen import dataclass
from labbook.store.journal import Journal, open_journals
from labbook.store.process_identity import start_ticks

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook

_STALE_S = 600.0
"""A run of another host counts as dead when its journal was not touched for so long. Source: mechanisms, section 6."""


@dataclass(frozen=True)
class Recovered:
    """What became of one open journal.

    Args:
        status: Status of the run, or "" when it could not be finished.
        told: A sentence for the user.
    """

    run_id: str
    status: str
    told: str


def recover(notebook: Notebook, say: Callable[[str], None] | None = None) -> list[Recovered]:
    """Finishes every run of the notebook whose recorder and command are gone; runs still going on are left alone.

    Args:
        notebook: Where to look.
        say: Shows a line for each run, at once.
    """
    found = []
    for journal in open_journals(notebook.paths):
        if not _is_dead(journal) or not journal.claim():
            continue
        try:
            outcome = _finish(notebook, journal)
        finally:
            journal.release()
        if outcome is not None:
            found.append(outcome)
            if say is not None:
                say(outcome.told)
    return found


def _finish(notebook: Notebook, journal: Journal) -> Recovered | None:
    if journal.paths.done.exists():
        return None  # somebody else finished it while we waited for the lock
    from labbook.record.finalize import finalize
    from labbook.record.lost_start import rebuild_start
    from labbook.store.redact import make_redactor

    start = journal.read(journal.paths.start) or rebuild_start(notebook, journal)
    if not start:
        # Killed between making the folder and writing the first file: nothing had run yet.
        journal.write(journal.paths.done, {"entry": "", "status": "empty", "reason": "nothing had started"})
        return None
    _note_last_seen(journal, start)
    redactor = make_redactor(dict(os.environ), list(start.get("argv") or ()), notebook.redaction_rules())
    try:
        finished = finalize(notebook, journal, redactor)
    except LabbookError as error:
        return Recovered(journal.run_id, "", f"{journal.run_id} could not be recovered: {error.message}")
    commit = finished.commit
    place = f"committed as {commit.commit[:9]}" if commit.status == "committed" else commit.reason or commit.status
    return Recovered(
        journal.run_id,
        finished.run.status,
        f"recovered {journal.run_id} ({finished.run.status}): {finished.shown}  {place}",
    )


def _note_last_seen(journal: Journal, start: dict[str, Any]) -> None:
    """Keeps the time of the last sign of life, so that the run has a duration and recovering twice gives the same."""
    if start.get("last_seen"):
        return
    signs = [journal.paths.resources, *journal.paths.console.glob("*"), *journal.paths.events.glob("*")]
    times = [path.stat().st_mtime for path in signs if path.exists()]
    start["last_seen"] = max([float(start.get("started") or 0.0), *times])
    journal.write(journal.paths.start, start)


def _is_dead(journal: Journal) -> bool:
    """Whether neither recorder nor command lives any more, as far as can be seen from here."""
    start = journal.read(journal.paths.start)
    if not start:
        return _idle_s(journal) > 5.0
    if start.get("host") not in (None, socket.gethostname()):
        return _idle_s(journal) > _STALE_S
    if journal.read(journal.paths.end):
        return True
    pid, ticks = start.get("child_pid"), start.get("child_ticks")
    if isinstance(pid, int) and pid > 0:
        return start_ticks(pid) != ticks or not ticks
    return True


def _idle_s(journal: Journal) -> float:
    """Seconds since anything in the journal was written."""
    times = [path.stat().st_mtime for path in journal.paths.root.rglob("*") if path.exists()]
    return time.time() - max(times, default=journal.paths.root.stat().st_mtime)


def recover_pending(notebook: Notebook, say: Callable[[str], None]) -> None:
    """Does what every command does first: finishes dead runs and commits what had to wait; never raises."""
    try:
        recover(notebook, say)
        from labbook.store.commit import commit_queued

        if notebook.paths.private.joinpath("queue").is_dir():
            for outcome in commit_queued(notebook):
                if outcome.status == "committed":
                    say(f"committed an entry that had to wait, as {outcome.commit[:9]}")
    except (LabbookError, OSError) as error:
        say(f"runs whose recorder died could not be looked for: {error}")
