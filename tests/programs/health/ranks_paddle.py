"""Two data-parallel processes on the CPU, in PaddlePaddle: `ranks_paddle.py PROGRAM [fixed]`."""

import sys
import time

import numpy as np
import paddle
import paddle.distributed as dist
import paddle.nn.functional as F
from material import blobs
from paddle import nn
from paddle.io import DataLoader, DistributedBatchSampler, TensorDataset


class Records(TensorDataset):
    """Records of a table; `pause` is how long one takes to read."""

    pause = 0.0

    def __getitem__(self, index):
        if self.pause:
            time.sleep(self.pause)
        return super().__getitem__(index)


def records(rows=640):
    return Records([paddle.to_tensor(part) for part in blobs(rows, 10, 4, 1, spread=1.5)])


def network():
    paddle.seed(0)
    return nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 4))


def fit(model, batches, epochs, forward=None, begin=lambda epoch: None):
    optimizer = paddle.optimizer.Momentum(0.02, parameters=model.parameters())
    for epoch in range(epochs):
        begin(epoch)
        for inputs, labels in batches:
            loss = F.cross_entropy((forward or model)(inputs), labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


def inner_network_called(broken):
    """The network itself is called, not what wraps it: gradients are not averaged."""
    data, model = records(), network()
    wrapped = paddle.DataParallel(model)
    sampler = DistributedBatchSampler(data, 20, shuffle=True)
    fit(wrapped, DataLoader(data, batch_sampler=sampler), 6, model if broken else wrapped, sampler.set_epoch)


def no_share_of_the_data(broken):
    data = records()
    np.random.seed(4)
    sampler = DistributedBatchSampler(data, 20, shuffle=True)
    batches = DataLoader(data, batch_size=20) if broken else DataLoader(data, batch_sampler=sampler)
    fit(paddle.DataParallel(network()), batches, 5, begin=sampler.set_epoch)


def never_shuffled(broken):
    """The sampler does not shuffle unless it is asked to."""
    data = records()
    sampler = DistributedBatchSampler(data, 16) if broken else DistributedBatchSampler(data, 16, shuffle=True)
    fit(paddle.DataParallel(network()), DataLoader(data, batch_sampler=sampler), 6, begin=sampler.set_epoch)


def slow_second_reader(broken):
    data = records(960)
    data.pause = 0.001 if broken and dist.get_rank() == 1 else 0.0
    sampler = DistributedBatchSampler(data, 16, shuffle=True)
    fit(paddle.DataParallel(network()), DataLoader(data, batch_sampler=sampler), 5, begin=sampler.set_epoch)


def rank_main(program, broken):
    dist.init_parallel_env()
    globals()[program](broken)


if __name__ == "__main__":
    dist.spawn(rank_main, args=(sys.argv[1], sys.argv[2:] != ["fixed"]), nprocs=2, backend="gloo")
