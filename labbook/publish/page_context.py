"""What a page shows besides its own note: its place in time, symptoms and cures, runs of an experiment. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from functools import cache
from typing import Any

from labbook.publish.build_record import content_key
from labbook.publish.experiment_view import SCRIPTS
from labbook.publish.notes import SiteNote, inert, with_block
from labbook.publish.page import SiteSource
from labbook.publish.pages import experiment_runs, neighbours, same_script
from labbook.publish.run_table_data import entry_day, entry_month
from labbook.publish.symptom_pages import symptom_page
from labbook.publish.symptom_view import SymptomView, symptom_path, symptom_view
from labbook.report.run_row import RunRow
from labbook.report.week_context import local_time
from labbook.store.paths import is_run_id
from labbook.store.templates import Templates

_MOST_LINKS = 5
"""Symptoms, and runs that it cured, named above an entry. Source: chosen by us; all of them stand in the entry."""

_BAR_WORDS = ("older", "newer", "all_runs", "shows", "cured_in", "has_cured", "of_script", "compare_earlier")


Day = tuple[str, Sequence[str]]
"""The key of all that the pages of a day's runs show besides their notes, and those notes, as paths below `notes/`."""


class Surroundings:
    """What a notebook knows around each of its notes.

    Args:
        source: The notebook.
        templates: Of the site's language.
        at: Path of a note below `notes/` -> its address in the site, "" for one that has no page.
        view: The same notebook by symptom, where it is at hand.
    """

    def __init__(
        self, source: SiteSource, templates: Templates, at: Callable[[str], str], view: SymptomView | None = None
    ) -> None:
        self._source = source
        self._templates = templates
        self._at = at
        self._view = view or symptom_view(source)
        self._rows = self._view.rows
        self._around = neighbours(source.rows)
        self._of_script = same_script(source.rows)
        self._cures = {fix.run: fix.by for fix in source.fixes if fix.by}
        self._cured: dict[str, list[RunRow]] = defaultdict(list)
        for fix in source.fixes:
            if fix.by and fix.run in self._rows:
                self._cured[fix.by].append(self._rows[fix.run])
        said = templates.words["site"]
        self._said = {key: str(said[key]) for key in _BAR_WORDS}
        # Asked for again and again, by each neighbour of a run.
        self._all_runs, self._compare = at("runs/index.md"), at("compare/index.md")
        self._urls: dict[str, str] = {}
        self._linked = cache(self._symptom_link)

    def shown_around(self, path: str) -> Any:  # noqa: ANN401 - plain data
        """All that the page of a note below `notes/` shows and that does not stand in the note; as plain data.

        Two pages of the same note look the same when these are equal.
        """
        if path.startswith("experiments/"):
            return experiment_runs(_name(path), self._source, self._templates)
        symptom = self._symptom(path)
        if symptom:
            return [self._view.title(symptom), symptom_page(self._view, symptom, self._templates, "").key]
        return self.bar(path) or ""

    def keys_of_days(self, there: Container[str]) -> dict[str, Day]:
        """Day with runs -> its key, and its runs.

        Where the key of a day is that of another build, so is the bar of each of its runs, given the same words and
        time zone.

        Args:
            there: Paths below `notes/` that have a page.

        Cost: 10,000 runs in 30 ms, a sixth of what their bars take.
        """
        days: dict[str, list[RunRow]] = defaultdict(list)
        for row in self._source.rows:
            days[entry_day(row.path)].append(row)
        return {day: self._day(day, rows, there) for day, rows in days.items()}

    def _day(self, day: str, rows: Sequence[RunRow], there: Container[str]) -> Day:
        def page(row: RunRow | None) -> str:
            return row.path if row is not None and row.path[len("notes/") :] in there else ""

        keys = self._source.months.get(entry_month(rows[0].path))
        shown = keys.days.get(day, "") if keys is not None else ""
        beside: list[str] = []
        more: list[list[Any]] = []
        for row in rows:
            older, newer = self._around[row.path]
            earlier, later = self._of_script.get(row.path, (None, None))
            beside += [page(older), page(newer), page(earlier), page(later), earlier.id if earlier is not None else ""]
            cure = self._view.by_id.get(self._cures.get(row.path, ""))
            if cure is not None:
                more.append([row.path, cure.id, cure.started, page(cure)])
            cured = self._cured.get(row.id, ())[:_MOST_LINKS]
            more += [[row.path, failed.id, failed.started, failed.subject, page(failed)] for failed in cured]
        symptoms = {name: self._linked(name) for name in sorted({name for row in rows for name in row.symptoms})}
        alike = [self._said, self._all_runs, self._compare, local_time(rows[0].started)]
        key = content_key(shown or [vars(row) for row in rows], alike, beside, more, symptoms)
        return key, [source for row in rows if (source := row.path[len("notes/") :]).startswith("runs/")]

    def markdown_and_title(self, path: str, note: SiteNote) -> tuple[str, str]:
        """The text of a note with what is shown around it, and the title that it gets from there, or ""."""
        if path.startswith("experiments/") and not note.problem:
            return with_block(note.markdown, "runs", experiment_runs(_name(path), self._source, self._templates)), ""
        symptom = self._symptom(path)
        if symptom:
            page = symptom_page(self._view, symptom, self._templates, note.markdown)
            return page.text(), inert(self._view.title(symptom))
        return note.markdown, ""

    def scripts(self, path: str) -> tuple[str, ...]:
        """Scripts that the page of a note needs besides those of all pages."""
        return SCRIPTS if path.startswith("experiments/") and path.removesuffix(".md") != "experiments/index" else ()

    def bar(self, path: str) -> dict[str, Any] | None:
        """What stands above an entry: where it belongs in time. `None` for a note that is no entry of a run."""
        row = self._rows.get(f"notes/{path}")
        if row is None:
            return None
        older, newer = self._around[row.path]
        earlier, later = self._of_script.get(row.path, (None, None))
        cure = self._view.by_id.get(self._cures.get(row.path, ""))
        return {
            "status": row.status,
            "id": row.id,
            "when": local_time(row.started),
            "author": row.author,
            "older": self._url(older),
            "newer": self._url(newer),
            "all": self._all_runs,
            "symptoms": [link for name in row.symptoms[:_MOST_LINKS] if (link := self._linked(name)) is not None],
            "cure": {"title": local_time(cure.started) or cure.id, "url": self._url(cure)}
            if cure is not None
            else None,
            "cured": [
                {"title": f"{local_time(failed.started) or failed.id} {failed.subject}", "url": self._url(failed)}
                for failed in self._cured.get(row.id, ())[:_MOST_LINKS]
            ],
            "compare": self._comparison(earlier, row),
            "script": row.script,
            "script_older": self._url(earlier) if earlier is not older else "",
            "script_newer": self._url(later) if later is not newer else "",
            "said": self._said,
        }

    def _comparison(self, earlier: RunRow | None, row: RunRow) -> str:
        """Address of the comparison with the run of the same script before, "" where there is none."""
        page = self._compare
        known = earlier is not None and is_run_id(earlier.id) and is_run_id(row.id)
        return f"{page}#runs={earlier.id},{row.id}" if earlier is not None and known and page else ""

    def _symptom(self, path: str) -> str:
        """The symptom whose page a note is, or ""."""
        name = path.removeprefix("symptoms/").removesuffix(".md")
        return name if name in self._view.paged and path == symptom_path(name) else ""

    def _symptom_link(self, name: str) -> dict[str, str] | None:
        if name not in self._view.paged:
            return None
        return {"title": self._view.title(name), "url": self._at(symptom_path(name))}

    def _url(self, row: RunRow | None) -> str:
        if row is None:
            return ""
        url = self._urls.get(row.path)
        if url is None:
            url = self._urls[row.path] = self._at(row.path.removeprefix("notes/"))
        return url


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(".md")
