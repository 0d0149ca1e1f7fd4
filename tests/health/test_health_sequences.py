"""Checks of sequences and of their order: carried state, masks, shifted targets, padding, validation that changes."""

from __future__ import annotations

import pytest
from order_of_tests import in_one_test

pytestmark = pytest.mark.pure


def classifier(**fields):
    recorded = {"fn": "cross_entropy", "training": True, "calls": 50, "classes": 14, "line": "t.py:2", "observed": 20}
    return {**recorded, "reduction": "mean", "target": {"shape": [224], "min": 0, "max": 13}, **fields}


def epoch(number=0, loader=0, phase="train", prints=("a", "b", "c")):
    """A `prints` event of one epoch with these fingerprints."""
    return {"loader": loader, "phase": phase, "epoch": number, "batches": len(prints), "prints": list(prints)}


def test_a_state_carried_between_shuffled_sequences(ask):
    """Only where neighbouring steps are known to begin with the state of the last, in a random order."""

    def judge_states(carried, shuffle=True, steps=(1, 2, 3, 4, 9), by_hand=()):
        looks = [
            {"step": step, "model": 0, "modules": [{"i": 1, "carried": one}]}
            for step, one in zip(steps, carried, strict=True)
        ]
        rows = [{"i": 1, "name": "lstm", "type": "LSTM", "order": 0}]
        read = (epoch(prints="a" * 40), epoch(loader=None, prints=by_hand))
        signals = {"models": ({"model": 0, "modules": rows},), "tensors": tuple(looks), "prints": read}
        return ask(
            "state_carried_between_sequences", signals={**signals, "loaders": ({"index": 0, "shuffle": shuffle},)}
        )

    after_the_first = (False, True, True, True, False)
    found = judge_states(after_the_first)
    assert found.verdict == "warn" and found.observed.startswith("lstm (LSTM) began 3 batches")
    assert judge_states(after_the_first, shuffle=False) is None
    assert judge_states((False, False, True, True, False)) is None
    assert judge_states(after_the_first, steps=(1, 3, 5, 7, 9)) is None
    assert judge_states(after_the_first, by_hand="abc").verdict == "warn"
    assert judge_states(after_the_first, by_hand="abcdefgh") is None


def test_attention_that_sees_the_next_token(ask):
    """Only where the target is the input one token later, and no attention over that sequence hides anything."""

    def judge(target=1, **look):
        leaf = {"path": "0", "role": "input", "shape": [16, 24], "integer": True, "max": 20, "ahead": target}
        seen = tuple({"step": step, "phase": "train", "leaves": [leaf]} for step in (1, 2, 3, 4))
        row = {"fn": "softmax", "line": "t.py:4", "shape": [16, 4, 24, 24], "zero": 0.0, **look}
        tensors = tuple({"step": step, "model": 0, "functions": [row]} for step in (2, 3, 4))
        outcome = ask("attention_sees_target", signals={"batches": seen, "tensors": tensors})
        return outcome and outcome.verdict

    assert judge() == "fail"
    assert judge(fn="attention", shape=[24, 24], masked=False) == "fail"
    assert judge(fn="attention", shape=[24, 24], masked=True) == "ok"
    assert judge(zero=0.48) == "ok" and judge(zero=0.0, hidden=0.47) == "ok"
    assert judge(target=0) is None and judge(target=None) is None
    assert judge(shape=[16, 24, 7]) is None
    assert judge(zero=0.44, ahead=1) == "fail" and judge(zero=0.48, ahead=0) == "ok"


