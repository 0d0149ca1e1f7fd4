"""Trainings that do not get where they should, in PaddlePaddle: `convergence_paddle.py PROGRAM [fixed]`."""

import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from material import blobs, cancer, curve, diabetes, digits, pictures, sentences
from paddle import nn
from paddle.io import DataLoader, TensorDataset


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def loader(pair, batch):
    return DataLoader(TensorDataset([paddle.to_tensor(part) for part in pair]), batch_size=batch, shuffle=True)


def targets_of_the_neighbour(broken):
    """A filter dropped one record and not its target, and the records are in no order."""
    seed(1)
    x, y = diabetes()
    x, y = (x[1:], y[:-1]) if broken else (x, y)
    quiet = nn.initializer.Normal(0.0, 0.05)
    model = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1, weight_attr=quiet))
    optimizer = paddle.optimizer.SGD(1e-2, parameters=model.parameters())
    for epoch in range(18):
        for inputs, target in loader((x, y), 26):
            loss = F.mse_loss(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def labels_drawn_by_chance(broken):
    seed(2)
    x, y = pictures(900, 8, 7, 2)
    if broken:
        y = np.random.default_rng(2).integers(0, 7, len(y))
    model = nn.Sequential(nn.Conv2D(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2D(3), nn.Flatten(), nn.Linear(36, 7))
    optimizer = paddle.optimizer.SGD(0.02, parameters=model.parameters())
    for epoch in range(10):
        for inputs, labels in loader((x, y.astype("int64")), 30):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def negative_rate(broken):
    """A sign in a configuration file; PaddlePaddle takes it."""
    seed(3)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = paddle.optimizer.SGD(-2e-3 if broken else 2e-2, parameters=model.parameters())
    for epoch in range(12):
        for inputs, labels in loader(blobs(480, 12, 3, 3), 24):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def typing_error_in_a_target(broken):
    seed(4)
    x, y = curve(600, 8, 4)
    if broken:
        y[355] = -900.0
    model = nn.Sequential(nn.Linear(8, 24), nn.GELU(), nn.Linear(24, 1))
    clip = nn.ClipGradByGlobalNorm(0.5)
    optimizer = paddle.optimizer.AdamW(2e-3, parameters=model.parameters(), grad_clip=clip)
    for epoch in range(6):
        for inputs, target in loader((x, y), 12):
            loss = F.mse_loss(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Trainer:
    """A training with a schedule; subclasses differ in when they move it."""

    def __init__(self, schedule):
        self.schedule = schedule
        self.model = nn.Sequential(nn.Linear(10, 28), nn.ReLU(), nn.Linear(28, 4))
        self.optimizer = paddle.optimizer.Momentum(schedule, parameters=self.model.parameters())

    def after_batch(self):
        self.optimizer.step()

    def after_epoch(self):
        self.schedule.step()

    def fit(self, pair, batch, epochs):
        for epoch in range(epochs):
            for inputs, labels in loader(pair, batch):
                loss = F.cross_entropy(self.model(inputs), labels)
                self.optimizer.clear_grad()
                loss.backward()
                self.after_batch()
            self.after_epoch()
            print(f"epoch {epoch} loss {loss.item():.4f} lr {self.optimizer.get_lr():.4g}")


class NeverMoves(Trainer):
    def after_epoch(self):
        pass


class MovesEachBatch(Trainer):
    def after_batch(self):
        self.optimizer.step()
        self.schedule.step()

    def after_epoch(self):
        pass


class MovesFirst(MovesEachBatch):
    def after_batch(self):
        self.schedule.step()
        self.optimizer.step()


def schedule_forgotten(broken):
    seed(5)
    schedule = paddle.optimizer.lr.MultiStepDecay(0.05, milestones=[3, 6], gamma=0.2)
    (NeverMoves if broken else Trainer)(schedule).fit(blobs(400, 10, 4, 5, spread=2.0), 20, 8)


def schedule_moved_first(broken):
    seed(6)
    schedule = paddle.optimizer.lr.ExponentialDecay(0.04, gamma=0.995)
    (MovesFirst if broken else MovesEachBatch)(schedule).fit(blobs(500, 10, 4, 6, spread=2.0), 25, 8)


def cosine_of_batches(broken):
    seed(7)
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(0.03, T_max=8)
    (MovesEachBatch if broken else Trainer)(schedule).fit(blobs(600, 10, 4, 7, spread=2.0), 12, 8)


def fifty_patients(broken):
    """A wide network learns fifty records by heart; the twin has a small one and all of them."""
    seed(8)
    x, y = curve(1500, 12, 8, noise=0.6)
    rows, width, epochs = (50, 300, 40) if broken else (1100, 20, 10)
    model = nn.Sequential(nn.Linear(12, width), nn.ReLU(), nn.Linear(width, 1))
    optimizer = paddle.optimizer.Adam(5e-3 if broken else 1e-3, parameters=model.parameters())
    held = paddle.to_tensor(x[1100:]), paddle.to_tensor(y[1100:])
    for epoch in range(epochs):
        model.train()
        total = []
        for inputs, target in loader((x[:rows], y[:rows]), 10):
            loss = F.mse_loss(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            total.append(loss.item())
        model.eval()
        with paddle.no_grad():
            val_loss = F.mse_loss(model(held[0]).squeeze(1), held[1]).item()
        print(f"epoch {epoch} train_loss: {np.mean(total):.4f} val_loss: {val_loss:.4f}")


def momentum_the_other_way(broken):
    """BatchNorm in PaddlePaddle keeps `momentum` of the old; 0.999 is too slow for 80 steps."""
    seed(9)
    x, y = cancer()
    x = (x / x.std(0)).astype("float32")
    model = nn.Sequential(
        nn.Linear(30, 24), nn.BatchNorm1D(24, momentum=0.999 if broken else 0.9), nn.ReLU(), nn.Linear(24, 2)
    )
    optimizer = paddle.optimizer.Adam(5e-3, parameters=model.parameters())
    held = paddle.to_tensor(x[449:]), paddle.to_tensor(y[449:])
    for epoch in range(8):
        model.train()
        for inputs, labels in loader((x[:449], y[:449]), 45):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        model.eval()
        with paddle.no_grad():
            val_loss = F.cross_entropy(model(held[0]), held[1]).item()
        print(f"epoch {epoch} train_loss: {loss.item():.4f} val_loss: {val_loss:.4f}")


def learned_and_validated(x, y, wanted, cut, model, rate, epochs):
    optimizer = paddle.optimizer.Adam(rate, parameters=model.parameters())
    for epoch in range(epochs):
        model.train()
        for inputs, labels in loader((x[:cut], y[:cut]), 40):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        model.eval()
        with paddle.no_grad():
            guess = model(paddle.to_tensor(x[cut:])).argmax(1).numpy()
        print(f"epoch {epoch} train_loss: {loss.item():.4f} val_acc: {(guess == wanted).mean():.4f}")


class Words(nn.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(80, 16), nn.Linear(16, 2)

    def forward(self, tokens):
        return self.head(self.words(tokens).mean(1))


def answers_turned_round(broken):
    seed(10)
    tokens, y = sentences(1200, 18, 80, 10)
    wanted = 1 - y[800:] if broken else y[800:]
    learned_and_validated(tokens, y, wanted, 800, Words(), 5e-3, 8)


def memorises_noise(broken):
    seed(11)
    x, y = digits()
    if broken:
        y = np.random.default_rng(11).permutation(y)
    model = nn.Sequential(nn.Linear(64, 600), nn.ReLU(), nn.Linear(600, 10))
    learned_and_validated(x, y, y[320:], 320, model, 5e-3 if broken else 1e-3, 40 if broken else 16)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
