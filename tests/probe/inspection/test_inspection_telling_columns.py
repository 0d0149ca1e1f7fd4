from __future__ import annotations

import numpy as np
import pytest

from labbook.probe.inspection.missing_marks import marked_columns
from labbook.probe.inspection.model_inputs import find_target_columns, telling_columns
from labbook.probe.inspection.row_scaling import are_rows_scaled


@pytest.fixture
def table():
    return np.random.default_rng(0).normal(size=(64, 6))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x: (x[:, 2] * -3.0 + 7.0, x), [2]),
        (lambda x: (x[:, :5].sum(1), x), []),
        (lambda x: (np.arange(64.0) % 4, np.column_stack([x[:, :3], (np.arange(64) % 4) * 2.5 - 1, x[:, 3:]])), [3]),
        (lambda x: (np.arange(64.0) % 4, np.column_stack([x, np.array([9.0, -1, 4, 4])[np.arange(64) % 4]])), [6]),
        (lambda x: ((y := np.arange(64.0) % 4 // 3), np.column_stack([x, np.where(y > 0, 9 + x[:, 0], -0.7)])), [6]),
        (lambda x: ((y := np.arange(64.0) % 32 // 31), np.column_stack([x, np.where(y > 0, 9 + x[:, 0], -0.7)])), [6]),
        (lambda x: ((y := np.arange(64.0) % 4 // 3), np.column_stack([x, np.where(y > 0, x[:, 0].round(), 0)])), []),
        (lambda x: (np.arange(64.0) // 63, x), []),
        (lambda x: (np.arange(64.0) % 4, x), []),
        (lambda x: ((x[:, 0] > 0).astype(float), x), []),
        (lambda x: (np.arange(64.0) % 4, np.eye(4)[np.arange(64) % 4]), []),
        (lambda x: (np.arange(64.0), x), []),
        (lambda x: (np.ones(64), x), None),
        (lambda x: (np.arange(64.0) % 4, np.ones((64, 6))), []),
    ],
    ids=[
        "a line", "a sum of columns", "the class, scaled", "one value a class", "a date of one class",
        "of a rare class", "counts with 0 in both classes", "one row of a class", "noise", "a threshold",
        "one-hot inputs", "all different", "one target", "constant columns",
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_columns_that_alone_determine_the_target(table, make, expected):
    target, inputs = make(table)
    assert telling_columns(inputs, target) == expected
    assert telling_columns(inputs[:6], target[:6]) is None


def test_the_last_step_of_a_sequence_that_is_the_target(table):
    assert find_target_columns(table, table[:, 2]) == [2]
    assert find_target_columns(table, table[:, 2] + 1.0) == find_target_columns(table, table[:, ::2].sum(1)) == []
    assert find_target_columns(np.ones((64, 2)), np.ones(64)) is None


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x: np.where(np.arange(64) % 8 == 0, -999.0, x), [1]),
        (lambda x: (np.where(np.arange(64) % 8 == 0, 9999.0, x) - 40) / 300, [1]),
        (lambda x: x, []),
        (lambda x: np.where(np.arange(64) == 3, -999.0, x), []),
        (lambda x: np.where(np.arange(64) % 8 > 1, 0.0, x + 500), []),
        (lambda x: np.where(np.arange(64) % 3 == 0, 0.0, np.log1p(np.exp(8 + x))), []),
        (lambda x: np.where(np.arange(64) % 8 == 0, -9.0, np.sign(x)), []),
        (lambda x: np.clip(x, -1, 1), []),
    ],
    ids=["-999", "9999, scaled", "none", "one outlier", "mostly 0", "incomes and none", "a code", "clipped"],
)
def test_columns_with_a_value_far_from_all_others(table, make, expected):
    table[:, 1] = make(table[:, 1])
    assert marked_columns(table.tolist()) == expected


def test_bright_pixels_of_a_picture_are_no_marks():
    rng = np.random.default_rng(0)
    pictures = rng.random((64, 64)) * 0.1
    pictures[np.arange(64)[:, None], np.arange(64)[:, None] % 8 * 8 + np.arange(8)] = 1.0
    assert marked_columns(pictures.tolist()) == []
    few = pictures[:, :8]
    assert marked_columns(few.tolist()) == list(range(8))
    assert marked_columns(np.where(pictures == 1, -999.0, pictures).tolist()) == list(range(64))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x, units: (t := x * units + 9 * units, t)[1], False),
        (lambda x, units: x - x.mean(1, keepdims=True), False),
        (lambda x, units: (t := x - x.mean(1, keepdims=True)) / t.std(1, keepdims=True), False),
        (lambda x, units: (t := 9 * units + x * units) / np.linalg.norm(t, axis=1, keepdims=True), True),
        (lambda x, units: ((t := 9 * units + x * units) - t.mean(1, keepdims=True)) / t.std(1, keepdims=True), True),
        (lambda x, units: ((t := np.arange(6.0) + x / 30) - t.mean(1, keepdims=True)) / t.std(1, keepdims=True), False),
    ],
    ids=["units", "centred", "windows", "of length 1", "rows of a table", "spectra"],
)
def test_rows_of_a_table_that_were_scaled_by_themselves(table, make, expected):
    assert are_rows_scaled(make(table, np.array([1.0, 5000, 0.1, 8, 3, 0.4])).tolist()) is expected
