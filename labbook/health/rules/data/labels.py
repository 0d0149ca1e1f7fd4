"""Checks of labels: within the head, more than one class, balanced, the same for the same input."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

from labbook.health.evidence.layer_history import modules_of, roots_of
from labbook.health.evidence.measurements import called_in_sentence, join_names, place_of, too_few_data, unobserved
from labbook.health.evidence.regression_outputs import one_a_sample, target_of
from labbook.health.evidence.training_batches import has_distinct_fingerprints
from labbook.health.evidence.training_kind import (
    BINARY,
    CLASSIFIERS,
    REGRESSIONS,
    acts_in_environment,
    has_opposed_optimizers,
    ignored_labels,
    is_contrastive,
    training_losses,
)
from labbook.health.evidence.trend_tests import binomial_at_least, mean
from labbook.model.check import Outcome, check
from labbook.model.events.data_kinds import Batch, Leaf
from labbook.model.events.training_kinds import LossCall
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_LABELS = 500
_LOOKS = 3
_CERTAIN = 0.001
_RARE = 30
_MOST_NUMBERS = 100
_LONG_TAIL = 50
_SEGMENTS = 2
"""Rows of an embedding for the kind of a token, as of the two sentences of BERT: no vocabulary."""


def label_counts(signals: Signals, phase: str = "train") -> Counter[str]:
    """Returns how often each class was seen in a phase: in its longest epoch, else in the inspected batches."""
    epochs = [e for e in signals.prints if e.get("phase") == phase]
    # Without a loader, whole numbers among the arguments of a model, as lengths of sequences, pass for labels.
    loaded = [e.get("histogram", {}) for e in epochs if e.get("loader") is not None]
    counts = loaded if any(loaded) else [e.get("histogram", {}) for e in epochs]
    longest: Mapping[str, int] = max(counts, key=lambda h: sum(h.values()), default={})
    seen = Counter(longest)
    if not seen:
        loss = find_classifier(signals)
        for batch in signals.batches:
            if batch.get("phase") == phase and not _is_of_another_loss(batch, loss):
                seen.update(batch.get("labels", {}).get("histogram", {}))
    for ignored in ignored_labels(signals):
        seen.pop(ignored, None)
    return Counter() if phase == "train" and _are_inputs(seen, signals) else seen


def _is_of_another_loss(batch: Batch, loss: LossCall | None) -> bool:
    """Whether a batch has targets of more classes than the classifier's loss, as one of another phase."""
    classes = 0 if loss is None or loss.get("outside") else loss.get("classes", 0)
    targets = [leaf for leaf in batch.get("leaves", []) if leaf.get("role") == "label"]
    return classes > 0 and any(leaf.get("integer") and (leaf.get("max") or 0) >= classes for leaf in targets)


def _are_inputs(seen: Iterable[str], signals: Signals) -> bool:
    """Whether whole numbers are no labels but inputs, as the ids of users: the loss got none so large."""
    loss = find_classifier(signals)
    if loss is None or loss.get("outside", 0) or loss.get("fn") not in (*CLASSIFIERS, *BINARY):
        return False
    classes = 2 if loss.get("fn") in BINARY else loss.get("classes", 0)
    return classes > 0 and any(name.isdigit() and int(name) >= classes for name in seen)


def _binary_counts(run: Run, signals: Signals) -> Counter[str]:
    """How often 0 and 1 were seen where a binary loss is given them as floating point numbers, one a sample.

    Only in the batches that were inspected, and only where there was nothing but 0 and 1: then the share of zeros and
    the mean add up to 1. The targets of a generator and its critic are no classes.
    """
    seen: Counter[str] = Counter()
    if has_opposed_optimizers(run, signals):
        return seen
    for batch in signals.batches:
        target = target_of(batch)
        if target is None or target.get("integer"):
            continue
        zeros, share, samples = target.get("zero"), target.get("mean"), batch.get("samples", 0)
        if not one_a_sample(batch, target) or zeros is None or share is None or abs(zeros + share - 1) > 1e-4:
            return Counter()
        if not {target.get("min"), target.get("max")} <= {0.0, 1.0}:
            return Counter()
        seen.update({"0": round(zeros * samples), "1": round(share * samples)})
    return +seen


