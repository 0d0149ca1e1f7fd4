"""Trains a small network with Lightning: `python train.py`, `python train.py --lr 0.05`."""

from pathlib import Path

import lightning as L
import torch
from data import make_spirals, split
from settings import read_settings
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Spirals(L.LightningModule):
    """Classifies points: (N, 2) -> (N, arms) logits."""

    def __init__(self, hidden, arms, lr, weight_decay):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, arms)
        )

    def training_step(self, batch, _number):
        """Returns the loss of a batch."""
        inputs, targets = batch
        loss = nn.functional.cross_entropy(self.net(inputs), targets)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _number):
        """Logs loss and accuracy of a batch; Lightning averages them."""
        inputs, targets = batch
        logits = self.net(inputs)
        self.log("val_loss", nn.functional.cross_entropy(logits, targets))
        self.log("val_acc", (logits.argmax(1) == targets).float().mean())

    def configure_optimizers(self):
        """Returns the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=self.hparams.weight_decay)


def main(arguments=None):
    """Trains, saves the weights and returns the metrics of the last epoch."""
    settings = read_settings(arguments)
    L.seed_everything(settings.seed)
    points, labels = make_spirals(settings.points, settings.arms, settings.noise, settings.seed)
    inputs, targets = torch.tensor(points, dtype=torch.float32), torch.tensor(labels)
    train, val = (TensorDataset(x, y) for x, y in zip(split(inputs), split(targets)))
    model = Spirals(settings.hidden, settings.arms, settings.lr, settings.weight_decay)
    trainer = L.Trainer(
        max_epochs=settings.epochs, accelerator="cpu", logger=False, enable_checkpointing=False, deterministic=True
    )
    trainer.fit(model, DataLoader(train, settings.batch_size, shuffle=True), DataLoader(val, batch_size=256))
    metrics = {name: float(trainer.callback_metrics[name]) for name in ("val_loss", "val_acc")}
    print(" ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
    Path(settings.checkpoint).parent.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), settings.checkpoint)
    return metrics


if __name__ == "__main__":
    main()
