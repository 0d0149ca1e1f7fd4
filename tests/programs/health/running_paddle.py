"""Trainings that waste time or memory, in PaddlePaddle: `running_paddle.py PROGRAM [fixed]`."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as F
from material import blobs, curve, digits, pictures
from paddle import nn
from paddle.io import DataLoader, Dataset


def seed(number):
    paddle.seed(number)
    np.random.seed(number)


def tensors(pair):
    return [paddle.to_tensor(part) for part in pair]


def network(columns, width, classes):
    return nn.Sequential(
        nn.Linear(columns, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes)
    )


def some(x, y, batch):
    part = paddle.to_tensor(np.random.randint(0, len(x), batch))
    return x[part], y[part]


class Remote(Dataset):
    """Records from a slow disk."""

    def __init__(self):
        self.x, self.y = pictures(360, 14, 4, 1)

    def __len__(self):
        return len(self.x)

    def wait(self):
        time.sleep(0.003)

    def __getitem__(self, index):
        self.wait()
        return self.x[index], self.y[index]


class Local(Remote):
    def wait(self):
        pass


def waits_for_the_disk(broken):
    seed(1)
    batches = DataLoader((Remote if broken else Local)(), batch_size=12, shuffle=True, use_buffer_reader=False)
    model = nn.Sequential(
        nn.Conv2D(1, 16, 3), nn.ReLU(), nn.Conv2D(16, 24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2400, 4)
    )
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    for epoch in range(3):
        for inputs, labels in batches:
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def saves_too_often(broken):
    seed(2)
    x, y = tensors(digits())
    model = network(64, 500, 10)
    optimizer = paddle.optimizer.Adam(5e-4, parameters=model.parameters())
    with tempfile.TemporaryDirectory() as folder:
        for step in range(240):
            inputs, labels = some(x, y, 32)
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            if step % (15 if broken else 1000) == 9:
                for copy in range(8 if broken else 1):
                    paddle.save(model.state_dict(), str(Path(folder) / f"{copy}.pdparams"))
                    paddle.save(optimizer.state_dict(), str(Path(folder) / f"{copy}.pdopt"))
            if step % 48 == 0:
                print(f"step {step} loss {loss.item():.4f}")


def table_of_all_answers(broken):
    seed(3)
    x, y = tensors(blobs(2000, 20, 8, 3, spread=2.0))
    model = network(20, 24, 8)
    optimizer = paddle.optimizer.SGD(0.05, parameters=model.parameters())
    answers, wanted = [], []
    for step in range(600):
        inputs, labels = some(x, y, 128)
        scores = model(inputs)
        loss = F.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if not broken:
            answers, wanted = [], []
        answers.append(scores.detach())
        wanted.append(labels)
        right = (paddle.concat(answers).argmax(1) == paddle.concat(wanted)).astype("float32").mean().item()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} accuracy {right:.3f}")


def history_of_losses(broken):
    """Keeps the losses of a second, mirrored pass for a plot, with all that made them."""
    seed(4)
    x, y = tensors(pictures(800, 16, 5, 4))
    model = nn.Sequential(nn.Conv2D(1, 8, 3), nn.ReLU(), nn.MaxPool2D(2), nn.Flatten(), nn.Linear(392, 5))
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    history = []
    for step in range(260):
        inputs, labels = some(x, y, 64)
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        mirrored = F.cross_entropy(model(inputs.flip(-1)), labels)
        history.append(mirrored if broken else mirrored.item())
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f} mirrored {float(np.mean([float(v) for v in history])):.4f}")


def total_with_its_graph(broken):
    seed(5)
    x, y = tensors(curve(4096, 48, 5))
    model = nn.Sequential(nn.Linear(48, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
    optimizer = paddle.optimizer.SGD(0.05, parameters=model.parameters())
    total = paddle.zeros([])
    for step in range(300):
        inputs, target = some(x, y, 512)
        loss = F.mse_loss(model(inputs).squeeze(1), target)
        loss.backward(retain_graph=broken)
        optimizer.step()
        optimizer.clear_grad()
        total = total + (loss if broken else loss.detach())
        if step % 50 == 0:
            print(f"step {step} loss {float(total) / (step + 1):.4f}")


class Kept(Dataset):
    """Keeps what it read in its worker."""

    def __init__(self):
        self.kept = {}

    def __len__(self):
        return 3600

    def read(self, index):
        return np.random.default_rng(index).normal(size=(64, 256))

    def __getitem__(self, index):
        if index not in self.kept:
            self.kept[index] = self.read(index)
        part = self.kept[index]
        return part[0].astype("float32"), part[0, :8].mean(keepdims=True).astype("float32")


class NotKept(Kept):
    def __getitem__(self, index):
        part = self.read(index)
        return part[0].astype("float32"), part[0, :8].mean(keepdims=True).astype("float32")


def workers_keep_all(broken):
    seed(6)
    model = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    for step, (inputs, target) in enumerate(DataLoader((Kept if broken else NotKept)(), batch_size=16, num_workers=2)):
        loss = F.mse_loss(model(inputs), target)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def wants_a_gpu(broken):
    """`--device gpu`, and a line that takes the CPU when there is none."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("variant", nargs="?")
    parser.add_argument("--device", default="cpu")
    wanted = parser.parse_args().device
    paddle.set_device(wanted if wanted == "cpu" or paddle.device.is_compiled_with_cuda() else "cpu")
    seed(7)
    x, y = tensors(digits())
    model = network(64, 32, 10)
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    for step in range(240):
        inputs, labels = some(x, y, 32)
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    globals()[sys.argv[1]]("fixed" not in sys.argv[2:])
