"""Checks of the input data: scale of the inputs, constant features, shapes of a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.health.evidence.layer_history import Module, functions_of, modules_of
from labbook.health.evidence.measurements import called_in_sentence, join_names, place_of, unobserved
from labbook.health.evidence.training_batches import input_leaves
from labbook.health.evidence.training_kind import (
    has_opposed_optimizers,
    is_unrolled,
    training_loss,
    training_losses,
)
from labbook.health.evidence.trend_tests import mann_kendall, mean, median, robust_deviation
from labbook.health.rules.data.sequence_targets import decoder_input, read_both_ways, sequence_ahead
from labbook.health.rules.normalisation import first_not_normalised
from labbook.model.check import Outcome, check
from labbook.model.events.data_kinds import Leaf
from labbook.model.events.inspection_kinds import ModuleInspection
from labbook.model.message import Message, message
from labbook.model.run import Run
from labbook.model.signals import Signals

_SAMPLES = 500
_RIGHT = 0.8
_GAIN = 0.3
_RENUMBERED = 100
_FEWEST = 3
_TABLES = ("Embedding", "EmbeddingBag", "VocabParallelEmbedding")
_WEIGHTS = ("softmax", "attention")

_TABLE = 50
"""Columns up to which a constant one is worth a note: flattened images have dark borders. Source: chosen by us."""


_LARGEST_BYTE = 255
_SEEN = 0.5
"""Share of an input's largest magnitude that a module which takes it sees, in another batch. Source: chosen by us."""
_SPARSE = 0.9
"""Share of zeros from which on the deviation says nothing of the scale. Source: chosen by us."""


@check("input_not_normalised", family="data", tier=2, needs=("batches",))
def inputs_normalised(run: Run, signals: Signals) -> Outcome | None:
    """Whether floating point inputs are far from mean 0 and deviation 1, unless the model normalises them itself.

    Source: diagnosis catalogue (tier 2); UMLAUT's [-1, 1] fired on 8 of 12 healthy runs. Raw bytes and units (beyond
    100) are a warning; what is only unusual is noted. Rows that were scaled by their own statistics are almost equal.
    """
    judged: list[Outcome] = []
    few: list[Message] = []
    ids = max((m.options.get("num_embeddings") or 0 for m in modules_of(signals)), default=0) or math.inf
    # Of several that are alike, the largest one is shown: images, not the index of their sample.
    largest = sorted(input_leaves(signals).items(), key=lambda item: -math.prod(item[1][0][2].get("shape", ())))
    for path, looks in largest:
        leaves = [leaf for _, _, leaf in looks if not leaf.get("integer") and leaf.get("std") is not None]
        rows = all(len(shape := leaf.get("shape", ())) == 2 and shape[1] > 1 for leaf in leaves)
        # Ids may be given as real numbers.
        first = first_not_normalised(signals, rows and max((leaf.get("max") or 0 for leaf in leaves), default=0) > ids)
        seen, wanted = sum(samples for _, samples, _ in looks), min(_SAMPLES, 8 * len(looks))
        if not leaves or seen < wanted:
            few += [message("health.too_few.inspected_samples", seen=seen, wanted=wanted)] if leaves else []
            continue
        scaled = [leaf["rows_scaled"] for leaf in leaves if leaf.get("rows_scaled") is not None]
        if len(scaled) >= _FEWEST and all(scaled):
            observed = message("health.input_not_normalised.rows", path=path, columns=leaves[-1].get("shape", (0,))[-1])
            return Outcome("warn", observed, advice=message("health.input_not_normalised.rows_advice"))
        judged.append(_scale(path, leaves, first))
    if not judged:
        return unobserved(few[0] if few else message("health.not_observed.no_input"))
    order = {"warn": 0, "note": 1, "ok": 2}
    return min(judged, key=lambda outcome: order[outcome.verdict])


