"""Pages of symptoms and fixes. Pure: notes in, Markdown out."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from labbook.diagnosis.catalogue.pattern import fill_slots
from labbook.diagnosis.catalogue.symptom_catalogue import HEADINGS
from labbook.model.symptom import Symptom
from labbook.publish.html.notes import site_note
from labbook.publish.pages.page import Page, SiteFix, link, run_cells, run_url, template_page
from labbook.publish.pages.symptom_view import SymptomView, open_problems, symptom_path
from labbook.report.period_context import local_time
from labbook.report.run_row import RunRow
from labbook.store.text.entry_text import split_parts
from labbook.store.text.templates import Templates, finished_text

MOST_RUNS = 50
MOST_FIXES = 20
"""Most runs, and different fixes, on the page of a symptom. Source: chosen by us; the table of runs has all of them."""

MOST_LISTED = 400
"""Most fixes on the page of all fixes. Source: chosen by us; 210 kB, 21 kB compressed."""

_MONTHS = 12
_CHART = (30, 48)
"""Width of a month and largest height of a bar, in units of the picture."""

_MOST_DIFFERENCE = 12_000
_HEADING = re.compile(r"^#{2,3}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")


def symptom_pages(view: SymptomView, templates: Templates) -> list[Page]:
    """Returns the lists of symptoms and fixes, and a page for each symptom seen or described in the notebook."""
    labels = templates.words["site"]
    pages = [
        template_page(templates, "symptoms", "symptoms/index.md", str(labels["symptoms"]), _overview(view), wide=True),
        template_page(templates, "fixes", "fixes/index.md", str(labels["fixes_all"]), _all_fixes(view), wide=True),
    ]
    return [*pages, *(symptom_page(view, name, templates) for name in sorted(view.paged))]


def symptom_page(view: SymptomView, symptom: str, templates: Templates, own: str = "") -> Page:
    """Returns the page of one symptom.

    Args:
        symptom: An id of `view.paged`.
        own: The page of the notebook, Markdown without front matter, included unchanged.
    """
    path = symptom_path(symptom)
    rows, fixes = view.runs.get(symptom, ()), view.fixes.get(symptom, ())
    mine = _without_title(own)
    known = view.source.symptoms.get(symptom)
    different = _group_by_text(fixes)
    # Headings of the notebook's page are not repeated.
    own_headings = {heading.strip() for heading in _HEADING.findall(mine)}
    data = {
        "id": symptom,
        "title": view.title(symptom),
        "known": _facts(known, view.source.language, own_headings) if known else None,
        "own": finished_text(mine) if mine.strip() else "",
        "own_heading": not mine.lstrip().startswith("#"),
        "total": len(rows),
        "cured": len(fixes),
        "last": run_cells(rows[0], path) if rows else None,
        "rows": [run_cells(row, path) for row in rows[:MOST_RUNS]],
        "more": max(0, len(rows) - MOST_RUNS),
        "fixes": [
            fix_cells(view, same[0], path) | {"count": len(same), "came_back": sum(bool(fix.returned) for fix in same)}
            for same in different[:MOST_FIXES]
        ],
        "more_fixes": max(0, len(different) - MOST_FIXES),
        "table_url": link("runs/index.md", path),
        "fixes_url": link("fixes/index.md", path),
        "all_url": link("symptoms/index.md", path),
        "chart": _chart(rows, view.source.now),
    }
    return template_page(templates, "symptom", path, view.title(symptom), data)


def _group_by_text(fixes: Sequence[SiteFix]) -> list[list[SiteFix]]:
    """Returns fixes with the same words together, the most frequent first; one without words is alone."""
    groups: dict[str, list[SiteFix]] = defaultdict(list)
    for fix in fixes:
        groups[" ".join(fix.text.casefold().split()) or fix.run].append(fix)
    return sorted(groups.values(), key=lambda same: -len(same))


def problem_cells(view: SymptomView, page: str) -> list[dict[str, Any]]:
    """Returns open problems for a page: symptom, number of runs, last run."""
    return [
        {
            "title": view.title(problem.kind) if problem.runs[0].symptoms else problem.runs[0].subject,
            "url": view.url(problem.kind, page),
            "count": len(problem.runs),
            "last": run_cells(problem.runs[0], page),
        }
        for problem in open_problems(view)
    ]


def fix_cells(view: SymptomView, fix: SiteFix, page: str) -> dict[str, Any]:
    """Returns the cells of a fix in tables, with addresses from `page`, "" for deleted runs."""
    failed, cured, returned = view.rows[fix.run], view.by_id.get(fix.by), view.by_id.get(fix.returned)
    return {
        "symptoms": [symptom_cells(view, name, page) for name in view.cured_symptoms(fix)[:3]],
        "text": fix.text,
        "failed": run_cells(failed, page),
        "by": fix.by,
        "cured": run_cells(cured, page) if cured else None,
        "held": fix.held,
        "returned": fix.returned,
        "returned_when": local_time(returned.started) if returned else "",
        "returned_url": run_url(returned, page) if returned else "",
        "difference": finished_text(fix.difference) if fix.difference else "",
    }


def symptom_cells(view: SymptomView, symptom: str, page: str) -> dict[str, str]:
    """Returns title and address of a symptom from `page`; the address is "" without a page."""
    return {"id": symptom, "title": view.title(symptom), "url": view.url(symptom, page)}


def fix_difference(body: str) -> str:
    """Returns the differences in the section *Fix* of an entry, as Markdown without links, or ""."""
    section = next((part.text for part in split_parts(body) if part.name == "fix"), "")
    kept: list[str] = []
    fence = ""
    for line in section.splitlines():
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and line.strip() == fence:
            fence = ""
        elif not fence and ("](" in line or "][" in line or line.startswith(("<!--", "#"))):
            continue
        if kept or line.startswith(("| ", "<details>")):
            kept.append(line)
    text = "\n".join(kept).strip("\n")
    if not text or len(text) > _MOST_DIFFERENCE or fence:
        return ""
    note = site_note(text.encode("utf-8", "replace"), "", "")
    return "" if note.problem else note.markdown


def _without_title(own: str) -> str:
    """Returns the page of the notebook without its first heading and table of fixes, which are added elsewhere."""
    text = "".join(part.text for part in split_parts(own) if part.name != "fixes").lstrip("\n")
    first, _, rest = text.partition("\n")
    return rest if first.startswith("# ") else text


def _facts(symptom: Symptom, language: str, own_headings: set[str]) -> dict[str, Any]:
    wording = symptom.wording_in(language)
    headings = [{table[number] for table in HEADINGS.values()} for number in range(3)]
    parts = [wording.see, wording.why, wording.attempts]
    see, why, attempts = (part if not headings[n] & own_headings else () for n, part in enumerate(parts))
    return {
        "family": symptom.family,
        "tier": str(symptom.tier),
        "frameworks": ", ".join(symptom.frameworks),
        "see": _remove_values(str(see)) if see else "",
        "why": [_remove_values(cause) for cause in why],
        "attempts": [_remove_values(fix) for fix in attempts],
    }


def _remove_values(text: str) -> str:
    """Returns a sentence of the catalogue without the values of a run."""
    return " ".join((fill_slots(text, {}) or text).split())


def _overview(view: SymptomView) -> dict[str, Any]:
    path = "symptoms/index.md"
    seen = [
        {
            **symptom_cells(view, name, path),
            "family": known.family if (known := view.source.symptoms.get(name)) else "",
            "runs": len(rows),
            "cured": len(view.fixes.get(name, ())),
            "last": run_cells(rows[0], path),
        }
        for name, rows in view.runs.items()
    ]
    classes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for symptom in sorted(view.source.symptoms.values(), key=lambda symptom: symptom.id):
        wording = symptom.wording_in(view.source.language)
        cells = {**symptom_cells(view, symptom.id, path), "short": _first_sentence(_remove_values(wording.see))}
        # A page of its own has all of them.
        fix = next(iter(wording.attempts), "") if symptom.id not in view.paged else ""
        classes[symptom.class_].append(cells | {"fix": _remove_values(fix)})
    listed = {symptom_path(name) for name in view.runs} | {symptom_path(name) for name in view.source.symptoms}
    return {
        "seen": sorted(seen, key=lambda row: -row["runs"]),
        "classes": [{"name": name, "symptoms": symptoms} for name, symptoms in sorted(classes.items())],
        "known": len(view.source.symptoms),
        "example": next((name for name in sorted(view.source.symptoms) if name not in view.paged), ""),
        "others": [
            {"name": note.removeprefix("symptoms/").removesuffix(".md"), "url": link(note, path)}
            for note in view.source.own_symptoms
            if note not in listed and note != path
        ],
    }


def _first_sentence(text: str) -> str:
    for end in (". ", "。"):
        head, found, _ = text.partition(end)
        if found:
            return head + end.strip()
    return text


def _all_fixes(view: SymptomView) -> dict[str, Any]:
    path = "fixes/index.md"
    fixes = [fix for fix in view.source.fixes if fix.run in view.rows]
    return {
        "fixes": [fix_cells(view, fix, path) for fix in fixes[:MOST_LISTED]],
        "total": len(fixes),
        "more": max(0, len(fixes) - MOST_LISTED),
    }


def _chart(rows: Sequence[RunRow], now: float) -> list[Mapping[str, Any]]:
    """Returns the bars of the last twelve months, oldest first; empty without runs."""
    when = (datetime.fromtimestamp(row.started) for row in rows if row.started > 0)
    counts = Counter(moment.year * 12 + moment.month - 1 for moment in when)
    today = datetime.fromtimestamp(now)
    last = today.year * 12 + today.month - 1
    months = range(last - _MONTHS + 1, last + 1)
    most = max((counts[month] for month in months), default=0)
    width, height = _CHART
    return [
        {
            "month": f"{month // 12}-{month % 12 + 1:02d}",
            "runs": counts[month],
            "x": number * width,
            "middle": number * width + width // 2,
            "height": max(2, round(height * counts[month] / most)) if counts[month] else 1,
            "top": 14 + height - (max(2, round(height * counts[month] / most)) if counts[month] else 1),
        }
        for number, month in enumerate(months)
        if most
    ]
