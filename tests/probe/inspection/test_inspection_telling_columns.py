from __future__ import annotations

import numpy as np
import pytest

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
