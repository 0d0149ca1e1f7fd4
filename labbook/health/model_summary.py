"""Facts of models, losses and loaders that an entry shows, small enough for `run.json`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from labbook.health import debug_output
from labbook.health.evidence.layer_history import parameters_of
from labbook.health.evidence.trend_tests import median
from labbook.health.model_tree import model_tree
from labbook.health.parameter_counts import count_parameters
from labbook.health.rules.performance import phase_times
from labbook.model.events.inspection_kinds import Flight, Model, ModuleRow
from labbook.model.events.training_kinds import LossCall
from labbook.model.run import Run
from labbook.model.signals import Signals

_MODELS = 8
_ROWS = 60
_FLOW = 80
_LOADER: Sequence[
    Literal["dataset", "length", "batch_size", "workers", "shuffle", "sampler", "alike", "share", "ranks", "iterable"]
]
_LOADER = ("dataset", "length", "batch_size", "workers", "shuffle", "sampler", "alike", "share", "ranks", "iterable")
_FLIGHT: Sequence[Literal["step", "trigger", "finding", "reason", "op", "file", "line", "function", "source", "value"]]
_FLIGHT = ("step", "trigger", "finding", "reason", "op", "file", "line", "function", "source", "value")


def summary(run: Run) -> dict[str, Any]:
    """Facts of the first process that trained; empty when none did.

    Returns:
        Each only where it was observed. `models`: list of {`root`, `variable`, `holder` (class of the
        model that it is a part of), `model` (number), `parameters`,
        `trainable`, `left_out` (rows), `unobserved` (modules that the probe left out), `rows`: list of {`name`, `type`,
        `depth`, `input`, `output` (shapes as "32x10"), `parameters`, `trainable`, `total` and `total_trainable` (with
        all modules in it), `tied` (model and name of the module that has a parameter of it, too)}, `tree`: see
        `model_tree`}. `flow`: list of {`name`, `gradient`, `weight`, `update` (medians over the dense steps, `None`
        when not measured)}, matrices in the order in which they run. `phases`: phase -> seconds a step.
        `losses`: list of {`function`, `line`, `calls`, `classes`}. `loaders`: list of the fields in `_LOADER`, and
        `alike` (equal ones of other data before it). `flight`: what the flight recorder found, without tensors.
        `autograd`: {`step`, `operations`, `more`, `unreachable`, `cut`}: see
        `measurement_kinds.GRAPH`. `batches`, `layers`, `weights`: see `debug_output`.
    """
    if not run.signals:
        return {}
    signals = run.signals[0]
    facts = {
        "models": [_model(model, signals) for model in _distinct_models(signals)[:_MODELS]],
        "flow": _flow(signals),
        "phases": {name: float(f"{seconds:.4g}") for name, seconds in phase_times(signals).items()},
        "losses": [_loss(loss) for loss in signals.losses if loss.get("training") is not False][:8],
        "loaders": [{name: loader[name] for name in _LOADER if name in loader} for loader in signals.loaders[:8]],
        "autograd": _autograd(signals),
        "flight": _flight(signals.flight),
        "batches": debug_output.batches(signals, in_phases=bool(run.facts("phases"))),
    }
    if not run.trains_in_turn:  # steps of which training or phase these are would not be known
        facts |= {"layers": debug_output.layers(signals), "weights": debug_output.parameters(signals)}
    return {name: value for name, value in facts.items() if value}


def _autograd(signals: Signals) -> dict[str, Any]:
    """The operations of the first backward call, with the last word on parameters that it missed."""
    first = next((graph for graph in signals.graphs if graph.get("operations")), None)
    if first is None:
        return {}
    last = signals.graphs[-1]
    return {
        "step": first.get("step"),
        "operations": first.get("operations"),
        "more": bool(first.get("more")),
        "unreachable": last.get("unreachable", []),
        "cut": last.get("cut"),
    }


def _latest_models(signals: Signals) -> list[Model]:
    """The last description of each model."""
    return list({model.get("model", 0): model for model in signals.models}.values())


def _distinct_models(signals: Signals) -> list[Model]:
    """The models; those with equal modules once, the last one, where a program trained several times or names none.

    Without those that only hold a model that ran, as a module of Lightning does that calls `self.net(x)`, and without
    parts of a model that ran which are called by themselves, too.
    """
    models = _latest_models(signals)
    models = [model for model in models if not any(_holds(model, other) for other in models)]
    models = [model for model in models if not any(_has_part(other, model) for other in models)]
    distinct: dict[tuple[str, str], Model] = {}
    for model in models:
        name = "" if signals.trainings else model.get("variable", "")
        distinct[name, str([list(row.values()) for row in model.get("modules", [])])] = model
    return list(distinct.values())


def _has_part(model: Model, other: Model) -> bool:
    """Whether a model that ran has another one as a module."""
    ran = any(row.get("order") is not None for row in model.get("modules", []))
    return ran and (
        other.get("model", 0) in model.get("parts", ()) or model.get("model", 0) in other.get("part_of", ())
    )


def _holds(model: Model, other: Model) -> bool:
    """Whether no module of a model ran, and another model that ran is one of its modules."""
    rows, inner = model.get("modules", []), other.get("modules", [])
    if any(row.get("order") is not None for row in rows) or all(row.get("order") is None for row in inner):
        return False
    kinds = {row.get("name", ""): row.get("type", "") for row in rows}
    return any(
        all(kinds.get(f"{name}.{row.get('name', '')}".rstrip(".")) == row.get("type", "") for row in inner)
        for name in kinds
        if name
    )


def _model(model: Model, signals: Signals) -> dict[str, Any]:
    # A parameter of a static graph that has a name of its own stands for the layer that is not known.
    names = {row.get("name") for row in model.get("parameters", [])}
    modules = [row for row in model.get("modules", []) if row.get("name") not in names]
    shown = [row for row in modules if row.get("depth", 0) <= _deepest(modules)][:_ROWS]
    counts = count_parameters(model)
    tied = _tied_modules(model, signals)
    return {
        "root": model.get("root", ""),
        "variable": model.get("variable", ""),
        "holder": model.get("holder", ""),
        "model": model.get("model", 0),
        "parameters": counts[""][0],
        "trainable": counts[""][1],
        "left_out": len(modules) - len(shown) + model.get("left_out", {}).get("modules", 0),
        "rows": [
            {
                "name": row.get("name", ""),
                "type": row.get("type", ""),
                "depth": row.get("depth", 0),
                "input": _shapes(row, "input"),
                "output": _shapes(row, "output"),
                "parameters": row.get("parameters", 0),
                "trainable": row.get("trainable", 0),
                "total": counts.get(row.get("name", ""), (0, 0))[0],
                "total_trainable": counts.get(row.get("name", ""), (0, 0))[1],
                **({"tied": tied[row.get("name", "")]} if row.get("name", "") in tied else {}),
            }
            for row in shown
        ],
        "tree": model_tree(model, signals),
        "unobserved": model.get("left_out", {}).get("modules", 0),
    }


def _tied_modules(model: Model, signals: Signals) -> dict[str, list[Any]]:
    """Returns module -> the first one that has one of its parameters, too: number of its model, name."""
    rows = [(each.get("model", 0), row) for each in signals.models for row in each.get("parameters", [])]
    owners = {(number, row.get("i", 0)): row.get("name", "").rpartition(".")[0] for number, row in rows}
    own, found = model.get("model", 0), {}
    for row in model.get("parameters", []):
        if same := row.get("same"):
            found[owners[own, row.get("i", 0)]] = [same[0], owners.get(same, "")]
    for first, *others in model.get("shared", []):
        found |= {name.rpartition(".")[0]: [own, first.rpartition(".")[0]] for name in others}
    return {module: place for module, place in found.items() if place != [own, module]}


def _deepest(modules: list[ModuleRow]) -> int:
    """The greatest depth down to which all modules fit."""
    depth = 0
    while depth < 12 and sum(row.get("depth", 0) <= depth + 1 for row in modules) <= _ROWS:
        depth += 1
    return depth


def _shapes(row: ModuleRow, key: Literal["input", "output"]) -> str:
    return ", ".join("x".join(str(n) for n in each.get("shape", ())) or "scalar" for each in row.get(key, [])[:3])


def _flow(signals: Signals) -> list[dict[str, Any]]:
    found = [p for p in parameters_of(signals) if p.is_matrix and p.history and math.isfinite(p.order)]
    return [
        {
            "name": p.name,
            "gradient": _median(p.values("g")),
            "weight": _median(p.values("w")),
            "update": _median(p.values("ratio")),
        }
        for p in found[:_FLOW]
    ]


def _median(values: list[float]) -> float | None:
    return float(f"{median(values):.4g}") if values else None


def _loss(loss: LossCall) -> dict[str, Any]:
    facts = {"function": loss.get("fn", ""), "line": loss.get("line", ""), "calls": loss.get("calls", 0)}
    return {**facts, "classes": loss.get("classes", 0)} if loss.get("classes") else facts


def _flight(flight: Flight) -> dict[str, Any]:
    facts: dict[str, Any] = {name: flight[name] for name in _FLIGHT if name in flight}
    module = flight.get("module", {})
    return {**facts, "module": module.get("name", "") or module.get("type", "")} if module else facts
