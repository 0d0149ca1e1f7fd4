"""What is said of the framework, the model, seeds and flags; and that nothing is claimed where nothing was seen."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from pytest import approx

torch_only = pytest.mark.torch
paddle_only = pytest.mark.paddle


@torch_only
def test_facts_of_torch(run, healthy):
    program = """
import random, numpy, torch
random.seed(11); numpy.random.seed(12); torch.manual_seed(13)
torch.use_deterministic_algorithms(True)
torch.backends.cudnn.benchmark = True
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
        for p in self.body[0].parameters():
            p.requires_grad_(False)
    def forward(self, x):
        return self.body(x)
net = Net()
head = torch.nn.Linear(1, 1, bias=False)
o = torch.optim.AdamW([*(p for p in net.parameters() if p.requires_grad), head.weight], lr=0.5, weight_decay=0.1)
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = head(net(torch.ones(2, 4))).float().sum()
loss.backward()
o.step()
torch.manual_seed(99)
assert not torch.cuda.is_initialized()
"""
    outcome = healthy(run(program, fork="torch", CUBLAS_WORKSPACE_CONFIG=":4096:8"))
    framework, state, optimizer = outcome.merged("framework"), outcome.merged(), outcome.merged("optimizer")
    assert framework["version"].startswith(version("torch").split("+")[0])
    assert framework["build"]["git"]
    assert framework["threads"] == 1
    assert framework["attached"] == list(import_module("labbook.probe.torch.adapter").SIGNALS)
    assert state["seeds"] == {"python": 11, "numpy": 12, "torch": 13, "torch, later": 99}
    assert state["deterministic"]["use_deterministic_algorithms"] is True
    assert state["deterministic"]["cudnn.benchmark"] is True
    assert state["deterministic"]["PYTHONHASHSEED"] == "0"
    assert state["deterministic"]["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert state["mode"] == "dynamic"
    assert state["amp"] == [{"device": "cpu", "dtype": "bfloat16"}]
    assert (state["model"], state["parameters"], state["trainable"]) == ("Net", 26, 6)
    assert (state["device"], state["dtype"]) == (["cpu"], ["float32"])
    assert optimizer["type"] == "AdamW" and optimizer["options"]["weight_decay"] == 0.1
    assert optimizer["groups"] == [{"lr": 0.5, "tensors": 3, "elements": 6}]


@torch_only
@pytest.mark.parametrize(
    ("before", "seeds"),
    [
        ("numpy.random.seed(5)", {"numpy": 5, "torch": None}),
        ("torch.manual_seed(5)", {"torch": 5}),
        ("", {"torch": None}),
    ],
)
def test_weights_drawn_without_a_seed_are_recorded(run, healthy, before, seeds):
    program = f"""
import numpy, torch
{before}
net = torch.nn.Linear(4, 1)
o = torch.optim.SGD(net.parameters(), 0.1)
net(torch.ones(2, 4)).sum().backward()
o.step()
"""
    assert healthy(run(program, fork="torch")).merged()["seeds"] == seeds


@paddle_only
def test_facts_of_paddle(run, healthy):
    program = """
import random, numpy, paddle
random.seed(11); numpy.random.seed(12); paddle.seed(13)
class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.Linear(4, 1))
        for p in self.body[0].parameters():
            p.stop_gradient = True
    def forward(self, x):
        return self.body(x)
