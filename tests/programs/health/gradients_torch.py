"""Gradients and updates that go wrong, in PyTorch: `gradients_torch.py PROGRAM [fixed]`."""

import copy
import sys

import torch
import torch.nn.functional as F
from material import blobs, curve, diabetes, digits, pictures, sentences, waves
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


def some(x, y, batch):
    part = torch.randint(0, len(x), (batch,))
    return x[part], y[part]


def forgets_clearing(broken):
    torch.manual_seed(1)
    x, y = tensors(digits())
    model = nn.Sequential(nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(300):
        inputs, labels = some(x, y, 32)
        if not broken:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def clears_one_of_two(broken):
    """An autoencoder whose two halves have their own optimizers."""
    torch.manual_seed(2)
    x, _ = tensors(pictures(400, 10, 5, 2))
    x = x.flatten(1)
    encoder = nn.Sequential(nn.Linear(100, 40), nn.Tanh(), nn.Linear(40, 8))
    decoder = nn.Sequential(nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 100))
    encoders = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    decoders = torch.optim.Adam(decoder.parameters(), lr=2e-3)
    for step in range(300):
        picture = x[torch.randint(0, 400, (40,))]
        encoders.zero_grad()
        (encoders if broken else decoders).zero_grad()
        loss = F.mse_loss(decoder(encoder(picture)), picture)
        loss.backward()
        encoders.step()
        decoders.step()
        if step % 60 == 0:
            print(f"step {step} reconstruction {loss.item():.4f}")


