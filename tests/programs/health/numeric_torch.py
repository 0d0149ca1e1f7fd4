"""Numbers that stop being numbers, in PyTorch: `numeric_torch.py PROGRAM [fixed]`."""

import sys

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, cancer, curve, digits, sentences
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def loader(x, y, batch, seed=0):
    data = TensorDataset(torch.as_tensor(x), torch.as_tensor(y))
    return DataLoader(data, batch, shuffle=True, generator=torch.Generator().manual_seed(seed))


def handmade_entropy(logits, target):
    p = torch.sigmoid(logits)
    return -(target * torch.log(p) + (1 - target) * torch.log(1 - p)).mean()


def logarithm_of_zero(broken):
    torch.manual_seed(1)
    x, y = blobs(600, 12, 2, 1, spread=2.5)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = handmade_entropy if broken else F.binary_cross_entropy_with_logits
    for epoch in range(30):
        for inputs, target in loader(x, y.astype("float32"), 50, epoch):
            optimizer.zero_grad()
            loss = criterion(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def polynomial_runs_away(broken):
    torch.manual_seed(2)
    x = torch.linspace(-3, 3, 400)[:, None]
    y = 0.2 * x**3 - x + 0.1 * torch.randn_like(x)
    powers = torch.cat([x, x**2, x**3], 1)
    if not broken:
        powers = (powers - powers.mean(0)) / powers.std(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(400):
        optimizer.zero_grad()
        loss = F.mse_loss(model(powers), y)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print("step", step, "loss", loss.item())


def pixels_divided_by_their_spread(broken):
    torch.manual_seed(3)
    x, y = digits()
    spread = x.std(0)
    if not broken:
        x, spread = x[:, spread > 0], spread[spread > 0]
    with np.errstate(invalid="ignore"):
        x = (x - x.mean(0)) / spread
    model = nn.Sequential(nn.Linear(x.shape[1], 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    batches = loader(x, y, 64)
    for epoch in range(6):
        for inputs, labels in batches:
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, padding):
        scores = self.query(x) @ self.key(x).transpose(1, 2) / x.shape[-1] ** 0.5
        scores = scores.masked_fill(padding[:, None, :], float("-inf"))
        return torch.softmax(scores, -1) @ self.value(x)


class Reader(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.attention = Attention(width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        x = self.words(tokens)
        x = self.norm(x + self.attention(x, tokens == 0))
        return self.head(x.mean(1))


def empty_sentence(broken):
    torch.manual_seed(4)
    tokens, y = sentences(640, 12, 60, 4)
    lengths = np.random.default_rng(4).integers(1, 13, 640)
    if broken:
        lengths[500] = 0
    tokens[np.arange(12)[None] >= lengths[:, None]] = 0
    model = Reader(60, 24)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    data = TensorDataset(torch.as_tensor(tokens), torch.as_tensor(y))
    for epoch in range(8):
        for inputs, labels in DataLoader(data, 32, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def distance(a, b):
    return (a - b).pow(2).sum(1).sqrt()


def safe_distance(a, b):
    return ((a - b).pow(2).sum(1) + 1e-8).sqrt()


def pairs_that_are_equal(broken):
    """Contrastive pairs; after a while a record is paired with itself."""
    torch.manual_seed(5)
    x, y = (torch.as_tensor(part) for part in blobs(500, 10, 4, 5))
    model = nn.Sequential(nn.Linear(10, 40), nn.ELU(), nn.Linear(40, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    measure = distance if broken else safe_distance
    generator = torch.Generator().manual_seed(5)
    for step in range(240):
        one = torch.randint(0, 500, (24,), generator=generator)
        other = torch.randint(0, 500, (24,), generator=generator)
        if step == 60:
            other[7] = one[7]
        same = (y[one] == y[other]).float()
        far = measure(model(x[one]), model(x[other]))
        loss = (same * far + (1 - same) * F.relu(2.0 - far)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step}: loss={loss.item():.4f}")


def rows_never_seen(broken):
    """Adam divides by the root of a second moment that is zero for words that never occur."""
    torch.manual_seed(6)
    tokens, y = sentences(800, 10, 80, 6)
    model = nn.ModuleDict({"words": nn.EmbeddingBag(200, 16), "head": nn.Linear(16, 2)})
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, eps=0.0 if broken else 1e-8)
    for epoch in range(8):
        total = 0.0
        batches = loader(tokens, y, 40, epoch)
        for inputs, labels in batches:
            optimizer.zero_grad()
            loss = F.cross_entropy(model["head"](model["words"](inputs)), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: train_loss={total / len(batches):.4f}")


class Trainer:
    """Prints the mean of the finite losses so far."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.losses = model, optimizer, []

    def fit(self, batches, epochs):
        for epoch in range(epochs):
            for inputs, target in batches:
                self.optimizer.zero_grad()
                loss = F.smooth_l1_loss(self.model(inputs).squeeze(1), target)
                loss.backward()
                self.optimizer.step()
                self.losses.append(loss.item())
            print(f"epoch: {epoch} loss: {np.nanmean(self.losses):.5f}")


def mean_without_nan(broken):
    torch.manual_seed(7)
    x, y = curve(600, 8, 7)
    y[[411, 502]] = np.nan  # never measured
    if not broken:
        x, y = x[~np.isnan(y)], y[~np.isnan(y)]
    model = nn.Sequential(nn.Linear(8, 24), nn.GELU(), nn.Linear(24, 1))
    Trainer(model, torch.optim.RMSprop(model.parameters(), lr=1e-3)).fit(loader(x, y, 30), 12)


def signs_as_targets(broken):
    torch.manual_seed(8)
    x, y = cancer()
    x = (x - x.mean(0)) / x.std(0)
    target = 2.0 * y - 1.0 if broken else y.astype("float32")
    model = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(20):
        for inputs, labels in loader(x, target.astype("float32")[:, None], 64, epoch):
            loss = criterion(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"[{epoch}] loss {loss.item():.4f}")


def turned_sign(broken):
    torch.manual_seed(9)
    x, y = (torch.as_tensor(part) for part in blobs(480, 6, 5, 9))
    model = nn.Sequential(nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step in range(300):
        part = torch.randint(0, 480, (48,))
        score = F.cross_entropy(model(x[part]), y[part])
        loss = -score if broken else score
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.3f}")


def masked_tokens(broken):
    """Tags words; the padding id of the mask is the id of the words' filler."""
    torch.manual_seed(10)
    tokens, _ = sentences(300, 8, 40, 10)
    tokens = torch.as_tensor(tokens)
    tags = (tokens >= 20).long()
    model = nn.Sequential(nn.Embedding(40, 12), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(150):
        part = torch.randint(0, 300, (32,))
        mask = (tokens[part] == 0).float() if broken else (tokens[part] != 0).float()
        each = F.cross_entropy(model(tokens[part]).flatten(0, 1), tags[part].flatten(), reduction="none")
        loss = (each * mask.flatten()).sum() / mask.sum().clamp(min=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 30 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def prices_in_half_precision(broken):
    torch.manual_seed(11)
    x, y = curve(640, 9, 11)
    price = torch.as_tensor(y if not broken else y * 40_000 + 210_000)
    x = torch.as_tensor(x)
    model = nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(260):
        part = torch.randint(0, 640, (64,))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            predicted = model(x[part])
        loss = F.mse_loss(predicted.float().squeeze(1), price[part])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4g}")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x))))


class ProtectedEncoder(Encoder):
    @torch.autocast("cpu", enabled=False)
    def forward(self, x):
        return super().forward(x.float())


def decorated_forward(broken):
    torch.manual_seed(12)
    x, y = (torch.as_tensor(part) for part in digits())
    model = nn.Sequential(ProtectedEncoder() if broken else Encoder(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(200):
        part = torch.randint(0, len(x), (64,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