net = Net()
groups = [{"params": list(part.parameters()), "learning_rate": rate} for part, rate in zip(net.body, (0.1, 0.5))]
o = paddle.optimizer.AdamW(0.5, parameters=groups, weight_decay=0.1)
net(paddle.ones([2, 4])).sum().backward()
o.step()
"""
    outcome = healthy(run(program, FLAGS_cudnn_deterministic="1"))
    framework, state, optimizer = outcome.merged("framework"), outcome.merged(), outcome.merged("optimizer")
    assert framework["version"] == version("paddlepaddle") and framework["threads"] == 1
    assert framework["attached"] == list(import_module("labbook.probe.paddle.adapter").SIGNALS)
    assert state["seeds"] == {"python": 11, "numpy": 12, "paddle": 13}
    assert state["deterministic"]["FLAGS_cudnn_deterministic"] in ("1", True)
    assert state["mode"] == "dynamic" and state.get("amp") is None
    assert (state["model"], state["parameters"], state["trainable"]) == ("Net", 25, 5)
    assert (state["device"], state["dtype"]) == (["cpu"], ["float32"])
    assert optimizer["type"] == "AdamW" and optimizer["options"]["weight_decay"] == 0.1
    first, last = optimizer["groups"]  # the rate of a group is a factor
    assert first == {"lr": 0.05, "learning_rate": 0.1, "tensors": 2, "elements": 20}
    assert last == {"lr": 0.25, "learning_rate": 0.5, "tensors": 2, "elements": 5}


@torch_only
@pytest.mark.long
def test_an_unseeded_program_is_not_reported_as_seeded(run, healthy):
    outcome = healthy(
        run(
            "import torch\nw = torch.nn.Parameter(torch.rand(2))\nw.sum().backward()\ntorch.optim.SGD([w], 0.1).step()",
            fork="torch",
        )
    )
    assert outcome.merged()["seeds"] == {"torch": None}  # numbers were drawn without one


@torch_only
@pytest.mark.parametrize(
    "body", ["x = torch.ones(3).sum()", "with torch.no_grad(): torch.nn.Linear(2, 2)(torch.ones(2))"]
)
def test_without_backward_nothing_is_claimed(run, healthy, body):
    outcome = healthy(run(f"import torch\n{body}\n", fork="torch"))
    assert outcome.of("step") == [] and outcome.of("optimizer") == []
    assert [event["what"] for event in outcome.of("unobserved")] == ["training steps"]


@torch_only
@pytest.mark.long
def test_functional_gradients_are_no_backward_and_updates_by_hand_are_counted_as_such(run, healthy):
    functional = """
import torch
w = torch.ones(3)
for _ in range(100):
    w = w - 0.1 * torch.func.grad(lambda p: (p ** 2).sum())(w)
"""
    outcome = healthy(run(functional, fork="torch"))
    assert outcome.of("step") == []
    by_hand = """
import torch
w = torch.ones(3, requires_grad=True)
for step in range(100):
    loss = (w * step).sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.0 * w.grad
        w.grad = None
"""
    outcome = healthy(run(by_hand, fork="torch"))
    assert [event["loss"] for event in outcome.of("step")] == [3.0 * step for step in range(100)]
    assert outcome.of("optimizer")[0]["type"].startswith("none of the framework")
    assert all("lr" not in event for event in outcome.of("step"))
    assert [event["grad_norm"] for event in outcome.of("step")[:3]] == approx([0.0, 3**0.5, 12**0.5])
    assert [event["what"] for event in outcome.of("unobserved")] == ["learning rate"]


@paddle_only
@pytest.mark.parametrize(
    ("before", "ran", "reason"),
    [
        ("", "None", "none of them has an optimizer"),
        (
            "copy = paddle.static.default_main_program().clone(); paddle.optimizer.SGD(0.1).minimize(loss)",
            "copy",
            "only ran a copy of the program made before minimize()",
        ),
    ],
)
def test_runs_of_a_static_program_without_an_optimizer_are_no_steps(run, healthy, before, ran, reason):
    program = f"""
import numpy, paddle
paddle.enable_static()
x = paddle.static.data("x", [4, 3])
loss = paddle.mean(paddle.static.nn.fc(x, 1))
{before}
exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
for _ in range(5):
    exe.run({ran}, feed={{"x": numpy.ones((4, 3), "float32")}})
"""
    outcome = healthy(run(program, fork="paddle"))
    assert outcome.merged()["mode"] == "static"
    assert outcome.of("step") == [] and outcome.of("optimizer") == []
    unseen = {event["what"]: event["reason"] for event in outcome.of("unobserved")}
    assert reason in unseen["training steps"] and len(unseen) == 1


@paddle_only
def test_operators_of_a_static_program_keep_the_stack_of_the_program_alone(run, healthy):
    program = """
import json, numpy, paddle
paddle.enable_static()
x = paddle.static.data("x", [4], "int64")
paddle.seed(3)
loss = paddle.nn.Softmax()(paddle.nn.Embedding(10, 8)(x)).mean() + paddle.nn.functional.relu(paddle.ones([1]))
exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
try:
    exe.run(feed={"x": numpy.full(4, 12)}, fetch_list=[loss])
except ValueError as error:
    text = str(error)
paddle.disable_static()
net = paddle.nn.Linear(3, 1)
optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
net(paddle.ones([2, 3])).mean().backward()
optimizer.step()
print(json.dumps([text.count('File "'), "labbook" in text, "probe" in text]))
"""
    outcome = healthy(run(program, fork="paddle"))
    frames, *ours = outcome.result
    assert frames > 3 and ours == [False, False]
    # What is dynamic after it is seen again, the model included.
    assert len(outcome.of("step")) == 1 and outcome.of("model")[0]["root"] == "Linear"


@paddle_only
def test_a_static_function_is_recorded_as_compiled_with_its_steps(run, healthy):
    program = """
