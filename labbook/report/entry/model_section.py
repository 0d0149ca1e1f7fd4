"""The section *Model*: the model, what it computes on, and its optimizers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.run import Run
from labbook.model.run_files import is_checkpoint
from labbook.report import numbers
from labbook.report.entry.debug_section import as_rows, module_rows
from labbook.report.entry.gradient_clipping import clipping_row
from labbook.report.entry.section_limits import Limits, shorten_middle
from labbook.report.graph_drawing import is_incomplete
from labbook.report.model_svg import has_diagram

_BY_HAND = "none of the framework"
"""How the type of an optimizer begins that the framework does not have. Source: `UpdatesByHand`."""
_LOSS = re.compile("loss|likelihood|elbo|objective|criterion", re.IGNORECASE)
_MOST_LOADED = 4
_RATES = ("lr", "learning_rate")
_CYCLED = {"betas", "momentum"}
"""Options that a scheduler such as OneCycleLR may set anew, besides `lr`."""
_FEW = 10
_WHOLE = 0.95
"""Share of the parameters that the model has. Source: chosen by us; a likelihood beside it has one or two."""


def model_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns the model and its optimizers, or `None`."""
    phases = bool(run.captured.get("phases"))
    called = as_rows(run.health.get("models"))
    models = [
        _model(
            f.name,
            _without_changed(
                run,
                _without_stale(
                    run,
                    _add_up_models(f.state, f.optimizers)
                    if phases and sum(map(_size_of, called)) != f.state.get("parameters")
                    else _name_called_model(f.state, called),
                    called,
                ),
            ),
            len(run.frameworks) > 1,
            called,
        )
        for f in run.frameworks
    ]
    shown = _optimizer_rows(run, limits)
    rows = [row for model in models for row in model if row["what"] != "parameters" or not _differ_in_size(run)]
    rows += [*clipping_row(run), *_loaded_row(run)]
    modules = module_rows(run, limits)
    if not rows and not shown and not modules["rows"]:
        return None
    return {
        "rows": rows,
        "diagram": run.id if has_diagram(run) else "",
        "autograd": run.id if is_incomplete(run) else "",
        "modules": modules,
        "optimizers": shown[: limits.rows],
        "more_optimizers": max(0, len(shown) - limits.rows),
    }


def _loaded_row(run: Run) -> list[dict[str, Any]]:
    """Returns what was loaded of checkpoints before the first step, as where a training goes on: "Net, SGD (t.py:23)".

    Without a file that was read it is the state of another model, as that of a target network.
    """
    if not any(is_checkpoint(use.path) and use.mode != "written" for use in run.files):
        return []
    events = [e for signals in run.signals[:1] for e in signals.loaded if not e.get("step") and e.get("matched")]
    shown = dict.fromkeys(f"{e.get('type')} ({e.get('line')})" if e.get("line") else str(e.get("type")) for e in events)
    return [{"what": "loaded", "value": ", ".join([*shown][:_MOST_LOADED])}] if shown else []


def _optimizer_rows(run: Run, limits: Limits) -> list[dict[str, Any]]:
    """Returns the optimizers, equal ones once; what differs between trainings is in the table of these."""
    rows = run.facts("trainings").get("rows") or ()
    differing = {str(name) for row in rows for name in row.get("params") or ()}
    found: dict[str, dict[str, Any]] = {}
    for facts in (library_optimizer(run, dict(o, framework=f.name)) for f in run.frameworks for o in f.optimizers):
        options = facts.get("options")
        named = [name for name in options if name in differing] if isinstance(options, Mapping) else []
        if isinstance(options, Mapping):
            facts = {**facts, "options": {name: value for name, value in options.items() if name not in named}}
        row = _optimizer(facts, limits, _scheduler_of(run, facts), _used_rates(run, facts)) | {"differing": named}
        found.setdefault(str(row), row | {"alike": 0})["alike"] += 1
    return list(found.values())


def _used_rates(run: Run, facts: Mapping[str, Any]) -> list[float]:
    """Returns the first and the highest learning rate of each parameter group of an optimizer."""
    name = f"lr.opt{facts['index']}" if facts.get("index") else "lr"
    series = [s for s in run.series if s.source == "probe" and s.name.partition(".group")[0] == name]
    return [rate for one in series for rate in (one.values[0], max(one.high or one.values))]


