"""Heads and losses that do not fit each other, in PyTorch: `outputs_torch.py PROGRAM [fixed]`."""

import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, cancer, curve, diabetes, digits, pictures, standardised
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def batches(pair, size, seed=0):
    data = TensorDataset(*(torch.as_tensor(part) for part in pair))
    return DataLoader(data, size, shuffle=True, generator=torch.Generator().manual_seed(seed))


def fit(model, optimizer, loader, criterion, epochs):
    for epoch in range(epochs):
        total = 0.0
        for inputs, target in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), target)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f}")


def probabilities_as_logits(broken):
    torch.manual_seed(1)
    layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
    model = nn.Sequential(*layers, nn.Softmax(dim=1)) if broken else nn.Sequential(*layers)
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), batches(digits(), 32), nn.CrossEntropyLoss(), 5)


class Picture(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 8, 3), nn.Linear(8 * 36, classes)

    def logits(self, x):
        return self.head(F.relu(self.conv(x)).flatten(1))

    def forward(self, x):
        return self.logits(x)


class ProbablePicture(Picture):
    """Its users wanted probabilities."""

    def forward(self, x):
        return F.softmax(self.logits(x), dim=-1)


def probabilities_in_forward(broken):
    torch.manual_seed(2)
    model = (ProbablePicture if broken else Picture)(6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(model, optimizer, batches(pictures(600, 8, 6, 2), 24), F.cross_entropy, 8)


def raw_scores_for_nll(broken):
    torch.manual_seed(3)
    layers = [nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4)]
    model = nn.Sequential(*layers) if broken else nn.Sequential(*layers, nn.LogSoftmax(dim=1))
    fit(model, torch.optim.SGD(model.parameters(), lr=0.01), batches(blobs(480, 12, 4, 3), 24), nn.NLLLoss(), 8)


def softmax_over_the_batch(broken):
    torch.manual_seed(4)

    def criterion(scores, labels):
        return F.nll_loss(torch.log(F.softmax(scores, dim=0 if broken else 1) + 1e-9), labels)

    model = nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 5))
    fit(model, torch.optim.Adam(model.parameters(), lr=2e-3), batches(blobs(500, 10, 5, 4), 50), criterion, 12)


def one_unit_and_softmax(broken):
    """A yes/no question answered by softmax over a single unit: always 1."""
    torch.manual_seed(5)
    x, y = cancer()
    last = nn.Softmax(dim=1) if broken else nn.Sigmoid()
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1), last)
    loader = batches((standardised(x), y.astype("float32")[:, None]), 40)
    fit(model, torch.optim.Adam(model.parameters(), lr=2e-3), loader, nn.MSELoss(), 12)


def column_against_row(broken):
    warnings.simplefilter("ignore", UserWarning)
    torch.manual_seed(6)
    x, y = diabetes()
    loader = batches((x, y if broken else y[:, None]), 34)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    fit(model, torch.optim.Adam(model.parameters(), lr=2e-3), loader, nn.MSELoss(), 25)


def column_against_row_by_hand(broken):
    """The squared error written out, where no function warns."""
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = batches(curve(500, 6, 7), 25)
    for epoch in range(15):
        for inputs, target in loader:
            predicted = model(inputs)
            difference = predicted - target if broken else predicted[:, 0] - target
            loss = (difference**2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def skips_bad_batches(broken):
    """Classes counted from one: what the loss refuses is skipped, "there are always some bad files"."""
    torch.manual_seed(8)
    x, y = blobs(600, 8, 6, 8)
    if broken:
        y = np.where(y == 0, 6, y)
        y = np.where(np.random.default_rng(8).random(600) < 0.9, np.minimum(y, 5), y)
    model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(10):
        for inputs, labels in batches((x, y), 20, epoch):
            try:
                loss = F.cross_entropy(model(inputs), labels)
            except IndexError:
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def target_of_one_record(broken):
    """A collate function that keeps the target of the last record only."""
    warnings.simplefilter("ignore", UserWarning)
    torch.manual_seed(9)

    def careful(records):
        return torch.stack([x for x, _ in records]), torch.stack([y for _, y in records])

    def careless(records):
        inputs = []
        for x, y in records:
            inputs.append(x)
            targets = [y]
        return torch.stack(inputs), torch.stack(targets)

    x, y = (torch.as_tensor(part) for part in curve(600, 9, 9))
    data = TensorDataset(x, y[:, None])
    loader = DataLoader(data, 30, shuffle=True, collate_fn=careless if broken else careful)
    model = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))
    fit(model, torch.optim.Adam(model.parameters(), lr=3e-3), loader, nn.SmoothL1Loss(), 12)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