@pytest.mark.parametrize(
    ("target", "ahead", "verdict"), [(1, (-1, -1, -1), "warn"), (0, (-1, -1, -1), None), (1, (-1, 0, -1), None)]
)
def test_attention_that_hides_the_token_itself(ask, target, ahead, verdict):
    leaf = {"path": "0", "role": "input", "shape": [16, 24], "integer": True, "max": 20, "ahead": target}
    seen = tuple({"step": step, "phase": "train", "leaves": [leaf]} for step in (1, 2, 3, 4))
    rows = [{"fn": "softmax", "line": "t.py:4", "shape": [16, 4, 24, 24], "ahead": one} for one in ahead]
    tensors = tuple({"step": step, "model": 0, "functions": [row]} for step, row in enumerate(rows, 2))
    found = ask("attention_hides_own_token", signals={"batches": seen, "tensors": tensors})
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(("length", "verdict"), [(20, "warn"), (7, None)])
def test_heads_without_a_transpose_of_a_tensor_that_attends(ask, length, verdict):
    view = {"fn": "view", "line": "t.py:3", "viewed": [8, 20, 64], "shape": [8, 4, 20, 16]}
    weights = {"fn": "softmax", "line": "t.py:4", "shape": [8, 4, length, length]}
    tensors = ({"step": 2, "model": 0, "functions": [view, weights]},)
    found = ask("reshaped_not_permuted", signals={"models": ({"model": 0, "modules": []},), "tensors": tensors})
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(
    ("even", "verdict"), [((True, True, True), "warn"), ((False, True, True), None), ((True,), None)]
)
def test_attention_whose_weights_are_all_equal(ask, even, verdict):
    rows = ({"fn": "softmax", "line": "t.py:4", "shape": [16, 4, 24, 24], "even": one} for one in even)
    tensors = tuple({"step": step, "model": 0, "functions": [row]} for step, row in enumerate(rows, 2))
    found = ask("attention_uniform", signals={"tensors": tensors})
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(("last", "verdict"), [(0.01, "warn"), (1.9, "note")])
def test_tokens_that_are_their_own_target(ask, make_series, last, verdict):
    leaf = {"path": "0", "role": "input", "shape": [16, 24], "integer": True, "max": 20, "ahead": 0}
    seen = tuple({"step": step, "phase": "train", "leaves": [leaf]} for step in (1, 2, 3, 4))
    losses = (classifier(classes=21, value_first=3.0),)
    values = [3.0 - (3.0 - last) * min(1.0, step / 60) for step in range(100)]
    found = ask("target_in_inputs", make_series("loss", values), signals={"batches": seen, "losses": losses})
    assert found.verdict == verdict and "is input 0 itself" in found.observed


def test_validation_that_changes_or_is_the_training_data(ask, make_series):
    def epochs_of(prints, loader=1):
        epochs = [epoch(e, loader=loader, phase="eval") for e in range(3)]
        for one, given in zip(epochs, prints, strict=True):
            one["prints"] = given
        loaders = ({"index": 0, "shuffle": True}, {"index": loader, "shuffle": False, "line": "t.py:9"})
        return {"prints": (epoch(), *epochs), "loaders": loaders}

    assert ask("validation_changes", signals=epochs_of((["a", "b"], ["c", "d"], ["e", "f"]))).verdict == "note"
    assert ask("validation_changes", signals=epochs_of((["a", "b"], ["a", "b"], ["a", "b"]))) is None
    for kind in ("trainings", "phases"):  # each with data of its own, as in a cross validation
        several = {"captured": {kind: {"rows": [], "count": 3}}}
        assert ask("validation_changes", signals=epochs_of((["a", "b"], ["c", "d"], ["e", "f"])), **several) is None
    signals = {"prints": (epoch(),), "evaluations": tuple({"loader": 0, "batches": 6} for _ in range(3))}
    named, other = make_series("val_acc", [0.9, 0.95]), make_series("train_acc", [0.9, 0.95])
    assert ask("train_val_overlap", named, signals=signals).verdict == "fail"
    for batches, verdict in ((6, "fail"), (7, None)):  # of the last phase the loader is not known
        later = {**signals, "evaluations": (*signals["evaluations"], {"batches": batches})}
        found = ask("train_val_overlap", named, signals=later)
        assert (found.verdict if found else None) == verdict
    assert ask("train_val_overlap", other, signals=signals) is None


