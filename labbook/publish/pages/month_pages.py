"""Lists of the runs of a month without scripts: one page, or one for each day of a long month. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labbook.publish.pages.build_record import content_key
from labbook.publish.pages.page import (
    MonthKeys,
    Page,
    SiteSource,
    group_rows,
    link,
    run_cells,
    run_totals,
    template_page,
)
from labbook.publish.pages.run_table_data import entry_day, group_by_month
from labbook.report.run_row import RunRow
from labbook.store.text.templates import Templates

ONE_PAGE = 300
"""Most runs on one page. Source: chosen by us; about 100 kB, 15 kB compressed."""

_NO_KEYS = MonthKeys("", "")


def month_pages(source: SiteSource, templates: Templates) -> list[Page]:
    """Returns `runs/<year>/<month>/index.md`, and `runs/<year>/<month>/<day>/index.md` for long months.

    Runs whose entry is not in the folder of a month are not listed.
    """
    found = []
    for month, rows in group_by_month(source.rows).items():
        keys = source.months.get(month, _NO_KEYS)
        if month == "other":
            continue
        days = group_rows(rows, lambda row: entry_day(row.path))
        # Entries outside of the folders of days are on the page of the month.
        outside = days.pop(month, [])
        if len(rows) <= ONE_PAGE or not days:
            outside, days = rows, {}
        found.append(_page(templates, month, outside, days, keys.rows or _key(rows)))
        found += [_page(templates, day, held, {}, keys.days.get(day) or _key(held)) for day, held in days.items()]
    return found


def _place(span: str) -> str:
    """Returns `runs/2026/11/index.md` for "2026-11", likewise for a day."""
    return f"runs/{span.replace('-', '/')}/index.md"


def _page(
    templates: Templates, span: str, rows: Sequence[RunRow], days: Mapping[str, Sequence[RunRow]], key: str
) -> Page:
    """Returns the page of a month or a day with its runs, for a long month those outside of `days`, newest first.

    It is rendered on demand: old months do not change, and many rows take long.
    """
    path, month = _place(span), span[:7]

    def text() -> str:
        data = {
            "title": span,
            "total": len(rows) + sum(len(held) for held in days.values()),
            "month": {"title": month, "url": link(_place(month), path)} if span != month else None,
            "all_url": link("runs/index.md", path),
            "days": [
                {"day": day, "url": link(_place(day), path), **run_totals(held)}
                for day, held in sorted(days.items(), reverse=True)
            ],
            "rows": [run_cells(row, path) for row in rows],
        }
        return template_page(templates, "month", path, span, data).text()

    return Page(path, text, span, wide=True, key=key)


def _key(rows: Sequence[RunRow]) -> str:
    return content_key([tuple(vars(row).values()) for row in rows])