def _scale(path: str, leaves: Sequence[Leaf], first: Module | None) -> Outcome:
    center = median([leaf.get("mean") or 0.0 for leaf in leaves])
    deviation = median([leaf.get("std") or 0.0 for leaf in leaves])
    top = max(abs(leaf.get("max") or 0.0) for leaf in leaves)
    observed = message("health.input_not_normalised.moments", mean=center, std=deviation)
    # Adjacency matrices and one-hot rows are mostly 0, whatever their scale.
    taken = [abs(bound) for _, row in first.history for bound in _bounds_given(row)] if first is not None else []
    is_other = bool(taken) and max(taken) < _SEEN * top  # as a target that the model is called with
    sparse = median([leaf.get("zero") or 0.0 for leaf in leaves]) >= _SPARSE and top <= 1
    spread_out = deviation >= 0.1 or top > 0.5 or sparse
    usual = deviation <= 10 and abs(center) <= max(3.0, 3 * deviation) and spread_out
    if first is not None and not first.parameters and top <= _LARGEST_BYTE:
        first = None  # Keras divides bytes in a layer without weights.
    if first is None or usual or is_other:
        if 0.1 <= deviation <= 10 and abs(center) <= 3:
            return Outcome("ok", observed)
        key = "health.input_not_normalised.lookup" if first is None else "health.input_not_normalised.largest"
        return Outcome("ok", message(key, moments=observed, top=top))
    low = min(leaf.get("min") or 0.0 for leaf in leaves)
    evidence = (
        message("health.input_not_normalised.range", path=path, low=low, high=top),
        message("health.input_not_normalised.first_used", layer=first.label),
    )
    return Outcome("warn" if deviation > 10 and top >= 100 else "note", observed, evidence)


def _bounds_given(row: ModuleInspection) -> list[float]:
    """Smallest and largest value that a module was given first, where that was looked at."""
    given = row.get("given") or {}
    return [bound for bound in (given.get("min"), given.get("max")) if bound is not None]


@check("constant_feature", family="data", tier=1, needs=("batches",))
def features_vary(run: Run, signals: Signals) -> Outcome | None:
    """Whether columns had one value in at least 256 samples. Borders of images do, masks too, rare categories may.

    Source: a logical invariant (tier 1); TheDeepChecker, deepchecks IsSingleValue. Of a lookup table with more than 16
    rows, which BERT has for its segments by default: it was given one and the same id in at least 3 looks and 256
    times, or once for each position of the input, and was called once a forward: a look is at the first call, and of a
    table that serves several columns one may hold padding only (chosen by us). Nor are inputs that a solver calls a
    model with judged: it begins at one time and one state.
    """
    leaves = input_leaves(signals)
    integer = [leaf for looks in leaves.values() for _, _, leaf in looks if leaf.get("integer")]
    lengths = {form[1] for leaf in integer if len(form := leaf.get("shape", ())) == 2 and form[0] != form[1]}
    for module in modules_of(signals):
        # A table that is called by a model which was not seen is a root of its own. A class that is derived from it may
        # be given a mask first.
        if not module.name or module.type not in _TABLES or any(row.get("calls", 1) > 1 for _, row in module.history):
            continue
        ids = [look for _, row in module.history if (look := row.get("ids"))]
        looked, seen = sum(count for _, _, count in ids), {i for low, high, _ in ids for i in (low, high)}
        rows = module.options.get("num_embeddings", 0)
        enough = looked >= 256 or {count for _, _, count in ids} <= lengths
        if len(seen) == 1 and len(ids) >= _FEWEST and enough and rows > 16:
            observed = message("health.constant_feature.id", layer=module.label, id=ids[0][0], count=looked, rows=rows)
            return Outcome("warn", observed)
    if is_unrolled(signals):
        return None
    last = [looks[-1][2] for looks in leaves.values()]
    tokens = {tuple(one.get("shape", ())) for one in last if one.get("integer") and (one.get("max") or 0) > 1}
    for path, looks in leaves.items():
        leaf = looks[-1][2]
        # All sequences are at least as long as the shortest: a mask begins with columns of 1.
        if tuple(leaf.get("shape", ())) in tokens and {leaf.get("min"), leaf.get("max")} <= {0, 1}:
            continue
        columns, constant = (leaf.get("shape", ()) or (0,))[-1], leaf.get("constant", 0)
        image = columns > _TABLE and constant < columns
        if leaf.get("constant") is None or leaf.get("constant_n", 0) < 256 or not constant or image:
            continue
        # Values relative to the first or the last one of a window, or a column of ones for the intercept.
        reference = constant == 1 and list(leaf.get("constant_at", ())) in ([0], [columns - 1])
        sparse = (leaf.get("zero") or 0.0) > 0.5
        observed = message("health.constant_feature.columns", bad=constant, columns=columns, path=path)
        at = leaf.get("constant_at", ())
        if at and constant < columns:
            indices = join_names([str(column) for column in at], constant)
            observed = message("health.constant_feature.indices", columns=observed, indices=indices)
        is_bare = constant >= columns and _are_nodes(leaf, last)
        is_note = is_bare or (constant < columns and (sparse or reference))
        return Outcome("note" if is_note else "fail" if constant >= columns else "warn", observed)
    return None


