"""The data of the comparison of runs: one small file a run, made from the `run.json` committed beside its entry.

What stands in it is what the entry tells at length: options, configuration, code, inputs, environment, packages and
hardware, the numbers, and the curves with few points. Raw journals are never read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.model.series import more_is_better
from labbook.publish.page import Page, SiteFile, SiteSource, rendered
from labbook.publish.run_table import compact
from labbook.publish.script_words import script_words
from labbook.store.paths import is_run_id
from labbook.store.templates import Templates

if TYPE_CHECKING:
    from labbook.model.series import Series

FORM = 1
"""Number of this form of the data, which `assets/compare.js` reads; raised when a `run.json` gives other data."""

MAX_POINTS = 200
_MAX_CURVES = 16


def compare_files(source: SiteSource) -> list[SiteFile]:
    """`data/run/<id>.json` for each run that has data beside its entry; of two entries with one id the newer one's."""
    files: dict[str, SiteFile] = {}
    for row in source.rows:
        facts = source.facts.get(row.path)
        if facts is not None and is_run_id(row.id) and row.id not in files:
            made = partial(compare_data, facts.path)
            files[row.id] = SiteFile(f"data/run/{row.id}.json", made, f"{FORM}:{facts.key}")
    return list(files.values())


def compare_page(templates: Templates) -> Page:
    """The page that compares runs, which stand in its address: `compare/index.html#runs=<id>,<id>`."""
    title = str(templates.words["site_compare"]["title"])
    said = {"script_words": script_words(templates, "site_compare")}
    scripts = ("assets/vendor/uPlot/uPlot.iife.min.js", "assets/rows.js", "assets/compare.js")
    return rendered(templates, "compare", "compare/index.md", title, said, wide=True, scripts=scripts)


def compare_data(path: Path) -> bytes:
    """What is compared of a run, as compact JSON: `facts`, `metrics` and `curves`; all empty for a damaged file.

    Args:
        path: Its `run.json`.

    Cost: 2 ms for 30 kB.
    """
    # Most builds make none of these files.
    from labbook.compare.run_table import collect_facts
    from labbook.model.downsampling import thinned
    from labbook.model.run_json import run_from_json
    from labbook.report.series_choice import one_a_name

    try:
        run = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        run = {}
    run = run if isinstance(run, Mapping) else {}
    series = one_a_name(run_from_json({"series": run.get("series") or ()}).series)
    try:
        facts = collect_facts(run)
    except (AttributeError, TypeError, ValueError):  # edited by hand, or by another program
        facts = {}
    return compact(
        {
            "form": FORM,
            "facts": facts,
            "metrics": {each.name: _summary(each) for each in series},
            "curves": {each.name: _curve(thinned(each, MAX_POINTS)) for each in series[:_MAX_CURVES]},
        }
    )


def _summary(series: Series) -> dict[str, Any]:
    from labbook.report.series_choice import has_no_best

    best = None if has_no_best(series.name) else _value(series.best)
    found = {"last": _value(series.last), "best": best, "steps": series.last_step}
    return found | ({"rising": True} if more_is_better(series.name) else {})


def _curve(series: Series) -> dict[str, Any]:
    """Steps `x` and values `y`; where a value is not finite the line is broken."""
    return {"x": list(series.steps), "y": [_short(v) if math.isfinite(v) else None for v in series.values]}


def _value(value: float | None) -> float | str | None:
    return value if value is None else _short(value) if math.isfinite(value) else str(value)


def _short(value: float) -> float:
    """Six significant digits: more than a curve or a table shows."""
    return float(f"{value:.6g}")
