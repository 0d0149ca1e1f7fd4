"""Writes the entries of runs whose recorder died, from their journals."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from labbook.errors import LabbookError
from labbook.frozen import dataclass
from labbook.record.background_processes import add_late_end, journals_with_late_ends
from labbook.record.jobs.job_place import JobPlace, open_places, place_of
from labbook.store.journal import Journal, open_journals
from labbook.store.locks import is_locked
from labbook.store.process_identity import start_ticks

if TYPE_CHECKING:
    from labbook.record.end_summary import FinishedRun
    from labbook.store.notebook import Notebook

_STALE_S = 600.0
"""A run of another host counts as dead when its journal has not changed for this long. Source: chosen by us."""


@dataclass(frozen=True)
class RecoveredRun:
    """Result of recovering one open journal.

    Args:
        status: Status of the run, or "" if its entry could not be written.
    """

    run_id: str
    status: str
    message: str


def recover(notebook: Notebook, print_line: Callable[[str], None] | None = None) -> list[RecoveredRun]:
    """Writes the entry of every run whose recorder and command have ended.

    Args:
        print_line: Prints one line for each run as soon as it is recovered.
    """
    recovered = []
    for one in chain(_recover_jobs(notebook), _recover_runs(notebook)):
        recovered.append(one)
        if print_line is not None:
            print_line(one.message)
    return recovered


def _recover_runs(notebook: Notebook) -> Iterator[RecoveredRun]:
    """Writes the entries of runs that are no tasks of a job."""
    late = ((journal, _add_late_processes) for journal in journals_with_late_ends(notebook.paths))
    dead = ((journal, _finish) for journal in open_journals(notebook.paths) if _is_dead(journal))
    for journal, work in chain(late, dead):
        if place_of(notebook.paths, journal.read(journal.paths.start)) is not None or not journal.claim():
            continue
        try:
            outcome = _attempt(notebook, journal, partial(work, notebook, journal))
        finally:
            journal.release()
        if outcome is not None:
            yield outcome


def _recover_jobs(notebook: Notebook) -> Iterator[RecoveredRun]:
    """Writes the entries of jobs that lack a task which has ended or died."""
    for place in open_places(notebook.paths):
        members = place.members()
        if not members:
            place.close()
        elif not any(_is_running(member.journal) or member.may_live() for member in members):
            first = members[0].journal
            outcome = _attempt(notebook, first, partial(_write_entry, notebook, first, place))
            if outcome is not None:
                yield outcome


def _is_running(journal: Journal) -> bool:
    """Whether the recorder of a task lives, or its command."""
    if journal.paths.done.exists():
        return False
    start = journal.read(journal.paths.start)
    own_host = start.get("host") == os.uname().nodename
    return is_locked(journal.paths.alive) or (own_host and bool(start) and not _is_dead(journal))


def _attempt(notebook: Notebook, journal: Journal, work: Callable[[], RecoveredRun | None]) -> RecoveredRun | None:
    """Returns the result of `work`; a damaged journal must not stop other runs, nor the command of the user."""
    try:
        return work()
    except Exception as error:
        from labbook.record.child.start_errors import describe_error
        from labbook.store.text.sentences import Sentences

        values = {"run": journal.run_id, "error": describe_error(error), "journal": str(journal.paths.root)}
        sentence = Sentences(notebook.config.language_in_use()).line("record.not_recovered", **values)
        return RecoveredRun(journal.run_id, "", sentence)


def _finish(notebook: Notebook, journal: Journal) -> RecoveredRun | None:
    if journal.paths.done.exists():
        return None  # another process recovered it while this one waited for the lock
    from labbook.record.lost_start import rebuild_start

    start = journal.read(journal.paths.start) or rebuild_start(notebook, journal)
    if not start:
        # Killed between creating the folder and writing the first file: nothing had run yet.
        journal.write(journal.paths.done, {"entry": "", "status": "empty", "reason": "nothing had started"})
        return None
    _note_last_seen(journal, start)
    return _write_entry(notebook, journal)


def _add_late_processes(notebook: Notebook, journal: Journal) -> RecoveredRun | None:
    """Writes the entry of a run again, with the processes that have ended after its command."""
    note = notebook.paths.background / journal.run_id
    try:
        if not note.exists() or not add_late_end(journal, note):
            return None
    finally:
        note.unlink(missing_ok=True)
    return _write_entry(notebook, journal, is_new=False)


def _write_entry(
    notebook: Notebook, journal: Journal, place: JobPlace | None = None, *, is_new: bool = True
) -> RecoveredRun | None:
    """Writes the entry of a run, or of the job that it belongs to; `None` if a job, or an older entry, stays as it is.

    Args:
        is_new: Whether the recorder may not have written it.
    """
    from labbook.record.finalize import finalize
    from labbook.record.jobs.job_entry import settle_job
    from labbook.report.commit_line import commit_line
    from labbook.store.recorder_redaction import make_redactor
    from labbook.store.text.sentences import Sentences
    from labbook.store.text.templates import status_label

    sentences = Sentences(notebook.config.language_in_use())
    argv = list(journal.read(journal.paths.start).get("argv") or ())
    redactor = make_redactor(dict(os.environ), argv, notebook.redaction_rules())
    finished: FinishedRun | None
    finished = settle_job(notebook, place, redactor) if place is not None else finalize(notebook, journal, redactor)
    if finished is None or (finished.commit.status == "unchanged" and not is_new):
        return None
    status, commit = finished.run.status, sentences(finished.commit.cause) or commit_line(finished.commit, sentences)
    sentence = sentences.line(
        "record.recovered",
        run=finished.run.id,
        status=status_label(status, sentences.language),
        entry=finished.shown_path,
        commit=commit,
    )
    return RecoveredRun(finished.run.id, status, sentence)


def _note_last_seen(journal: Journal, start: dict[str, Any]) -> None:
    """Stores the time of the last sign of life: the run gets a duration, the same in every recovery."""
    if start.get("last_seen"):
        return
    signs = [journal.paths.resources, *journal.paths.console.glob("*"), *journal.paths.events.glob("*")]
    times = [path.stat().st_mtime for path in signs if path.exists()]
    start["last_seen"] = max([float(start.get("started") or 0.0), *times])
    journal.write(journal.paths.start, start)


def _is_dead(journal: Journal) -> bool:
    """Whether recorder and command have both ended, as far as this host can determine."""
    start = journal.read(journal.paths.start)
    if not start:
        return _idle_s(journal) > 5.0
    if start.get("host") not in (None, os.uname().nodename):
        return _idle_s(journal) > _STALE_S
    if journal.read(journal.paths.end):
        return True
    pid, ticks = start.get("child_pid"), start.get("child_ticks")
    if isinstance(pid, int) and pid > 0:
        return start_ticks(pid) != ticks or not ticks
    return True


def _idle_s(journal: Journal) -> float:
    """Returns the seconds since the journal last changed."""
    times = [path.stat().st_mtime for path in journal.paths.root.rglob("*") if path.exists()]
    return time.time() - max(times, default=journal.paths.root.stat().st_mtime)


def recover_pending(notebook: Notebook, print_line: Callable[[str], None]) -> None:
    """Recovers dead runs and commits queued entries, as every command does first; never raises."""

    def say(key: str, **values: object) -> None:
        from labbook.store.text.sentences import Sentences  # most often there is nothing to say

        print_line(Sentences(notebook.config.language_in_use()).line(key, **values))

    try:
        recover(notebook, print_line)
        from labbook.store.commit.entry_commit import commit_queued

        if notebook.paths.private.joinpath("queue").is_dir():
            for outcome in commit_queued(notebook):
                if outcome.status == "committed":
                    say("terminal.recover.queued_committed", commit=outcome.commit[:9])
    except (LabbookError, OSError) as error:
        say("record.recovery_failed", error=str(error))
