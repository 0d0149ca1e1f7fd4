"""Builds the entry of a run from its journal and commits it.

`labbook record` calls `finalize` when the command has ended, `labbook recover` for runs whose recorder died. It reads
only the journal, the notebook and the code's repository; repeating it gives the same entry.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.compare.previous_run import previous_run, remember_run
from labbook.findings.run_findings import add_diagnosis
from labbook.fixes.propose_fix import propose_fix
from labbook.model.run import Console, Facts, Run
from labbook.record.captured_facts import add_captured, capture_context
from labbook.record.end_summary import FinishedRun
from labbook.record.jobs.job_console import read_consoles
from labbook.record.kept_files import add_lineage, draw_lineage
from labbook.record.notebook_command import add_cells
from labbook.record.profiler_traces import add_traces
from labbook.record.run_from_journal.journal_reader import build_run
from labbook.store.journal import Journal, write_atomically
from labbook.store.paths import check_stays_inside

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor
    from labbook.store.entry_commit import CommitOutcome
    from labbook.store.notebook import Notebook

_SERIES_POINTS = 2000
_ALL_POINTS = 20_000
"""Maximum points of one series, and of all together, in `run.json`; the journal has all of them. Source: 20,000 points
take about 800 kB, and the folder of an entry stays under 1 MiB."""


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
    import labbook.store.entry_commit  # noqa: F401
    from labbook.store.templates import Templates

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
        notebook: Notebook of the entry.
        journal: Journal of the run; the caller owns its lock.
        redactor: Masks secrets in facts that are captured only now.

    Raises:
        LabbookError: The entry cannot be written; the journal stays open for `labbook recover`.
    """
    start = journal.read(journal.paths.start)
    end = journal.ending()
    processes = journal.processes()
    console = read_consoles(journal, redactor)
    run = build_run(start, end, processes, console)
    run = _add_console_metrics(run)
    run = add_captured(notebook, journal, start, run, processes, redactor)
    run = add_traces(run, journal, notebook.paths.attachments(run.id), redactor)
    run = add_lineage(notebook, run, redactor)
    run = add_cells(run, journal, notebook.paths.attachments(run.id), redactor)
    run = _add_changes(notebook, run, redactor)
    run = add_findings(notebook, run)
    entry = write_entry(notebook, run)
    proposal = propose_fix(notebook, run)
    outcome = _commit(notebook, run, entry, redactor)
    remember_run(notebook.paths, run)
    journal.write(
        journal.paths.done,
        {
            **journal.read(journal.paths.done),
            "entry": entry.relative_to(notebook.paths.root).as_posix(),
            "commit": outcome.commit,
            "ref": outcome.ref,
            "status": outcome.status,
            "reason": outcome.reason,
        },
        durable=False,
    )
    return FinishedRun(run, entry, outcome, _display_path(entry), notebook.config.language_in_use(), proposal)


def _add_console_metrics(run: Run) -> Run:
    """Adds the series printed on the console, except those that the probe recorded too."""
    if not run.console.text.strip():
        return run
    from labbook.capture.metrics_text import metrics_from_console

    known = {s.name.lower() for s in run.series}
    read = metrics_from_console(run.console.text)
    new = tuple(s for s in read if s.name.lower() not in known)
    return replace(run, series=run.series + new, printed=tuple(s for s in read if s not in new))


def _add_changes(notebook: Notebook, run: Run, redactor: Redactor) -> Run:
    """Adds the previous run of the same script and the changes since then."""
    from labbook.compare.run_changes import compare_runs, mask_changes
    from labbook.model.run_json import run_to_json

    before = previous_run(notebook.paths, run)
    if before is None:
        return run
    # Commit messages and values of an older entry have not passed this run's redactor.
    changes = mask_changes(compare_runs(before, run_to_json(run)), redactor)
    return replace(run, previous=str(before["id"]), changes=tuple(changes))


def add_findings(notebook: Notebook, run: Run) -> Run:
    """Adds health checks, the diagnosis, the primary series, tags and the title."""
    from labbook.report.entry.title import run_title
    from labbook.report.run_data import judged

    if run.signals or run.series or run.frameworks:
        from labbook.diagnosis.catalogue.check_pages import load_check_pages
        from labbook.health.checklist import checklist
        from labbook.health.debug_output import update_ratio
        from labbook.health.model_summary import summary
        from labbook.report.terminal_findings import visible_findings

        framework = run.frameworks[0].name if run.frameworks else ""
        pages = load_check_pages(notebook.paths.symptoms, framework)
        run = replace(run, checks=tuple(checklist(run, pages)), health=summary(run))
        run = _add_primary_series(notebook, run)
        run = replace(
            run, symptoms=tuple(dict.fromkeys((*run.symptoms, *(check.id for check in visible_findings(run)))))
        )
        ratios = tuple(series for signals in run.signals if (series := update_ratio(signals)) is not None)
        run = replace(run, series=run.series + ratios)
    run = judged(add_diagnosis(notebook, run))
    tags = dict.fromkeys((*run.tags, *(f.name for f in run.frameworks if f.optimizers or len(run.frameworks) == 1)))
    run = replace(run, tags=tuple(tags))
    return replace(run, title=run_title(run, notebook.config.language_in_use()))


