"""Makes an entry of its own of each of several trainings in one process, and a page of all of them.

The entry of the run keeps the console, the environment, the code and the files, and lists its trials; no number of a
trial is among its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from labbook.model.run import Arguments, Console, Facts, Run
from labbook.model.run_fields import differing_names
from labbook.model.series import Series
from labbook.record.run_entry import OBJECTIVE, add_findings, add_printed_metrics, entry_files, write_entry
from labbook.record.run_from_journal.journal_reader import build_run
from labbook.record.run_from_journal.trial_parts import TrialPart
from labbook.report.best_runs import PRUNED
from labbook.report.ending_exception import ending_exception
from labbook.report.numbers import listed_value
from labbook.report.series_choice import find_primary_series, primary_direction, run_best
from labbook.store.experiments import slug_part
from labbook.store.notebook import Notebook
from labbook.store.paths import trial_run_id

_STATUS = {"complete": "finished", "pruned": "finished", "failed": "failed", "interrupted": "interrupted"}
_SHARED = ("command", "code", "python", "hardware", "container", "reproducibility")
"""Captured facts of the run that a trial has in common with it."""

_GOALS = {"minimize": "min", "maximize": "max"}
_MOST_OF_ERROR = 200


def sweep_of(run: Run, trial: TrialPart) -> str:
    """Returns the name of the sweep of a trial in a run: that of the study, else one made of the run's id."""
    named = slug_part(trial.key[1])
    script = slug_part(run.script.rpartition("/")[2].removesuffix(".py"))
    return named or "-".join(filter(None, (script, run.id.replace("-", "")[8:])))


def trial_runs(notebook: Notebook, run: Run, start: Facts, trials: Sequence[TrialPart]) -> list[Run]:
    """Returns the runs of the trials that trained, complete with checks, diagnosis and verdict.

    Args:
        run: The run, with its captured facts.
    """
    return [
        add_findings(notebook, _trial_run(run, start, trial, run_id))
        for run_id, trial in zip(_run_ids(run, trials), trials, strict=True)
        if trial.processes
    ]


def _run_ids(run: Run, trials: Sequence[TrialPart]) -> list[str]:
    """Returns the ids of trials: with their own numbers, or with their places where several studies have the same."""
    numbers = [trial.key[2] for trial in trials]
    if len(set(numbers)) < len(numbers) or min(numbers, default=0) < 0:
        numbers = list(range(len(trials)))
    return [trial_run_id(run.id, number) for number in numbers]


def _trial_run(run: Run, start: Facts, trial: TrialPart, run_id: str) -> Run:
    tool, study, number = trial.key
    started = {**start, "id": run_id, "started": trial.started, "sweep": sweep_of(run, trial)}
    started.update(notes=[], tags=[*(start.get("tags") or ()), *([PRUNED] if trial.state == PRUNED else [])])
    status = _STATUS.get(trial.state) or (run.status if run.status != "finished" else "interrupted")
    own = build_run(started, {"status": status, "ended": trial.ended}, trial.processes, trial.console or Console())
    own = add_printed_metrics(own, own.console.text)
    if own.probe.overhead_fraction is None:  # it is a part of a process
        own = replace(own, probe=replace(own.probe, overhead_fraction=run.probe.overhead_fraction))
    values = tuple(trial.values)
    names = [trial.result or OBJECTIVE] if len(values) == 1 else [f"{OBJECTIVE}_{at}" for at in range(len(values))]
    source = tool or "text"  # of a training that the program does not mark
    results = tuple(Series.of_values(name, source, (0,), (value,)) for name, value in zip(names, values, strict=True))
    is_parsed = any(each.source == tool or trial.params.items() <= each.values.items() for each in own.arguments)
    params = (Arguments(tool, study, trial.params),) if trial.params and not is_parsed else ()
    facts = {"run": run.id, "number": number, "tool": tool, "study": study, "state": trial.state}
    facts["goals"] = [_GOALS.get(each, "") for each in trial.directions] if len(values) == 1 else []
    facts |= {"shared": True} if trial.together or trial.result else {}
    return replace(
        own,
        arguments=params + own.arguments + _shared_options(run, own),
        series=own.series + results,
        sources=run.sources,
        copies=run.copies,
        packages=run.packages,
        captured={**{name: run.captured[name] for name in _SHARED if name in run.captured}, "trial": facts},
    )


