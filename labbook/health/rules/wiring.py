"""Checks of the connections between model, loss, optimizer and checkpoint."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from labbook.health.evidence.layer_history import modules_of, name_in_models
from labbook.health.evidence.measurements import (
    join_names,
    place_message,
    too_few_data,
)
from labbook.health.rules.optimizer_parameters import find_stale
from labbook.model.check import Outcome, check
from labbook.model.events.inspection_kinds import Cut
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_NUMBER = re.compile(r"\d+")
_AFTER_BACKWARDS, _STREAK, _SMALL_PART = 20, 3, 0.1
_FRAMEWORKS = ("torch", "paddle")
_STALE_CALLS = 3
_FEWEST_UPDATES, _NEAR_FIRST, _ALONG = 50, 0.2, 0.98


@check("param_never_gets_grad", family="gradient", tier=1, needs=("loop",))
def every_parameter_has_gradient(run: Run, signals: Signals) -> Outcome | None:
    """Whether some parameter that an optimizer holds never received a gradient.

    Source: a logical invariant (tier 1) after 20 calls of backward. Modules that run without one are cut off; modules
    that never run may be spare ones, as the pooler of a fine-tuned encoder or the last stages of a library's encoder of
    which fewer are asked for, and are no failure; of a module that every block lacks that is a warning. Nor is a small
    part of a library's model that runs for an output which this program does not need.
    """
    never = unreached_parameters(signals)
    total = signals.loop.get("trainable_n", 0)
    if not never:
        if _count_judged(signals) < _AFTER_BACKWARDS:
            return _first_graph(signals, total)
        return Outcome("ok", _reached_parameters(run, signals, total))
    cut = [name for name in never if name not in signals.loop.get("never_called", [])]
    missing = max(signals.loop.get("never_grad_n", 0), len(never))
    if total:
        observed = message("health.param_never_gets_grad.never", bad=missing, total=total)
    else:
        observed = message("health.param_never_gets_grad.never_uncounted", bad=missing)
    shown = name_in_models(signals, cut or never)
    where = {"parameter": shown[0]}
    share = missing / total if total else 0.0
    if cut:
        evidence = message("health.param_never_gets_grad.cut_off", names=join_names(shown))
        if 0 < share <= _SMALL_PART and all(_is_in_library(signals, name) for name in cut):
            return Outcome("note", observed, (evidence,), where)
        return Outcome("fail", observed, (evidence, *_cut_sentence(signals)), where | _cut_place(signals))
    ran = {
        m.get("name", "") for model in signals.models for m in model.get("modules", []) if m.get("order") is not None
    }
    spare = all(_is_in_library(signals, _place_within(ran, name)) for name in never)
    evidence = message("health.param_never_gets_grad.never_ran", names=join_names(shown))
    places = _places_left_out(ran, never)
    lacking = Counter(_NUMBER.sub("#", place) for place in places)
    # A layer may be spare; nobody makes a table, as that of positions, to look nothing up.
    tables = {m.name for m in modules_of(signals) if m.type == "Embedding"} & places
    is_note = spare or (share <= _SMALL_PART and not tables and max(lacking.values(), default=0) < 2)
    return Outcome("note" if is_note else "warn", observed, (evidence,), where)


def _reached_parameters(run: Run, signals: Signals, total: int) -> Message:
    """Returns how many parameters all got a gradient: those in the optimizer, where these are not the model's."""
    if stale := find_stale(run, signals).values():
        old = sum(facts.get("tensors", 0) for facts in stale)
        held = sum(facts.get("held", 0) for facts in stale)
        return message("health.all_but_stale", count=held - old, held=held, stale=old)
    followed = signals.loop.get("elements", 0) - signals.loop.get("frozen", 0)
    larger = [o.get("tensors", 0) for o in signals.optimizers if o.get("trainable", 0) > followed > 0]
    apart = len({o.get("trains") for o in signals.optimizers}) == len(signals.optimizers) > 1
    held = sum(o.get("tensors", 0) for o in signals.optimizers)
    unknown = (larger or (apart and held > total)) and len(signals.optimizers) > 1
    if not total or run.trains_in_turn or unknown:
        return message("health.all")  # the total is of the models at the end, of what is not frozen
    if larger and max(larger) > total:
        return message("health.all_followed", count=total, held=max(larger))
    if 0 < held < total:
        return message("health.all_in_optimizer", count=total, held=held)
    return message("health.all_parameters", count=total)


