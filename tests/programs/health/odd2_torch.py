"""More healthy trainings that look odd, in PyTorch: `odd2_torch.py PROGRAM`."""

import copy
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, cancer, curve, diabetes, digits, sentences, standardised
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


def loader(pair, batch, **options):
    return DataLoader(TensorDataset(*tensors(pair)), batch, shuffle=True, **options)


class Tasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(30, 32), nn.ReLU())
        self.kind, self.size, self.rough = nn.Linear(32, 2), nn.Linear(32, 1), nn.Linear(32, 1)

    def forward(self, x):
        h = self.body(x)
        return self.kind(h), self.size(h).squeeze(1), self.rough(h).squeeze(1)


def three_tasks():
    torch.manual_seed(1)
    x, y = cancer()
    x = standardised(x)
    x, y = tensors((x, y))
    model = Tasks()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(12):
        for part in torch.randperm(len(x)).split(48):
            kind, size, rough = model(x[part])
            losses = F.cross_entropy(kind, y[part]), F.mse_loss(size, x[part, 3]), F.l1_loss(rough, x[part, 1])
            optimizer.zero_grad()
            torch.autograd.backward(losses)
            optimizer.step()
        print(f"epoch {epoch} kind {losses[0].item():.4f} size {losses[1].item():.4f} rough {losses[2].item():.4f}")


def wasserstein():
    """A critic whose weights are clipped; its loss is negative and means a distance."""
    torch.manual_seed(2)
    maker = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
    critic = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    makers = torch.optim.RMSprop(maker.parameters(), lr=5e-4)
    critics = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
    for step in range(120):
        for _ in range(3):
            real = torch.randn(64, 2) * 0.3 + torch.tensor([1.0, -0.5])
            fake = maker(torch.randn(64, 4)).detach()
            critics.zero_grad()
            loss = critic(fake).mean() - critic(real).mean()
            loss.backward()
            critics.step()
            with torch.no_grad():
                for parameter in critic.parameters():
                    parameter.clamp_(-0.1, 0.1)
        makers.zero_grad()
        made = -critic(maker(torch.randn(64, 4))).mean()
        made.backward()
        makers.step()
        if step % 30 == 0:
            print(f"step {step} critic {loss.item():.4f} maker {made.item():.4f}")


