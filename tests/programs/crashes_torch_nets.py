"""The small networks of the torch faults."""

import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore")
torch.manual_seed(7)


class Perceptron(nn.Module):
    def __init__(self, inputs=20, hidden=12, classes=5):
        super().__init__()
        self.body = nn.Linear(inputs, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


class ConvNet(nn.Module):
    def __init__(self, channels=3):
        super().__init__()
        self.stem = nn.Conv2d(channels, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(4)
        self.head = nn.Linear(8 * 7 * 7, 10)

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.stem(x))))
        return self.head(x.flatten(1))


def train(model, loader, criterion, epochs=1, lr=0.01):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
