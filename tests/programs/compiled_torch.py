"""Compiles parts of a training step with a backend that only counts, and prints how many graphs and breaks there were."""

import json
import sys

import torch
from torch import nn

COUNT = {"graphs": 0, "nodes": 0}


def counting(graph, inputs):
    COUNT["graphs"] += 1
    COUNT["nodes"] += len(graph.graph.nodes)
    return graph.forward


def parts():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, y = torch.randn(16, 8), torch.randn(16, 1)
    return model, optimizer, x, y


def train(forward, update, model, optimizer, x, y, steps=6):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(forward(x), y)
        loss.backward()
        update()
        losses.append(loss.item())
    return losses


def eager():
    model, optimizer, x, y = parts()
    return train(model, optimizer.step, model, optimizer, x, y)


def compiled_model():
    model, optimizer, x, y = parts()
    return train(torch.compile(model, backend=counting), optimizer.step, model, optimizer, x, y)


def compiled_update():
    model, optimizer, x, y = parts()
    return train(model, torch.compile(optimizer.step, backend=counting), model, optimizer, x, y)


def compiled_clip():
    model, optimizer, x, y = parts()
    weights = list(model.parameters())

    @torch.compile(backend=counting, fullgraph=True)
    def clip():
        return nn.utils.clip_grad_norm_(weights, 0.01, foreach=True)

    def update():
        clip()
        optimizer.step()

    return train(model, update, model, optimizer, x, y)


def compiled_step():
    model, optimizer, x, y = parts()
    losses = []

    @torch.compile(backend=counting)
    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    for _ in range(6):
        losses.append(step().item())
    return losses


def compiled_autocast():
    model, optimizer, x, y = parts()

    @torch.compile(backend=counting, fullgraph=True)
    def forward(batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(batch).float()

    return train(forward, optimizer.step, model, optimizer, x, y)


def main():
    torch.set_num_threads(1)

    import torch._dynamo.utils as compiler

    found = {}
    for name in sys.argv[1:]:
        torch._dynamo.reset()
        compiler.counters.clear()
        COUNT.update(graphs=0, nodes=0)
        losses = globals()[name]()
        found[name] = {
            **COUNT,
            "losses": losses,
            "breaks": sum(compiler.counters["graph_break"].values()),
            "frames": dict(compiler.counters["frames"]),
            "recompiles": sum(compiler.counters["recompiles"].values()),
        }
    print(json.dumps(found))


main()
