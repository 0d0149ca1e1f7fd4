"""Kind of training: whether its loss has to fall, what the loss is, whether the model was trained before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

from labbook.frozen import dataclass
from labbook.health.evidence.layer_history import parameters_of
from labbook.health.evidence.measurements import finite_points, measured_series, optimizer_of, process_series
from labbook.health.evidence.trend_tests import median
from labbook.model.events.training_kinds import Evaluation, LossCall
from labbook.model.message import Message, message
from labbook.model.metric_kinds import metric_kind, name_words
from labbook.model.run import Run
from labbook.model.signals import Signals

NONNEGATIVE = frozenset(
    ("cross_entropy", "binary_cross_entropy", "bce_with_logits", "mse_loss", "l1_loss", "smooth_l1", "huber", "margin")
)
"""Loss functions that cannot be negative. Kullback-Leibler and likelihood losses can, pointwise or by their inputs."""

CLASSIFIERS = ("cross_entropy", "nll_loss")
REGRESSIONS = ("mse_loss", "l1_loss", "smooth_l1", "huber")
BINARY = ("binary_cross_entropy", "bce_with_logits")

# Of answers that are compared in pairs the rewards are read off the loss, which has to fall: no policy acts.
_COMPARED = frozenset({"rejected", "chosen", "margin", "margins"})
_REWARDS = frozenset({"reward", "rewards", "rew", "return", "returns", "奖励", "回报"})
_POLICIES = frozenset({"policy", "actor", "critic", "advantage", "td", "pg", "rollout"})
_ADVERSARIES = frozenset({"generator", "discriminator", "gan", "adv", "adversarial", "fake", "disc"})
"""Words in the names of series of trainings whose loss may rise rightly."""

_SHARED = 0.9
_ACTING = 0.5


@dataclass(frozen=True)
class TrainingLoss:
    """The loss of a training in which it has to fall.

    Args:
        values: Finite losses, in order.
        function: The loss function that gave them, empty when it is not known.
        classes: Number of classes when it is a classifier's loss, else 0.
    """

    steps: list[int]
    values: list[float]
    function: LossCall
    classes: int

    @property
    def has_chance_level(self) -> bool:
        """Whether it is ln K where nothing is learnt: a mean, whose weights, if any, are divided by their sum."""
        is_weighted = self.function.get("fn") in BINARY and bool(self.function.get("weight"))
        return self.classes >= 2 and self.function.get("reduction") != "sum" and not is_weighted


def training_loss(run: Run, signals: Signals) -> TrainingLoss | Message:
    """Returns the loss that has to fall in this training, or why there is none."""
    series = process_series(run, signals, "loss") or (measured_series(run, "loss") if len(run.signals) <= 1 else [])
    if not series:
        return message("health.not_observed.no_loss")
    if run.imported_from and (reason := _imported_kind(run)) is not None:
        return reason
    words = [set(name_words(one.name)) for one in (*run.series, *run.printed)]
    are_compared = any(_COMPARED & each for each in words)
    if any(_REWARDS & each for each in words) and not are_compared:
        return message("health.not_observed.rewarded")
    if has_opposed_optimizers(run, signals):
        return message("health.not_observed.several_optimizers")
    if any(use.get("set_aside", 0) for use in signals.loop.get("accumulated", {}).values()):
        return message("health.not_observed.set_aside")
    if acts_in_environment(signals) and not are_compared:
        return message("health.not_observed.acting")
    if has_bootstrapped_targets(signals):
        return message("health.not_observed.bootstrapped")
    steps, values = finite_points(series[0])
    function = loss_function(signals)
    classes = 0 if function is None else _classes(function)
    if function is None and any(value <= 0 for value in values):
        return message("health.not_observed.unknown_function")
    if function is not None and any(value < 0 for value in values):
        return message("health.not_observed.more_than_function")
    return TrainingLoss(steps, values, function or {}, classes)


def has_halved(run: Run, signals: Signals) -> bool:
    """Whether the loss has to fall in this training, and ends below half of its first values."""
    return has_fallen(run, signals, 0.5)


def has_fallen(run: Run, signals: Signals, share: float) -> bool:
    """Whether the loss has to fall in this training, and ends below a share of its first values."""
    loss = training_loss(run, signals)
    return not isinstance(loss, Message) and median(loss.values[-20:]) < share * median(loss.values[:3])


def hardly_learns(run: Run, signals: Signals) -> bool:
    """Whether the loss falls by less than a tenth in at least 200 steps. Source: chosen by us."""
    loss = training_loss(run, signals)
    return not isinstance(loss, Message) and len(loss.values) >= 200 and not has_fallen(run, signals, 0.9)


def beats_label_shares(loss: TrainingLoss) -> bool:
    """Whether a loss ends lower than a model reaches that knows only how frequent each label is.

    Source: chosen by us; below half of the entropy of binary labels, else below a fifth of the beginning.
    """
    end, zero = median(loss.values[-20:]), loss.function.get("target", {}).get("zero") or 0.0
    if loss.function.get("fn") in BINARY and not loss.function.get("weight") and 0 < zero < 1:
        return end < -0.5 * (zero * math.log(zero) + (1 - zero) * math.log1p(-zero))
    return end < 0.2 * median(loss.values[:3])


def _imported_kind(run: Run) -> Message | None:
    """Why the loss of an imported run does not have to fall, as the names of its series show; else `None`."""
    kinds = [metric_kind(series.name) for series in run.series]
    words = {word for series in run.series for word in name_words(series.name)}
    if any(kind.quantity == "reward" for kind in kinds) or words & _POLICIES:
        return message("health.not_observed.acting")
    return message("health.not_observed.several_models") if words & _ADVERSARIES else None


def _classes(function: LossCall) -> int:
    if function.get("fn") in BINARY:
        return 2
    return function.get("classes", 0) if function.get("fn") in CLASSIFIERS else 0


def may_rise(run: Run, signals: Signals) -> bool:
    """Whether the loss of this training may rise rightly: of adversaries, or of a policy that acts."""
    return has_opposed_optimizers(run, signals) or acts_in_environment(signals)


def loss_function(signals: Signals) -> LossCall | None:
    """The loss function that training calls most, `None` when none was seen."""
    called = [loss for loss in signals.losses if loss.get("training") is not False]
    return max(called, key=lambda loss: loss.get("calls", 0), default=None)


def training_losses(signals: Signals) -> list[LossCall]:
    """All loss functions called with gradients, the most called first."""
    called = [loss for loss in signals.losses if loss.get("training") is not False]
    return sorted(called, key=lambda loss: -loss.get("calls", 0))


def is_the_whole_loss(run: Run, signals: Signals, function: LossCall) -> bool:
    """Whether the value of this function is what `backward` was called on, as its first and last values show."""
    first, last = function.get("value_first"), function.get("value_last")
    return first is not None and any(
        math.isclose(first, series.values[0], rel_tol=1e-3, abs_tol=1e-6)
        or (last is not None and math.isclose(last, series.values[-1], rel_tol=1e-3, abs_tol=1e-6))
        for series in process_series(run, signals, "loss")
    )


def ignored_labels(signals: Signals) -> set[str]:
    """Returns the labels that a loss of the training leaves out (`ignore_index`): they are no classes."""
    return {str(loss["ignore_index"]) for loss in training_losses(signals) if loss.get("ignore_index") is not None}


def is_contrastive(function: LossCall) -> bool:
    """Whether the classes are the other samples of the batch: the input of the loss is square."""
    form = function.get("input", {}).get("shape", ())
    return len(form) == 2 and form[0] == form[1]


def has_master_weights(signals: Signals) -> bool:
    """Whether the program gives an optimizer copies of all parameters, their gradients, and writes the results back.

    Copies that nothing gives a gradient to are a mistake, and the optimizer then steps without any.
    """
    loop, outside = signals.loop, signals.loop.get("outside_n", 0)
    return has_gradients(signals) and any(
        row.get("trains") == 0
        and row.get("tensors") == outside == loop.get("trainable_n") != 0
        and row.get("parameters") == loop.get("elements")
        for row in signals.optimizers
    )


def has_gradients(signals: Signals) -> bool:
    """Whether at most a tenth of the steps of each optimizer found no gradient."""
    steps = signals.loop.get("steps", 0)
    empty = signals.loop.get("steps_without_gradient", {}).values()
    return all(one.get("none", 0) + one.get("zero", 0) <= 0.1 * one.get("checked", steps) for one in empty)


def has_opposed_optimizers(run: Run, signals: Signals) -> bool:
    """Whether several optimizers take turns on losses of their own, as in adversarial training.

    Optimizers one after the other are phases; those that step after the same `backward` share one loss.
    """
    spans = {at: span for at, span in signals.spans.items() if span[1] > span[0]}
    overlapping = [
        pair
        for pair in combinations(sorted(spans), 2)
        if _overlap(*(spans[at] for at in pair)) > 0.2 * min(spans[at][1] - spans[at][0] for at in pair)
    ]
    losses = {optimizer_of(s): dict(zip(s.steps, s.values, strict=True)) for s in process_series(run, signals, "loss")}
    if overlapping and len(losses) < 2:
        return True
    return any(not _is_one_loss(losses[one], losses[other]) for one, other in overlapping if {one, other} <= {*losses})


def _overlap(span: tuple[float, float], other: tuple[float, float]) -> float:
    return min(span[1], other[1]) - max(span[0], other[0])


def _is_one_loss(loss: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Whether the losses of two optimizers, by step, are the same where both have one."""
    both = loss.keys() & other.keys()
    equal = sum(loss[step] == other[step] or loss[step] != loss[step] for step in both)
    return len(both) >= 3 and equal >= _SHARED * len(both)


