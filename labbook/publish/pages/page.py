"""Sources and pages of the site as data. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import Any

from labbook.frozen import dataclass
from labbook.index.documents import MAX_BYTES, content_digest
from labbook.model.entry import Entry
from labbook.model.symptom import Symptom
from labbook.publish.html.notes import inert
from labbook.publish.pages.build_cache import BuildCache
from labbook.publish.pages.build_record import content_key
from labbook.report import numbers
from labbook.report.best_runs import BROKEN
from labbook.report.run_row import RunRow
from labbook.store.text.templates import Templates


@dataclass(frozen=True)
class SiteFix:
    """A confirmed fix.

    Args:
        run: Path of the entry of the failed run.
        by: Id of the run that no longer fails, or "".
        held: Number of later runs of the script that finished without the failure.
        returned: Id of the run in which the failure came back, or "".
        difference: Differences of the two runs, Markdown from the entry of the failed run.
    """

    run: str
    text: str
    by: str = ""
    held: int = 0
    returned: str = ""
    difference: str = ""


@dataclass(frozen=True)
class RunFacts:
    """The committed `run.json` of a run.

    Args:
        key: Changes with the file.
    """

    path: Path
    key: str


@dataclass(frozen=True)
class MonthKeys:
    """Keys of the runs of a month, to compare with an earlier build.

    Args:
        content: Changes with any entry.
        rows: Changes with any row of the lists.
        days: Day, or month for entries outside of the folder of a day -> changes with the rows of its runs.
    """

    content: str
    rows: str
    days: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteSource:
    """Sources of the pages.

    Args:
        rows: All runs, newest first.
        reports: Reports, newest first.
        now: Unix seconds.
        week_start: "monday" or "sunday".
        problems: Notes that cannot be read, as (path, reason).
        language: Language of the pages, "en" or "zh".
        symptoms: Id -> page of the catalogue or of the notebook.
        own_symptoms: Files of `notes/symptoms/`, relative to `notes/`.
        fixes: Confirmed fixes, newest first.
        fronts: Path of the entry of a run -> its front matter.
        facts: Path of the entry of a run -> its `run.json`, if it has one.
        digests: Path of the entry of a run -> digest in the index.
        months: Month -> keys of its runs; without them nothing is cached.
        cache: Parts of earlier builds.
        withheld: Files below `notes/` that are withheld because of a possible secret; they are not shown.
    """

    rows: Sequence[RunRow]
    experiments: Sequence[Entry] = ()
    reports: Sequence[Entry] = ()
    now: float = 0.0
    week_start: str = "monday"
    problems: Sequence[tuple[str, str]] = ()
    language: str = "en"
    symptoms: Mapping[str, Symptom] = field(default_factory=dict)
    own_symptoms: Sequence[str] = ()
    fixes: Sequence[SiteFix] = ()
    fronts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    facts: Mapping[str, RunFacts] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    months: Mapping[str, MonthKeys] = field(default_factory=dict)
    cache: BuildCache = field(default_factory=BuildCache)
    withheld: frozenset[str] = frozenset()

    def front_of(self, path: str, content: bytes) -> Mapping[str, Any] | None:
        """Returns the front matter of an entry with this content, if known; saves parsing it."""
        known = self.digests.get(path)
        return (
            self.fronts.get(path)
            if known and len(content) <= MAX_BYTES and known == content_digest(len(content), content)
            else None
        )


@dataclass(frozen=True)
class Page:
    """A page of the site.

    Args:
        path: Path below `notes/`: `runs/2026/11/index.md`.
        markdown: Its text, or a function that returns it.
        title: Its title, plain text.
        wide: Whether it uses the whole width.
        scripts: Its scripts, below the folder of the theme: `assets/runs.js`.
        key: Key of its sources besides templates and words, if that is cheaper than its text, else "".
    """

    path: str
    markdown: str | Callable[[], str]
    title: str
    wide: bool = False
    scripts: tuple[str, ...] = ()
    key: str = ""

    def text(self) -> str:
        """Returns its text."""
        return self.markdown if isinstance(self.markdown, str) else self.markdown()

    def front_matter(self) -> dict[str, Any]:
        """Returns its front matter."""
        hidden = ["navigation", *(["toc"] if self.wide else [])]
        return {"title": inert(self.title), "hide": hidden, "scripts": list(self.scripts)}


@dataclass(frozen=True)
class SiteFile:
    """A data file of the site, for scripts or feed readers.

    Args:
        path: Path below the folder of the site: `data/runs/2026-11.json`.
        content: Its bytes, or a function that returns them; equal notebooks give equal bytes.
        key: Key of its sources, if that is cheaper than its bytes, else "".
    """

    path: str
    content: bytes | Callable[[], bytes]
    key: str = ""

    def read(self) -> bytes:
        """Returns its bytes."""
        return self.content if isinstance(self.content, bytes) else self.content()


def template_page(
    templates: Templates,
    template: str,
    path: str,
    title: str,
    data: Mapping[str, Any],
    *,
    wide: bool = False,
    scripts: tuple[str, ...] = (),
) -> Page:
    """Returns a page of a template of `templates/pages/`, rendered on demand.

    Its key is that of `data`, which takes a tenth of the time.
    """

    def render() -> str:
        return templates.render_anyway(f"pages/{template}.md.j2", data)[0]

    return Page(path, render, title, wide, scripts, content_key(template, data))


def group_rows(rows: Iterable[RunRow], key: Callable[[RunRow], str]) -> dict[str, list[RunRow]]:
    """Returns key -> its runs, in their order; no runs for a key that none has."""
    groups: dict[str, list[RunRow]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def run_totals(rows: Sequence[RunRow]) -> dict[str, Any]:
    """Returns the cells that sum up runs: how many, how many of them failed, and their time together."""
    time = numbers.duration(sum(row.duration_s or 0.0 for row in rows))
    return {"runs": len(rows), "broken": sum(row.status in BROKEN for row in rows), "time": time}


def link(path: str, page: str) -> str:
    """Returns the address of a note from a page, both relative to `notes/` and without `.` or `..`.

    Faster than `posixpath.relpath`, which asks for the working folder: pages have thousands of addresses.
    """
    there, here = path.split("/"), page.split("/")
    shared = 0
    for one, other in zip(there[:-1], here[:-1], strict=False):
        if one != other:
            break
        shared += 1
    return "/".join([".."] * (len(here) - 1 - shared) + there[shared:])


def run_url(row: RunRow, page: str) -> str:
    """Returns the address of the entry of a run from a page."""
    return link(row.path.removeprefix("notes/"), page)


def run_cells(row: RunRow, page: str) -> dict[str, Any]:
    """Returns the cells of a run in tables, with its address from `page`."""
    # `2026-11-23 14:05`; `strftime` takes five times as long.
    started = datetime.fromtimestamp(row.started).isoformat(" ", "minutes") if row.started > 0 else ""
    return {
        "id": row.id,
        "url": run_url(row, page),
        "status": row.status,
        "verdict": row.verdict,
        "title": row.subject,
        "outcome": row.outcome,
        "script": row.script,
        "experiment": row.experiment,
        "author": row.author,
        "duration": numbers.duration(row.duration_s),
        "day": started[:10],
        "time": started[11:],
        "metric": row.metric,
        "value": numbers.number(row.last if row.last is not None else row.best) if row.metric else "",
        "symptoms": list(row.symptoms),
        "fix": row.fix,
    }
