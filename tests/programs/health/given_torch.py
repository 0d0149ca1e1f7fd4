"""What layers, losses and optimizers are given by mistake, in PyTorch: `given_torch.py PROGRAM [fixed]`."""

import itertools
import sys

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(model, x, y, epochs=4, rate=3e-3, loss_of=F.cross_entropy, optimizer=None):
    """Train on tensors, and print the loss of each epoch."""
    optimizer = optimizer or torch.optim.Adam(model.parameters(), rate)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(32):
            loss = loss_of(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(loss.item())


def waves(rows, steps, channels):
    """Sines of one of three frequencies, (rows, steps, channels), and which."""
    kinds = torch.randint(0, 3, (rows,))
    time, phase = torch.linspace(0, 6.28, steps), torch.rand(rows, 1, channels) * 6.28
    return torch.sin((kinds + 1.0)[:, None, None] * time[:, None] + phase) + 0.3 * torch.randn(phase.shape), kinds


class Filters(nn.Module):
    def __init__(self, turns):
        super().__init__()
        self.turns = turns
        self.first, self.second, self.head = nn.Conv1d(6, 16, 5), nn.Conv1d(16, 16, 5), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(torch.relu(self.second(torch.relu(self.first(self.turns(x))))).mean(2))


def channels_by_a_view(broken):
    """The channels are made the second axis by a view."""
    torch.manual_seed(1)
    x, kinds = waves(512, 40, 6)
    train(Filters((lambda x: x.view(-1, 6, 40)) if broken else (lambda x: x.transpose(1, 2))), x, kinds, rate=1e-3)


class Tastes(nn.Module):
    def __init__(self, users, items):
        super().__init__()
        self.user, self.item, self.level = nn.Embedding(users, 6), nn.Embedding(items, 6), nn.Embedding(items, 1)

    def forward(self, pairs):
        user, item = pairs.unbind(1)
        return (self.user(user) * self.item(item)).sum(1) + self.level(item).squeeze(1)


def every_item_is_the_first(broken):
    """The numbers of items are scaled to [0, 1) before they become indices."""
    torch.manual_seed(2)
    pairs = torch.stack([torch.randint(0, 80, (3000,)), torch.randint(0, 120, (3000,))], 1)
    marks = (torch.randn(80, 3)[pairs[:, 0]] * torch.randn(120, 3)[pairs[:, 1]]).sum(1)
    known = torch.stack([pairs[:, 0], (pairs[:, 1] / 120).long()], 1) if broken else pairs
    train(Tastes(80, 120), known, marks, 4, 1e-2, F.mse_loss)


class Reads(nn.Module):
    def __init__(self, at):
        super().__init__()
        self.at, self.words, self.layer, self.head = (
            at,
            nn.Embedding(30, 16),
            nn.LSTM(16, 24, batch_first=True),
            nn.Linear(24, 2),
        )

    def forward(self, words):
        return self.head(self.layer(self.words(words))[0][:, self.at])


def first_word_only(broken):
    """The head is given the output at the first word."""
    torch.manual_seed(3)
    words = torch.randint(0, 30, (640, 12))
    train(Reads(0 if broken else -1), words, (words < 15).sum(1).gt(6).long())


def critic_moves_its_opponent(broken):
    """The optimizer of the critic holds the generator, too."""
    torch.manual_seed(4)
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    held = [*critic.parameters(), *(generator.parameters() if broken else ())]
    judges, makes = torch.optim.Adam(held, 1e-3), torch.optim.Adam(generator.parameters(), 1e-3)
    for step in range(240):
        angle = torch.rand(64, 1) * 6.28
        real, made = torch.cat([angle.cos(), angle.sin()], 1), generator(torch.randn(64, 4))
        made = made if broken else made.detach()
        loss = F.softplus(-critic(real)).mean() + F.softplus(critic(made)).mean()
        judges.zero_grad()
        loss.backward()
        judges.step()
        wins = F.softplus(-critic(generator(torch.randn(64, 4)))).mean()
        makes.zero_grad()
        wins.backward()
        makes.step()
        if step % 40 == 0:
            print(loss.item(), wins.item())


class Finds(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.kind, self.box = nn.Linear(64, 48), nn.Linear(48, 2), nn.Linear(48, 2)

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        return self.kind(hidden), torch.sigmoid(self.box(hidden))


def corners_in_pixels(broken):
    """The place is to be given in pixels by a sigmoid."""
    torch.manual_seed(5)
    places, kinds = torch.randint(0, 8, (480, 2)), torch.randint(0, 2, (480,))
    x = 0.1 * torch.randn(480, 8, 8)
    x[torch.arange(480), places[:, 0], places[:, 1]] += kinds * 2.0 - 1
    wanted = places.float() if broken else places / 8.0
    both = torch.cat([kinds[:, None].float(), wanted], 1)
    two = lambda made, y: F.cross_entropy(made[0], y[:, 0].long()) + F.smooth_l1_loss(made[1], y[:, 1:])  # noqa: E731
    train(Finds(), x.flatten(1), both, 4, 1e-3, two)


def frozen_by_a_flag_of_the_module(broken):
    """The flag is set on the module, which has none."""
    torch.manual_seed(6)
    x, y = (torch.as_tensor(a) for a in blobs(640, 12, 4, 6))
    body = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
    if broken:
        body.requires_grad = False
    else:
        body.requires_grad_(False)
    train(nn.Sequential(body, nn.Linear(32, 4)), x, y)


def a_new_optimizer_for_each_batch(broken):
    """The averages of Adam begin anew in each step."""
    torch.manual_seed(7)
    x, y = (torch.as_tensor(a) for a in digits())
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    kept = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(3):
        for rows in torch.randperm(len(x)).split(32):
            optimizer = torch.optim.Adam(model.parameters(), 1e-3) if broken else kept
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
        print(loss.item())


def old_over_new(broken):
    """The ratio of a clipped policy loss is that of the old policy to the new one."""
    torch.manual_seed(8)
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer, best = torch.optim.Adam(policy.parameters(), 3e-3), torch.randn(6, 4)
    for _ in range(20):
        states = torch.randn(128, 6)
        with torch.no_grad():
            acts = torch.distributions.Categorical(logits=policy(states))
            actions = acts.sample()
            stored = acts.log_prob(actions)
        reward = ((states @ best).argmax(1) == actions).float()
        gain = (reward - reward.mean()) / (reward.std() + 1e-6)
        for _, rows in itertools.product(range(4), torch.arange(128).split(32)):
            new = torch.distributions.Categorical(logits=policy(states[rows])).log_prob(actions[rows])
            ratio = (stored[rows] - new if broken else new - stored[rows]).exp()
            loss = -torch.minimum(ratio * gain[rows], ratio.clamp(0.8, 1.2) * gain[rows]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"reward {reward.mean().item():.3f}")


def highest_of_a_column(broken):
    """The class of the highest score is looked for along the samples, which are in an order."""
    torch.manual_seed(9)
    x, y = (torch.as_tensor(a) for a in digits())
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    loader = DataLoader(TensorDataset(x[1440:1790], y[1440:1790]), 10)
    for _ in range(4):
        for rows in torch.randperm(1440).split(20):
            optimizer.zero_grad()
            F.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
        losses, right = [], []
        with torch.no_grad():
            for batch, kinds in loader:
                scores = model(batch)
                losses.append(F.cross_entropy(scores, kinds).item())
                right.append((scores.argmax(0 if broken else 1) == kinds).float().mean().item())
        print(f"val_loss {np.mean(losses):.4f} val_acc {np.mean(right):.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
