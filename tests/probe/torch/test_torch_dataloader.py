"""A loader is described by what chooses its samples, also where a library has wrapped its batch sampler."""

import sys
from types import SimpleNamespace

import pytest

from labbook.probe.torch.dataloader import DataLoaders

pytestmark = pytest.mark.torch

SCENE = """
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler, TensorDataset

class OfBatches(IterableDataset):
    def __iter__(self):
        return iter(data[:][0].split(8))
    def __len__(self):
        return 8

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
for x in DataLoader(OfBatches(), batch_size=None):
    optimizer.zero_grad(); model(x).mean().backward(); optimizer.step()
print(0)
"""


def test_a_wrapped_batch_sampler_is_looked_into(run, healthy):
    *seen, batches = healthy(run(SCENE, fork="torch")).of("loader")
    assert batches["iterable"] and batches["length"] is None  # what its `__len__` counts is not known
    assert [(loader["shuffle"], loader["sampler"]) for loader in seen] == [
        (True, "RandomSampler"),
        (True, "RandomSampler"),
        (False, "SequentialSampler"),
    ]
    assert {(loader["batch_size"], loader["drop_last"]) for loader in seen} == {(8, True)}


RANKS = """
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
data = TensorDataset(torch.randn(63, 1))
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for ranks in (2, 1):
    for (x,) in DataLoader(data, 8, sampler=DistributedSampler(data, ranks, 0)):
        optimizer.zero_grad(); model(x).mean().backward(); optimizer.step()
print(0)
"""


def test_the_share_of_a_rank_is_not_the_data_set(run, healthy):
    seen = healthy(run(RANKS, fork="torch")).of("loader")
    assert [(loader["length"], loader.get("share"), loader.get("ranks")) for loader in seen] == [
        (63, 32, 2),
        (63, None, None),
    ]


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


OF_TRAINER = """
import torch
from collections import UserDict
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(96, 4)
rows = TensorDataset(x, (x.sum(1) > 0).long())

def loaded(part, shuffle=False):
    def collate(batch):
        return UserDict(x=torch.stack([one[0] for one in batch]), labels=torch.stack([one[1] for one in batch]))
    return DataLoader(torch.utils.data.Subset(rows, part), 8, shuffle=shuffle, collate_fn=collate)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(4, 2)
    def forward(self, x, labels):
        logits = self.head(x)
        return UserDict(loss=torch.nn.functional.cross_entropy(logits, labels), logits=logits)

def evaluate(part):
    model.eval()
    with torch.no_grad():
        for batch in loaded(part):
            model(**batch)

model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = loaded(range(64), shuffle=True)
for epoch in range(4):
    model.train()
    for at, batch in enumerate(loader, 1):
        model(**batch)["loss"].backward()
        optimizer.step(); optimizer.zero_grad()
        if at == 3:
            break
    evaluate(range(64, 80))
evaluate(range(80, 96))
print(0)
"""


def test_batches_phases_and_passes_of_a_trainer(run, healthy):
    outcome = healthy(run(OF_TRAINER, fork="torch"))
    assert {batch["samples"] for batch in outcome.of("batch")} == {8}, "the batch is no `dict`"
    assert all(one["histogram"] for one in outcome.of("prints"))
    assert [phase["batches"] for phase in outcome.of("evaluation")] == [2] * 5, "the test is none of the validation"
    assert outcome.of("loop")[-1]["passes"]["0"] == {"3": 3}, "of the last pass it is not known whether it goes on"
    roots = [row for event in outcome.of("tensors") for row in event["modules"] if row["i"] == 0]
    assert roots and all(row["shape"] == [8, 2] for row in roots), "the outputs, not the loss in front of them"


KERNEL_STATE = """
import torch
model = torch.nn.Linear(2, 1)
model.generator = torch.nn.Parameter(torch.tensor([0, 7]), requires_grad=False)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
model(torch.randn(8, 2)).mean().backward(); optimizer.step()
print(0)
"""


def test_the_state_of_a_generator_is_no_weight(run, healthy):
    outcome = healthy(run(KERNEL_STATE, fork="torch"))
    assert [event["parameters"] for event in outcome.of("optimizer")] == [3]


BESIDE = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
parts = [TensorDataset(torch.randn(16, 2)) for _ in range(2)]
val, test = (DataLoader(part, 8) for part in parts)
for epoch in range(2):
    for (x,) in DataLoader(TensorDataset(torch.randn(16, 2)), 8, shuffle=True):
        optimizer.zero_grad(); model(x).mean().backward(); optimizer.step()
    for loader in (val, test, DataLoader(parts[0], 8)):
        with torch.no_grad():
            for (x,) in loader: model(x)
print(0)
"""


def test_equal_loaders_of_other_data_are_counted(run, healthy):
    seen = healthy(run(BESIDE, fork="torch")).of("loader")
    assert [loader["alike"] for loader in seen if not loader["shuffle"]] == [0, 1, 1, 1]
    assert {loader["alike"] for loader in seen if loader["shuffle"]} == {0}


IN_TRIALS = """
import torch
import labbook
from torch.utils.data import DataLoader, TensorDataset
data, model = TensorDataset(torch.arange(8.0)[:, None]), torch.nn.Linear(1, 1)
for trial in range(2):
    with labbook.trial():
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for epoch in range(40):
            for (x,) in DataLoader(data, batch_size=8):
                optimizer.zero_grad(); model(x).mean().backward(); optimizer.step()
print(0)
"""


def test_each_trial_has_the_loaders_that_it_iterates(run, healthy):
    outcome = healthy(run(IN_TRIALS, fork="torch"))
    counts = [sum(event["k"] == "loader" for event in process) for process in outcome.processes]
    assert sorted(counts)[-2:] == [32, 32]