def find_classifier(signals: Signals) -> LossCall | None:
    """The classifier's loss of this training, for one label a sample."""
    # The largest batch: phases may have batches of their own sizes.
    samples = max((b.get("samples", 0) for b in signals.batches if b.get("phase") == "train"), default=0)
    for loss in training_losses(signals):
        form = loss.get("target", {}).get("shape", ())
        # PaddlePaddle's own style is a column of labels, one a row.
        single = all(n == 1 for n in form[1:]) and not (form and samples > 0 and form[0] > 1.5 * samples)
        if loss.get("fn") in CLASSIFIERS and single and not loss.get("soft"):
            return loss
        if loss.get("fn") in BINARY:
            return loss
    return None


@check("label_out_of_head", family="data", tier=1, needs=("losses",))
def labels_in_range(run: Run, signals: Signals) -> Outcome | None:
    """Whether targets lie outside the classes of the head, or of [0, 1] for binary losses.

    Source: a logical invariant (tier 1). Targets like 1.2 are usual between adversaries.
    """
    found: Outcome | None = None
    ends: list[float] = []
    hidden = message("health.not_observed.no_classifier")
    for loss in training_losses(signals):
        fn, classes = loss.get("fn", ""), loss.get("classes", 0)
        if fn not in (*CLASSIFIERS, *BINARY):
            continue
        low, high = loss.get("target", {}).get("min"), loss.get("target", {}).get("max")
        limits = None
        if low is not None and high is not None:
            limits = message("health.range", low=low, high=high)
            if loss.get("ignored"):
                limits = message("health.label_out_of_head.with_ignored", limits=limits, share=loss["ignored"])
        expected = message("health.range", low=0, high=1) if loss.get("soft") else _valid_labels(fn, classes)
        if loss.get("outside", 0) and not (fn in BINARY and has_opposed_optimizers(run, signals)):
            known = limits or message("health.label_out_of_head.not_measured")
            observed = message("health.label_out_of_head.outside", bad=loss.get("outside", 0), limits=known)
            return Outcome(
                "fail",
                observed,
                called_in_sentence(loss.get("line", "")),
                place_of(loss.get("line", "")),
                expected=expected,
            )
        if limits is not None and low is not None and high is not None:
            if found is None or (found.expected == expected and not loss.get("ignored")):
                # One call for real and one for generated samples: 1 to 1 and 0 to 0.
                ends += (low, high)
                limits = message("health.range", low=min(ends), high=max(ends)) if found else limits
                found = Outcome("ok", limits, expected=expected)
        else:
            hidden = message("health.label_out_of_head.not_measured")
    return found or unobserved(hidden)


def _valid_labels(fn: str, classes: int) -> Message | None:
    if fn in BINARY:
        return message("health.range", low=0, high=1)
    return message("health.range", low=0, high=classes - 1) if classes else None


@check("label_constant", family="data", tier=1, needs=("losses",))
def labels_vary(run: Run, signals: Signals) -> Outcome | None:
    """Whether all of at least 500 labels are one class, or one number that the outputs of a regression approach.

    Source: a logical invariant (tier 1); TheDeepChecker target_constant. Labels of contrastive losses are constant by
    design, so those of the data have to be, too. Targets of all binary losses and all masks together are judged from
    5 calls on, unless networks play against each other.
    """
    binary = [one for one in training_losses(signals) if one.get("fn") in BINARY or _has_masks(one)]
    ends = {one.get("target", {}).get(end) for one in binary for end in ("min", "max")}
    labels = sum(one.get("items", 0) * one.get("observed", 0) for one in binary)
    seen = sum(one.get("observed", 0) for one in binary)
    alone = len(binary) == len(training_losses(signals)) and not has_opposed_optimizers(run, signals)
    if alone and len(ends) == 1 and ends <= {0.0, 1.0} and seen >= 5 and labels >= _LABELS:
        value, index, share = ends.pop(), binary[0].get("ignore_index"), binary[0].get("ignored", 0.0)
        key = "health.label_constant.all" if index is None else "health.label_constant.counted"
        observed = message(key, labels=labels, value=value, index=index or 0, share=share)
        return Outcome("fail", observed, called_in_sentence(binary[0].get("line", "")))
    if constant := _learns_constant(run, signals):
        return constant
    loss, counts = find_classifier(signals), label_counts(signals)
    if loss is None or sum(counts.values()) < _LABELS:
        return None
    low, high = loss.get("target", {}).get("min"), loss.get("target", {}).get("max")
    if len(counts) == 1 and low is not None and low == high and not _is_first_column(signals, loss):
        labels, value = sum(counts.values()), next(iter(counts))
        return Outcome(
            "fail",
            message("health.label_constant.all", labels=labels, value=value),
            called_in_sentence(loss.get("line", "")),
        )
    return None