def acts_in_environment(signals: Signals) -> bool:
    """Whether the model also runs between its training forwards without gradients, outside of validation phases.

    Source: chosen by us; at least one such forward in two steps: policies that act. Those of models that are not
    trained, as of a teacher, say nothing of the loss and are left out. A policy may act with gradients, too, on far
    fewer samples than it is trained on, or many times for each `backward`; a solver calls the model on what the model
    has computed. Phases in evaluation mode on batches as large as those of training validate. A loss with a ratio of
    probabilities, or with advantages, is that of a policy.
    """
    if any(graph.get("ratios") or graph.get("advantage") for graph in signals.graphs):
        return True
    forwards = signals.loop.get("forwards", {})
    compared = forwards.get("compared", 0)
    if compared >= 10 and forwards.get("small", 0) > _ACTING * compared:
        return True
    seen = forwards.get("train_nograd", 0) + forwards.get("eval_nograd", 0) - forwards.get("of_others", 0)
    steps = signals.loop.get("steps", 0)
    last: Evaluation = signals.evaluations[-1] if signals.evaluations else {}
    in_phases = sum(e.get("batches", 0) - e.get("of_others", 0) for e in signals.evaluations)
    if last.get("phases", 0) > len(signals.evaluations):
        in_phases = in_phases * last.get("phases", 0) // len(signals.evaluations)
    phases = max(last.get("phases", 0), len(signals.evaluations))
    often = phases - last.get("whole", 0) > max(20, _ACTING * steps)
    if often or (steps >= 10 and seen - in_phases > _ACTING * steps):
        return True
    collected = forwards.get("train_grad", 0) > 5 * max(1, signals.loop.get("backwards", 0))
    return collected and not signals.losses and not is_unrolled(signals)


