"""Two data-parallel processes on the CPU: `ranks_torch.py PROGRAM [fixed]`."""

import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from material import blobs
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def data(rows=640):
    x, y = blobs(rows, 12, 4, 1, spread=1.5)
    return TensorDataset(torch.as_tensor(x), torch.as_tensor(y))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 4))


def fit(model, loader, epochs, begin=lambda epoch: None, forward=None, after=lambda: None):
    """Trains; `forward` is what is called instead of the model."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        begin(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy((forward or model)(inputs), labels)
            loss.backward()
            after()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


def calls_what_is_inside(broken):
    """The wrapped model is called by its inner name, so gradients are never averaged."""
    sampler = DistributedSampler(data(), seed=1)
    model = DistributedDataParallel(network())
    forward = model.module if broken else model
    fit(model, DataLoader(data(), 20, sampler=sampler), 8, sampler.set_epoch, forward)


def everybody_reads_everything(broken):
    sampler = None if broken else DistributedSampler(data(), seed=2)
    generator = torch.Generator().manual_seed(2)
    loader = DataLoader(data(), 20, sampler=sampler, shuffle=broken, generator=generator)
    fit(DistributedDataParallel(network()), loader, 6, sampler.set_epoch if sampler else lambda epoch: None)


def forgets_the_epoch(broken):
    sampler = DistributedSampler(data(), seed=3)
    loader = DataLoader(data(), 16, sampler=sampler)
    model = DistributedDataParallel(network())
    if broken:
        fit(model, loader, 6)
    else:
        fit(model, loader, 6, sampler.set_epoch)


def one_has_more(broken):
    """Files are dealt out by size; the rank with fewer is done early and the other carries on alone."""
    x, y = data().tensors
    rank = dist.get_rank()
    cut = 360 if broken else 320
    x, y = (x[:cut], y[:cut]) if rank == 0 else (x[cut:], y[cut:])
    model = DistributedDataParallel(network())
    try:
        fit(model, DataLoader(TensorDataset(x, y), 10, shuffle=True), 4)
    except RuntimeError:
        if not broken:
            raise
        print("the other one has left", flush=True)


def one_is_slow(broken):
    """One of the two reads from a slow disk."""
    slow = broken and dist.get_rank() == 1

    class Disk(TensorDataset):
        def __getitem__(self, index):
            if slow:
                time.sleep(0.001)
            return super().__getitem__(index)

    records = Disk(*data(960).tensors)
    sampler = DistributedSampler(records, seed=5)
    fit(DistributedDataParallel(network()), DataLoader(records, 16, sampler=sampler), 5, sampler.set_epoch)


def averages_in_its_own_order(broken):
    """Gradients averaged by hand; one rank walks its parameters from the other end."""
    model = network()
    model = nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 4, bias=False))
    torch.manual_seed(6)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    weights = [model[0].weight, model[2].weight]
    others = [model[0].bias, model[2].bias, model[4].weight]
    if broken and dist.get_rank() == 1:
        weights.reverse()

    def average():
        for parameter in (*weights, *others):
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    sampler = DistributedSampler(data(), seed=6)
    fit(model, DataLoader(data(), 20, sampler=sampler), 6, sampler.set_epoch, after=average)


def rank_main(rank, port, program, broken):
    if port:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    globals()[program](broken)
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:  # started by torchrun
        rank_main(int(os.environ["RANK"]), None, sys.argv[1], sys.argv[2:] != ["fixed"])
        sys.exit()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        chosen = free.getsockname()[1]
    arguments = chosen, sys.argv[1], sys.argv[2:] != ["fixed"]
    multiprocessing.start_processes(rank_main, arguments, nprocs=2, start_method="fork")
