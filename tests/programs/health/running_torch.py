"""Trainings that waste time or memory, or run elsewhere than asked, in PyTorch: `running_torch.py PROGRAM [fixed]`."""

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from material import blobs, curve, digits, pictures, sentences
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


def tensors(pair):
    return [torch.as_tensor(part) for part in pair]


def network(columns, width, classes):
    return nn.Sequential(
        nn.Linear(columns, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes)
    )


class Decoded(Dataset):
    """Pictures that are decoded when they are asked for."""

    def __init__(self, rows):
        self.x, self.y = pictures(rows, 16, 4, 1)

    def __len__(self):
        return len(self.x)

    def decode(self, picture):
        time.sleep(0.002)  # a JPEG of a few megapixels
        return picture

    def __getitem__(self, index):
        return self.decode(self.x[index]), self.y[index]


class DecodedBefore(Decoded):
    def decode(self, picture):
        return picture


def decodes_while_training(broken):
    torch.manual_seed(1)
    loader = DataLoader((Decoded if broken else DecodedBefore)(320), 16, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3456, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(3):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def saves_all_the_time(broken):
    torch.manual_seed(2)
    x, y = tensors(digits())
    model = network(64, 500, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    with tempfile.TemporaryDirectory() as folder:
        for step in range(240):
            part = torch.randint(0, len(x), (32,))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[part]), y[part])
            loss.backward()
            optimizer.step()
            if step % (16 if broken else 1000) == 10:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                for copy in range(6 if broken else 1):
                    torch.save(state, Path(folder) / f"{copy}.pt")
            if step % 48 == 0:
                print(f"step {step} loss {loss.item():.4f}")


def accuracy_of_everything_so_far(broken):
    torch.manual_seed(3)
    x, y = tensors(blobs(2000, 20, 8, 3, spread=2.0))
    model = network(20, 32, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    guessed, wanted = [], []
    for step in range(700):
        part = torch.randint(0, len(x), (128,))
        scores = model(x[part])
        loss = F.cross_entropy(scores, y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not broken:
            guessed.clear()
            wanted.clear()
        guessed.append(scores.detach())
        wanted.append(y[part])
        accuracy = (torch.cat(guessed).argmax(1) == torch.cat(wanted)).float().mean().item()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} accuracy {accuracy:.3f}")


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.inner, self.head = nn.Embedding(60, 16), nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, tokens):
        return self.head(torch.relu(self.inner(self.words(tokens))).mean(1))


def every_length_compiled(broken):
    torch.manual_seed(4)
    tokens, y = tensors(sentences(640, 40, 60, 4))
    model = Pooled()
    compiled = torch.compile(model, backend="eager", dynamic=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    lengths = torch.randint(5, 40, (160,)).tolist()
    for step, length in enumerate(lengths):
        part = torch.randint(0, 640, (16,))
        optimizer.zero_grad()
        loss = F.cross_entropy(compiled(tokens[part, : length if broken else 40]), y[part])
        loss.backward()
        optimizer.step()
        if step % 32 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def running_sum_of_losses(broken):
    torch.manual_seed(5)
    x, y = tensors(curve(4096, 64, 5))
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    total = 0
    for step in range(360):
        part = torch.randint(0, 4096, (512,))
        optimizer.zero_grad()
        loss = F.mse_loss(model(x[part]).squeeze(1), y[part])
        loss.backward(retain_graph=broken)
        optimizer.step()
        total += loss if broken else loss.item()
        if step % 60 == 0:
            print(f"step {step} loss {float(total) / (step + 1):.4f}")


def keeps_predictions(broken):
    """Collects the scores of mirrored pictures for a table at the end, with all that made them."""
    torch.manual_seed(6)
    x, y = tensors(pictures(800, 16, 5, 6))
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(392, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    kept = []
    for step in range(300):
        part = torch.randint(0, 800, (64,))
        loss = F.cross_entropy(model(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mirrored = model(x[part].flip(-1))
        kept.append(mirrored if broken else mirrored.detach())
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


class Cached(Dataset):
    """Keeps what it has read, "so that the second epoch is faster"; each draw is another crop."""

    def __init__(self):
        self.kept = {}

    def __len__(self):
        return 4000

    def crop(self, index):
        return np.random.default_rng(index).normal(size=(64, 64, 4))

    def __getitem__(self, index):
        if index not in self.kept:
            self.kept[index] = self.crop(index)
        part = self.kept[index]
        return part[0].ravel().astype("float32"), np.float32(part[0].mean() * 20)


class Uncached(Cached):
    def __getitem__(self, index):
        part = self.crop(index)
        return part[0].ravel().astype("float32"), np.float32(part[0].mean() * 20)


def workers_keep_everything(broken):
    torch.manual_seed(7)
    data = (Cached if broken else Uncached)()
    model = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (inputs, target) in enumerate(DataLoader(data, 16, num_workers=2)):
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs).squeeze(1), target)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def asks_for_determinism(broken):
    torch.manual_seed(8)
    torch.backends.cudnn.benchmark = broken
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=broken)
    x, y = tensors(blobs(500, 12, 3, 8))
    model = network(12, 24, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(6):
        for inputs, labels in DataLoader(TensorDataset(x, y), 25, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")


def asks_for_a_device(broken):
    """`--device cuda`, and a line that quietly takes the CPU when there is none."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("variant", nargs="?")
    parser.add_argument("--device", default="cpu")
    wanted = parser.parse_args().device
    device = wanted if wanted == "cpu" or torch.cuda.is_available() else "cpu"
    torch.manual_seed(9)
    x, y = (part.to(device) for part in tensors(digits()))
    model = network(64, 32, 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(300):
        part = torch.randint(0, len(x), (32,), device=device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
        if step % 60 == 0:
            print(f"step {step} loss {loss.item():.4f}")


def looks_for_unused_parameters(broken):
    """One process of a data-parallel training with a flag that it does not need."""
    import torch.distributed as dist

    warnings.simplefilter("default")
    torch.manual_seed(10)
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        x, y = tensors(blobs(600, 10, 4, 10))
        model = nn.parallel.DistributedDataParallel(network(10, 24, 4), find_unused_parameters=broken)
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        for epoch in range(6):
            for inputs, labels in DataLoader(TensorDataset(x, y), 30, shuffle=True):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(inputs), labels)
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch} loss {loss.item():.4f}")
        dist.destroy_process_group()


if __name__ == "__main__":
    globals()[sys.argv[1]]("fixed" not in sys.argv[2:])
