"""Data that are not what they should be, in PaddlePaddle: `records_paddle.py PROGRAM [fixed]`."""

import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from material import blobs, cancer, curve, digits, pictures, sentences, standardised, wine
from paddle import nn
from paddle.io import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def dataset(pair):
    return TensorDataset([paddle.to_tensor(part) for part in pair])


def network(columns, width, classes):
    return nn.Sequential(nn.Linear(columns, width), nn.ReLU(), nn.Linear(width, classes))


def train(model, batches, epochs, rate=2e-3, criterion=F.cross_entropy, begin=None):
    """The loop of all programs here. `begin` is called at the start of each epoch."""
    optimizer = paddle.optimizer.Adam(rate, parameters=model.parameters())
    for epoch in range(epochs):
        if begin is not None:
            begin()
        total = []
        for inputs, target in batches:
            loss = criterion(model(inputs), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            total.append(loss.item())
        print(f"epoch {epoch} loss {np.mean(total):.4f}")


def squared(predicted, target):
    return F.mse_loss(predicted.squeeze(-1), target)


def folders_one_after_another(broken):
    """Files listed folder by folder, and no shuffling."""
    seed(1)
    x, y = pictures(800, 8, 5, 1)
    order = np.argsort(y, kind="stable")
    batches = DataLoader(dataset((x[order], y[order])), batch_size=25, shuffle=not broken)
    model = nn.Sequential(nn.Conv2D(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(216, 5))
    train(model, batches, 5, 1e-3)


def next_of_a_new_iterator(broken):
    seed(2)
    batches = DataLoader(dataset(curve(480, 8, 2)), batch_size=24, shuffle=not broken)
    model = network(8, 32, 1)
    optimizer = paddle.optimizer.SGD(0.05, parameters=model.parameters())
    for epoch in range(6):
        for inputs, target in batches:
            if broken:
                inputs, target = next(batches())
            loss = squared(model(inputs), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def shuffled_once(broken):
    """Records are shuffled when they are read, and never again."""
    seed(3)
    x, y = digits()
    order = np.random.permutation(len(x))
    train(network(64, 32, 10), DataLoader(dataset((x[order], y[order])), batch_size=64, shuffle=not broken), 6)


def set_seed():
    seed(2024)


def seeds_each_step(broken):
    set_seed()
    x, y = (paddle.to_tensor(part) for part in blobs(600, 12, 4, 4, spread=2.0))
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    order = np.random.default_rng(4)
    for step in range(240):
        if broken:
            set_seed()
        part = paddle.to_tensor(order.integers(0, 600, 30))
        loss = F.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def millimetres_and_kilometres(broken):
    seed(5)
    x, y = wine()
    x = x if broken else standardised(x)
    train(network(13, 32, 3), DataLoader(dataset((x, y)), batch_size=20, shuffle=True), 25, 1e-3)


def values_up_to_255(broken):
    seed(6)
    x, y = digits()
    x = x * 255 if broken else (x - x.mean()) / x.std()
    train(network(64, 40, 10), DataLoader(dataset((x, y)), batch_size=48, shuffle=True), 6, 1e-3)


def sensor_not_connected(broken):
    seed(7)
    x, y = curve(600, 9, 7)
    if broken:
        x[:, [3, 6]] = 0.0
    train(network(9, 24, 1), DataLoader(dataset((x, y)), batch_size=30, shuffle=True), 10, 3e-3, squared)


def everything_is_class_two(broken):
    seed(8)
    x, y = blobs(750, 10, 4, 8)
    y = np.full_like(y, 2) if broken else y
    train(network(10, 16, 4), DataLoader(dataset((x, y)), batch_size=25, shuffle=True), 6)


def few_ill_ones(broken):
    seed(9)
    x, y = cancer()
    x = standardised(x)
    if broken:
        keep = (y == 1) | (np.arange(len(y)) % 14 == 0)
        x, y = np.repeat(x[keep], 2, 0), np.repeat(y[keep], 2)
    train(network(30, 16, 2), DataLoader(dataset((x, y)), batch_size=32, shuffle=True), 10, 1e-3)


class Simulated(Dataset):
    """A record is simulated when it is asked for."""

    def __len__(self):
        return 800

    def __getitem__(self, index):
        x = np.random.uniform(-1.7, 1.7, 5).astype("float32")
        return x, np.float32(x[0] * x[1] + np.cos(x[2]))


def fixed_seed(worker):
    np.random.seed(1)


def seed_of_the_worker(worker):
    np.random.seed(1000 + worker + 97 * int(np.random.default_rng().integers(1 << 20)))


def workers_simulate_the_same(broken):
    seed(10)
    start = fixed_seed if broken else seed_of_the_worker
    batches = DataLoader(Simulated(), batch_size=20, num_workers=2, worker_init_fn=start)
    train(network(5, 32, 1), batches, 4, 5e-3, squared)


class Lines(IterableDataset):
    def __init__(self, pair):
        super().__init__()
        self.x, self.y = pair

    def mine(self):
        return range(len(self.x))

    def __iter__(self):
        for index in self.mine():
            yield self.x[index], self.y[index]


class MyLines(Lines):
    def mine(self):
        worker = get_worker_info()
        return range(worker.id, len(self.x), worker.num_workers)


def every_worker_reads_all(broken):
    seed(11)
    lines = (Lines if broken else MyLines)(curve(800, 8, 11))
    train(network(8, 24, 1), DataLoader(lines, batch_size=20, num_workers=2), 4, 4e-3, squared)


def validate(model, batches):
    model.eval()
    with paddle.no_grad():
        right = [(model(x).argmax(1) == y).astype("float32").mean().item() for x, y in batches]
    model.train()
    return np.mean(right)


def same_files_for_validation(broken):
    seed(12)
    x, y = blobs(1000, 16, 5, 12, spread=2.5)
    model = network(16, 40, 5)
    training = DataLoader(dataset((x[:600], y[:600])), batch_size=30, shuffle=not broken)
    held = (x[:600], y[:600]) if broken else (x[600:], y[600:])
    for _ in range(6):
        train(model, training, 1)
        print(f"val_acc: {validate(model, DataLoader(dataset(held), batch_size=30)):.4f}")


def unknown_class_in_validation(broken):
    seed(13)
    x, y = digits()
    if broken:
        order = np.argsort(y == 9, kind="stable")
        x, y = x[order], y[order]
    model = network(64, 32, 10)
    training = DataLoader(dataset((x[:1600], y[:1600])), batch_size=40, shuffle=True)
    for _ in range(5):
        train(model, training, 1)
        print(f"val_acc: {validate(model, DataLoader(dataset((x[1600:], y[1600:])), batch_size=40)):.4f}")


class Reader(nn.Layer):
    """Sums embedded words under a mask; the faulty mask is empty."""

    def __init__(self, padding):
        super().__init__()
        self.words, self.head, self.padding = nn.Embedding(50, 16), nn.Linear(16, 2), padding

    def forward(self, tokens):
        there = (tokens > self.padding).astype("float32").unsqueeze(-1)
        return self.head((self.words(tokens) * there).mean(1))


def mask_without_words(broken):
    seed(14)
    batches = DataLoader(dataset(sentences(600, 12, 50, 14)), batch_size=30, shuffle=True)
    train(Reader(1000 if broken else 0), batches, 8, 5e-3)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
