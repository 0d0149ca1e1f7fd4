"""Checks of the connections between model, loss, optimizer and checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from labbook.health.event_fields import Facts, count, flag, names, number, rows, shape, table, words
from labbook.health.layer_history import parameters_of
from labbook.health.measurements import called_in, join_names, place_message, place_of, too_few
from labbook.health.training_kind import pretrained
from labbook.model.check import Outcome, check
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_AFTER_BACKWARDS = 20
_STREAK = 3


@check("param_never_gets_grad", family="gradient", tier=1, needs=("loop",))
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
        return Outcome("ok", _all_parameters(total))
    idle = set(names(signals.loop, "never_called"))
    cut = [name for name in never if name not in idle]
    missing = max(count(signals.loop, "never_grad_n"), len(never))
    if total:
        observed = message("health.param_never_gets_grad.never", bad=missing, total=total)
    else:
        observed = message("health.param_never_gets_grad.never_uncounted", bad=missing)
    where = {"parameter": (cut or never)[0]}
    if cut:
        evidence = message("health.param_never_gets_grad.cut_off", names=join_names(cut))
        return Outcome("fail", observed, (evidence, *_cut_sentence(signals)), where | _cut_place(signals))
    share = missing / total if total else 0.0
    verdict = "warn" if share > 0.1 else "note"
    evidence = message("health.param_never_gets_grad.never_ran", names=join_names(never))
    return Outcome(verdict, observed, (evidence,), where)


def _all_parameters(total: int) -> Message:
    return message("health.all_parameters", count=total) if total else message("health.all")


def _first_graph(signals: Signals, total: int) -> Outcome:
    """For a run with fewer than 20 backward passes: what the graph of the first one reached."""
    if not signals.graphs:
        return too_few(count(signals.loop, "backwards"), _AFTER_BACKWARDS, "health.too_few.backwards")
    graph = signals.graphs[-1]
    never, judged = names(signals.loop, "never_grad"), count(signals.loop, "judged")
    if never and judged:
        bad = max(count(signals.loop, "never_grad_n"), len(never))
        observed = message("health.param_never_gets_grad.none_yet", bad=bad, total=total, backwards=judged)
        evidence = message("health.param_never_gets_grad.without", names=join_names(never))
        return Outcome("note", observed, (evidence,))
    if not count(graph, "unreachable_n") and not names(graph, "unreachable"):
        reached = count(graph, "reachable") or total
        return Outcome("ok", message("health.param_never_gets_grad.first_loss", reached=reached))
    return too_few(count(signals.loop, "backwards"), _AFTER_BACKWARDS, "health.too_few.backwards")


def _cut(signals: Signals) -> Facts:
    return next((table(g, "cut") for g in reversed(signals.graphs) if table(g, "cut")), {})


def _cut_sentence(signals: Signals) -> tuple[Message, ...]:
    cut = _cut(signals)
    if not cut:
        return ()
    if words(cut, "op") == "after the model":
        place = message("health.place", file=words(cut, "file"), line=count(cut, "line"))
        before = message("health.detached_graph.before_backward", place=place)
        return (message("health.detached_graph.output_unused", before=before),)
    return (message("health.detached_graph.cut", op=words(cut, "op"), place=place_message(cut)),)


def _cut_place(signals: Signals) -> dict[str, object]:
    cut = _cut(signals)
    if not words(cut, "file"):
        return {}
    place: dict[str, object] = {"file": words(cut, "file"), "line": count(cut, "line")}
    return place | {"function": words(cut, "function"), "source": words(cut, "source").strip()}


@check("detached_graph", family="loop-bug", tier=1, needs=("graphs",))
def graph_is_whole(run: Run, signals: Signals) -> Outcome | None:
    """Whether the first losses reach trainable parameters of the model that ran, or are cut off and where.

    Source: a logical invariant (tier 1). A cut on purpose leaves no parameter of an optimizer without gradient. What a
    model returned may just as well not be used at all: then only the parameters without gradient count.
    """
    graph = signals.graphs[-1]
    reachable, lost = count(graph, "reachable"), names(graph, "unreachable")
    never = set(names(signals.loop, "never_grad")) - set(names(signals.loop, "never_called"))
    lost_for_good = [name for name in lost if name in never]
    if not reachable and lost:
        step, lost_n = count(graph, "step"), count(graph, "unreachable_n")
        observed = message("health.detached_graph.reaches_none", step=step, parameters=lost_n)
        return Outcome("fail", observed, _cut_sentence(signals), _cut_place(signals))
    empty = table(signals.loop, "steps_without_gradient")
    if not reachable and not lost:
        if sum(count(empty, opt, "none") for opt in empty) < _STREAK or not count(graph, "held"):
            return None
        observed = message("health.detached_graph.no_graph")
        return Outcome("fail", observed, _cut_sentence(signals), _cut_place(signals))
    if lost_for_good and _cut(signals) and words(_cut(signals), "op") != "after the model":
        observed = message("health.detached_graph.unreached", parameters=len(lost_for_good))
        unreached = message("health.detached_graph.unreached_names", names=join_names(lost_for_good))
        where = _cut_place(signals) | {"parameter": lost_for_good[0]}
        return Outcome("fail", observed, (*_cut_sentence(signals), unreached), where)
    return Outcome("ok", message("health.detached_graph.ok", parameters=reachable))


@check("loss_term_without_gradient", family="loop-bug", tier=1, needs=("graphs",))
def terms_have_gradients(run: Run, signals: Signals) -> Outcome | None:
    """Whether something that changes from step to step is added to the loss and has no gradient.

    Source: a logical invariant (tier 1) over 3 steps: such a term is shown and never minimised.
    """
    for graph in signals.graphs:
        for term in rows(graph, "constant"):
            seen: object = term.get("values")
            values = [v for v in seen if isinstance(v, (int, float))] if isinstance(seen, list) else []
            if len(values) >= 3:
                number = flag(term, "number")
                key = (
                    "health.loss_term_without_gradient.number" if number else "health.loss_term_without_gradient.tensor"
                )
                return Outcome("warn", message(key, values=values), called_in(term), place_of(words(term, "line")))
    return None


@check("grad_param_not_in_optimizer", family="gradient", tier=1, needs=("loop",))
def optimizers_hold_all(run: Run, signals: Signals) -> Outcome | None:
    """Whether a parameter received gradients that no optimizer uses.

    Source: a logical invariant (tier 1), TrainCheck AC-2665. An optimizer that holds just the last layers is the usual
    way to train a head on a backbone that was not frozen: a note where weights were loaded.
    """
    outside = names(signals.loop, "outside")
    if not count(signals.loop, "optimizers"):
        return None
    if not outside:
        return Outcome("ok", message("health.all"))
    total = max(count(signals.loop, "outside_n"), len(outside))
    observed = message("health.grad_param_not_in_optimizer.unused", parameters=total)
    evidence = (message("health.grad_param_not_in_optimizer.names", names=join_names(outside, total)),)
    stale = any(count(facts, "tensors") for facts in _tables(table(signals.loop, "stale")))
    backbone = _is_backbone(signals, outside, total) and not stale
    verdict = "fail" if not backbone else "note" if pretrained(signals) else "warn"
    if _only_judges(signals) and not stale:
        fixed = message("health.grad_param_not_in_optimizer.fixed_models")
        return Outcome("note", observed, (*evidence, fixed), {"parameter": outside[0]})
    return Outcome(verdict, observed, evidence, {"parameter": outside[0]})


def _only_judges(signals: Signals) -> bool:
    """Whether unused gradients lie in separate models in evaluation mode, such as networks that judge an output.

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
    trained = [p for p in known if p.name not in left_out]
    if not trained or total > len(outside) or not left_out:
        return False
    before = max(p.order for p in left_out.values()) < min(p.order for p in trained)
    return before and sum(p.elements for p in left_out.values()) > sum(p.elements for p in trained)