import json, paddle
paddle.seed(0)
net = paddle.jit.to_static(paddle.nn.Linear(3, 1))
o = paddle.optimizer.SGD(0.1, parameters=net.parameters())
losses = []
for _ in range(3):
    loss = net(paddle.ones([2, 3])).mean()
    loss.backward()
    losses.append(loss.item())
    o.step(); o.clear_grad()
print(json.dumps(losses))
"""
    outcome = healthy(run(program, fork="paddle"))
    assert outcome.merged()["mode"] == "compiled"
    assert [event["loss"] for event in outcome.steps()] == pytest.approx(outcome.result)


@torch_only
def test_a_forked_child_that_trains_has_its_own_events(run, healthy):
    program = """
import multiprocessing, torch
def train(rate):
    torch.set_num_threads(1)
    w = torch.nn.Parameter(torch.ones(2))
    o = torch.optim.SGD([w], lr=rate)
    for _ in range(3):
        o.zero_grad(); w.sum().backward(); o.step()
train(0.5)
workers = [multiprocessing.get_context("fork").Process(target=train, args=(rate,)) for rate in (0.1, 0.2)]
for worker in workers: worker.start()
for worker in workers: worker.join()
"""
    outcome = healthy(run(program, fork="torch"))
    rates = sorted(
        (event["lr"][0], event["step"]) for process in outcome.processes for event in process if event["k"] == "step"
    )
    assert rates == [(rate, step) for rate in (0.1, 0.2, 0.5) for step in (1, 2, 3)]
    assert [event["what"] for event in outcome.of("unobserved")] == []


@torch_only
@pytest.mark.slow
@pytest.mark.long
def test_a_killed_run_has_lost_two_seconds_at_most(tmp_path):
    program = """
import sys, time, torch
w = torch.nn.Parameter(torch.ones(2))
o = torch.optim.SGD([w], lr=0.1)
for step in range(10 ** 9):
    o.zero_grad(); w.sum().backward(); o.step()
    if step % 100 == 0:
        print(step, flush=True)
"""
    (tmp_path / "events").mkdir()
    source = tmp_path / "program.py"
    source.write_text(program)
    root = Path(__file__).resolve().parents[3]
    settings = {"dir": str(tmp_path), "run": "r", "level": "normal", "root": str(root / "labbook"), "budget": 0.01}
    env = dict(os.environ, PYTHONPATH=str(root / "labbook/probe/inject"), LABBOOK_PROBE=json.dumps(settings))
    began = None
    with subprocess.Popen([sys.executable, str(source)], env=env, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            began = began or time.monotonic()
            if time.monotonic() - began > 5 and int(line) > 3000:
                break
        child.send_signal(signal.SIGKILL)
        printed = [int(line)] + [int(rest) for rest in child.stdout.read().split("\n")[:-1]]
    lines = next((tmp_path / "events").glob("*.jsonl")).read_text().splitlines()
    steps = [json.loads(line) for line in lines if '"k":"step"' in line and line.endswith("}")]
    rate = printed[-1] / (time.monotonic() - began)
    assert printed[-1] - steps[-1]["step"] < 4 * rate
    assert sum(event["n"] for event in steps) == steps[-1]["step"]


def test_the_adapters_have_the_same_names():
    for twin in ("adapter", "framework_state", "gradient_norm", "scalars"):
        torch, paddle = (import_module(f"labbook.probe.{name}.{twin}") for name in ("torch", "paddle"))
        assert public(torch) - ONLY["torch"].get(twin, set()) == public(paddle) - ONLY["paddle"].get(twin, set())
    torch, paddle = (import_module(f"labbook.probe.{name}.adapter") for name in ("torch", "paddle"))
    assert set(torch.SIGNALS) == set(paddle.SIGNALS) - {"compiled and static graphs"}


ONLY = {
    "torch": {
        "adapter": {"wrap_steps"},
        "framework_state": {"generator_state", "count_elements"},
        "scalars": {"DeviceReader"},
    },
    "paddle": {
        "adapter": {"hook_graphs"},
        "framework_state": {"averaging_kinds", "parameter_groups", "group_count", "rates"},
    },
}
"""What only one needs: PyTorch before 2.0 has no hooks, PaddlePaddle keeps groups and rates in its own way, and its
generator has no state that can be compared; Keras runs on PyTorch."""


def public(module):
    return {
        n
        for n, thing in vars(module).items()
        if not n.startswith("_") and getattr(thing, "__module__", "") == module.__name__
    }
