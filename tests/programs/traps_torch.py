"""Training loops that once misled a probe: closures, scalers, nested steps. Each prints what is true of it."""

import torch
from scenes_torch import data, loss_of, net, play, total
from torch import nn
from torch.utils.checkpoint import checkpoint


def closure_accumulates_and_clips():
    model, (x, y), norms, first = net(), data(), [], []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        for part in range(2):
            loss = loss_of(model, x[part::2], y[part::2])
            loss.backward()
            if part == 0:
                first.append(total(model.parameters()))
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.05).item())
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return {"norms": norms, "wrong": [*first, 0.05]}


def closure_without_clipping():
    model, (x, y), norms = net(), data(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        norms.append(total(model.parameters()))
        return loss

    for _ in range(3):
        optimizer.step(closure=closure)
    return {"norms": norms}


def unit_gradient(parameter):
    parameter.grad = torch.full_like(parameter, 0.5)


def nesterov_foreach():
    weight = nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, nesterov=True, foreach=True)
    after = []
    for _ in range(3):
        unit_gradient(weight)
        optimizer.step()
        after.append(total([weight]))
    return {"norms": [1.0] * 3, "wrong": after}


def nesterov_foreach_closure():
    weight = nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([weight], lr=0.0, momentum=0.9, nesterov=True, foreach=True)
    after = []

    def closure():
        optimizer.zero_grad()
        loss = (weight * 0.5).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
        after.append(total([weight]))
    return {"norms": [1.0] * 3, "wrong": after}


def scaler(kind, unscale=False, clip=False, **options):
    model, (x, y), norms, losses = net(), data(), [], []
    optimizer = kind(model.parameters(), lr=0.01, **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)
    for step in range(4):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        scaler.scale(loss).backward()
        if step == 2:
            model[0].weight.grad[0, 0] = float("inf")
        else:
            factor = scaler.get_scale()
            norms.append(total(model.parameters()) / factor)
            losses.append(loss.item())
        if unscale:
            scaler.unscale_(optimizer)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        scaler.step(optimizer)
        scaler.update()
    return {"norms": norms, "losses": losses, "scale": [1024.0, 1024.0, 512.0], "skipped": 1}


def scaler_unfused():
    return scaler(torch.optim.SGD)


def scaler_fused():
    return scaler(torch.optim.AdamW, fused=True)


def scaler_fused_sgd():
    return scaler(torch.optim.SGD, fused=True)


def scaler_unscaled_and_clipped():
    return scaler(torch.optim.SGD, unscale=True, clip=True)


def scaler_clipped_while_scaled():
    return scaler(torch.optim.SGD, clip=True)


def scaler_divided_after_scaling():
    model, (x, y), losses = net(), data(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(2):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        (scaler.scale(loss) / 2).backward()
        losses.append(loss.item() / 2)
        scaler.step(optimizer)
        scaler.update()
    return {"losses": losses}


class Twice(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)


def step_calls_super():
    model, (x, y), norms = net(), data(), []
    optimizer = Twice(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        norms.append(total(model.parameters()))
        optimizer.step()
    return {"norms": norms}


class Fragile(torch.optim.SGD):
    fail = True

    def step(self, closure=None):
        if self.fail:
            raise ValueError("out of memory, say")
        return super().step(closure)


def step_raises_once():
    model, (x, y), norms = net(), data(), []
    optimizer = Fragile(model.parameters(), lr=0.1)
    for attempt in range(4):
        Fragile.fail = attempt == 1
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        try:
            optimizer.step()
        except ValueError:
            continue
        norms.append(total(model.parameters()))
    return {"norms": norms}


def inside_backward():
    model, (x, y), norms, losses = net(), data(), [], []
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
    squares = []

    def update(parameter):
        squares.append(parameter.grad.double().pow(2).sum().item())
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    for _ in range(3):
        squares.clear()
        loss = loss_of(model, x, y)
        losses.append(loss.item())
        loss.backward()
        norms.append(sum(squares) ** 0.5)
    return {"norms": norms, "losses": losses, "optimizers": 1}


def reentrant_checkpoint():
    model, (x, y), losses = net(), data(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = x.requires_grad_()
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(checkpoint(model, x, use_reentrant=True), y)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return {"losses": losses, "backwards": 3}


def generative_adversarial():
    torch.manual_seed(0)
    maker, judge, truth = nn.Linear(2, 8), nn.Linear(8, 1), {"judge": [], "maker": []}
    judges = torch.optim.Adam(judge.parameters(), lr=0.02)
    makers = torch.optim.Adam(maker.parameters(), lr=0.01)
    for _ in range(3):
        made = maker(torch.randn(4, 2))
        judges.zero_grad()
        loss = judge(made.detach()).mean() - judge(torch.randn(4, 8)).mean()
        loss.backward()
        truth["judge"].append([loss.item(), total(judge.parameters())])
        judges.step()
        makers.zero_grad()
        loss = -judge(made).mean()
        loss.backward()
        truth["maker"].append([loss.item(), total(maker.parameters())])
        makers.step()
    return truth


play(globals())
