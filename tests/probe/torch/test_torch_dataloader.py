"""A loader is described by what chooses its samples, also where a library has wrapped its batch sampler."""

import sys
from types import SimpleNamespace

import pytest

from labbook.probe.torch.dataloader import DataLoaders

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
    seen = healthy(run(SCENE, fork="torch")).of("loader")
    assert [(loader["shuffle"], loader["sampler"]) for loader in seen] == [
        (True, "RandomSampler"),
        (True, "RandomSampler"),
        (False, "SequentialSampler"),
    ]
    assert {(loader["batch_size"], loader["drop_last"]) for loader in seen} == {(8, True)}


MANY = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
train, held_out = torch.randn(24, 2), torch.randn(8, 2)
for epoch in range(24):
    for (x,) in DataLoader(TensorDataset(train), 8):
        optimizer.zero_grad(); model(x).mean().backward(); optimizer.step()
    model.eval()
    with torch.no_grad():
        for (x,) in DataLoader(TensorDataset(held_out), 8): model(x)
    model.train()
print(0)
"""


def test_no_training_step_gets_the_validation_batch_before_it(run, healthy):
    """As in Keras, which makes new loaders in each epoch: the batches of later ones are not known."""
    rows = {"train": set(), "eval": set()}
    for event in healthy(run(MANY, fork="torch")).of("prints"):
        rows[event["phase"]].update(row[0] for row in event["rows"])
    assert rows["train"] and rows["eval"] and not rows["train"] & rows["eval"]


@pytest.mark.parametrize(("at_end", "batch"), [(False, 2), (True, 3)])
def test_the_position_leaves_out_a_batch_that_accelerate_fetched_ahead(monkeypatch, at_end, batch):
    class Loader:
        def state_dict(self):
            return {"taken": 3}

    loader, loaders = Loader(), DataLoaders(None, None, pytest.fail)
    shard = SimpleNamespace(base_dataloader=loader, end_of_dataloader=at_end, state_dict=lambda: {"taken": 2})

    state = SimpleNamespace(dataloader_references=(None, shard))
    kind = type("GradientState", (), {"_shared_state": {"steps": 1}, "__new__": lambda _: state})
    monkeypatch.setitem(sys.modules, "accelerate.state", SimpleNamespace(GradientState=kind))
    known = {"loader": 0, "line": "train.py:9", "epoch": 1, "batch": 3}
    loaders._loaders[loader] = known
    loaders._positions.append(known)
    expected = [{**known, "batch": batch, "state": {"taken": batch}}]
    assert loaders.positions() == loaders.positions() == expected
