"""Data of the comparison of runs: a small file for each run, made from its committed `run.json`.

It has the facts of the entry (options, configuration, code, model, inputs, environment, packages, hardware), metrics,
and curves with few points. Raw journals are never read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from labbook.model.metric_kinds import direction_of
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.publish.pages.page import Page, SiteFile, SiteSource, template_page
from labbook.publish.pages.run_table_data import compact
from labbook.publish.pages.script_words import script_words
from labbook.store.json_files import read_json_object
from labbook.store.paths import is_run_id
from labbook.store.text.sentences import Sentences
from labbook.store.text.templates import Templates

FORM = 3
"""Version of the format, read by `assets/compare.js`; increased when a `run.json` gives other data."""

MAX_POINTS = 200
_MAX_CURVES = 16
_METRIC_KEYS = ("series", "processes", "primary", "direction")


def compare_files(source: SiteSource) -> list[SiteFile]:
    """Returns `data/run/<id>.json` for each run with data; of two entries with one id, the newer one's."""
    files: dict[str, SiteFile] = {}
    for row in source.rows:
        facts = source.facts.get(row.path)
        if facts is not None and is_run_id(row.id) and row.id not in files:
            made = partial(compare_data, facts.path)
            files[row.id] = SiteFile(f"data/run/{row.id}.json", made, f"{FORM}:{facts.key}")
    return list(files.values())


def compare_page(templates: Templates, say: Sentences) -> Page:
    """Returns the page that compares the runs in its address: `compare/index.html#runs=<id>,<id>`."""
    from labbook.compare.run_table import WORDS

    title = str(templates.words["site_compare"]["title"])
    named = {f"word_{word}": say.template(key) for word, key in WORDS.items()}
    context = {"script_words": script_words(templates, "site_compare", **named)}
    scripts = (
        "assets/vendor/uPlot/uPlot.iife.min.js",
        "assets/rows.js",
        "assets/compare_curves.js",
        "assets/compare.js",
    )
    return template_page(templates, "compare", "compare/index.md", title, context, wide=True, scripts=scripts)


def compare_data(path: Path) -> bytes:
    """Returns `facts`, `metrics` and `curves` of a run as compact JSON; empty ones for a damaged file.

    Args:
        path: Its `run.json`.

    Cost: 2 ms for 30 kB.
    """
    # Most builds write none of these files.
    from labbook.compare.run_table import collect_facts
    from labbook.model.downsampling import downsample
    from labbook.model.run_json import run_from_json
    from labbook.report.series_choice import run_series

    run = read_json_object(path)
    captured = run.get("captured")
    captured = captured if isinstance(captured, Mapping) else {}
    chosen = {key: captured[key] for key in ("trainings", "phases") if isinstance(captured.get(key), Mapping)}
    known = run_from_json({**{key: run[key] for key in _METRIC_KEYS if key in run}, "captured": chosen})
    series = sorted(run_series(known), key=lambda each: each.name != known.primary)
    try:
        facts = collect_facts(run)
    except (AttributeError, TypeError, ValueError):  # edited by hand, or by another program
        facts = {}
    return compact(
        {
            "form": FORM,
            "facts": facts,
            "metrics": {each.name: _summary(each, known) for each in series},
            "curves": {each.name: _curve(downsample(each, MAX_POINTS)) for each in series[:_MAX_CURVES]},
        }
    )


def _summary(series: Series, run: Run) -> dict[str, Any]:
    """Returns last and best value; `level` marks a best value that is a mean, as of losses of single batches."""
    from labbook.report.series_choice import base_name, is_of_batches, primary_direction, run_best

    last = series.median if base_name(series.name) == "step_time_s" else series.last  # as `metric_table`
    found = {"last": _value(last), "best": _value(run_best(run, series)), "steps": series.last_step}
    rising = primary_direction(run) if series.name == run.primary else direction_of(series.name)
    level = is_of_batches(series, run)
    return found | ({"rising": True} if rising == "max" else {}) | ({"level": True} if level else {})


def _curve(series: Series) -> dict[str, Any]:
    """Returns steps `x` and values `y`, with gaps at values that are not finite."""
    return {"x": list(series.steps), "y": [_round_value(v) if math.isfinite(v) else None for v in series.values]}


def _value(value: float | None) -> float | str | None:
    return value if value is None else _round_value(value) if math.isfinite(value) else str(value)


def _round_value(value: float) -> float:
    """Returns a value with six significant digits, more than curves and tables show."""
    return float(f"{value:.6g}")