def test_validation_on_the_rows_of_the_one_batch(ask, make_series):
    """All nodes of a graph are trained, or some of them; the forward that validates is the same."""

    def found(rows, name="test_acc", prints=("a",)):
        batch = {"phase": "train", "step": 1, "samples": 300}
        phases = [{**epoch(loader=None), "prints": ["a"] * 9}, {**epoch(loader=None, phase="eval"), "prints": prints}]
        recorded = {"losses": (classifier(target={"shape": [rows]}),), "batches": (batch,), "prints": tuple(phases)}
        return ask("train_val_overlap", make_series(name, [0.5, 0.6], "console"), signals=recorded)

    assert found(300).verdict == "warn"
    assert found(60) is found(300, "acc") is found(300, prints=("a", "b")) is None


@in_one_test(
    ("fields", "verdict"),
    [
        *[({}, "warn"), ({"ignored": 0.2}, None), ({"classes": 5}, None), ({"weight": True}, None)],
        *[({"share": 0.01}, None), ({"share": 0.0, "zero": 0.8}, "warn"), ({"zero": 0.01}, None)],
    ],
)
def test_padding_in_the_loss(ask, fields, verdict):
    fields = dict(fields)
    share = fields.pop("share", 0.3)
    target = {"shape": [224], "min": 0, "max": 13, "dtype": "int64", "zero": fields.pop("zero", None)}
    recorded = {"losses": (classifier(**{"target": target, **fields}),)}
    options = {"padding_idx": 0, "num_embeddings": 14}
    model = {"model": 0, "modules": [{"i": 1, "name": "emb", "type": "Embedding", "order": 0, "options": options}]}
    labels = {"0": int(224 * share), "5": 224 - int(224 * share)}
    batch = {"phase": "train", "step": 1, "samples": 32, "labels": {"histogram": labels}}
    found = ask("padding_in_loss", signals={**recorded, "models": (model,), "batches": (batch,)})
    assert (found.verdict if found else None) == verdict


@in_one_test(("padded", "ahead", "verdict"), [(0.77, 1, "warn"), (0.3, 1, None), (0.77, None, None), (0.0, 1, None)])
def test_next_tokens_of_rows_that_end_in_zeros(ask, padded, ahead, verdict):
    """Copies of the input, and rows without padding in which 0 is a usual token, are left alone."""
    form = {"shape": [32, 24], "integer": True, "dtype": "int64"}
    tokens = {"path": "0", "role": "input", "zero": padded, "padded": padded, **form, **({"ahead": 1} if ahead else {})}
    leaves = [tokens, {"path": "target", "role": "label", "zero": padded, **form}]
    batches = tuple({"phase": "train", "step": step, "samples": 32, "leaves": leaves} for step in (1, 2, 4))
    recorded = classifier(target={"shape": [768], "min": 0, "max": 29, "zero": padded}, classes=30)
    model = {"model": 0, "modules": [{"i": 1, "name": "e", "type": "Embedding", "options": {"num_embeddings": 30}}]}
    found = ask("padding_in_loss", signals={"losses": (recorded,), "models": (model,), "batches": batches})
    assert (found and found.verdict) == verdict


