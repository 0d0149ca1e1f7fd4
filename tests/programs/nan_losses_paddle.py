"""Trains on digits with a loss that stops being finite in step 6; the case is the argument."""

import sys

import paddle
import paddle.nn.functional as F
from paddle import nn
from digits_data import load_digits

case = sys.argv[1]
paddle.seed(0)
images, labels = (paddle.to_tensor(part) for part in load_digits(return_X_y=True))
images = images.astype("float32") / 16
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())


def loss_of(out, y, late):
    p = F.softmax(out, axis=1)
    one_hot = F.one_hot(y, 10)
    if case == "log":
        return -(p * one_hot * (0 if late else 1)).sum(1).log().mean()  # log
    if case == "logs":
        s = F.sigmoid(out * (1e4 if late else 1))
        yes = one_hot * paddle.log(s)  # logs
        no = (1 - one_hot) * paddle.log(1 - s)  # logs
        return -(yes + no).mean()
    if case == "div":
        kept = (y < (0 if late else 9)).astype("float32")
        return ((F.cross_entropy(out, y, reduction="none") ** 2 / 2) * kept).sum() / kept.sum()  # div
    if case == "pow":
        return ((p - (0.5 if late else 0)) ** 1.5).mean()  # pow
    apart = out - out.detach() if late else out
    return paddle.sqrt((apart**2).sum(1)).mean()  # sqrt


for step in range(8):
    batch = paddle.randperm(len(images))[:64]
    loss = loss_of(model(images[batch]), labels[batch], step >= 5)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
print("operators", paddle.Tensor.__truediv__.__name__, paddle._C_ops.log.__name__)
