"""The section *Trials*: the table of a run with several trainings, or the way from a trial to its run.

Trainings that the program itself does not mark as trials have entries of their own where their options differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.run import Run
from labbook.report.entry.section_limits import Limits, shorten_middle
from labbook.report.numbers import duration, number
from labbook.store.paths import NotebookPaths

_MOST_OPTIONS = 6


def trials_section(run: Run, paths: NotebookPaths, limits: Limits) -> dict[str, Any] | None:
    """Returns the trials or trainings of a run, the run of a trial, or `None` for any other run."""
    trial = run.captured.get("trial")
    if trial:
        of = str(trial["run"])
        link = paths.link(run.id, paths.entry(of))
        study = str(trial.get("study") or "")
        return {"rows": [], "run": of, "link": link, "number": trial.get("number"), "study": study} | {
            "shared": bool(trial.get("shared")),
            "printed": bool(run.console.lines),
        }
    is_run = bool(run.captured.get("trials"))
    facts = run.captured.get("trials") or run.facts("trainings")
    rows = [row for row in facts.get("rows") or () if isinstance(row, Mapping)]
    if not rows:
        return None
    # Tools number their trials from 0; people count trainings from 1.
    first = 0 if is_run else 1
    options = list(dict.fromkeys(name for row in rows for name in row.get("params") or ()))[:_MOST_OPTIONS]
    best = [row for row in rows if "best" in facts and row.get("number") == facts["best"]]
    shown = rows[: limits.rows] if all(row in rows[: limits.rows] for row in best) else [*best, *rows][: limits.rows]
    return {
        "pages": [(str(name), paths.link(run.id, paths.sweep(str(name)))) for name in facts.get("sweeps") or ()],
        "options": options,
        "metric": str(facts.get("metric") or ""),
        "once": bool(facts.get("once")),
        "second": str(facts.get("second") or "loss.opt1"),
        "are_runs": is_run,
        "together": bool(facts.get("together")),
        "printed": bool(facts.get("printed")),
        "rows": [_row(row, run, paths, options, limits, first) | {"is_best": row in best} for row in shown],
        "more": len(rows) - len(shown),
    }


def _row(
    row: Mapping[str, Any], run: Run, paths: NotebookPaths, options: Sequence[str], limits: Limits, first: int
) -> dict[str, Any]:
    params, entry = row.get("params") or {}, str(row.get("id") or "")
    return {
        "number": row.get("number", 0) + first,
        "values": [_value(params.get(name), limits) for name in options],
        "best": number(row.get("best")),
        "last": number(row.get("last")),
        "steps": row.get("steps"),
        "state": str(row.get("state") or ""),
        "verdict": str(row.get("verdict") or ""),
        "time": duration(row.get("duration_s")),
        "id": entry,
        "link": paths.link(run.id, paths.entry(entry)) if entry else "",
    }


def _value(value: object, limits: Limits) -> str:
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) else shorten_middle(str(value), limits.cell)
