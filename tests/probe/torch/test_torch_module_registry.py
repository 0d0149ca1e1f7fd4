"""The model behind an optimizer is found without searching all objects, and by doing so where it was copied."""

import pytest

pytestmark = pytest.mark.torch

SCENE = """
import copy, io, json, sys, torch
from torch import nn
home = sys.modules["_labbook_probe.inspection.model_lookup"]
sweeps, original = [], home.live_instances
home.live_instances = lambda base: sweeps.append(1) or original(base)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        self.head = nn.Linear(3, 2)
    def forward(self, x):
        return self.head(self.body(x))

class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
    def forward(self, x):
        return self.module(x)

def train(model, parameters=None):
    optimizer = torch.optim.SGD(list(parameters or model.parameters()), 0.1)
    for _ in range(3):
        optimizer.zero_grad(); model(torch.randn(5, 4)).sum().backward(); optimizer.step()

%s
print(json.dumps(len(sweeps)))
"""

KNOWN = {
    "plain": ("train(Net())", "Net"),
    "wrapped": ("train(Wrapper(Net()))", "Wrapper(Net)"),
    "copied inside a new one": ("train(Wrapper(copy.deepcopy(Net())))", "Wrapper(Net)"),
    "a part": ("net = Net(); train(net, net.head.parameters())", "Linear"),
    "in a list": ("net = Net(); train(nn.Sequential(*[net]))", "Sequential"),
}
SWEPT = {
    "copied": ("train(copy.deepcopy(Net()))", "Net"),
    "unpickled": (
        "file = io.BytesIO(); torch.save(Net(), file); file.seek(0); train(torch.load(file, weights_only=False))",
        "Net",
    ),
    "and a tensor of its own": (
        "net = Net(); free = nn.Parameter(torch.zeros(2)); train(net, [*net.parameters(), free])",
        "Net",
    ),
}


SHOWN = ("wrapped", "a part", "copied")


def cases(table):
    """Its cases; all but a few are left to the long pass."""
    return [pytest.param(case, marks=() if case in SHOWN else pytest.mark.long) for case in table]


@pytest.mark.parametrize("case", cases(KNOWN))
def test_a_model_that_was_built_is_found_without_a_sweep(run, healthy, case):
    source, name = KNOWN[case]
    outcome = healthy(run(SCENE % source, fork="torch"))
    assert outcome.merged()["model"] == name
    # Looked at is the whole model that ran, also where only a part of it is trained.
    assert outcome.of("model")[0]["root"] == ("Net" if case == "a part" else name)
    assert outcome.result == 0


@pytest.mark.parametrize("case", cases(SWEPT))
def test_a_model_that_was_copied_is_found_by_a_sweep(run, healthy, case):
    source, name = SWEPT[case]
    outcome = healthy(run(SCENE % source, fork="torch"))
    assert outcome.merged()["model"] == name
    assert outcome.of("model")[0]["root"] == name
    assert outcome.result > 0


def test_optimizers_tell_which_model_they_train(run, healthy):
    source = """
def once():
    train(Net())
once(); once()
net = Net()
train(net, net.head.parameters()); train(net, net.body.parameters()); train(Wrapper(net))
base = Net()
for _ in range(12):
    train(copy.deepcopy(base))
free = [nn.Parameter(torch.ones(2, 4)), nn.Parameter(torch.ones(2))]
for part in (free, free[:1]):
    rule = torch.optim.Adam(part); (free[0].sum() + free[1].sum()).backward(); rule.step(); kept = rule
"""
    outcome = healthy(run(SCENE % source, fork="torch"))
    made = outcome.of("optimizer")
    assert [event["trains"] for event in made] == [0, 1, 2, 2, 2, *range(3, 15), 15, 15]
    assert [event["root"] for event in made[:5]] == ["Net", "Net", "Net", "Net", "Wrapper(Net)"]
    assert {event["root"] for event in made[5:17]} == {"Net"}  # also where no further sweep is made
    assert [event["root"] for event in made[17:]] == ["", ""]
    assert [event["parameters"] for event in made[:2]] == [23, 23]


