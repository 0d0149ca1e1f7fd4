"""Data that are not what they should be, in PyTorch: `records_torch.py PROGRAM [fixed]`."""

import sys

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, cancer, curve, diabetes, digits, pictures, sentences, standardised, wine
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info


def dataset(pair):
    return TensorDataset(*(torch.as_tensor(part) for part in pair))


def classifier(columns, width, classes):
    return nn.Sequential(nn.Linear(columns, width), nn.ReLU(), nn.Linear(width, classes))


def train(model, loader, epochs, rate=2e-3, criterion=F.cross_entropy, begin=None):
    """The loop of all programs here. `begin` is called with the number of each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for epoch in range(epochs):
        if begin is not None:
            begin(epoch)
        total = count = 0
        for inputs, target in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), target)
            loss.backward()
            optimizer.step()
            total, count = total + loss.item(), count + 1
        print(f"epoch {epoch} loss {total / count:.4f}")


def squared(predicted, target):
    return F.mse_loss(predicted.squeeze(1), target)


def sorted_by_class(broken):
    torch.manual_seed(1)
    x, y = blobs(800, 12, 5, 1)
    order = np.argsort(y, kind="stable")
    loader = DataLoader(dataset((x[order], y[order])), 20, shuffle=not broken)
    train(classifier(12, 32, 5), loader, 6)


def first_batch_forever(broken):
    torch.manual_seed(2)
    loader = DataLoader(dataset(digits()), 50, shuffle=not broken)
    model = classifier(64, 40, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = iter(loader)
    for step in range(140):
        if broken:
            inputs, labels = next(iter(loader))
        else:
            try:
                inputs, labels = next(batches)
            except StopIteration:
                batches = iter(loader)
                inputs, labels = next(batches)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def same_order_each_epoch(broken):
    """A generator made for each epoch with the same seed."""
    torch.manual_seed(3)
    data, model = dataset(blobs(600, 10, 4, 3, spread=1.5)), classifier(10, 24, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(8):
        generator = torch.Generator().manual_seed(42 if broken else 42 + epoch)
        for inputs, labels in DataLoader(data, 30, shuffle=True, generator=generator):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def set_seed(seed=42):
    np.random.seed(seed)
    torch.manual_seed(seed)


def seeded_in_the_step(broken):
    """`set_seed()` moved into the function that computes a step, "for reproducibility"."""
    set_seed()
    x, y = (torch.as_tensor(part) for part in diabetes())
    model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Dropout(0.4), nn.Linear(40, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    order = np.random.default_rng(4)
    for step in range(260):
        if broken:
            set_seed()
        part = torch.as_tensor(order.integers(0, len(x), 32))
        optimizer.zero_grad()
        loss = squared(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def raw_measurements(broken):
    torch.manual_seed(5)
    x, y = cancer()
    train(classifier(30, 32, 2), DataLoader(dataset((x if broken else standardised(x), y)), 40, shuffle=True), 10, 1e-3)


def bytes_of_pictures(broken):
    torch.manual_seed(6)
    x, y = pictures(800, 8, 4, 6)
    grey = np.clip((x + 4) * 32, 0, 255).round().astype("float32")
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    loader = DataLoader(dataset((grey if broken else grey / 127.5 - 1.0, y)), 32, shuffle=True)
    train(model, loader, 6, 1e-3)


def columns_lost_on_the_way(broken):
    """Whole-number division empties the columns that were below one."""
    torch.manual_seed(7)
    x, y = cancer()
    x = (x / x.max(0) * 100).astype("float32")
    small = [3, 11, 20]
    if broken:
        x[:, small] = x[:, small] // 1000
    x = (x - x.mean(0)) / np.maximum(x.std(0), 1e-6)
    train(classifier(30, 24, 2), DataLoader(dataset((x, y)), 32, shuffle=True), 8)


def only_one_class(broken):
    """The column that was read as class is a flag that is always 1."""
    torch.manual_seed(8)
    x, y = blobs(900, 8, 2, 8)
    y = np.ones_like(y) if broken else y
    train(classifier(8, 16, 2), DataLoader(dataset((x, y)), 30, shuffle=True), 6)


def rare_class(broken):
    torch.manual_seed(9)
    x, y = blobs(1600, 10, 3, 9, spread=2.0)
    if broken:
        keep = (y != 2) | (np.random.default_rng(9).random(1600) < 0.04)
        x, y = x[keep], y[keep]
    train(classifier(10, 20, 3), DataLoader(dataset((x, y)), 32, shuffle=True), 10)


class Drawn(Dataset):
    """Records made on the fly with NumPy's global generator."""

    def __len__(self):
        return 800

    def __getitem__(self, index):
        x = np.random.normal(size=6).astype("float32")
        return x, np.float32(np.sin(x[:3].sum()) + 0.5 * x[4])


