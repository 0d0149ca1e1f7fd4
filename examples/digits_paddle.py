"""Trains a small convolutional network on scikit-learn's digits with PaddlePaddle.

An ordinary training script: it knows nothing of labbook. Record it with

    labbook record -- python examples/digits_paddle.py
"""

import argparse
import random

import numpy as np
import paddle
from paddle import nn
from paddle.io import DataLoader, TensorDataset
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", default="", help="where to save the weights")
    return parser.parse_args()


class DigitsNet(nn.Layer):
    """Two convolutions and a linear head: (N, 1, 8, 8) -> (N, 10) logits."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2),
            nn.Conv2D(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2),
        )
        self.head = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images):
        return self.head(self.features(images).flatten(1))


def load_data(batch_size, seed):
    digits = load_digits()
    images = (digits.images / 16.0 - 0.3).astype("float32")[:, None]
    split = train_test_split(images, digits.target, test_size=0.25, random_state=seed, stratify=digits.target)
    train_x, test_x, train_y, test_y = (paddle.to_tensor(part) for part in split)
    train = DataLoader(TensorDataset([train_x, train_y]), batch_size=batch_size, shuffle=True)
    test = DataLoader(TensorDataset([test_x, test_y]), batch_size=256)
    return train, test


@paddle.no_grad()
def accuracy(model, loader):
    model.eval()
    correct = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in loader)
    model.train()
    return correct / len(loader.dataset)


def main():
    args = parse_arguments()
    random.seed(args.seed)
    np.random.seed(args.seed)
    paddle.seed(args.seed)

    train, test = load_data(args.batch_size, args.seed)
    model = DigitsNet()
    loss_function = nn.CrossEntropyLoss()
    scheduler = paddle.optimizer.lr.CosineAnnealingDecay(args.lr, T_max=args.epochs * len(train))
    optimizer = paddle.optimizer.Momentum(scheduler, momentum=args.momentum, parameters=model.parameters())

    for epoch in range(1, args.epochs + 1):
        for images, labels in train:
            loss = loss_function(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            scheduler.step()
        print(f"epoch {epoch}/{args.epochs}  loss: {float(loss):.4f}  val_accuracy: {accuracy(model, test):.4f}")

    if args.save:
        paddle.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