def is_unrolled(signals: Signals) -> bool:
    """Whether most forwards are on what earlier ones of the step have returned, as those of an ODE or SDE solver."""
    forwards = signals.loop.get("forwards", {})
    return forwards.get("chained", 0) > _ACTING * max(1, forwards.get("looked", 0))


def has_bootstrapped_targets(signals: Signals) -> bool:
    """Whether the targets of a regression come from a copy of the trained model that follows it, as in Q-learning.

    Such a loss rises with the values that are learnt. A fixed teacher does not change, and the loss has to fall.

    Source: chosen by us; a copy that changes and is called in at least half of the steps.
    """
    function = loss_function(signals)
    if function is not None and function.get("fn") not in REGRESSIONS:
        return False
    steps = signals.loop.get("steps", 0)
    return any(
        copy.get("changed") and copy.get("steps", 0) > _ACTING * steps for copy in signals.loop.get("copies", [])
    )


def is_pretrained(signals: Signals) -> bool:
    """Whether weights were loaded into a model before it was trained, or most of it is frozen."""
    loaded = any(e.get("what") == "model" and e.get("matched", 0) > 0 and e.get("step", 0) <= 1 for e in signals.loaded)
    return loaded or frozen_share(signals) > 0.5


def frozen_share(signals: Signals) -> float:
    """Share of the models' elements that are not trainable."""
    parameters = parameters_of(signals)
    total = sum(p.elements for p in parameters)
    return sum(p.elements for p in parameters if not p.trainable) / total if total else 0.0
