"""Healthy trainings that look odd, in PyTorch: `odd_torch.py PROGRAM`. More in odd2_torch.py."""

import sys

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, curve, diabetes, digits, pictures, sentences, standardised, waves
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


def loader(pair, batch, **options):
    return DataLoader(TensorDataset(*tensors(pair)), batch, shuffle=True, **options)


def batches_of_two():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-3)
    for epoch in range(4):
        total = 0.0
        for inputs, labels in loader(blobs(400, 12, 3, 1), 2):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / 200:.4f}")


def regression_with_one_output():
    """Raw targets around 150 and a plain linear model: the first loss is large and that is right."""
    torch.manual_seed(2)
    x, y = diabetes()
    model = nn.Linear(10, 1)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
    for epoch in range(30):
        for inputs, target in loader((x, y * 77 + 152), 32):
            optimizer.zero_grad()
            loss = F.l1_loss(model(inputs).squeeze(1), target)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def a_third_of_the_labels_wrong():
    torch.manual_seed(3)
    x, y = blobs(1500, 16, 5, 3)
    rng = np.random.default_rng(3)
    y = np.where(rng.random(1500) < 0.3, rng.integers(0, 5, 1500), y)
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    validation = tensors((x[1200:], y[1200:]))
    for epoch in range(10):
        model.train()
        for inputs, labels in loader((x[:1200], y[:1200]), 40):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.inference_mode():
            val_loss = F.cross_entropy(model(validation[0]), validation[1]).item()
        print(f"epoch {epoch} train_loss {loss.item():.4f} val_loss {val_loss:.4f}")


def slow_and_steady():
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-3)
    for epoch in range(12):
        for inputs, labels in loader(digits(), 50):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def large_sparse_table():
    torch.manual_seed(5)
    tokens, y = sentences(1200, 12, 200, 5)
    tokens = tokens * 97  # most rows of the table are never seen
    table, head = nn.EmbeddingBag(20_000, 24, sparse=True), nn.Linear(24, 2)
    rules = torch.optim.SparseAdam(table.parameters(), lr=5e-3), torch.optim.Adam(head.parameters(), lr=5e-3)
    for epoch in range(6):
        for inputs, labels in loader((tokens, y), 32):
            for rule in rules:
                rule.zero_grad()
            loss = F.cross_entropy(head(table(inputs)), labels)
            loss.backward()
            for rule in rules:
                rule.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def frozen_backbone():
    torch.manual_seed(6)
    backbone = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2)
    )
    for parameter in backbone.parameters():
        parameter.requires_grad_(False)
    model = nn.Sequential(backbone, nn.Flatten(), nn.Linear(128, 5))
    optimizer = torch.optim.Adam(model[2].parameters(), lr=5e-3)
    for epoch in range(6):
        model.train()
        backbone.eval()
        for inputs, labels in loader(pictures(800, 10, 5, 6), 32):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def accumulates_and_clips():
    torch.manual_seed(7)
    cells, head = nn.LSTM(1, 20, batch_first=True), nn.Linear(20, 1)
    parameters = [*cells.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=5e-3)
    for epoch in range(10):
        batches = loader(waves(480, 16, 7), 12)
        for number, (inputs, target) in enumerate(batches, 1):
            loss = F.mse_loss(head(cells(inputs)[0][:, -1]), target) / 4
            loss.backward()
            if number % 4 == 0:
                nn.utils.clip_grad_norm_(parameters, 0.5)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        print(f"epoch {epoch} loss {loss.item() * 4:.4f}")


def adversaries():
    torch.manual_seed(8)
    maker = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
    judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1), nn.Sigmoid())
    makers = torch.optim.Adam(maker.parameters(), lr=5e-4, betas=(0.5, 0.999))
    judges = torch.optim.Adam(judge.parameters(), lr=5e-4, betas=(0.5, 0.999))
    criterion = nn.BCELoss()
    for step in range(400):
        angle = 6.28 * torch.rand(48)
        real = torch.stack([angle.cos(), angle.sin()], 1)
        fake = maker(torch.randn(48, 8))
        judges.zero_grad()
        real_loss = criterion(judge(real), torch.full((48, 1), 0.9))
        real_loss.backward()
        fake_loss = criterion(judge(fake.detach()), torch.zeros(48, 1))
        fake_loss.backward()
        judges.step()
        makers.zero_grad()
        loss = criterion(judge(fake), torch.ones(48, 1))
        loss.backward()
        makers.step()
        if step % 80 == 0:
            print(f"step {step} d_loss {(real_loss + fake_loss).item():.3f} g_loss {loss.item():.3f}")