@in_one_test(
    ("pad", "ignored", "more", "verdict"),
    [(0, 0.0, 0, "warn"), (9, 1 / 40, 0, "warn"), (0, 0.5, 0, None), (0, 0.0, 90, None)],
    ids=["index 0", "shifted, another index", "left out", "the usual tag"],
)
def test_positions_hidden_by_the_attention_mask_count_in_the_loss(ask, pad, ignored, more, verdict):
    form, batches = [16, 40], []
    for step in range(1, 6):
        hidden = 300 + step
        leaves = [
            {"path": "ids", "role": "input", "shape": form, "integer": True, "max": 60, "zero": 0.0},
            {"path": "mask", "role": "input", "shape": form, "min": 0, "max": 1, "zero": hidden / 640},
        ]
        labels = {str(pad): hidden + more, "33": 640 - hidden - more}
        batches.append(
            {"phase": "train", "step": step, "samples": 16, "leaves": leaves, "labels": {"histogram": labels}}
        )
    recorded = classifier(target={"shape": [640], "min": 0, "max": 60}, classes=64, ignored=ignored)
    model = {"model": 0, "modules": [{"i": 1, "name": "emb", "type": "Embedding", "order": 0, "options": {}}]}
    found = ask("padding_in_loss", signals={"losses": (recorded,), "models": (model,), "batches": tuple(batches)})
    assert (found.verdict if found else None) == verdict


@in_one_test(
    ("scales", "verdict"),
    [
        ([[0.25, 16]], None),
        ([[0.0625, 16]], None),  # maximal update parametrisation
        ([[1.0, 16]], None),  # weights of T5 contain the scale
        ([[4.0, 16]], "warn"),
        ([[0.00390625, 16]], "warn"),
        ([[4.0, 16], [0.25, 16]], None),
    ],
)
def test_attention_scores_with_a_wrong_factor(ask, scales, verdict):
    rows = [{"fn": "softmax", "line": f"t.py:{at}", "scale": scale} for at, scale in enumerate(scales)]
    found = ask("attention_not_scaled", signals={"tensors": ({"step": 2, "model": 0, "functions": rows},)})
    assert (found and found.verdict) == verdict


@in_one_test(("ahead", "heads", "verdict"), [(2, 1, "warn"), (1, 1, None), (2, 2, None)])
def test_labels_that_are_shifted_twice(ask, ahead, heads, verdict):
    leaf = {"path": "0", "role": "input", "shape": [16, 24], "integer": True, "max": 20, "ahead": ahead}
    seen = tuple({"step": step, "phase": "train", "leaves": [leaf]} for step in (1, 2, 3, 4))
    losses = tuple(classifier(classes=21, line=f"t.py:{line}") for line in range(heads))
    found = ask("target_shifted_twice", signals={"batches": seen, "losses": losses})
    assert (found and found.verdict) == verdict


@in_one_test(
    ("ahead", "ids", "beside", "verdict"),
    [
        (0, [1, 20, 384], True, "warn"),
        (0, None, True, None),  # labels from which the model computes its loss
        (1, [1, 20, 384], True, None),
        (0, [1, 20, 384], False, "note"),
    ],
)
def test_a_decoder_that_is_given_its_target(ask, ahead, ids, beside, verdict):
    form = {"role": "input", "shape": [16, 24], "integer": True, "min": 1, "max": 20}
    leaves = [{**form, "path": "1", "ahead": ahead}, *([{**form, "path": "0", "max": 19}] if beside else [])]
    seen = tuple({"step": step, "phase": "train", "leaves": leaves} for step in (1, 2, 3, 4))
    looks = tuple({"step": step, "model": 0, "modules": [{"i": 1, "ids": ids}]} for step in (1, 2, 3, 4))
    signals = {"batches": seen, "tensors": looks, "losses": (classifier(classes=21, value_first=3.0),)}
    found = ask("target_in_inputs", signals=signals)
    assert (found and found.verdict) == verdict


@in_one_test(
    ("above", "queries", "between", "verdict"),
    [
        ([1], 4, "NativeLayerNorm", "warn"),
        ([1, 6], 4, "NativeLayerNorm", None),  # a residual connection around the attention
        ([1], 11, "NativeLayerNorm", None),  # attention that pools, with queries of its own
        ([1], 4, "Mean", None),  # a hierarchy of sentences and words
    ],
)
def test_attention_without_a_residual_connection(ask, above, queries, between, verdict):
    rows = [["Add", above], ["Bmm", [2, 5]], ["Softmax", [3]], ["Bmm", [queries, 4]], ["Addmm", [6]], ["Addmm", [6]]]
    rows += [[between, [7]], ["Bmm", [8, 10]], ["Softmax", [9]], ["Bmm", [10, 10]], ["Embedding", [11]], ["", []]]
    operations = [[name, taken, "" if not taken else None] for name, taken in rows]
    found = ask("residual_missing", signals={"graphs": ({"operations": operations},)})
    assert (found and found.verdict) == verdict