def _has_masks(loss: LossCall) -> bool:
    """Whether the targets of a classifier's loss are images of classes."""
    return loss.get("fn") in CLASSIFIERS and len(loss.get("target", {}).get("shape", ())) > 2


def _learns_constant(run: Run, signals: Signals) -> Outcome | None:
    """The outcome where the only loss is a regression on one number, whose outputs end a tenth as far from it.

    A residual of an equation is set against 0 as well, but then it is not what the model returns that becomes 0.
    """
    losses = training_losses(signals)
    target = losses[0].get("target", {}) if len(losses) == 1 and losses[0].get("fn") in REGRESSIONS else {}
    value, labels = target.get("min"), losses[0].get("items", 0) * losses[0].get("observed", 0) if losses else 0
    if value is None or value != target.get("max") or labels < _LABELS or has_opposed_optimizers(run, signals):
        return None
    for root in roots_of(signals):
        looks = [row for _, row in root.history if row.get("shape") == target.get("shape")]
        ends = [(row.get("min"), row.get("max")) for row in looks]
        far = [max(abs(low - value), abs(high - value)) for low, high in ends if low is not None and high is not None]
        if len(far) >= _LOOKS and max(far[-_LOOKS:]) < 0.1 * far[0]:
            observed = message("health.label_constant.all", labels=labels, value=value)
            return Outcome("fail", observed, called_in_sentence(losses[0].get("line", "")))
    return None


def _is_first_column(signals: Signals, loss: LossCall) -> bool:
    """Whether the scores of a loss are put together by hand, so that class 0 is the column of the positives.

    Then no layer is as wide as there are classes: a similarity to the positive, and those to a queue of negatives.
    """
    widths = {m.options.get(name) for m in modules_of(signals) for name in ("out_features", "out_channels")} - {None}
    return loss.get("target", {}).get("max") == 0 and bool(widths) and loss.get("classes") not in widths


@check("regression_loss_for_classes", family="loop-bug", tier=3, needs=("losses",))
def classes_have_their_loss(run: Run, signals: Signals) -> Outcome | None:
    """Whether probabilities of a sigmoid or softmax are fitted to 0 and 1 by a mean squared or absolute error.

    Source: a hint (tier 3); the gradient vanishes where the answer is certain and wrong. All outputs lie between 0 and
    1, and each sample has a target of only 0 and 1, or a row of them; networks that play against each other do so too.
    No sigmoid or softmax returns exactly 0: then the outputs are rates of spikes, or clamped.
    One number a sample that is fitted to few whole numbers from 0 or 1 on may be a count or a grade: a finding only
    where the program computes an accuracy (`checklist`). Beside the loss of a policy they are rewards.
    """
    if (
        has_opposed_optimizers(run, signals)
        or acts_in_environment(signals)
        or any(graph.get("ratios") for graph in signals.graphs)
    ):
        return None
    pairs = [(b, target) for b in signals.batches if (target := target_of(b)) is not None]
    given = [loss for loss in training_losses(signals) if all(_may_be_given(loss, target) for _, target in pairs)]
    # Of several losses in a step, only the targets of the first are seen.
    for loss in given if all(loss.get("fn") in REGRESSIONS for loss in given) else ():
        targets, key = [target for _, target in pairs], ""
        is_probability = (loss.get("unit_range") or 0.0) >= 1.0 and loss.get("input", {}).get("min") != 0.0
        if is_probability and all(_is_binary(target) for target in targets):
            key = "health.regression_loss_for_classes.binary"
        low = min((t.get("min") or 0 for t in targets), default=0)
        if not key and low <= 1 and all(_is_class_number(batch, target) for batch, target in pairs):
            key = "health.regression_loss_for_classes.numbers"
        if key and len(targets) >= _LOOKS:
            values = {"low": low, "high": max(t.get("max") or 0 for t in targets)}
            observed = message(key, function=loss.get("fn", ""), **(values if key.endswith("numbers") else {}))
            return Outcome("note", observed, called_in_sentence(loss.get("line", "")), place_of(loss.get("line", "")))
    return None


