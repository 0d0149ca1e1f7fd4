"""Runs, fixes and pages of a notebook by symptom. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from labbook.frozen import dataclass
from labbook.publish.pages.page import SiteFix, SiteSource, link
from labbook.report.period_context import failure_kind
from labbook.report.run_row import RunRow

OPEN_DAYS = 14
"""How long a failure is an open problem. Source: chosen by us; two weeks."""

_PAGE_ID = re.compile(r"(?!(?:index|readme)\Z)[a-z][a-z0-9_]{2,60}\Z")


@dataclass(frozen=True)
class SymptomView:
    """Runs and fixes of a notebook by symptom.

    Args:
        rows: Runs by path of the entry.
        runs: Symptom -> runs with it, newest first.
        fixes: Symptom -> its confirmed fixes, newest first.
        paged: Symptoms with a page on the site.
    """

    source: SiteSource
    rows: Mapping[str, RunRow]
    by_id: Mapping[str, RunRow]
    runs: Mapping[str, Sequence[RunRow]]
    fixes: Mapping[str, Sequence[SiteFix]]
    paged: frozenset[str]

    def title(self, symptom: str) -> str:
        """Returns the plain title of a symptom in the language of the site, or its id without a page."""
        known = self.source.symptoms.get(symptom)
        return known.wording_in(self.source.language).title.replace("`", "") if known else symptom

    def cured_symptoms(self, fix: SiteFix) -> tuple[str, ...]:
        """Returns the fixed symptoms: those of the failed run that the fixed run does not have."""
        failed, cured = self.rows.get(fix.run), self.by_id.get(fix.by)
        left = cured.symptoms if cured is not None else ()
        return tuple(name for name in dict.fromkeys(failed.symptoms) if name not in left) if failed else ()

    def url(self, symptom: str, page: str) -> str:
        """Returns the address of the page of a symptom from another page, or ""."""
        return link(symptom_path(symptom), page) if symptom in self.paged else ""


@dataclass(frozen=True)
class OpenProblem:
    """A recent failure without a confirmed fix.

    Args:
        kind: The symptom, else the verdict of the runs.
        runs: Runs with the failure, newest first.
    """

    kind: str
    runs: Sequence[RunRow]


def symptom_path(symptom: str) -> str:
    """Returns the path of the page of a symptom below `notes/`."""
    return f"symptoms/{symptom}.md"


def symptom_view(source: SiteSource) -> SymptomView:
    """Returns runs and fixes of a notebook by symptom."""
    rows = {row.path: row for row in source.rows}
    runs: dict[str, list[RunRow]] = defaultdict(list)
    fixes: dict[str, list[SiteFix]] = defaultdict(list)
    for row in source.rows:
        for symptom in dict.fromkeys(row.symptoms):
            runs[symptom].append(row)
    own = {path.removeprefix("symptoms/").removesuffix(".md") for path in source.own_symptoms}
    paged = frozenset(name for name in {*runs, *own} if _PAGE_ID.match(name))
    # Of two runs with one id (a copied file), the newer one counts.
    by_id = {row.id: row for row in reversed(source.rows)}
    view = SymptomView(source, rows, by_id, runs, fixes, paged)
    for fix in source.fixes:
        for symptom in view.cured_symptoms(fix):
            fixes[symptom].append(fix)
    return view


def open_problems(view: SymptomView) -> list[OpenProblem]:
    """Returns recent failures and findings by first symptom, newest first.

    Leaves out those with a later fix, and findings on finished runs if a later finished run of the script has none.
    """
    answered: dict[str, float] = defaultdict(float)
    for fix in view.source.fixes:
        failed, cured = view.rows.get(fix.run), view.by_id.get(fix.by)
        kind = failure_kind(failed) if failed is not None and not fix.returned else ""
        if failed is not None and (not failed.symptoms or kind in view.cured_symptoms(fix)):
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
