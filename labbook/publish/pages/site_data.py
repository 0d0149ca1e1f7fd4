"""Reads the sources of the site from the notebook, through the index."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.index.build import query_index, query_without_refresh
from labbook.index.fix_outcomes import FixOutcome, confirmed_fix, fix_outcome
from labbook.index.query import list_notes
from labbook.model.entry import Entry
from labbook.model.metric_kinds import MetricGoal
from labbook.publish.pages.build_cache import FOLDER, BuildCache, program_key
from labbook.publish.pages.build_record import content_key, file_state_or_gone
from labbook.publish.pages.page import MonthKeys, RunFacts, SiteFix, SiteSource
from labbook.publish.pages.run_table_data import entry_day, entry_month
from labbook.publish.pages.symptom_pages import fix_difference
from labbook.report.run_row import RunRow, run_row
from labbook.store.commit.commit_queue import withheld_files
from labbook.store.experiments import experiments as all_experiments
from labbook.store.experiments import metric_goal
from labbook.store.notebook import Notebook
from labbook.store.text.entry_text import read_text

if TYPE_CHECKING:
    import sqlite3


def site_source(notebook: Notebook, now: float, language: str = "en", *, state: Path | None = None) -> SiteSource:
    """Returns runs, experiments, reports, symptoms, fixes and unreadable notes of a notebook.

    Args:
        now: Unix seconds.
        language: Language of the pages, "en" or "zh".
        state: Folder of cached data that outlives the installation; default: the private folder of the notebook.
    """
    cache = BuildCache((state or notebook.paths.private) / FOLDER, program_key(by_content=state is not None))
    withheld = withheld_files(notebook.paths)
    runs, refreshed = query_index(notebook, _all_runs)
    runs = [run for run in runs if run.path not in withheld]
    rows, months, with_fix = _rows(runs, cache, _Goals(notebook))
    fronts = _Fronts({run.path: run.front for run in runs})
    experiments = [read_body(notebook, entry) for entry in list_notes(notebook, kind="experiment").entries]
    reports = sorted(list_notes(notebook, kind="report").entries, key=lambda entry: entry.path, reverse=True)
    folder = notebook.paths.symptoms
    catalogue = load_catalogue(folder, language=notebook.config.language_in_use())
    # Paths of this machine are not shown on the site.
    unread = [problem.replace(f"{notebook.paths.root}/", "") for problem in catalogue.problems]
    named = {path for path, _ in refreshed.problems}
    own = [path.relative_to(notebook.paths.notes) for path in sorted(folder.rglob("*.md"))]
    pages = [notebook.paths.relative(notebook.paths.notes / path) for path in own]
    return SiteSource(
        rows=rows,
        experiments=[entry for entry in experiments if not entry.path.endswith("/index.md")],
        reports=[entry for entry in reports if not entry.path.endswith("/index.md")],
        now=now,
        week_start=notebook.config.week_start,
        problems=(
            *refreshed.problems,
            *((path, text) for text in unread for path in pages if text.startswith(path) and path not in named),
        ),
        language=language,
        symptoms=catalogue.symptoms,
        # MkDocs ignores files that begin with a dot.
        own_symptoms=[path.as_posix() for path in own if not any(part.startswith(".") for part in path.parts)],
        fixes=_fixes(notebook, with_fix, cache),
        fronts=fronts,
        facts=_facts(notebook, [run.path for run in runs]),
        digests={run.path: run.digest for run in runs if run.digest},
        months=months,
        cache=cache,
        withheld=frozenset(path.removeprefix("notes/") for path in withheld),
    )


class _Run(NamedTuple):
    """A run of the index: path of the entry, front matter as JSON, digest of its source."""

    path: str
    front: str
    digest: str


def _all_runs(index: sqlite3.Connection) -> list[_Run]:
    """Returns all runs, newest first. The digest is "" if the front matter is unreadable."""
    query = (
        "SELECT n.path, n.meta, coalesce(f.hash, '') FROM notes n"
        " LEFT JOIN files f ON f.path = n.path AND f.problem = ''"
        " WHERE n.kind = 'run' ORDER BY n.started DESC, n.name DESC"
    )
    return [_Run(*row) for row in index.execute(query)]


class _Fronts(Mapping[str, Mapping[str, Any]]):
    """Front matter by path of the entry, parsed on demand: most months are never read."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._parsed: dict[str, Mapping[str, Any]] = {}

    def __getitem__(self, path: str) -> Mapping[str, Any]:
        found = self._parsed.get(path)
        if found is None:
            found = self._parsed[path] = json.loads(self._texts[path])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


class _Goals:
    """Experiment -> the metric that people chose for it, and a key of all of them."""

    def __init__(self, notebook: Notebook) -> None:
        slugs = ["", *(each.slug for each in all_experiments(notebook))]
        self._goals = {slug: metric_goal(notebook, slug) for slug in slugs}
        self.key = content_key([(slug, goal.metric, goal.direction) for slug, goal in self._goals.items()])

    def __call__(self, experiment: str) -> MetricGoal:
        return self._goals.get(experiment, self._goals[""])


