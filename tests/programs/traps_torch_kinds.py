"""Gradients and losses of unusual kinds, several optimizers, threads. Each prints what is true of it."""

import threading

import torch
from scenes_torch import data, loss_of, net, play, total
from torch import nn


def sparse():
    torch.manual_seed(0)
    table = nn.Embedding(50, 4, sparse=True)
    optimizer, norms = torch.optim.SparseAdam(table.parameters(), lr=0.1), []
    for _ in range(3):
        optimizer.zero_grad()
        table(torch.tensor([1, 1, 7])).pow(2).sum().backward()
        norms.append(table.weight.grad.to_dense().norm().item())
        optimizer.step()
    return {"norms": norms}


def sparse_and_dense():
    torch.manual_seed(0)
    table, head = nn.Embedding(50, 4, sparse=True), nn.Linear(4, 1)
    optimizer, norms = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1), []
    for _ in range(3):
        optimizer.zero_grad()
        head(table(torch.tensor([1, 1, 7]))).pow(2).sum().backward()
        dense = [table.weight.grad.to_dense(), *(p.grad for p in head.parameters())]
        norms.append(torch.stack([g.norm() for g in dense]).norm().item())
        optimizer.step()
    return {"norms": norms}


def complex_numbers():
    weight = nn.Parameter(torch.tensor([3 + 4j, 1 - 1j]))
    optimizer, norms = torch.optim.Adam([weight], lr=0.1), []
    for _ in range(2):
        optimizer.zero_grad()
        (weight.abs() ** 2).sum().backward()
        norms.append(torch.linalg.vector_norm(weight.grad).item())
        optimizer.step()
    return {"norms": norms}


def half_precision():
    weight = nn.Parameter(torch.zeros(100, dtype=torch.float16))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    weight.grad = torch.full_like(weight, 60000.0)
    optimizer.step()
    return {"norms": [weight.grad.float().norm().item()], "wrong": [float("inf")]}


def double_precision():
    weight = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    weight.grad = torch.full_like(weight, 1e100)
    optimizer.step()
    return {"norms": [2**0.5 * 1e100]}


def two_optimizers_one_backward():
    model, (x, y), losses = net(), data(), []
    optimizers = [torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters(), lr=0.1)]
    for _ in range(2):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        losses.append(loss.item())
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        for optimizer in optimizers:
            optimizer.step()
    return {"losses": losses, "wrong": total(model.parameters())}


def lbfgs():
    model, (x, y), losses, calls = net(), data(), [], []
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(2):
        before = len(losses)
        optimizer.step(closure)
        calls.append(len(losses) - before)
    return {"losses": losses, "calls": calls, "last_norm": total(model.parameters())}


def accumulation():
    model, (x, y), losses = net(), data(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        micro = []
        for part in range(4):
            loss = loss_of(model, x[part::4], y[part::4]) / 4
            loss.backward()
            micro.append(loss.item())
        losses.append(micro)
        optimizer.step()
    return {"losses": losses}


def second_derivatives():
    model, (x, y), norms = net(), data(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        slopes = torch.autograd.grad(loss_of(model, x, y), list(model.parameters()), create_graph=True)
        penalty = sum(s.pow(2).sum() for s in slopes)
        penalty.backward(create_graph=True)
        norms.append(total(model.parameters()))
        optimizer.step()
        for parameter in model.parameters():
            parameter.grad = None
    return {"norms": norms, "backwards": 2}


def several_roots():
    model, (x, y) = net(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    output = model(x)
    one, two = output.mean(), output.pow(2).mean()
    torch.autograd.backward([one, two])
    optimizer.step()
    return {"losses": [one.item(), two.item()]}


def not_a_scalar():
    model, (x, y) = net(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    output = model(x)
    output.backward(torch.ones_like(output))
    optimizer.step()
    return {"norms": [total(model.parameters())]}


def groups():
    model, (x, y) = net(), data()
    optimizer = torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.3}, {"params": model[2].parameters()}], lr=0.1)
    loss_of(model, x, y).backward()
    optimizer.step()
    return {"rates": [0.3, 0.1]}


def tensor_rate():
    model, (x, y) = net(), data()
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.25), foreach=False)
    loss_of(model, x, y).backward()
    optimizer.step()
    return {"rates": [0.25]}


def threads():
    truth = {}

    def train(name, rate):
        model, (x, y) = net(), data()
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = loss_of(model, x, y) * rate
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
        truth[str(rate)] = losses

    workers = [threading.Thread(target=train, args=(str(i), 0.1 * (i + 1))) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return truth


def meta_tensors():
    with torch.device("meta"):
        model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.zeros(2, 8, device="meta")).sum().backward()
    optimizer.step()
    return {}


def default_device():
    model, (x, y), norms = net(), data(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.device("meta"):
        loss = loss_of(model, x, y)
        loss.backward()
        norms.append(total(model.parameters()))
        optimizer.step()
    return {"norms": norms, "losses": [loss.item()]}


def new_optimizer_each_fold():
    counts = []
    for _ in range(20):
        model, (x, y) = net(), data()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss_of(model, x, y).backward()
        optimizer.step()
        counts.append(1)
    return {"optimizers": len(counts)}


def interrupted():
    class Stop(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 1

        @staticmethod
        def backward(ctx, gradient):
            raise KeyboardInterrupt

    model, (x, y), kind = net(), data(), ""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        loss_of(lambda value: Stop.apply(model(value)), x, y).backward()
    except KeyboardInterrupt as error:
        kind = type(error).__name__
    optimizer.zero_grad()
    loss = loss_of(model, x, y)
    loss.backward()
    optimizer.step()
    return {"kind": kind, "losses": [loss.item()], "norms": [total(model.parameters())]}


def becomes_nan():
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    for step in range(3):
        optimizer.zero_grad()
        (weight * (1.0 if step < 2 else float("nan"))).sum().backward()
        optimizer.step()
    return {}


play(globals())