def _places_left_out(ran: Collection[str], never: Sequence[str]) -> set[str]:
    """The modules left out as a whole; one in every block was forgotten in its forward, a single one may be spare."""
    places = {_place_within(ran, name) for name in never}
    return {place for place in places if not any(name.startswith(f"{place}.") for name in ran)}


def _place_within(ran: Collection[str], parameter: str) -> str:
    """Returns the name of the module that was left out, directly within the nearest one that ran."""
    name = parameter
    while "." in name and name.rpartition(".")[0] not in ran:
        name = name.rpartition(".")[0]
    return name


def _is_in_library(signals: Signals, part: str) -> bool:
    """Whether a module that an installed package defines around layers of the framework has this part."""
    packages = {m.get("name", ""): m.get("package", "") for model in signals.models for m in model.get("modules", [])}
    name = part
    while name:
        name = name.rpartition(".")[0]
        package = packages.get(name)
        if package is not None and package not in _FRAMEWORKS:
            return bool(package)
    return False


def unreached_parameters(signals: Signals) -> Sequence[str]:
    """Names of parameters of an optimizer that never received a gradient, once that is certain.

    A graph that reached all parameters says so of those that were trained then, not of an optimizer that came later.
    """
    graph = signals.graphs[-1] if signals.graphs else None
    came_later = graph and any(o.get("t", 0.0) > graph.get("t", 0.0) for o in signals.optimizers)
    reached = graph and graph.get("unreachable_n") == 0 and not came_later
    never = signals.loop.get("never_grad", [])
    return () if reached or _count_judged(signals) < _AFTER_BACKWARDS else never


def _count_judged(signals: Signals) -> int:
    return signals.loop.get("judged", 0) or signals.loop.get("backwards", 0)


def _first_graph(signals: Signals, total: int) -> Outcome:
    """For a run with fewer than 20 backward passes: what the graph of the first one reached."""
    if not signals.graphs:
        return too_few_data(signals.loop.get("backwards", 0), _AFTER_BACKWARDS, "health.too_few.backwards")
    graph = signals.graphs[-1]
    never, judged = signals.loop.get("never_grad", []), signals.loop.get("judged", 0)
    if never and judged:
        bad = max(signals.loop.get("never_grad_n", 0), len(never))
        observed = message("health.param_never_gets_grad.none_yet", bad=bad, total=total, backwards=judged)
        evidence = message("health.param_never_gets_grad.without", names=join_names(never))
        return Outcome("note", observed, (evidence,))
    if not graph.get("unreachable_n") and not graph.get("unreachable"):
        reached = graph.get("reachable", 0) or total
        return Outcome("ok", message("health.param_never_gets_grad.first_loss", reached=reached))
    return too_few_data(signals.loop.get("backwards", 0), _AFTER_BACKWARDS, "health.too_few.backwards")


def _cut(signals: Signals) -> Cut:
    return next((cut for graph in reversed(signals.graphs) if (cut := graph.get("cut"))), Cut())


def _cut_sentence(signals: Signals) -> tuple[Message, ...]:
    cut = _cut(signals)
    if not cut:
        return ()
    if cut.get("op") == "after the model":
        place = message("health.place", file=cut.get("file", ""), line=cut.get("line", 0))
        before = message("health.detached_graph.before_backward", place=place)
        return (message("health.detached_graph.output_unused", before=before),)
    return (message("health.detached_graph.cut", op=cut.get("op", ""), place=place_message(cut)),)


def _cut_place(signals: Signals) -> dict[str, object]:
    cut = _cut(signals)
    if not cut.get("file"):
        return {}
    place: dict[str, object] = {"file": cut.get("file", ""), "line": cut.get("line", 0)}
    return place | {"function": cut.get("function", ""), "source": cut.get("source", "").strip()}


