"""A loader is described by what chooses its samples, also where a library has wrapped its batch sampler."""

import pytest

pytestmark = pytest.mark.torch

SCENE = """
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset

class Shard:
    def __init__(self, batches):
        self.batch_sampler = batches
    def __iter__(self):
        return iter(self.batch_sampler)
    def __len__(self):
        return len(self.batch_sampler)

data = TensorDataset(torch.arange(64.0)[:, None])
shuffled, ordered = (BatchSampler(kind(data), 8, True) for kind in (RandomSampler, SequentialSampler))
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for batches in (shuffled, Shard(shuffled), Shard(Shard(ordered))):
    for (x,) in DataLoader(data, batch_sampler=batches):
        optimizer.zero_grad(); model(x).mean().backward(); optimizer.step()
print(0)
"""


def test_a_wrapped_batch_sampler_is_looked_into(run, healthy):
    told = healthy(run(SCENE, fork="torch")).of("loader")
    assert [(loader["shuffle"], loader["sampler"]) for loader in told] == [
        (True, "RandomSampler"),
        (True, "RandomSampler"),
        (False, "SequentialSampler"),
    ]
    assert {(loader["batch_size"], loader["drop_last"]) for loader in told} == {(8, True)}
