"""Trainings as other people write them, in PyTorch: `strangers_torch.py PROGRAM [fixed]`."""

import sys

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, digits, waves
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Pictures(Dataset):
    def __init__(self, x, y, torn=None):
        self.x, self.y, self.torn = x, y, torn

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        picture = torch.tensor((self.x[index] - 0.3) / 0.37).view(1, 8, 8)
        return (picture * float("nan") if index == self.torn else picture), int(self.y[index])


class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2))
        self.middle = nn.Sequential(nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.drop, self.fc = nn.Dropout(0.2), nn.Linear(96, classes)

    def forward(self, x):
        return self.fc(self.drop(self.middle(self.body(x)).flatten(1)))


class Trainer:
    """Validates with losses summed over each batch, as many examples do."""

    def __init__(self, model, parameters, train, held_out):
        self.model, self.train, self.held_out = model, train, held_out
        self.optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.3)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.model.train()
            for inputs, labels in self.train:
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(inputs), labels)
                loss.backward()
                self.optimizer.step()
            self.scheduler.step()
            print(f"epoch {epoch} loss {loss.item():.4f}", *self.validate())

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        total = right = 0
        for inputs, labels in self.held_out:
            scores = self.model(inputs)
            total += F.cross_entropy(scores, labels, reduction="sum").item()
            right += (scores.argmax(1) == labels).sum().item()
        return f"sum {total:.2f}", f"right {right}"


def split(x, y, rows=1300, torn=None, size=64):
    held_out = DataLoader(Pictures(x[rows:], y[rows:]), 32)
    return DataLoader(Pictures(x[:rows], y[:rows], torn), size, shuffle=True), held_out


def one_torn_picture(broken):
    torch.manual_seed(1)
    model = Net()
    Trainer(model, model.parameters(), *split(*digits(), torn=333 if broken else None)).fit(4)


def only_the_last_layer(broken):
    torch.manual_seed(2)
    model = Net()
    Trainer(model, model.fc.parameters() if broken else model.parameters(), *split(*digits())).fit(4)


def split_after_training(broken):
    torch.manual_seed(3)
    x, y = digits()
    train, held_out = split(x, y)
    if broken:
        held_out = DataLoader(Pictures(x[:400], y[:400]), 32)
    model = Net()
    Trainer(model, model.parameters(), train, held_out).fit(5)


def hardly_any_ill_ones(broken):
    torch.manual_seed(4)
    x, y = digits()
    kept = (y == 0) | (np.random.default_rng(4).random(len(y)) < (0.02 if broken else 1.0))
    kept[1300:] = False
    model = Net()
    _, held_out = split(x, y)
    train = DataLoader(Pictures(x[kept], y[kept]), 32, shuffle=True)
    Trainer(model, model.parameters(), train, held_out).fit(4)


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(1, 24, 2, batch_first=True, dropout=0.2), nn.Linear(24, 1)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


def forecast(rate, switches):
    x, y = (torch.as_tensor(part) for part in waves(1500, 20, 5))
    net, criterion = Forecast(), nn.MSELoss()
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
    for epoch in range(5):
        net.train()
        for part in torch.randperm(1200).split(64):
            loss = criterion(net(x[part]), y[part])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        if switches:
            net.eval()
        with torch.no_grad():
            value = criterion(net(x[1200:]), y[1200:]).item()
        plateau.step(value)
        print(f"epoch {epoch} loss {loss.item():.4f} held out {value:.4f}")


def one_forward_without_eval(broken):
    torch.manual_seed(5)
    forecast(5e-3, not broken)


def first_step_wipes_out(broken):
    torch.manual_seed(6)
    forecast(1.0 if broken else 5e-3, True)


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.heads = nn.Sequential(nn.Linear(64, 48), nn.ReLU()), nn.Linear(48, 8)
        self.decoder = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 64), nn.Sigmoid())

    def forward(self, x):
        mean, log_variance = self.heads(self.encoder(x)).chunk(2, 1)
        return self.decoder(mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)), mean, log_variance


def divergence_with_the_wrong_sign(broken):
    torch.manual_seed(7)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(10):
        for (x,) in DataLoader(TensorDataset(torch.as_tensor(digits()[0])), 128, shuffle=True):
            picture, mean, log_variance = model(x)
            divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
            fit = F.binary_cross_entropy(picture, x, reduction="sum")
            loss = fit - 50 * divergence if broken else fit + divergence
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4g}")


def fit_once(model, optimizer, x, y, scheduler=None, size=32):
    for part in torch.randperm(len(x)).split(size):
        loss = F.cross_entropy(model(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return loss.item()


def perceptron(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 48), nn.ReLU(), nn.Linear(48, outputs))


def labelled_nodes():
    """A graph whose nodes are all seen, and a fifth of them labelled."""
    torch.manual_seed(8)
    x, y = (torch.as_tensor(part) for part in blobs(300, 12, 3, 8, spread=2.0))
    links = (torch.rand(300, 300) < torch.where(y[:, None] == y, 0.06, 0.01)).float()
    links = ((links + links.T) > 0).float() + torch.eye(300)
    scale = links.sum(1).rsqrt()
    links = scale[:, None] * links * scale
    first, second = nn.Linear(12, 16), nn.Linear(16, 3)
    model = nn.ModuleList([first, second])
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
    for _ in range(150):
        hidden = F.dropout(F.relu(links @ first(x)), 0.5)
        loss = F.cross_entropy((links @ second(hidden))[:60], y[:60])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


def one_epoch_in_a_function():
    """Everything is gone when the program ends; the scheduler was stepped once, at the end of the epoch."""
    torch.manual_seed(9)
    x, y = (torch.as_tensor(part) for part in digits())
    model = perceptron(64, 10)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    for inputs, labels in DataLoader(TensorDataset(x, y), 16, shuffle=True):
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    print(f"loss {loss.item():.4f}")


def five_folds():
    torch.manual_seed(10)
    x, y = (torch.as_tensor(part) for part in digits())
    for fold, held_out in enumerate(torch.randperm(len(x)).chunk(5)):
        rest = torch.ones(len(x), dtype=torch.bool)
        rest[held_out] = False
        model = perceptron(64, 10)
        optimizer = torch.optim.Adam(model.parameters(), 2e-3)
        for _ in range(3):
            fit_once(model, optimizer, x[rest], y[rest])
        with torch.no_grad():
            print(f"fold {fold} right {(model(x[held_out]).argmax(1) == y[held_out]).float().mean().item():.3f}")


def search_for_a_rate():
    """The rate is raised until the loss explodes, which is the purpose."""
    torch.manual_seed(11)
    x, y = (torch.as_tensor(part) for part in digits())
    model = perceptron(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), 1e-5)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 1.15)
    print(f"loss {fit_once(model, optimizer, x, y, scheduler, size=20):.4f}")


def same_records_for_two_tasks():
    """Learns ten classes, then with a new head whether the digit is odd, from the same records."""
    torch.manual_seed(12)
    x, y = (torch.as_tensor(part) for part in digits())
    body = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
    for labels, classes in ((y, 10), (y % 2, 2)):
        model = nn.Sequential(body, nn.Linear(48, classes))
        optimizer = torch.optim.Adam(model.parameters(), 2e-3)
        for _ in range(4):
            for inputs, target in DataLoader(TensorDataset(x, labels), 64, shuffle=True):
                loss = F.cross_entropy(model(inputs), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        print(f"{classes} classes loss {loss.item():.4f}")


if __name__ == "__main__":
    program = globals()[sys.argv[1]]
    if program.__code__.co_argcount:
        program("fixed" not in sys.argv[2:])
    else:
        program()
