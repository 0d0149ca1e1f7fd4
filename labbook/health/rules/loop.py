"""Checks of the training loop: order of steps and backward passes, training mode, inputs of the loss."""

from __future__ import annotations

import math

from labbook.health.evidence.layer_history import functions_of, has_returned_range, modules_of, output_activation
from labbook.health.evidence.measurements import (
    called_in_sentence,
    missing_reason,
    optimizer_suffix,
    place_of,
    process_series,
    unobserved,
)
from labbook.health.evidence.regression_outputs import target_of
from labbook.health.evidence.training_kind import REGRESSIONS, training_losses
from labbook.health.rules.activation import has_softmax_twice
from labbook.model.check import Outcome, check
from labbook.model.events.inspection_kinds import ModuleInspection
from labbook.model.events.training_kinds import LossCall, Optimizer
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_STREAK = 3
_ROUNDING = 1e-3
_REACH = {
    "relu": (0.0, math.inf),
    "relu6": (0.0, 6.0),
    "sigmoid": (0.0, 1.0),
    "hardsigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "softmax": (0.0, 1.0),
}
"""Lowest and highest output of activations."""

_CALLS = 3
_SCALING = ("SGD", "Momentum")
"""Optimizers with steps in proportion to the gradient."""

_BATCHES = 4
_REFUSING = ("bce_with_logits", "binary_cross_entropy")
"""PyTorch raises an error where their shapes differ: nothing is broadcast."""


@check("backward_but_no_step", family="loop-bug", tier=1, needs=("loop",))
def backwards_have_steps(run: Run, signals: Signals) -> Outcome | None:
    """Whether an optimizer was created and gradients were computed, but it never stepped, or one of several did not.

    Source: a logical invariant (tier 1), after 20 backwards in a run that finished. Without an optimizer a program
    computes gradients for another purpose.
    """
    steps, backwards = signals.loop.get("steps", 0), signals.loop.get("backwards", 0)
    idle = signals.loop.get("idle", {})
    if steps and idle.get("parameters", 0) and backwards >= 20 and run.status in ("finished", "interrupted"):
        optimizers, parameters = idle.get("optimizers", 0), idle.get("parameters", 0)
        observed = message("health.backward_but_no_step.idle", optimizers=optimizers, parameters=parameters)
        return Outcome("fail", observed)
    if steps or backwards < 20:
        return Outcome("ok", message("health.loop.counts", steps=steps, backwards=backwards)) if steps else None
    if not signals.loop.get("optimizers") or run.status not in ("finished", "interrupted"):
        return None
    optimizers = signals.loop.get("optimizers", 0)
    observed = message("health.backward_but_no_step.none", backwards=backwards, optimizers=optimizers)
    return Outcome("fail", observed)


@check("step_without_backward", family="loop-bug", tier=1, needs=("loop",))
def steps_have_backwards(run: Run, signals: Signals) -> Outcome:
    """Whether most steps of an optimizer had no new gradient. One such step, to silence a scheduler warning, is usual.

    Source: a logical invariant (tier 1). Not every step is followed: the only optimizer that steps twice for each
    backward, or more often, is known by the totals.
    """
    by_optimizer = signals.loop.get("steps_without_backward", {})
    steps, backwards = signals.loop.get("steps", 0), signals.loop.get("backwards", 0)
    if signals.loop.get("optimizers") == 1 and sum(by_optimizer.values()) >= _STREAK and steps >= 2 * backwards > 0:
        observed = message("health.step_without_backward.bare", bad=steps - backwards, steps=steps, optimizer="")
        return Outcome("fail", observed)
    for opt, bare in by_optimizer.items():
        rates = [
            s for s in process_series(run, signals, "lr") if s.name.endswith("lr" if opt == "0" else f"lr.opt{opt}")
        ]
        own_steps = (rates[0].last_step or steps) if rates else steps
        if bare >= _STREAK and bare > 0.5 * own_steps:
            which = optimizer_suffix(opt, by_optimizer)
            observed = message("health.step_without_backward.bare", bad=bare, steps=own_steps, optimizer=which)
            return Outcome("fail", observed)
    return Outcome("ok", message("health.loop.counts", steps=steps, backwards=backwards))


