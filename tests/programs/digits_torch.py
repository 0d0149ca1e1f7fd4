"""Trains a small network on the digits of scikit-learn in PyTorch and prints losses, weights and random state as hashes."""

import argparse
import hashlib
import json
import random

import numpy as np
import torch
from digits_data import load_digits
from torch import nn


def digest(tensors):
    state = hashlib.sha256()
    for tensor in tensors:
        state.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return state.hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--optimizer", default="AdamW")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--draw", action="store_true", help="one more random number, to see that the hashes notice")
    options = parser.parse_args()
    random.seed(3)
    np.random.seed(4)
    torch.manual_seed(5)
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images / 16.0, dtype=torch.float32)
    labels = torch.tensor(labels)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    optimizer = getattr(torch.optim, options.optimizer)(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.5)
    losses, norms = [], []
    for step in range(options.steps):
        optimizer.zero_grad()
        for _ in range(options.accumulate):
            batch = torch.randperm(len(images))[:32]
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch]) / options.accumulate
            loss.backward()
            losses.append(loss.item())
        if options.clip:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), options.clip).item())
        else:
            norms.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())
        optimizer.step()
        schedule.step()
        if options.draw and step == options.steps - 1:
            torch.rand(())
    torch_state = digest([torch.get_rng_state()])
    print(
        json.dumps(
            {
                "losses": losses,
                "norms": norms,
                "weights": digest(model.state_dict().values()),
                "random": [torch_state, random.random(), float(np.random.rand())],
            }
        )
    )


main()
