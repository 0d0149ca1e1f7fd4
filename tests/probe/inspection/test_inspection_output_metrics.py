"""Metrics of a validation pass from its outputs and labels: the usual ones, and those of common mistakes."""

import numpy as np
import pytest

from labbook.probe.inspection.output_metrics import PassMetrics, compare

SCORES = np.eye(3, dtype="float32")


def rows_of(*batches, ignored=None):
    one = PassMetrics()
    one.rows = [compare(outputs, [labels], lambda array: array, ignored) for outputs, labels in batches]
    assert one.is_whole(len(batches)) and not one.is_whole(len(batches) + 1)
    return one.fields((0, 2))


def test_classes_of_batches_of_different_sizes():
    found = rows_of((SCORES[[0, 1, 2, 0]], np.array([0, 1, 2, 1])), (SCORES[[0]], np.array([2])))
    assert (found["loader"], found["epoch"], found["n"], found["right"]) == (0, 2, 5, 3)
    assert found["values"]["accuracy"] == {"all": 0.6, "mean": 0.375, "last": 0.0, "ignored": 0.6}


@pytest.mark.parametrize(("label", "ignored"), [(255, None), (-100, None), (0, 0)])
def test_an_ignored_label_is_left_out_of_the_usual_accuracy(label, ignored):
    found = rows_of((SCORES[[1, 2, 1, 1]], np.array([[1], [2], [label], [label]])), ignored=ignored)
    assert (found["n"], found["right"]) == (2, 2)
    assert found["values"]["accuracy"]["ignored"] == 0.5


@pytest.mark.parametrize(
    ("outputs", "right", "wrong"), [([-2, 0.3, 3, -1], 1.0, "half"), ([0.1, 0.6, 1, 0.2], 1.0, "zero")]
)
def test_one_output_is_a_logit_or_a_probability(outputs, right, wrong):
    found = rows_of((np.array(outputs, "float32")[:, None], np.array([0.0, 1.0, 1.0, 0.0])))
    values = found["values"]["accuracy"]
    assert values["all"] == right and values[wrong] < 1 and found["values"]["f1"]["all"] == 1.0


def test_errors_of_real_numbers_and_of_each_output_against_each_target():
    outputs, targets = np.array([[1.0], [2.0], [4.0]]), np.array([1.5, 2.0, 3.0])
    mse = rows_of((outputs, targets))["values"]["mse"]
    assert mse["all"] == pytest.approx(((outputs[:, 0] - targets) ** 2).mean())
    assert mse["crossed"] == pytest.approx(((outputs - targets) ** 2).mean())


@pytest.mark.parametrize(
    ("outputs", "labels"),
    [
        (np.zeros((4, 3), "float32"), [np.zeros(5, "int64")]),  # of another batch
        (np.zeros((4, 3), "float32"), [np.zeros(4, "int64"), np.ones(4, "int64")]),  # two may be the labels
        (np.zeros((4, 5, 5), "float32"), [np.zeros((4, 5), "int64")]),  # two axes may be the classes
    ],
)
def test_labels_that_are_not_surely_those_of_the_outputs_are_not_compared(outputs, labels):
    assert compare(outputs, labels, lambda array: array) is None


@pytest.mark.torch
def test_whole_numbers_of_pytorch_are_compared_like_others():
    """Ids of items, or ratings, beside one output a sample: a tensor of integers has no mean."""
    torch = pytest.importorskip("torch")
    outputs, labels = [1.5, 2.5, 4.0], [1, 2, 4]
    row = compare(torch.tensor(outputs), [torch.tensor(labels)], lambda tensor: tensor)
    assert row == pytest.approx(compare(np.array(outputs), [np.array(labels)], lambda array: array))
    assert row["n"] == 3 and row["sizes"] == pytest.approx(1.0)