@check("optimizer_params_stale", family="gradient", tier=1, needs=("loop",))
def optimizer_is_fresh(run: Run, signals: Signals) -> Outcome:
    """Whether an optimizer holds parameters that are in no model that runs and never get a gradient.

    Source: a logical invariant (tier 1); TrainCheck AC-2665.
    """
    stale = table(signals.loop, "stale")
    for opt in stale:
        tensors, held = count(stale, opt, "tensors"), count(stale, opt, "held")
        if tensors:
            number = f" {opt}" if len(stale) > 1 else ""
            observed = message("health.optimizer_params_stale.stale", bad=tensors, total=held, number=number)
            return Outcome("fail", observed)
    return Outcome("ok", message("health.optimizer_params_stale.ok"))


@check("unregistered_parameters", family="activation", tier=1, needs=("graphs",))
def parameters_registered(run: Run, signals: Signals) -> Outcome | None:
    """Whether the loss reaches parameters that no module and no optimizer knows.

    Source: a logical invariant (tier 1) for parameter objects; plain tensors with gradients are inputs or coordinates.
    """
    if not signals.optimizers:
        return None
    leaves = [leaf for graph in signals.graphs for leaf in rows(graph, "foreign") if flag(leaf, "parameter")]
    if not leaves:
        return Outcome("ok", message("health.all"))
    last = [leaf for leaf in rows(signals.graphs[-1], "foreign") if flag(leaf, "parameter")] or leaves
    shapes = ["x".join(str(n) for n in shape(leaf, "shape")) or "scalar" for leaf in last]
    observed = message("health.unregistered_parameters.found", parameters=len(last))
    return Outcome("fail", observed, (message("health.unregistered_parameters.shapes", shapes=join_names(shapes)),))