@check("forward_but_no_backward", family="loop-bug", tier=1, needs=("loop",))
def losses_have_backwards(run: Run, signals: Signals) -> Outcome | None:
    """Whether an optimizer was made and losses of training forwards were computed, and backward never called.

    Source: a logical invariant (tier 1), after 20 losses, or 20 forwards that all raised what the program caught.
    """
    losses, forwards = signals.loop.get("losses_lonely", 0), signals.loop.get("forwards", {})
    if signals.loop.get("backwards", 0) or not signals.loop.get("optimizers"):
        return None
    if run.status == "finished" and 20 <= forwards.get("raised", 0) == forwards.get("train_grad", 0):
        observed = message("health.forward_but_no_backward.raised", forwards=forwards.get("raised", 0))
        return Outcome("fail", observed, advice=message("health.forward_but_no_backward.raised_advice"))
    if losses < 20 or forwards.get("train_grad", 0) < 20:
        return None
    return Outcome("fail", message("health.forward_but_no_backward.none", losses=losses))


@check("optimizer_recreated", family="loop-bug", tier=1, needs=("loop",))
def optimizer_keeps_its_state(run: Run, signals: Signals) -> Outcome | None:
    """Whether one model is trained by a new optimizer in each step, whose running averages or momentum begin anew.

    Source: a logical invariant (tier 1), after 20 steps; where many optimizers live at once, the steps of some are
    unknown. Plain gradient descent has no state; L-BFGS runs to its end.
    """
    steps, made = signals.loop.get("steps", 0), signals.loop.get("optimizers", 0)
    alike = {(o.get("trains"), o.get("type", ""), o.get("parameters"), o.get("tensors", 0)) for o in signals.optimizers}
    if made < 20 or not 0.5 * made < steps < 1.1 * made or len(alike) != 1 or _is_stateless(signals.optimizers[0]):
        return None
    _, kind, _, tensors = alike.pop()
    if tensors < 2:  # one optimizer for each parameter, as where they step inside backward
        return None
    return Outcome("fail", message("health.optimizer_recreated.each", optimizers=made, type=kind, steps=steps))


def _is_stateless(optimizer: Optimizer) -> bool:
    kind = optimizer.get("type", "")
    return kind == "LBFGS" or (kind == "SGD" and not optimizer.get("options", {}).get("momentum"))


@check("softmax_before_cross_entropy", family="loop-bug", tier=1, needs=("losses",))
def loss_gets_logits(run: Run, signals: Signals) -> Outcome | None:
    """Whether a loss that applies softmax or sigmoid itself gets probabilities in more than 95 % of calls.

    Source: a logical invariant (tier 1), 0 of 14 healthy runs; TheDeepChecker, UMLAUT. A cross entropy of validation
    counts as well; for `nll_loss` the graph shows that its log softmax gets a softmax.
    """
    judged = False
    training = training_losses(signals)
    validation = [
        loss for loss in signals.losses if loss.get("training") is False and loss.get("fn") == "cross_entropy"
    ]
    for loss in (*training, *validation):
        fn, seen = loss.get("fn", ""), loss.get("observed", 0)
        shares = {"cross_entropy": loss.get("prob_rows"), "bce_with_logits": loss.get("unit_range")}
        share = shares.get(fn)
        if share is None or seen < _CALLS:
            continue
        judged = True
        if share > 0.95 and (fn == "cross_entropy" or _is_from_activation(loss, signals)):
            rows = fn == "cross_entropy"
            key = "health.softmax_before_cross_entropy.rows" if rows else "health.softmax_before_cross_entropy.values"
            observed = message(key, function=fn, share=share, calls=seen)
            verdict = "warn" if loss in validation else "fail"
            return Outcome(verdict, observed, called_in_sentence(loss.get("line", "")), place_of(loss.get("line", "")))
    of_nll = [loss.get("line", "") for loss in training if loss.get("fn") == "nll_loss"]
    if of_nll and any(has_softmax_twice(graph.get("operations") or [], of_loss=True) for graph in signals.graphs):
        observed = message("health.softmax_before_cross_entropy.graph")
        return Outcome("fail", observed, called_in_sentence(of_nll[0]), place_of(of_nll[0]))
    return Outcome("ok", message("health.softmax_before_cross_entropy.ok")) if judged else None


def _is_from_activation(loss: LossCall, signals: Signals) -> bool:
    """Whether values between 0 and 1 come from a sigmoid: they fill that interval, or a sigmoid returned just these.

    Scores of a model that begins at the rate of its classes may stay between 0 and 1, too, in a part of it. Those of a
    sigmoid begin near 0.5; scores that stay below 0.45 are none, as of a discriminator whose first logits are small.
    """
    low, high = loss.get("input", {}).get("min"), loss.get("input", {}).get("max")
    if loss.get("observed", 0) < 5 or low is None or high is None or low < 0.0:
        return False
    return (
        (low < 0.1 and high > 0.45)
        or high > 0.9
        or has_returned_range(signals, ("sigmoid", "hardsigmoid", "softmax"), low, high)
    )