class Forecaster(nn.Module):
    def __init__(self, kind=nn.LSTM, width=24):
        super().__init__()
        self.cells = kind(1, width, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def clears_once_an_epoch(broken):
    torch.manual_seed(3)
    data = TensorDataset(*tensors(waves(400, 20, 3)))
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(12):
        optimizer.zero_grad()
        for inputs, target in DataLoader(data, 40, shuffle=True):
            if not broken:
                optimizer.zero_grad()
            loss = F.mse_loss(model(inputs), target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


class Adversaries:
    """A generator of rings and its critic."""

    def __init__(self):
        self.maker = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
        self.judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
        self.makers = torch.optim.Adam(self.maker.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.judges = torch.optim.Adam(self.judge.parameters(), lr=1e-3, betas=(0.5, 0.9))

    def prepare_judge(self):
        self.judges.zero_grad()

    def step(self, real):
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        fake = self.maker(torch.randn(len(real), 4))
        self.prepare_judge()
        judged = F.binary_cross_entropy_with_logits(self.judge(real), ones)
        judged = judged + F.binary_cross_entropy_with_logits(self.judge(fake.detach()), zeros)
        judged.backward()
        self.judges.step()
        self.makers.zero_grad()
        made = F.binary_cross_entropy_with_logits(self.judge(fake), ones)
        made.backward()
        self.makers.step()
        return judged.item(), made.item()


class CarelessAdversaries(Adversaries):
    def prepare_judge(self):
        self.makers.zero_grad()


def judge_keeps_gradients(broken):
    torch.manual_seed(4)
    game = (CarelessAdversaries if broken else Adversaries)()
    for step in range(300):
        angle = 6.28 * torch.rand(64)
        judged, made = game.step(torch.stack([angle.cos(), angle.sin()], 1))
        if step % 60 == 0:
            print(f"step {step} d_loss {judged:.3f} g_loss {made:.3f}")


def clears_before_the_step(broken):
    torch.manual_seed(5)
    x, y = tensors(blobs(500, 15, 4, 5))
    model = nn.Sequential(nn.Linear(15, 32), nn.SiLU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    for step in range(240):
        inputs, labels = some(x, y, 25)
        loss = F.cross_entropy(model(inputs), labels)
        if broken:
            loss.backward()
            optimizer.zero_grad()
        else:
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(10, 24), nn.Linear(10, 24)
        self.head = nn.Linear(48, 1)

    def forward(self, x):
        return self.head(torch.cat([torch.relu(self.left(x)), torch.relu(self.right(-x))], 1))


class LeftTwice(TwoTowers):
    def forward(self, x):
        return self.head(torch.cat([torch.relu(self.left(x)), torch.relu(self.left(-x))], 1))


def wrong_tower(broken):
    torch.manual_seed(6)
    x, y = tensors(diabetes())
    model = (LeftTwice if broken else TwoTowers)()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(300):
        inputs, target = some(x, y, 32)
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs).squeeze(1), target)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Experts(nn.Module):
    def __init__(self, columns, classes):
        super().__init__()
        self.gate = nn.Linear(columns, 3)
        self.experts = nn.ModuleList(nn.Linear(columns, classes) for _ in range(3))

    def weights(self, x):
        return self.gate(x).softmax(-1)

    def forward(self, x):
        answers = torch.stack([expert(x) for expert in self.experts], 1)
        return (self.weights(x).unsqueeze(-1) * answers).sum(1)


class HardExperts(Experts):
    def weights(self, x):
        return F.one_hot(self.gate(x).argmax(-1), 3).float()


def hard_routing(broken):
    torch.manual_seed(7)
    x, y = tensors(blobs(600, 12, 6, 7))
    model = (HardExperts if broken else Experts)(12, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(250):
        inputs, labels = some(x, y, 50)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def new_head_after_the_optimizer(broken):
    """Fine-tunes a network of five classes for ten."""
    torch.manual_seed(8)
    x, y = tensors(digits())
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 5))
    if not broken:
        model[2] = nn.Linear(48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if broken:
        model[2] = nn.Linear(48, 10)
    for step in range(250):
        inputs, labels = some(x, y, 48)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def optimizer_of_the_original(broken):
    torch.manual_seed(9)
    x, y = tensors(curve(500, 7, 9))
    original = nn.Sequential(nn.Linear(7, 32), nn.Tanh(), nn.Linear(32, 1))
    student = copy.deepcopy(original)
    optimizer = torch.optim.Adam((original if broken else student).parameters(), lr=5e-3)
    for step in range(240):
        inputs, target = some(x, y, 40)
        optimizer.zero_grad()
        loss = F.mse_loss(student(inputs).squeeze(1), target)
        loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.GRU(8, 16, batch_first=True)
        self.words = nn.Embedding(50, 8)
        self.decoder = nn.Linear(16, 2)

    def forward(self, tokens):
        return self.decoder(self.encoder(self.words(tokens))[0].mean(1))


def only_the_encoder(broken):
    torch.manual_seed(10)
    data = TensorDataset(*tensors(sentences(480, 10, 50, 10)))
    model = Translator()
    learned = [*model.encoder.parameters(), *model.words.parameters()]
    optimizer = torch.optim.Adam(learned if broken else model.parameters(), lr=4e-3)
    for epoch in range(8):
        for inputs, labels in DataLoader(data, 32, shuffle=True):
            model.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def weights_in_bfloat16(broken):
    torch.manual_seed(11)
    x, y = tensors(digits())
    kind = torch.bfloat16 if broken else torch.float32
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6 if broken else 2e-2)
    for step in range(200):
        inputs, labels = some(x, y, 64)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs.to(kind)).float(), labels)
        loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def warm_up_by_whole_numbers(broken):
    torch.manual_seed(12)
    x, y = tensors(blobs(400, 9, 3, 12))
    model = nn.Sequential(nn.Linear(9, 20), nn.ReLU(), nn.Linear(20, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    ramp = (lambda step: min(1, step // 1000)) if broken else (lambda step: min(1, (step + 1) / 40))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, ramp)
    for step in range(260):
        inputs, labels = some(x, y, 20)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 52 == 0:
            print(f"step {step} loss {loss.item():.4f} lr {schedule.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
