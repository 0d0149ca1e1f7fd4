"""Networks that cannot learn well, in PaddlePaddle: `layers_paddle.py PROGRAM [fixed]`."""

import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from material import blobs, cancer, curve, diabetes, digits, pictures, sentences, standardised, wine
from paddle import nn
from paddle.io import DataLoader, TensorDataset
from paddle.nn import initializer


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def loader(pair, batch):
    return DataLoader(TensorDataset([paddle.to_tensor(part) for part in pair]), batch_size=batch, shuffle=True)


def classify(model, optimizer, pair, batch, epochs):
    """The loop of all programs here that sort things into classes."""
    for epoch in range(epochs):
        for inputs, labels in loader(pair, batch):
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def adam(model, rate):
    return paddle.optimizer.Adam(rate, parameters=model.parameters())


def sgd(model, rate):
    return paddle.optimizer.SGD(rate, parameters=model.parameters())


def jumps_about(broken):
    seed(1)
    model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 5))
    rule = paddle.optimizer.AdamW(0.8 if broken else 2e-3, parameters=model.parameters(), weight_decay=0.15)
    classify(model, rule, blobs(600, 20, 5, 1, spread=2.5), 25, 8)


def eight_tanhs_too_small(broken):
    seed(2)
    layers = [nn.Linear(13, 40)]
    for _ in range(8):
        layers += [nn.Tanh(), nn.Linear(40, 40)]
    model = nn.Sequential(*layers, nn.Linear(40, 3))
    draw = initializer.Normal(0.0, 0.03) if broken else initializer.XavierNormal()
    for layer in model:
        if isinstance(layer, nn.Linear):
            draw(layer.weight)
    x, y = wine()
    classify(model, sgd(model, 0.05), (standardised(x), y), 24, 30)