def same_seed(worker):
    np.random.seed(7)


def own_seed(worker):
    np.random.seed(torch.initial_seed() % 2**32)


def workers_draw_the_same(broken):
    torch.manual_seed(10)
    loader = DataLoader(Drawn(), 20, num_workers=2, worker_init_fn=same_seed if broken else own_seed)
    train(classifier(6, 32, 1), loader, 5, 5e-3, squared)


class Stream(IterableDataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def share(self):
        return range(len(self.x))

    def __iter__(self):
        for index in self.share():
            yield self.x[index], self.y[index]


class SharedStream(Stream):
    def share(self):
        worker = get_worker_info()
        return range(worker.id, len(self.x), worker.num_workers)


def stream_not_shared(broken):
    torch.manual_seed(11)
    x, y = curve(900, 8, 11)
    loader = DataLoader((Stream if broken else SharedStream)(x, y), 25, num_workers=2)
    train(classifier(8, 24, 1), loader, 4, 4e-3, squared)


def validate(model, loader):
    model.eval()
    with torch.no_grad():
        right = [(model(x).argmax(1) == y).float().mean().item() for x, y in loader]
    model.train()
    return sum(right) / len(right)


def validates_on_the_training_set(broken):
    """Both loaders got the same list of files."""
    torch.manual_seed(12)
    x, y = blobs(1000, 14, 6, 12, spread=2.5)
    training, held = (x[:600], y[:600]), (x[600:], y[600:])
    model = classifier(14, 48, 6)
    validation = DataLoader(dataset(training if broken else held), 20)
    for _ in range(6):
        train(model, DataLoader(dataset(training), 20, shuffle=not broken), 1)
        print(f"val_acc: {validate(model, validation):.4f}")


def class_without_training(broken):
    """The files were sorted, so the last class is in the validation set only."""
    torch.manual_seed(13)
    x, y = blobs(900, 10, 5, 13)
    if broken:
        order = np.argsort(y, kind="stable")
        order[:720] = np.random.default_rng(0).permutation(order[:720])
        x, y = x[order], y[order]
    model = classifier(10, 24, 5)
    held = y[720:].copy()
    validation = DataLoader(dataset((x[720:], held)), 30)
    for _ in range(6):
        train(model, DataLoader(dataset((x[:720], y[:720])), 30, shuffle=True), 1)
        print(f"val_acc: {validate(model, validation):.4f}")


def annotators_disagree(broken):
    """Every record is there twice; in the faulty set a third of the second copies has another class."""
    torch.manual_seed(14)
    x, y = wine()
    x = standardised(x)
    second = y.copy()
    if broken:
        second[::3] = (second[::3] + 1) % 3
    both = np.concatenate([x, x]), np.concatenate([y, second])
    train(classifier(13, 20, 3), DataLoader(dataset(both), 1, shuffle=True), 2, 1e-3)


class Bag(nn.Module):
    """Words, and how long the text was; the faulty one multiplies the words away."""

    def __init__(self, scale):
        super().__init__()
        self.words, self.head, self.scale = nn.EmbeddingBag(40, 12), nn.Linear(12, 2), scale

    def forward(self, tokens):
        return self.head(self.words(tokens) * self.scale)


def words_that_do_not_count(broken):
    torch.manual_seed(15)
    loader = DataLoader(dataset(sentences(600, 10, 40, 15)), 30, shuffle=True)
    train(Bag(0.0 if broken else 1.0), loader, 8, 5e-3)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
