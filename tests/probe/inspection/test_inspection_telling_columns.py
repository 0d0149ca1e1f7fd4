from __future__ import annotations

import numpy as np
import pytest

from labbook.probe.inspection.missing_marks import marked_columns
from labbook.probe.inspection.model_inputs import find_target_columns, telling_columns


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
        (lambda x: (np.arange(64.0) % 4, x), []),
        (lambda x: ((x[:, 0] > 0).astype(float), x), []),
        (lambda x: (np.arange(64.0) % 4, np.eye(4)[np.arange(64) % 4]), []),
        (lambda x: (np.arange(64.0), x), []),
        (lambda x: (np.ones(64), x), None),
        (lambda x: (np.arange(64.0) % 4, np.ones((64, 6))), []),
    ],
    ids=[
        "a line", "a sum of columns", "the class, scaled", "one value a class", "noise", "a threshold",
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
