"""Checks of the wiring between model, loss and optimizer: what is trained is connected, registered and held."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from labbook.health.event_fields import Facts, count, flag, names, number, rows, shape, table, words
from labbook.health.layer_history import parameters_of
from labbook.health.measurements import called_in, listed, place_of, said, too_few
from labbook.health.training_kind import pretrained
from labbook.model.check import Outcome, check
from labbook.model.run import Run
from labbook.model.signals import Signals

_AFTER_BACKWARDS = 20
_STREAK = 3


@check(
    "param_never_gets_grad",
    "every trainable parameter has a gradient",
    "all of them",
    family="gradient",
    tier=1,
    needs=("loop",),
    advice="Wire the module into the forward pass, remove the detach or no_grad around it, or freeze it.",
)
def every_parameter_has_gradient(run: Run, signals: Signals) -> Outcome | None:
    """Whether some parameter that an optimizer holds never received a gradient.

    Source: a logical invariant (tier 1) after 20 calls of backward. Modules that run without one are cut off; modules
    that never run may be spare ones, as the pooler of a fine-tuned encoder, and are no failure.
    """
    never = names(signals.loop, "never_grad")
    total = count(signals.loop, "trainable_n")
    reached = bool(signals.graphs) and number(signals.graphs[-1], "unreachable_n") == 0
    judged = count(signals.loop, "judged") or count(signals.loop, "backwards")
    if not never or reached or judged < _AFTER_BACKWARDS:
        if judged < _AFTER_BACKWARDS:
            return _first_graph(signals, total)
        return Outcome("ok", f"all {total} parameters" if total else "all of them")
    idle = set(names(signals.loop, "never_called"))
    cut = [name for name in never if name not in idle]
    missing = max(count(signals.loop, "never_grad_n"), len(never))
    observed = f"{missing} of {total} parameters never had one" if total else f"{missing} parameters never had one"
    where = {"parameter": (cut or never)[0]}
    if cut:
        told = f"they run in the forward pass, cut off from the loss: {listed(cut)}"
        return Outcome("fail", observed, (told, *_cut_sentence(signals)), where | _cut_place(signals))
    share = missing / total if total else 0.0
    verdict = "warn" if share > 0.1 else "note"
    return Outcome(verdict, observed, (f"their modules never ran: {listed(never)}",), where)


def _first_graph(signals: Signals, total: int) -> Outcome:
    """For a run too short to wait for 20 backwards: what the graph of the first one reached."""
    if not signals.graphs:
        return too_few(count(signals.loop, "backwards"), _AFTER_BACKWARDS, "backwards")
    graph = signals.graphs[-1]
    never, judged = names(signals.loop, "never_grad"), count(signals.loop, "judged")
    if never and judged:
        observed = f"{max(count(signals.loop, 'never_grad_n'), len(never))} of {total} parameters had none so far"
        return Outcome("note", f"{observed}, in {judged} backwards", (f"without: {listed(never)}",))
    if not count(graph, "unreachable_n") and not names(graph, "unreachable"):
        return Outcome("ok", f"the first loss reaches {count(graph, 'reachable') or total} parameters")
    return too_few(count(signals.loop, "backwards"), _AFTER_BACKWARDS, "backwards")


def _cut(signals: Signals) -> Facts:
    return next((table(g, "cut") for g in reversed(signals.graphs) if table(g, "cut")), {})


def _cut_sentence(signals: Signals) -> tuple[str, ...]:
    cut = _cut(signals)
    if not cut:
        return ()
    if words(cut, "op") == "after the model":
        place = place_of(f"{words(cut, 'file')}:{count(cut, 'line')}")
        where = f" before backward in {words(cut, 'file')}:{count(cut, 'line')}" if place else ""
        return (f"what the model returned leads to them, and does not reach the loss: unused, or cut off{where}",)
    source = words(cut, "source").strip()
    at = f"{words(cut, 'file')}:{count(cut, 'line')}"
    return (f"the graph is cut by {words(cut, 'op')} at {at}" + (f": {source}" if source else ""),)


def _cut_place(signals: Signals) -> dict[str, object]:
    cut = _cut(signals)
    if not words(cut, "file"):
        return {}
    place: dict[str, object] = {"file": words(cut, "file"), "line": count(cut, "line")}
    return place | {"function": words(cut, "function"), "source": words(cut, "source").strip()}


@check(
    "detached_graph",
    "the loss reaches the parameters",
    "one graph from loss to parameters",
    family="loop-bug",
    tier=1,
    needs=("graphs",),
    advice="Keep tensors tensors from the parameters to the loss: no detach, .data, .item(), numpy or new tensor "
    "in between.",
)
def graph_is_whole(run: Run, signals: Signals) -> Outcome | None:
    """Whether the first losses reach trainable parameters of the model that ran, or are cut off and where.

    Source: a logical invariant (tier 1). A cut on purpose leaves no parameter of an optimizer without gradient. What a
    model returned may just as well not be used at all: then only the parameters without gradient are told.
    """
    graph = signals.graphs[-1]
    reachable, lost = count(graph, "reachable"), names(graph, "unreachable")
    never = set(names(signals.loop, "never_grad")) - set(names(signals.loop, "never_called"))
    lost_for_good = [name for name in lost if name in never]
    if not reachable and lost:
        observed = f"the loss of step {count(graph, 'step')} reaches none of {count(graph, 'unreachable_n')} parameters"
        return Outcome("fail", observed, _cut_sentence(signals), _cut_place(signals))
    empty = table(signals.loop, "steps_without_gradient")
    if not reachable and not lost:
        if sum(count(empty, opt, "none") for opt in empty) < _STREAK or not count(graph, "held"):
            return None
        return Outcome("fail", "backward got a loss without a graph", _cut_sentence(signals), _cut_place(signals))
    if lost_for_good and _cut(signals) and words(_cut(signals), "op") != "after the model":
        observed = f"{len(lost_for_good)} parameters lie behind a cut"
        told = (*_cut_sentence(signals), f"behind it: {listed(lost_for_good)}")
        return Outcome("fail", observed, told, _cut_place(signals) | {"parameter": lost_for_good[0]})
    return Outcome("ok", f"{reachable} parameters reached")


@check(
    "loss_term_without_gradient",
    "every term of the loss has a gradient",
    "no term that is a mere number",
    family="loop-bug",
    tier=1,
    needs=("graphs",),
    advice="Keep the term a tensor with its graph: no .item(), float, detach or no_grad on the way into the loss.",
)
def terms_have_gradients(run: Run, signals: Signals) -> Outcome | None:
    """Whether something that changes from step to step is added to the loss and has no gradient.

    Source: a logical invariant (tier 1) over 3 steps: such a term is shown and never made smaller.
    """
    for graph in signals.graphs:
        for term in rows(graph, "constant"):
            told: object = term.get("values")
            values = [v for v in told if isinstance(v, (int, float))] if isinstance(told, list) else []
            if len(values) >= 3:
                what = "a number" if flag(term, "number") else "a tensor without a graph"
                observed = f"{what} is added to the loss: {', '.join(said(v) for v in values)} in three steps"
                return Outcome("warn", observed, called_in(term), place_of(words(term, "line")))
    return None


@check(
    "grad_param_not_in_optimizer",
    "the optimizer holds what is trained",
    "every parameter with a gradient",
    family="gradient",
    tier=1,
    needs=("loop",),
    advice="Make the optimizer last, from all parameters of the model that runs; freeze those that shall not change.",
)
def optimizers_hold_all(run: Run, signals: Signals) -> Outcome | None:
    """Whether a parameter received gradients that no optimizer uses.

    Source: a logical invariant (tier 1), TrainCheck AC-2665. An optimizer that holds just the last layers is the usual
    way to train a head on a backbone that was not frozen: a note where weights were loaded.
    """
    outside = names(signals.loop, "outside")
    if not count(signals.loop, "optimizers"):
        return None
    if not outside:
        return Outcome("ok", "all of them")
    total = max(count(signals.loop, "outside_n"), len(outside))
    observed = f"{total} parameters get gradients that nobody uses"
    evidence = (f"in no optimizer: {listed(outside, total)}",)
    stale = any(count(held, "tensors") for held in _tables(table(signals.loop, "stale")))
    backbone = _is_backbone(signals, outside, total) and not stale
    verdict = "fail" if not backbone else "note" if pretrained(signals) else "warn"
    if _only_judges(signals) and not stale:
        told = "they are those of whole models in evaluation mode, as where a fixed network judges the output"
        return Outcome("note", observed, (*evidence, told), {"parameter": outside[0]})
    return Outcome(verdict, observed, evidence, {"parameter": outside[0]})


def _only_judges(signals: Signals) -> bool:
    """Whether gradients that nobody uses lie in models apart, in evaluation mode, as networks that judge an output.

    An optimizer made with the parameters of another network holds them twice, or finds no gradient when it steps.
    """
    if not flag(signals.loop, "outside_models") or count(signals.loop, "held_twice"):
        return False
    empty = table(signals.loop, "steps_without_gradient")
    idle = max((count(empty, opt, "none") + count(empty, opt, "zero") for opt in empty), default=0)
    return idle <= 0.1 * count(signals.loop, "steps")


def _tables(by_optimizer: Mapping[str, object]) -> list[Facts]:
    return [facts for facts in by_optimizer.values() if isinstance(facts, Mapping)]


def _is_backbone(signals: Signals, outside: Sequence[str], total: int) -> bool:
    """Whether the parameters left out run before all others, and are most of the model."""
    known = [p for p in parameters_of(signals) if p.trainable and math.isfinite(p.order)]
    left_out = {p.name: p for p in known if p.name in set(outside)}
    held = [p for p in known if p.name not in left_out]
    if not held or total > len(outside) or not left_out:
        return False
    before = max(p.order for p in left_out.values()) < min(p.order for p in held)
    return before and sum(p.elements for p in left_out.values()) > sum(p.elements for p in held)


@check(
    "optimizer_params_stale",
    "the optimizer holds the live model",
    "no parameter of a model that is gone",
    family="gradient",
    tier=1,
    needs=("loop",),
    advice="Make the optimizer after the model is complete: after copies, new heads, .to() and wrapping.",
)
def optimizer_is_fresh(run: Run, signals: Signals) -> Outcome:
    """Whether an optimizer holds parameters that are in no model that runs and never get a gradient.

    Source: a logical invariant (tier 1); TrainCheck AC-2665.
    """
    stale = table(signals.loop, "stale")
    for opt in stale:
        tensors, held = count(stale, opt, "tensors"), count(stale, opt, "held")
        if tensors:
            which = f"optimizer {opt}" if len(stale) > 1 else "the optimizer"
            return Outcome("fail", f"{tensors} of {held} parameters in {which} belong to no model that runs")
    return Outcome("ok", "none")


@check(
    "unregistered_parameters",
    "every parameter is registered",
    "in a module or an optimizer",
    family="activation",
    tier=1,
    needs=("graphs",),
    advice="Keep layers in a ModuleList or ModuleDict (LayerList in paddle), not in a list.",
)
def parameters_registered(run: Run, signals: Signals) -> Outcome | None:
    """Whether the loss reaches parameters that no module and no optimizer knows.

    Source: a logical invariant (tier 1) for parameter objects; plain tensors with gradients are inputs or coordinates.
    """
    if not signals.optimizers:
        return None
    leaves = [leaf for graph in signals.graphs for leaf in rows(graph, "foreign") if flag(leaf, "parameter")]
    if not leaves:
        return Outcome("ok", "all of them")
    last = [leaf for leaf in rows(signals.graphs[-1], "foreign") if flag(leaf, "parameter")] or leaves
    shapes = ["x".join(str(n) for n in shape(leaf, "shape")) or "scalar" for leaf in last]
    told = f"their shapes: {listed(shapes)}"
    return Outcome("fail", f"{len(last)} parameters get gradients and are in no module and no optimizer", (told,))


@check(
    "partial_state_load",
    "loaded weights fit",
    "every key matched",
    family="loop-bug",
    tier=1,
    needs=(),
    advice="Compare the names: a prefix (module.), a renamed layer, or another architecture.",
)
def state_fits(run: Run, signals: Signals) -> Outcome | None:
    """Whether a model was loaded from weights that mostly do not belong to it.

    Source: a logical invariant (tier 1): unmatched keys; silent in paddle. A new head on old weights is usual, so a few
    unmatched keys on both sides are only noted.
    """
    worst: Outcome | None = None
    for event in signals.loaded:
        if words(event, "what") != "model" or not count(event, "keys"):
            continue
        keys, matched = count(event, "keys"), count(event, "matched")
        lost = count(event, "missing_n") + count(event, "mismatched_n")
        if not lost:
            worst = worst or Outcome("ok", f"{matched} of {keys} keys matched")
            continue
        lists = names(event, "missing") + names(event, "mismatched")
        observed = f"{matched} of {keys} keys matched"
        told = (f"not loaded: {listed(lists, lost)}",)
        verdict = "fail" if matched < 0.5 * keys else "note"
        if worst is None or worst.verdict in ("ok", "note"):
            worst = Outcome(verdict, observed, told, place_of(words(event, "line")))
    return worst


@check(
    "best_checkpoint_alias",
    "kept weights are a copy",
    "memory of their own",
    family="loop-bug",
    tier=1,
    needs=(),
    advice="Keep copy.deepcopy(model.state_dict()): a state dict shares memory with the model.",
)
def kept_state_is_a_copy(run: Run, signals: Signals) -> Outcome | None:
    """Whether weights were loaded back from a state that is the model's own memory, so that nothing was restored.

    Source: a logical invariant (tier 1).
    """
    for event in signals.loaded:
        if flag(event, "alias") and words(event, "what") == "model" and count(event, "step") > 0:
            observed = f"the state loaded after step {count(event, 'step')} shares its memory with the model"
            return Outcome("fail", observed, (f"loaded in {words(event, 'line')}",), place_of(words(event, "line")))
    return None


@check(
    "averaged_copy_never_updated",
    "copies of the model are brought up to date",
    "a copy that is evaluated changes",
    family="loop-bug",
    tier=2,
    needs=("loop",),
    advice="Update the averaged copy after each optimizer step, or evaluate the model itself.",
)
def copies_are_updated(run: Run, signals: Signals) -> Outcome | None:
    """Whether a copy of the trained model is asked now and then, as for validation, and never changes.

    Source: chosen by us (tier 2); at least 3 times in the run, the last in its second half, and before at most every
    fifth step: what is asked in each step is a fixed teacher or reference.
    """
    steps = count(signals.loop, "steps")
    told = rows(signals.loop, "copies")
    for copy in told:
        asked, last = count(copy, "steps"), count(copy, "last")
        if flag(copy, "changed") or asked < 3 or asked > 0.2 * steps or last < 0.5 * steps:
            continue
        averaged = "Averaged" in words(copy, "type")
        observed = f"a copy of the model ({words(copy, 'type')}) is asked {asked} times, and never changed"
        return Outcome("fail" if averaged else "warn", observed, where={"step": last})
    return Outcome("ok", "they are") if any(flag(copy, "changed") and count(copy, "steps") for copy in told) else None


CHECKS = (
    every_parameter_has_gradient,
    graph_is_whole,
    terms_have_gradients,
    optimizers_hold_all,
    optimizer_is_fresh,
    parameters_registered,
    state_fits,
    kept_state_is_a_copy,
    copies_are_updated,
)
