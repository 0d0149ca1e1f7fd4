"""Checks of what modules and losses are given: ids of lookup tables, axes in another order, steps, activations."""

import pytest
from order_of_tests import in_one_test

FALLING = [0.69 * 0.97**n for n in range(60)]


@in_one_test(
    ("ids", "rows", "calls", "verdict"),
    [
        ([[0, 0, 128]] * 3, 100, 1, "warn"),
        ([[0, 0, 128], [0, 0, 128], [0, 5, 128]], 100, 1, None),
        ([[0, 0, 128], [1, 1, 128], [0, 0, 128]], 100, 1, None),  # one domain a batch
        ([[0, 0, 1]] * 30, 100, 1, None),
        *[([[0, 0, 128]] * 3, rows, 1, None) for rows in (2, 16)],  # segments of a text
        ([[0, 0, 128]] * 3, 100, 4, None),  # the first of four columns
        ([[1, 1, 512]] * 3, 100, 0, None),  # positions that are counted along a mask
    ],
)
def test_a_lookup_table_that_is_given_one_id(ask, ids, rows, calls, verdict):
    kind = "Embedding" if calls else "LearnedPositionalEmbedding"
    table = {"i": 1, "name": "item", "type": kind, "order": 0, "options": {"num_embeddings": rows}}
    looks = tuple(
        {"step": n, "model": 0, "modules": [{"i": 1, "ids": look, "calls": calls}]} for n, look in enumerate(ids)
    )
    models = ({"model": 0, "modules": [table], "parameters": []},)
    found = ask("constant_feature", signals={"batches": ({"phase": "train"},), "models": models, "tensors": looks})
    assert (found.verdict if found else None) == verdict


@in_one_test(("chained", "verdict"), [(0, "fail"), (19, None)])
def test_the_first_of_the_forwards_of_a_solver_shows_no_constant_columns(ask, chained, verdict):
    leaf = {"path": "0", "role": "input", "shape": [64, 3], "constant": 3, "constant_n": 640}
    loop = {"forwards": {"looked": 20, "chained": chained}}
    found = ask("constant_feature", signals={"batches": ({"phase": "train", "leaves": [leaf]},), "loop": loop})
    assert (found.verdict if found else None) == verdict


def test_axes_that_are_reshaped(ask):
    conv = {"i": 1, "name": "conv", "type": "Conv1d", "order": 0, "input": [{"shape": [8, 6, 40]}]}
    for row, verdict in ((conv, None), ({**conv, "view_of": [8, 40, 6]}, "warn")):
        found = ask("reshaped_not_permuted", signals={"models": ({"model": 0, "modules": [row], "parameters": []},)})
        assert (found.verdict if found else None) == verdict


@in_one_test(
    ("calls", "read", "both", "verdict"),
    [
        *[(1, [0], False, "warn"), (1, [0, -1], False, None), (1, [17], False, None), (9, [0], False, None)],
        *[(1, [], False, None), (1, [17], True, "warn"), (1, [0], True, "warn"), (1, [0, 17], True, None)],
    ],
)
def test_the_first_step_of_a_recurrent_layer(ask, calls, read, both, verdict):
    layer = {"i": 1, "name": "lstm", "type": "LSTM", "order": 0, "output": [{"shape": [32, 18, 8]}], "steps_read": read}
    layer["options"] = {"batch_first": True, "bidirectional": both}
    looks = ({"step": 1, "model": 0, "modules": [{"i": 1, "calls": calls}]},)
    models = ({"model": 0, "modules": [layer], "parameters": []},)
    found = ask("recurrent_first_step", signals={"models": models, "tensors": looks})
    assert (found.verdict if found else None) == verdict


