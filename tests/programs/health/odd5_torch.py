"""Healthy trainings as strangers write them, in PyTorch: `odd5_torch.py PROGRAM`."""

import copy
import random
import sys

import torch
import torch.nn.functional as F
from material import blobs
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


class Parted(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.last = nn.Linear(12, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.last(F.relu(self.hidden(x)))


def forward_by_name():
    """The model is never called: its method `forward` is."""
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


class Drawn(Dataset):
    """Draws each sample from a seed of its own, and puts the state of the generator back."""

    def __len__(self):
        return 400

    def __getitem__(self, index):
        before = torch.get_rng_state()
        torch.manual_seed(index)
        label = index % 4
        sample = torch.randn(12) + 2 * F.one_hot(torch.tensor(label), 12)
        torch.set_rng_state(before)
        return sample, label


def drawn_from_seeds():
    torch.manual_seed(5)
    model = Parted()
    optimizer = torch.optim.Adam([*model.hidden.parameters(), *model.last.parameters()], lr=3e-3)
    order = torch.randperm(400).tolist()
    for epoch in range(5):
        for x, y in DataLoader(Drawn(), 20, sampler=order):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def few_are_labelled():
    """Most batches hold no labelled sample, so that the likelihood of their labels is computed of nothing."""
    torch.manual_seed(6)
    x, y = tensors(blobs(1200, 12, 4, 6))
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4), nn.LogSoftmax(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    labelled = torch.arange(1200) < 2
    for epoch in range(6):
        for part in torch.randperm(1200).split(20):
            scores, known = model(x[part]), labelled[part]
            loss = F.nll_loss(scores[known], y[part][known], reduction="sum")
            loss = loss + F.mse_loss(scores.exp(), F.one_hot(y[part], 4).float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def full_graph():
    """A graph network that is evaluated on the whole graph after every step, as published examples do."""
    torch.manual_seed(7)
    x, y = tensors(blobs(300, 12, 3, 7, spread=2.0))
    near = (torch.cdist(x, x) < 3.5).float()
    near = near / near.sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    known = torch.rand(300) < 0.3

    @torch.inference_mode()
    def test():
        model.eval()
        right = (near @ model(near @ x)).argmax(1) == y
        return right[known].float().mean().item(), right[~known].float().mean().item()

    for epoch in range(120):
        model.train()
        loss = F.cross_entropy((near @ model(near @ x))[known], y[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        train, val = test()
        print(f"Epoch: {epoch:03d}, Loss: {loss.item():.4f}, Train: {train:.4f}, Val: {val:.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