@check("detached_graph", family="loop-bug", tier=1, needs=("graphs",))
def graph_is_whole(run: Run, signals: Signals) -> Outcome | None:
    """Whether the first losses reach trainable parameters of the model that ran, or are cut off and where.

    Source: a logical invariant (tier 1). A cut on purpose leaves no parameter of an optimizer without gradient. What a
    model returned may just as well not be used at all: then only the parameters without gradient count.
    """
    graph = signals.graphs[-1]
    reachable, lost = graph.get("reachable", 0), graph.get("unreachable", [])
    never = set(signals.loop.get("never_grad", [])) - set(signals.loop.get("never_called", []))
    lost_for_good = [name for name in lost if name in never]
    # A loss that is a new tensor with requires_grad gets a gradient itself, and nothing behind it does.
    every = graph.get("unreachable_n", 0) == signals.loop.get("trainable_n") and lost_for_good == [*lost]
    only_foreign = every and any(not leaf.get("parameter") for leaf in graph.get("foreign", []))
    if lost and (not reachable or only_foreign):
        step, lost_n = graph.get("step", 0), graph.get("unreachable_n", 0)
        observed = message("health.detached_graph.reaches_none", step=step, parameters=lost_n)
        return Outcome("fail", observed, _cut_sentence(signals), _cut_place(signals))
    empty = signals.loop.get("steps_without_gradient", {})
    if not reachable and not lost:
        if sum(times.get("none", 0) for times in empty.values()) < _STREAK or not graph.get("held"):
            return None
        observed = message("health.detached_graph.no_graph")
        return Outcome("fail", observed, _cut_sentence(signals), _cut_place(signals))
    if lost_for_good and _cut(signals) and _cut(signals).get("op") != "after the model":
        observed = message("health.detached_graph.unreached", parameters=len(lost_for_good))
        unreached = message("health.detached_graph.unreached_names", names=join_names(lost_for_good))
        where = _cut_place(signals) | {"parameter": lost_for_good[0]}
        return Outcome("fail", observed, (*_cut_sentence(signals), unreached), where)
    return Outcome("ok", message("health.detached_graph.ok", parameters=reachable))


@check("unregistered_parameters", family="activation", tier=1, needs=("graphs",))
def parameters_registered(run: Run, signals: Signals) -> Outcome | None:
    """Whether the loss reaches parameters that no module and no optimizer knows.

    Source: a logical invariant (tier 1) for parameter objects; plain tensors with gradients are inputs or coordinates.
    A program without modules and optimizers has its parameters to itself.
    """
    by_hand = all(one.get("type", "").startswith("none") for one in signals.optimizers)
    if by_hand and not (signals.optimizers and signals.models):
        return None
    leaves = [leaf for graph in signals.graphs for leaf in graph.get("foreign", []) if leaf.get("parameter")]
    if not leaves:
        return Outcome("ok", message("health.all"))
    last = [leaf for leaf in signals.graphs[-1].get("foreign", []) if leaf.get("parameter")] or leaves
    shapes = ["x".join(str(n) for n in leaf.get("shape", ())) or "scalar" for leaf in last]
    observed = message("health.unregistered_parameters.found", parameters=len(last))
    return Outcome("fail", observed, (message("health.unregistered_parameters.shapes", shapes=join_names(shapes)),))


@check("averaged_copy_never_updated", family="loop-bug", tier=2, needs=("loop",))
def copies_are_updated(run: Run, signals: Signals) -> Outcome | None:
    """Whether a copy of the trained model is called now and then, as for validation, and never changes.

    Source: chosen by us (tier 2); at least 3 times in the run, the last in its second half, and before at most every
    fifth step: a model that is called in each step is a fixed teacher or reference.
    """
    steps = signals.loop.get("steps", 0)
    copies = signals.loop.get("copies", [])
    for copy in copies:
        calls, last = copy.get("steps", 0), copy.get("last", 0)
        if copy.get("changed") or calls < 3 or calls > 0.2 * steps or last < 0.5 * steps:
            continue
        averaged = "Averaged" in copy.get("type", "")
        observed = message("health.averaged_copy_never_updated.unchanged", type=copy.get("type", ""), calls=calls)
        return Outcome("fail" if averaged else "warn", observed, where={"step": min(last, steps)})
    changed = any(copy.get("changed") and copy.get("steps", 0) for copy in copies)
    return Outcome("ok", message("health.averaged_copy_never_updated.ok")) if changed else None