def _may_be_given(loss: LossCall, target: Leaf) -> bool:
    """Whether a target lies in the range of those that a loss was given."""
    low, high = loss.get("target", {}).get("min"), loss.get("target", {}).get("max")
    if low is None or high is None:
        return True
    return low <= target.get("min", low) and target.get("max", high) <= high


def _is_class_number(batch: Batch, target: Leaf) -> bool:
    """Whether a target holds one whole number from 0 on for each sample, of at most `_MOST_NUMBERS`.

    That the values between the least and the largest are whole is known by their sum.
    """
    low, high, mean_, samples = target.get("min"), target.get("max"), target.get("mean"), batch.get("samples", 0)
    if low is None or high is None or mean_ is None or not one_a_sample(batch, target):
        return False
    whole = [low, high, mean_ * samples]
    return 0 <= low < high <= _MOST_NUMBERS and all(abs(value - round(value)) < 1e-3 for value in whole)


def _is_binary(target: Leaf) -> bool:
    """Whether a target holds nothing but 0 and 1, at most a row of a few for each sample."""
    zeros, share, form = target.get("zero"), target.get("mean"), target.get("shape", ())
    if zeros is None or share is None or len(form) > 2 or math.prod(form[1:]) > _LONG_TAIL:
        return False
    return abs(zeros + share - 1) < 1e-4 and {target.get("min"), target.get("max")} <= {0.0, 1.0}


@check("class_imbalance", family="data", tier=2, needs=("losses",))
def classes_balanced(run: Run, signals: Signals) -> Outcome | None:
    """Whether one class is far more frequent than another. Data are often skewed: a note from 10 times on.

    Source: SageMaker ClassImbalance (10 times after 500 labels, or as soon as a binomial test rules out that it is
    less); a warning where one class is over 90 %, or 30 times another of at most 50, is chosen by us: products have
    long tails. A loss with weights takes it into account already, and the losses of single samples (`reduction="none"`)
    may be weighted by the program, as a focal loss is. Words that an embedding has, too, are no classes.
    """
    loss, counts = find_classifier(signals), labels_of_loss(run, signals)
    # Several calls a step, as one for each time: what was counted are the labels of one of them. A static graph counts
    # no backward passes.
    if loss is not None and loss.get("calls", 0) >= 2 * (signals.loop.get("backwards") or math.inf):
        return unobserved(message("health.not_observed.labels_per_sample"))
    total = sum(counts.values())
    if loss is None:
        called = any(one.get("fn") in (*CLASSIFIERS, *BINARY) for one in training_losses(signals))
        several = message("health.not_observed.labels_per_sample")
        return unobserved(several if called else message("health.not_observed.no_classifier"))
    tables = {m.options.get("num_embeddings") for m in modules_of(signals) if "Embedding" in m.type}
    if loss.get("classes", 0) > _SEGMENTS and loss.get("classes") in tables:
        return unobserved(message("health.not_observed.vocabulary"))
    if is_contrastive(loss):  # the labels of the data are not those of the loss
        return unobserved(message("health.not_observed.no_labels"))
    if loss.get("fn") in BINARY and not total:
        return unobserved(message("health.not_observed.no_binary_labels"))
    if not total:
        return unobserved(message("health.not_observed.no_labels"))
    if total >= 100 and len(counts) == 1:
        return unobserved(message("health.class_imbalance.one_class", labels=total))
    if total < 100:
        return too_few_data(total, 100, "health.too_few.labels")
    most, least = max(counts.values()), min(counts.values())
    share = most / total
    seen = {"classes": len(counts), "low": least / total, "high": share, "labels": total}
    observed = message("health.class_imbalance.shares", **seen)
    certain = total >= _LABELS or 1 - binomial_at_least(least + 1, most + least, 1 / 11) < _CERTAIN
    if most <= 10 * least or not certain:
        return Outcome("ok", observed)
    if loss.get("weight"):
        return Outcome("ok", message("health.class_imbalance.weighted", shares=observed))
    rare = [name for name, n in counts.most_common()[::-1] if n * 10 < most]
    evidence = (message("health.class_imbalance.rare", names=join_names(rare)),)
    rarely = most > _RARE * least and len(counts) <= _LONG_TAIL
    is_weighted_later = loss.get("reduction") == "none"
    return Outcome("warn" if (share > 0.9 or rarely) and not is_weighted_later else "note", observed, evidence)


