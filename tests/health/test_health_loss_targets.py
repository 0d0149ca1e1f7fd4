"""Losses and the targets that they get: outputs and activations that do not belong to them."""

import pytest
from loss_signals import loss
from order_of_tests import in_one_test


def test_sigmoid_before_bce_with_logits(ask):
    fed = {"shape": [32, 1], "min": 0.01, "max": 0.97}
    found = ask("softmax_before_cross_entropy", signals=loss(fn="bce_with_logits", unit_range=1.0, input=fed))
    assert found.verdict == "fail" and found.where == {"file": "t.py", "line": 7}


@pytest.mark.parametrize(("low", "high"), [(0.41, 0.64), (0.0002, 0.38)])
def test_scores_that_stay_in_a_part_of_the_unit_interval_are_no_probabilities(ask, low, high):
    fed = {"shape": [32, 1], "min": low, "max": high}
    assert (
        ask("softmax_before_cross_entropy", signals=loss(fn="bce_with_logits", unit_range=1.0, input=fed)).verdict
        == "ok"
    )


@in_one_test(
    ("zero", "fields", "verdict"),
    [
        (0.5, {}, "warn"),
        (0.5, {"unit_range": 0.6}, "warn"),
        (0.2, {}, "warn"),
        (0.05, {}, None),
        (0.5, {"prob_rows": 1.0}, None),
        (0.5, {"unit_range": 1.0}, None),
    ],
)
def test_relu_on_the_scores(ask, zero, fields, verdict):
    fed = {"shape": [32, 10], "min": 0.0, "max": 9.0, "zero": zero}
    found = ask("loss_activation_mismatch", signals=loss(input=fed, **{"prob_rows": 0.0, **fields}))
    assert (found.verdict if found else None) == verdict


@in_one_test(
    ("activation", "output", "target", "verdict"),
    [
        ("ReLU", (0.0, 2.1), (-1.9, 2.0), "warn"),
        ("ReLU", (0.0, 2.1), (0.0, 2.0), None),
        ("Sigmoid", (0.02, 0.99), (3.0, 250.0), "warn"),
        ("Sigmoid", (0.02, 0.99), (0.0, 1.0), None),
        ("Tanh", (-0.9, 0.9), (-1.02, 1.01), None),
        ("Tanh", (-0.9, 0.9), (-2.9, 3.1), "warn"),
        ("Linear", (0.0, 0.9), (-2.9, 3.1), None),
    ],
)
def test_targets_beyond_the_last_activation(ask, activation, output, target, verdict):
    rows = [{"i": 0, "name": "", "type": "Net", "order": 0}, {"i": 1, "name": "act", "type": activation, "order": 1}]
    low, high = output
    look = {"min": low, "max": high, "shape": [32, 1]}
    tensors = tuple({"step": step, "model": 0, "modules": [{"i": 0, **look}, {"i": 1, **look}]} for step in range(1, 5))
    signals = loss(fn="mse_loss", input=look, target=dict(zip(("min", "max"), target, strict=True)))
    found = ask(
        "loss_activation_mismatch", signals={**signals, "models": ({"model": 0, "modules": rows},), "tensors": tensors}
    )
    assert (found.verdict if found else None) == verdict


@in_one_test(("share", "zeros", "verdict"), [(0.3, 0.7, "warn"), (0.25, 0.75, None), (0.3, 0.1, None)])
def test_several_labels_for_a_cross_entropy(ask, share, zeros, verdict):
    target = {"path": "target", "role": "label", "shape": [32, 4], "min": 0.0, "max": 1.0, "mean": share, "zero": zeros}
    batch = {"phase": "train", "samples": 32, "leaves": [target]}
    signals = loss(fn="cross_entropy", soft=True, classes=4, target={"shape": [32, 4], "min": 0.0, "max": 1.0})
    found = ask("loss_activation_mismatch", signals={**signals, "batches": (batch,)})
    assert (found.verdict if found else None) == verdict


