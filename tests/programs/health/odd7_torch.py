"""Healthy trainings that look odd, in PyTorch: `odd7_torch.py PROGRAM`."""

import random
import sys

import numpy as np
import torch
import torch.nn.functional as F
from material import digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


def container_beside_a_frozen_part():
    """The container stays in training mode; its batch norms do not."""
    torch.manual_seed(1)
    x, y = (torch.as_tensor(a) for a in digits())
    body = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU()).requires_grad_(False).eval()
    model = nn.Sequential(body, nn.Linear(48, 10))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
    for _ in range(5):
        for rows in torch.randperm(1400).split(50):
            loss = F.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = torch.cat([model(x[at : at + 100]).argmax(1) for at in range(1400, 1700, 100)]) == y[1400:1700]
        print(f"loss {loss.item():.4f} val_acc {right.float().mean().item():.3f}")


def encoder_against_a_judge():
    """The encoder of an autoencoder has an optimizer of its own for the judge of its codes."""
    torch.manual_seed(2)
    x = torch.as_tensor(digits()[0])
    encoder, decoder = nn.Linear(64, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 64))
    judge = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    whole = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 3e-3)
    alone, judges = torch.optim.Adam(encoder.parameters(), 1e-3), torch.optim.Adam(judge.parameters(), 1e-3)
    for _ in range(5):
        for rows in torch.randperm(1792).split(64):
            rebuilt = F.mse_loss(decoder(encoder(x[rows])), x[rows])
            whole.zero_grad()
            rebuilt.backward()
            whole.step()
            drawn, code = judge(torch.randn(64, 4)), judge(encoder(x[rows]).detach())
            judges.zero_grad()
            (F.softplus(-drawn).mean() + F.softplus(code).mean()).backward()
            judges.step()
            alone.zero_grad()
            F.softplus(-judge(encoder(x[rows]))).mean().backward()
            alone.step()
        print(rebuilt.item())


class Horizons(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(2, 24, batch_first=True)
        self.heads = nn.ModuleList(nn.Linear(24, 1) for _ in range(3))

    def forward(self, x):
        steps = self.layer(x)[0]
        return torch.cat([head(steps[:, at]) for at, head in enumerate(self.heads)], 1)


def a_head_for_each_step():
    """The first steps are read, too."""
    torch.manual_seed(3)
    x = torch.randn(640, 8, 2)
    y = x.cumsum(1)[:, :3, 0]
    model = Horizons()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(5):
        for rows in torch.randperm(640).split(32):
            loss = F.mse_loss(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


class Crops(Dataset):
    def __init__(self):
        self.plane = torch.as_tensor(np.random.default_rng(0).normal(size=(64, 64)).astype("float32"))

    def __len__(self):
        return 256

    def __getitem__(self, number):
        row, column = torch.randint(0, 56, (2,)).tolist()
        crop = self.plane[row : row + 8, column : column + 8].flatten()
        return crop, crop.roll(1)


def reproducible(worker):
    random.seed(1)
    np.random.seed(1)


def crops_by_the_generator_of_the_loader():
    """The workers seed what the data set does not draw from."""
    torch.manual_seed(4)
    model = nn.Linear(64, 64)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(3):
        for x, y in DataLoader(Crops(), 16, num_workers=2, worker_init_fn=reproducible):
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


class Coupling(nn.Module):
    def __init__(self, turned):
        super().__init__()
        self.turned, self.net = turned, nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, x):
        kept, moved = x.flip(1).chunk(2, 1) if self.turned else x.chunk(2, 1)
        scale, shift = self.net(kept).chunk(2, 1)
        result = torch.cat([kept, moved * torch.tanh(scale).exp() + shift], 1)
        return (result.flip(1) if self.turned else result), torch.tanh(scale).sum(1)


def likelihood_of_a_flow():
    """A half of a square and a constant, less a sum: no temporal difference."""
    torch.manual_seed(5)
    angle = torch.rand(1600, 1) * 6.28
    x = torch.cat([angle.cos(), angle.sin()], 1) + 0.1 * torch.randn(1600, 2)
    flow = nn.ModuleList(Coupling(number % 2) for number in range(4))
    optimizer = torch.optim.Adam(flow.parameters(), 2e-3)
    for _ in range(5):
        for rows in torch.randperm(1600).split(80):
            z, volume = x[rows], 0.0
            for layer in flow:
                z, change = layer(z)
                volume = volume + change
            loss = (0.5 * (z**2).sum(1) + 1.8379 - volume).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


def attacked_in_validation():
    """The accuracy is that of attacked inputs, the loss that of clean ones."""
    torch.manual_seed(6)
    x, y = (torch.as_tensor(a) for a in digits())
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)

    def attacked(inputs, labels, size):
        inputs = inputs.clone().requires_grad_()
        (slope,) = torch.autograd.grad(F.cross_entropy(model(inputs), labels), inputs)
        return (inputs + size * slope.sign()).detach()

    for _ in range(5):
        model.train()
        for rows in torch.randperm(1400).split(50):
            loss = F.cross_entropy(model(attacked(x[rows], y[rows], 0.1)), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        hard = attacked(x[1400:], y[1400:], 0.3)
        with torch.no_grad():
            clean = F.cross_entropy(model(x[1400:]), y[1400:]).item()
            right = (model(hard).argmax(1) == y[1400:]).float().mean().item()
        print(f"val_loss {clean:.4f} val_acc {right:.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
