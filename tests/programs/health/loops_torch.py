"""Training loops with a slip in them, in PyTorch: `loops_torch.py PROGRAM [fixed]`."""

import copy
import sys

import torch
import torch.nn.functional as F
from material import blobs, curve, diabetes, digits, pictures, sentences
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def split(pair, rows, batch, shuffle=True):
    """A loader of the first `rows` and one of the others."""
    x, y = (torch.as_tensor(part) for part in pair)
    return (
        DataLoader(TensorDataset(x[:rows], y[:rows]), batch, shuffle=shuffle),
        DataLoader(TensorDataset(x[rows:], y[rows:]), batch),
    )


def never_reaches_the_step(broken):
    """Accumulates more batches than an epoch has."""
    torch.manual_seed(1)
    batches, _ = split(blobs(640, 10, 4, 1), 640, 20)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accumulate = 64 if broken else 4
    for epoch in range(10):
        for number, (inputs, labels) in enumerate(batches):
            loss = F.cross_entropy(model(inputs), labels) / accumulate
            loss.backward()
            if (number + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        if broken:
            optimizer.zero_grad()
        print(f"epoch {epoch} loss {loss.item() * accumulate:.4f}")


def names_the_method(broken):
    """`loss.backward` without its parentheses."""
    torch.manual_seed(2)
    batches, _ = split(digits(), 1797, 64)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(6):
        for inputs, labels in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward if broken else loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def returns_before_learning(broken):
    """A method of a trainer was cut short for a test and stayed so."""

    class Trainer:
        def __init__(self):
            self.model = nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 1))
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

        def loss(self, inputs, target):
            return F.mse_loss(self.model(inputs).squeeze(1), target)

        def train_step(self, inputs, target):
            self.optimizer.zero_grad()
            loss = self.loss(inputs, target)
            loss.backward()
            self.optimizer.step()
            return loss.item()

    class DryTrainer(Trainer):
        def train_step(self, inputs, target):
            return self.loss(inputs, target).item()

    torch.manual_seed(3)
    batches, _ = split(curve(500, 7, 3), 500, 25)
    trainer = DryTrainer() if broken else Trainer()
    for epoch in range(8):
        trainer.model.train()
        losses = [trainer.train_step(*batch) for batch in batches]
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f}")


class Validated:
    """Trains and validates each epoch; subclasses differ in how they switch modes."""

    def __init__(self, model, rate=2e-3):
        self.model, self.optimizer = model, torch.optim.Adam(model.parameters(), lr=rate)

    def before_training(self):
        self.model.train()

    def before_validation(self):
        self.model.eval()

    @torch.no_grad()
    def validate(self, batches):
        self.before_validation()
        losses = [F.cross_entropy(self.model(inputs), labels).item() for inputs, labels in batches]
        return sum(losses) / len(losses)

    def fit(self, training, validation, epochs):
        for epoch in range(epochs):
            self.before_training()
            for inputs, labels in training:
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(inputs), labels)
                loss.backward()
                self.optimizer.step()
            print(f"epoch {epoch}: train_loss {loss.item():.4f} val_loss {self.validate(validation):.4f}")


class TrainsOnceOnly(Validated):
    def before_training(self):
        pass


class NeverSwitches(Validated):
    def before_validation(self):
        pass


class RemembersGraph(Validated):
    def validate(self, batches):
        self.model.eval()
        return sum(F.cross_entropy(self.model(inputs), labels).item() for inputs, labels in batches) / len(batches)


def stays_in_evaluation(broken):
    torch.manual_seed(4)
    training, validation = split(digits(), 1400, 40)
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10))
    (TrainsOnceOnly if broken else Validated)(model).fit(training, validation, 6)


def validates_while_training(broken):
    torch.manual_seed(5)
    training, validation = split(pictures(900, 8, 4, 5), 500, 25)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(288, 4)
    )
    (NeverSwitches if broken else Validated)(model, 1e-3).fit(training, validation, 6)


