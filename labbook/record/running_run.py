"""Looks at a run that has not ended: what its journal has so far, as the run that it would be now."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from labbook.capture.console.console_reader import read_console
from labbook.model.entry import Entry
from labbook.model.run import Run
from labbook.record.run_entry import add_findings, add_printed_metrics
from labbook.record.run_from_journal.journal_reader import build_run
from labbook.record.run_from_journal.trial_parts import split_trials
from labbook.store.journal import Journal
from labbook.store.locks import is_locked
from labbook.store.paths import is_run_id

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook


def look_at_running(notebook: Notebook, entry: Entry) -> Run | None:
    """Returns a run that goes on, with its series, output and checks so far; `None` if it has ended or is elsewhere.

    Nothing is written. Of a job with several recorders it is the part of the one that has the entry. Values are as old
    as the last ones that the probe wrote, seconds at most; the output is at most a second old.
    """
    if entry.meta.get("status") != "running" or not is_run_id(entry.id):
        return None
    journal = Journal(notebook.paths.journal(entry.id))
    if not is_locked(journal.paths.alive):
        return None
    start = journal.read(journal.paths.start)
    if not start:
        return None
    console = read_console(journal.paths.console)
    processes, _ = split_trials(journal.processes())
    run = build_run(start, {}, processes, console)
    run = replace(run, status="running", ended=time.time(), captured=journal.read(journal.paths.before))
    return replace(add_findings(notebook, add_printed_metrics(run, console.text)), ended=None)


def entry_as_of_now(notebook: Notebook, entry: Entry) -> Entry:
    """Returns the entry with the front matter that its run has so far, if that goes on here."""
    from labbook.report.entry.entry_front_matter import entry_meta

    run = look_at_running(notebook, entry)
    if run is None:
        return entry
    return replace(entry, meta=entry_meta(run, run.title, entry.meta) | {"duration_s": time.time() - run.started})
