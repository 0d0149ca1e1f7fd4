"""Numbers that stop being numbers, in PaddlePaddle: `numeric_paddle.py PROGRAM [fixed]`."""

import io
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from material import cancer, curve, diabetes, digits, sentences, wine
from paddle import nn
from paddle.io import DataLoader, TensorDataset


def loader(x, y, batch):
    return DataLoader(TensorDataset([paddle.to_tensor(x), paddle.to_tensor(y)]), batch_size=batch, shuffle=True)


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def ratio(predicted, target):
    return (predicted / target - 1).square().mean()


def difference(predicted, target):
    return (predicted - target).square().mean()


def relative_error(broken):
    """The error relative to a measurement that is zero once."""
    seed(1)
    x, y = curve(600, 7, 1)
    y = np.abs(y) + 0.5
    y[333] = 0.0
    model = nn.Sequential(nn.Linear(7, 20), nn.Tanh(), nn.Linear(20, 1))
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    for epoch in range(8):
        for inputs, target in loader(x, y, 24):
            loss = (ratio if broken else difference)(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


TABLE = "\n".join(f"{a:.3f},{b:.3f},{c:.3f}" for a, b, c in np.random.default_rng(2).normal(size=(500, 3)))


def holes_in_the_table(broken):
    seed(2)
    text = TABLE.splitlines()
    text[310], text[407] = "0.1,,0.4", ",-0.8,1.1"
    table = np.genfromtxt(io.StringIO("\n".join(text)), delimiter=",").astype("float32")
    if not broken:
        table = np.where(np.isnan(table), np.nanmean(table, 0), table).astype("float32")
    y = np.nan_to_num(table[:, :1] * table[:, 1:2])
    model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = paddle.optimizer.RMSProp(3e-3, parameters=model.parameters())
    for epoch in range(12):
        for inputs, target in loader(table, y.astype("float32"), 20):
            loss = F.mse_loss(model(inputs), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Pool(nn.Layer):
    """A mean over the words that are there."""

    def lengths(self, there):
        return there.sum(1)

    def forward(self, x, there):
        return (x * there).sum(1) / self.lengths(there)


class SafePool(Pool):
    def lengths(self, there):
        return there.sum(1).clip(min=1.0)


class Reader(nn.Layer):
    def __init__(self, pool):
        super().__init__()
        self.words, self.pool, self.head = nn.Embedding(70, 16), pool, nn.Linear(16, 2)

    def forward(self, tokens):
        return self.head(self.pool(self.words(tokens), (tokens != 0).astype("float32").unsqueeze(-1)))


def mean_of_no_words(broken):
    seed(3)
    tokens, y = sentences(600, 14, 70, 3)
    tokens[450] = 0
    model = Reader(Pool() if broken else SafePool())
    optimizer = paddle.optimizer.AdamW(5e-3, parameters=model.parameters())
    for epoch in range(8):
        for inputs, labels in loader(tokens, y, 30):
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.clear_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def spread_of_a_constant(broken):
    """A penalty on the standard deviation of each code; a dead one has the slope of a root at zero."""
    seed(4)
    x, y = curve(500, 6, 4)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
    head = nn.Linear(16, 1)
    model[0].weight.set_value(paddle.concat([model[0].weight[:, :15], paddle.zeros([6, 1])], 1))
    optimizer = paddle.optimizer.SGD(0.02, parameters=[*model.parameters(), *head.parameters()])
    for epoch in range(10):
        for inputs, target in loader(x, y, 25):
            codes = model(inputs)
            variance = (codes - codes.mean(0)).square().mean(0)
            spread = (variance if broken else variance + 1e-6).sqrt()
            loss = F.smooth_l1_loss(head(codes).squeeze(1), target) + 0.01 * (spread - 1).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def moments_without_epsilon(broken):
    seed(5)
    tokens, y = sentences(700, 9, 60, 5)
    words, head = nn.Embedding(150, 12), nn.Linear(12, 2)
    parameters = [*words.parameters(), *head.parameters()]
    optimizer = paddle.optimizer.Adam(4e-3, epsilon=0.0 if broken else 1e-8, parameters=parameters)
    for epoch in range(8):
        for inputs, labels in loader(tokens, y, 35):
            loss = F.cross_entropy(head(words(inputs).mean(1)), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Meter:
    """A running mean that leaves out what is not finite."""

    def __init__(self):
        self.values = []

    def add(self, value):
        if np.isfinite(value) or not self.values:
            self.values.append(value)

    def mean(self):
        return float(np.mean(self.values[-20:]))


def meter_without_nan(broken):
    seed(6)
    x, y = diabetes()
    x = x.copy()
    if broken:
        x[400, 2] = np.inf
    model = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 1))
    optimizer = paddle.optimizer.Momentum(5e-3, parameters=model.parameters())
    meter = Meter()
    for epoch in range(15):
        for inputs, target in loader(x, y[:, None], 26):
            loss = F.mse_loss(model(inputs), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            meter.add(loss.item())
        print(f"epoch {epoch} loss: {meter.mean():.5f}")


def grey_values_as_chances(broken):
    """Binary cross entropy against pixels from 0 to 16."""
    seed(7)
    x, _ = digits()
    pixels = x * 16 if broken else x
    model = nn.Sequential(nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 64))
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(6):
        for inputs, target in loader(x, pixels, 48):
            loss = criterion(model(inputs), target)
            optimizer.clear_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def labels_all_ignored(broken):
    """The id that marks padding marks every word: the loss is 0, not NaN."""
    seed(8)
    tokens, _ = sentences(400, 10, 50, 8)
    tags = (tokens % 3).astype("int64")
    tags[:, 7:] = -100
    if broken:
        tags[:] = np.where(tokens > 0, -100, tags)
    model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 3))
    optimizer = paddle.optimizer.Adam(1e-2, parameters=model.parameters())
    for epoch in range(8):
        for inputs, labels in loader(tokens, tags, 40):
            loss = F.cross_entropy(model(inputs).reshape([-1, 3]), labels.reshape([-1]), ignore_index=-100)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def mixed_precision_on_the_processor(broken):
    """auto_cast does nothing here; the twin does not ask for it."""
    seed(9)
    x, y = cancer()
    x = ((x - x.mean(0)) / x.std(0)).astype("float32")
    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=model.parameters())
    for epoch in range(12):
        for inputs, labels in loader(x, y, 50):
            with paddle.amp.auto_cast(enable=broken, dtype="bfloat16"):
                loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def exponent_of_raw_numbers(broken):
    """A Poisson rate by exp over raw measurements."""
    seed(10)
    x, _ = wine()
    counts = np.round(x[:, 9] * 2).astype("float32")
    x = x if broken else (x - x.mean(0)) / x.std(0)
    model = nn.Linear(13, 1)
    optimizer = paddle.optimizer.SGD(1e-3, parameters=model.parameters())
    for epoch in range(40):
        for inputs, target in loader(x.astype("float32"), counts, 16):
            rate = model(inputs).squeeze(1).exp()
            loss = (rate - target * paddle.log(rate)).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        if epoch % 5 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
