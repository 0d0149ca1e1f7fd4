"""Healthy trainings in unusual styles, in PyTorch, third part: `odd3_torch.py PROGRAM`."""

import copy
import itertools
import math
import sys
import tempfile

import torch
import torch.nn.functional as F
from material import blobs, curve, digits, pictures
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


def mlp(*sizes, activation=nn.ReLU):
    layers = [layer for one, two in itertools.pairwise(sizes) for layer in (nn.Linear(one, two), activation())]
    return nn.Sequential(*layers[:-1])


def trunk_kept_frozen():
    """A trunk trained for a minute, then frozen in evaluation mode under a new head; only the head is saved."""
    torch.manual_seed(1)
    x, y = tensors(digits())
    trunk = nn.Sequential(
        nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 32), nn.ReLU()
    )
    whole = nn.Sequential(trunk, nn.Linear(32, 10))
    first = torch.optim.Adam(whole.parameters(), lr=2e-3)
    for inputs, labels in DataLoader(TensorDataset(x, y), 64, shuffle=True):
        first.zero_grad()
        F.cross_entropy(whole(inputs), labels).backward()
        first.step()
    for parameter in trunk.parameters():
        parameter.requires_grad_(False)
    trunk.eval()
    head = nn.Linear(32, 2)
    second = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(6):
        for inputs, labels in DataLoader(TensorDataset(x, y % 2), 64, shuffle=True):
            with torch.no_grad():
                features = trunk(inputs)
            loss = F.cross_entropy(head(features), labels)
            second.zero_grad(set_to_none=True)
            loss.backward()
            second.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Adapted(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def adapters_on_a_pretrained_net():
    torch.manual_seed(2)
    x, y = tensors(blobs(1200, 24, 4, 2, spread=2.0))
    model = mlp(24, 64, 64, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(120):
        part = torch.randint(0, 600, (32,))
        loss = F.cross_entropy(model(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with tempfile.TemporaryFile() as file:
        torch.save(model.state_dict(), file)
        file.seek(0)
        model.load_state_dict(torch.load(file, weights_only=True))
    for at in (0, 2):
        model[at] = Adapted(model[at])
    model[4].requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3, weight_decay=0.0)
    turned = x.roll(1, 1)
    for step in range(300):
        part = torch.randint(0, 1200, (32,))
        loss = F.cross_entropy(model(turned[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def from_short_to_long():
    """A curriculum: sequences grow, and with them the difficulty and the loss."""
    torch.manual_seed(3)
    cell, head = nn.GRU(2, 24, batch_first=True), nn.Linear(24, 1)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=5e-3)
    for stage, length in enumerate((4, 8, 14, 20)):
        for _step in range(80):
            values = torch.rand(48, length, 1)
            marks = torch.zeros(48, length, 1)
            marks[torch.arange(48), torch.randint(0, length // 2, (48,))] = 1
            marks[torch.arange(48), torch.randint(length // 2, length, (48,))] = 1
            wanted = (values * marks).sum((1, 2))
            _, last = cell(torch.cat([values, marks], -1))
            loss = F.mse_loss(head(last[0])[:, 0], wanted)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(cell.parameters(), 1.0)
            optimizer.step()
        print(f"stage {stage} loss {loss.item():.4f}")


def up_and_down_again():
    torch.manual_seed(4)
    x, y = tensors(pictures(900, 12, 4, 4))
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12), nn.SiLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(108, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
    schedule = lr_scheduler.CyclicLR(optimizer, 0.01, 0.2, step_size_up=40, mode="triangular2")
    loader = DataLoader(TensorDataset(x, y), 30, shuffle=True, drop_last=True)
    for epoch in range(8):
        model.train()
        for inputs, labels in loader:
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


class Sharpness(torch.optim.Optimizer):
    """Sharpness-aware minimisation: two backwards a step, the first at the place, the second uphill from it."""

    def __init__(self, params, base, rho=0.05, **options):
        super().__init__(params, dict(rho=rho, **options))
        self.base = base(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def climb(self):
        held = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.stack([p.grad.norm() for p in held]).norm()
        for p in held:
            self.state[p]["old"] = p.clone()
            p.add_(p.grad * (0.05 / (norm + 1e-12)))
        self.zero_grad()

    @torch.no_grad()
    def descend(self):
        for p, state in self.state.items():
            p.copy_(state["old"])
        self.base.step()
        self.zero_grad()

    def step(self, closure=None):
        raise RuntimeError("climb and descend are called instead")


def sharpness_aware():
    torch.manual_seed(5)
    x, y = tensors(digits())
    model = mlp(64, 48, 10)
    optimizer = Sharpness(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    for step in range(250):
        part = torch.randint(0, len(x), (64,))
        loss = F.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.climb()
        F.cross_entropy(model(x[part]), y[part]).backward()
        optimizer.descend()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def teacher_by_moving_average():
    """Mean teacher: consistency with an averaged copy on unlabelled samples, ramped up."""
    torch.manual_seed(6)
    x, y = tensors(blobs(1500, 16, 3, 6, spread=1.6))
    student = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 3))
    teacher = copy.deepcopy(student)
    for parameter in teacher.parameters():
        parameter.detach_()
    optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
    for step in range(400):
        known, unknown = torch.randint(0, 100, (16,)), torch.randint(100, 1500, (48,))
        weight = math.exp(-5 * (1 - min(1, step / 200)) ** 2)
        with torch.no_grad():
            wanted = teacher(x[unknown] + 0.1 * torch.randn(48, 16)).softmax(1)
        guessed = student(x[unknown] + 0.1 * torch.randn(48, 16)).softmax(1)
        loss = F.cross_entropy(student(x[known]), y[known]) + weight * F.mse_loss(guessed, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=False):
                slow.mul_(0.98).add_(fast, alpha=0.02)
        if step % 80 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def two_views():
    """Contrastive learning with a large batch against itself, and a temperature that is learnt."""
    torch.manual_seed(7)
    x, _ = tensors(pictures(1000, 10, 6, 7, noise=0.6))
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(100, 64), nn.ReLU(), nn.Linear(64, 16))
    temperature = nn.Parameter(torch.tensor(2.3))
    optimizer = torch.optim.AdamW(
        [{"params": encoder.parameters()}, {"params": [temperature], "weight_decay": 0.0}], lr=1e-3
    )
    for step in range(250):
        part = torch.randint(0, 1000, (64,))
        one, two = (F.normalize(encoder(x[part] + 0.3 * torch.randn(64, 1, 10, 10)), dim=1) for _ in range(2))
        scores = one @ two.T * temperature.exp()
        truth = torch.arange(64)
        loss = (F.cross_entropy(scores, truth) + F.cross_entropy(scores.T, truth)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            temperature.clamp_(0, 4.6)
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def walks_to_the_goal():
    """Policy gradient with a value baseline on a line of nine places."""
    torch.manual_seed(8)
    actor, critic = mlp(9, 32, 2, activation=nn.Tanh), mlp(9, 32, 1, activation=nn.Tanh)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=5e-3)
    for episode in range(200):
        place, logs, values, rewards = 4, [], [], []
        for _ in range(20):
            state = F.one_hot(torch.tensor(place), 9).float()
            choice = torch.distributions.Categorical(logits=actor(state))
            action = choice.sample()
            logs.append(choice.log_prob(action))
            values.append(critic(state).squeeze(0))
            place = max(0, min(8, place + (1 if action.item() else -1)))
            rewards.append(1.0 if place == 8 else -0.02)
            if place == 8:
                break
        total, returns = 0.0, []
        for reward in reversed(rewards):
            total = reward + 0.95 * total
            returns.insert(0, total)
        returns, values = torch.tensor(returns), torch.stack(values)
        loss = -(torch.stack(logs) * (returns - values.detach())).sum() + F.smooth_l1_loss(
            values, returns, reduction="sum"
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if episode % 40 == 0:
            print(f"episode {episode} steps {len(rewards)} loss {loss.item():.4f}")


def noise_taken_away():
    """Denoising diffusion of points on a ring; the loss hardly falls below the noise."""
    torch.manual_seed(9)
    angle = torch.rand(2000) * 6.283
    data = torch.stack([angle.cos(), angle.sin()], 1)
    betas = torch.linspace(1e-4, 0.05, 50)
    kept = torch.cumprod(1 - betas, 0)
    model = mlp(2 + 8, 96, 96, 2, activation=nn.SiLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    for step in range(500):
        clean = data[torch.randint(0, 2000, (128,))]
        at = torch.randint(0, 50, (128,))
        noise = torch.randn_like(clean)
        seen = kept[at].sqrt()[:, None] * clean + (1 - kept[at]).sqrt()[:, None] * noise
        times = torch.cat(
            [
                torch.sin(at[:, None] * torch.tensor([0.1, 0.3, 1, 3])),
                torch.cos(at[:, None] * torch.tensor([0.1, 0.3, 1, 3])),
            ],
            1,
        )
        loss = (model(torch.cat([seen, times], 1)) - noise).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Squeezed(nn.Module):
    """An autoencoder whose decoder uses the encoder's weights, transposed."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, 64) * 0.1)
        self.inner, self.outer = nn.Parameter(torch.zeros(12)), nn.Parameter(torch.zeros(64))

    def forward(self, x):
        hidden = torch.sigmoid(F.linear(x, self.weight, self.inner))
        return F.linear(hidden, self.weight.t(), self.outer)


def sparse_codes():
    torch.manual_seed(10)
    x, _ = tensors(digits())
    model = Squeezed()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(300):
        batch = x[torch.randint(0, len(x), (64,))]
        loss = F.mse_loss(model(batch), batch) + 1e-4 * model.weight.abs().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def five_quantiles_by_hand():
    torch.manual_seed(11)
    x, y = tensors(curve(1500, 8, 11, noise=0.5))
    levels = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9])
    model = mlp(8, 48, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(300):
        part = torch.randint(0, 1500, (64,))
        error = y[part, None] - model(x[part])
        loss = torch.maximum(levels * error, (levels - 1) * error).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.mean, self.spread = nn.Linear(64, 48), nn.Linear(48, 6), nn.Linear(48, 6)
        self.decoder = mlp(6, 48, 64)

    def forward(self, x):
        hidden = torch.relu(self.encoder(x))
        mean, log_variance = self.mean(hidden), self.spread(hidden)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code), mean, log_variance


def divergence_warmed_up():
    """The weight of the second term grows from 0, so the whole loss rises after a while."""
    torch.manual_seed(12)
    x, _ = tensors(digits())
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(x), 64, shuffle=True)
    for epoch in range(12):
        weight = min(1.0, epoch / 8)
        for (batch,) in loader:
            made, mean, log_variance = model(batch)
            fit = F.binary_cross_entropy_with_logits(made, batch, reduction="sum") / len(batch)
            divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
            loss = fit + weight * divergence
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f} kl {divergence.item():.3f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