def test_kl_div_of_probabilities(ask):
    probable = loss(fn="kl_div", input={"shape": [32, 5], "min": 0.01, "max": 0.8})
    assert ask("missing_output_activation", signals=probable).verdict == "warn"
    right = loss(fn="kl_div", input={"shape": [32, 5], "min": -6.0, "max": -0.2})
    assert ask("missing_output_activation", signals=right) is None


@in_one_test(("first", "verdict"), [(1.2, "fail"), (float("nan"), None)])
def test_of_scores_that_are_nan_it_is_unknown_whether_they_are_log_probabilities(ask, make_series, first, verdict):
    seen = make_series("loss", [first] * 20)
    found = ask("missing_output_activation", seen, signals=loss(fn="nll_loss", logprob_rows=0.0))
    assert (found.verdict if found else None) == verdict


def test_float_labels_in_paddle(ask):
    fed = {"target": {"shape": [32], "dtype": "float32"}}
    assert ask("label_dtype_truncated", signals=loss(**fed), framework="paddle").verdict == "fail"
    assert ask("label_dtype_truncated", signals=loss(**fed), framework="torch") is None
    assert ask("label_dtype_truncated", signals=loss(**fed, soft=True), framework="paddle") is None


@pytest.mark.parametrize(
    ("function", "shape"),
    [("bce_with_logits", [16, 1, 8, 8]), ("cross_entropy", [16, 8, 8]), ("cross_entropy", [1024])],
)
@pytest.mark.parametrize(("low", "high", "verdict"), [(0.0, 0.0, "fail"), (0.0, 1.0, None)])
def test_binary_targets_that_never_vary(ask, function, shape, low, high, verdict):
    signals = loss(fn=function, classes=2, items=1024, target={"shape": shape, "min": low, "max": high})
    verdict = None if len(shape) == 1 else verdict
    found = ask("label_constant", signals=signals)
    assert (found.verdict if found else None) == verdict


@pytest.mark.parametrize(("far", "high", "verdict"), [(0.01, 0.0, "fail"), (0.2, 0.0, None), (0.01, 1.0, None)])
def test_outputs_of_a_regression_that_approach_the_one_target(ask, looks, make_model, far, high, verdict):
    def row(step):
        end = 0.3 if step < 20 else far
        return [{"i": 0, "shape": [32], "min": -end, "max": end}]

    seen = loss(fn="mse_loss", items=32, target={"shape": [32], "min": 0.0, "max": high})
    found = ask("label_constant", signals={**seen, "tensors": looks(modules=row), "models": (make_model("Linear"),)})
    assert (found.verdict if found else None) == verdict


def test_the_targets_of_another_loss_are_no_class_numbers_of_this_one(ask):
    target = {"path": "target", "role": "label", "shape": [32], "min": 0.0, "max": 9.0, "mean": 4.5, "zero": 0.1}
    seen = tuple({"phase": "train", "step": step, "samples": 32, "leaves": [target]} for step in (1, 2, 3))
    (numbers,) = loss(fn="mse_loss", target={"shape": [32], "min": 0.0, "max": 9.0})["losses"]
    (amounts,) = loss(fn="mse_loss", target={"shape": [32], "min": 0.2, "max": 0.4})["losses"]
    (classes,) = loss(fn="cross_entropy", target={"shape": [32], "min": 0.0, "max": 9.0})["losses"]
    for losses, verdict in (((numbers,), "note"), ((classes, amounts), None), ((classes, numbers), None)):
        found = ask("regression_loss_for_classes", signals={"losses": losses, "batches": seen})
        assert (found.verdict if found else None) == verdict


def test_a_squared_error_of_probabilities_is_noted(ask):
    target = {"path": "target", "role": "label", "shape": [32], "min": 0.0, "max": 1.0, "mean": 0.4, "zero": 0.6}
    seen = tuple({"phase": "train", "step": step, "samples": 32, "leaves": [target]} for step in (1, 2, 3))
    signals = {**loss(fn="mse_loss", unit_range=1.0), "batches": seen}
    assert ask("regression_loss_for_classes", signals=signals).verdict == "note"
    assert ask("regression_loss_for_classes", signals={**signals, **loss(fn="mse_loss", unit_range=0.5)}) is None
    spikes = loss(fn="mse_loss", unit_range=1.0, input={"shape": [32], "min": 0.0, "max": 0.75})
    assert ask("regression_loss_for_classes", signals={**signals, **spikes}) is None