def _scheduler_of(run: Run, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the facts of the learning rate scheduler of an optimizer; empty without one."""
    found = next((s.loop.get("scheduler", {}) for s in run.signals if s.framework == facts.get("framework")), {})
    return found.get(str(facts.get("index", "")), {})


def library_optimizer(run: Run, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the optimizer of Keras for updates that it does itself, past the classes of the framework."""
    given = next((each.values for each in run.arguments if each.source == "keras" and "optimizer" in each.values), None)
    if given is None or not str(facts.get("type")).startswith(_BY_HAND):
        return facts
    return {
        **facts,
        "type": f"{given['optimizer']} (Keras)",
        "options": {k: v for k, v in given.items() if k != "optimizer"},
    }


def _add_up_models(state: Mapping[str, Any], optimizers: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns the state of a framework with the parameters of the models of all phases: it has those at the end.

    Another model of the same class is the first one anew, as one that was pruned; of several sizes the last counts.
    """
    models = {facts.get("trains"): facts for facts in optimizers if isinstance(facts.get("parameters"), int)}
    if len(models) < 2:
        return state
    names = dict.fromkeys(str(facts["root"]) for facts in models.values() if facts.get("root"))
    if len(names) == 1:
        several = len({facts["parameters"] for facts in models.values()}) > 1
        last = [*models.values()][-1] if several else state
        counts = {name: last.get(name) for name in ("parameters", "trainable")}
        return {**state, **counts, "models": len(models), "statistics": None}
    pairs = [(facts, facts.get("shared") or (0, 0)) for facts in models.values()]
    kinds = enumerate(("parameters", "trainable"))
    totals = {kind: sum((facts.get(kind) or 0) - shared[at] for facts, shared in pairs) for at, kind in kinds}
    return {**state, **totals, "statistics": None, "model": ", ".join(names) or state.get("model")}


def _without_stale(run: Run, state: Mapping[str, Any], called: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns the state of a framework without the parameters that an optimizer has of a model that is gone.

    The model is the one that was called last, where one was seen: what the optimizer has is a part of it and others.
    """
    stale = sum(facts.get("elements", 0) for signals in run.signals for facts in signals.loop.get("stale", {}).values())
    counts = {name: state[name] for name in ("parameters", "trainable") if isinstance(state.get(name), int)}
    if len(run.signals) == 1 and stale and called:
        last = {name: called[-1].get(name) for name in ("parameters", "trainable")}
        return {**state, **last, "model": called[-1].get("root"), "optimized": None, "statistics": None}
    if len(run.signals) != 1 or not stale or min(counts.values(), default=0) <= stale:
        return state
    return {**state, **{name: count - stale for name, count in counts.items()}, "statistics": None}


def _without_changed(run: Run, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the state of a framework without how much is trainable where layers are frozen or set free later on."""
    sizes = {(f.name, o.get("trains"), o.get("trainable")) for f in run.frameworks for o in f.optimizers}
    changes = len({size[:2] for size in sizes}) < len(sizes)
    changes = changes or any(signals.loop.get("toggled_n") for signals in run.signals)
    return {name: value for name, value in state.items() if name != "trainable"} if changes else state


def _differ_in_size(run: Run) -> bool:
    """Whether a program trained models of several sizes one after another: these are in the table of trainings."""
    return any("parameters" in (row.get("params") or ()) for row in run.facts("trainings").get("rows") or ())


def _name_called_model(state: Mapping[str, Any], called: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns the state of a framework with the name of the model that is called, instead of a module that holds it.

    The loss of a Gaussian process of GPyTorch holds the model that it is computed of; a wrapper of Opacus calls it. So
    does a loss that is called and returns a scalar: it names its model, or its largest part.
    """
    holders = {str(model.get("holder") or "") for model in called}
    if len(holders) == 1 and (holder := holders.pop()):
        variables = ", ".join(str(model.get("variable") or model.get("root")) for model in called)
        return {**state, "model": f"{holder} ({variables})"}  # only its parts are called
    total = state.get("parameters")
    trained = [model for model in called if model.get("trainable")]
    if isinstance(total, int) and len(trained) > 1 and _WHOLE * total <= sum(map(_size_of, trained)) <= total:
        # One optimizer may train several, as an encoder and a decoder.
        return {**state, "model": ", ".join(_name_each(trained))}
    own = [model for model in called if model.get("root") == state.get("model")] or called
    if isinstance(total, int) and len(own) == 1 and own[0].get("parameters", 0) > total:
        # Of a backbone that is in no optimizer the state of the framework knows nothing.
        counts = {name: own[0].get(name) for name in ("parameters", "trainable")}
        # The optimizer of a static graph holds none: what it updates is not known.
        return {**state, **counts, "model": own[0].get("root"), "optimized": total or None, "statistics": None}
    if not isinstance(total, int):
        return state
    size = sum(map(_size_of, called))
    names = [str(model.get("root")) for model in called]
    # Models one after the other, without one around them; a parameter alone, as a temperature, is none.
    if (size == total and len(called) > 1) or (size + _FEW < total and state.get("model") in names):
        return {**state, "model": ", ".join([*_name_each(called), *(["…"] if size < total else [])])}
    if any(model.get("parameters", 0) < _WHOLE * total for model in called):
        return state
    losses = [model for model in called if _is_loss(model)]
    roots = {str(model.get("root")) for model in called if model not in losses}
    if not roots and len(losses) == 1:
        parts = [row for row in as_rows(losses[0].get("rows")) if row.get("depth") == 1]
        largest = max(parts, key=lambda row: int(row.get("total") or 0), default={})
        roots = {str(largest.get("type"))} if largest and _LOSS.search(str(losses[0].get("root"))) else roots
    return {**state, "model": roots.pop()} if len(roots) == 1 else state


def _name_each(models: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the classes of models, with the names that the program has for them where classes are alike."""
    names = [str(model.get("root")) for model in models]
    if len({*names}) == len(names) or not all(model.get("variable") for model in models):
        return [*dict.fromkeys(names)]
    return [f"{model.get('variable')} ({model.get('root')})" for model in models]


def _size_of(model: Mapping[str, Any]) -> int:
    return int(model.get("parameters") or 0)


def _is_loss(model: Mapping[str, Any]) -> bool:
    """Whether a model with parts returns nothing but a scalar."""
    rows = as_rows(model.get("rows"))
    return len(rows) > 1 and str(rows[0].get("output") or "") == "scalar"


def _model(
    name: str, state: Mapping[str, Any], with_name: bool, called: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    # They may be gone when the program ends; with two frameworks it is not known whose models were called.
    models = str(state.get("model") or ("" if with_name else ", ".join(_name_each(called))))
    if models:
        value = models + (f" ({name})" if with_name else "")
        rows.append({"what": "model", "value": value, "models": state.get("models", 0)})
    total, trainable = state.get("parameters"), state.get("trainable")
    if isinstance(total, int) and total:  # the optimizer of a static graph holds none
        rows.append(
            {
                "what": "parameters",
                "value": numbers.count(total),
                "trainable": numbers.count(trainable) if isinstance(trainable, int) else "",
                "all": trainable == total,
                "statistics": numbers.count(own) if isinstance(own := state.get("statistics"), int) else "",
                "optimized": numbers.count(held) if isinstance(held := state.get("optimized"), int) else "",
            }
        )
    if state.get("device"):
        rows.append({"what": "device", "value": join_names(state["device"])})
    amp = state.get("amp")
    if casts := [cast for cast in amp if isinstance(cast, Mapping)] if isinstance(amp, Sequence) else []:
        shown = [f"{cast.get('dtype')} ({cast.get('device') or cast.get('level')})" for cast in casts]
        rows.append({"what": "amp", "value": ", ".join(shown)})
    spread = state.get("distributed")
    if isinstance(spread, Mapping) and spread:
        rows.append(
            {
                "what": "distributed",
                "value": "",
                "backend": str(spread.get("backend") or ""),
                "world_size": spread.get("world_size"),
            }
        )
    return rows


def _optimizer(
    facts: Mapping[str, Any], limits: Limits, scheduler: Mapping[str, Any], used: Sequence[float]
) -> dict[str, Any]:
    options = facts.get("options")
    groups = facts.get("groups")
    shown = {}
    for key, value in options.items() if isinstance(options, Mapping) else ():
        # Options that are off or left to the framework are not shown.
        if value is None or value is False or (value == 0 and key != "lr"):
            continue
        shown[str(key)] = _option(value)
    own = _options_of_groups(options, groups, with_rate=not scheduler.get("type"))
    shown |= own
    # A rate that no step had is that of the constructor, or a factor of the schedule.
    rates = scheduler.get("options", {}).get("base_lrs") or ()
    used = [*used, *rates]
    if "lr" in shown and len(set(rates)) > 1:
        shown["lr"] = " / ".join(dict.fromkeys(map(_option, rates)))
    given = next((options[key] for key in _RATES if key in options), None) if isinstance(options, Mapping) else None
    is_used = not isinstance(given, (int, float)) or any(math.isclose(given, rate, rel_tol=0.01) for rate in used)
    unused = set(_RATES) if used and not is_used else set()
    if kind := str(scheduler.get("type") or ""):
        # Of a momentum that the scheduler changes, too, neither the first value nor that of the constructor holds.
        unused |= _CYCLED & own.keys()
        shown["schedule"] = " + ".join(dict.fromkeys([*map(str, scheduler.get("beside") or ()), kind]))
    shown = {name: value for name, value in shown.items() if name not in unused}
    return {
        "type": str(facts.get("type") or ""),
        "options": shorten_middle(", ".join(f"{k} {v}" for k, v in shown.items()), 2 * limits.cell),
        "groups": len(as_rows(groups)),
        "by_hand": str(facts.get("type")).startswith(_BY_HAND),
        "closure": bool(facts.get("closure")),
        "summed": count_summed_losses(facts),
        "losses": _loss_names(facts),
    }


def _options_of_groups(options: object, groups: object, *, with_rate: bool) -> dict[str, str]:
    """Returns the options in which the parameter groups differ: "0.1 / 0" for weight decay.

    Args:
        with_rate: Whether their learning rates are options, too: a scheduler changes those of all.
    """
    rows = as_rows(groups)
    if not isinstance(options, Mapping):
        return {}
    differ = with_rate and "lr" in options and len({row.get("lr") for row in rows}) > 1
    names = {name for row in rows for name in row} - {*_RATES, "tensors", "elements"} | ({"lr"} if differ else set())
    values = {name: dict.fromkeys(_option(row.get(name, options.get(name))) for row in rows) for name in sorted(names)}
    return {str(name): " / ".join(each) for name, each in values.items()}


def loss_names_of_optimizers(run: Run) -> dict[str, str]:
    """Series of the losses of several optimizers -> what the program calls each: `loss.opt1` -> `errG`."""
    every = [facts for framework in run.frameworks for facts in framework.optimizers]
    named = [(f"loss.opt{facts['index']}" if facts.get("index") else "loss", _loss_names(facts)) for facts in every]
    return {series: name for series, name in named if name} if len(every) > 1 else {}


def _loss_names(facts: Mapping[str, Any]) -> str:
    """The losses of an optimizer as the program calls them, "" of one loss with a name that says nothing."""
    names = [str(name) for name in facts.get("losses") or ()]
    return " + ".join(names[:8]) if len(names) > 1 or any(len(name) > 2 and name != "loss" for name in names) else ""


def count_summed_losses(facts: Mapping[str, Any]) -> int:
    """How many backward passes the loss of an optimizer's steps adds up; 0 where that is one."""
    summed = facts.get("summed")
    return summed if isinstance(summed, int) and summed > 1 else 0


def _option(value: Any) -> str:  # noqa: ANN401 - JSON data
    if isinstance(value, (int, float)):
        return numbers.number(value)
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(_option(v) for v in value) + ")"
    return str(value)


def join_names(names: object) -> str:
    """Returns one name, or several with commas."""
    return ", ".join(str(each) for each in names) if isinstance(names, (list, tuple)) else str(names or "")
