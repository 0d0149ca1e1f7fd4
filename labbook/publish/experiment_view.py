"""The chart on the page of an experiment: options of its runs against what they measured. Pure."""

from __future__ import annotations

from collections import defaultdict

from labbook.publish.page import SiteFile, SiteSource
from labbook.publish.run_table import columns
from labbook.report.run_row import RunRow

SCRIPTS = ("assets/rows.js", "assets/experiments.js")
"""What the page of an experiment loads."""


def experiment_files(source: SiteSource) -> list[SiteFile]:
    """`data/experiments/<name>.json` for each experiment with a page: its runs, in the columns of the table of runs."""
    groups: dict[str, list[RunRow]] = defaultdict(list)
    for row in source.rows:
        groups[row.experiment].append(row)
    names = dict.fromkeys(page.path.rsplit("/", 1)[-1].removesuffix(".md") for page in source.experiments)
    return [
        SiteFile(f"data/experiments/{name}.json", columns(groups[name], source.fronts, source.facts))
        for name in names
        if groups.get(name)
    ]
