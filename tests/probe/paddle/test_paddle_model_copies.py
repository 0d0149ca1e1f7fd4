"""Copies of a PaddlePaddle model that are evaluated between steps: averages, right and wrong, and other models."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.paddle, pytest.mark.forked("paddle")]

PROGRAM = """
import copy
import paddle
from paddle import nn

paddle.seed(4)
make = lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1D(8), nn.ReLU(), nn.Linear(8, 2))
net, other = make(), make()
average = other if {update!r} == "other" else copy.deepcopy(net)
optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())
for _ in range(6):
    net.train()
    for _ in range(5):
        loss = nn.functional.cross_entropy(net(paddle.randn([16, 6]) + 2), paddle.randint(0, 2, [16]))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if {update!r} in ("weights", "all"):
            with paddle.no_grad():
                for mine, new in zip(average.parameters(), net.parameters()):
                    if {update!r} == "all" or not mine.stop_gradient:
                        mine.set_value(0.8 * mine + 0.2 * new)
    average.eval()
    with paddle.no_grad():
        average(paddle.randn([16, 6])), average(paddle.randn([16, 6]))
"""


@pytest.mark.parametrize(
    ("update", "found"),
    [("weights", (True, 3)), ("all", (True, 0)), ("none", (False, 3)), ("other", None)],
)
def test_copies_are_compared_with_how_they_were_found(run, healthy, update, found):
    copies = healthy(run(PROGRAM.format(update=update), fork="paddle")).of("loop")[-1].get("copies", [])
    assert [(one["changed"], min(one["stale_norms"], 3)) for one in copies] == ([found] if found else [])
