"""Healthy trainings in unusual styles, in PyTorch, fourth part: `odd4_torch.py PROGRAM`."""

import itertools
import sys

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, cancer, curve, diabetes, digits, pictures, sentences, standardised, waves, wine
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


def mlp(*sizes, activation=nn.ReLU):
    layers = [layer for one, two in itertools.pairwise(sizes) for layer in (nn.Linear(one, two), activation())]
    return nn.Sequential(*layers[:-1])


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin = nn.Linear(20, 32)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.1)) for _ in range(6)
        )
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        x = self.begin(x)
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def blocks_computed_twice():
    torch.manual_seed(1)
    x, y = tensors(blobs(1000, 20, 4, 1, spread=2.0))
    model = Deep()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(6):
        for inputs, labels in DataLoader(TensorDataset(x, y), 40, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def weights_of_tasks_learnt():
    """Three tasks whose weights are learnt as uncertainties; the sum becomes negative."""
    torch.manual_seed(2)
    x, y = tensors(curve(1200, 10, 2))
    side = (x[:, 0] > 0).float()
    kind = (x[:, 1:4]).argmax(1)
    trunk, heads = (
        mlp(10, 48, 48),
        nn.ModuleDict({"value": nn.Linear(48, 1), "side": nn.Linear(48, 1), "kind": nn.Linear(48, 3)}),
    )
    logs = nn.ParameterList([nn.Parameter(torch.zeros(())) for _ in range(3)])
    optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters(), *logs.parameters()], lr=4e-3)
    for step in range(500):
        part = torch.randint(0, 1200, (64,))
        hidden = torch.relu(trunk(x[part]))
        losses = (
            F.mse_loss(heads["value"](hidden).squeeze(1), y[part]),
            F.binary_cross_entropy_with_logits(heads["side"](hidden).squeeze(1), side[part]),
            F.cross_entropy(heads["kind"](hidden), kind[part]),
        )
        loss = sum(torch.exp(-log) * one + log / 2 for log, one in zip(logs, losses, strict=False))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def four_folds():
    """Cross-validation in one process: model, optimizer and loaders are made anew for each fold."""
    x, y = cancer()
    x, y = torch.as_tensor(standardised(x)), torch.as_tensor(y)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(3))
    for fold in range(4):
        torch.manual_seed(fold)
        held = order[fold::4]
        rest = order[~torch.isin(order, held)]
        model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 2))
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _epoch in range(8):
            model.train()
            for inputs, labels in DataLoader(TensorDataset(x[rest], y[rest]), 32, shuffle=True):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(inputs), labels)
                loss.backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                scores = model(x[held])
                accuracy = (scores.argmax(1) == y[held]).float().mean().item()
        print(f"fold {fold} accuracy {accuracy:.3f} val_loss {F.cross_entropy(scores, y[held]).item():.4f}")


