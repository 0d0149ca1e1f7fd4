"""What the site is made of and made into: notes as data in, pages with Markdown out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import Any

from labbook.frozen import dataclass
from labbook.index.documents import MAX_BYTES, content_digest
from labbook.model.entry import Entry
from labbook.model.symptom import Symptom
from labbook.publish.build_cache import BuildCache
from labbook.publish.build_record import content_key
from labbook.report import numbers
from labbook.report.run_row import RunRow
from labbook.store.templates import Templates


@dataclass(frozen=True)
class SiteFix:
    """A confirmed fix.

    Args:
        run: Path of the entry of the run that failed.
        text: What the fix was, in words.
        by: Id of the run that was cured, or "".
        held: How many later runs of the script finished without the failure.
        returned: Id of the run in which it came back, or "".
        difference: Where the two runs differ, Markdown from the entry of the run that failed.
    """

    run: str
    text: str
    by: str = ""
    held: int = 0
    returned: str = ""
    difference: str = ""


@dataclass(frozen=True)
class RunFacts:
    """The committed data of a run, beside its entry.

    Args:
        path: Of its `run.json`.
        key: Changes when that file does.
    """

    path: Path
    key: str


@dataclass(frozen=True)
class MonthKeys:
    """What tells the runs of a month from those of an earlier build.

    Args:
        content: Changes with any of their entries.
        rows: Changes with what lists say of them.
        days: Day, or the month for entries in no day's folder -> changes with what lists say of its runs.
    """

    content: str
    rows: str
    days: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteSource:
    """What the pages are made of.

    Args:
        rows: All runs, newest first.
        experiments: Pages of experiments with their text.
        reports: Reports, newest first.
        now: Unix seconds.
        week_start: "monday" or "sunday".
        problems: Notes that cannot be read, as (path, reason).
        language: Of the pages, "en" or "zh".
        symptoms: The catalogue with the notebook's own pages on top, by id.
        own_symptoms: Files of `notes/symptoms/`, relative to `notes/`.
        fixes: Confirmed fixes, newest first.
        fronts: Path of a run's entry -> its front matter.
        facts: Path of a run's entry -> its `run.json`, of those that have one.
        digests: Path of a run's entry -> what its front matter was read from, as the index knows it.
        months: Month -> keys of its runs; without them nothing is kept.
        kept: What was made in earlier builds.
        withheld: Files below `notes/` whose commit is withheld, as they may hold a secret: no page shows them.
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
    kept: BuildCache = field(default_factory=BuildCache)
    withheld: frozenset[str] = frozenset()

    def front_of(self, path: str, content: bytes) -> Mapping[str, Any] | None:
        """The front matter of an entry with this content, as far as it is known; parsing it takes long."""
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
        path: Below `notes/`: `runs/2026/11/index.md`.
        markdown: Its text, or what makes it.
        title: Its title, plain text.
        wide: Whether it is a table that wants the whole width.
        scripts: Scripts that it needs, below the theme's folder: `assets/runs.js`.
        key: What it is made from besides templates and words, where making its text takes longer than asking; "" where
            there is no such shortcut.
    """

    path: str
    markdown: str | Callable[[], str]
    title: str
    wide: bool = False
    scripts: tuple[str, ...] = ()
    key: str = ""

    def text(self) -> str:
        """Its text, made now where it is not at hand."""
        return self.markdown if isinstance(self.markdown, str) else self.markdown()


@dataclass(frozen=True)
class SiteFile:
    """A file of the site that is data for scripts or readers of feeds, not a page.

    Args:
        path: Below the site's folder: `data/runs/2026-11.json`.
        content: Its bytes, or what makes them; the same notebook gives the same.
        key: What they are made from, where making them takes longer than asking: as long as it is the same, so are
            they. "" where there is no such shortcut.
    """

    path: str
    content: bytes | Callable[[], bytes]
    key: str = ""

    def read(self) -> bytes:
        """Its bytes, made now where they are not at hand."""
        return self.content if isinstance(self.content, bytes) else self.content()


def rendered(
    templates: Templates,
    template: str,
    path: str,
    title: str,
    data: Mapping[str, Any],
    *,
    wide: bool = False,
    scripts: tuple[str, ...] = (),
) -> Page:
    """The page that a template of `templates/pages/` makes, once it is asked for.

    Its key is that of `data`, which takes a tenth of the time.
    """

    def made() -> str:
        return templates.render_anyway(f"pages/{template}.md.j2", data)[0]

    return Page(path, made, title, wide, scripts, content_key(template, data))


def link(path: str, page: str) -> str:
    """Address of a note from a page, both relative to `notes/` and without `.` or `..`.

    As `posixpath.relpath`, which asks for the working folder each time: pages hold thousands of addresses.
    """
    there, here = path.split("/"), page.split("/")
    shared = 0
    for one, other in zip(there[:-1], here[:-1], strict=False):
        if one != other:
            break
        shared += 1
    return "/".join([".."] * (len(here) - 1 - shared) + there[shared:])


def run_url(row: RunRow, page: str) -> str:
    """Address of a run's entry from a page."""
    return link(row.path.removeprefix("notes/"), page)


def run_cells(row: RunRow, page: str) -> dict[str, Any]:
    """What tables say of a run, with its address from `page`."""
    # `2026-11-23 14:05`; `strftime` takes five times as long.
    started = datetime.fromtimestamp(row.started).isoformat(" ", "minutes") if row.started > 0 else ""
    return {
        "id": row.id,
        "url": run_url(row, page),
        "status": row.status,
        "title": row.subject,
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
