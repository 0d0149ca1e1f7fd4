"""The chart on the page of an experiment: metrics of its runs over their options. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter

from labbook.publish.pages.build_record import content_key
from labbook.publish.pages.page import SiteFile, SiteSource, group_rows
from labbook.publish.pages.run_table_data import columns
from labbook.report.run_row import RunRow

SCRIPTS = ("assets/rows.js", "assets/experiments.js")
"""Scripts of the page of an experiment."""


def experiment_files(source: SiteSource) -> list[SiteFile]:
    """Returns `data/experiments/<name>.json` for each experiment with a page, in columns like the run table."""
    groups = group_rows(source.rows, attrgetter("experiment"))
    names = dict.fromkeys(page.path.rsplit("/", 1)[-1].removesuffix(".md") for page in source.experiments)
    return [
        SiteFile(f"data/experiments/{name}.json", _cached_columns(name, groups[name], source))
        for name in names
        if groups.get(name)
    ]


def _cached_columns(name: str, rows: Sequence[RunRow], source: SiteSource) -> bytes:
    known = [(row.path, source.digests.get(row.path, ""), row.path in source.facts) for row in rows]
    if not all(digest for _, digest, _ in known):
        return columns(rows, source.fronts, source.facts)
    make = partial(columns, rows, source.fronts, source.facts)
    return source.cache.get_or_make(f"experiment-{content_key(name)}", content_key(known), make)
