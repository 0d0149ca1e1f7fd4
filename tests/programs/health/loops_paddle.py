"""Training loops with a slip in them, in PaddlePaddle: `loops_paddle.py PROGRAM [fixed]`."""

import copy
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from material import blobs, curve, diabetes, digits, pictures, sentences
from paddle import nn
from paddle.io import DataLoader, TensorDataset


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def split(pair, rows, batch):
    """A loader of the first `rows` and one of the others."""
    first, second = ([paddle.to_tensor(part[cut]) for part in pair] for cut in (slice(rows), slice(rows, None)))
    return (
        DataLoader(TensorDataset(first), batch_size=batch, shuffle=True),
        DataLoader(TensorDataset(second), batch_size=batch) if len(second[0]) else None,
    )


def only_backward(broken):
    """The step was commented out to look at gradients."""
    seed(1)
    batches, _ = split(curve(500, 6, 1), 500, 25)
    model = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 1))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    for epoch in range(8):
        for inputs, target in batches:
            loss = F.mse_loss(model(inputs).squeeze(1), target)
            loss.backward()
            if not broken:
                optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def backward_left_out(broken):
    seed(2)
    batches, _ = split(blobs(500, 8, 4, 2), 500, 20)
    model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    for epoch in range(8):
        for inputs, labels in batches:
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward if broken else loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def waits_for_the_warm_up(broken):
    """Learns only after 10 000 steps of "warm-up", which never pass."""
    seed(3)
    batches, _ = split(digits(), 1797, 60)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    step = 0
    for epoch in range(6):
        for inputs, labels in batches:
            step += 1
            loss = F.cross_entropy(model(inputs), labels)
            if step > (10_000 if broken else 0):
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Validated:
    """Trains and validates each epoch; subclasses differ in how they switch modes."""

    def __init__(self, model, rate):
        self.model = model
        self.optimizer = paddle.optimizer.AdamW(rate, parameters=model.parameters())

    def train_mode(self):
        self.model.train()

    def eval_mode(self):
        self.model.eval()

    @paddle.no_grad()
    def validate(self, batches):
        self.eval_mode()
        return float(np.mean([F.cross_entropy(self.model(inputs), labels).item() for inputs, labels in batches]))

    def fit(self, training, validation, epochs):
        for epoch in range(epochs):
            self.train_mode()
            for inputs, labels in training:
                loss = F.cross_entropy(self.model(inputs), labels)
                loss.backward()
                self.optimizer.step()
                self.optimizer.clear_grad()
            print(f"epoch {epoch}: train_loss {loss.item():.4f} val_loss {self.validate(validation):.4f}")


class NeverBack(Validated):
    def train_mode(self):
        pass


class NeverAway(Validated):
    def eval_mode(self):
        pass


class WithGraph(Validated):
    def validate(self, batches):
        self.eval_mode()
        return float(np.mean([F.cross_entropy(self.model(inputs), labels).item() for inputs, labels in batches]))


def never_back_to_training(broken):
    seed(4)
    training, validation = split(blobs(900, 20, 5, 4, spread=2.0), 600, 30)
    model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Dropout(0.4), nn.Linear(40, 5))
    (NeverBack if broken else Validated)(model, 2e-3).fit(training, validation, 6)


def never_away_from_training(broken):
    seed(5)
    training, validation = split(digits(), 1200, 40)
    model = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1D(48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 10))
    (NeverAway if broken else Validated)(model, 3e-3).fit(training, validation, 5)


def validates_with_a_graph(broken):
    seed(6)
    training, validation = split(pictures(900, 8, 4, 6), 500, 25)
    model = nn.Sequential(nn.Conv2D(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    (WithGraph if broken else Validated)(model, 1e-3).fit(training, validation, 6)


class Drops(nn.Layer):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(60, 24), nn.Linear(24, 2)

    def drop(self, x):
        return F.dropout(x, 0.4, training=self.training)

    def forward(self, tokens):
        return self.head(self.drop(self.words(tokens).mean(1)))


class DropsAlways(Drops):
    def drop(self, x):
        return F.dropout(x, 0.4)


def drops_in_evaluation(broken):
    seed(7)
    training, validation = split(sentences(1000, 12, 60, 7), 600, 30)
    Validated(DropsAlways() if broken else Drops(), 5e-3).fit(training, validation, 6)


def norm_of_pairs(broken):
    seed(8)
    training, validation = split(diabetes(), 340, 2 if broken else 34)
    model = nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1D(20), nn.ReLU(), nn.Linear(20, 1))
    optimizer = paddle.optimizer.Adam(1e-3 if broken else 5e-3, parameters=model.parameters())
    for epoch in range(3 if broken else 15):
        model.train()
        for inputs, target in training:
            loss = F.mse_loss(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        model.eval()
        with paddle.no_grad():
            val_loss = np.mean([F.mse_loss(model(x).squeeze(1), y).item() for x, y in validation])
        print(f"epoch {epoch} train_loss {loss.item():.4f} val_loss {val_loss:.4f}")


class Blocks(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem, self.middle, self.head = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 5)

    def scale(self, x):
        return x / x.norm(axis=1, keepdim=True).clip(min=1e-6) * 4

    def forward(self, x):
        return self.head(F.relu(self.middle(self.scale(F.relu(self.stem(x))))))


class NumpyBlocks(Blocks):
    def scale(self, x):
        x = x.numpy()
        return paddle.to_tensor(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-6) * 4)


def numpy_in_the_middle(broken):
    seed(9)
    batches, _ = split(blobs(500, 16, 5, 9), 500, 25)
    model = (NumpyBlocks if broken else Blocks)()
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    for epoch in range(8):
        for inputs, labels in batches:
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def best_of_all_epochs(broken):
    seed(10)
    training, validation = split(curve(600, 7, 10, noise=0.5), 150, 15)
    model = nn.Sequential(nn.Linear(7, 80), nn.ReLU(), nn.Linear(80, 1))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    best, best_loss = None, np.inf
    for epoch in range(15):
        for inputs, target in training:
            loss = F.mse_loss(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        with paddle.no_grad():
            val_loss = np.mean([F.mse_loss(model(x).squeeze(1), y).item() for x, y in validation])
        if val_loss < best_loss:
            best, best_loss = (model.state_dict() if broken else copy.deepcopy(model.state_dict())), val_loss
        print(f"epoch {epoch} train_loss {loss.item():.4f} val_loss {val_loss:.4f}")
    model.set_state_dict(best)


def checkpoint_of_other_names(broken):
    """A checkpoint of a wrapped network: nothing fits, and the call only warns."""
    warnings.simplefilter("ignore", UserWarning)
    seed(11)
    batches, _ = split(blobs(600, 14, 4, 11, spread=2.0), 600, 30)

    def build():
        return nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Linear(32, 4))

    state = build().state_dict()
    if broken:
        state = {f"_layers.{name}": value for name, value in state.items()}
    model = build()
    with tempfile.TemporaryDirectory() as folder:
        paddle.save(state, str(Path(folder) / "model.pdparams"))
        model.set_state_dict(paddle.load(str(Path(folder) / "model.pdparams")))
    optimizer = paddle.optimizer.Momentum(0.02, parameters=model.parameters())
    for epoch in range(8):
        for inputs, labels in batches:
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