def whole_set_with_lbfgs():
    torch.manual_seed(9)
    x, y = tensors(curve(300, 5, 9))
    model = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=8, history_size=10)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x).squeeze(1), y)
        loss.backward()
        return loss

    for step in range(25):
        loss = optimizer.step(closure)
        print(f"step {step} loss {loss.item():.4f}")


def policy_gradient():
    """Chooses among arms; the loss is a surrogate and often negative."""
    torch.manual_seed(10)
    policy = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 4))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    best = torch.randn(6, 4)
    baseline = 0.0
    for episode in range(300):
        state = torch.randn(32, 6)
        choice = torch.distributions.Categorical(logits=policy(state))
        action = choice.sample()
        reward = (state @ best).gather(1, action[:, None]).squeeze(1)
        loss = -(choice.log_prob(action) * (reward - baseline)).mean() - 0.01 * choice.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if episode % 50 == 0:
            print(f"episode {episode} reward {reward.mean().item():.3f} loss {loss.item():.4f}")


def triplets():
    torch.manual_seed(11)
    x, y = tensors(digits())
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.TripletMarginLoss(margin=0.5)
    groups = [torch.nonzero(y == k).squeeze(1) for k in range(10)]
    for step in range(250):
        same, other = torch.randint(0, 10, (32,)), torch.randint(1, 10, (32,))
        pick = [groups[k][torch.randint(0, len(groups[k]), (2,))] for k in same.tolist()]
        far = torch.stack([groups[k][torch.randint(0, len(groups[k]), ())] for k in ((same + other) % 10).tolist()])
        near = torch.stack(pick)
        loss = criterion(*(F.normalize(model(x[part])) for part in (near[:, 0], near[:, 1], far)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(64, 48), nn.Linear(48, 64)
        self.mean, self.spread, self.back = nn.Linear(48, 6), nn.Linear(48, 6), nn.Linear(6, 48)

    def forward(self, x):
        h = torch.relu(self.inner(x))
        mean, spread = self.mean(h), self.spread(h)
        z = mean + torch.randn_like(mean) * (0.5 * spread).exp()
        return self.outer(torch.relu(self.back(z))), mean, spread


def variational_autoencoder():
    """A sum over pixels as loss, so that it starts at about 45."""
    torch.manual_seed(12)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(6):
        for inputs, _ in loader(digits(), 64):
            pixels, mean, spread = model(inputs)
            made = F.binary_cross_entropy_with_logits(pixels, inputs, reduction="sum") / len(inputs)
            far = -0.5 * (1 + spread - mean**2 - spread.exp()).sum(1).mean()
            loss = made + far
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} elbo {loss.item():.3f} kl {far.item():.3f}")


def pixels_by_sigmoid():
    """An autoencoder that ends with a sigmoid and binary cross entropy on grey values."""
    torch.manual_seed(13)
    model = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 64), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(6):
        for inputs, _ in loader(digits(), 32, drop_last=True):
            loss = nn.BCELoss()(model(inputs), inputs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Endless(IterableDataset):
    """Records without an end, shared between the workers by their seeds."""

    def __iter__(self):
        rng = np.random.default_rng(torch.utils.data.get_worker_info().seed % 2**32)
        while True:
            x = rng.normal(size=8).astype("float32")
            yield x, np.float32(np.tanh(x[0] - x[1]) + 0.3 * x[2])


def endless_stream():
    torch.manual_seed(14)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for step, (inputs, target) in enumerate(DataLoader(Endless(), 32, num_workers=2)):
        optimizer.zero_grad()
        loss = F.huber_loss(model(inputs).squeeze(1), target)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
        if step == 250:
            break


def small_batches_normalised():
    """BatchNorm over four pictures: many pixels a channel, so that its statistics are good."""
    torch.manual_seed(15)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-3, momentum=0.9)
    for epoch in range(3):
        for inputs, labels in loader(pictures(400, 10, 4, 15), 4):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def quantiles():
    torch.manual_seed(16)
    x, y = curve(900, 6, 16, noise=0.5)
    wanted = torch.tensor([0.1, 0.5, 0.9])
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(10):
        for inputs, target in loader((standardised(x), y), 30):
            error = target[:, None] - model(inputs)
            loss = torch.maximum(wanted * error, (wanted - 1) * error).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} pinball {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