@in_one_test(
    ("offsets", "verdict"),
    [
        ([1, 1, 1], "warn"),
        ([-6, -7, -8], "warn"),
        ([0, -1, -2], "warn"),  # right for the first token, and the same for all others
        ([0, 0, 0], None),
        ([1, 1], None),
        ([3, -2, 5], None),
    ],
)
def test_positions_of_tokens_from_a_cache(ask, make_model, offsets, verdict):
    phase = {"batches": 9, "training": False, "positions": [[0, 1, offset] for offset in offsets]}
    found = ask("cached_positions_wrong", signals={"models": (make_model("Embedding"),), "evaluations": (phase,)})
    assert (found and found.verdict) == verdict


@in_one_test(
    ("row", "verdict"),
    [
        ({"moved": 4}, "warn"),
        ({"lost": 4}, "warn"),
        ({"kept": 4}, "ok"),
        ({"kept": 3, "moved": 3}, "ok"),
        ({"lost": 2}, None),
        ({"other": 4}, None),
    ],
)
def test_cache_of_keys_from_token_to_token(ask, row, verdict):
    phase = {"batches": 9, "training": False, "caches": [row | {"line": "generate.py:12"}]}
    found = ask("kv_cache_wrong", signals={"evaluations": (phase,)})
    assert (found and found.verdict) == verdict


@in_one_test(("lowest", "verdict"), [(-100, "warn"), (0, None)])
def test_padding_is_known_by_ids_not_by_labels_beside_them(ask, lowest, verdict):
    ids = {"path": "0", "role": "input", "shape": [16, 24], "integer": True, "min": 0, "max": 20}
    labels = {"path": "2", "role": "input", "shape": [16, 24], "integer": True, "min": lowest, "max": 20, "zero": 0.0}
    batches = tuple(
        {
            "step": at,
            "phase": "train",
            "leaves": [{**ids, "zero": 0.2 + at / 100}, {**ids, "max": 1, "zero": 1.0}, labels],
        }
        for at in (2, 3, 4)
    )
    row = {"fn": "softmax", "line": "t.py:4", "shape": [16, 4, 24, 24], "dim": 3, "zero": 0.0}
    tensors = tuple({"step": step, "model": 0, "functions": [row]} for step in (2, 3, 4))
    module = {
        "i": 1,
        "name": "words",
        "type": "Embedding",
        "order": 0,
        "options": {"padding_idx": 0, "num_embeddings": 21},
    }
    signals = {"batches": batches, "tensors": tensors, "models": ({"model": 0, "modules": [module]},)}
    found = ask("attention_over_padding", signals=signals)
    assert (found and found.verdict) == verdict


@in_one_test(("layer", "zero", "verdict"), [("Linear", 0.0, "fail"), ("Linear", 0.45, "ok"), ("LSTM", 0.0, None)])
def test_a_decoder_that_sees_its_next_token(ask, make_model, layer, zero, verdict):
    form = {"role": "input", "shape": [16, 24], "integer": True, "max": 20}
    leaves = [{**form, "path": "0"}, {**form, "path": "1", "ahead": 1}]
    seen = tuple({"step": step, "phase": "train", "leaves": leaves} for step in (1, 2, 3, 4))
    row = {"fn": "softmax", "line": "t.py:4", "shape": [16, 4, 24, 24], "zero": zero}
    tensors = tuple({"step": step, "model": 0, "functions": [row]} for step in (2, 3, 4))
    signals = {"batches": seen, "tensors": tensors, "models": (make_model(layer),)}
    found = ask("attention_sees_target", signals=signals)
    assert (found and found.verdict) == verdict