def _rows(
    runs: Sequence[_Run], cache: BuildCache, goals: _Goals
) -> tuple[list[RunRow], dict[str, MonthKeys], list[Entry]]:
    """Returns the rows of runs in the same order, the keys of their months, and the runs with a fix.

    Rows of unchanged days come from the cache.
    """
    days: dict[str, list[_Run]] = defaultdict(list)
    for run in runs:
        days[entry_day(run.path)].append(run)
    found: dict[str, RunRow] = {}
    fixes: dict[str, Entry] = {}
    contents: dict[str, dict[str, str]] = defaultdict(dict)
    shown: dict[str, dict[str, str]] = defaultdict(dict)
    for day, held in days.items():
        key = content_key(goals.key, [(run.path, run.digest or run.front) for run in held])
        content = cache.get_or_make(f"rows-{day}", key, partial(_encode_runs, held, goals))
        made = json.loads(content)
        found.update((run.path, _row(values)) for run, values in zip(held, made["rows"], strict=True))
        fixes.update((path, Entry(path, front)) for path, front in made["fixes"].items())
        month = entry_month(held[0].path)
        contents[month][day], shown[month][day] = key, content_key(content)
    keys = {
        month: MonthKeys(content_key(list(contents[month].items())), content_key(list(by_day.items())), by_day)
        for month, by_day in shown.items()
    }
    return [found[run.path] for run in runs], keys, [fixes[run.path] for run in runs if run.path in fixes]


_FIELDS = [field.name for field in fields(RunRow)]
_OF_FIX = ("id", "fix", "fix_text", "fingerprints", "symptoms")
"""Keys of the front matter that `confirmed_fix` and `fix_outcome` read."""

_SEVERAL = [field.name for field in fields(RunRow) if str(field.type).startswith("tuple")]


def _encode_runs(runs: Sequence[_Run], goals: _Goals) -> bytes:
    entries = [Entry(run.path, json.loads(run.front)) for run in runs]
    rows = [[getattr(row, name) for name in _FIELDS] for row in (run_row(entry, goals) for entry in entries)]
    fixes = {
        entry.path: {name: entry.meta[name] for name in _OF_FIX if name in entry.meta}
        for entry in entries
        if entry.meta.get("fix")
    }
    return json.dumps({"rows": rows, "fixes": fixes}, separators=(",", ":")).encode()


def _row(values: Sequence[Any]) -> RunRow:
    row = RunRow.__new__(RunRow)
    # Twenty times as fast as the constructor of a frozen class, for ten thousand rows.
    known = row.__dict__
    known.update(zip(_FIELDS, values, strict=True))
    for name in _SEVERAL:
        known[name] = tuple(known[name])
    return row


def _facts(notebook: Notebook, entries: Sequence[str]) -> dict[str, RunFacts]:
    """Returns the runs with a `run.json`. Cost: one `stat` each."""
    found = {}
    root = str(notebook.paths.root)
    for path in entries:
        facts = f"{root}/{path.removesuffix('.md')}/run.json"
        with contextlib.suppress(OSError):
            seen = os.lstat(facts)
            # A link may lead out of the notebook.
            if stat.S_ISREG(seen.st_mode):
                found[path] = RunFacts(Path(facts), f"{seen.st_mtime_ns}:{seen.st_size}")
    return found


def _fixes(notebook: Notebook, entries: Sequence[Entry], cache: BuildCache) -> list[SiteFix]:
    """Returns the confirmed fixes of these runs with their outcomes."""

    def question(index: sqlite3.Connection) -> dict[str, FixOutcome]:
        return {entry.path: fix_outcome(index, entry.id, entry.meta) for entry in entries}

    held = query_without_refresh(notebook, question) if entries else {}
    found = []
    for entry, difference in zip(entries, _differences(notebook, entries, cache), strict=True):
        text, by = confirmed_fix(entry.meta)
        known = held[entry.path]
        found.append(SiteFix(entry.path, text, by, known.runs, known.returned, difference))
    return found


def _differences(notebook: Notebook, entries: Sequence[Entry], cache: BuildCache) -> list[str]:
    """Returns the differences in the section *Fix* of the entries."""
    now_ns = time.time_ns()
    states = [(entry.path, file_state_or_gone(f"{notebook.paths.root}/{entry.path}", now_ns)) for entry in entries]

    def encode_differences() -> bytes:
        return json.dumps([fix_difference(read_body(notebook, entry).body) for entry in entries]).encode()

    # A file that may change again with the same time stamp is not cached.
    content = (
        cache.get_or_make("differences", content_key(states), encode_differences)
        if all(state for _, state in states)
        else encode_differences()
    )
    found: list[str] = json.loads(content)
    return found


def read_body(notebook: Notebook, entry: Entry) -> Entry:
    """The entry with the text of its page; as it is where that cannot be read."""
    try:
        return replace(entry, body=read_text(notebook.paths.root / entry.path))
    except OSError:
        return entry
