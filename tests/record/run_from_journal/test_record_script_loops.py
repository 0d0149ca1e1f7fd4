"""Loops over written-out values around a training are options; seeds, folds and numbers in a row are not."""

from __future__ import annotations

import pytest

from labbook.record.run_from_journal.script_loops import repeated_values

pytestmark = pytest.mark.pure
FIT = """\
def make(net):
    return torch.optim.Adam(net.parameters())

def fit(x=None):
    net = Net(x)
    optimizer = make(net)
    for epoch in range(3):
        optimizer.step()

"""


@pytest.mark.parametrize(
    ("loops", "count", "values"),
    [
        ("for noise in (0.0, 0.5):\n    fit(noise)", 2, [{"noise": 0.0}, {"noise": 0.5}]),
        ("KINDS = ['relu', 'gelu']\ndef main():\n    for kind in KINDS:\n        fit(kind)\nmain()", 2,
         [{"kind": "relu"}, {"kind": "gelu"}]),
        ("found = [fit(s) for s in (0.1, 0.2)]", 2, [{"s": 0.1}, {"s": 0.2}]),
        ("for a in (0.1, 1.0):\n    for seed in range(2):\n        fit(a)", 4,
         [{"a": 0.1}, {"a": 0.1}, {"a": 1.0}, {"a": 1.0}]),
        ("for width in (8, 32):\n    for train, test in folds.split(X):\n        fit(width)", 4,
         [{"width": 8}, {"width": 8}, {"width": 32}, {"width": 32}]),
        ("for noise in (0.0, 0.5):\n    fit(noise)", 3, []),
        ("for seed in (1, 7, 42):\n    fit(seed)", 3, []),
        ("for k in [3, 5, 9]:\n    fit(k)", 3, []),
        ("for level in [0, 1, 2]:\n    fit(level)", 3, []),
        ("for level in range(3):\n    fit(level)", 3, []),
        ("for level in levels():\n    fit(level)", 3, []),
        ("for noise in (0.0, 0.5, 0.9):\n    print(noise)\nfor number in range(3):\n    fit()", 3, []),
        ("NOISE = (0.1, 0.2)\nif fast:\n    NOISE = (0.1, 0.3)\nfor noise in NOISE:\n    fit(noise)", 2, []),
        ("for noise in (0.0, 0.5):\n    fit(noise)\nfit()", 3, []),
        ("while True:\n    for noise in (0.0, 0.5):\n        fit(noise)", 2, []),
        ("found = [fit(s) for s in (0.1, 0.2, 0.3) if s < limit]", 2, []),
        ("pool.map(fit, (0.1, 0.2))", 2, []),
        ("for noise in (", 2, []),
    ],
)  # fmt: skip
def test_values_of_loops_are_read_where_they_are_certain(loops, count, values):
    assert repeated_values(FIT + loops, "Adam", count) == values
