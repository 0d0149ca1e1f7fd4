"""Checks of what a loss pulls the model to: contrastive pairs, temporal differences, rewards, adversaries, teachers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from labbook.health.evidence.layer_history import Module, functions_of, modules_of
from labbook.health.evidence.measurements import (
    called_in_sentence,
    finite_points,
    optimizer_of,
    place_of,
    process_series,
)
from labbook.health.evidence.training_kind import (
    BINARY,
    CLASSIFIERS,
    REGRESSIONS,
    acts_in_environment,
    has_opposed_optimizers,
    is_contrastive,
    training_losses,
)
from labbook.health.evidence.trend_tests import mann_kendall, median, theil_sen
from labbook.health.rules.data.labels import find_classifier, labels_of_loss
from labbook.model.check import Outcome, check
from labbook.model.message import message
from labbook.model.metric_kinds import metric_kind, name_words
from labbook.model.run import Run
from labbook.model.signals import Signals

_CALLS = 3
_ALWAYS = 0.9
"""Share of calls; the last batch of an epoch may be too small to be compared. Source: chosen by us."""
_STEPS = 200
_OF_CHANCE = 0.8
_REWARDS = frozenset({"reward", "rewards", "rew", "return", "returns", "奖励", "回报"})
_FEWEST_REWARDS = 8
_FALLING = 1e-3
_CHANCE = 0.01
_TENTH = 5
_UNLIMITED = 1e-6
_TAUGHT = 20
_FIXED = 5
_MEAN = re.compile(r"(?<![a-z])(?:mu|mean|loc)s?(?![a-z])")
_LOG_VARIANCE = re.compile(r"log_?(?:var|std|sigma)")
_PRIOR = 0.05
_LOOKS = 3
_TRAINED = 50
_RATIOS = 8
_HEAVY = 100
_LARGER = 1000
_MOST_SMOOTHED, _ROUNDED = 0.5, 1e-3


@check("contrastive_pairs_wrong", family="loop-bug", tier=1, needs=("losses",))
def pairs_differ(run: Run, signals: Signals) -> Outcome | None:
    """Whether a contrastive loss compares samples with themselves, as positives or as negatives.

    Source: a logical invariant (tier 1): a constant positive similarity or a symmetric table in 9 of 10 calls.
    """
    for loss in training_losses(signals):
        seen, line = loss.get("observed", 0), loss.get("line", "")
        if seen < _CALLS:
            continue
        if loss.get("self_pairs", 0) >= _ALWAYS * seen:
            observed = message("health.contrastive_pairs_wrong.positives", calls=seen)
        elif loss.get("self_negatives", 0) >= _ALWAYS * seen:
            observed = message("health.contrastive_pairs_wrong.negatives", calls=seen)
        else:
            continue
        return Outcome("fail", observed, called_in_sentence(line), place_of(line))
    return None


@check("triplet_swapped", family="loop-bug", tier=2, needs=("losses",))
def triplets_separate(run: Run, signals: Signals) -> Outcome | None:
    """Whether the positives of a triplet loss end as far away as its negatives, and the loss at its margin or above.

    Source: Schroff et al. 2015; chosen by us (tier 2): after 100 calls, a distance within 2 % or larger, and 90 % of
    the margin; after 200, within 10 % and 85 %. Swapped arguments do so, embeddings that are all the same, and
    positives of any class.
    """
    for loss in training_losses(signals):
        near, far, margin = loss.get("near"), loss.get("far"), loss.get("margin") or 0.0
        if loss.get("fn") != "triplet" or near is None or far is None or loss.get("calls", 0) < _STEPS // 2:
            continue
        apart, share = (0.98, 0.9) if loss.get("calls", 0) < _STEPS else (0.9, 0.85)
        if near >= apart * far and (loss.get("value_last") or 0.0) >= share * margin > 0:
            line = loss.get("line", "")
            observed = message("health.triplet_swapped.apart", near=near, far=far, calls=loss.get("calls", 0))
            return Outcome("warn", observed, called_in_sentence(line), place_of(line))
    return None


@check("contrastive_temperature", family="loop-bug", tier=2, needs=("losses",))
def similarities_are_sharp(run: Run, signals: Signals) -> Outcome | None:
    """Whether the range of all similarities is too small for a contrastive loss to fall, as with `* temperature`.

    Source: chosen by us (tier 2): even if each positive had the largest similarity of the run and each negative the
    least, the loss would stay above 80 % of its chance level ln(n).
    """
    for loss in training_losses(signals):
        scores, classes, line = loss.get("input", {}), loss.get("classes", 0), loss.get("line", "")
        low, high = scores.get("min"), scores.get("max")
        usual = loss.get("fn") == "cross_entropy" and is_contrastive(loss) and classes >= 8
        if not usual or low is None or high is None or loss.get("observed", 0) < 5 or loss.get("soft"):
            continue
        least = math.log1p((classes - 1) * math.exp(low - high)) if high - low < 1.0 else 0.0
        if least > _OF_CHANCE * math.log(classes):
            chance = math.log(classes)
            observed = message("health.contrastive_temperature.flat", low=low, high=high, least=least, chance=chance)
            return Outcome("warn", observed, called_in_sentence(line), place_of(line))
    return None


@check("target_not_detached", family="loop-bug", tier=2, needs=("graphs",))
def targets_have_no_gradient(run: Run, signals: Signals) -> Outcome | None:
    """Whether the target of a temporal difference, or the advantage that weights an actor's loss, has a gradient.

    Source: the graph of the loss; Sutton and Barto, semi-gradient methods. Residual gradients are rarely intended.
    """
    for graph in signals.graphs:
        for line, key in (
            (graph.get("bootstrapped"), "health.target_not_detached.graph"),
            (graph.get("advantage"), "health.target_not_detached.advantage"),
        ):
            if line is not None:
                return Outcome("warn", message(key), called_in_sentence(line), place_of(line))
    return None


@check("target_network_never_updated", family="loop-bug", tier=2, needs=("loop",))
def target_network_follows(run: Run, signals: Signals) -> Outcome | None:
    """Whether a copy of the untrained model gives the targets in most steps, on other inputs, and never changes.

    Source: chosen by us (tier 2); over 200 steps. A teacher or reference model is a copy of a trained one, or is given
    what the trained model is given.
    """
    steps = signals.loop.get("steps", 0)
    if steps < _STEPS:
        return None
    for copy in signals.loop.get("copies", []):
        calls, compared = copy.get("steps", 0), copy.get("compared", 0)
        untouched = copy.get("untrained") and not copy.get("changed")
        if untouched and calls > 0.5 * steps and compared >= 16 and not copy.get("equal", 0):
            observed = message("health.target_network_never_updated.unchanged", type=copy.get("type", ""), calls=calls)
            return Outcome("warn", observed)
    return None


@check("reward_falling", family="convergence", tier=2)
def reward_rises(run: Run, signals: Signals) -> Outcome | None:
    """Whether the reward of a policy that acts falls over the whole training.

    Source: chosen by us (tier 2): over at least 8 values, the median of the last third lies 5 % below that of the
    first (Mann-Kendall p < 0.001), or 20 % (p < 0.01): a policy that collapses early stays where it is. One that
    acts with gradients is known by a reward beside a loss that is no loss function; returns may be those of shares.
    """
    words = _REWARDS
    if not acts_in_environment(signals):
        if training_losses(signals) or not signals.graphs:
            return None
        words = _REWARDS - {"return", "returns"}
    for series in run.series:
        kind, values = metric_kind(series.name), finite_points(series)[1]
        is_reward = kind.quantity == "reward" and kind.direction == "max" and bool(words & set(name_words(series.name)))
        if series.source == "probe" or not is_reward or kind.running_best or len(values) < _FEWEST_REWARDS:
            continue
        third = len(values) // 3
        first, last = median(values[:third]), median(values[-third:])
        trend = mann_kendall(values)
        if last < first - (0.05 if trend.falling < _FALLING else 0.2) * abs(first) and trend.falling < _CHANCE:
            observed = message(
                "health.reward_falling.fell", name=series.name, first=first, last=last, values=len(values)
            )
            return Outcome("warn", observed, p=trend.falling)
    return None


@check("adversaries_not_opposed", family="convergence", tier=2, needs=("loss",))
def adversaries_oppose(run: Run, signals: Signals) -> Outcome | None:
    """Whether the losses of all models that are trained in turns fall without limit: what one gains another loses.

    Source: chosen by us (tier 2): each falls (Mann-Kendall p < 1e-6) to under -50 times its level at the beginning, at
    least -50, over at least 50 steps.
    """
    if not has_opposed_optimizers(run, signals):
        return None
    ends: dict[int, float] = {}
    for series in process_series(run, signals, "loss"):
        values = finite_points(series)[1]
        tenth = len(values) // 10
        if tenth < _TENTH or mann_kendall(values).falling > _UNLIMITED:
            return None
        first, last = median(values[:5]), median(values[-tenth:])
        if last > -50 * max(1.0, abs(first)):
            return None
        ends[optimizer_of(series)] = last
    if len(ends) < 2:
        return None
    observed = message("health.adversaries_not_opposed.fall", optimizers=len(ends), losses=[*ends.values()])
    return Outcome("warn", observed)


@check("teacher_in_train_mode", family="loop-bug", tier=2, needs=("loop",))
def teachers_are_fixed(run: Run, signals: Signals) -> Outcome | None:
    """Whether a model with dropout or batch norm that does not change runs in training mode beside the trained one.

    Source: chosen by us (tier 2): called in at least 20 steps, unchanged over at least 5. Averaged copies, which often
    run so on purpose, change in each.
    """
    for teacher in signals.loop.get("teachers", []):
        if not teacher.get("changed") and teacher.get("fixed", 0) >= _FIXED and teacher.get("steps", 0) >= _TAUGHT:
            steps, kind = teacher.get("steps", 0), teacher.get("type", "")
            return Outcome("warn", message("health.teacher_in_train_mode.calls", type=kind, steps=steps))
    return None


@check("policy_ratio_constant", family="loop-bug", tier=2, needs=("graphs", "evaluations"))
def ratio_leaves_one(run: Run, signals: Signals) -> Outcome | None:
    """Whether the ratio of a clipped policy loss is exactly 1 although several steps follow each collection of data.

    Source: Schulman et al. 2017; after the first step on a collection the policy differs from the one that acted. One
    step a collection is intended (GRPO), and accumulation leaves the policy as it was: both are left out.
    """
    steps, backwards = signals.loop.get("steps", 0), signals.loop.get("backwards", 0)
    collections = max((phase.get("phases", 0) for phase in signals.evaluations), default=0)
    for graph in signals.graphs:
        seen = graph.get("ratios", 0)
        if seen >= _RATIOS and graph.get("ratios_one") == seen and backwards <= steps >= 3 * collections:
            observed = message("health.policy_ratio_constant.one", looks=seen, steps=steps, collections=collections)
            return Outcome("warn", observed)
    return None


@check("policy_ratio_inverted", family="loop-bug", tier=2, needs=("graphs",))
def ratio_is_new_over_old(run: Run, signals: Signals) -> Outcome | None:
    """Whether the ratio of a clipped policy loss is exp(old - new), of which the gradient has the opposite sign.

    Source: the graph of the loss: a constant minus what is trained, under `exp`, under `clip`; Schulman et al. 2017.
    """
    line = next((line for graph in signals.graphs if (line := graph.get("inverted")) is not None), None)
    if line is None:
        return None
    return Outcome("warn", message("health.policy_ratio_inverted.swapped"), called_in_sentence(line), place_of(line))


@check("posterior_collapse", family="convergence", tier=2, needs=("modules",))
def posterior_differs_from_prior(run: Run, signals: Signals) -> Outcome | None:
    """Whether the encoder of a variational autoencoder gives the prior, mean 0 and log variance 0, for every sample.

    Source: Bowman et al. 2016, Lucas et al. 2019; chosen by us (tier 2): root mean squares under 0.05 in the last
    3 looks, after 50 steps, which is under 0.002 nats a dimension. A decoder of that width follows in the same model.
    The two layers are known by their names, or by normal random numbers of the shape of their outputs; a layer with
    twice as many features gives both.
    """
    layers = modules_of(signals)
    for heads in _gaussian_heads(signals, layers):
        values = [rms for one in heads if (rms := _largest_rms(one)) is not None]
        if len(values) == len(heads) and max(values) < _PRIOR:
            mean, value = heads[0], max(values)
            if len(heads) == 1:
                observed = message("health.posterior_collapse.one_layer", layer=mean.label, value=value)
            else:
                names = {"mean": mean.label, "variance": heads[1].label}
                observed = message("health.posterior_collapse.prior", **names, value=value)
            return Outcome("warn", observed, where={"module": mean.name})
    return None


@check("loss_term_dominates", family="loop-bug", tier=2, needs=("loss", "losses"))
def terms_are_balanced(run: Run, signals: Signals) -> Outcome | None:
    """Whether one of two loss functions has a weight with which the other one is hardly trained.

    Source: chosen by us (tier 2): the loss is the one plus 100 times the other or more, in the first step and in a
    late one; the one makes under 1 % of it at first, and keeps 80 % of its value while the other falls by half. So is
    the sum of a classifier's loss and an error of a regression a thousand times as large, in other units.
    """
    losses, series = training_losses(signals), process_series(run, signals, "loss")
    if len(losses) != 2 or len(series) != 1 or any(loss.get("reduction") != "mean" for loss in losses):
        return None
    total = series[0].values[0]
    for one, other in (losses, losses[::-1]):
        first, last = one.get("value_first") or 0.0, one.get("value_last") or 0.0
        weighted, final = other.get("value_first") or 0.0, other.get("value_last") or 0.0
        weight = (total - first) / weighted if weighted > 0 else 0.0
        # The last values are those of the last step that was looked at.
        is_sum = any(math.isclose(last + weight * final, value, rel_tol=1e-4) for value in series[0].values[1:])
        kinds = one.get("fn") in (*CLASSIFIERS, *BINARY) and other.get("fn") in REGRESSIONS
        drowns = weight >= _HEAVY or (kinds and total > _LARGER * first and weight > 0.1)
        if is_sum and drowns and 0 < first < 0.01 * total and last > 0.8 * first and final < 0.5 * weighted:
            facts = {"heavy": other.get("fn", ""), "light": one.get("fn", ""), "share": 1 - first / total}
            facts |= {"weight": weight, "first": first, "last": last, "value": weighted}
            observed = message("health.loss_term_dominates.size", **facts)
            if weight >= _HEAVY:
                observed = message("health.loss_term_dominates.weight", **facts)
            return Outcome("warn", observed, called_in_sentence(other.get("line", "")), place_of(other.get("line", "")))
    return None


@check("label_smoothing_too_high", family="loop-bug", tier=2, needs=("losses",))
def labels_stand_out(run: Run, signals: Signals) -> Outcome | None:
    """Whether label smoothing takes more than half of the target away from the label.

    Source: Szegedy et al. 2016, 0.1; half is chosen by us (tier 2). Where the program smooths its targets itself, all
    have one value for the label and one for the rest; the same value for all is meant.
    """
    for loss in training_losses(signals):
        smoothing, classes, line = loss.get("smoothing") or 0.0, loss.get("classes", 0), loss.get("line", "")
        low, high = loss.get("target", {}).get("min"), loss.get("target", {}).get("max")
        if loss.get("soft") and low is not None and high is not None and 0 < low < high:
            smoothing = classes * low if abs(high + (classes - 1) * low - 1) < _ROUNDED else smoothing
        if loss.get("fn") == "cross_entropy" and _MOST_SMOOTHED < smoothing < 1:
            observed = message("health.label_smoothing_too_high.share", smoothing=smoothing, label=1 - smoothing)
            return Outcome("warn", observed, called_in_sentence(line), place_of(line))
    return None


def _gaussian_heads(signals: Signals, layers: tuple[Module, ...]) -> Iterator[tuple[Module, ...]]:
    """The layers that give mean and log variance of a latent code, or the one that gives both."""
    noise = (history for (fn, _), history in functions_of(signals).items() if fn == "noise")
    drawn = {tuple(row.get("shape", ())) for history in noise for _, row in history}
    for mean in layers:
        form, named = _last_form(mean), _MEAN.search(mean.name.lower().rpartition(".")[2]) is not None
        for other in layers if form in drawn or named else ():
            same = all(getattr(other, key) == getattr(mean, key) for key in ("model", "type", "options"))
            named_so = named and _LOG_VARIANCE.search(other.name.lower()) is not None
            beside = form in drawn and other.order == mean.order + 1 and _last_form(other) == form
            if same and (named_so or beside) and _is_decoded(mean, layers, 1):
                yield mean, other
        axis = 2 if len(form) == 3 else 1
        both = len(form) > axis and (*form[:axis], form[axis] / 2, *form[axis + 1 :]) in drawn
        if both and _is_decoded(mean, layers, 2):
            yield (mean,)


def _last_form(layer: Module) -> tuple[int, ...]:
    return tuple(layer.history[-1][1].get("shape", ())) if layer.history else ()


def _is_decoded(head: Module, layers: tuple[Module, ...], parts: int) -> bool:
    """Whether a later layer takes as many features as each of the `parts` has that a layer gives."""
    given = head.options.get("out_features", head.options.get("out_channels"))
    taken = [one.options.get("in_features", one.options.get("in_channels")) for one in layers if one.order > head.order]
    return given is not None and given // parts in taken


def _largest_rms(layer: Module) -> float | None:
    """The largest root mean square of a layer's output in its last looks; `None` before it was trained."""
    looks = [row for step, row in layer.history if step >= _TRAINED][-_LOOKS:]
    values = [math.hypot(row.get("mean") or 0.0, row.get("std") or math.inf) for row in looks]
    return max(values) if len(values) == _LOOKS else None