def labels_of_loss(run: Run, signals: Signals) -> Counter[str]:
    """How often each class was seen; of a binary loss its targets, as integers of the data may be the ids of users."""
    loss, counts = find_classifier(signals), label_counts(signals)
    return _binary_counts(run, signals) or counts if loss is not None and loss.get("fn") in BINARY else counts


@check("batches_sorted_by_label", family="loop-bug", tier=2, needs=("prints",))
def labels_mixed(run: Run, signals: Signals) -> Outcome | None:
    """Whether batches hold far fewer classes than the data, and neighbouring batches the same ones.

    Source: mean entropy of a batch under half of that of all labels; sampled batches of few classes (metric learning)
    follow each other at random and are left out.
    """
    for event in signals.prints:
        pairs = event.get("labels", ())
        counts = event.get("histogram", {})
        total, batches = sum(counts.values()), len(pairs)
        if event.get("phase") != "train" or batches < 8 or len(counts) < 2 or total < 8 * batches:
            continue
        entropy = -sum(n / total * math.log(n / total) for n in counts.values())
        size = total / max(1, event.get("batches", 0) or batches)
        wanted = max(0.3 * entropy, entropy - (len(counts) - 1) / (2 * size))
        seen = mean([p[0] for p in pairs])
        alike = sum(a[1] == b[1] for a, b in pairwise(pairs)) / (batches - 1)
        chance = sum((n / total) ** 2 for n in counts.values())
        ordered = [str(p[1]) for p in pairs] == sorted((str(p[1]) for p in pairs), key=_natural)
        observed = message("health.batches_sorted_by_label.entropy", batch=seen, all=entropy)
        if seen < 0.5 * wanted and (ordered or alike > min(0.9, chance + 0.3)):
            evidence = message("health.batches_sorted_by_label.neighbours", share=alike)
            return Outcome("fail", observed, (evidence,))
        return Outcome("ok", observed)
    return None


def _natural(name: str) -> tuple[int, str]:
    return (int(name), "") if name.lstrip("-").isdigit() else (0, name)


@check("conflicting_labels", family="data", tier=2, needs=("prints",))
def labels_consistent(run: Run, signals: Signals) -> Outcome | None:
    """Whether the same sample was seen with different labels. Small discrete inputs may repeat with either.

    Source: deepchecks ConflictingLabels (tier 2); over 20 % of at least 20 repeated samples of at least 8 numbers.
    """
    labels: dict[tuple[str, str], set[str]] = {}
    times: Counter[tuple[str, str]] = Counter()
    for event in signals.prints:
        for row in event.get("rows", []) if event.get("phase") == "train" else []:
            if len(row) == 2:
                # Another loader may be for another task.
                sample = (str(event.get("loader")), row[0])
                labels.setdefault(sample, set()).add(str(row[1]))
                times[sample] += 1
    repeated = [name for name, n in times.items() if n > 1]
    if len(repeated) < 20 or not has_distinct_fingerprints(signals):
        return None
    conflicting = sum(len(labels[name]) > 1 for name in repeated)
    if conflicting <= 0.2 * len(repeated):
        return None
    observed = message("health.conflicting_labels.found", bad=conflicting, repeated=len(repeated))
    return Outcome("fail", observed)
