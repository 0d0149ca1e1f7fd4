"""Checks of activations: dead and saturated units, collapsed outputs, and the order of layers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from labbook.health.evidence.layer_history import Module, functions_of, modules_of, roots_of
from labbook.health.evidence.measurements import too_few_data
from labbook.health.evidence.regression_outputs import single_outputs, unexplained_share
from labbook.health.evidence.training_kind import (
    acts_in_environment,
    has_bootstrapped_targets,
    has_halved,
    has_opposed_optimizers,
)
from labbook.health.evidence.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.events.inspection_kinds import FunctionInspection, ModuleInspection
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_MOST_DROPPED = 0.9
_SAMPLES = 512
_SETTLED = 5
_CONFIRMED = 3
_ALL_ZERO = 0.99
_SHAPING = frozenset(["View", "UnsafeView", "Reshape", "Squeeze", "Unsqueeze", "Clone", "Alias", "ToCopy", "Cast"])
_History = Sequence[tuple[int, ModuleInspection | FunctionInspection]]


@check("dead_relu", family="activation", tier=2, needs=("modules",))
def units_alive(run: Run, signals: Signals) -> Outcome | None:
    """Whether more than half of the units of a ReLU layer were 0 for at least 512 samples, and stay so.

    Source: SageMaker DeadRelu (0 of 12 healthy runs, 5 of 13 faulty ones). A model that returns only zeros ends in one
    that is dead, also where its layers are not watched. Half of the units of a Q-network that learns
    are often dormant (Sokar et al. 2023), so that in reinforcement learning this is a note; so it is where the loss has
    halved: windows of one series are much alike, and most units are 0 for all of them.
    """
    layers: list[tuple[Message | str, str, _History]]
    modules = modules_of(signals)
    layers = [(m.label, m.name, m.history) for m in modules]
    layers += [
        (message("health.dead_relu.function", function=fn, line=line), "", history)
        for (fn, line), history in functions_of(signals).items()
    ]
    judged = 0
    dead: list[tuple[float, Message | str, str]] = []
    initial = False
    for layer, name, history in layers:
        share = dead_share([row for _, row in history])
        judged += share is not None
        if share is not None and share > 0.5:
            dead.append((share, layer, name))
            initial = initial or _starts_dead(history, modules)
    silent = [(1.0, root.label, root.name) for root in roots_of(signals) if _returns_zeros(root)]
    if dead or silent:
        dead += silent
        dead.sort(key=lambda one: (one[0], str(one[1])), reverse=True)
        share, layer, name = dead[0]
        evidence = tuple(message("health.dead_relu.layer", share=s, layer=which) for s, which, _ in dead[:5])
        observed = message("health.dead_relu.dead", share=share, layer=layer)
        learns = acts_in_environment(signals) or has_bootstrapped_targets(signals) or has_halved(run, signals)
        verdict = "note" if share < 1 and learns else "fail"
        advice = message("health.dead_relu.output_advice") if silent and not initial else None
        where = {"module": name} | ({"step": 1} if initial else {})
        return Outcome(verdict, observed, evidence, where, advice=advice)
    if not judged:
        return None
    return Outcome("ok", message("health.layers_inspected", layers=judged))


def _returns_zeros(root: Module) -> bool:
    """Whether a model returned nothing but zeros, three looks in a row: the ReLU at its end is dead."""
    shares = [row.get("zero") for step, row in root.history if step >= _SETTLED][-_CONFIRMED:]
    return len(shares) == _CONFIRMED and all(share == 1.0 for share in shares)


def _starts_dead(history: _History, modules: Sequence[Module]) -> bool:
    """Whether a layer returned only zeros before the first update.

    A function is watched from step 2 on; in step 1 a layer with weights returned no value above 0.
    """
    step, row = history[0]
    if (row.get("zero") or 0.0) <= _ALL_ZERO:
        return False
    return step <= 1 or (step == 2 and any(one.parameters and _is_negative(one.history[0]) for one in modules))


def _is_negative(look: tuple[int, ModuleInspection]) -> bool:
    step, row = look
    largest = row.get("max")
    return step <= 1 and largest is not None and largest <= 0


def dead_share(history: Sequence[ModuleInspection | FunctionInspection]) -> float | None:
    """The share of a layer's units that are dead, `None` while too few samples were looked at.

    Above a half only where two looks in a row say so, or where the layer died while samples were collected: nothing
    but zeros, three looks in a row.
    """
    zeros = [row.get("zero") or 0.0 for row in history if row.get("dead") is not None][-_CONFIRMED:]
    if len(zeros) == _CONFIRMED and min(zeros) > _ALL_ZERO:
        return 1.0
    shares = [row.get("dead") for row in history if row.get("dead_n", 0) >= _SAMPLES]
    known = [share for share in shares if share is not None][-2:]
    if len(known) < 2:
        return None
    return known[-1] if min(known) > 0.5 else min(known)


@check("saturated_activation", family="activation", tier=2, needs=("modules",))
def not_saturated(run: Run, signals: Signals) -> Outcome | None:
    """Whether most inputs of a hidden tanh or sigmoid lie where it is flat. The output activation may saturate.

    Source: DeepDiagnosis, beyond 5 (0 of 12 healthy runs); median over dense steps. Only a hint where the first steps
    did not saturate it and the loss has halved since: weights grow until the model is sure of its training data.
    """
    output = _judge_output(run, signals)
    if output is not None:
        return output
    every = modules_of(signals)
    worst: tuple[float, Module] | None = None
    for module in every:
        saturated = saturated_share(module, every)
        if saturated is not None and (worst is None or saturated > worst[0]):
            worst = (saturated, module)
    if worst is None:
        return None
    share, module = worst
    if share > 0.5:
        observed = message("health.saturated_activation.saturated", share=share, layer=module.label)
        has_learnt = module.last_values("sat", len(module.history))[0] <= 0.5 and has_halved(run, signals)
        return Outcome("note" if has_learnt else "fail", observed, where={"module": module.name})
    return Outcome("ok", message("health.saturated_activation.ok", share=share))


def _judge_output(run: Run, signals: Signals) -> Outcome | None:
    """An output sigmoid or tanh that is flat for most values, while the squared error is above what a constant has."""
    share = unexplained_share(run, signals)
    if share is None or share[0] <= share[1]:
        return None
    rows: list[tuple[Message | str, str, _History]]
    rows = [(m.label, m.name, m.history) for m in modules_of(signals) if m.type in ("Sigmoid", "Tanh")]
    rows += [
        (message("health.dead_relu.function", function=fn, line=line), "", history)
        for (fn, line), history in functions_of(signals).items()
    ]
    for layer, name, history in rows:
        flat = [sat for _, row in history if (sat := row.get("sat")) is not None]
        if len(flat) >= _CONFIRMED and median(flat) > 0.5:
            facts = {"share": median(flat), "layer": layer, "loss": share[0], "variance": share[1]}
            observed = message("health.saturated_activation.output", **facts)
            return Outcome("fail", observed, where={"module": name})
    return None


def saturated_share(module: Module, every: Sequence[Module]) -> float | None:
    """The share of the inputs of a hidden tanh or sigmoid where it is flat, `None` where that was not measured.

    Args:
        every: All modules; only an activation with parameters behind it is hidden.
    """
    shares = module.last_values("sat", 9)
    if len(shares) < _CONFIRMED:
        return None
    later = any(m.model == module.model and m.order > module.order and m.parameters for m in every if m.history)
    return median(shares) if later else None


@check("activation_collapse", family="activation", tier=2, needs=("modules",))
def outputs_diverse(run: Run, signals: Signals) -> Outcome | None:
    """Whether the model returns (nearly) the same output for every sample at three looks in a row, for varied inputs.

    Source: diagnosis catalogue, `activation_collapse` (tier 2): variance over samples under 1e-6 of that over units.
    The first steps are not judged: a head may begin at 0. One number a sample is also measured by its targets. Looks at
    equal inputs, as a table that is called once a slot gets where the slot is all padding, do not count.
    """
    roots = [root for root in roots_of(signals) if root.history]
    lowest: float | None = None
    for root in roots:
        shares = _batch_deviations(root)[-_CONFIRMED:]
        if len(shares) < _CONFIRMED:
            continue
        lowest = max(shares) if lowest is None else min(lowest, max(shares))
        # One number a sample may have a large mean: years, prices.
        single = bool(root.history) and (root.history[-1][1].get("shape", ()) or (0,))[-1] == 1
        if max(shares) < (1e-10 if single else 1e-6) and not _inputs_alike(signals):
            first = _first_collapsed(root, signals)
            evidence = (message("health.activation_collapse.first", layer=first.label),) if first is not None else ()
            observed = message("health.activation_collapse.collapsed", model=root.type, variance=max(shares))
            return Outcome("fail", observed, evidence, {"module": first.name if first is not None else ""})
    singles = [] if acts_in_environment(signals) or has_opposed_optimizers(run, signals) else single_outputs(signals)
    worst = min(singles, key=lambda one: one.last / one.target, default=None)
    if worst is not None:
        spread = message(
            "health.activation_collapse.deviations", outputs=worst.last, targets=worst.target, looks=_CONFIRMED
        )
        if worst.collapsed and not _inputs_alike(signals):
            observed = message("health.activation_collapse.nearly", model=worst.root.type, deviations=spread)
            return Outcome("warn", observed)
        if lowest is None:
            return Outcome("ok", spread)
    if lowest is None:
        looks = max((len(_batch_deviations(root)) for root in roots), default=0)
        return too_few_data(looks, _CONFIRMED, "health.too_few.outputs")
    return Outcome("ok", message("health.activation_collapse.ok", variance=lowest, looks=_CONFIRMED))


def _batch_deviations(root: Module) -> list[float]:
    looks = [row.get("across") for step, row in root.history if step >= _SETTLED and not row.get("alike")]
    return [share for share in looks if share is not None]


def _inputs_alike(signals: Signals) -> bool:
    """Whether the inputs themselves do not vary, so that equal outputs are right."""
    deviations = [
        leaf.get("std") for batch in signals.batches for leaf in batch.get("leaves", []) if leaf.get("role") == "input"
    ]
    known = [d for d in deviations if d is not None]
    return bool(known) and max(known) == 0.0


def _first_collapsed(root: Module, signals: Signals) -> Module | None:
    for module in modules_of(signals):
        if module.model == root.model and module.name and module.parameters:
            shares = module.last_values("across", _CONFIRMED, _SETTLED)
            if len(shares) >= _CONFIRMED and max(shares) < 1e-6:
                return module
    return None


@check("missing_nonlinearity", family="activation", tier=2, needs=("models",))
def activations_between(run: Run, signals: Signals) -> Outcome | None:
    """Whether the output of one linear or convolution layer is, but for a dropout, directly the input of another.

    Source: NeuraLint, UMLAUT. A narrow layer in between, as in low-rank adapters, is on purpose. A warning is a logical
    invariant: a product of matrices has no rank above its smallest side, so that a layer between linear ones that is
    wider than what they take and give, and that nothing else reads, adds nothing. All else is a note.
    """
    found, useless = [], []
    ends: dict[tuple[int, int], tuple[float, float]] = {}
    feeds = _connected_pairs(signals)
    readers = Counter(
        (first.model, first.number) for first, second in feeds if not second.type.startswith(("Dropout", "Identity"))
    )
    for first, second in feeds:
        both = _is_linear(first) and _is_linear(second) and first.type == second.type
        given, middle, returned = _width(first, "in"), _width(first, "out"), _width(second, "out")
        if both and given and middle and returned and middle >= min(given, returned):
            pair = message("health.missing_nonlinearity.pair", first=first.label, second=second.label)
            found.append(pair)
            if first.type == "Linear" and readers[first.model, first.number] == 1:
                # What the chain of linear layers up to here takes, and the widest layer inside it.
                taken, widest = ends.get((first.model, first.number), (given, 0.0))
                ends[second.model, second.number] = taken, max(widest, middle)
                if middle > max(given, returned) or max(widest, middle) > max(taken, returned):
                    useless.append(pair)
    times = message("health.missing_nonlinearity.times", times=len(found))
    return Outcome("warn" if useless else "note", times, tuple((useless or found)[:5])) if found else None


_CONVOLUTION = re.compile(r"Conv(?:Transpose)?\d[dD](?:Transpose)?")
"""Layers of the frameworks; blocks such as `ConvBNReLU` or the `Convolution` of MONAI hold activations of their own."""


def _is_linear(module: Module) -> bool:
    return module.type == "Linear" or _CONVOLUTION.fullmatch(module.type) is not None


def _width(module: Module, side: Literal["in", "out"]) -> float | None:
    options = module.options
    if side == "in":
        return options.get("in_features", options.get("in_channels"))
    return options.get("out_features", options.get("out_channels"))


@check("double_activation", family="activation", tier=3, needs=("models",))
def activations_single(run: Run, signals: Signals) -> Outcome | None:
    """Whether an activation gets what a softmax or sigmoid has just put out, as layers or in the graph of the loss.

    Source: a hint (tier 3); NeuraLint, UMLAUT.
    """
    squashing, activations = ("Softmax", "Sigmoid"), ("ReLU", "Softmax", "Sigmoid", "Tanh", "LogSoftmax")
    for first, second in _connected_pairs(signals):
        if first.type in squashing and second.type in activations:
            observed = message("health.feeds", first=first.label, second=second.label)
            return Outcome("note", observed, where={"module": second.name})
    twice = any(has_softmax_twice(graph.get("operations") or []) for graph in signals.graphs)
    return Outcome("note", message("health.double_activation.graph")) if twice else None


def has_softmax_twice(operations: Sequence[Sequence[Any]], *, of_loss: bool = False) -> bool:
    """Whether a softmax gets what another one returned.

    Args:
        operations: Those of a graph, from its end: name, rows of its inputs, name of a parameter.
        of_loss: Whether to look at the softmax in front of `nll_loss`, as of a cross entropy, or at all others.
    """
    rows = {at for name, taken, _ in operations if "NllLoss" in name for at in taken}
    for row, (name, taken, _) in enumerate(operations):
        if name not in ("Softmax", "LogSoftmax") or (row in rows) is not of_loss:
            continue
        while len(taken) == 1 and operations[taken[0]][0] in _SHAPING:
            taken = operations[taken[0]][1]
        if any(operations[at][0] == "Softmax" for at in taken):
            return True
    return False


@check("dropout_before_norm", family="activation", tier=3, needs=("models",))
def dropout_behind_norm(run: Run, signals: Signals) -> Outcome | None:
    """Whether a dropout feeds a batch norm directly. Source: a hint (tier 3); NeuraLint; Li et al. 2019."""
    for first, second in _connected_pairs(signals):
        if first.type.startswith("Dropout") and (first.options.get("p") or 0) > 0 and "BatchNorm" in second.type:
            observed = message("health.feeds", first=first.label, second=second.label)
            return Outcome("note", observed, where={"module": first.name})
    return None


def _connected_pairs(signals: Signals) -> list[tuple[Module, Module]]:
    """Pairs of modules: the output of the first is, but for a dropout, the input of the second."""
    by_place = {(m.model, m.number): m for m in modules_of(signals)}
    pairs = []
    for model in signals.models:
        key = model.get("model", 0)
        for i, j in model.get("feeds", []):
            first, second = by_place.get((key, i)), by_place.get((key, j))
            if first is not None and second is not None:
                pairs.append((first, second))
    return pairs


@check("dropout_too_high", family="activation", tier=2, needs=("models",))
def dropout_moderate(run: Run, signals: Signals) -> Outcome | None:
    """Whether a dropout drops more than half: a note, and a warning from 0.9 on, which leaves a tenth.

    Source: UMLAUT; Srivastava et al. 2014, where p is the share that is kept: at least 0.5, 0.8 of inputs. Of one value
    a sample, which the layers behind get, it leaves nothing of a sample that it drops.
    """
    drops = [(p, m) for m in modules_of(signals) if m.type.startswith("Dropout") and (p := m.options.get("p"))]
    last = max((m.order for m in modules_of(signals) if m.parameters and m.name), default=-math.inf)
    for p, module in drops:
        forms = [leaf.get("shape", ()) for leaf in module.facts.get("input", [])]
        if module.order < last and forms and all(len(form) == 2 and form[1] == 1 for form in forms):
            observed = message("health.dropout_too_high.one_value", layer=module.label, share=p)
            advice = message("health.dropout_too_high.one_value_advice")
            return Outcome("warn", observed, where={"module": module.name}, advice=advice)
    high = [(p, module) for p, module in drops if p > 0.5]
    if not high:
        return None
    p, module = max(high, key=lambda pair: pair[0])
    observed = message("health.dropout_too_high.share", layer=module.label, share=p)
    return Outcome("warn" if p >= _MOST_DROPPED else "note", observed, where={"module": module.name})