def memory_that_grows(broken):
    """A recurrent network with ReLU and large sums as target."""
    seed(3)
    x = np.random.default_rng(3).normal(size=(320, 50, 2)).astype("float32")
    y = x[:, :, :1].mean(1) * (30 if broken else 5)
    cells = nn.SimpleRNN(2, 28, activation="relu" if broken else "tanh")
    head = nn.Linear(28, 1)
    if broken:
        initializer.Normal(0.0, 0.95 / 28**0.5)(cells.parameters()[1])
    clip = None if broken else nn.ClipGradByGlobalNorm(1.0)
    parameters = [*cells.parameters(), *head.parameters()]
    optimizer = paddle.optimizer.Adam(4e-3, parameters=parameters, grad_clip=clip)
    for epoch in range(12):
        for inputs, target in loader((x, y.astype("float32")), 20):
            loss = F.mse_loss(head(cells(inputs)[0][:, -1]), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def nothing_gets_through(broken):
    """A gate that should close for missing values closes for all."""
    seed(4)
    x, y = curve(480, 8, 4)
    model = nn.Sequential(nn.Linear(8, 24), nn.GELU(), nn.Linear(24, 1))
    optimizer = paddle.optimizer.Momentum(0.01, parameters=model.parameters())
    for epoch in range(12):
        for inputs, target in loader((x, y), 24):
            there = paddle.isnan(inputs) if broken else paddle.logical_not(paddle.isnan(inputs))
            gate = there.astype("float32").max(1)
            loss = ((model(inputs).squeeze(1) - target).square() * gate).mean() + (target.square() * (1 - gate)).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def rate_kills_the_units(broken):
    seed(5)
    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
    x, y = cancer()
    x = standardised(x)
    classify(model, sgd(model, 5.0 if broken else 0.05), (x, y), 50, 15)


def raw_into_sigmoids(broken):
    seed(6)
    x, y = cancer()
    model = nn.Sequential(nn.Linear(30, 32), nn.Sigmoid(), nn.Linear(32, 2))
    classify(model, adam(model, 5e-3), (x if broken else standardised(x), y), 40, 12)


class Constant(nn.Layer):
    """Averages over the batch where it should average over the words."""

    axis = 0

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(50, 16), nn.Linear(16, 2)

    def forward(self, tokens):
        x = self.words(tokens)
        return self.head(x.mean(0).expand([tokens.shape[0], -1, -1]).mean(1))


class Varied(Constant):
    def forward(self, tokens):
        return self.head(self.words(tokens).mean(1))


def mean_over_the_batch(broken):
    seed(7)
    model = (Constant if broken else Varied)()
    classify(model, adam(model, 5e-3), sentences(640, 10, 50, 7), 32, 8)


def loud_last_layer(broken):
    seed(8)
    last = nn.Linear(32, 6, weight_attr=initializer.Normal(0.0, 1.5) if broken else None)
    model = nn.Sequential(nn.Conv2D(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 32), nn.Tanh(), last)
    classify(model, sgd(model, 0.03), pictures(600, 8, 6, 8), 24, 6)


def sum_as_loss(broken):
    seed(9)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = adam(model, 1e-3)
    criterion = nn.CrossEntropyLoss(reduction="sum" if broken else "mean")
    for epoch in range(6):
        for inputs, labels in loader(digits(), 32):
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def all_ones(broken):
    seed(10)
    attribute = paddle.ParamAttr(initializer=initializer.Constant(0.1)) if broken else None
    model = nn.Sequential(
        nn.Linear(10, 20, weight_attr=attribute), nn.Tanh(), nn.Linear(20, 20, weight_attr=attribute), nn.Tanh(),
        nn.Linear(20, 1, weight_attr=attribute),
    )  # fmt: skip
    optimizer = adam(model, 3e-3)
    for epoch in range(16):
        for inputs, target in loader(diabetes(), 26):
            loss = F.mse_loss(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def weights_of_size_one(broken):
    seed(11)
    attribute = paddle.ParamAttr(initializer=initializer.Normal(0.0, 1.0)) if broken else None
    model = nn.Sequential(
        nn.Linear(48, 80, weight_attr=attribute), nn.Tanh(), nn.Linear(80, 60, weight_attr=attribute), nn.Tanh(),
        nn.Linear(60, 4, weight_attr=attribute),
    )  # fmt: skip
    classify(model, sgd(model, 0.02), blobs(600, 48, 4, 11, spread=2.0), 30, 10)


def initialise_below(layer):
    for parameter in layer.parameters():
        if parameter.ndim > 1:
            initializer.XavierUniform()(parameter)


def initialise_own(layer):
    if isinstance(layer, nn.Linear):
        initializer.XavierUniform()(layer.weight)


def initialised_by_every_parent(broken):
    seed(12)
    inner = nn.Sequential(nn.Sequential(nn.Linear(16, 32), nn.ReLU()), nn.Sequential(nn.Linear(32, 32), nn.ReLU()))
    model = nn.Sequential(inner, nn.Linear(32, 4))
    model.apply(initialise_below if broken else initialise_own)
    classify(model, adam(model, 2e-3), blobs(500, 16, 4, 12), 25, 8)


class Ensemble(nn.Layer):
    def __init__(self):
        super().__init__()
        self.members = self.hold({name: nn.Linear(12, 5) for name in ("one", "two", "three")})
        self.scale = self.create_parameter([1], default_initializer=initializer.Constant(1.0))

    def hold(self, members):
        return nn.LayerDict(members)

    def forward(self, x):
        return sum(member(x) for member in self.members.values()) * self.scale


class DictEnsemble(Ensemble):
    def hold(self, members):
        return members


def dictionary_of_layers(broken):
    seed(13)
    model = (DictEnsemble if broken else Ensemble)()
    classify(model, adam(model, 5e-3), blobs(500, 12, 5, 13), 20, 8)


def judged_before_trained(broken):
    """Spectral norm: judged in evaluation mode before the first training step, whose power iteration never ran."""
    seed(14)
    first = nn.Linear(16, 64)
    model = nn.Sequential(nn.utils.spectral_norm(first) if broken else first, nn.LeakyReLU(0.1), nn.Linear(64, 2))
    x, y = blobs(400, 16, 2, 14)
    model.eval()
    with paddle.no_grad():
        val_loss = F.cross_entropy(model(paddle.to_tensor(x)), paddle.to_tensor(y)).item()
    print(f"before training: val_loss {val_loss:.4f}")
    model.train()
    classify(model, adam(model, 2e-3), (x, y), 25, 6)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
