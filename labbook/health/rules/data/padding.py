"""Checks of padding and attention: what is out of loss and attention, and whether attention tells its keys apart."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from labbook.health.evidence.layer_history import functions_of, modules_of, parameters_of
from labbook.health.evidence.measurements import called_in_sentence, place_of
from labbook.health.evidence.regression_outputs import target_of
from labbook.health.evidence.training_batches import input_leaves
from labbook.health.evidence.training_kind import CLASSIFIERS, has_fallen, training_loss, training_losses
from labbook.health.evidence.trend_tests import median
from labbook.health.rules.data.sequence_targets import is_over_sequence, real_paddings, sequence_ahead
from labbook.model.check import Outcome, check
from labbook.model.events.inspection_kinds import FunctionInspection
from labbook.model.events.training_kinds import LossCall
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_LOOKS = 3
_PADDED = 0.05
_MOSTLY = 0.2
_HALF = 0.5
_IGNORED = 0.02
_FALLEN = 0.9
_SMALL = 0.05
_STEPS = 200
_OF_POSITIONS = re.compile(r"pos|place|wpe|(?:^|[._])pe(?:$|[._])", re.IGNORECASE)


@check("padding_ratio_high", family="data", tier=3, needs=("batches",))
def little_padding(run: Run, signals: Signals) -> Outcome | None:
    """Whether most token ids are 0. Source: a hint (tier 3); SageMaker NLPSequenceRatio, 50 %."""
    if not any("embedding" in module.type.lower() for module in modules_of(signals)):
        return None
    for path, looks in input_leaves(signals).items():
        shares = [
            zero for _, _, leaf in looks
            if leaf.get("integer") and len(leaf.get("shape", ())) == 2 and leaf.get("shape", ())[1] >= 8
            and (leaf.get("max") or 0.0) > 2 and (zero := leaf.get("zero")) is not None
        ]  # fmt: skip
        if len(shares) >= 3 and median(shares) > 0.5:
            observed = message("health.padding_ratio_high.zeros", share=median(shares), path=path)
            return Outcome("note", observed)
    return None


@check("padding_in_loss", family="data", tier=2, needs=("losses", "models"))
def padding_left_out(run: Run, signals: Signals) -> Outcome | None:
    """Whether padding of target sequences counts in the loss as a word to be predicted.

    Source: chosen by us (tier 2): an embedding declares `padding_idx`, the classes of the loss are its words, the
    target has several tokens a sample, that index is over a twentieth of them, and no index or weight leaves it out.
    Tags of tokens: class 0 is as frequent in each batch as word 0, the padding, which no other tag would be. Without an
    embedding that declares it: they are over a fifth, and not as many classes as words, as of copies of the input; or
    over half, and the next words of inputs whose rows end in as many zeros; or one class is as frequent in each batch
    as the zeros of the attention mask.
    """
    tokens = real_paddings(signals)
    pads = {
        (int(m.options["padding_idx"]), int(m.options["num_embeddings"]))
        for m in modules_of(signals)
        if m.options.get("padding_idx") is not None and m.options.get("num_embeddings") is not None
        if m.options["padding_idx"] not in tokens
    }
    samples = median([s for b in signals.batches if b.get("phase") == "train" and (s := b.get("samples", 0))])
    for loss in training_losses(signals):
        target = loss.get("target", {}).get("shape", ())
        several = math.prod(target) >= 3 * samples > 0
        if loss.get("fn") not in CLASSIFIERS or loss.get("weight") or not several or loss.get("reduction") == "none":
            continue
        line = loss.get("line", "")
        masked = _masked_padding(signals, loss)
        if masked is not None:
            observed = message("health.padding_in_loss.masked", share=masked[1], index=masked[0])
            return Outcome("warn", observed, called_in_sentence(line), place_of(line))
        if loss.get("ignored"):
            continue
        counts = Counter(_labels_of_batches(signals))
        for pad, words in pads:
            zeros = loss.get("target", {}).get("zero") if pad == 0 else None  # batches may have other labels beside
            share = counts[str(pad)] / max(1, sum(counts.values())) if zeros is None else zeros
            if words == loss.get("classes") and share > _PADDED:
                observed = message("health.padding_in_loss.share", share=share, index=pad)
                return Outcome("warn", observed, called_in_sentence(line), place_of(line))
        sizes = {m.options.get("num_embeddings") for m in modules_of(signals)} - {None}
        if loss.get("classes") in sizes and (share := _padding_ahead(signals)) > _HALF:
            observed = message("health.padding_in_loss.share", share=share, index=0)
            return Outcome("warn", observed, called_in_sentence(line), place_of(line))
        declared = any(pad == 0 for pad, _ in pads)
        if loss.get("classes", 0) <= 2 or not (declared or (sizes and loss.get("classes") not in sizes)):
            continue
        tagged = _tagged_padding(signals, target)
        if tagged > (_PADDED if declared else _MOSTLY):
            observed = message("health.padding_in_loss.tags", share=tagged)
            return Outcome("warn", observed, called_in_sentence(line), place_of(line))
    return None


@check("class_ignored", family="data", tier=2, needs=("losses", "batches"))
def classes_count_in_loss(run: Run, signals: Signals) -> Outcome | None:
    """Whether `ignore_index` leaves a class of the head out of the loss of a classifier with one label a sample.

    Source: chosen by us (tier 2): over a fiftieth of the labels. Tokens and pixels have a class for what does not
    count, also where a decoder predicts one token a call: several calls a backward pass, or as many classes as an
    embedding has words. One of several losses may have samples without a label.
    """
    losses = training_losses(signals)
    words = {m.options.get("num_embeddings") for m in modules_of(signals)}
    calls = 2 * (signals.loop.get("backwards") or math.inf)
    samples = median([s for b in signals.batches if b.get("phase") == "train" and (s := b.get("samples", 0))])
    for loss in losses if len(losses) == 1 else ():
        index, share = loss.get("ignore_index"), loss.get("ignored") or 0.0
        alone = loss.get("fn") in CLASSIFIERS and 0 < math.prod(loss.get("target", {}).get("shape", ())) <= samples
        alone = alone and loss.get("calls", 0) < calls and loss.get("classes") not in words
        if alone and index is not None and 0 <= index < loss.get("classes", 0) and share > _IGNORED:
            observed = message("health.class_ignored.left_out", share=share, index=index)
            return Outcome("warn", observed, called_in_sentence(loss.get("line", "")), place_of(loss.get("line", "")))
    return None


def _padding_ahead(signals: Signals) -> float:
    """The share of the targets that are 0, where they are the next tokens of rows that end in zeros; else 0."""
    shares = [
        zeros
        for batch in signals.batches
        if (target := target_of(batch)) is not None and (zeros := target.get("zero")) is not None
        for leaf in batch.get("leaves", [])
        if leaf.get("ahead") == 1 and 0 < leaf.get("padded", 0.0) <= zeros + _PADDED
    ]
    return median(shares) if len(shares) >= _LOOKS else 0.0


def _masked_padding(signals: Signals, loss: LossCall) -> tuple[str, float] | None:
    """The class that represents the positions hidden by a mask over tokens, and its share of the targets.

    A language model shifts the targets by one position and leaves one a sample out.
    """
    classes: set[str] = set()
    shares: list[float] = []
    for batch in signals.batches:
        leaves, counts = batch.get("leaves", []), batch.get("labels", {}).get("histogram", {})
        tokens = {leaf.get("shape", ()) for leaf in leaves if leaf.get("integer") and (leaf.get("max") or 0) > 1}
        masks = [
            (form, share)
            for leaf in leaves
            if leaf.get("role") == "input" and leaf.get("min") == 0 and leaf.get("max") == 1
            if len(form := leaf.get("shape", ())) == 2
            and form in tokens
            and (share := leaf.get("zero") or 0.0) > _PADDED
        ]
        if batch.get("phase") != "train" or not masks or not counts:
            continue
        (_, length), share = masks[0]
        total = sum(counts.values())
        near = {c for c, count in counts.items() if abs(count / total - share) <= 1 / length and int(c) >= 0}
        if (loss.get("ignored") or 0.0) > 1 / length or not near:
            return None
        classes = classes & near if shares else near
        shares.append(share)
    return (min(classes), median(shares)) if len(set(shares)) >= _LOOKS and len(classes) == 1 else None


def _tagged_padding(signals: Signals, form: Sequence[int]) -> float:
    """Returns the share of class 0 in the targets if it surely is that of the padding of the tokens, else 0."""
    shares: list[float] = []
    for batch in signals.batches:
        target = target_of(batch)
        zeros = target.get("zero") if target is not None else None
        if target is None or zeros is None or math.prod(target.get("shape", ())) != math.prod(form):
            continue
        tokens = (
            leaf
            for leaf in batch.get("leaves", [])
            if leaf.get("role") == "input"
            and leaf.get("integer")
            and math.prod(leaf.get("shape", ())) == math.prod(form)
        )
        if not any(leaf.get("zero") == zeros for leaf in tokens):
            return 0.0
        shares.append(zeros)
    return median(shares) if len(set(shares)) >= _LOOKS else 0.0


def _labels_of_batches(signals: Signals) -> Counter[str]:
    seen: Counter[str] = Counter()
    for batch in signals.batches:
        if batch.get("phase") == "train":
            seen.update(batch.get("labels", {}).get("histogram", {}))
    return seen


@check("attention_mask_inverted", family="loop-bug", tier=2, needs=("batches", "tensors"))
def mask_hides_padding(run: Run, signals: Signals) -> Outcome | None:
    """Whether a mask of an attention or of a mean over time leaves exactly the padding: one token, hidden nowhere.

    Source: chosen by us (tier 2), in at least 3 looks and all of them; their number differs between samples.
    """
    rows = [row for event in signals.tensors for row in event.get("functions", [])]
    rows = [row for row in rows if row.get("padding_only") is not None]
    looks = [row for row in rows if row.get("fn") != "pooling"]
    if _only_padding(looks):
        return Outcome("warn", message("health.attention_mask_inverted.padding", looks=len(looks)))
    looks = [row for row in rows if row.get("fn") == "pooling"]
    if _only_padding(looks):
        line = looks[-1].get("line", "")
        observed = message("health.attention_mask_inverted.pooling", looks=len(looks))
        return Outcome("warn", observed, called_in_sentence(line), place_of(line))
    return None


def _only_padding(looks: Sequence[FunctionInspection]) -> bool:
    return len(looks) >= _LOOKS and all(row["padding_only"] for row in looks)


@check("attention_mask_multiplied", family="loop-bug", tier=1, needs=("tensors",))
def mask_is_below_scores(run: Run, signals: Signals) -> Outcome | None:
    """Whether what is added to the scores of an attention is zeros and ones, which hide nothing.

    Source: a logical invariant (tier 1), in at least 3 looks and all of them: a weight is at most 2.7 times another.
    """
    looks = [row.get("flags") for event in signals.tensors for row in event.get("functions", [])]
    known = [look for look in looks if look is not None]
    if len(known) < _LOOKS or not all(known):
        return None
    return Outcome("warn", message("health.attention_mask_multiplied.flags", looks=len(known)))


@check("attention_over_padding", family="loop-bug", tier=2, needs=("batches", "tensors"))
def padding_is_masked(run: Run, signals: Signals) -> Outcome | None:
    """Whether attention without any mask runs over sequences that an embedding says are padded.

    Source: chosen by us (tier 2), in at least 3 looks and all of them: an embedding declares `padding_idx` 0, and
    between 5 and 95 % of the tokens are 0, in each batch another share.
    """
    if not any(m.options.get("padding_idx") == 0 for m in modules_of(signals)):
        return None
    looks, shares = _attention_looks(signals), []
    for batch in signals.batches:
        for leaf in batch.get("leaves", []):
            form, share = leaf.get("shape", ()), leaf.get("zero")
            if leaf.get("role") != "input" or not leaf.get("integer") or len(form) != 2 or share is None:
                continue
            if leaf.get("min", 0.0) < 0 or leaf.get("max", 2.0) <= 1:  # labels with -100; masks, segments
                continue
            # A token for the whole sequence may have been put in front.
            masked = {m for length, m in looks.get(batch.get("step", 0), ()) if {length, length - 1} & {*form}}
            if True in masked:
                return None
            shares += [share] * len(masked)
    if len(set(shares)) < _LOOKS or not all(_PADDED < share < 1 - _PADDED for share in shares):
        return None
    share = sum(shares) / len(shares)
    return Outcome("warn", message("health.attention_over_padding.unmasked", looks=len(shares), share=share))


@check("attention_uniform", family="loop-bug", tier=2, needs=("tensors",))
def attention_selects(run: Run, signals: Signals) -> Outcome | None:
    """Whether an attention gives all keys the same weight, step after step: its queries or keys are 0 or all equal.

    Source: chosen by us (tier 2), in at least 3 looks and all of them. The weights are equal to within 1e-6.
    """
    for (_, line), history in functions_of(signals).items():
        looks = [row["even"] for _, row in history if row.get("even") is not None]
        if len(looks) >= _LOOKS and all(looks):
            observed = message("health.attention_uniform.equal", looks=len(looks))
            return Outcome("warn", observed, called_in_sentence(line), place_of(line))
    return None


@check("positions_missing", family="loop-bug", tier=2, needs=("batches", "tensors"))
def order_is_seen(run: Run, signals: Signals) -> Outcome | None:
    """Whether the first attention gives equal tokens equal weights wherever they are: the model has no positions.

    Source: Vaswani et al. 2017, 3.5; chosen by us (tier 2): in at least 3 looks and all of them. A causal mask shows
    the order to later layers, so that a decoder can do without positions (Kazemnejad et al. 2023): a note. So it is
    where the loss falls and no parameter is named after positions: such a task does not need the order.
    """
    for (_, line), history in functions_of(signals).items():
        looks = [row for _, row in history if row.get("unordered") is not None]
        # Queries of another number are no tokens: learned ones that read a set, as in Perceiver.
        rows = [row for row in looks if len(form := row.get("shape", ())) > 1 and form[-1] == form[-2]]
        if len(rows) < _LOOKS or not all(row.get("unordered") for row in rows):
            continue
        is_causal = any(row.get("masked") or row.get("ahead") is not None for row in rows)
        observed = message("health.positions_missing.equal", looks=len(rows))
        place = (called_in_sentence(line), place_of(line)) if line else ()
        has_positions = any(_OF_POSITIONS.search(p.name) for p in parameters_of(signals))
        is_needless = not has_positions and has_fallen(run, signals, _FALLEN)
        return Outcome("note" if is_causal or is_needless else "warn", observed, *place)
    return _judge_small_positions(run, signals)


def _judge_small_positions(run: Run, signals: Signals) -> Outcome | None:
    """Positions that move keys by under a twentieth of what other tokens do, while the loss does not halve.

    Source: chosen by us; in the last 3 looks, after 200 steps and without a mask. A table that begins at 0 grows first.
    """
    looks = [row for event in signals.tensors for row in event.get("functions", []) if row.get("fn") == "attention"]
    shares = [share for row in looks if (share := row.get("placed")) is not None]
    is_masked = any(row.get("masked") or row.get("ahead") is not None for row in looks)
    last = max(shares[-_LOOKS:], default=1.0)
    if len(shares) < _LOOKS or is_masked or not 0 < last < _SMALL or signals.loop.get("steps", 0) < _STEPS:
        return None
    loss = training_loss(run, signals)
    if isinstance(loss, Message) or has_fallen(run, signals, 0.5):
        return None
    advice = message("health.positions_missing.small_advice")
    return Outcome("warn", message("health.positions_missing.small", share=last), advice=advice)


@check("attention_not_scaled", family="activation", tier=2, needs=("tensors",))
def scores_are_scaled(run: Run, signals: Signals) -> Outcome | None:
    """Whether each attention multiplies its scores by a number far from 1 / sqrt(width of a head).

    Source: Vaswani et al. 2017, 3.2.1; more than twice that, or less than 0.3 / width (chosen by us, tier 2): 1 / width
    is that of maximal update parametrisation (Yang et al. 2022), and GPT-2 may divide by the number of the layer, too.
    Scores without any factor are judged by review, which knows initial weights that contain it.
    """
    found = []
    for (_, line), history in functions_of(signals).items():
        for factor, width in {(*row["scale"],) for _, row in history if row.get("scale")}:
            usual = width**-0.5
            if factor == 1.0 or 0.3 / width <= abs(factor) <= 2 * usual:
                return None
            found.append((factor, width, usual, line))
    if not found:
        return None
    factor, width, usual, line = found[0]
    observed = message("health.attention_not_scaled.factor", factor=factor, width=width, usual=usual)
    return Outcome("warn", observed, called_in_sentence(line), place_of(line))


@check("attention_hides_own_token", family="loop-bug", tier=2, needs=("batches", "tensors"))
def own_token_is_seen(run: Run, signals: Signals) -> Outcome | None:
    """Whether attention of a model that predicts the next token hides the token that it continues.

    Source: chosen by us (tier 2), in at least 3 looks and all of them: the target is the input one token later, and
    each query sees the tokens before its own only. That is right where the target is the input itself.
    """
    path = sequence_ahead(signals, 1)
    lengths = {n for _, _, leaf in input_leaves(signals).get(path, []) for n in leaf.get("shape", ())}
    rows = [row for event in signals.tensors for row in event.get("functions", []) if is_over_sequence(row, lengths)]
    ahead = [seen for row in rows if (seen := row.get("ahead")) is not None]
    if not path or len(ahead) < _LOOKS or max(ahead) >= 0:
        return None
    return Outcome("warn", message("health.attention_hides_own_token.strict", path=path, looks=len(ahead)))


def _attention_looks(signals: Signals) -> dict[int, list[tuple[int, bool]]]:
    """Returns for each step the length of each sequence that attends to itself, and whether anything is hidden from it.

    Scores that the program itself puts through a softmax hide a position where it is exactly 0.
    """
    found: dict[int, list[tuple[int, bool]]] = {}
    for event in signals.tensors:
        looks = found.setdefault(event.get("step", 0), [])
        for row in event.get("functions", []):
            form = row.get("shape", ())
            if row.get("fn") == "attention" and len(form) == 2 and form[0] == form[1]:
                looks.append((form[0], row.get("hides", True)))
            elif (
                row.get("fn") == "softmax"
                and len(form) >= 3
                and form[-1] == form[-2]
                and row.get("dim") == len(form) - 1
            ):
                looks.append((form[-1], bool(row.get("zero", 1.0) or row.get("hidden"))))
    return found
