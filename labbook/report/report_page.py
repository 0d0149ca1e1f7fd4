"""Writes the page of a report."""

from __future__ import annotations

import html
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labbook.model.message import Message
from labbook.report.best_runs import best_run
from labbook.report.period_context import Options, run_cells
from labbook.report.run_row import RunRow
from labbook.store.text import frontmatter
from labbook.store.text.entry_text import merge, tidy
from labbook.store.text.templates import Templates

TEMPLATE = "reports/week.md.j2"
"""Named as in notebooks that have their own template for reports; months and other periods use it as well."""
EXPERIMENT_TEMPLATE = "reports/experiment_runs.md.j2"
_MAX_ROWS = 30
_MAX_OPTIONS = 6
BLOCKS = ("summary", "results", "failures", "performance", "learnt", "changes", "open", "people")
"""Generated blocks of a report; all other text belongs to people."""


def report_markdown(
    data: Mapping[str, Any], templates: Templates, say: Callable[[Message], str], existing: str | None
) -> tuple[str, str]:
    """Returns the file of a report; text that people wrote in `existing` is preserved byte for byte.

    Args:
        data: Data of `labbook.report.period_context.period_context`, and `figures` (paths of pictures, each with its
            experiment) and `people` (whether runs are counted by author).
        existing: The report on disk, or `None`.

    Returns:
        The file, and a sentence that names a broken template of the notebook, or "".
    """
    # The file of an experiment's report must not have the name of its page.
    name = data["name"].removesuffix("-report") if data["kind"] == "experiment" else data["name"]
    spoken = f"{data['begin']} – {data['end']}" if data["kind"] == "days" else name
    shown = {**data, "name": spoken, "facts": [say(fact) for fact in data["facts"]]}
    body, trouble = templates.render_anyway(TEMPLATE, shown)
    heading = next((line.strip("# ") for line in body.splitlines() if line.startswith("# ")), name)
    meta = {
        "title": html.unescape(heading),
        data["kind"] if data["kind"] in ("week", "month", "experiment") else "period": name,
        "date": data["begin"],
        "runs": data["totals"]["runs"],
    }
    page = f"{frontmatter.emit(meta)}\n{tidy(body)}"
    return (merge(existing, page, known=BLOCKS) if existing is not None else page), trouble


def experiment_runs_markdown(
    name: str,
    rows: Sequence[RunRow],
    figure: str,
    templates: Templates,
    options: Options | None = None,
) -> str:
    """Returns the runs of an experiment as its page shows them where no site is built, such as on a git host.

    Args:
        figure: Path of its figure relative to the page, or "".
        options: Options of the runs; those that differ are shown.
    """
    newest = sorted(rows, key=lambda row: row.started, reverse=True)
    best = best_run(newest)

    def link(path: str) -> str:
        return posixpath.relpath(path, "notes/experiments")

    shown = newest[:_MAX_ROWS]
    known = [(options or {}).get(row.id, {}) for row in shown]
    names = dict.fromkeys(name for one in known for name in one)
    differing = [name for name in names if len({str(one.get(name)) for one in known if one}) > 1][:_MAX_OPTIONS]
    texts = [", ".join(f"{name} {one[name]}" for name in differing if name in one) for one in known]
    data = {
        "name": name,
        "figure": figure,
        "differing": differing,
        "total": len(newest),
        "best": run_cells(best, link) if best else None,
        "rows": [run_cells(row, link) | {"options": text} for row, text in zip(shown, texts, strict=True)],
    }
    return tidy(templates.render_anyway(EXPERIMENT_TEMPLATE, data)[0])
