"""Generated pages of the site, without those of symptoms. Pure: notes in, Markdown out.

Independent of MkDocs. Addresses are those of Markdown files below `notes/`, relative to the page, as every site
generator understands them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from labbook.publish.pages.activity import calendar, progress_path, verdict_share
from labbook.publish.pages.compare_data import compare_files, compare_page
from labbook.publish.pages.month_pages import month_pages
from labbook.publish.pages.page import (
    Page,
    SiteFile,
    SiteSource,
    group_rows,
    link,
    run_cells,
    run_totals,
    template_page,
)
from labbook.publish.pages.run_table_data import experiment_files, group_by_month, option_columns, table_files
from labbook.publish.pages.script_words import script_words
from labbook.publish.pages.symptom_pages import fix_cells, problem_cells, symptom_cells, symptom_pages
from labbook.publish.pages.symptom_view import OPEN_DAYS, SymptomView, symptom_view
from labbook.report import numbers
from labbook.report.best_runs import best_run
from labbook.report.period import containing_week
from labbook.report.period_context import PeriodSource, period_context, read_conclusion, read_goal
from labbook.report.run_row import RunRow
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import Templates

_TABLE_SCRIPTS = ("rows", "grid", "query", "runs_rules", "runs_groups", "runs_preview", "runs")
_LATEST = 8
_NEWEST = 100
_MOST_OPTIONS = 4
"""Most columns of options in a table of runs. Source: chosen by us; the table fits the page."""


def site_pages(source: SiteSource, templates: Templates, view: SymptomView | None = None) -> list[Page]:
    """Returns all generated pages: home, runs, months, experiments, reports, symptoms, fixes."""
    view = view or symptom_view(source)
    labels = templates.words["site"]
    months = {month: rows for month, rows in group_by_month(source.rows).items() if month != "other"}
    pages = [
        template_page(templates, "home", "index.md", str(labels["home"]), _home(view, templates), wide=True),
        template_page(
            templates,
            "runs",
            "runs/index.md",
            str(labels["runs"]),
            _runs(source, months) | {"script_words": script_words(templates, "site_runs")},
            wide=True,
            scripts=tuple(f"assets/{name}.js" for name in _TABLE_SCRIPTS),
        ),
        compare_page(templates, Sentences(source.language)),
        template_page(
            templates,
            "experiments",
            "experiments/index.md",
            str(labels["experiments"]),
            _experiments(source),
            wide=True,
        ),
        template_page(templates, "reports", "reports/index.md", str(labels["reports"]), _reports(source), wide=True),
    ]
    return [*pages, *month_pages(source, templates), *symptom_pages(view, templates)]


def site_files(source: SiteSource, view: SymptomView | None = None) -> list[SiteFile]:
    """Returns all generated data files; the arguments are those of `site_pages`."""
    view = view or symptom_view(source)
    shown = {name for row in source.rows for name in row.symptoms}
    titles = {name: view.title(name) for name in shown}
    return [*table_files(source, titles), *compare_files(source), *experiment_files(source)]


def experiment_runs(name: str, source: SiteSource, templates: Templates) -> str:
    """Returns the table of the runs of an experiment, for its page."""
    path = f"experiments/{name}.md"
    rows = [row for row in source.rows if row.experiment == name]
    best = best_run(rows)
    shown = rows[:_NEWEST]
    values = {row.path: option_columns(source.fronts.get(row.path, {})) for row in shown}
    data = {
        "name": name,
        "options": _varied(list(values.values())),
        "script_words": script_words(templates, "site_explore"),
        "rows": [
            run_cells(row, path)
            | {"best": best is not None and row.id == best.id, "options": defaultdict(str, values[row.path])}
            for row in shown
        ],
        "total": len(rows),
        **run_totals(rows),
    }
    return templates.render_anyway("pages/experiment_runs.md.j2", data)[0]


def _varied(runs: Sequence[Mapping[str, str]]) -> list[str]:
    """Returns the options in which runs differ, those with the most values first; a seed is none."""
    found: dict[str, set[str]] = defaultdict(set)
    for values in runs:
        for name, value in values.items():
            found[name].add(value)
    counts = {name: len(given) for name, given in found.items() if name != "seed"}
    return sorted((name for name in counts if counts[name] > 1), key=lambda name: -counts[name])[:_MOST_OPTIONS]


def neighbours(rows: Sequence[RunRow]) -> dict[str, tuple[RunRow | None, RunRow | None]]:
    """Returns path of an entry -> previous and next run. `rows` are newest first."""
    found: dict[str, tuple[RunRow | None, RunRow | None]] = {}
    for index, row in enumerate(rows):
        older = rows[index + 1] if index + 1 < len(rows) else None
        found[row.path] = (older, rows[index - 1] if index else None)
    return found


def same_script(rows: Sequence[RunRow]) -> dict[str, tuple[RunRow | None, RunRow | None]]:
    """Returns path of an entry -> previous and next run of the same script. `rows` are newest first."""
    groups = group_rows((row for row in rows if row.script), attrgetter("script"))
    return {path: pair for group in groups.values() for path, pair in neighbours(group).items()}


def _home(view: SymptomView, templates: Templates) -> dict[str, Any]:
    source = view.source
    week = containing_week(source.now, source.week_start)

    def from_home(path: str) -> str:
        return link(path.removeprefix("notes/"), "index.md")

    story = period_context(PeriodSource(week, source.rows, source.experiments, {}, from_home, source.now))
    latest = [
        run_cells(row, "index.md") | {"symptom": view.title(row.symptoms[0]) if row.symptoms else ""}
        for row in source.rows[:_LATEST]
    ]
    fixes = [fix for fix in source.fixes if fix.run in view.rows][:_LATEST]
    by_experiment = group_rows(source.rows, attrgetter("experiment"))
    most = max((row["count"] for row in story["failures"]), default=1)
    failures = [
        row | symptom_cells(view, row["kind"], "index.md") | {"length": max(1, round(60 * row["count"] / most))}
        for row in story["failures"]
    ]
    return {
        **story,
        "failures": failures,
        "open_days": OPEN_DAYS,
        "open_problems": problem_cells(view, "index.md"),
        "any": bool(source.rows),
        "results": [
            row | {"progress": progress_path(by_experiment[row["experiment"]], row.get("metric") or "")}
            for row in story["results"]
        ],
        "latest": latest,
        "running": [run_cells(row, "index.md") | {"host": row.host} for row in source.rows if row.status == "running"][
            :_LATEST
        ],
        "fix_count": len(source.fixes),
        "recent_fixes": [fix_cells(view, fix, "index.md") for fix in fixes],
        "calendar": calendar(source, templates.words["site_home"]),
        "share": verdict_share(story["totals"]["by_verdict"]),
        "year_runs": sum(source.now - row.started < 365 * 86400 for row in source.rows),
        "problems": [{"path": path, "reason": reason} for path, reason in source.problems[:10]],
    }


def _runs(source: SiteSource, months: Mapping[str, Sequence[RunRow]]) -> dict[str, Any]:
    path = "runs/index.md"
    return {
        "rows": [run_cells(row, path) for row in source.rows[:_NEWEST]],
        "total": len(source.rows),
        "months": [
            {"month": month, "url": link(f"runs/{month.replace('-', '/')}/index.md", path), **run_totals(rows)}
            for month, rows in months.items()
        ],
    }


def _experiments(source: SiteSource) -> dict[str, Any]:
    path = "experiments/index.md"
    groups = group_rows(source.rows, attrgetter("experiment"))
    found = [
        {
            **_experiment_row(page.id, groups.pop(page.id, []), path),
            "url": link(page.path.removeprefix("notes/"), path),
            "goal": " ".join(read_goal(page.body).split())[:160],
            "conclusion": " ".join(read_conclusion(page.body).split())[:160],
        }
        for page in source.experiments
    ]
    # The note of an experiment may be missing.
    found += [_experiment_row(name, rows, path) for name, rows in groups.items() if name]
    return {"experiments": sorted(found, key=lambda each: each["order"], reverse=True)}


def _experiment_row(name: str, rows: list[RunRow], path: str) -> dict[str, Any]:
    """Returns the row of an experiment from its runs, newest first; its note adds the rest."""
    best = best_run(rows)
    return {
        "name": name,
        "url": "",
        **run_totals(rows),
        "metric": best.metric if best else "",
        "best": numbers.number(best.best) if best else "",
        "progress": progress_path(rows, best.metric) if best else "",
        "last": run_cells(rows[0], path) if rows else None,
        "goal": "",
        "conclusion": "",
        "order": rows[0].started if rows else 0.0,
    }


def _reports(source: SiteSource) -> dict[str, Any]:
    path = "reports/index.md"
    return {
        "reports": [
            {
                "title": str(page.meta.get("title") or page.id),
                "url": link(page.path.removeprefix("notes/"), path),
                "date": str(page.meta.get("date") or ""),
                "runs": page.meta.get("runs") if isinstance(page.meta.get("runs"), int) else None,
            }
            for page in source.reports
        ]
    }
