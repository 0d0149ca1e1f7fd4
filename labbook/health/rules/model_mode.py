"""Checks of the mode of a model: training in training mode, validation in evaluation mode and without gradients."""

from __future__ import annotations

import math

from labbook.health.evidence.held_out_metrics import is_held_out, validation_losses
from labbook.health.evidence.layer_history import Module, modules_of
from labbook.health.evidence.measurements import called_in_sentence, missing_reason, place_of, unobserved
from labbook.health.evidence.training_kind import (
    BINARY,
    CLASSIFIERS,
    REGRESSIONS,
    acts_in_environment,
    has_opposed_optimizers,
    training_loss,
    training_losses,
)
from labbook.health.evidence.trend_tests import median
from labbook.model.check import Outcome, check
from labbook.model.events.training_kinds import Evaluation
from labbook.model.message import Message, message
from labbook.model.metric_kinds import metric_kind
from labbook.model.run import Run
from labbook.model.signals import Signals

_CALLS = 3
_PHASE = 10
_STATIC = "Program"
"""Root of what a static graph computes: whether its layers train was built into it, so one run of it is enough."""


@check("backward_in_eval_mode", family="loop-bug", tier=1, needs=("loop.backward_in_eval",))
def trains_in_training_mode(run: Run, signals: Signals) -> Outcome:
    """Whether a model with dropout or batch norm was trained in evaluation mode, mostly after a validation.

    Source: a logical invariant (tier 1). From the first step on it may be on purpose (no dropout in fine-tuning).
    """
    modes = signals.loop.get("backward_in_eval", {})
    seen, right = modes.get("count", 0), modes.get("in_train", 0)
    if seen < 5 or not modes.get("stochastic") or seen < 0.1 * (seen + right):
        if not right:
            return Outcome("ok", message("health.backward_in_eval_mode.no_layer"))
        return Outcome("ok", message("health.backward_in_eval_mode.ok", backwards=right))
    first = modes.get("first_step", 0)
    observed = message("health.backward_in_eval_mode.wrong", bad=seen, backwards=seen + right, step=first)
    return Outcome("fail" if right else "warn", observed, where={"step": first})


@check("eval_in_train_mode", family="loop-bug", tier=1)
def evaluates_in_evaluation_mode(run: Run, signals: Signals) -> Outcome:
    """Whether validation phases ran a model with dropout or batch norm in training mode.

    Source: a logical invariant (tier 1) over at least 3 batches with a loss, else more than 10. Recomputing batch
    statistics of averaged weights is done this way on purpose; single forwards without a loss are a validation only
    where labels are learnt and nothing acts or plays against another. Without `no_grad` a validation looks like
    training, and no `backward` follows.
    """
    unused, trains = _judge_unused_forwards(run, signals), bool(run.steps or signals.loop)
    if unused is not None:
        return unused
    reason = missing_reason(run, signals, "evaluations")
    if reason is not None:
        return unobserved(reason)
    wrong = [
        e
        for e in signals.evaluations
        if e.get("training") and e.get("stochastic") and "Averaged" not in e.get("root", "")
        if not e.get("grad") or not (trains or e.get("asked"))
    ]
    scored = [e for e in wrong if e.get("loss", {}) or e.get("accuracy") is not None]
    long = [e for e in wrong if e.get("batches", 0) >= _CALLS]
    short = [e for e in wrong if e not in long and e not in scored]
    judged = scored if sum(e.get("batches", 0) for e in scored) >= _CALLS else long
    batches, verdict = sum(e.get("batches", 0) for e in judged), "fail" if trains or scored else "warn"
    if not trains and judged is long and not (run.series or run.printed):
        # It generates, or computes features: of trained weights they are used, unless each batch comes several times.
        judged = [e for e in long if not _is_sampled(e)] if _has_trained_weights(signals) else []
    if trains and judged is long and batches <= _PHASE:
        short = short if len(short) >= _CALLS and _supervised(run, signals) else []
        judged, verdict = [e for e in wrong if e.get("root") == _STATIC] or short, "warn"
        batches = sum(e.get("batches", 0) for e in judged)
    if judged:
        observed = message("health.eval_in_train_mode.wrong", batches=batches, phases=len(judged))
        return Outcome(verdict, observed, where={"step": max(judged[0].get("begin_step", 0) - 1, 0)})  # behind it
    if acts_in_environment(signals):
        return unobserved(message("health.not_observed.acting_forwards"))
    if wrong:
        return unobserved(message("health.eval_in_train_mode.few"))
    if all(e.get("training") and not e.get("stochastic") for e in signals.evaluations):
        # A container of modules in evaluation mode may be in training mode itself.
        unknown = {e.get("root", "") for e in signals.evaluations} - {m.get("root", "") for m in signals.models}
        is_off = unknown or _has_modes(signals)
        key = "health.eval_in_train_mode.modes_off" if is_off else "health.eval_in_train_mode.no_modes"
        return Outcome("ok", message(key))
    return Outcome("ok", message("health.eval_in_train_mode.ok"))


