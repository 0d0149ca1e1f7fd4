"""Trainings that do not get where they should, in PyTorch: `convergence_torch.py PROGRAM [fixed]`."""

import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, curve, diabetes, digits, pictures, sentences
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


def shuffles_one_side(broken):
    """Each epoch shuffles the records and forgets their targets."""
    torch.manual_seed(1)
    x, y = tensors(curve(480, 8, 1))
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(30):
        order = torch.randperm(len(x))
        records, targets = x[order], (y if broken else y[order])
        for begin in range(0, len(x), 40):
            optimizer.zero_grad()
            loss = F.mse_loss(model(records[begin : begin + 40]).squeeze(1), targets[begin : begin + 40])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def much_too_slow(broken):
    torch.manual_seed(2)
    x, y = tensors(pictures(400, 8, 5, 2))
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7 if broken else 3e-2)
    for step in range(320):
        part = torch.randint(0, 400, (25,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
        if step % 64 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def labels_of_another_file(broken):
    torch.manual_seed(3)
    x, y = digits()
    if broken:
        y = np.random.default_rng(3).permutation(y)
    x, y = tensors((x, y))
    model = nn.Sequential(nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for epoch in range(12):
        for inputs, labels in DataLoader(TensorDataset(x, y), 64, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def rate_just_too_high(broken):
    torch.manual_seed(4)
    x, y = tensors(diabetes())
    model = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.253 if broken else 0.05)
    for step in range(220):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.5g}")


def one_bad_record(broken):
    """One of 500 records has its decimal point in the wrong place."""
    torch.manual_seed(5)
    x, y = tensors(curve(500, 6, 5))
    if broken:
        y[237] = 400.0
    model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(6):
        for number, part in enumerate(torch.randperm(500).split(10)):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x[part]).squeeze(1), y[part])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if number % 10 == 9:
                print(f"epoch {epoch} step {number} loss {loss.item():.4f}")


def run_with_schedule(seed, make_schedule, per_batch, per_epoch, epochs=8, batch=20):
    torch.manual_seed(seed)
    x, y = tensors(blobs(400, 12, 4, seed, spread=2.0))
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    schedule = make_schedule(optimizer)
    for epoch in range(epochs):
        for inputs, labels in DataLoader(TensorDataset(x, y), batch, shuffle=True):
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            per_batch(optimizer, schedule)
        per_epoch(schedule)
        print(f"epoch {epoch} loss {loss.item():.4f} lr {optimizer.param_groups[0]['lr']:.4g}")


def step_optimizer(optimizer, schedule):
    optimizer.step()


def step_both(optimizer, schedule):
    optimizer.step()
    schedule.step()


def step_schedule_first(optimizer, schedule):
    schedule.step()
    optimizer.step()


def step_schedule(schedule):
    schedule.step()


def do_nothing(schedule):
    pass


def schedule_never_used(broken):
    run_with_schedule(
        6, lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3), step_optimizer,
        do_nothing if broken else step_schedule,
    )  # fmt: skip


def schedule_before_the_optimizer(broken):
    warnings.simplefilter("ignore", UserWarning)
    run_with_schedule(
        7, lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99),
        step_schedule_first if broken else step_both, do_nothing,
    )  # fmt: skip


def epochs_counted_in_batches(broken):
    """A cosine over 10 epochs, stepped after every batch."""
    run_with_schedule(
        8, lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10),
        step_both if broken else step_optimizer, do_nothing if broken else step_schedule, epochs=10, batch=8,
    )  # fmt: skip


def learns_by_heart(broken):
    """Sixty noisy records for a wide network; the twin has many and a small one."""
    torch.manual_seed(9)
    rows, width, epochs = (60, 256, 40) if broken else (1500, 24, 12)
    x, y = tensors(curve(rows + 400, 10, 9, noise=0.5))
    data = TensorDataset(x[:rows], y[:rows])
    model = nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3 if broken else 1e-3)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for inputs, target in DataLoader(data, 20, shuffle=True):
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(target)
        model.eval()
        with torch.no_grad():
            val_loss = F.mse_loss(model(x[rows:]).squeeze(1), y[rows:]).item()
        print(f"epoch {epoch}: train_loss: {total / rows:.4f} val_loss: {val_loss:.4f}")


def running_averages_too_slow(broken):
    """BatchNorm with momentum 0.001 has not seen enough when the network is evaluated."""
    torch.manual_seed(10)
    x, y = tensors(blobs(600, 16, 4, 10))
    x = x * 2 + 3
    momentum = 0.001 if broken else 0.1
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32, momentum=momentum), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(6):
        model.train()
        for inputs, labels in DataLoader(TensorDataset(x[:480], y[:480]), 40, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            val_loss = F.cross_entropy(model(x[480:]), y[480:]).item()
        print(f"epoch {epoch}: train_loss: {loss.item():.4f} val_loss: {val_loss:.4f}")


def classes_in_another_order(broken):
    """Validation reads its classes in reverse order."""
    torch.manual_seed(11)
    tokens, y = tensors(sentences(900, 16, 60, 11))
    model = nn.Sequential(nn.EmbeddingBag(60, 12), nn.Linear(12, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    wanted = 1 - y[600:] if broken else y[600:]
    for epoch in range(10):
        model.train()
        for inputs, labels in DataLoader(TensorDataset(tokens[:600], y[:600]), 30, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(tokens[600:]).argmax(1) == wanted).float().mean().item()
        print(f"epoch {epoch} train_loss {loss.item():.4f} val_acc {right:.4f}")


def noise_learned(broken):
    """Labels lost their order before the split: the training set is learned by heart, validation stays at chance."""
    torch.manual_seed(12)
    x, y = digits()
    if broken:
        y = np.random.default_rng(12).permutation(y)
    x, y = tensors((x, y))
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3 if broken else 1e-3)
    for epoch in range(30 if broken else 12):
        model.train()
        for inputs, labels in DataLoader(TensorDataset(x[:400], y[:400]), 50, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(x[400:]).argmax(1) == y[400:]).float().mean().item()
        print(f"epoch {epoch} train_loss {loss.item():.4f} val_acc {right:.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
