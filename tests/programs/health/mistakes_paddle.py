"""Mistakes with data, layers and phases, in PaddlePaddle: `mistakes_paddle.py PROGRAM [fixed]`."""

import random
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from material import blobs, curve, digits
from paddle import nn
from paddle.io import DataLoader, Dataset, TensorDataset


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def dataset(pair):
    return TensorDataset([paddle.to_tensor(part) for part in pair])


def fit(model, train, held_out=None, epochs=5, rate=3e-3, loss_of=F.cross_entropy):
    """Trains, validates after each epoch and prints both."""
    optimizer = paddle.optimizer.Adam(rate, parameters=[p for p in model.parameters() if not p.stop_gradient])
    batches = DataLoader(dataset(train), batch_size=32, shuffle=True)
    others = DataLoader(dataset(held_out), batch_size=64) if held_out else ()
    for epoch in range(epochs):
        model.train()
        for inputs, labels in batches:
            loss = loss_of(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        model.eval()
        values = []
        with paddle.no_grad():
            for inputs, labels in others:
                values.append(loss_of(model(inputs), labels).item())
        print(f"epoch {epoch} loss {loss.item():.4f} val_loss {np.mean(values) if values else float('nan'):.4f}")


class Pictures(nn.Layer):
    def __init__(self, last_relu=False):
        super().__init__()
        self.first = nn.Conv2D(1, 8, 3, padding=1)
        self.second = nn.Conv2D(8, 16, 3, padding=1)
        self.third = nn.Conv2D(16, 16, 3, padding=1)
        self.head = nn.Linear(64, 10)
        self.last_relu = last_relu

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.third(F.relu(self.second(x)))), 2)
        x = self.head(x.flatten(1))
        return F.relu(x) if self.last_relu else x


def pictures():
    x, y = digits()
    return x.reshape(-1, 1, 8, 8), y


def one_layer_left_frozen(broken):
    """A filter by name freezes a layer whose weights were never loaded."""
    seed(1)
    x, y = pictures()
    model = Pictures()
    if broken:
        for name, parameter in model.named_parameters():
            parameter.stop_gradient = "second" in name
    fit(model, (x[:1500], y[:1500]), (x[1500:], y[1500:]), 3)


def answer_among_the_columns(broken):
    """The class stands in the table of features, scaled with the others."""
    seed(2)
    x, y = blobs(900, 12, 4, 7, 4.0)
    if broken:
        x = np.concatenate([x[:, :5], (y[:, None].astype("float32") - 1.5) / 1.1, x[:, 5:]], 1).astype("float32")
    model = nn.Sequential(nn.Linear(x.shape[1], 48), nn.ReLU(), nn.Linear(48, 4))
    fit(model, (x[:600], y[:600]), (x[600:], y[600:]))


def total_that_holds_the_answer(broken):
    """A regression one of whose inputs is the target in another unit."""
    seed(3)
    x, y = curve(900, 8, 5, 0.5)
    y = y.reshape(-1, 1)
    if broken:
        x = np.concatenate([x, 3.0 * y + 1.0], 1).astype("float32")
    model = nn.Sequential(nn.Linear(x.shape[1], 48), nn.Tanh(), nn.Linear(48, 1))
    fit(model, (x[:600], y[:600]), (x[600:], y[600:]), loss_of=F.mse_loss)


def copies_before_the_split(broken):
    """The records are repeated to balance them, shuffled, and only then split."""
    seed(4)
    x, y = blobs(500, 16, 4, 9, 2.0)
    order = np.random.permutation(1000)
    if broken:
        x, y = np.tile(x, (2, 1))[order], np.tile(y, 2)[order]
        train, held_out = (x[:800], y[:800]), (x[800:], y[800:])
    else:
        train, held_out = (np.tile(x[:400], (2, 1)), np.tile(y[:400], 2)), (x[400:], y[400:])
    fit(nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4)), train, held_out)


def relu_on_the_scores(broken):
    """The last layer has an activation like all others; cross entropy gets no negative score."""
    seed(5)
    x, y = pictures()
    fit(Pictures(last_relu=broken), (x[:1500], y[:1500]), (x[1500:], y[1500:]), 3)


def summed_in_the_second_phase(broken):
    """An encoder is trained first; the classifier on it sums its loss over the batch."""
    seed(6)
    x, y = blobs(900, 16, 4, 3)
    encoder, decoder = nn.Sequential(nn.Linear(16, 8), nn.Tanh()), nn.Linear(8, 16)
    fit(nn.Sequential(encoder, decoder), (x, x), epochs=2, loss_of=F.mse_loss)
    with paddle.no_grad():
        features = encoder(paddle.to_tensor(x)).numpy()
    reduction = "sum" if broken else "mean"
    fit(nn.Linear(8, 4), (features, y), epochs=3, loss_of=lambda out, to: F.cross_entropy(out, to, reduction=reduction))


class Shaken(Dataset):
    """Records with noise of Python's own generator."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return (self.x[index] * (1 + 0.1 * random.random())).astype("float32"), self.y[index]


def dice_without_a_seed(broken):
    """PaddlePaddle and NumPy are seeded; the noise comes from a generator that is not."""
    seed(7)
    if not broken:
        random.seed(7)
    x, y = blobs(600, 12, 4, 5)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    for epoch in range(4):
        for inputs, labels in DataLoader(Shaken(x, y), batch_size=32, shuffle=True):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def penalised(coefficient, decay):
    """A classifier with a penalty on its weights in the loss, or weight decay in the optimizer."""
    seed(8)
    x, y = blobs(900, 16, 4, 11)
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 4))
    optimizer = paddle.optimizer.Momentum(0.02, parameters=model.parameters(), weight_decay=decay)
    for epoch in range(4):
        for inputs, labels in DataLoader(dataset((x, y)), batch_size=32, shuffle=True):
            loss = F.cross_entropy(model(inputs), labels)
            if coefficient:
                loss = loss + coefficient * sum((p * p).sum() for p in model.parameters())
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def penalty_larger_than_the_loss(broken):
    penalised(1.0 if broken else 1e-4, None)


def decay_stronger_than_the_gradient(broken):
    penalised(0.0, 1.0 if broken else 5e-4)


def second_optimizer_forgotten(broken):
    """Encoder and head have an optimizer each; that of the encoder never steps."""
    seed(14)
    x, y = blobs(900, 12, 4, 7)
    encoder, head = nn.Sequential(nn.Linear(12, 32), nn.ReLU()), nn.Linear(32, 4)
    optimizers = [paddle.optimizer.Adam(3e-3, parameters=part.parameters()) for part in (encoder, head)]
    for epoch in range(4):
        for inputs, labels in DataLoader(dataset((x, y)), batch_size=32, shuffle=True):
            loss = F.cross_entropy(head(encoder(inputs)), labels)
            loss.backward()
            for optimizer in optimizers[1 if broken else 0 :]:
                optimizer.step()
            for optimizer in optimizers:
                optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]("fixed" not in sys.argv)