def _add_primary_series(notebook: Notebook, run: Run) -> Run:
    """Adds the series that stands for the run, and its direction."""
    from labbook.health.training_kind import may_rise
    from labbook.model.metric_kinds import metric_kind, named_metric
    from labbook.report.series_choice import primary_series
    from labbook.store.experiments import metric_goal

    goal = metric_goal(notebook, run.experiment)
    name = primary_series(run, goal)
    kind = metric_kind(name)
    chosen = goal.direction if not goal.metric or named_metric([name], goal.metric) else ""
    free = kind.quantity == "loss" and kind.is_training and any(may_rise(run, each) for each in run.signals)
    return replace(run, primary=name, direction=chosen or ("none" if free else ""))


def write_entry(notebook: Notebook, run: Run) -> Path:
    """Writes the entry and its attachments, each file atomically."""
    from labbook.errors import NotebookError
    from labbook.report.entry.entry_page import entry_markdown
    from labbook.store.entry_text import read_text, to_bytes

    entry = notebook.paths.entry(run.id)
    check_stays_inside(entry, notebook.paths.root)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        if run.status != "running":
            _write_attachments(notebook, run)
        page = entry_markdown(run, notebook, read_text(entry) if entry.exists() else None)
        write_atomically(entry, to_bytes(page))
    except OSError as error:
        raise NotebookError("errors.record.entry_not_written", entry=entry, reason=error) from error
    return entry


def _write_attachments(notebook: Notebook, run: Run) -> None:
    from labbook.model.run_json import line_by_line, run_to_json

    folder = notebook.paths.attachments(run.id)
    folder.mkdir(parents=True, exist_ok=True)
    if run.parents:
        draw_lineage(run, folder)
    _draw_model(notebook, run, folder)
    if run.series:
        from labbook.report.curves import curves_svg, drawable, metrics_csv
        from labbook.report.gradient_flow_svg import flow_svg, worth_drawing

        if worth_drawing(run):
            write_atomically(folder / "flow.svg", flow_svg(run).encode("utf-8"), durable=False)
        if drawable(run.series):
            curves = curves_svg(run.series, run.title).encode("utf-8")
            write_atomically(folder / "curves.svg", curves, durable=False)
        write_atomically(folder / "metrics.csv", metrics_csv(run.series).encode("utf-8"), durable=False)
    points = max(20, min(_SERIES_POINTS, _ALL_POINTS // max(1, len(run.series))))
    facts = line_by_line(run_to_json(run, max_points=points))
    write_atomically(folder / "run.json", facts.encode("utf-8"), durable=False)


def _draw_model(notebook: Notebook, run: Run, folder: Path) -> None:
    from labbook.report.model_svg import has_diagram, model_svg
    from labbook.store.templates import words

    if has_diagram(run):
        labels = words(notebook.config.language_in_use(), notebook.paths.templates)["diagram"]
        write_atomically(folder / "model.svg", model_svg(run, labels).encode("utf-8"), durable=False)


def _commit(notebook: Notebook, run: Run, entry: Path, redactor: Redactor) -> CommitOutcome:
    """Commits the entry and its attachments; refused files are masked, or withheld from the site as well."""
    from labbook.errors import GitError
    from labbook.model.message import message_of
    from labbook.store.entry_commit import commit_files, withhold
    from labbook.store.last_look import mask_files

    folder = notebook.paths.attachments(run.id)
    files = [entry, *(sorted(p for p in folder.iterdir() if p.is_file()) if folder.is_dir() else [])]
    message = redactor.text(commit_message(run))
    outcome = commit_files(notebook, files, message, when=run.ended, redactor=redactor)
    if outcome.status == "withheld":
        # Texts masked one by one may look like a secret when joined. Masking them is better than losing the entry.
        with suppress(OSError):
            mask_files(notebook.paths.root, files, redactor)
        outcome = commit_files(notebook, files, message, when=run.ended, redactor=redactor)
    if outcome.status == "withheld":
        with suppress(OSError):
            withhold(notebook, files, message, run.ended or run.started, outcome.reason)
        later = GitError("errors.commit.masked_later", cause=outcome.cause)
        outcome = replace(outcome, reason=later.message, why=message_of(later))
    if outcome.status == "committed" and notebook.config.sync != "off":
        from labbook.store.sync_state import start_background_sync

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


def _display_path(path: Path) -> str:
    """Returns the path relative to the working folder if it lies below it, else the absolute path."""
    with suppress(ValueError, OSError):
        return path.relative_to(Path.cwd()).as_posix()
    return str(path)