def _has_modes(signals: Signals) -> bool:
    return any("BatchNorm" in m.type or ("Dropout" in m.type and m.options.get("p")) for m in modules_of(signals))


def _has_trained_weights(signals: Signals) -> bool:
    """Whether a model got all its weights from a file: what it puts out is used."""
    states = [e for e in signals.loaded if e.get("what") == "model"]
    return any(e.get("matched") and not e.get("missing_n") for e in states)


def _judge_unused_forwards(run: Run, signals: Signals) -> Outcome | None:
    """Forwards in training mode and with gradients that no backward followed, beside one for each backward.

    All of them have a loss, or none has one, but the program reports a metric of validation, or an accuracy, beside
    whole passes over another loader, and no other phase could have given it.
    """
    loop, losses = signals.loop, training_losses(signals)
    passes, backwards = _forwards_of_passes(signals), loop.get("backwards", 0)
    forwards = passes or loop.get("forwards_lonely", 0)
    calls = {loss.get("line", ""): loss.get("calls", 0) for loss in losses}
    one_each = backwards + forwards == loop.get("forwards", {}).get("train_grad", 0)
    unused_losses = loop.get("losses_lonely", 0)
    written = [s.name for s in (*run.series, *run.printed) if s.source != "probe"]
    metric = next((n for n in written if is_held_out(n) or (passes and metric_kind(n).quantity == "accuracy")), "")
    counted = unused_losses == 0 and bool(metric) and not signals.evaluations
    alone = (
        len(signals.models) == 1
        and len({loss.get("fn") for loss in losses}) == 1
        and {*loop.get("accumulation", {})} == {"1"}
    )
    if not alone or not (one_each or passes) or not _PHASE < forwards < backwards:
        return None
    followed = sum(calls.values()) == backwards + unused_losses or (passes and sum(calls.values()) <= backwards)
    if not followed or (unused_losses != forwards and not counted):
        return None
    if not _has_modes(signals):
        return None
    if counted:
        return Outcome("warn", message("health.eval_in_train_mode.counted", batches=forwards, metric=metric))
    line = next((line for line, count in calls.items() if count == forwards), "")
    observed = message("health.eval_in_train_mode.with_gradients", batches=forwards)
    return Outcome("warn", observed, called_in_sentence(line), place_of(line))


def _forwards_of_passes(signals: Signals) -> int:
    """Returns how many forwards no backward followed, where they are passes over a loader in order, else 0.

    Where the training shuffles, that is a loader for validation; while a loop is steady not every forward is followed.
    """
    forwards = signals.loop.get("forwards", {}).get("train_grad", 0) - signals.loop.get("backwards", 0)
    shuffled = [loader for loader in signals.loaders if loader.get("shuffle")]
    in_order = [loader.get("batches") or 0 for loader in signals.loaders if not loader.get("shuffle")]
    whole = any(batches > 1 and forwards >= 2 * batches and forwards % batches == 0 for batches in in_order)
    return forwards if shuffled and whole else 0