@in_one_test(
    ("target", "name", "verdict"),
    [
        ({}, "test accuracy", "warn"),
        ({}, "val_mae", "note"),
        ({"mean": 4.51}, "accuracy", None),
        ({"shape": [32, 4]}, "accuracy", None),
        ({"max": 2026.0}, "accuracy", None),
        ({"min": 3.0}, "accuracy", None),
    ],
    ids=["class numbers", "grades", "fractions", "several", "years", "amounts"],
)
def test_class_numbers_as_values(rows_of, make_run, make_series, target, name, verdict):
    leaf = {
        "path": "target",
        "role": "label",
        "shape": [32],
        "min": 0.0,
        "max": 9.0,
        "mean": 4.5,
        "zero": 0.1,
        **target,
    }
    batches = tuple({"phase": "train", "step": step, "samples": 32, "leaves": [leaf]} for step in (1, 2, 3))
    signals = {**loss(fn="mse_loss", unit_range=0.1), "batches": batches}
    rows = rows_of(make_run(make_series(name, [0.2, 0.3, 0.3], "text"), signals=signals))
    assert (rows["regression_loss_for_classes"].verdict if "regression_loss_for_classes" in rows else None) == verdict


@pytest.mark.parametrize(("end", "verdict"), [(0.09, "warn"), (0.01, "note")])
def test_probabilities_that_a_squared_error_fits_well(rows_of, make_run, make_series, end, verdict):
    leaf = {"path": "target", "role": "label", "shape": [32, 10], "min": 0.0, "max": 1.0, "mean": 0.1, "zero": 0.9}
    batches = tuple({"phase": "train", "step": step, "samples": 32, "leaves": [leaf]} for step in (1, 2, 3))
    losses = make_series("loss", [0.1 - (0.1 - end) * min(1.0, n / 80) for n in range(120)])
    accuracy = make_series("test accuracy", [0.2, 0.3, 0.3], "text")
    signals = {**loss(fn="mse_loss", unit_range=1.0), "batches": batches}
    rows = rows_of(make_run(losses, accuracy, signals=signals))
    assert rows["regression_loss_for_classes"].verdict == verdict


def test_a_loss_without_a_lowest_value_gets_advice_about_its_formula(ask, make_series):
    found = ask("loss_diverging", make_series("loss", [0.4 - 0.1 * i**2 for i in range(200)]))
    assert found.verdict == "fail" and "sign of each term" in found.advice


@pytest.mark.parametrize(("decoded", "verdict"), [((), "warn"), ((1,), "note")])
def test_a_decoder_that_gives_the_input_back(ask, make_series, decoded, verdict):
    """It is given the target one step later, and the loss falls as low as where tokens are their own target."""
    leaf = {"path": "0", "role": "input", "shape": [16, 24], "integer": True, "max": 20, "ahead": 0}
    leaves = [leaf, *({**leaf, "path": "1", "ahead": ahead} for ahead in decoded)]
    losses = ({"fn": "cross_entropy", "training": True, "calls": 100, "classes": 21, "step": 1, "observed": 20},)
    batches = tuple({"step": step, "phase": "train", "leaves": leaves} for step in range(4))
    loss = make_series("loss", [3.0 - 2.99 * min(1.0, step / 60) for step in range(100)])
    assert ask("target_in_inputs", loss, signals={"batches": batches, "losses": losses}).verdict == verdict


def test_batches_with_targets_of_another_loss_do_not_count_as_its_classes(ask):
    """As those of a contrastive loss in an earlier phase, whose targets are numbers of rows."""

    def batch(step, high, counts):
        leaf = {"path": "target", "role": "label", "integer": True, "shape": [64], "min": 0, "max": high}
        return {"step": step, "phase": "train", "samples": 64, "leaves": [leaf], "labels": {"histogram": counts}}

    target = {"shape": [64], "min": 0, "max": 2}
    loss = {"fn": "cross_entropy", "training": True, "calls": 50, "classes": 3, "observed": 20, "target": target}
    earlier = batch(1, 511, {str(n): 1 for n in range(200)})
    later = batch(9, 2, {"0": 40, "1": 40, "2": 40})
    found = ask("class_imbalance", signals={"losses": (loss,), "batches": (earlier, later)})
    assert (found.verdict, found.observed) == ("ok", "3 classes, 33 % to 33 % of 120 inspected labels")


