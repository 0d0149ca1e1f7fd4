"""What a page shows besides its note: neighbours in time, symptoms, fixes, runs of an experiment. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from typing import Any

from labbook.publish.html import theme
from labbook.publish.html.notes import SiteNote, inert, replace_block
from labbook.publish.pages.build_record import content_key
from labbook.publish.pages.generated_pages import experiment_runs, neighbours, same_script
from labbook.publish.pages.page import SiteSource, group_rows, run_cells
from labbook.publish.pages.run_table_data import entry_day, entry_month
from labbook.publish.pages.symptom_pages import symptom_page
from labbook.publish.pages.symptom_view import SymptomView, symptom_path, symptom_view
from labbook.report.period_context import local_time
from labbook.report.run_row import RunRow
from labbook.store.paths import is_run_id
from labbook.store.text.templates import Templates

_MOST_LINKS = 5
"""Most symptoms, and fixed runs, above an entry. Source: chosen by us; the entry lists all of them."""

_BAR_WORDS = (
    *("older", "newer", "all_runs", "shows", "cured_in", "has_cured", "of_script", "compare_earlier"),
    *("reads_from", "read_by", "copy_lead", "copy_command"),
)
_EXPERIMENT_SCRIPTS = ("assets/rows.js", "assets/experiments.js")
"""Scripts of the page of an experiment."""

Day = tuple[str, Sequence[str]]
"""Key of what the pages of a day show besides their notes, and the notes, as paths below `notes/`."""


class PageContext:
    """The context of each note of a notebook.

    Args:
        at: Path of a note below `notes/` -> its address in the site, "" without a page.
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
        self._readers: dict[str, list[RunRow]] = defaultdict(list)
        for row in source.rows:
            for parent in row.parents:
                self._readers[parent].append(row)
        labels = templates.words["site"]
        self._labels = {key: str(labels[key]) for key in _BAR_WORDS}
        # Cached, because each neighbour of a run needs it.
        self._all_runs, self._compare = at("runs/index.md"), at("compare/index.md")
        self._address = cache(lambda path: at(path.removeprefix("notes/")))
        self._linked = cache(self._symptom_link)

    def context_of(self, path: str) -> Any:  # noqa: ANN401 - plain data
        """Returns what the page of a note shows besides the note, as plain data.

        Two pages of a note are equal if these are equal.
        """
        if path.startswith("experiments/"):
            return experiment_runs(_name(path), self._source, self._templates)
        symptom = self._symptom(path)
        if symptom:
            return [self._view.title(symptom), symptom_page(self._view, symptom, self._templates, "").key]
        return self.bar(path) or ""

    def keys_of_days(self, there: Container[str]) -> dict[str, Day]:
        """Returns day -> its key and its runs.

        Equal keys of a day in two builds mean equal bars of its runs, with equal words and time zone.

        Args:
            there: Paths below `notes/` with a page.

        Cost: 10,000 runs in 30 ms, a sixth of what their bars take.
        """
        days = group_rows(self._source.rows, lambda row: entry_day(row.path))
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
            linked = [*self._written_by(row), *self._readers.get(row.id, ())[:_MOST_LINKS]]
            more += [[row.path, one.id, one.started, one.subject, page(one)] for one in linked]
        symptoms = {name: self._linked(name) for name in sorted({name for row in rows for name in row.symptoms})}
        alike = [self._labels, self._all_runs, self._compare, local_time(rows[0].started)]
        key = content_key(shown or [vars(row) for row in rows], alike, beside, more, symptoms)
        return key, [source for row in rows if (source := row.path[len("notes/") :]).startswith("runs/")]

    def text_and_front_matter(self, path: str, note: SiteNote) -> tuple[str, dict[str, Any]]:
        """Returns the text of a note with its context, and the front matter of its page."""
        text, meta = note.markdown, dict(note.meta)
        is_experiment = path.startswith("experiments/") and path != "experiments/index.md"
        meta["scripts"] = list(_EXPERIMENT_SCRIPTS) if is_experiment else []
        if path.startswith("experiments/") and not note.problem:
            text = replace_block(text, "runs", experiment_runs(_name(path), self._source, self._templates))
        elif symptom := self._symptom(path):
            text = symptom_page(self._view, symptom, self._templates, text).text()
            meta["title"] = inert(self._view.title(symptom))
        if (bar := self.bar(path)) is not None:
            meta["labbook"] = bar
        if theme.is_listed(path):
            meta.setdefault("hide", ["navigation"])
        return text, meta

    def bar(self, path: str) -> dict[str, Any] | None:
        """Returns the bar above an entry, with its neighbours in time, or `None` for other notes."""
        row = self._rows.get(f"notes/{path}")
        if row is None:
            return None
        older, newer = self._around[row.path]
        earlier, later = self._of_script.get(row.path, (None, None))
        cure = self._view.by_id.get(self._cures.get(row.path, ""))
        return {
            "status": row.status,
            "verdict": row.verdict,
            "metric": row.metric,
            **self._summary(row),
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
            "cured": [self._link(failed) for failed in self._cured.get(row.id, ())[:_MOST_LINKS]],
            "reads_from": [self._link(one) for one in self._written_by(row)],
            "read_by": [self._link(one) for one in self._readers.get(row.id, ())[:_MOST_LINKS]],
            "compare": self._comparison(earlier, row),
            "script": row.script,
            "script_older": self._url(earlier) if earlier is not older else "",
            "script_newer": self._url(later) if later is not newer else "",
            "said": self._labels,
        }

    def _summary(self, row: RunRow) -> dict[str, str]:
        """Returns main metric, duration, commit and command of a run for the line that stays in view."""
        front = self._source.fronts.get(row.path, {})
        code = front.get("code")
        cells = run_cells(row, row.path)
        return {
            "value": cells["value"],
            "duration": cells["duration"] if row.duration_s else "",
            "commit": str(code.get("commit") or "")[:10] if isinstance(code, Mapping) else "",
            "command": " ".join(str(front.get("command") or "").split()),
            "verdict_word": str(self._templates.words["run_verdict"].get(row.verdict, row.verdict)),
            "status_word": str(self._templates.words["status"].get(row.status, row.status)),
        }

    def _written_by(self, row: RunRow) -> list[RunRow]:
        """Returns the runs that wrote what a run read."""
        return [known for name in row.parents[:_MOST_LINKS] if (known := self._view.by_id.get(name)) is not None]

    def _link(self, row: RunRow) -> dict[str, str]:
        return {"title": f"{local_time(row.started) or row.id} {row.subject}", "url": self._url(row)}

    def _comparison(self, earlier: RunRow | None, row: RunRow) -> str:
        """Returns the address of the comparison with the previous run of the script, or ""."""
        page = self._compare
        known = earlier is not None and is_run_id(earlier.id) and is_run_id(row.id)
        return f"{page}#runs={earlier.id},{row.id}" if earlier is not None and known and page else ""

    def _symptom(self, path: str) -> str:
        """Returns the symptom described by a note, or ""."""
        name = path.removeprefix("symptoms/").removesuffix(".md")
        return name if name in self._view.paged and path == symptom_path(name) else ""

    def _symptom_link(self, name: str) -> dict[str, str] | None:
        if name not in self._view.paged:
            return None
        return {"title": self._view.title(name), "url": self._at(symptom_path(name))}

    def _url(self, row: RunRow | None) -> str:
        return self._address(row.path) if row is not None else ""


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(".md")