def test_a_scheduler_that_goes_on_from_a_checkpoint_does_not_step_before_its_optimizer(run, healthy):
    source = """
def begin():
    net = Net(); rule = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    return net, rule, torch.optim.lr_scheduler.StepLR(rule, 2)
def epoch(net, rule, schedule):
    rule.zero_grad(); net(torch.randn(5, 4)).sum().backward(); rule.step(); schedule.step()
saved = begin(); epoch(*saved)
again = begin()
for one, other in zip(again, saved): one.load_state_dict(other.state_dict())
epoch(*again); epoch(*again)
"""
    seen = healthy(run(SCENE % source, fork="torch")).of("loop")[-1]["scheduler"]
    assert [(seen[key]["before_optimizer"], seen[key]["steps"]) for key in "01"] == [(0, 1), (0, 2)]


def test_the_scheduler_of_a_wrapped_optimizer_is_that_of_the_optimizer_in_it(run, healthy):
    """As in the HF Trainer, which makes it for the wrapper of accelerate."""
    source = """
class Wrapper(torch.optim.Optimizer):
    def __init__(self, rule): self.optimizer = rule
    param_groups = property(lambda self: self.optimizer.param_groups)
    def step(self): self.optimizer.step()
net = Net(); rule = Wrapper(torch.optim.SGD(net.parameters(), 0.1))
schedule = torch.optim.lr_scheduler.StepLR(rule, 2)
for _ in range(3): net(torch.randn(5, 4)).sum().backward(); rule.step(); schedule.step()
"""
    seen = healthy(run(SCENE % source, fork="torch")).of("loop")[-1]["scheduler"]
    assert (seen["0"]["type"], seen["0"]["steps"], seen["0"]["before_optimizer"]) == ("StepLR", 3, 0)


@pytest.mark.parametrize(
    ("last", "beside"),
    [("SWALR(rule, 0.1)", ["StepLR"]), ("SequentialLR(rule, [first, StepLR(rule, 9)], [2])", None)],
)
def test_schedulers_that_the_last_one_does_not_hold_are_named(run, healthy, last, beside):
    source = f"""
from torch.optim.lr_scheduler import SequentialLR, StepLR
from torch.optim.swa_utils import SWALR
net = Net(); rule = torch.optim.SGD(net.parameters(), 0.1)
first = StepLR(rule, 2); last = {last}
for _ in range(3): net(torch.randn(5, 4)).sum().backward(); rule.step(); last.step()
"""
    seen = healthy(run(SCENE % source, fork="torch")).of("loop")[-1]["scheduler"]
    assert seen["0"].get("beside") == beside


def test_the_scheduler_of_a_later_training_counts_from_its_first_step(run, healthy):
    source = """
for _ in range(12):
    net = Net(); rule = torch.optim.SGD(net.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(rule, 30)
    for at in range(120):
        rule.zero_grad(); net(torch.randn(5, 4)).sum().backward(); rule.step()
        if at % 4 == 3: schedule.step()
"""
    seen = healthy(run(SCENE % source, fork="torch")).of("loop")[-1]["scheduler"]
    assert len(seen) > 2
    assert {one["optimizer_steps"] // 4 - one["steps"] for one in seen.values()} <= {0, 1}, seen


def test_each_of_several_models_of_one_optimizer_is_described(run, healthy):
    source = """
import itertools
one, two = (torch.nn.Sequential(torch.nn.Linear(3, 3)) for _ in range(2))
rule = torch.optim.SGD(itertools.chain(one.parameters(), two.parameters()), 0.1)
for _ in range(20):
    rule.zero_grad(); (one(torch.randn(4, 3)) + two(torch.randn(4, 3))).sum().backward(); rule.step()
"""
    models = healthy(run(SCENE % source, fork="torch")).of("model")
    assert {model["variable"] for model in models} == {"one", "two"}


def test_modules_are_not_kept_alive(run, healthy):
    source = """
import gc, json, sys, torch, weakref
from torch import nn
gone = weakref.ref(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
gc.collect()
known = next(o for o in gc.get_objects() if type(o).__name__ == "ModuleRegistry")._known
kept = nn.Linear(2, 2)
print(json.dumps([gone() is None, len(known)]))
"""
    assert healthy(run(source, fork="torch")).result == [True, 1]