@check("class_weights_inverted", family="loop-bug", tier=2, needs=("losses",))
def rare_classes_weigh_more(run: Run, signals: Signals) -> Outcome | None:
    """Whether the weights of the classes grow with their frequencies, as counts in place of their reciprocals do.

    Source: torch.nn.BCEWithLogitsLoss, `pos_weight` is negatives / positives. Chosen by us: weights go with the
    frequencies to the power of 2/3 to 3/2, and the frequencies differ 10 times. A single weight that is small on
    purpose, as of a class of leftovers or for a better precision, is hardly as small as that.
    """
    loss, counts = find_classifier(signals), labels_of_loss(run, signals)
    weights = {} if loss is None else dict(enumerate(loss.get("class_weights") or ()))
    total = sum(counts.values())
    if loss is None or total < 500 or {*map(str, weights)} != {*counts} or min(weights.values()) <= 0:
        return None
    shares = {name: counts[str(name)] / total for name in weights}
    rare, frequent = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    slope = theil_sen(*([math.log(of[name]) for name in shares] for of in (shares, weights)))
    ends = [weights[rare], weights[frequent]]
    is_inverted = ends == [min(weights.values()), max(weights.values())] and 2 / 3 <= slope <= 3 / 2
    if not is_inverted or shares[frequent] < 10 * shares[rare]:
        return None
    facts = {"rare": rare, "rare_share": shares[rare], "rare_weight": weights[rare]}
    facts |= {"frequent": frequent, "frequent_share": shares[frequent], "frequent_weight": weights[frequent]}
    observed, line = message("health.class_weights_inverted.rising", **facts), loss.get("line", "")
    return Outcome("warn", observed, called_in_sentence(line), place_of(line))
