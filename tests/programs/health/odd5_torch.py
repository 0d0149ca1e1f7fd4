"""Healthy trainings as strangers write them, in PyTorch: `odd5_torch.py PROGRAM`."""

import sys

import torch
import torch.nn.functional as F
from material import blobs
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


class Parted(nn.Module):
    """Its offset is a leftover that `forward` does not use."""

    def __init__(self):
        super().__init__()
        self.hidden, self.last = nn.Linear(12, 32), nn.Linear(32, 4)
        self.offset = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return self.last(F.relu(self.hidden(x)))


def forward_by_name():
    """The model is never called: its method `forward` is, and it holds a parameter that nothing uses."""
    torch.manual_seed(1)
    model = Parted()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(5):
        for x, y in DataLoader(TensorDataset(*tensors(blobs(1200, 12, 4, 1))), 40, shuffle=True):
            loss = F.cross_entropy(model.forward(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Slots(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(120, 8)
        nn.init.normal_(self.table.weight, std=0.1)

    def forward(self, words):
        rows = [self.table(words[:, slot]) for slot in range(5)]
        return (sum(rows) ** 2 - sum(row**2 for row in rows)).sum(1)


def slot_of_padding():
    """One table serves all slots, and one slot holds the padding word only."""
    torch.manual_seed(2)
    words = torch.randint(1, 120, (2000, 5))
    words[:, -1] = 0
    clicked = (words[:, 0] % 2).float()
    model = Slots()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(4):
        for x, y in DataLoader(TensorDataset(words, clicked), 40, shuffle=True):
            loss = F.binary_cross_entropy_with_logits(model.forward(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