def _are_nodes(leaf: Leaf, others: Sequence[Leaf]) -> bool:
    """Whether rows are the nodes of a graph, whose edges are another input: without features they get ones."""
    rows = (leaf.get("shape", ()) or (0,))[0]
    pairs = [one for one in others if one.get("integer") and tuple(one.get("shape", ()))[:1] == (2,)]
    return any(len(one.get("shape", ())) == 2 and 0 < (one.get("max") or 0) < rows for one in pairs)


@check("missing_marks", family="data", tier=2, needs=("batches",))
def no_marks_of_missing_values(run: Run, signals: Signals) -> Outcome | None:
    """Whether columns of a table have one repeated value far from all others, as -999 for what is missing.

    Source: chosen by us: in most of at least 3 batches inspected; UCI data sets with -999, -1, 9999 and 0 as marks.
    """
    for path, looks in input_leaves(signals).items():
        found = [leaf["marked"] for _, _, leaf in looks if leaf.get("marked") is not None]
        often = [
            column for column in sorted(set().union(*found)) if 2 * sum(column in one for one in found) > len(found)
        ]
        if len(found) >= _FEWEST and often:
            indices = join_names([str(column) for column in often])
            return Outcome("warn", message("health.missing_marks.columns", indices=indices, path=path))
    return None


@check("target_in_inputs", family="data", tier=1, needs=("batches",))
def inputs_do_not_hold_target(run: Run, signals: Signals) -> Outcome | None:
    """Whether one column of the input alone determined the target in at least 128 samples, or tokens are their target.

    Source: a logical invariant (tier 1) over every batch inspected; deepchecks FeatureLabelCorrelation. Only tables of
    at least 3 columns: a line through one feature is a task of its own. Tokens that are to be given back are a task
    where something narrow lies between: only a loss that falls under a tenth of chance level is a warning. For a
    decoder that has another sequence to read there is none. The target of a sequence is not its last value. Outputs
    of a recurrent layer that reads both ways have seen the next value. A target
    of the form of a picture is known where each is a sum of channels of its input, as noise is where a denoiser is
    given the clean picture beside the noisy one.
    """
    both_ways = read_both_ways(signals)
    if both_ways is not None:
        observed = message("health.target_in_inputs.both_ways", layer=both_ways[0].label, path=both_ways[1])
        return Outcome("warn", observed, advice=message("health.target_in_inputs.both_ways_advice"))
    path = decoder_input(signals)
    if path:
        return Outcome("warn", message("health.target_in_inputs.decoder", path=path))
    path = sequence_ahead(signals, 0)
    if path:
        loss = training_loss(run, signals)
        observed = message("health.target_in_inputs.same", path=path)
        if isinstance(loss, Message) or loss.classes < 2:
            return Outcome("note", observed)
        # A decoder that reads the target one step later is to give the input back, as in an autoencoder of sequences.
        copied = median(loss.values[-20:]) < 0.1 * math.log(loss.classes) and not sequence_ahead(
            signals, 1, alone=False
        )
        return Outcome("warn" if copied else "note", observed)
    for path, looks in input_leaves(signals).items():
        compared = [leaf for _, _, leaf in looks if leaf.get("telling_n")]
        columns, samples = (compared[-1].get("telling", ()), compared[-1].get("telling_n", 0)) if compared else ((), 0)
        if columns and samples >= 128 and not has_opposed_optimizers(run, signals):  # a critic is to tell them apart
            indices = join_names([str(column) for column in columns])
            observed = message("health.target_in_inputs.columns", indices=indices, path=path, samples=samples)
            if len(compared[-1].get("shape", ())) == 3:
                observed = message("health.target_in_inputs.last", path=path, samples=samples)
                return Outcome("warn", observed, advice=message("health.target_in_inputs.last_advice"))
            return Outcome("warn", observed)
        mixed = [leaf["mixed"] for _, _, leaf in looks if leaf.get("mixed") is not None]
        if len(mixed) >= _FEWEST and all(mixed):
            return Outcome("warn", message("health.target_in_inputs.mixed", path=path, batches=len(mixed)))
    return None


