"""Writes the report of a week into the notebook and commits it."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from labbook.errors import NotebookError
from labbook.frozen import dataclass
from labbook.index.query import list_notes
from labbook.model.entry import Entry
from labbook.report.run_data import load_run
from labbook.report.run_row import RunRow, run_row
from labbook.report.week import Week, week_named
from labbook.report.week_context import WeekSource, week_context
from labbook.report.week_page import week_markdown
from labbook.store.branch_checkout import restore_before_writing
from labbook.store.commit_queue import withheld_files
from labbook.store.entry_commit import CommitOutcome, commit_files
from labbook.store.entry_text import read_text
from labbook.store.experiments import metric_goal
from labbook.store.journal import write_atomically
from labbook.store.notebook import Notebook
from labbook.store.paths import check_stays_inside
from labbook.store.templates import Templates


@dataclass(frozen=True)
class WeeklyReport:
    """A written report.

    Args:
        path: Its file.
        data: Data of the week.
        commit: Outcome of the commit.
        trouble: Names a broken template of the notebook, or "".
        problems: Notes that could not be read, as (path, reason).
    """

    path: Path
    data: dict[str, Any]
    commit: CommitOutcome
    trouble: str
    problems: tuple[tuple[str, str], ...]


def write_week_report(
    notebook: Notebook, week: str, now: float, *, tell: Callable[[int, int], None] | None = None
) -> WeeklyReport:
    """Writes and commits `notes/reports/<week>.md`; text of people is preserved.

    Args:
        notebook: The notebook.
        week: `2026-W47`, "this" or "last".
        now: Unix seconds.
        tell: Called with (files read, files to read) while the index is updated.

    Raises:
        UsageError: `week` is not a week.
        NotebookError: The report cannot be written.
    """
    chosen = week_named(week, now, notebook.config.week_start)
    source, problems = week_source(notebook, chosen, tell=tell)
    path = notebook.paths.reports / f"{chosen.name}.md"
    templates = Templates(notebook.paths.templates, notebook.config.language_in_use())
    check_stays_inside(path, notebook.paths.root)
    restore_before_writing(notebook, path)
    try:
        existing = read_text(path) if path.exists() else None
        page, trouble = week_markdown(source, templates, existing)
        path.parent.mkdir(parents=True, exist_ok=True)
        if page != existing:
            write_atomically(path, page.encode("utf-8", "surrogateescape"))
    except OSError as error:
        hint = "free space or permissions there"
        raise NotebookError(f"cannot write the report {path}: {error.strerror or error}", hint=hint) from error
    data = week_context(source)
    totals = data["totals"]
    message = f"Report of week {chosen.name}: {totals['runs']} runs, {totals['broken']} failed, {totals['time']}"
    return WeeklyReport(path, data, commit_files(notebook, [path], message), trouble, problems)


def week_source(
    notebook: Notebook, week: Week, *, tell: Callable[[int, int], None] | None = None
) -> tuple[WeekSource, tuple[tuple[str, str], ...]]:
    """Returns the sources of a week, and the notes that could not be read."""
    runs = list_notes(notebook, tell=tell)
    since, _ = week.before().span
    withheld = withheld_files(notebook.paths)
    shown = (entry for entry in runs.entries if entry.path not in withheld)
    goals = cache(partial(metric_goal, notebook))
    rows = [row for row in (run_row(entry, goals) for entry in shown) if row.started >= since]
    pages = list_notes(notebook, kind="experiment").entries
    experiments = [_with_body(notebook, page) for page in pages]
    return WeekSource(week, rows, experiments, _changes(notebook, rows, week), report_link), runs.refreshed.problems


def report_link(path: str) -> str:
    """Returns the address of a note from a page in `notes/reports/`."""
    return posixpath.relpath(path, "notes/reports")


def _with_body(notebook: Notebook, page: Entry) -> Entry:
    try:
        return replace(page, body=read_text(notebook.paths.root / page.path))
    except OSError:
        return page


def _changes(notebook: Notebook, rows: list[RunRow], week: Week) -> dict[str, Any]:
    found = {}
    for row in rows:
        run = load_run(notebook.paths, row.id) if week.contains(row.started) else None
        if run is not None and run.changes:
            found[row.id] = run.changes
    return found
