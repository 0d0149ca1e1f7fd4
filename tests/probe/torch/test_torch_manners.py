"""The probe keeps out of sight: of modes that watch every call, of old interfaces, of memory, of tracebacks."""

import pytest
from pytest import approx

pytestmark = pytest.mark.torch

LOOP = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
o = torch.optim.SGD(net.parameters(), lr=0.1)
def step():
    o.zero_grad()
    loss = net(torch.ones(2, 4)).pow(2).mean()
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in net.parameters()]).norm().item()
    o.step()
    return loss.item(), norm
"""


@pytest.mark.long
def test_a_mode_of_the_program_sees_no_call_of_the_probe(run, healthy):
    program = (
        LOOP
        + """
import json
from torch.utils._python_dispatch import TorchDispatchMode
from torch.overrides import TorchFunctionMode
seen = {"dispatch": 0, "function": 0}
class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, call, types, args=(), kwargs=None):
        seen["dispatch"] += 1
        return call(*args, **(kwargs or {}))
class Function(TorchFunctionMode):
    def __torch_function__(self, call, types, args=(), kwargs=None):
        seen["function"] += 1
        return call(*args, **(kwargs or {}))
with Dispatch():
    step()
with Function():
    step()
print(json.dumps(seen))
"""
    )
    bare, watched = run(program, probe=False, fork="torch"), healthy(run(program, fork="torch"))
    assert watched.result["dispatch"] == bare.result["dispatch"]
    assert watched.result["function"] == bare.result["function"]


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_caught_error_of_a_forward_has_no_frame_of_the_probe(run, healthy, mode):
    program = (
        LOOP
        + f"""
import json, traceback
found = []
for at in range(4):
    try:
        net.{mode}()(torch.ones(2, 5))
    except RuntimeError as error:
        found.append([frame.name for frame in traceback.extract_tb(error.__traceback__)])
    net.train()
    step()
print(json.dumps(found))
"""
    )
    bare, watched = run(program, probe=False, fork="torch"), healthy(run(program, fork="torch"))
    assert watched.result == bare.result


def test_a_caught_error_of_a_call_that_the_probe_watches_has_no_frame_of_it(run, healthy):
    program = (
        LOOP
        + """
import json, traceback
step()
calls = {
    "optimizer": lambda: torch.optim.SGD([], lr=0.1),
    "scheduler": lambda: torch.optim.lr_scheduler.CyclicLR(o, "a", "b"),
    "seed": lambda: torch.manual_seed("x"),
    "initialiser": lambda: torch.nn.init.xavier_uniform_(torch.ones(3)),
}
found = {}
for name, call in calls.items():
    try:
        call()
    except Exception as error:
        found[name] = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
print(json.dumps(found))
"""
    )
    bare, watched = run(program, probe=False, fork="torch"), healthy(run(program, fork="torch"))
    assert len(bare.result) == 4 and watched.result == bare.result


@pytest.mark.long
def test_without_global_hooks_each_class_is_wrapped(run, healthy):
    """PyTorch before 2.0 has none."""
    program = """
import json, sys, torch
from _labbook_probe.torch.adapter import wrap_steps
module = sys.modules["torch.optim.optimizer"]
both = module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks
before, after = [list(hooks.values())[0] for hooks in both]
for hooks in both:
    hooks.clear()
wrap_steps(torch.optim.Optimizer, before, after, sys._labbook_probe)
class Twice(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
norms = []
for kind in (torch.optim.SGD, Twice, torch.optim.Adam):
    w = torch.nn.Parameter(torch.ones(3))
    o = kind([w], lr=0.1)
    for _ in range(2):
        o.zero_grad()
        (w * 2).sum().backward()
        norms.append(w.grad.norm().item())
        o.step()
print(json.dumps(norms))
"""
    outcome = healthy(run(program, fork="torch"))
    assert [event["grad_norm"] for event in outcome.of("step")] == approx(outcome.result)
    assert [event["type"] for event in outcome.of("optimizer")] == ["SGD", "Twice", "Adam"]


def test_nothing_is_kept_alive(run, healthy):
    program = """
import gc, json, weakref, torch
def train():
    net = torch.nn.Linear(4, 1)
    o = torch.optim.Adam(net.parameters(), lr=0.1)
    loss = net(torch.ones(2, 4)).sum()
    loss.backward()
    gradient = weakref.ref(net.weight.grad)
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    o.step()
    o.zero_grad()
    gone = gradient() is None
    return gone, [weakref.ref(thing) for thing in (net, o, loss)]
gone, held = train()
gc.collect()
print(json.dumps([gone, [thing() is None for thing in held]]))
"""
    assert run(program, probe=False, fork="torch").result == [True, [True] * 3]
    assert healthy(run(program, fork="torch")).result == [True, [True] * 3]


def test_functions_keep_their_names_scripts_compile_and_no_frame_of_the_probe_is_in_a_traceback(run, healthy):
    program = """
import inspect, json, pickle, torch
@torch.jit.script
def scripted(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x
scripted(torch.ones(2, 2))
print(json.dumps([
    str(inspect.signature(torch.nn.utils.clip_grad_norm_)), str(inspect.signature(torch.autograd.backward)),
    torch.autograd.backward.__module__, pickle.loads(pickle.dumps(torch.nn.utils.clip_grad_norm_)).__name__,
]))
torch.ones(2, requires_grad=True).backward()
"""
    bare, watched = run(program, probe=False, expect=1, fork="torch"), healthy(run(program, expect=1))
    assert watched.result == bare.result
    printed, expected = (
        [line for line in outcome.err.splitlines() if "program.py" not in line] for outcome in (watched, bare)
    )
    assert printed == expected


def test_a_forward_that_is_called_directly_keeps_its_errors_and_can_be_compiled(run, healthy):
    program = """
import inspect, json, pickle, traceback, torch
from torch import nn
def doubled(x):
    if x.dim() == 1:
        raise ValueError("no batch")
    return 2 * x
class Base(nn.Module):
    def forward(self, x):
        return doubled(x)
class Net(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def forward(self, x):
        return super().forward(self.layer(x))
class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def forward(self, x):
        return doubled(self.layer(x))
def train(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        net.forward(torch.ones(8, 4)).sum().backward()
        optimizer.step()
torch.manual_seed(0)
shown = []
nets = (nn.Sequential(nn.Linear(4, 1), nn.Tanh()), Net(), Plain())
for net in nets:
    train(net)
    for args in ((torch.ones(4),), ()) if net is not nets[0] else ((),):
        for call in (net, net.forward):
            try:
                call(*args)
            except (ValueError, TypeError):
                shown.append([line for line in traceback.format_exc().splitlines() if "program.py" not in line])
def doubled(x):
    return 2 * x
shown += [torch.compile(one, backend="eager", fullgraph=True)(torch.ones(1, 4)).item() for one in (nets[0], net)]
shown += [torch.jit.script(one)(torch.ones(1, 4)).item() for one in (nets[0], net)]
shown += [torch.jit.trace(net, torch.ones(1, 4)).code]
shown += [str(torch.fx.symbolic_trace(net).graph), str(inspect.signature(net.forward)), len(pickle.dumps(net))]
shown += [inspect.getfullargspec(net.forward).args]
print(json.dumps(shown))
"""
    bare, watched = run(program, probe=False, fork="torch"), healthy(run(program))
    assert watched.result == bare.result