@pytest.mark.parametrize(
    ("padded", "length", "read", "loss", "verdict"),
    [
        (0.6, 18, [17], [0.69] * 60, "warn"),
        (0.6, 18, [17], FALLING, "note"),
        (0.6, 18, [17, 3], [0.69] * 60, None),
        (0.6, 20, [17], [0.69] * 60, None),  # ids of something else
        (0.1, 18, [17], [0.69] * 60, None),
    ],
)
def test_the_last_step_of_a_recurrent_layer_behind_padding(ask, make_series, padded, length, read, loss, verdict):
    layer = {"i": 1, "name": "gru", "type": "GRU", "order": 0, "output": [{"shape": [32, 18, 8]}], "steps_read": read}
    looks = ({"step": 1, "model": 0, "modules": [{"i": 1, "calls": 1}]},)
    ids = {"role": "input", "integer": True, "shape": [32, length], "padded": padded}
    signals = {
        "models": ({"model": 0, "modules": [layer], "parameters": []},),
        "tensors": looks,
        "batches": tuple({"phase": "train", "step": n, "leaves": [ids]} for n in range(1, 5)),
        "losses": ({"fn": "bce_with_logits", "calls": 60},),
    }
    found = ask("recurrent_first_step", make_series("loss", loss), signals=signals)
    assert (found.verdict if found else None) == verdict


@in_one_test(
    ("shape", "unit_range", "top", "verdict"),
    [([32, 4], 1.0, 31.0, "warn"), ([32, 2], 1.0, 31.0, None), ([32, 4], 0.9, 31.0, None), ([32, 4], 1.0, 1.0, None)],
)
def test_one_of_several_outputs_behind_a_sigmoid(ask, shape, unit_range, top, verdict):
    scores, target = {"shape": [32, 4], "min": 0.1, "max": 0.9}, {"shape": [32, 4], "min": 0.0, "max": top}
    loss = {"fn": "smooth_l1", "training": True, "observed": 16, "calls": 99, "input": scores, "target": target}
    sigmoid = {"fn": "sigmoid", "line": "t.py:3", "shape": shape}
    looks = tuple({"step": step, "model": 0, "functions": [sigmoid]} for step in range(3))
    found = ask("loss_activation_mismatch", signals={"losses": ({**loss, "unit_range": unit_range},), "tensors": looks})
    assert (found.verdict if found else None) == verdict


@in_one_test(
    ("form", "labels", "first", "found"),
    [
        ([24, 40, 8], [24], False, True),
        ([24, 40, 8], [24], True, False),
        ([40, 24, 8], [24], False, False),
        ([24, 24, 8], [24], False, False),  # as many samples as steps
        ([24, 1, 8], [24], False, False),  # a label for each word of one sentence
        ([24, 40, 8], [960], False, False),
        ([24, 40, 8], [24, 1], False, True),
        ([24, 40, 8], [24, 40], False, False),  # a label for each step of each sample
        ([40, 24, 8], [24], True, True),
        ([1, 24, 8], [24], True, False),  # a label for each word of one sentence
        ([40, 24, 8], [24, 40], True, False),
    ],
)
def test_samples_read_as_time(ask, form, labels, first, found):
    layer = {"i": 1, "name": "rnn", "type": "GRU", "order": 0, "options": {"batch_first": first}}
    signals = {
        "models": ({"model": 0, "modules": [layer], "parameters": []},),
        "tensors": tuple({"step": step, "model": 0, "modules": [{"i": 1, "shape": form}]} for step in (1, 2, 3)),
        "batches": tuple({"step": step, "leaves": [{"path": "target", "shape": labels}]} for step in (1, 2, 3)),
    }
    assert (ask("batch_axis_taken_as_time", signals=signals) is not None) is found


@pytest.mark.parametrize(("changed", "looks", "verdict"), [(8, 8, "warn"), (2, 2, None), (3, 12, None)])
def test_a_data_set_that_changes_as_it_is_read(ask, changed, looks, verdict):
    stored = {"changed": changed, "looks": looks, "name": "self.data"}
    found = ask("stored_array_changes", signals={"loop": {"steps": 90, "stored_data": stored}})
    assert (found and found.verdict) == verdict


def test_nodes_without_features_are_ones(ask):
    ones = {"role": "input", "path": "0", "shape": [388, 4], "constant": 4, "constant_n": 2000, "min": 1, "max": 1}
    for highest, verdict in ((387, "note"), (900, "fail")):  # edges between rows of ones; pairs of something else
        pairs = {"role": "input", "path": "1", "shape": [2, 1032], "integer": True, "min": 0, "max": highest}
        graph = {"batches": ({"step": 2, "phase": "train", "leaves": [ones, pairs]},)}
        assert ask("constant_feature", signals=graph).verdict == verdict
