"""One small convolutional network on the digits, trained the same way in PyTorch or PaddlePaddle, fault or none.

python twins_health.py torch|paddle [--fault NAME] [--steps N]
"""

import argparse
import random

import numpy as np
from digits_data import load_digits

FAULTS = ("", "not_cleared", "cut", "eval_mode", "softmax", "nan", "seed", "broadcast", "outside")


def in_torch(options, images, labels):
    import torch
    from torch import nn
    from torch.nn import functional

    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 8, 3)
            self.norm = nn.BatchNorm2d(8)
            self.act = nn.ReLU()
            self.drop = nn.Dropout(0.2)
            self.head = nn.Linear(8 * 36, 10)

        def forward(self, x, bad=False):
            x = self.act(self.norm(self.conv(x)))
            if options.fault == "cut":
                x = x.detach()
            x = self.drop(x.flatten(1))
            if bad:
                x = torch.log(x * 0 - 1)
            x = self.head(x)
            return functional.softmax(x, dim=-1) if options.fault == "softmax" else x

    data = torch.utils.data.TensorDataset(torch.tensor(images), torch.tensor(labels))
    loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = 0
    while step < options.steps:
        model.train() if options.fault != "eval_mode" else model.eval()
        for x, y in loader:
            step += 1
            if step > options.steps:
                break
            if options.fault != "not_cleared":
                optimizer.zero_grad()
            if options.fault == "seed":
                torch.manual_seed(1)
            out = model(x, bad=options.fault == "nan" and step == 5)
            if options.fault == "broadcast":
                loss = functional.mse_loss(out[:, :1], y.float())
            else:
                loss = functional.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                functional.cross_entropy(model(x), y)


def in_paddle(options, images, labels):
    import paddle
    from paddle import nn
    from paddle.nn import functional

    paddle.seed(0)

    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2D(1, 8, 3)
            self.norm = nn.BatchNorm2D(8)
            self.act = nn.ReLU()
            self.drop = nn.Dropout(0.2)
            self.head = nn.Linear(8 * 36, 10)

        def forward(self, x, bad=False):
            x = self.act(self.norm(self.conv(x)))
            if options.fault == "cut":
                x = x.detach()
            x = self.drop(x.flatten(1))
            if bad:
                x = paddle.log(x * 0 - 1)
            x = self.head(x)
            return functional.softmax(x, axis=-1) if options.fault == "softmax" else x

    data = paddle.io.TensorDataset([paddle.to_tensor(images), paddle.to_tensor(labels)])
    loader = paddle.io.DataLoader(data, batch_size=32, shuffle=True)
    model = Net()
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    table = paddle.ones([4, 2])
    step = 0
    while step < options.steps:
        model.train() if options.fault != "eval_mode" else model.eval()
        for x, y in loader:
            step += 1
            if step > options.steps:
                break
            if options.fault != "not_cleared":
                optimizer.clear_grad()
            if options.fault == "seed":
                paddle.seed(1)
            if options.fault == "outside":
                table[paddle.to_tensor([0, 9])]
            out = model(x, bad=options.fault == "nan" and step == 5)
            if options.fault == "broadcast":
                loss = functional.mse_loss(out[:, :1], y.astype("float32"))
            else:
                loss = functional.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
        model.eval()
        with paddle.no_grad():
            for x, y in loader:
                functional.cross_entropy(model(x), y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("framework", choices=["torch", "paddle"])
    parser.add_argument("--fault", default="", choices=FAULTS)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    random.seed(0)
    np.random.seed(0)
    images, labels = load_digits(return_X_y=True)
    images = (images[:320] / 16.0).astype("float32").reshape(-1, 1, 8, 8)
    (in_torch if options.framework == "torch" else in_paddle)(options, images, labels[:320].astype("int64"))


main()
