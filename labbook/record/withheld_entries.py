"""Masks secrets in entries that were withheld, and commits them."""

from __future__ import annotations

import os
from collections.abc import Callable

from labbook.report.commit_line import commit_line
from labbook.store.commit.commit_queue import WITHHELD, pending_commits, remove_commit
from labbook.store.commit.entry_commit import CommitOutcome, commit_files, withhold
from labbook.store.commit.last_look import mask_files
from labbook.store.journal import Journal, list_journals
from labbook.store.notebook import Notebook
from labbook.store.paths import is_run_id
from labbook.store.recorder_redaction import make_redactor
from labbook.store.text.sentences import Sentences


def release_withheld(notebook: Notebook, print_line: Callable[[str], None]) -> int:
    """Masks possible secrets in each withheld commit, commits it, and returns their number.

    Raises:
        NotebookError: The notebook's own redaction rules cannot be read.
        OSError: A file cannot be written.
    """
    sentences = Sentences(notebook.config.language_in_use())
    redactor = make_redactor(os.environ, (), notebook.redaction_rules())
    _note_refused_runs(notebook)
    items = pending_commits(notebook.paths, queue=WITHHELD)
    for item in items:
        files = [notebook.paths.root / file for file in item.files]
        name = files[0].stem
        masked = mask_files(notebook.paths.root, files, redactor)
        for each in masked:
            print_line(sentences.line("record.masked", file=each.place, line=str(each.hit.line), rule=each.hit.rule))
        if "(known)" in item.reason and not any(each.hit.rule == "known" for each in masked):
            # Only an environment variable of the run identified this text as a secret.
            print_line(sentences.line("record.withheld_value", entry=name))
            print_line(f"         {sentences.line('record.withheld_value_advice')}")
            continue
        message = redactor.text(item.message)
        outcome = commit_files(notebook, files, message, when=item.when, redactor=redactor, only_new=item.only_new)
        if outcome.status in ("withheld", "failed"):
            print_line(sentences.line("record.withheld", entry=name, reason=outcome.cause))
            print_line(f"         {sentences.line('record.withheld_advice')}")
            continue
        remove_commit(item)
        _note_outcome(notebook, name, outcome)
        commit = sentences(outcome.cause) or commit_line(outcome, sentences)
        print_line(sentences.line("record.released", entry=name, commit=commit))
    return len(items)


def _note_refused_runs(notebook: Notebook) -> None:
    """Queues entries that an earlier version of labbook refused to commit without queueing them."""
    from labbook.record.finalize import commit_message
    from labbook.record.run_entry import entry_files
    from labbook.report.run_data import load_run

    known = {item.files[0] for item in pending_commits(notebook.paths, queue=WITHHELD)}
    for journal in list_journals(notebook.paths):
        entry = notebook.paths.entry(journal.run_id)
        if journal.read(journal.paths.done).get("status") not in ("withheld", "failed"):
            continue
        if not entry.is_file() or notebook.paths.relative(entry) in known:
            continue
        files = entry_files(notebook, journal.run_id, entry)
        reason = str(journal.read(journal.paths.done).get("reason") or "")
        run = load_run(notebook.paths, journal.run_id)
        message = commit_message(run) if run is not None else f"Run: {journal.run_id}\n"
        when = run.ended if run is not None and run.ended else entry.stat().st_mtime
        withhold(notebook, files, message, when, reason)


def _note_outcome(notebook: Notebook, run_id: str, outcome: CommitOutcome) -> None:
    """Writes the outcome of the commit into the journal, if `run_id` is a run with a finished journal."""
    if not is_run_id(run_id):
        return
    journal = Journal(notebook.paths.journal(run_id))
    done = journal.read(journal.paths.done)
    if done:
        facts = {"commit": outcome.commit, "ref": outcome.ref, "status": outcome.status, "reason": outcome.reason}
        journal.write(journal.paths.done, {**done, **facts}, durable=False)
