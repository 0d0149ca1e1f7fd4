"""Healthy trainings as strangers write them, in PyTorch: `odd5_torch.py PROGRAM`."""

import copy
import random
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


def values_by_bootstrap():
    """Q-learning on a walk with reward 1 a step, acting with gradients: its loss rises with the values."""
    random.seed(3)
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=2.5e-3)
    seen, state = [], torch.randn(4)
    for step in range(1600):
        action = model(state[None]).argmax().item() if random.random() > 0.1 else random.randrange(2)
        after = 0.9 * state + 0.3 * torch.randn(4)
        seen.append((state, torch.tensor(action), after))
        state = after
        if step > 100 and step % 3 == 0:
            states, actions, afters = map(torch.stack, zip(*random.sample(seen, 64), strict=True))
            wanted = 1 + 0.99 * model(afters).amax(1).detach()
            loss = F.mse_loss(model(states).gather(1, actions[:, None]).squeeze(1), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.4f}")


def values_of_a_fixed_set():
    """Two heads trained on targets of a copy that follows every 20 steps; nothing acts."""
    torch.manual_seed(4)
    model = nn.ModuleDict({name: nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1)) for name in ("v", "q")})
    target = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(900):
        states = torch.randn(64, 4)
        afters = 0.9 * states + 0.3 * torch.randn(64, 4)
        with torch.no_grad():
            wanted = 1 + states[:, :1] + 0.98 * target["v"](afters)
        scores = model["q"](states)
        loss = F.mse_loss(scores, wanted) + F.mse_loss(model["v"](states), scores.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            target.load_state_dict(model.state_dict())
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