@check("missing_output_activation", family="loop-bug", tier=2, needs=("losses",))
def nll_gets_log_probabilities(run: Run, signals: Signals) -> Outcome | None:
    """Whether `nll_loss` or `kl_div` gets no log-probabilities, or a cross entropy without softmax no probabilities.

    Source: tier 2; logsumexp of a row is not 0 for `nll_loss`; values above 0 for `kl_div`, whose logarithms are not.
    """
    losses = training_losses(signals)
    for loss in losses:
        bare = loss.get("not_probabilities", 0)
        if bare >= max(_CALLS, 0.95 * loss.get("observed", 0)):
            # Keras has such functions on PyTorch, where their own are scores.
            option = "use_softmax" if any(one.get("framework") == "paddle" for one in losses) else "from_logits"
            facts = {"function": loss.get("fn", ""), "option": option, "calls": bare}
            observed = message("health.missing_output_activation.no_softmax", **facts)
            return Outcome("fail", observed, called_in_sentence(loss.get("line", "")), place_of(loss.get("line", "")))
        top = loss.get("input", {}).get("max")
        if loss.get("fn") == "kl_div" and top is not None and top > _ROUNDING and loss.get("observed", 0) > 1:
            observed = message("health.missing_output_activation.positive", largest=top)
            return Outcome("warn", observed, called_in_sentence(loss.get("line", "")), place_of(loss.get("line", "")))
        share, seen = loss.get("logprob_rows"), loss.get("observed", 0)
        # Of scores that are NaN from the first step on nothing is known: the fault is in front of the loss.
        is_nan = any(math.isnan(series.values[0]) for series in process_series(run, signals, "loss"))
        if loss.get("fn") != "nll_loss" or share is None or seen < _CALLS or is_nan:
            continue
        if share < 0.05 and (loss.get("prob_columns") or 0.0) < 0.5:
            observed = message("health.missing_output_activation.share", share=share, calls=seen)
            return Outcome("fail", observed, called_in_sentence(loss.get("line", "")), place_of(loss.get("line", "")))
        return Outcome("ok", message("health.missing_output_activation.ok"))
    return None


@check("loss_activation_mismatch", family="loop-bug", tier=2, needs=("losses",))
def head_fits_loss(run: Run, signals: Signals) -> Outcome | None:
    """Whether cross entropy gets scores as after a ReLU, or the last activation of a regression misses its targets.

    Source: chosen by us (tier 2): a tenth of all scores exactly 0 and none negative, which no linear layer gives; a
    fifth of the range of the targets that the activation cannot reach; AUTOTRAINER's improper activation. Nor does a
    softmax fit targets of which several are 1. Scores that never leave [0, 1] may be probabilities, which other checks
    judge. Of several outputs, one that never leaves [0, 1] has passed through a sigmoid that returns its shape. Cross
    entropy takes rows of probabilities as targets: rows with several ones have a sum above 1.
    """
    whole = output_activation(signals)
    for loss in training_losses(signals):
        scores = loss.get("input", {})
        zero, low, line = scores.get("zero"), scores.get("min"), loss.get("line", "")
        probable = (loss.get("prob_rows") or 0.0) >= 0.5 or (loss.get("unit_range") or 0.0) > 0.95
        fits = loss.get("fn") in ("cross_entropy", "bce_with_logits") and not probable
        if fits and zero is not None and zero > 0.1 and low == 0.0 and loss.get("observed", 0) >= _CALLS:
            observed = message("health.loss_activation_mismatch.zeros", share=zero)
            return Outcome("warn", observed, called_in_sentence(line), place_of(line))
        several = loss.get("fn") == "binary_cross_entropy" and (loss.get("prob_rows") or 0.0) > 0.95
        if several and loss.get("observed", 0) >= _CALLS:
            observed = message("health.loss_activation_mismatch.softmax")
            return Outcome("warn", observed, called_in_sentence(line), place_of(line))
        if loss.get("soft") and loss.get("fn") == "cross_entropy" and _has_several_classes(signals, loss):
            observed = message("health.loss_activation_mismatch.several")
            advice = message("health.loss_activation_mismatch.several_advice")
            return Outcome("warn", observed, called_in_sentence(line), place_of(line), advice=advice)
        ends = whole or _sigmoid_before(signals, loss) or ("relu" if low == 0.0 and (zero or 0.0) > 0.1 else "")
        missed = _targets_out_of_reach(loss, ends)
        if missed is not None:
            return Outcome("warn", missed, called_in_sentence(line), place_of(line))
    return None


