"""Looks at a run that has not ended: what its journal has so far, as the run that it would be now."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

from labbook.capture.console.console_reader import read_console, read_growing_files
from labbook.model.entry import Entry
from labbook.model.run import Run
from labbook.record.run_entry import add_findings, add_printed_metrics
from labbook.record.run_from_journal.journal_reader import build_run
from labbook.record.run_from_journal.trial_parts import split_trials
from labbook.store.journal import Journal
from labbook.store.locks import is_locked
from labbook.store.notebook import Notebook
from labbook.store.paths import is_run_id
from labbook.store.recorder_redaction import make_redactor
from labbook.store.text.templates import words


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
    if not console.lines:
        argv = [str(word) for word in start.get("argv") or ()]
        redactor = make_redactor(os.environ, argv, notebook.redaction_rules())
        console = read_growing_files(journal.paths.console, redactor)
    processes, _ = split_trials(journal.processes())
    run = build_run(start, {}, processes, console)
    run = replace(run, status="running", ended=time.time(), captured=journal.read(journal.paths.before))
    return replace(add_findings(notebook, add_printed_metrics(run, console.text)), ended=None)


_LEAST_AGE_S = 2.0
_MOST_SHARE = 10
"""A look is repeated after this many times what it took, so that it takes a tenth of a core at most."""
_LINES = 20
"""Most lines of the output in a view. Source: chosen by us; as many as fit beside the curves."""


class RunningRuns:
    """Views of runs that go on, for pages that are open while they train; one look at a time."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, dict[str, str] | None]] = {}

    def view(self, run_id: str) -> dict[str, str] | None:
        """Returns `title`, `facts`, `curves` (SVG) and `output` of a run; `None` if it does not go on here."""
        with self._lock:
            due, view = self._known.get(run_id, (0.0, None))
            began = time.monotonic()
            if began >= due:
                run = look_at_running(self._notebook, Entry("", {"id": run_id, "status": "running"}))
                view = self._describe(run) if run is not None else None
                now = time.monotonic()
                self._known[run_id] = (now + max(_LEAST_AGE_S, _MOST_SHARE * (now - began)), view)
            return view

    def _describe(self, run: Run) -> dict[str, str]:
        from labbook.report.curves import curves_svg
        from labbook.report.numbers import duration
        from labbook.report.terminal_findings import finding_lines

        language = self._notebook.config.language_in_use()
        facts = [duration(time.time() - run.started), *finding_lines(run, language)[:2]]
        return {
            "title": run.title,
            "facts": " · ".join(line.strip() for line in facts),
            "curves": curves_svg(run.series, run.title, run.primary, words(language)["curves"]),
            "output": "\n".join(run.console.text.splitlines()[-_LINES:]),
        }


def entry_as_of_now(notebook: Notebook, entry: Entry) -> Entry:
    """Returns the entry with the front matter that its run has so far, if that goes on here."""
    from labbook.report.entry.entry_front_matter import entry_meta

    run = look_at_running(notebook, entry)
    if run is None:
        return entry
    return replace(entry, meta=entry_meta(run, run.title, entry.meta) | {"duration_s": time.time() - run.started})
