"""Calls of loss functions: several on one line, and the weights of their classes."""

import pytest

pytestmark = pytest.mark.torch

TWO_HEADS = """
import torch
from torch.nn.functional import cross_entropy
digit, parity = torch.nn.Linear(8, 10), torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD([*digit.parameters(), *parity.parameters()], lr=0.1)
weights = torch.tensor([1.0, 0.25])
for _ in range(6):
    x, y = torch.randn(40, 8), torch.arange(40) % 10
    loss = cross_entropy(digit(x), y) + cross_entropy(parity(x), y % 2, weights)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_two_calls_on_one_line_are_two_losses(run, healthy):
    calls = {call["call"]: call for call in healthy(run(TWO_HEADS, fork="torch")).of("loss_call")}
    seen = [(call["classes"], call["target"]["max"], call["class_weights"]) for call in calls.values()]
    assert seen == [(10, 9.0, None), (2, 1.0, [1.0, 0.25])]
    assert len({call["line"] for call in calls.values()}) == 1
