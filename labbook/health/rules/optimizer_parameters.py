"""Checks of which parameters an optimizer holds: all that get gradients, none of an old model, none of another one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.health.evidence.layer_history import parameters_of
from labbook.health.evidence.measurements import join_names, measured_series, process_series
from labbook.health.evidence.training_kind import (
    has_gradients,
    has_master_weights,
    has_opposed_optimizers,
    is_pretrained,
)
from labbook.model.check import Outcome, check
from labbook.model.events.loop_kinds import Stale
from labbook.model.message import message
from labbook.model.run import Run
from labbook.model.signals import Signals


@check("grad_param_not_in_optimizer", family="gradient", tier=1, needs=("loop",))
def optimizers_hold_all(run: Run, signals: Signals) -> Outcome | None:
    """Whether a parameter received gradients that no optimizer uses.

    Source: a logical invariant (tier 1), TrainCheck AC-2665. An optimizer that holds just the last layers is the usual
    way to train a head on a backbone that was not frozen: a note where weights were loaded.
    """
    outside = signals.loop.get("outside", [])
    if not signals.loop.get("optimizers"):
        return None
    if not outside or has_master_weights(signals):
        return Outcome("ok", message("health.all"))
    total = max(signals.loop.get("outside_n", 0), len(outside))
    observed = message("health.grad_param_not_in_optimizer.unused", parameters=total)
    evidence = (message("health.grad_param_not_in_optimizer.names", names=join_names(outside, total)),)
    stale = any(facts.get("tensors", 0) for facts in signals.loop.get("stale", {}).values())
    backbone = _is_backbone(signals, outside, total) and not stale
    verdict = "fail" if not backbone else "note" if is_pretrained(signals) else "warn"
    if _only_judges(signals) and not stale:
        fixed = message("health.grad_param_not_in_optimizer.fixed_models")
        return Outcome("note", observed, (*evidence, fixed), {"parameter": outside[0]})
    if (models := signals.loop.get("models_left_out", [])) and not stale:
        left_out = message("health.grad_param_not_in_optimizer.left_out", names=join_names(models))
        return Outcome(verdict, observed, (left_out, *evidence), {"module": models[0]})
    return Outcome(verdict, observed, evidence, {"parameter": outside[0]})


def _only_judges(signals: Signals) -> bool:
    """Whether unused gradients lie in separate models in evaluation mode, such as networks that judge an output.

    An optimizer made with the parameters of another network holds them twice, or finds no gradient when it steps.
    """
    return bool(signals.loop.get("outside_models")) and not signals.loop.get("held_twice") and has_gradients(signals)


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
    for opt, facts in find_stale(run, signals).items():
        number = f" {opt}" if len(signals.loop.get("stale", {})) > 1 else ""
        values = {"bad": facts.get("tensors", 0), "total": facts.get("held", 0), "number": number}
        return Outcome("fail", message("health.optimizer_params_stale.stale", **values))
    return Outcome("ok", message("health.optimizer_params_stale.ok"))


def find_stale(run: Run, signals: Signals) -> dict[str, Stale]:
    """Returns the optimizers with parameters of no model that runs.

    A gradient norm above 0 refutes that all of an optimizer have none: its steps were not inspected.
    """
    trained = {s.name for s in measured_series(run, "grad_norm") if any(v > 0 for v in s.values)}
    found = {}
    for opt, facts in signals.loop.get("stale", {}).items():
        is_whole = facts.get("tensors") == facts.get("held")
        name = "grad_norm" if opt == "0" else f"grad_norm.opt{opt}"
        if facts.get("tensors") and not (is_whole and name in trained):
            found[opt] = facts
    return found


@check("optimizers_overlap", family="loop-bug", tier=2, needs=("graphs",))
def optimizers_are_separate(run: Run, signals: Signals) -> Outcome | None:
    """Whether one of two optimizers that take turns on losses of their own holds all parameters of the other.

    Source: chosen by us (tier 2): there are others beside them, and the inspected losses of both, in an odd and an even
    call of `backward`, reach all. An encoder with an optimizer of its own beside that of the autoencoder does not: its
    loss goes past the decoder.
    """
    turns = [len(series.values) for series in process_series(run, signals, "loss")]
    less, more = sorted(one.get("tensors", 0) for one in signals.optimizers)[:2] if len(turns) == 2 else (0, 0)
    if not 0 < less < more or abs(turns[0] - turns[1]) > 1:
        return None
    calls = {graph.get("backward", 0) % 2 for graph in signals.graphs}
    seen = {(graph.get("reachable"), graph.get("unreachable_n"), graph.get("held")) for graph in signals.graphs}
    if (
        seen != {(more, 0, less + more)}
        or len(calls) < 2
        or len(signals.optimizers) != 2
        or not has_opposed_optimizers(run, signals)
    ):
        return None
    return Outcome("warn", message("health.optimizers_overlap.holds", shared=less, held=more))
