"""Metric objects of PaddlePaddle that collect pass after pass."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.paddle, pytest.mark.forked("paddle")]

PROGRAM = """
import json, paddle
from paddle.io import DataLoader, TensorDataset

paddle.seed(1)
RESET, READ, MIDDLE = "{reset}", "{read}", {middle}
x, y = paddle.randn([24, 6]), paddle.randint(0, 3, [24, 1])
train, val = DataLoader(TensorDataset([x, y]), batch_size=8), DataLoader(TensorDataset([x, y]), batch_size=12)
model = paddle.nn.Linear(6, 3)
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
metrics = [paddle.metric.Accuracy()]
def evaluate():
    with paddle.no_grad():
        for a, b in val:
            model(a)
for epoch in range(4):
    if RESET == "epoch" or not epoch:
        metrics[0].reset()
    for a, b in train:
        out = model(a)
        paddle.nn.functional.cross_entropy(out, b).backward()
        optimizer.step()
        optimizer.clear_grad()
        metrics[0].update(metrics[0].compute(out, b))
        if MIDDLE:
            evaluate()
        if READ == "step":
            metrics[0].accumulate()
    if READ == "epoch":
        metrics[0].accumulate()
print(json.dumps(metrics[0].accumulate()))
"""


@pytest.mark.parametrize(
    ("reset", "read", "middle", "passes"),
    [("once", "epoch", False, 3), ("once", "step", False, 3), ("epoch", "step", True, 0), ("once", "end", False, 0)],
)
def test_passes_that_a_metric_object_collects_after_it_was_read(run, healthy, reset, read, middle, passes):
    program = PROGRAM.format(reset=reset, read=read, middle=middle)
    outcome = healthy(run(program, fork="paddle"))
    assert outcome.result == run(program, fork="paddle", probe=False).result
    carried = outcome.of("loop")[-1].get("metrics_carried", {})
    assert carried.get("count", 0) == passes
    assert not passes or (carried["function"], carried["line"]) == ("Accuracy", "program.py:24")