@check("batch_leading_dim_mismatch", family="data", tier=1, needs=("batches",))
def leaves_agree(run: Run, signals: Signals) -> Outcome | None:
    """Whether a batch has different numbers of inputs and labels, with no axis of the one as long as the other.

    Source: a logical invariant (tier 1); TrainCheck transformers-34204. Graphs, packed and time-first batches
    are left out, and models with one output per label: the labelled nodes of a graph.
    """
    if _has_output_per_label(signals):
        return None
    seen = [b for b in signals.batches if len(b.get("leaves", [])) == 2 and b.get("phase") == "train"]
    wrong = [b for b in seen if b.get("dims_equal") is False and _differ(b.get("leaves", []))]
    sizes = {tuple(leaf.get("shape", ())[:1] for leaf in b.get("leaves", [])) for b in wrong}
    is_joined = len(sizes) > len({inputs for inputs, _ in sizes})  # the labels of sequences in a row, as for CTC
    if len(wrong) < 3 or len(wrong) < 0.9 * len(seen) or is_joined:
        return None
    forms = [list(leaf.get("shape", ())) for leaf in wrong[0].get("leaves", [])]
    one, other = str(forms[0]), str(forms[1])
    observed = message("health.batch_leading_dim_mismatch.shapes", inputs=one, labels=other, batches=len(wrong))
    return Outcome("warn", observed)


def _has_output_per_label(signals: Signals) -> bool:
    """Whether inputs and targets of the losses are equally many."""
    forms = [
        (loss.get("input", {}).get("shape", ()), loss.get("target", {}).get("shape", ()))
        for loss in training_losses(signals)
    ]
    known = [(one, other) for one, other in forms if one and other]
    return bool(known) and all(one[0] == other[0] for one, other in known)


def _differ(leaves: Sequence[Leaf]) -> bool:
    one, other = (leaf.get("shape", ()) for leaf in leaves)
    roles = {leaf.get("role", "") for leaf in leaves}
    return bool(one and other) and roles == {"input", "label"} and one[0] not in other and other[0] not in one


@check("image_layout_suspect", family="data", tier=2, needs=("batches",))
def channels_first(run: Run, signals: Signals) -> Outcome | None:
    """Whether images have 1 or 3 values on the last axis and many on axis 1: a note (UMLAUT), or colours side by side.

    Source: chosen by us (tier 2): values 3 columns apart are a tenth closer than others, in at least 3 looks and all.
    """
    first = first_not_normalised(signals)
    if first is None or not first.type.startswith("Conv2"):
        return None
    for path, looks in input_leaves(signals).items():
        form, lags = looks[0][2].get("shape", ()), [lag for look in looks if (lag := look[2].get("lags"))]
        if len(lags) >= 3 and all(three < 0.9 * min(one, two) for one, two, three in lags):
            return Outcome("warn", message("health.image_layout_suspect.mixed", path=path))
        if len(form) == 4 and form[3] in (1, 3) and form[1] > 4 and form[1] == form[2]:
            observed = message("health.image_layout_suspect.shape", path=path, shape=str(list(form)))
            return Outcome("note", observed)
    return None


@check("stored_array_changes", family="loop-bug", tier=2, needs=("loop",))
def data_sets_stay(run: Run, signals: Signals) -> Outcome | None:
    """Whether reading a batch changes the arrays of its data set, so that noise or a shift adds up over the epochs.

    Source: chosen by us (tier 2): around batches of later epochs, 3 of them and half of all; a cache is filled before.
    """
    stored = signals.loop.get("stored_data", {})
    changed, looks = stored.get("changed", 0), stored.get("looks", 0)
    if changed < _FEWEST or changed < 0.5 * looks:
        return None
    observed = message("health.stored_array_changes.read", name=stored.get("name", ""), changed=changed, looks=looks)
    return Outcome("warn", observed, advice=message("health.stored_array_changes.advice"))


