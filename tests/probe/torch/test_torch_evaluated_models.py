"""A PyTorch program that evaluates and does not train: its phases are seen, and dropped where it trains after all."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.forked("torch"), pytest.mark.torch]

START = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))
x, y = torch.randn(40, 4), torch.randint(0, 3, (40,))
def evaluate():
    for part in x.split(10):
        nn.functional.cross_entropy(net(part), y[: len(part)])
"""


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("net.eval()\nwith torch.no_grad(): evaluate()", (False, False, 4)),
        ("net.load_state_dict(nn.Sequential(*net).state_dict())\nevaluate()", (True, True, 4)),
        ("net.eval(); net[0].eval()\nwith torch.inference_mode(): evaluate()", (False, False, 4)),
    ],
    ids=["eval", "load_state_dict", "a part"],
)
def test_forwards_before_any_training_are_an_evaluation(run, healthy, body, seen):
    outcome = healthy(run(START + body, fork="torch"))
    (phase,) = outcome.of("evaluation")
    assert (phase["training"], phase["grad"], phase["batches"]) == seen
    assert phase["stochastic"] and phase["samples"] == 40 and phase["inputs"]["shape"] == [10, 4]
    (missing,) = outcome.of("unobserved")
    assert missing["reason"].startswith("this process evaluated a model")


def test_a_first_look_at_a_model_that_is_trained_then_is_no_validation(run, healthy):
    train = """
net.eval()
with torch.no_grad(): evaluate()
optimizer = torch.optim.SGD(net.train().parameters(), lr=0.1)
for _ in range(3):
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    outcome = healthy(run(START + train, fork="torch"))
    assert outcome.of("evaluation") == [] and len(outcome.of("step")) == 3


def test_a_loss_of_the_validation_behind_the_block_without_gradients_has_no_target_of_the_training(run, healthy):
    train = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    for at in range(0, 40, 10):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[at : at + 10]), y[at : at + 10]).backward()
        optimizer.step()
    with torch.no_grad(): scores = net(x)
    nn.functional.cross_entropy(scores, y).item()
"""
    outcome = healthy(run(START + train, fork="torch"))
    looked = [leaf["shape"] for b in outcome.of("batch") for leaf in b["leaves"] if leaf["path"] == "target"]
    assert len(looked) > 6 and set(map(tuple, looked)) == {(10,)}
    assert all("cross_entropy" in phase["loss"] for phase in outcome.of("evaluation")[:3])


def test_keys_that_hooks_rename_are_loaded_and_a_layer_with_time_first_is_no_error(run, healthy):
    train = """
class Timed(nn.BatchNorm1d):  # time x samples x channels
    def forward(self, x):
        return super().forward(x.flatten(0, 1)).view_as(x)
    def _load_from_state_dict(self, state, prefix, *args):
        if prefix + "old" in state:
            state[prefix + "weight"] = state.pop(prefix + "old")
        super()._load_from_state_dict(state, prefix, *args)
net = nn.Sequential(nn.Linear(4, 8), Timed(8))
old = {name.replace("1.weight", "1.old"): value for name, value in net.state_dict().items()}
net.load_state_dict(old)
net.load_state_dict({"0.bias": old["0.bias"], "more": x}, strict=False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(x.view(2, 20, 4)).square().mean().backward()
    optimizer.step()
"""
    whole, part = healthy(run(START + train, fork="torch")).of("loaded")
    assert (whole["matched"], whole["missing_n"], whole["unexpected_n"]) == (whole["keys"], 0, 0)
    assert part["unexpected_n"] == 1 and 0 < part["matched"] == part["keys"] - part["missing_n"] <= 2


@pytest.mark.parametrize(
    ("every", "mode", "most"),
    [(10, "eval", 6), (1, "eval", 0), (10, "train", 0)],
    ids=["average", "teacher", "dropout"],
)
def test_evaluations_of_averaged_weights_are_phases_and_calls_of_a_teacher_are_none(run, healthy, every, mode, most):
    train = f"""
import copy
optimizer, average = torch.optim.SGD(net.parameters(), lr=0.1), copy.deepcopy(net).{mode}()
for step in range(1, 101):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    for mean, now in zip(average.parameters(), net.parameters()):
        mean.data.lerp_(now.data, 0.1)
    if step % {every} == 0:
        with torch.no_grad(): [average(part) for part in x.split(20)]
        net.eval()
        if step % 50 == 0:
            with torch.no_grad(): [net(part) for part in x.split(8)]
        net.train()
"""
    phases = healthy(run(START + train, fork="torch")).of("evaluation")
    of_average = [phase["batches"] for phase in phases if phase["of_others"]]
    assert set(of_average) <= {2} and bool(of_average) == bool(most) and len(of_average) >= most
    assert [phase["batches"] for phase in phases if not phase["of_others"]] == [5, 5]