def small_from_large():
    """Knowledge distillation: the teacher is trained first, then its softened answers teach a small one."""
    torch.manual_seed(4)
    x, y = tensors(digits())
    teacher, student = mlp(64, 128, 10), mlp(64, 16, 10)
    optimizer = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for _ in range(200):
        part = torch.randint(0, len(x), (64,))
        loss = F.cross_entropy(teacher(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    teacher.eval().requires_grad_(False)
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    for step in range(300):
        part = torch.randint(0, len(x), (64,))
        with torch.no_grad():
            soft = F.softmax(teacher(x[part]) / 4, dim=1)
        scores = student(x[part])
        loss = 16 * F.kl_div(F.log_softmax(scores / 4, dim=1), soft, reduction="batchmean")
        loss = 0.7 * loss + 0.3 * F.cross_entropy(scores, y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def second_order_on_all():
    torch.manual_seed(5)
    x, y = tensors(diabetes())
    model = mlp(10, 16, 1, activation=nn.Tanh)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=8, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x).squeeze(1), y) + 1e-3 * sum(p.square().sum() for p in model.parameters())
        loss.backward()
        return loss

    for step in range(40):
        loss = optimizer.step(closure)
        if step % 8 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Kernel(nn.Module):
    """Exact Gaussian process regression in double precision: three numbers are learnt, all data in one matrix."""

    def __init__(self):
        super().__init__()
        self.length = nn.Parameter(torch.zeros((), dtype=torch.double))
        self.scale = nn.Parameter(torch.zeros((), dtype=torch.double))
        self.noise = nn.Parameter(torch.tensor(-1.0, dtype=torch.double))

    def forward(self, x, y):
        distance = torch.cdist(x, x).square()
        matrix = self.scale.exp() * torch.exp(-0.5 * distance / self.length.exp().square())
        root = torch.linalg.cholesky(matrix + (self.noise.exp() + 1e-6) * torch.eye(len(x), dtype=torch.double))
        solved = torch.cholesky_solve(y[:, None], root)
        return 0.5 * (y @ solved[:, 0]) + root.diagonal().log().sum() + 0.9189385 * len(x)


def process_of_gauss():
    x, y = (part.double() for part in tensors(curve(80, 2, 6, noise=0.2)))
    model = Kernel()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(150):
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        if step % 30 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def one_at_a_time():
    torch.manual_seed(7)
    x, y = wine()
    x, y = torch.as_tensor(standardised(x)), torch.as_tensor(y)
    model = mlp(13, 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(4):
        for index in torch.randperm(len(x)):
            loss = F.cross_entropy(model(x[index])[None], y[index][None])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def steep_warm_up():
    """A transformer warmed up to a high rate, then cooled: the first steps hardly move."""
    torch.manual_seed(8)
    tokens, y = tensors(sentences(1000, 16, 50, 8))

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(50, 32, padding_idx=0), nn.Parameter(torch.zeros(16, 32))
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(32, 2)

        def forward(self, ids):
            return self.head(self.layers(self.words(ids) + self.places).mean(1))

    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0)
    schedule = lr_scheduler.LambdaLR(
        optimizer, lambda step: 32**-0.5 * min((step + 1) ** -0.5, (step + 1) * 60**-1.5) * 0.3
    )
    for step in range(240):
        part = torch.randint(0, 1000, (32,))
        loss = F.cross_entropy(model(tokens[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 48 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Arriving(IterableDataset):
    """A stream that drifts slowly; each record is seen once."""

    def __iter__(self):
        rng = np.random.default_rng(9)
        for at in range(6000):
            row = rng.normal(size=6) + at / 6000
            yield row.astype("float32"), np.float32(row[:3].sum() - row[3:].sum() + 0.1 * rng.normal())


def seen_once():
    torch.manual_seed(9)
    model = mlp(6, 24, 1)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for step, (inputs, wanted) in enumerate(DataLoader(Arriving(), 20)):
        loss = F.huber_loss(model(inputs).squeeze(1), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def smoothed_and_mixed():
    """Label smoothing, mixup and random erasing; validated on an averaged model at the end of each epoch."""
    torch.manual_seed(10)
    x, y = tensors(pictures(1000, 12, 5, 10))
    train, held = TensorDataset(x[:800], y[:800]), TensorDataset(x[800:], y[800:])
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 5)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    schedule = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=25 * 8)
    for epoch in range(8):
        model.train()
        for inputs, labels in DataLoader(train, 32, shuffle=True):
            share = float(np.random.beta(0.4, 0.4))
            other = torch.randperm(len(inputs))
            mixed = share * inputs + (1 - share) * inputs[other]
            mixed[:, :, 3:6, 3:6] = 0
            scores = model(mixed)
            loss = share * F.cross_entropy(scores, labels, label_smoothing=0.1)
            loss = loss + (1 - share) * F.cross_entropy(scores, labels[other], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        model.eval()
        right = 0
        with torch.inference_mode():
            for inputs, labels in DataLoader(held, 100):
                right += (model(inputs).argmax(1) == labels).sum().item()
        print(f"epoch {epoch} loss {loss.item():.4f} val_acc {right / 200:.3f}")


def physics_in_the_loss():
    """A net that solves an equation: derivatives of its output by its input are in the loss."""
    torch.manual_seed(11)
    model = mlp(1, 32, 32, 1, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(400):
        t = (torch.rand(64, 1) * 4).requires_grad_()
        value = model(t)
        slope = torch.autograd.grad(value.sum(), t, create_graph=True)[0]
        start = model(torch.zeros(1, 1))
        loss = (slope + value).square().mean() + (start - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 80 == 0:
            print(f"step {step} loss {loss.item():.5f}")


def parts_of_factors():
    """Matrix factorisation of ratings with sparse gradients and two optimizers that share a loss."""
    torch.manual_seed(12)
    users, items = torch.randint(0, 300, (6000,)), torch.randint(0, 120, (6000,))
    hidden = torch.randn(300, 3), torch.randn(120, 3)
    rating = (hidden[0][users] * hidden[1][items]).sum(1) + 0.1 * torch.randn(6000)
    of_user, of_item = nn.Embedding(300, 8, sparse=True), nn.Embedding(120, 8, sparse=True)
    bias = nn.Parameter(torch.zeros(1))
    sparse = torch.optim.SparseAdam([*of_user.parameters(), *of_item.parameters()], lr=0.02)
    dense = torch.optim.SGD([bias], lr=0.01)
    for step in range(500):
        part = torch.randint(0, 6000, (128,))
        guessed = (of_user(users[part]) * of_item(items[part])).sum(1) + bias
        loss = F.mse_loss(guessed, rating[part])
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def scaled_on_the_cpu():
    """The whole recipe of mixed precision: scale, unscale, clip, step, update."""
    torch.manual_seed(13)
    x, y = tensors(digits())
    model = mlp(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(200):
        part = torch.randint(0, len(x), (32,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x[part]), y[part])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def reads_forecasts():
    """A series model trained in order, never shuffled, its hidden state carried on and cut between batches."""
    torch.manual_seed(14)
    x = tensors(waves(24, 400, 14))[0]
    cell, head = nn.LSTM(1, 20, batch_first=True), nn.Linear(20, 1)
    optimizer = torch.optim.RMSprop([*cell.parameters(), *head.parameters()], lr=2e-3)
    for epoch in range(6):
        state = None
        for begin in range(0, 380, 20):
            inputs, wanted = x[:, begin : begin + 19], x[:, begin + 1 : begin + 20]
            hidden, state = cell(inputs, state)
            state = tuple(part.detach() for part in state)
            loss = F.mse_loss(head(hidden), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def policy_against_a_reference():
    """Preference optimisation: a frozen copy of the start is asked in every step and never updated, on purpose."""
    import copy

    torch.manual_seed(15)
    x, _ = tensors(blobs(800, 12, 4, 15))
    policy = mlp(12, 32, 6)
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    better, worse = x[:, :6].argmax(1), x[:, :6].argmin(1)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    for step in range(250):
        part = torch.randint(0, 800, (32,))
        logs = policy(x[part]).log_softmax(1)
        with torch.no_grad():
            base = reference(x[part]).log_softmax(1)
        gain = (logs - base).gather(1, torch.stack([better[part], worse[part]], 1))
        loss = -F.logsigmoid(0.5 * (gain[:, 0] - gain[:, 1])).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
