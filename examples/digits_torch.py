"""Trains a small convolutional network on scikit-learn's digits with PyTorch.

An ordinary training script: it knows nothing of labbook. Record it with

    labbook record -- python examples/digits_torch.py
"""

import argparse
import random

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", default="", help="where to save the weights")
    return parser.parse_args()


class DigitsNet(nn.Module):
    """Two convolutions and a linear head: (N, 1, 8, 8) -> (N, 10) logits."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images):
        return self.head(self.features(images).flatten(1))


def load_data(batch_size, seed):
    digits = load_digits()
    images = (digits.images / 16.0 - 0.3).astype("float32")[:, None]
    split = train_test_split(images, digits.target, test_size=0.25, random_state=seed, stratify=digits.target)
    train_x, test_x, train_y, test_y = (torch.from_numpy(part) for part in split)
    train = DataLoader(TensorDataset(train_x, train_y), batch_size=batch_size, shuffle=True)
    test = DataLoader(TensorDataset(test_x, test_y), batch_size=256)
    return train, test


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    correct = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader)
    model.train()
    return correct / len(loader.dataset)


def main():
    args = parse_arguments()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train, test = load_data(args.batch_size, args.seed)
    model = DigitsNet()
    loss_function = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train))

    for epoch in range(1, args.epochs + 1):
        for images, labels in train:
            optimizer.zero_grad()
            loss = loss_function(model(images), labels)
            loss.backward()
            optimizer.step()
            scheduler.step()
        print(f"epoch {epoch}/{args.epochs}  loss: {loss.item():.4f}  val_accuracy: {accuracy(model, test):.4f}")

    if args.save:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
