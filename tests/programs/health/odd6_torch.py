"""Healthy programs whose gradients, pairs and copies look like faults, in PyTorch: `odd6_torch.py PROGRAM`."""

import copy
import sys

import torch
import torch.nn.functional as F
from material import blobs, digits
from torch import nn


def scorer(classes=4):
    return nn.Sequential(nn.Linear(12, 48), nn.LayerNorm(48), nn.ReLU(), nn.Linear(48, classes))


def batches(epochs=4, size=16):
    x, y = (torch.as_tensor(part) for part in blobs(640, 12, 4, 5))
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(size):
            yield x[rows], y[rows]


def gradients_of_two_tasks():
    """The gradients of each task are set aside and put together without what they contradict."""
    torch.manual_seed(31)
    model = scorer(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for inputs, labels in batches():
        kept = []
        for task in range(2):
            optimizer.zero_grad()
            out = model(inputs)
            loss = F.cross_entropy(out[:, :4], labels) if task == 0 else F.mse_loss(out[:, 4], inputs[:, 0])
            loss.backward()
            kept.append([p.grad.clone() for p in model.parameters()])
        for parameter, one, other in zip(model.parameters(), *kept):
            against = min((one * other).sum() / (other.norm() ** 2 + 1e-12), torch.zeros(()))
            parameter.grad.copy_(one - against * other + other)
        optimizer.step()
    print(loss.item())


def gradients_sample_by_sample():
    """Each sample's gradient is clipped, and noise is added to their mean."""
    torch.manual_seed(32)
    model = scorer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for inputs, labels in batches(epochs=1, size=8):
        total = [torch.zeros_like(p) for p in model.parameters()]
        for at in range(len(inputs)):
            model.zero_grad()
            loss = F.cross_entropy(model(inputs[at : at + 1]), labels[at : at + 1])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for held, parameter in zip(total, model.parameters()):
                held += parameter.grad / len(inputs)
        for held, parameter in zip(total, model.parameters()):
            parameter.grad = held + 0.01 * torch.randn_like(held)
        optimizer.step()
    print(loss.item())


def queue_of_negatives():
    """The positive is the first column; the second encoder follows by momentum."""
    torch.manual_seed(33)
    x = torch.as_tensor(digits()[0])
    encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
    slow = copy.deepcopy(encoder).requires_grad_(False)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    queue = F.normalize(torch.randn(256, 24), dim=1)
    for epoch in range(9):
        for rows in torch.randperm(len(x)).split(64):
            one = F.normalize(encoder(x[rows] + 0.15 * torch.randn(len(rows), 64)), dim=1)
            other = F.normalize(slow(x[rows] + 0.15 * torch.randn(len(rows), 64)), dim=1)
            scores = torch.cat([(one * other).sum(1, keepdim=True), one @ queue.t()], 1) / 0.2
            loss = F.cross_entropy(scores, torch.zeros(len(rows), dtype=torch.long))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            queue = torch.cat([queue[len(rows) :], other])
            for held, parameter in zip(slow.parameters(), encoder.parameters()):
                held.mul_(0.99).add_(parameter.detach(), alpha=0.01)
        print(f"epoch {epoch} loss {loss.item():.4f}")


def preferences_against_a_reference():
    """A copy of the model that never changes reads the same sentences."""
    torch.manual_seed(34)
    policy = nn.Sequential(nn.Embedding(20, 32), nn.Linear(32, 20))
    reference = copy.deepcopy(policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)

    def likelihood(model, words):
        return model(words[:, :-1]).log_softmax(-1).gather(-1, words[:, 1:, None]).squeeze(-1).sum(-1)

    for step in range(260):
        better, worse = torch.randint(0, 12, (16, 8)), torch.randint(8, 20, (16, 8))
        with torch.no_grad():
            known = likelihood(reference, better) - likelihood(reference, worse)
        loss = -F.logsigmoid(0.2 * (likelihood(policy, better) - likelihood(policy, worse) - known)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def pictures_and_texts():
    """Two encoders, with a temperature that is learnt."""
    torch.manual_seed(35)
    hidden = torch.randn(960, 8)
    pictures, texts = hidden @ torch.randn(8, 24), hidden @ torch.randn(8, 16)
    first = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 16))
    second = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
    scale = nn.Parameter(torch.tensor(2.66))
    optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters(), scale], lr=1e-3)
    for epoch in range(8):
        for rows in torch.randperm(960).split(64):
            one, other = F.normalize(first(pictures[rows]), dim=1), F.normalize(second(texts[rows]), dim=1)
            scores, own = scale.exp() * one @ other.t(), torch.arange(len(rows))
            loss = (F.cross_entropy(scores, own) + F.cross_entropy(scores.t(), own)) / 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