@check("partial_state_load", family="loop-bug", tier=1, needs=())
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
        observed = message("health.partial_state_load.matched", matched=matched, keys=keys)
        if not lost:
            worst = worst or Outcome("ok", observed)
            continue
        lists = names(event, "missing") + names(event, "mismatched")
        evidence = (message("health.partial_state_load.not_loaded", names=join_names(lists, lost)),)
        verdict = "fail" if matched < 0.5 * keys else "note"
        if worst is None or worst.verdict in ("ok", "note"):
            worst = Outcome(verdict, observed, evidence, place_of(words(event, "line")))
    return worst


@check("best_checkpoint_alias", family="loop-bug", tier=1, needs=())
def kept_state_is_a_copy(run: Run, signals: Signals) -> Outcome | None:
    """Whether weights were loaded back from a state that is the model's own memory, so that nothing was restored.

    Source: a logical invariant (tier 1).
    """
    for event in signals.loaded:
        if flag(event, "alias") and words(event, "what") == "model" and count(event, "step") > 0:
            observed = message("health.best_checkpoint_alias.shared", step=count(event, "step"))
            loaded = message("health.best_checkpoint_alias.loaded_in", line=words(event, "line"))
            return Outcome("fail", observed, (loaded,), place_of(words(event, "line")))
    return None


@check("averaged_copy_never_updated", family="loop-bug", tier=2, needs=("loop",))
def copies_are_updated(run: Run, signals: Signals) -> Outcome | None:
    """Whether a copy of the trained model is called now and then, as for validation, and never changes.

    Source: chosen by us (tier 2); at least 3 times in the run, the last in its second half, and before at most every
    fifth step: a model that is called in each step is a fixed teacher or reference.
    """
    steps = count(signals.loop, "steps")
    copies = rows(signals.loop, "copies")
    for copy in copies:
        calls, last = count(copy, "steps"), count(copy, "last")
        if flag(copy, "changed") or calls < 3 or calls > 0.2 * steps or last < 0.5 * steps:
            continue
        averaged = "Averaged" in words(copy, "type")
        observed = message("health.averaged_copy_never_updated.unchanged", type=words(copy, "type"), calls=calls)
        return Outcome("fail" if averaged else "warn", observed, where={"step": last})
    changed = any(flag(copy, "changed") and count(copy, "steps") for copy in copies)
    return Outcome("ok", message("health.averaged_copy_never_updated.ok")) if changed else None


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