@in_one_test(
    ("unordered", "fields", "verdict"),
    [
        (True, {}, "warn"),
        (False, {}, None),
        (True, {"ahead": 0}, "note"),  # a causal mask shows the order to later layers
        (True, {"masked": True}, "note"),
        (None, {}, None),
        (True, {"shape": [8, 4, 6, 20]}, None),  # learned queries that read a set
    ],
)
def test_attention_that_gives_equal_tokens_equal_weights(ask, unordered, fields, verdict):
    row = {"fn": "softmax", "line": "t.py:9", "shape": [8, 4, 20, 20], "unordered": unordered, **fields}
    looks = tuple({"step": step, "model": 0, "functions": [row]} for step in (1, 2, 3, 4))
    found = ask("positions_missing", signals={"tensors": looks, "batches": ({"step": 1, "phase": "train"},)})
    assert (found and found.verdict) == verdict


@in_one_test(
    ("norm", "after", "around", "verdict"),
    [
        ("NativeLayerNorm", ["Addmm", [7]], ["Add", [10, 14]], "warn"),
        ("NativeLayerNorm", ["Add", [7, 9]], ["Add", [10, 14]], None),  # a residual connection
        ("NativeLayerNorm", ["Addmm", [7]], ["Addmm", [10]], None),  # layers of a graph network have none at all
        ("NativeBatchNorm", ["Addmm", [7]], ["Add", [10, 14]], None),
    ],
)
def test_feed_forward_part_without_a_residual_connection(ask, norm, after, around, verdict):
    rows = [["Add", [1, 5]], ["Bmm", [2, 5]], ["Softmax", [3]], ["Bmm", [4, 4]], ["Addmm", [5]], [norm, [6]], after]
    rows += [["Relu", [8]], ["Addmm", [9]], around, ["Bmm", [11, 14]], ["Softmax", [12]], ["Bmm", [13, 13]]]
    rows += [["Addmm", [14]], ["Embedding", [15]], ["", []]]
    operations = [[name, taken, "" if not taken else None] for name, taken in rows]
    found = ask("residual_missing", signals={"graphs": ({"operations": operations},)})
    assert (found and found.verdict) == verdict


@in_one_test(
    ("last", "verdict"),
    [(0.1, "note"), (0.68, "warn")],  # a task on sets, which does not need the order
)
def test_positions_are_not_missed_where_the_loss_falls_without_them(ask, make_series, last, verdict):
    row = {"fn": "softmax", "line": "t.py:9", "shape": [8, 4, 20, 20], "unordered": True}
    looks = tuple({"step": step, "model": 0, "functions": [row]} for step in (1, 2, 3, 4))
    losses = make_series("loss", [0.69] * 5 + [last] * 40)
    found = ask("positions_missing", losses, signals={"tensors": looks, "batches": ({"step": 1, "phase": "train"},)})
    assert (found and found.verdict) == verdict


@in_one_test(("calls", "verdict"), [(250, "warn"), (1500, "not observed")])
def test_a_loss_for_each_time_of_a_sequence_has_no_classes_of_the_data(ask, calls, verdict):
    counted = epoch() | {"histogram": {"0": 1900, "1": 50, "2": 50}}
    call = classifier(calls=calls, classes=3, target={"shape": [32], "min": 0, "max": 2})
    signals = {"losses": (call,), "prints": (counted,), "loop": {"backwards": 250}}
    assert ask("class_imbalance", signals=signals).verdict == verdict
    # Phases with smaller batches than the classifier's are no labels of several times.
    signals["batches"] = tuple({"phase": "train", "samples": samples} for samples in (32, 16, 16))
    assert ask("class_imbalance", signals=signals).verdict == verdict