def gradient_penalty():
    torch.manual_seed(3)
    x, y = tensors(curve(400, 4, 3))
    model = nn.Sequential(nn.Linear(4, 32), nn.Softplus(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(250):
        part = torch.randint(0, 400, (32,))
        inputs = x[part].requires_grad_()
        predicted = model(inputs).squeeze(1)
        (slope,) = torch.autograd.grad(predicted.sum(), inputs, create_graph=True)
        loss = F.mse_loss(predicted, y[part]) + 0.01 * slope.pow(2).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def seven_to_one():
    torch.manual_seed(4)
    x, y = blobs(2400, 10, 2, 4, spread=2.0)
    keep = (y == 0) | (np.random.default_rng(4).random(2400) < 0.14)
    x, y = x[keep], y[keep]
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    weight = torch.tensor([1.0, 4.0])
    for epoch in range(8):
        for inputs, labels in loader((x, y), 32):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels, weight=weight)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def easy_ones_first():
    """A curriculum: the set grows each epoch, ordered by how hard its records are, and shuffled within."""
    torch.manual_seed(5)
    x, y = blobs(1200, 14, 4, 5, spread=1.8)
    centres = np.stack([x[y == k].mean(0) for k in range(4)])
    order = np.argsort(((x - centres[y]) ** 2).sum(1))
    model = nn.Sequential(nn.Linear(14, 40), nn.GELU(), nn.Linear(40, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(8):
        seen = order[: 300 + 130 * epoch]
        for inputs, labels in loader((x[seen], y[seen]), 32):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} records {len(seen)} loss {loss.item():.4f}")


def cosine_with_restarts():
    torch.manual_seed(6)
    x, y = tensors(digits())
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=60, T_mult=2)
    for step in range(420):
        part = torch.randint(0, len(x), (32,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.4f} lr {schedule.get_last_lr()[0]:.4f}")


class Language(nn.Module):
    """A small decoder whose output weights are its embedding."""

    def __init__(self, words, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width, padding_idx=0), nn.Embedding(16, width)
        nn.init.normal_(self.words.weight, std=0.1)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.words(tokens) + self.places(torch.arange(length))
        return self.head(self.layers(x, mask=mask, is_causal=True))


def tied_weights_and_warm_up():
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    start = rng.integers(1, 40, (500, 1))
    tokens = (start + 3 * np.arange(13)) % 39 + 1
    tokens[np.arange(13)[None] >= rng.integers(5, 14, 500)[:, None]] = 0
    tokens = torch.as_tensor(tokens)
    model = Language(40)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 50))
    for step in range(200):
        batch = tokens[torch.randint(0, 500, (16,))]
        scores = model(batch[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def seventy_percent_dropped():
    torch.manual_seed(8)
    x, y = diabetes()
    model = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Dropout(0.7), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    held = tensors((x[360:], y[360:]))
    best, patience = float("inf"), 0
    for epoch in range(40):
        model.train()
        for inputs, target in loader((x[:360], y[:360]), 24):
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            val_loss = F.mse_loss(model(held[0]).squeeze(1), held[1]).item()
        best, patience = (val_loss, 0) if val_loss < best else (best, patience + 1)
        print(f"epoch {epoch} train_loss {loss.item():.4f} val_loss {val_loss:.4f}")
        if patience == 5:
            break


def functional_gradients():
    """torch.func: gradients from a function, put into the parameters by hand."""
    torch.manual_seed(9)
    x, y = tensors(blobs(500, 8, 3, 9))
    model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 3))
    parameters = dict(model.named_parameters())
    optimizer = torch.optim.SGD(parameters.values(), lr=0.1)

    def loss_of(weights, inputs, labels):
        return F.cross_entropy(torch.func.functional_call(model, weights, (inputs,)), labels)

    slopes_of = torch.func.grad_and_value(loss_of)
    for step in range(200):
        part = torch.randint(0, 500, (32,))
        slopes, loss = slopes_of({name: p.detach() for name, p in parameters.items()}, x[part], y[part])
        for name, parameter in parameters.items():
            parameter.grad = slopes[name]
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def average_teacher():
    torch.manual_seed(10)
    x, y = tensors(blobs(800, 12, 4, 10, spread=2.0))
    student = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
    teacher = copy.deepcopy(student).eval().requires_grad_(False)
    optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
    for step in range(260):
        part = torch.randint(0, 800, (40,))
        scores = student(x[part])
        target = teacher(x[part] + 0.1 * torch.randn(40, 12)).softmax(1)
        loss = F.cross_entropy(scores, y[part]) + F.kl_div(scores.log_softmax(1), target, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters()):
                slow.lerp_(fast, 0.05)
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class LowRank(nn.Module):
    """A frozen layer and a product of two thin ones, the second of which starts at zero."""

    def __init__(self, layer, rank=4):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = (
            nn.Linear(layer.in_features, rank, bias=False),
            nn.Linear(rank, layer.out_features, bias=False),
        )
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + 2.0 * self.up(self.down(x))


def low_rank_adaptation():
    torch.manual_seed(11)
    model = nn.Sequential(LowRank(nn.Linear(64, 64)), nn.ReLU(), LowRank(nn.Linear(64, 10)))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for epoch in range(6):
        for inputs, labels in loader(digits(), 64):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def saved_and_resumed():
    torch.manual_seed(12)
    x, y = tensors(blobs(600, 10, 4, 12, spread=1.6))

    def build():
        model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 4))
        return model, torch.optim.Adam(model.parameters(), lr=2e-3)

    model, optimizer = build()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        for step in range(240):
            if step == 120:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
                model, optimizer = build()
                state = torch.load(path)
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
            part = torch.randint(0, 600, (32,))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[part]), y[part])
            loss.backward()
            optimizer.step()
            if step % 40 == 0:
                print(f"step {step} loss {loss.item():.4f}")


def two_phases():
    """Head first, then everything with a smaller rate and a new optimizer."""
    torch.manual_seed(13)
    body, head = nn.Sequential(nn.Embedding(60, 24), nn.LayerNorm(24)), nn.Linear(24, 2)
    model = nn.ModuleDict({"body": body, "head": head})
    data = sentences(800, 14, 60, 13)
    for phase, rate, epochs in (("head", 1e-2, 4), ("all", 2e-3, 6)):
        body.requires_grad_(phase == "all")
        optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=rate)
        for epoch in range(epochs):
            for inputs, labels in loader(data, 32):
                optimizer.zero_grad()
                loss = F.cross_entropy(head(body(inputs).mean(1)), labels)
                loss.backward()
                optimizer.step()
            print(f"{phase} epoch {epoch} loss {loss.item():.4f}")


def low_precision():
    torch.manual_seed(14)
    x, y = tensors(digits())
    model = nn.Sequential(nn.Linear(64, 96), nn.LayerNorm(96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(250):
        part = torch.randint(0, len(x), (64,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
