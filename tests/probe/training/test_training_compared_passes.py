"""A validation pass over a loader is compared with the labels of its batches, also where no loss is computed."""

import pytest

TORCH = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
x, y = torch.randn(70, 4), torch.randint(0, 3, (70,))
net = nn.Linear(4, 3)
optimizer, loss = torch.optim.SGD(net.parameters(), 0.1), nn.CrossEntropyLoss()
data, held_out = DataLoader(TensorDataset(x[:40], y[:40]), 10), DataLoader(TensorDataset(x[40:], y[40:]), 20)
right = []
for epoch in range(3):
    net.train()
    for a, b in data:
        optimizer.zero_grad(); loss(net(a), b).backward(); optimizer.step()
    net.eval()
    with torch.no_grad():
        right.append(sum(int((net(a).argmax(1) == b).sum()) for a, b in held_out))
print(right)
"""
PADDLE = """
import paddle
from paddle import nn
from paddle.io import DataLoader, TensorDataset
paddle.seed(0)
x, y = paddle.randn([70, 4]), paddle.randint(0, 3, [70])
net = nn.Linear(4, 3)
optimizer, loss = paddle.optimizer.SGD(0.1, parameters=net.parameters()), nn.CrossEntropyLoss()
data = DataLoader(TensorDataset([x[:40], y[:40]]), batch_size=10)
held_out = DataLoader(TensorDataset([x[40:], y[40:].unsqueeze(1)]), batch_size=20)
right = []
for epoch in range(3):
    net.train()
    for a, b in data:
        loss(net(a), b).backward(); optimizer.step(); optimizer.clear_grad()
    net.eval()
    with paddle.no_grad():
        right.append(sum(int((net(a).argmax(1) == b[:, 0]).sum()) for a, b in held_out))
print(right)
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(TORCH, marks=[pytest.mark.forked("torch"), pytest.mark.torch], id="torch"),
        pytest.param(PADDLE, marks=[pytest.mark.forked("paddle"), pytest.mark.paddle], id="paddle"),
    ],
)
def test_right_answers_of_each_pass_are_counted(run, healthy, request, body):
    outcome = healthy(run(body, fork=request.node.callspec.id))
    rows = [row for phase in outcome.of("evaluation") for row in phase["compared"]]
    assert [(row["loader"], row["epoch"], row["n"], row["batches"]) for row in rows[:3]] == [
        (1, epoch, 30, 2) for epoch in range(3)
    ]
    assert [row["right"] for row in rows] == outcome.result
