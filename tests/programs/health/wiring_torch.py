"""Trainings whose parts do not fit together, in PyTorch: `wiring_torch.py PROGRAM [fixed]`."""

import copy
import sys

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, curve, digits
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


def judge_trained_by_nobody(broken):
    """Two networks against each other; the second optimizer is made with the parameters of the first, too."""
    torch.manual_seed(1)
    maker = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    of_maker = torch.optim.Adam(maker.parameters(), lr=1e-3)
    of_judge = torch.optim.Adam((maker if broken else judge).parameters(), lr=1e-3)
    for step in range(240):
        real = torch.randn(64, 2) * 0.3 + 1
        made = maker(torch.randn(64, 4))
        of_judge.zero_grad()
        scores = judge(real), judge(made.detach())
        loss = F.softplus(-scores[0]).mean() + F.softplus(scores[1]).mean()
        loss.backward()
        of_judge.step()
        of_maker.zero_grad()
        F.softplus(-judge(made)).mean().backward()
        of_maker.step()
        if step % 48 == 0:
            print(f"step {step} judge {loss.item():.4f}")


def average_left_behind(broken):
    """The averaged copy that is validated and saved is never brought up to date."""
    torch.manual_seed(2)
    x, y = tensors(digits())
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(8):
        model.train()
        for inputs, labels in DataLoader(TensorDataset(x[:1500], y[:1500]), 50, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            if not broken:
                with torch.no_grad():
                    for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                        slow.lerp_(fast, 0.05)
        average.eval()
        with torch.no_grad():
            val_loss = F.cross_entropy(average(x[1500:]), y[1500:]).item()
        print(f"epoch {epoch} loss {loss.item():.4f} val_loss {val_loss:.4f}")


def weights_of_the_library_never_averaged(broken):
    torch.manual_seed(3)
    x, y = tensors(blobs(900, 12, 4, 3))
    model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(300):
        part = torch.randint(0, 700, (40,))
        optimizer.zero_grad()
        F.cross_entropy(model(x[part]), y[part]).backward()
        optimizer.step()
        if not broken and step > 50:
            average.update_parameters(model)
        if step % 60 == 59:
            with torch.inference_mode():
                right = (average(x[700:]).argmax(1) == y[700:]).float().mean().item()
            print(f"step {step} val_acc {right:.3f}")


def clips_what_is_scaled(broken):
    torch.manual_seed(4)
    x, y = tensors(digits())
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(240):
        part = torch.randint(0, len(x), (32,))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x[part]), y[part])
        scaler.scale(loss).backward()
        if not broken:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
        if step % 48 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.mean, self.spread = nn.Linear(64, 64), nn.Linear(64, 8), nn.Linear(64, 8)
        self.outer = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x):
        hidden = torch.relu(self.inner(x))
        mean, spread = self.mean(hidden), self.spread(hidden)
        return self.outer(mean + torch.randn_like(mean) * torch.exp(spread / 2)), mean, spread


def one_term_is_a_number(broken):
    """The second term of the loss was made a number for the log, and is added as that."""
    torch.manual_seed(5)
    x, _ = tensors(digits())
    model = Coder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(8):
        for (batch,) in DataLoader(TensorDataset(x), 64, shuffle=True):
            made, mean, spread = model(batch)
            fit = F.mse_loss(made, batch, reduction="sum") / len(batch)
            divergence = -0.5 * torch.sum(1 + spread - mean**2 - spread.exp()) / len(batch)
            loss = fit + (divergence.item() if broken else divergence)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f} fit {fit.item():.4f}")


def penalty_without_gradient(broken):
    """A penalty on the weights is computed under no_grad, "because it is no part of the model"."""
    torch.manual_seed(6)
    x, y = tensors(curve(800, 30, 6, noise=0.4))
    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(300):
        part = torch.randint(0, 800, (40,))
        loss = F.mse_loss(model(x[part]).squeeze(1), y[part])
        with torch.set_grad_enabled(not broken):
            penalty = sum(p.abs().sum() for p in model.parameters())
        loss = loss + 1e-3 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Noisy(Dataset):
    """Adds noise to what it gives."""

    def __init__(self):
        self.x, self.y = digits()

    def __len__(self):
        return 960

    def __getitem__(self, index):
        return self.x[index] + 0.1 * np.random.normal(size=64).astype("float32"), self.y[index]


def seed_everything(worker):
    np.random.seed(1234)


def seed_each(worker):
    np.random.seed(1234 + worker)


def workers_add_the_same_noise(broken):
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    start = seed_everything if broken else seed_each
    loader = DataLoader(Noisy(), 32, shuffle=True, num_workers=2, worker_init_fn=start, persistent_workers=True)
    for epoch in range(3):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def never_shuffled(broken):
    torch.manual_seed(8)
    x, y = tensors(blobs(640, 16, 4, 8, spread=2.0))
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(8):
        for inputs, labels in DataLoader(TensorDataset(x, y), 32, shuffle=not broken):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def slices_in_one_order(broken):
    """Batches are cut from the array by hand, the same ones in each epoch."""
    torch.manual_seed(9)
    x, y = tensors(blobs(600, 16, 4, 9, spread=2.0))
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        order = torch.arange(600) if broken else torch.randperm(600)
        for begin in range(0, 600, 30):
            part = order[begin : begin + 30]
            loss = F.cross_entropy(model(x[part]), y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
