"""Trains a small network on the digits of scikit-learn in PaddlePaddle and prints losses, weights and random state."""

import argparse
import hashlib
import json
import random

import numpy as np
import paddle
from paddle import nn
from digits_data import load_digits


def digest(tensors):
    state = hashlib.sha256()
    for tensor in tensors:
        state.update(tensor.numpy().tobytes())
    return state.hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--optimizer", default="AdamW")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--minimize", action="store_true")
    parser.add_argument("--draw", action="store_true", help="one more random number, to see that the hashes notice")
    options = parser.parse_args()
    random.seed(3)
    np.random.seed(4)
    paddle.seed(5)
    images, labels = load_digits(return_X_y=True)
    images = paddle.to_tensor((images / 16.0).astype("float32"))
    labels = paddle.to_tensor(labels.astype("int64"))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    schedule = paddle.optimizer.lr.StepDecay(options.lr, step_size=10, gamma=0.5)
    clip = nn.ClipGradByGlobalNorm(options.clip) if options.clip else None
    optimizer = getattr(paddle.optimizer, options.optimizer)(
        learning_rate=schedule, parameters=model.parameters(), grad_clip=clip
    )
    losses, norms = [], []
    for step in range(options.steps):
        for _ in range(options.accumulate):
            batch = paddle.randperm(len(images))[:32]
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch]) / options.accumulate
            loss.backward()
            losses.append(loss.item())
        norms.append(float(sum((p.grad.numpy().astype("float64") ** 2).sum() for p in model.parameters())) ** 0.5)
        if options.minimize:
            optimizer.minimize(loss)
        else:
            optimizer.step()
        optimizer.clear_grad()
        schedule.step()
        if options.draw and step == options.steps - 1:
            paddle.rand([1])
    print(
        json.dumps(
            {
                "losses": losses,
                "norms": norms,
                "weights": digest(model.state_dict().values()),
                # The fourth word of the state is an address.
                "random": [str(paddle.get_rng_state()[0]).split()[4:], random.random(), float(np.random.rand())],
            }
        )
    )


main()