@in_one_test(
    ("counts", "weights", "verdict"),
    [
        ((970, 30), [1.0, 0.03], "warn"),
        ((900, 60, 40), [0.9, 0.06, 0.04], "warn"),
        ((30, 970), [0.06, 0.94], "warn"),
        ((970, 30), [0.03, 1.0], None),
        ((970, 30), [1.0, 0.3], None),  # on purpose: fewer false alarms
        ((450, 450, 40), [1.0, 1.0, 0.5], None),  # a class of leftovers
        ((600, 350, 50), [1.0, 0.0, 0.05], None),  # a class that is left out
        ((800, 200), [0.8, 0.2], None),  # hardly skewed
        ((97, 3), [1.0, 0.03], None),
        ((970, 30), None, None),
    ],
)
def test_weights_that_grow_with_the_counts_of_the_classes(ask, counts, weights, verdict):
    seen = {"phase": "train", "epoch": 0, "loader": 0, "histogram": {str(k): n for k, n in enumerate(counts)}}
    target = {"shape": [32], "min": 0, "max": len(counts) - 1}
    call = {"fn": "cross_entropy", "line": "t.py:7", "training": True, "observed": 20, "classes": len(counts)}
    weighted = {"losses": ({**call, "target": target, "weight": True, "class_weights": weights},)}
    found = ask("class_weights_inverted", signals={**weighted, "prints": (seen,)})
    assert (found and found.verdict) == verdict, found


@pytest.mark.parametrize(
    ("fields", "total", "verdict"),
    [
        ({}, 2.3, "warn"),
        ({"target_trained": 3}, 2.3, None),
        ({"fn": "cross_entropy"}, 2.3, None),  # similarities of two towers
        ({}, 3.1, None),  # the residual of an equation, and a condition computed by hand
    ],
)
def test_a_loss_of_which_both_sides_are_trained(ask, make_series, fields, total, verdict):
    one = loss(**{"fn": "mse_loss", "observed": 20, "target_trained": 20, **fields})
    found = ask("twins_without_stop_gradient", make_series("loss", [total, total / 2, 0.1]), signals=one)
    assert (found and found.verdict) == verdict
    derived = {**one, "graphs": ({"foreign": [{"shape": (64, 1), "parameter": False}]},)}
    assert ask("twins_without_stop_gradient", make_series("loss", [total, total / 2, 0.1]), signals=derived) is None
    difference = {**one, "graphs": ({"bootstrapped": "t.py:9"},)}  # `target_not_detached` names it
    assert ask("twins_without_stop_gradient", make_series("loss", [total, total / 2, 0.1]), signals=difference) is None
    both = {"losses": (*one["losses"], {**one["losses"][0], "line": "t.py:8", "target_trained": 0})}
    assert ask("twins_without_stop_gradient", make_series("loss", [total] * 3), signals=both) is None


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"smoothing": 0.9}, "warn"),
        ({"smoothing": 0.1}, None),
        ({"soft": True, "target": {"min": 0.9 / 32, "max": 0.1 + 0.9 / 32}}, "warn"),
        ({"soft": True, "target": {"min": 0.1 / 32, "max": 0.9 + 0.1 / 32}}, None),
        ({"soft": True, "target": {"min": 1 / 32, "max": 1 / 32}}, None),  # any class, on purpose
        ({"soft": True, "target": {"min": 0.001, "max": 0.3}}, None),  # a teacher
    ],
)
def test_smoothing_that_leaves_nothing_of_the_label(ask, fields, verdict):
    found = ask("label_smoothing_too_high", signals=loss(classes=32, **fields))
    assert (found and found.verdict) == verdict
