"""Runs and fixes of a notebook by symptom, and which symptoms have a page. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from labbook.frozen import dataclass
from labbook.publish.page import SiteFix, SiteSource, link
from labbook.report.run_row import RunRow
from labbook.report.week_context import failure_kind

OPEN_DAYS = 14
"""How long a failure is an open problem. Source: chosen by us; what nobody met for two weeks is no daily concern."""

_PAGE_ID = re.compile(r"(?!(?:index|readme)\Z)[a-z][a-z0-9_]{2,60}\Z")


@dataclass(frozen=True)
class SymptomView:
    """A notebook's runs and fixes by symptom.

    Args:
        source: What it was made from.
        rows: Runs by the path of their entry.
        by_id: Runs by id.
        runs: Symptom -> runs that show it, newest first.
        fixes: Symptom -> confirmed fixes that cured it, newest first.
        paged: Symptoms that have a page on the site.
    """

    source: SiteSource
    rows: Mapping[str, RunRow]
    by_id: Mapping[str, RunRow]
    runs: Mapping[str, Sequence[RunRow]]
    fixes: Mapping[str, Sequence[SiteFix]]
    paged: frozenset[str]

    def title(self, symptom: str) -> str:
        """The title of a symptom in the language of the site as plain text; its id where the catalogue has no page."""
        known = self.source.symptoms.get(symptom)
        return known.said(self.source.language).title.replace("`", "") if known else symptom

    def cured_by(self, fix: SiteFix) -> tuple[str, ...]:
        """The symptoms that a fix cured: those of the run that failed which the cured run does not show as well."""
        failed, cured = self.rows.get(fix.run), self.by_id.get(fix.by)
        left = cured.symptoms if cured is not None else ()
        return tuple(name for name in dict.fromkeys(failed.symptoms) if name not in left) if failed else ()

    def url(self, symptom: str, page: str) -> str:
        """Address of a symptom's page from another page, "" when it has none."""
        return link(symptom_path(symptom), page) if symptom in self.paged else ""


@dataclass(frozen=True)
class OpenProblem:
    """A failure of the last days that no confirmed fix has answered.

    Args:
        kind: The symptom, else the verdict of the runs.
        runs: Those that failed so, newest first.
    """

    kind: str
    runs: Sequence[RunRow]


def symptom_path(symptom: str) -> str:
    """Where the page of a symptom lies below `notes/`."""
    return f"symptoms/{symptom}.md"


def symptom_view(source: SiteSource) -> SymptomView:
    """Runs and fixes of a notebook, sorted by symptom."""
    rows = {row.path: row for row in source.rows}
    runs: dict[str, list[RunRow]] = defaultdict(list)
    fixes: dict[str, list[SiteFix]] = defaultdict(list)
    for row in source.rows:
        for symptom in dict.fromkeys(row.symptoms):
            runs[symptom].append(row)
    own = {path.removeprefix("symptoms/").removesuffix(".md") for path in source.own_symptoms}
    paged = frozenset(name for name in {*runs, *own} if _PAGE_ID.match(name))
    # Of two runs with one id, which a copied file can make, the newer one is meant.
    by_id = {row.id: row for row in reversed(source.rows)}
    view = SymptomView(source, rows, by_id, runs, fixes, paged)
    for fix in source.fixes:
        for symptom in view.cured_by(fix):
            fixes[symptom].append(fix)
    return view


def open_problems(view: SymptomView) -> list[OpenProblem]:
    """What failed or was unhealthy in the last days, by first symptom; newest first.

    Without what a later fix has answered, and without findings on runs that finished when a later run of the script,
    finished too, is free of them.
    """
    answered: dict[str, float] = defaultdict(float)
    for fix in view.source.fixes:
        failed, cured = view.rows.get(fix.run), view.by_id.get(fix.by)
        kind = failure_kind(failed) if failed is not None and not fix.returned else ""
        if failed is not None and (not failed.symptoms or kind in view.cured_by(fix)):
            answered[kind] = max(answered[kind], cured.started if cured else failed.started)
    since = view.source.now - OPEN_DAYS * 86400
    groups: dict[str, list[RunRow]] = defaultdict(list)
    latest: dict[str, RunRow] = {}
    for row in view.source.rows:
        last = latest.setdefault(row.script or row.id, row) if row.status == "finished" else row
        past = row.symptoms and row.symptoms[0] not in last.symptoms
        kind = failure_kind(row) if not past and not row.fix and row.started >= since else ""
        if kind and row.started > answered[kind]:
            groups[kind].append(row)
    return [OpenProblem(kind, runs) for kind, runs in groups.items()]