def _has_several_classes(signals: Signals, loss: LossCall) -> bool:
    """Whether the labels of the batches are rows of 0 and 1, one for each class, with more than one 1 in a row."""
    classes = loss.get("classes", 0)
    targets = [target for batch in signals.batches if (target := target_of(batch)) is not None]
    rows = [one for one in targets if [*one.get("shape", ())[1:]] == [classes]]
    shares = [(one.get("zero"), one.get("mean")) for one in rows]
    ones = [mean for zero, mean in shares if zero is not None and mean is not None and abs(zero + mean - 1) < 1e-4]
    return len(ones) == len(targets) > 0 and classes * sum(ones) / len(ones) > 1.05


def _sigmoid_before(signals: Signals, loss: LossCall) -> str:
    """Returns "sigmoid" where all inputs of a loss lie in [0, 1] and a sigmoid returns their shape, else ""."""
    shape = loss.get("input", {}).get("shape", ())[1:]
    looks: list[ModuleInspection] = [m.history[-1][1] for m in modules_of(signals) if m.type == "Sigmoid" and m.history]
    looks += [calls[-1][1] for (name, _), calls in functions_of(signals).items() if name == "sigmoid"]
    shapes = [look.get("shape", ())[1:] for look in looks]
    return "sigmoid" if loss.get("unit_range") == 1.0 and shape and shape in shapes else ""


def _targets_out_of_reach(loss: LossCall, activation: str) -> Message | None:
    """That a regression's targets lie beyond what the last activation of the model can give."""
    scores, target = loss.get("input", {}), loss.get("target", {})
    least, most, low, high = scores.get("min"), scores.get("max"), target.get("min"), target.get("max")
    if activation not in _REACH or loss.get("fn") not in REGRESSIONS or loss.get("observed", 0) < _CALLS:
        return None
    if least is None or most is None or low is None or high is None:
        return None
    bottom, top = _REACH[activation]
    if least < bottom or most > top:
        return None  # what the model returned was scaled before the loss
    if max(bottom - low, high - top) <= 0.2 * (high - low):
        return None
    covered = message("health.range", low=low, high=high)
    return message("health.loss_activation_mismatch.reach", activation=activation, targets=covered)


@check("loss_broadcast", family="loop-bug", tier=1)
def loss_shapes_agree(run: Run, signals: Signals) -> Outcome | None:
    """Whether output and target were broadcast against each other, as [N, 1] and [N] to [N, N].

    Source: a logical invariant (tier 1); torch warns, paddle is silent. A loss computed by hand is known by its graph.
    """
    for graph in signals.graphs:
        blown = graph.get("blown", {})
        if blown:
            result, output = _shape_text(blown.get("shape", ())), _shape_text(blown.get("of", ()))
            key = "health.loss_broadcast.product" if blown.get("op") == "mul" else "health.loss_broadcast.graph"
            observed = message(key, output=output, result=result)
            evidence = message("health.loss_broadcast.operation", op=blown.get("op", ""), line=blown.get("line", ""))
            verdict = "fail" if blown.get("sure") else "warn"
            return Outcome(verdict, observed, (evidence,))
    if not signals.losses and not (signals.graphs and signals.framework == "torch"):
        return unobserved(missing_reason(run, signals, "losses") or message("health.not_observed.graphs"))
    for loss in signals.losses:
        if loss.get("broadcast", 0):
            one, other = loss.get("input", {}).get("shape", ()), loss.get("target", {}).get("shape", ())
            observed = message(
                "health.loss_broadcast.call",
                function=loss.get("fn", ""),
                output=_shape_text(one),
                target=_shape_text(other),
                calls=loss.get("broadcast", 0),
                seen=loss.get("observed", 0),
            )
            # Axes of 1 that were inserted on both sides are intended, as for all pairs of quantiles.
            intended = len(one) == len(other) and len(one) > 2
            is_refused = signals.framework == "torch" and loss.get("fn") in _REFUSING
            return Outcome(
                "note" if intended or is_refused else "fail",
                observed,
                called_in_sentence(loss.get("line", "")),
                place_of(loss.get("line", "")),
            )
    return Outcome("ok", message("health.loss_broadcast.ok"))


