"""Finds several trainings that a program did one after another, by what it built for each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labbook.model.events.inspection_kinds import Model
from labbook.model.events.training_kinds import Optimizer, Step
from labbook.model.run import Run
from labbook.report.series_choice import run_best
from labbook.store.journal import ProcessEvents

_MOST = 1000


def successive_trainings(run: Run, processes: Sequence[ProcessEvents]) -> dict[str, Any]:
    """Returns the trainings of a program that built a new model and a new optimizer for each; empty for any other.

    The optimizers of a GAN or of an actor and its critic take turns, and fine-tuning goes on with the same model: these
    are one training. With several ranks, those of the first process that trained count.

    Args:
        run: The run with its series.
        processes: Events of its processes.

    Returns:
        `metric`: "loss". `rows`, one a training: `number`, `params` (options of the optimizer that differ), `steps`,
        `best`, `last`, `duration_s`. `best`: the number of the training with the lowest loss, `value`: that loss,
        `series`: the name of the series with its loss.
    """
    trained = next((process for process in processes if process.of_kind(Step)), None)
    found = _in_turn(trained) if trained is not None else []
    if len(found) < 2:
        return {}
    options = [_plain_options(optimizer) for optimizer, _ in found]
    names = dict.fromkeys(name for each in options for name in each)
    differing = [name for name in names if len({str(each.get(name)) for each in options}) > 1]
    losses = {series.name: series for series in run.series if series.source == "probe"}
    rows: list[dict[str, Any]] = []
    for number, (optimizer, steps) in enumerate(found[:_MOST]):
        index = optimizer.get("index", 0)
        loss = losses.get(f"loss.opt{index}" if index else "loss")
        rows.append(
            {
                "number": number,
                "params": {name: options[number][name] for name in differing if name in options[number]},
                "steps": max(step.get("step", 0) for step in steps),
                "best": run_best(run, loss) if loss is not None else None,
                "last": loss.last if loss is not None else None,
                "duration_s": max(0.0, steps[-1].get("t", 0.0) - optimizer.get("t", 0.0)),
            }
        )
    rated = [row for row in rows if row["best"] is not None and row["best"] == row["best"]]
    best = min(rated, key=lambda row: row["best"]) if len(rated) == len(rows) else None
    if best is None:
        return {"metric": "loss", "rows": rows}
    index = found[best["number"]][0].get("index", 0)
    series = f"loss.opt{index}" if index else "loss"
    return {"metric": "loss", "rows": rows, "best": best["number"], "value": best["best"], "series": series}


def _in_turn(process: ProcessEvents) -> list[tuple[Optimizer, list[Step]]]:
    """Returns the optimizers with their steps if each began with a model of its own after the one before had ended."""
    found: list[tuple[Optimizer, list[Step]]] = []
    models: set[int] = set()
    is_new = False
    for event in process.events:
        kind = event.get("k")
        if kind == "model":
            model: Model = event  # type: ignore[assignment]
            is_new = is_new or model.get("model", 0) not in models
            models.add(model.get("model", 0))
        elif kind == "optimizer":
            if not is_new:
                return []
            found.append((event, []))  # type: ignore[arg-type]
            is_new = False
        elif kind == "step":
            step: Step = event  # type: ignore[assignment]
            if not found or step.get("opt", 0) != found[-1][0].get("index", 0):
                return []
            found[-1][1].append(step)
    return found if all(steps for _, steps in found) else []


def _plain_options(optimizer: Optimizer) -> dict[str, Any]:
    options = {"optimizer": optimizer.get("type", ""), **(optimizer.get("options") or {})}
    return {name: value for name, value in options.items() if isinstance(value, (bool, int, float, str))}