@check("averaged_weights_misused", family="loop-bug", tier=2, needs=("loop",))
def averages_follow(run: Run, signals: Signals) -> Outcome | None:
    """Whether an average of weights is evaluated or sampled that is still near the first weights of the training.

    Source: chosen by us (tier 2): in the second half of the run it went less than a fifth of the way of the trained
    weights, along the sum of their ways, as an average that has only begun does and an early snapshot does not. Target
    networks and teachers are called in more than every fifth step. What is in the trained model itself may be put there
    once, as the best weights are: in at least 3 evaluations. Or whether an average that changes is evaluated with the
    statistics of batch norm that it was made with, in 3 calls.
    """
    for copy in signals.loop.get("copies", []):
        stale, calls = copy.get("stale_norms", 0), copy.get("calls", 0)
        if copy.get("changed") and stale >= _STALE_CALLS:
            observed = message("health.averaged_weights_misused.norms", type=copy.get("type", ""), calls=calls)
            return Outcome("warn", observed, advice=message("health.averaged_weights_misused.norms_advice"))
    measured = signals.loop.get("evaluated_weights", [])
    # Not the steps of the loop, which are those of all optimizers.
    seen = [row[0] - 1 for one in measured for row in one.get("rows", [])] + [
        look.get("step", 0) for look in signals.tensors
    ]
    steps = int(max(seen, default=0))
    for one in measured:
        rows = [row for row in one.get("rows", []) if row[0] > 0.5 * steps]
        often = one.get("steps", 0) > max(0.2 * steps, 1)
        if often or len(rows) < (1 if one.get("copy") else 3) or steps < _FEWEST_UPDATES:
            continue
        if all(0 < share < _NEAR_FIRST and along > _ALONG for _, share, along in rows):
            values = {"type": one.get("type", ""), "share": rows[-1][1], "steps": steps}
            observed = message("health.averaged_weights_misused.behind", **values)
            advice = message("health.averaged_weights_misused.behind_advice", decay=max(0.0, 1 - 10 / steps))
            return Outcome("warn", observed, where={"step": int(rows[-1][0]) - 1}, advice=advice)
    return None


@check("requires_grad_on_module", family="gradient", tier=1, needs=("loop",))
def flags_are_on_parameters(run: Run, signals: Signals) -> Outcome | None:
    """Whether `requires_grad` or `stop_gradient` was set on a module, of which no parameter has that value.

    Source: a logical invariant (tier 1): PyTorch's `Module` and PaddlePaddle's `Layer` have no such flag.
    """
    flags = signals.loop.get("idle_flags", [])
    if not flags:
        return None
    return Outcome("warn", message("health.requires_grad_on_module.idle", flags=join_names(flags)))


@check("layers_share_weights", family="loop-bug", tier=2, needs=("models",))
def layers_are_separate(run: Run, signals: Signals) -> Outcome | None:
    """Whether a list of modules is one and the same module with parameters, whose outputs are formed as its inputs.

    Source: a logical invariant (tier 2): a stack. Heads that share their weights change the shape.
    """
    for model in signals.models:
        for name, index, times in model.get("repeated", []):
            modules = {row.get("i"): row for row in model.get("modules", [])}
            row = modules.get(index, {})
            taken, given = row.get("input", []), row.get("output", [])
            inner = f"{row.get('name', '')}."
            own = (r for r in modules.values() if r is row or r.get("name", "").startswith(inner))
            if not taken or not given or taken[0].get("shape") != given[0].get("shape"):
                continue
            if any(r.get("trainable", 0) for r in own):
                observed = message("health.layers_share_weights.same", name=name, type=row.get("type", ""), times=times)
                return Outcome("warn", observed)
    return None
