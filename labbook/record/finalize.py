"""Builds the entry of a run from its journal and commits it.

`labbook record` calls `finalize` when the command has ended, `labbook recover` for runs whose recorder died. It reads
only the journal, the notebook and the code's repository; repeating it gives the same entry.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.compare.previous_run import previous_run, remember_run
from labbook.errors import GitError
from labbook.findings.configuration_check import add_configuration_check
from labbook.fixes.propose_fix import propose_fix, propose_trial_fix
from labbook.model.message import message_of
from labbook.model.run import Console, Facts, Run
from labbook.record.background_processes import note_background
from labbook.record.captured_facts import add_captured, add_code_at_start, capture_context, separate_results_of_code
from labbook.record.end_summary import FinishedRun, path_from
from labbook.record.jobs.job_console import read_consoles
from labbook.record.kept_files import add_lineage, file_items
from labbook.record.notebook_command import add_cells, printed_by_cells
from labbook.record.profiler_traces import add_traces
from labbook.record.run_entry import add_findings, add_metrics_of_tables, add_printed_metrics, entry_files, write_entry
from labbook.record.run_from_journal.journal_reader import build_run
from labbook.record.run_from_journal.successive_trainings import trainings_as_trials
from labbook.record.run_from_journal.trial_parts import split_trials
from labbook.record.run_snapshot import add_snapshot
from labbook.record.successive_processes import split_processes
from labbook.record.trial_entries import training_facts, trial_facts, trial_runs, write_trials
from labbook.store.journal import Journal
from labbook.store.text.templates import Templates

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor
    from labbook.store.commit.entry_commit import CommitOutcome
    from labbook.store.notebook import Notebook


def preload_modules(notebook: Notebook, ended: Callable[[], bool]) -> None:
    """Imports the modules that `finalize` uses, while the command still runs.

    Args:
        notebook: Its templates are compiled.
        ended: Whether the command has ended; then the modules that only a training needs are left out.
    """
    import labbook.capture.console.console_reader
    import labbook.capture.python_env
    import labbook.capture.used_files
    import labbook.compare.run_changes
    import labbook.model.run_json
    import labbook.report.entry.entry_page
    import labbook.store.commit.entry_commit  # noqa: F401

    Templates(notebook.paths.templates, notebook.config.language_in_use()).prepare()
    for module in (
        "capture.metrics_text",
        "health.checklist",
        "report.curves",
        "diagnosis.text.log_reader",
        "diagnosis.cause_ranking",
    ):
        if not ended():
            import_module("labbook." + module)
    if not ended():
        import_module("labbook.diagnosis.catalogue.check_pages").prepare()


def capture_start(notebook: Notebook, journal: Journal, start: Facts, redactor: Redactor) -> None:
    """Writes `before.json`: the redacted facts of the capture sources at the start."""
    from labbook.capture.sources import capture_before

    facts = capture_before(capture_context(notebook, journal, start, redactor, {}))
    journal.write(journal.paths.before, facts, durable=False)


def write_running_entry(notebook: Notebook, journal: Journal) -> None:
    """Writes the entry of a run that has just started, with status running, without a commit."""
    start = journal.read(journal.paths.start)
    run = replace(
        build_run(start, {}, [], Console()),
        status="running",
        verdict="unknown",
        verdict_reason="running",
        ended=None,
        captured=journal.read(journal.paths.before),
    )
    write_entry(notebook, run)


def finalize(notebook: Notebook, journal: Journal, redactor: Redactor) -> FinishedRun:
    """Writes and commits the entry of a run that has ended, and closes its journal.

    Args:
        journal: Journal of the run; the caller owns its lock.
        redactor: Masks secrets in facts that are captured only now.

    Raises:
        LabbookError: The entry cannot be written; the journal stays open for `labbook recover`.
    """
    _leave_deleted_folder(notebook)
    start = journal.read(journal.paths.start)
    end = journal.read_ending()
    recorded = journal.processes()
    processes, trials = split_trials(recorded)
    console = read_consoles(journal, redactor)
    if not trials:
        processes, trials = split_processes(journal, recorded, console, redactor)
    run = build_run(start, end, processes, console)
    run = add_code_at_start(run, journal, notebook.paths.attachments(run.id), redactor)
    if not trials:
        run = add_printed_metrics(run, run.console.text)
    run = add_captured(notebook, journal, start, run, processes, redactor, recorded)
    run = add_printed_metrics(run, redactor.text(printed_by_cells(run)))
    if not trials:
        run = add_metrics_of_tables(run, file_items(processes), Path(run.cwd).expanduser(), redactor)
    run = add_traces(run, notebook, journal, redactor)
    run = add_lineage(notebook, run, redactor)
    run = add_cells(run, journal, notebook.paths.attachments(run.id), redactor)
    run = _add_changes(notebook, run, redactor)
    run = add_configuration_check(notebook, run)
    others: list[Path] = []
    runs: list[Run] = []
    if alone := trials or trainings_as_trials(run, processes):
        runs = trial_runs(notebook, run, start, alone)
        others = write_trials(notebook, runs)
        facts = {"trials": trial_facts(run, trials, runs)} if trials else {"trainings": training_facts(run, runs)}
        run = replace(run, captured={**run.captured, **facts})
    run = add_findings(notebook, run)
    run = add_snapshot(notebook, journal, start, run, processes, redactor)
    entry = write_entry(notebook, run)
    proposal = propose_fix(notebook, run) or propose_trial_fix(notebook, runs)
    outcome = _commit(notebook, run, [*entry_files(notebook, run.id, entry), *others], redactor)
    remember_run(notebook.paths, run)
    shutil.rmtree(journal.paths.code, ignore_errors=True)
    journal.write(
        journal.paths.done,
        {
            **journal.read(journal.paths.done),
            "entry": notebook.paths.relative(entry),
            "commit": outcome.commit,
            "ref": outcome.ref,
            "status": outcome.status,
            "reason": outcome.reason,
        },
        durable=False,
    )
    living = note_background(notebook.paths, journal, start, recorded) if len(journal.parts()) == 1 else 0
    shown, language = path_from(entry, Path.cwd()), notebook.config.language_in_use()
    return FinishedRun(run, entry, outcome, shown, language, proposal, living)


def _leave_deleted_folder(notebook: Notebook) -> None:
    """Goes to the notebook if the command has deleted the working folder; what reads it would fail."""
    try:
        Path.cwd()
    except OSError:
        os.chdir(notebook.paths.root)


def _add_changes(notebook: Notebook, run: Run, redactor: Redactor) -> Run:
    """Adds the previous run of the same script and the changes since then."""
    from labbook.compare.run_changes import compare_runs, mask_changes
    from labbook.model.run_json import run_to_json

    before = previous_run(notebook.paths, run)
    run = separate_results_of_code(run, before or {})
    if before is None:
        return run
    # Commit messages and values of an older entry have not passed this run's redactor.
    changes = mask_changes(compare_runs(before, run_to_json(run)), redactor)
    return replace(run, previous=str(before["id"]), changes=tuple(changes))


def _commit(notebook: Notebook, run: Run, files: list[Path], redactor: Redactor) -> CommitOutcome:
    """Commits entries and their attachments; refused files are masked, or withheld from the site as well."""
    from labbook.store.commit.masked_commit import commit_masked

    outcome = commit_masked(notebook, files, commit_message(run), redactor, when=run.ended)
    if outcome.status == "withheld":
        later = GitError("errors.commit.masked_later", cause=outcome.cause)
        outcome = replace(outcome, reason=later.message, why=message_of(later))
    if outcome.status == "committed" and notebook.config.sync != "off":
        from labbook.store.commit.sync_state import start_background_sync

        start_background_sync(notebook)
    return outcome


def commit_message(run: Run) -> str:
    """Returns the commit message: the command, the changes and the observations."""
    lines = [run.title or run.id, "", f"Ran: {' '.join(run.argv)}"[:500]]
    if run.changes:
        changed = "; ".join(f"{c.what} {c.before} -> {c.now}".strip() for c in run.changes[:5])
        lines.append(f"Changed since {run.previous}: {changed}"[:500])
    observed = [c for c in run.checks if c.verdict in ("warn", "fail")]
    verdicts = "; ".join(f"{c.title}: {c.observed}" for c in observed[:5])
    lines.append(f"Observed: {run.status}" + (f"; {verdicts}" if verdicts else ""))
    lines += ["", f"Run: {run.id}"]
    return "\n".join(lines) + "\n"