def _supervised(run: Run, signals: Signals) -> bool:
    """Whether one model learns labels or values, and does nothing else."""
    losses = training_losses(signals)
    usual = (*CLASSIFIERS, *BINARY, *REGRESSIONS)
    alone = len(signals.models) <= 1 and len(losses) == 1 and losses[0].get("fn") in usual
    return alone and not has_opposed_optimizers(run, signals) and not acts_in_environment(signals)


@check("dropout_active_in_eval", family="loop-bug", tier=1, needs=("evaluations",))
def no_dropout_in_evaluation(run: Run, signals: Signals) -> Outcome | None:
    """Whether functional dropout went on under a model in evaluation mode. With repeated batches it is Monte Carlo.

    Source: a logical invariant (tier 1); TrainCheck transformers-33844. Phases of few forwards, as of a whole graph or
    a small validation set, are taken together.
    """
    short = [e for e in signals.evaluations if 0 < e.get("batches", 0) <= _CALLS and not e.get("training")]
    dropped = [e for e in short if e.get("dropout_active", 0) and not _is_sampled(e)]
    if len(dropped) >= _CALLS and len(dropped) > 0.9 * len(short):
        calls, batches = sum(e.get("dropout_active", 0) for e in dropped), sum(e.get("batches", 0) for e in dropped)
        return _dropout_found("fail", calls, batches, dropped[0].get("dropout_line", ""))
    for phase in signals.evaluations:
        active, batches = phase.get("dropout_active", 0), phase.get("batches", 0)
        if active >= max(_CALLS, batches // 2) and not phase.get("training") and batches >= 2:
            line = phase.get("dropout_line", "")
            return _dropout_found("note" if _is_sampled(phase) else "fail", active, batches, line)
    return Outcome("ok", message("health.dropout_active_in_eval.ok"))


def _is_sampled(phase: Evaluation) -> bool:
    """Whether a phase gives the model the same batches again, as Monte Carlo dropout does."""
    return phase.get("repeated", 0) > 0.5 * phase.get("batches", 0)


def _dropout_found(verdict: str, calls: int, batches: int, line: str) -> Outcome:
    place = place_of(line)
    observed = message("health.dropout_active_in_eval.active", calls=calls, batches=batches)
    return Outcome(verdict, observed, called_in_sentence(line) if place else (), place)


@check("train_val_collapse_in_eval", family="convergence", tier=2, needs=("models",))
def same_in_evaluation_mode(run: Run, signals: Signals) -> Outcome | None:
    """Whether running statistics of batch norms are still near their initial values, and validation is much worse.

    Source: TheDeepChecker's mode switch (tier 2), from the momentum and the number of steps instead of a second pass.
    """
    steps = signals.loop.get("steps", 0)
    initial = [share for m in modules_of(signals) if (share := _initial_share(m, steps)) is not None]
    losses, training = validation_losses(run, signals), training_loss(run, signals)
    if not initial or not steps or isinstance(training, Message) or not losses:
        return None
    end = median(training.values[-20:])
    updated = 1 - max(initial)
    if max(initial) < 0.5 or median(losses[-3:]) < 1.5 * end or _always_in_training(signals):
        return Outcome("ok", message("health.train_val_collapse_in_eval.ok", share=updated))
    observed = message("health.train_val_collapse_in_eval.updated", share=updated, steps=steps)
    evidence = message("health.train_val_collapse_in_eval.losses", training=end, validation=median(losses[-3:]))
    return Outcome("warn", observed, (evidence,))


def _always_in_training(signals: Signals) -> bool:
    """Whether all validation that was seen ran in training mode."""
    return bool(signals.evaluations) and all(e.get("training") for e in signals.evaluations)


def _initial_share(module: Module, steps: int) -> float | None:
    """Share of a batch norm's running statistics that is still their initial value."""
    momentum = module.options.get("momentum")
    if "BatchNorm" not in module.type or not math.isfinite(module.order) or momentum is None or not 0 <= momentum < 1:
        return None
    return float((1 - momentum) ** steps)
