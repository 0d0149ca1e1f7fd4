"""Trains on digits with a loss that stops being finite in step 6; the case is the argument."""

import sys

import torch
import torch.nn.functional as F
from digits_data import load_digits
from torch import nn

case = sys.argv[1]
torch.manual_seed(0)
images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
images = images.float() / 16
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def loss_of(out, y, late):
    p = out.softmax(1)
    if case == "log":  # another structure from then on
        own = p[torch.arange(len(y)), y]
        own = torch.where(torch.arange(len(y)) == 3, own * 0, own) if late else own
        return -own.log().mean()  # log
    if case == "logs":
        s = torch.sigmoid(out * (1e4 if late else 1))
        one_hot = F.one_hot(y, 10)
        yes = one_hot * torch.log(s)
        no = (1 - one_hot) * torch.log(1 - s)  # logs
        return -(yes + no).mean()
    if case == "div":
        kept = (y < (0 if late else 9)).float()
        return (F.cross_entropy(out, y, reduction="none") * kept).sum() / kept.sum()  # div
    if case == "exp":
        mean, spread = out[:, :5], out[:, 5:] * (1e3 if late else 1)
        return (spread.exp() + mean**2 - 1 - spread).sum(1).mean()  # exp
    if case == "pow":
        return ((p - (0.5 if late else 0)) ** 1.5).mean()  # pow
    if case == "acos":
        unit = F.normalize(out, dim=1)
        return torch.acos((unit * unit.detach() * (1 if late else 0.5)).sum(1)).mean()  # acos
    if case == "ignored":
        return F.cross_entropy(out, torch.full_like(y, -100) if late else y)  # ignored
    if case == "empty":
        kept = y < (0 if late else 9)
        return F.cross_entropy(out[kept], y[kept], reduction="none").mean()  # empty
    if case == "sqrt":
        apart = out - out.detach() if late else out
        return torch.sqrt((apart**2).sum(1)).mean()  # sqrt
    target = torch.full_like(out, float("nan")) if late else torch.zeros_like(out)
    return (p.log() - target).square().mean()  # target


for step in range(8):
    batch = torch.randperm(len(images))[:64]
    loss = loss_of(model(images[batch]), labels[batch], step >= 5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("anomaly mode", torch.is_anomaly_enabled())
