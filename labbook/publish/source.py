"""What the site is made of, read from the notebook through the index."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from labbook.diagnosis.catalogue import load
from labbook.index.build import ask_quickly
from labbook.index.memory import Held, fix_of, held_since
from labbook.index.query import listed
from labbook.model.entry import Entry
from labbook.publish.page import RunFacts, SiteFix, SiteSource
from labbook.publish.symptom_pages import difference_of
from labbook.report.run_row import run_row
from labbook.store.entry_text import read_text
from labbook.store.notebook import Notebook

if TYPE_CHECKING:
    import sqlite3


def site_source(
    notebook: Notebook, now: float, language: str = "en", *, tell: Callable[[int, int], None] | None = None
) -> SiteSource:
    """Runs, experiments, reports, symptoms, fixes and unreadable notes of a notebook.

    Args:
        notebook: Which one.
        now: Unix seconds.
        language: Of the pages, "en" or "zh".
        tell: Called with (files read, files to read) while the index is brought up to date.
    """
    runs = listed(notebook, tell=tell)
    experiments = [_with_body(notebook, entry) for entry in listed(notebook, kind="experiment").entries]
    reports = sorted(listed(notebook, kind="report").entries, key=lambda entry: entry.path, reverse=True)
    folder = notebook.paths.symptoms
    catalogue = load(folder)
    # Where the notebook lies on this machine is nothing for readers of the site.
    unread = [problem.replace(f"{notebook.paths.root}/", "") for problem in catalogue.problems]
    named = {path for path, _ in runs.refreshed.problems}
    own = [path.relative_to(notebook.paths.notes) for path in sorted(folder.rglob("*.md"))]
    return SiteSource(
        rows=[run_row(entry) for entry in runs.entries],
        experiments=[entry for entry in experiments if not entry.path.endswith("/index.md")],
        reports=[entry for entry in reports if not entry.path.endswith("/index.md")],
        now=now,
        week_start=notebook.config.week_start,
        problems=(
            *runs.refreshed.problems,
            *((path, text) for text in unread if (path := text.partition(": ")[0]) not in named),
        ),
        language=language,
        symptoms=catalogue.symptoms,
        # MkDocs leaves out what begins with a dot.
        own_symptoms=[path.as_posix() for path in own if not any(part.startswith(".") for part in path.parts)],
        fixes=_fixes(notebook, [entry for entry in runs.entries if entry.meta.get("fix")]),
        fronts={entry.path: entry.meta for entry in runs.entries},
        facts=_facts(notebook, [entry.path for entry in runs.entries]),
    )


def _facts(notebook: Notebook, entries: Sequence[str]) -> dict[str, RunFacts]:
    """Which runs have data beside their entry. Cost: one look at the disk each."""
    found = {}
    for path in entries:
        facts = notebook.paths.root / path.removesuffix(".md") / "run.json"
        with contextlib.suppress(OSError):
            seen = facts.lstat()
            # A link could lead out of the notebook.
            if stat.S_ISREG(seen.st_mode):
                found[path] = RunFacts(facts, f"{seen.st_mtime_ns}:{seen.st_size}")
    return found


def _fixes(notebook: Notebook, entries: Sequence[Entry]) -> list[SiteFix]:
    """Confirmed fixes of these runs, with whether they held."""

    def question(index: sqlite3.Connection) -> dict[str, Held]:
        return {entry.path: held_since(index, entry.id, entry.meta) for entry in entries}

    held = ask_quickly(notebook, question) if entries else {}
    found = []
    for entry in entries:
        text, by = fix_of(entry.meta)
        body = _with_body(notebook, entry).body
        known = held[entry.path]
        found.append(SiteFix(entry.path, text, by, known.runs, known.returned, difference_of(body)))
    return found


def _with_body(notebook: Notebook, entry: Entry) -> Entry:
    try:
        return replace(entry, body=read_text(notebook.paths.root / entry.path))
    except OSError:
        return entry
