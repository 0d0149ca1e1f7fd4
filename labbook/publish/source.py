"""What the site is made of, read from the notebook through the index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from labbook.index.query import listed
from labbook.model.entry import Entry
from labbook.publish.pages import SiteSource
from labbook.report.run_row import run_row
from labbook.store.entry_text import read_text
from labbook.store.notebook import Notebook


def site_source(notebook: Notebook, now: float, *, tell: Callable[[int, int], None] | None = None) -> SiteSource:
    """Runs, experiments, reports and unreadable notes of a notebook.

    Args:
        notebook: Which one.
        now: Unix seconds.
        tell: Called with (files read, files to read) while the index is brought up to date.
    """
    runs = listed(notebook, tell=tell)
    experiments = [_with_body(notebook, entry) for entry in listed(notebook, kind="experiment").entries]
    reports = sorted(listed(notebook, kind="report").entries, key=lambda entry: entry.path, reverse=True)
    return SiteSource(
        rows=[run_row(entry) for entry in runs.entries],
        experiments=[entry for entry in experiments if not entry.path.endswith("/index.md")],
        reports=[entry for entry in reports if not entry.path.endswith("/index.md")],
        now=now,
        week_start=notebook.config.week_start,
        problems=runs.refreshed.problems,
    )


def _with_body(notebook: Notebook, entry: Entry) -> Entry:
    try:
        return replace(entry, body=read_text(notebook.paths.root / entry.path))
    except OSError:
        return entry
