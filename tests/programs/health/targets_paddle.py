"""Wrong pairs and accumulated gradients, in PaddlePaddle: `targets_paddle.py PROGRAM [fixed]`."""

import sys

import paddle
import paddle.nn.functional as F
from material import blobs, digits
from paddle import nn


def batches(size=16, epochs=5):
    x, y = blobs(640, 12, 4, 3)
    for _ in range(epochs):
        order = paddle.randperm(len(x)).numpy()
        for rows in order.reshape(-1, size):
            yield paddle.to_tensor(x[rows]), paddle.to_tensor(y[rows])


def clears_for_each_part(broken):
    """Four micro-batches a step, of which three are thrown away."""
    paddle.seed(21)
    model = nn.Sequential(nn.Linear(12, 48), nn.LayerNorm(48), nn.ReLU(), nn.Linear(48, 4))
    optimizer = paddle.optimizer.Adam(3e-3, parameters=model.parameters())
    for at, (inputs, labels) in enumerate(batches()):
        if broken or at % 4 == 0:
            optimizer.clear_grad()
        loss = F.cross_entropy(model(inputs), labels) / 4
        loss.backward()
        if at % 4 == 3:
            optimizer.step()
    print(float(loss))


def one_view_twice(broken):
    """The second view is the first one."""
    paddle.seed(23)
    x = paddle.to_tensor(digits()[0])
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    for epoch in range(4):
        for begin in range(0, 1792, 64):
            clean = x[begin : begin + 64]
            first, second = (clean + 0.15 * paddle.randn(clean.shape) for _ in range(2))
            one, other = (F.normalize(model(view)) for view in (first, first if broken else second))
            loss = F.cross_entropy(one @ other.t() / 0.1, paddle.arange(64))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {float(loss):.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]("fixed" not in sys.argv)
