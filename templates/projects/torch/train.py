"""Trains a small network with PyTorch: `python train.py`, `python train.py --lr 0.05`."""

from pathlib import Path

import torch
from data import make_spirals, split
from settings import read_settings
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_loaders(settings):
    """Returns the loaders of training and validation data."""
    points, labels = make_spirals(settings.points, settings.arms, settings.noise, settings.seed)
    inputs, targets = torch.tensor(points, dtype=torch.float32), torch.tensor(labels)
    train, val = (TensorDataset(x, y) for x, y in zip(split(inputs), split(targets)))
    return DataLoader(train, settings.batch_size, shuffle=True), DataLoader(val, batch_size=256)


def make_model(settings):
    """Returns the network: (N, 2) points -> (N, arms) logits."""
    hidden = settings.hidden
    return nn.Sequential(
        nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, settings.arms)
    )


@torch.no_grad()
def evaluate(model, loader):
    """Returns the mean loss and the accuracy over a loader."""
    model.eval()
    loss, right, count = 0.0, 0, 0
    for inputs, targets in loader:
        logits = model(inputs)
        loss += nn.functional.cross_entropy(logits, targets, reduction="sum").item()
        right += (logits.argmax(1) == targets).sum().item()
        count += len(targets)
    return loss / count, right / count


def main(arguments=None):
    """Trains, saves the weights and returns the metrics of the last epoch."""
    settings = read_settings(arguments)
    torch.manual_seed(settings.seed)
    train, val = make_loaders(settings)
    model = make_model(settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
    metrics = {}
    for epoch in range(1, settings.epochs + 1):
        model.train()
        for inputs, targets in train:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        val_loss, val_acc = evaluate(model, val)
        metrics = {"val_loss": val_loss, "val_acc": val_acc}
        print(f"epoch {epoch}: loss {loss.item():.4f} val_loss {val_loss:.4f} val_acc {val_acc:.4f}")
    Path(settings.checkpoint).parent.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), settings.checkpoint)
    return metrics


if __name__ == "__main__":
    main()