def _shared_options(run: Run, own: Run) -> tuple[Arguments, ...]:
    """Returns the options of a run that hold for a trial: not a variable of which it, or another trial, has values."""
    known = {(each.source, each.name) for each in own.arguments}
    times = Counter((each.source, each.name) for each in run.arguments)
    return tuple(
        each for each in run.arguments if (each.source, each.name) not in known and times[each.source, each.name] == 1
    )


def training_facts(run: Run, runs: Sequence[Run]) -> dict[str, Any]:
    """Returns `trainings` of a run with the entries of these, and the page of their sweep."""
    facts = run.captured["trainings"]
    rows = [{**row, "id": made.id} for row, made in zip(facts["rows"], runs, strict=True)]
    return {**facts, "rows": rows, "sweeps": list(dict.fromkeys(each.sweep for each in runs))}


def trial_facts(run: Run, trials: Sequence[TrialPart], runs: Sequence[Run]) -> dict[str, Any]:
    """Returns what the entry of a run says of its trials.

    Returns:
        `sweeps`: names of their sweeps. `rows`, one a trial: `number`, `id` of its entry or "", `params` that differ,
        `state`, `verdict`, `metric`, `best`, `last`, `duration_s`, `error` (class and message of a failed one). `best`:
        the number of the best one, if there is one.
        `together`: whether some ran at the same time in one process. `printed`: whether what each one printed is known.
    """
    by_id = {each.id: each for each in runs}
    has_objective = any(len(trial.values) == 1 and any(trial.directions) for trial in trials)
    differing = differing_names([trial.params for trial in trials])
    rows = []
    for run_id, trial in zip(_run_ids(run, trials), trials, strict=True):
        made = by_id.get(run_id)
        rows.append(
            {
                "number": trial.key[2],
                "id": made.id if made is not None else "",
                "params": {name: value for name, value in trial.params.items() if name in differing},
                "state": trial.state or run.status,
                "verdict": made.verdict if made is not None else "",
                "duration_s": trial.ended - trial.started,
                "error": _error(made),
                **_trial_row(trial, None if has_objective else made, OBJECTIVE if has_objective else ""),
            }
        )
    facts = {"sweeps": list(dict.fromkeys(each.sweep for each in runs)), "rows": rows}
    facts["together"] = any(trial.together for trial in trials)
    facts["printed"] = all(trial.console is not None for trial in trials)
    if len({trial.key[1] for trial in trials}) > 1:
        return facts
    # Workers begin them in any order.
    rows.sort(key=lambda row: row["number"])
    return {**facts, **_best_row(rows)}


def _error(run: Run | None) -> str:
    raised = ending_exception(run) if run is not None else None
    return f"{raised.type}: {' '.join(raised.message.split())}"[:_MOST_OF_ERROR].rstrip(": ") if raised else ""


def _trial_row(trial: TrialPart, run: Run | None, metric: str) -> dict[str, Any]:
    direction = _GOALS.get(next(iter(trial.directions), ""), "")
    value = trial.values[0] if len(trial.values) == 1 else None
    series = find_primary_series(run) if run is not None else None
    if run is None or series is None:
        return {"metric": metric, "best": value, "last": value, "direction": direction}
    best = run_best(run, series)
    return {"metric": series.name, "best": best, "last": series.last, "direction": primary_direction(run)}


def _best_row(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the first row with the best value, if all rows with a value have the same metric and direction."""
    kinds = {(row["metric"], row["direction"]) for row in rows if row["best"] is not None}
    if len(kinds) != 1:
        return {}
    metric, direction = kinds.pop()
    ended = [row for row in rows if row["state"] not in ("pruned", "failed")]
    rated = [row for row in ended if row["best"] is not None and math.isfinite(row["best"])]
    if direction not in ("min", "max") or not rated:
        return {"metric": metric}
    best = (min if direction == "min" else max)(rated, key=lambda row: listed_value(row["best"]))
    return {"metric": metric, "best": best["number"], "value": best["best"]}


def write_trials(notebook: Notebook, runs: Sequence[Run]) -> list[Path]:
    """Writes the entries of trials and the pages of their sweeps; returns all files, for one commit with the run's."""
    from labbook.sweep.sweep_page import write_sweep_page

    files = [file for run in runs for file in entry_files(notebook, run.id, write_entry(notebook, run))]
    for sweep in dict.fromkeys(run.sweep for run in runs):
        page = write_sweep_page(notebook, sweep, commit=False)
        if page is not None:
            folder = page.with_suffix("")
            files += [page, *(sorted(folder.iterdir()) if folder.is_dir() else [])]
    return files
