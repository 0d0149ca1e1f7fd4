"""Trains a small network on scikit-learn's digits with PyTorch. It knows nothing of labbook."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import one_hot

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--hidden", type=int, default=64)
args = parser.parse_args()

torch.manual_seed(0)
digits = load_digits()
order = torch.randperm(len(digits.target))
images = torch.tensor(digits.data / 16.0 - 0.3, dtype=torch.float32)[order]
labels = torch.tensor(digits.target)[order]


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(hidden, 10)

    def forward(self, x):
        return self.head(self.body(x))


def cross_entropy(logits, targets):
    probabilities = logits.softmax(1)
    return -(one_hot(targets, 10) * torch.log(probabilities)).sum(1).mean()


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        correct = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return correct


model = Net(args.hidden)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
for epoch in range(args.epochs):
    for rows in (torch.randperm(1500)).split(64):
        optimizer.zero_grad()
        loss = cross_entropy(model(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
    val_accuracy = accuracy(model, images[1500:], labels[1500:])
    print(f"epoch {epoch + 1}/{args.epochs}  loss: {loss.item():.4f}  val_accuracy: {val_accuracy:.4f}", flush=True)