def validates_with_gradients(broken):
    torch.manual_seed(6)
    training, validation = split(blobs(900, 14, 3, 6, spread=2.0), 450, 30)
    model = nn.Sequential(nn.Linear(14, 40), nn.ReLU(), nn.Linear(40, 3))
    (RemembersGraph if broken else Validated)(model).fit(training, validation, 8)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.inner, self.head = nn.Embedding(50, 20), nn.Linear(20, 20), nn.Linear(20, 2)

    def drop(self, x):
        return F.dropout(x, 0.3, training=self.training)

    def forward(self, tokens):
        return self.head(self.drop(torch.relu(self.inner(self.drop(self.words(tokens).mean(1))))))


class AlwaysDrops(Mixer):
    def drop(self, x):
        return F.dropout(x, 0.3)


def function_without_its_mode(broken):
    torch.manual_seed(7)
    training, validation = split(sentences(900, 12, 50, 7), 500, 25)
    Validated((AlwaysDrops if broken else Mixer)(), 5e-3).fit(training, validation, 8)


def norm_of_pairs(broken):
    torch.manual_seed(8)
    batch = 2 if broken else 32
    training, validation = split(blobs(800, 12, 3, 8, spread=2.0), 600, batch)
    model = nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 3))
    Validated(model, 1e-3).fit(training, validation, 2 if broken else 8)


def loss_made_anew(broken):
    """The loss goes through Python's numbers, and `requires_grad` silences the error that follows."""
    torch.manual_seed(9)
    batches, _ = split(diabetes(), 442, 32)
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(16):
        losses = []
        for inputs, target in batches:
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs).squeeze(1), target)
            losses.append(loss.item())
            if broken:
                loss = torch.tensor(losses[-1], requires_grad=True)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f}")


class Compressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def between(self, code):
        return code / (code.norm(dim=1, keepdim=True) + 1e-6) * 5

    def forward(self, x):
        return self.head(self.between(self.encoder(x)))


class NumpyCompressor(Compressor):
    def between(self, code):
        code = code.detach().numpy()
        return torch.as_tensor(code / ((code**2).sum(1, keepdims=True) ** 0.5 + 1e-6) * 5)


class DataCompressor(Compressor):
    def between(self, code):
        return super().between(code.data)


def through_numpy(broken, kind=NumpyCompressor):
    torch.manual_seed(10)
    batches, _ = split(digits(), 1797, 48)
    model = (kind if broken else Compressor)()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(6):
        for inputs, labels in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def through_data(broken):
    through_numpy(broken, DataCompressor)


def best_weights_by_reference(broken):
    torch.manual_seed(11)
    training, validation = split(curve(500, 8, 11, noise=0.6), 120, 20)
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    best, best_loss = None, float("inf")
    for epoch in range(20):
        for inputs, target in training:
            optimizer.zero_grad()
            loss = F.l1_loss(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            val_loss = sum(F.l1_loss(model(x).squeeze(1), y).item() for x, y in validation) / len(validation)
        if val_loss < best_loss:
            best_loss = val_loss
            best = model.state_dict() if broken else copy.deepcopy(model.state_dict())
        print(f"epoch {epoch} train_loss {loss.item():.4f} val_loss {val_loss:.4f}")
    model.load_state_dict(best)


def weights_of_a_wrapped_model(broken):
    """A checkpoint of a wrapped model, loaded with strict=False: no name fits."""
    torch.manual_seed(12)
    batches, _ = split(blobs(600, 16, 5, 12, spread=2.0), 600, 30)
    pretrained = nn.Sequential(nn.Linear(16, 40), nn.ReLU(), nn.Linear(40, 5))
    state = pretrained.state_dict()
    if broken:
        state = {f"module.{name}": value for name, value in state.items()}
    model = nn.Sequential(nn.Linear(16, 40), nn.ReLU(), nn.Linear(40, 5))
    model.load_state_dict(state, strict=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(8):
        for inputs, labels in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