@check("reshaped_not_permuted", family="data", tier=2, needs=("models",))
def axes_are_permuted(run: Run, signals: Signals) -> Outcome | None:
    """Whether a module was given the memory of a tensor with at least 3 axes as if these were in another order.

    So are the heads of an attention where (samples, time, features) is made (samples, heads, time, width) at once.

    Source: chosen by us (tier 2): `permute` and `transpose` leave the elements where they are, but not in the order of
    the axes, or copy them.
    """
    for module in modules_of(signals):
        form, given = module.facts.get("view_of", ()), module.facts.get("input", [])
        if form and given:
            shapes = {"form": str(list(form)), "given": str(list(given[0].get("shape", ())))}
            observed = message("health.reshaped_not_permuted.view", layer=module.label, **shapes)
            return Outcome("warn", observed)
    return _heads_are_transposed(signals)


def _heads_are_transposed(signals: Signals) -> Outcome | None:
    """A finding where heads of an attention are split off, or joined, by a new shape without a transpose."""
    functions = functions_of(signals)
    looks = [row.get("shape", ()) for (fn, _), rows in functions.items() if fn in _WEIGHTS for _, row in rows]
    lengths = {form[-1] for form in looks if len(form) >= 2 and form[-1] == form[-2]}
    for (fn, line), rows in functions.items():
        form, viewed = rows[0][1].get("shape", ()), rows[0][1].get("viewed", ())
        if fn == "view" and (form if len(viewed) == 3 else viewed)[-2] in lengths:
            observed = message("health.reshaped_not_permuted.heads", form=str(list(viewed)), given=str(list(form)))
            advice = message("health.reshaped_not_permuted.heads_advice")
            return Outcome("warn", observed, called_in_sentence(line), place_of(line), advice=advice)
    return None


@check("input_drift_in_run", family="data", tier=3, needs=("batches",))
def inputs_do_not_drift(run: Run, signals: Signals) -> Outcome | None:
    """Whether the mean of the inputs moves by a standard deviation in one direction. Source: a hint (tier 3)."""
    for path, looks in input_leaves(signals).items():
        means = [m for _, _, leaf in looks if not leaf.get("integer") and (m := leaf.get("mean")) is not None]
        deviations = [d for _, _, leaf in looks if (d := leaf.get("std")) is not None]
        if len(means) < 20 or not deviations:
            continue
        quarter = len(means) // 4
        moved = mean(means[-quarter:]) - mean(means[:quarter])
        trend = mann_kendall(means)
        if abs(moved) > max(mean(deviations), 5 * robust_deviation(means[:quarter])) and abs(trend.tau) > 0.6:
            observed = message("health.input_drift_in_run.moved", path=path, moved=moved)
            return Outcome("note", observed, p=min(trend.rising, trend.falling))
    return None


@check("out_of_bounds_read", family="data", tier=1, needs=("loop",))
def indices_inside(run: Run, signals: Signals) -> Outcome | None:
    """Whether an operation of paddle that does not check bounds was given an index outside its tensor.

    Source: a logical invariant (tier 1).
    """
    for facts in signals.loop.get("out_of_bounds", []):
        largest, size = facts.get("max"), facts.get("size")
        if largest is not None and size is not None:
            low = facts.get("min") or 0.0
            index, calls = low if low < 0 else largest, facts.get("count", 0)
            observed = message(
                "health.out_of_bounds_read.index", op=facts.get("op", ""), index=index, size=size, calls=calls
            )
            return Outcome("fail", observed, (message("health.called_in", line=facts.get("line", "")),))
    return None


@check("classes_renumbered", family="data", tier=2, needs=("evaluations",))
def classes_keep_their_numbers(run: Run, signals: Signals) -> Outcome | None:
    """Whether nearly all validation predictions are right if their classes are numbered otherwise.

    Source: chosen by us (tier 2): in the last two phases of at least 100 samples the predicted classes stand for other
    ones, each for its own, with an accuracy of at least 80 % that is 30 points above the real one, while the training
    loss is below half of chance level.
    """
    loss = training_loss(run, signals)
    last = signals.evaluations[-2:]
    if isinstance(loss, Message) or loss.classes < 2 or len(last) < 2:
        return None
    if median(loss.values[-20:]) > 0.5 * math.log(loss.classes):
        return None
    if max(phase.get("samples", 0) for phase in signals.evaluations) < _RENUMBERED:
        return None
    for phase in last:
        if (phase.get("renumbered") or 0.0) < max(_RIGHT, (phase.get("accuracy") or 0.0) + _GAIN):
            return None
    facts = {"accuracy": last[-1].get("accuracy"), "renumbered": last[-1].get("renumbered")}
    return Outcome("fail", message("health.classes_renumbered.found", **facts))