def _shape_text(sizes: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(n) for n in sizes) + "]"


@check("label_dtype_truncated", family="loop-bug", tier=1, needs=("losses",))
def labels_are_integers(run: Run, signals: Signals) -> Outcome | None:
    """Whether class labels in floating point reached a classifier's loss, which paddle cuts to integers silently.

    Source: a logical invariant (tier 1).
    """
    if signals.framework != "paddle":
        return None
    for loss in signals.losses:
        dtype = loss.get("target", {}).get("dtype", "")
        soft = loss.get("soft") or loss.get("target", {}).get("shape", ()) == loss.get("input", {}).get("shape", ())
        if loss.get("fn") in ("cross_entropy", "nll_loss") and "float" in dtype and not soft:
            observed = message("health.label_dtype_truncated.labels", dtype=dtype, function=loss.get("fn", ""))
            return Outcome("fail", observed, called_in_sentence(loss.get("line", "")))
    return None


@check("accumulation_not_scaled", family="loop-bug", tier=2, needs=("loop",))
def accumulation_scaled(run: Run, signals: Signals) -> Outcome | None:
    """Whether each step accumulates a constant number of backward passes of one unscaled mean loss, or scales it twice.

    Source: counters of calls, values of the loss, its graph. Chosen by us (tier 2): accumulating then raises the
    learning rate by as much; of plain SGD by exactly that, which is a warning from four on unless gradients are
    clipped: two or three may be views of a sample, or tasks, whose sum is intended.
    """
    steps_of = signals.loop.get("accumulation", {})
    total = sum(steps_of.values())
    common = max(steps_of, key=lambda k: steps_of[k], default="")
    series = process_series(run, signals, "loss")
    if not common.isdigit() or int(common) < 2 or steps_of[common] < 0.9 * total or total < 5 or not series:
        return None
    early = series[0].values[0] / int(common)  # the loss of a step is the sum of those of its backward passes
    plain = [one.get("type") in _SCALING for one in signals.optimizers]
    used = signals.loop.get("accumulated", {}).values()
    reduced, rescaled = sum(one.get("reduced", 0) for one in used), sum(one.get("rescaled", 0) for one in used)
    if reduced >= _STREAK and reduced >= 4 * rescaled and _is_whole_mean(signals, early * int(common)):
        observed = message("health.accumulation_not_scaled.twice", backwards=int(common), loss=early)
        return Outcome("warn" if plain == [True] and int(common) >= _BATCHES else "note", observed)
    if not _is_whole_mean(signals, early) or reduced or rescaled:
        return None
    is_larger = plain == [True] and int(common) >= _BATCHES and not signals.loop.get("clip", {}).get("calls", 0)
    verdict = "warn" if is_larger else "note"
    return Outcome(verdict, message("health.accumulation_not_scaled.whole", backwards=int(common), loss=early))


def _is_whole_mean(signals: Signals, loss: float) -> bool:
    """Whether `backward` is called on a mean: on what the only loss function returns, or on one in the graph."""
    losses = training_losses(signals)
    if losses:
        first = losses[0].get("value_first")
        is_mean = len(losses) == 1 and losses[0].get("reduction") == "mean" and bool(first)
        return is_mean and first is not None and 0.75 * first < loss < 1.33 * first
    return any((graph.get("operations") or [[""]])[0][0] == "Mean" for graph in signals.graphs)


@check("seed_reset_in_loop", family="loop-bug", tier=1, needs=("loop.rng",))
def seeds_once(run: Run, signals: Signals) -> Outcome:
    """Whether the generator was seeded in the loop, so that every step draws the same numbers.

    Source: a logical invariant (tier 1): the same state at 3 steps or more, after as many seedings.
    """
    rng, steps = signals.loop.get("rng", {}), signals.loop.get("steps", 0)
    same, seeded = rng.get("same", 0), rng.get("seeded", 0)
    if seeded >= max(_STREAK, 0.5 * steps) and same >= _STREAK:
        place = place_of(rng.get("line", ""))
        evidence = (message("health.seed_reset_in_loop.seeded_in", line=rng.get("line", "")),) if place else ()
        observed = message("health.seed_reset_in_loop.reset", times=seeded, steps=steps, same=same)
        return Outcome("fail", observed, evidence, place)
    return Outcome("ok", message("health.seed_reset_in_loop.ok"))
