"""Trains a small network with PaddlePaddle: `python train.py`, `python train.py --lr 0.05`."""

from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from data import make_spirals, split
from paddle import nn
from paddle.io import DataLoader, TensorDataset
from settings import read_settings


def make_loaders(settings):
    """Returns the loaders of training and validation data."""
    points, labels = make_spirals(settings.points, settings.arms, settings.noise, settings.seed)
    train, val = (
        TensorDataset([paddle.to_tensor(x, dtype="float32"), paddle.to_tensor(y, dtype="int64")])
        for x, y in zip(split(points), split(labels))
    )
    return DataLoader(train, batch_size=settings.batch_size, shuffle=True), DataLoader(val, batch_size=256)


def make_model(settings):
    """Returns the network: (N, 2) points -> (N, arms) logits."""
    hidden = settings.hidden
    return nn.Sequential(
        nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, settings.arms)
    )


@paddle.no_grad()
def evaluate(model, loader):
    """Returns the mean loss and the accuracy over a loader."""
    model.eval()
    loss, right, count = 0.0, 0, 0
    for inputs, targets in loader:
        logits = model(inputs)
        loss += float(F.cross_entropy(logits, targets, reduction="sum"))
        right += int((logits.argmax(1) == targets).sum())
        count += len(targets)
    return loss / count, right / count


def main(arguments=None):
    """Trains, saves the weights and returns the metrics of the last epoch."""
    settings = read_settings(arguments)
    paddle.seed(settings.seed)
    np.random.seed(settings.seed)  # the DataLoader shuffles with NumPy
    train, val = make_loaders(settings)
    model = make_model(settings)
    optimizer = paddle.optimizer.AdamW(
        learning_rate=settings.lr, weight_decay=settings.weight_decay, parameters=model.parameters()
    )
    metrics = {}
    for epoch in range(1, settings.epochs + 1):
        model.train()
        for inputs, targets in train:
            loss = F.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        val_loss, val_acc = evaluate(model, val)
        metrics = {"val_loss": val_loss, "val_acc": val_acc}
        print(f"epoch {epoch}: loss {float(loss):.4f} val_loss {val_loss:.4f} val_acc {val_acc:.4f}")
    Path(settings.checkpoint).parent.mkdir(parents=True, exist_ok=True)
    paddle.save(model.state_dict(), settings.checkpoint)
    return metrics


if __name__ == "__main__":
    main()
