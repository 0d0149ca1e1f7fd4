"""Trains with dropout, batch normalisation, shuffling and clipping; prints a digest of all that it did, as JSON.

After every step the digest takes in losses, weights, buffers, gradients, optimizer states and the states of all random
generators, so that a single draw, write or call that the program did not ask for is seen.
"""

import hashlib
import json
import random
import sys

import numpy as np
import torch
from torch import nn

MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"
BAD_AT = 7
torch.manual_seed(0)
random.seed(0)
np.random.seed(0)
torch.set_num_threads(1)
inputs = torch.randn(256, 3, 8, 8)
targets = torch.randint(0, 5, (256,))
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(inputs, targets),
    batch_size=16,
    shuffle=True,
    num_workers=2 if MODE == "workers" else 0,
)
digest = hashlib.sha256()
iteration = 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(8 * 64, 5)
        self.calls = 0
        self.seen = []

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape[0])
        hidden = torch.relu(self.norm(self.conv(x)))
        hidden = hidden + 0.01 * random.random() + 0.01 * float(np.random.rand())
        if iteration == BAD_AT and MODE in ("nan", "nan_eager"):
            hidden = hidden / torch.zeros(()) * 0
        if iteration == BAD_AT and MODE == "sqrt":
            hidden = torch.sqrt(hidden * 0)
        return self.head(self.dropout(hidden).flatten(1))


def optimizers_of(model):
    if MODE == "lbfgs":
        return [torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)]
    if MODE == "several":
        return [
            torch.optim.SGD(model.conv.parameters(), 0.01, momentum=0.9, nesterov=True),
            torch.optim.RMSprop(model.norm.parameters(), 1e-3),
            torch.optim.Adagrad(model.head.parameters(), 1e-3),
        ]
    return [torch.optim.AdamW(model.parameters(), 1e-3)]


def take(value):
    if isinstance(value, torch.Tensor):
        digest.update(value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    elif isinstance(value, dict):
        for name in value:
            take(value[name])
    elif isinstance(value, (list, tuple)):
        for item in value:
            take(item)
    else:
        digest.update(repr(value).encode())


def take_everything():
    take([model.calls, len(model.seen), iteration, model.training, torch.is_grad_enabled(), len(model._buffers)])
    take({name: value for name, value in model.state_dict().items() if value.dim()})
    take([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
    take([parameter._version for parameter in model.parameters()])
    take([optimizer.state_dict()["state"] for optimizer in optimizers])
    take([torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]])


def loss_of(x, y):
    cast = {"amp": torch.bfloat16, "scaler": torch.float16}.get(MODE)
    with torch.autocast("cpu", dtype=cast or torch.bfloat16, enabled=cast is not None):
        return nn.functional.cross_entropy(model(x), y)


def step(x, y):
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss = loss_of(x, y)
    if MODE == "scaler":
        scaler.scale(loss).backward()
        if iteration == BAD_AT:
            model.head.weight.grad[0, 0] = float("inf")
        scaler.unscale_(optimizers[0])
    else:
        loss.backward()
    take_everything()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if not all(torch.isfinite(parameter.grad).all() for parameter in model.parameters()) and MODE != "scaler":
        return loss
    for optimizer in optimizers:
        if MODE == "scaler":
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
    return loss


def step_with_closure(x, y):
    def closure():
        optimizers[0].zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        return loss

    return optimizers[0].step(closure)


model = Net()
optimizers = optimizers_of(model)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
if MODE == "draw":
    torch.rand(1)
losses = []
for _epoch in range(3):
    for x, y in loader:
        iteration += 1
        if MODE == "draw_once" and iteration == 40:
            torch.rand(1)
        losses.append((step_with_closure if MODE == "lbfgs" else step)(x, y).item())
        take(losses[-1])
        take_everything()
    model.eval()
    with torch.no_grad():
        losses.append(nn.functional.cross_entropy(model(inputs), targets).item())
    model.train()
take_everything()
print(json.dumps([model.calls, losses[-1], hashlib.sha256(repr(losses).encode()).hexdigest(), digest.hexdigest()]))
