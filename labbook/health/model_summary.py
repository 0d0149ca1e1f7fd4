"""Facts of models, losses and loaders that an entry shows, small enough for `run.json`."""

from __future__ import annotations

import math
from typing import Any

from labbook.health import debug_output
from labbook.health.event_fields import Facts, count, finite, rows, shape, table, words
from labbook.health.layer_history import parameters_of
from labbook.health.performance import phase_times
from labbook.health.trend_tests import median
from labbook.model.run import Run
from labbook.model.signals import Signals

_MODELS = 4
_ROWS = 60
_FLOW = 80


def summary(run: Run) -> dict[str, Any]:
    """Facts of the first process that trained; empty when none did.

    Returns:
        Each only where it was observed. `models`: list of {`root`, `parameters`, `trainable`, `left_out` (rows),
        `rows`: list of {`name`, `type`, `depth`, `input`, `output` (shapes as "32x10"), `parameters`, `trainable`}}.
        `flow`: list of {`name`, `gradient`, `weight`, `update` (medians over the dense steps, `None` when not
        measured)}, matrices in the order in which they run. `phases`: phase -> seconds a step. `losses`: list of
        {`function`, `line`, `calls`, `classes`}. `loaders`: list of {`dataset`, `length`, `batch_size`, `workers`,
        `shuffle`}. `flight`: what the flight recorder found, without tensors. `batches`, `layers`, `weights`: see
        `debug_output`.
    """
    if not run.signals:
        return {}
    signals = run.signals[0]
    facts = {
        "models": [_model(model) for model in _latest(signals)[:_MODELS]],
        "flow": _flow(signals),
        "phases": {name: float(f"{seconds:.4g}") for name, seconds in phase_times(signals).items()},
        "losses": [_loss(loss) for loss in signals.losses if loss.get("training") is not False][:8],
        "loaders": [_loader(loader) for loader in signals.loaders[:8]],
        "flight": _flight(signals.flight),
        "batches": debug_output.batches(signals),
        "layers": debug_output.layers(signals),
        "weights": debug_output.parameters(signals),
    }
    return {name: value for name, value in facts.items() if value}


def _latest(signals: Signals) -> list[Facts]:
    """The last description of each model."""
    return list({count(model, "model"): model for model in signals.models}.values())


def _model(model: Facts) -> dict[str, Any]:
    modules = rows(model, "modules")
    shown = [row for row in modules if count(row, "depth") <= _deepest(modules)][:_ROWS]
    return {
        "root": words(model, "root"),
        "parameters": sum(count(row, "parameters") for row in modules),
        "trainable": sum(count(row, "trainable") for row in modules),
        "left_out": len(modules) - len(shown) + count(model, "left_out", "modules"),
        "rows": [
            {
                "name": words(row, "name"),
                "type": words(row, "type"),
                "depth": count(row, "depth"),
                "input": _shapes(row, "input"),
                "output": _shapes(row, "output"),
                "parameters": count(row, "parameters"),
                "trainable": count(row, "trainable"),
            }
            for row in shown
        ],
    }


def _deepest(modules: list[Facts]) -> int:
    """The greatest depth down to which all modules fit."""
    depth = 0
    while depth < 12 and sum(count(row, "depth") <= depth + 1 for row in modules) <= _ROWS:
        depth += 1
    return depth


def _shapes(row: Facts, key: str) -> str:
    return ", ".join("x".join(str(n) for n in shape(each, "shape")) or "scalar" for each in rows(row, key)[:3])


def _flow(signals: Signals) -> list[dict[str, Any]]:
    found = [p for p in parameters_of(signals) if p.is_matrix and p.history and math.isfinite(p.order)]
    return [
        {
            "name": p.name,
            "gradient": _middle(p.values("g")),
            "weight": _middle(p.values("w")),
            "update": _middle(p.values("ratio")),
        }
        for p in found[:_FLOW]
    ]


def _middle(values: list[float]) -> float | None:
    return float(f"{median(values):.4g}") if values else None


def _loss(loss: Facts) -> dict[str, Any]:
    facts = {"function": words(loss, "fn"), "line": words(loss, "line"), "calls": count(loss, "calls")}
    return {**facts, "classes": count(loss, "classes")} if finite(loss, "classes") else facts


def _loader(loader: Facts) -> dict[str, Any]:
    names = ("dataset", "length", "batch_size", "workers", "shuffle")
    return {name: loader[name] for name in names if isinstance(loader.get(name), (str, int, float))}


def _flight(flight: Facts) -> dict[str, Any]:
    names = ("step", "trigger", "finding", "reason", "op", "file", "line", "function", "source", "value")
    facts = {name: flight[name] for name in names if isinstance(flight.get(name), (str, int, float))}
    module = table(flight, "module")
    return {**facts, "module": words(module, "name") or words(module, "type")} if module else facts
