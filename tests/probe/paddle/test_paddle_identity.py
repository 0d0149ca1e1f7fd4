"""Watching a PaddlePaddle training changes nothing: losses, weights and random states are the same, bit by bit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parents[2] / "programs"

pytestmark = [pytest.mark.paddle, pytest.mark.forked("paddle")]

PROGRAM = """
import hashlib, random, sys
import numpy as np, paddle
import paddle.nn as nn, paddle.nn.functional as F
from paddle.io import DataLoader
kind = sys.argv[1]
paddle.seed(5); np.random.seed(5); random.seed(5)

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2D(1, 4, 3), nn.BatchNorm2D(4), nn.Dropout(0.3)
        self.first, self.last, self.bad = nn.Linear(144, 32), nn.Linear(32, 5), False

    def forward(self, x):
        h = F.relu(self.norm(self.conv(x))).flatten(1)
        h = F.relu(self.first(self.drop(h)))
        return self.last(h / (h * 0) if self.bad else h)

x, y = np.random.rand(64, 1, 8, 8).astype("float32"), np.random.randint(0, 5, 64)
loader = DataLoader(list(zip(x, y)), batch_size=16, shuffle=True, num_workers=2 if kind == "workers" else 0)
model = Net()
rate = paddle.optimizer.lr.CosineAnnealingDecay(1e-3, 50)
clip = nn.ClipGradByGlobalNorm(1.0)
optimizer = paddle.optimizer.AdamW(rate, parameters=model.parameters(), grad_clip=clip)
scaler = paddle.amp.GradScaler(init_loss_scaling=128.0) if kind == "amp" else None
digest, step = hashlib.sha256(), 0
for epoch in range(4):
    model.train()
    for a, b in loader:
        step += 1
        model.bad = kind == "nan" and step == 7
        if scaler:
            with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
                loss = F.cross_entropy(model(a), b)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss = F.cross_entropy(model(a), b)
            loss.backward()
            optimizer.step()
        optimizer.clear_grad()
        rate.step()
        digest.update(float(loss).hex().encode())
    model.eval()
    with paddle.no_grad():
        for a, b in loader:
            digest.update(float(F.cross_entropy(model(a), b)).hex().encode())
if kind == "draw":
    paddle.rand([1])
for tensor in model.state_dict().values():
    digest.update(tensor.numpy().tobytes())
digest.update(repr((paddle.randn([3]).tolist(), random.random(), np.random.rand())).encode())
print(digest.hexdigest())
"""


def digest(text):
    """The last line of an output."""
    return text.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "kind", ["nan", *(pytest.param(k, marks=pytest.mark.long) for k in ("workers", "plain", "amp"))]
)
def test_a_watched_training_computes_the_same(probed, kind):
    script = probed.write("train.py", PROGRAM)
    bare = digest(probed.plain(sys.executable, script, kind, OMP_NUM_THREADS="1").stdout)
    for level in ("light", "normal", "deep"):
        probed.settings["level"] = level
        done = probed(sys.executable, script, kind, OMP_NUM_THREADS="1")
        assert digest(done.out) == bare, level
        assert done.of("tensors")
        assert not done.of("probe_error")
        assert len(done.of("flight")) == (kind == "nan")


def test_one_more_random_number_would_be_noticed(probed):
    script = probed.write("train.py", PROGRAM)
    digests = {
        digest(probed.plain(sys.executable, script, kind, OMP_NUM_THREADS="1").stdout) for kind in ("plain", "draw")
    }
    assert len(digests) == 2


@pytest.mark.slow
@pytest.mark.parametrize("program", ["health_paddle_hostile.py", "health_paddle_kinds.py"])
@pytest.mark.parametrize(
    ("part", "level"),
    [(0, "deep"), *(pytest.param(part, level, marks=pytest.mark.long) for part, level in ((1, "deep"), (0, "normal")))],
)
def test_programs_of_every_kind_run_as_alone(probed, program, part, level):
    command = (sys.executable, str(PROGRAMS / program), str(part))
    bare = json.loads(digest(probed.plain(*command, OMP_NUM_THREADS="1").stdout))
    probed.settings["level"] = level
    done = probed(*command, OMP_NUM_THREADS="1")
    watched = json.loads(digest(done.out))
    for name, result in bare.items():
        assert watched[name] == result, name
    assert not [name for name, (result, _) in bare.items() if isinstance(result, str) and "Error" in result]
    assert done.of("probe_error") == []
    assert done.of("tensors")


DIRECT = """
import functools, inspect, sys, traceback, paddle
from paddle import nn
class Base(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner, self.bias, self.drop = nn.Linear(4, 4), self.create_parameter([4]), nn.Dropout(0.5)
    def forward(self, x):
        return self.drop(self.inner(x)) + self.bias
class Net(Base):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)
    def forward(self, x, scale=1.0):
        return self.head(super().forward(x)) * scale
    value = forward
paddle.seed(0)
net, x = Net(), paddle.randn([32, 4])
taken = functools.partial(Net.forward, net) if sys.argv[1] == "taken" else None
y, optimizer = x[:, :3].argmax(1), paddle.optimizer.SGD(0.1, parameters=net.parameters())
for _ in range(30):
    loss = nn.functional.cross_entropy((taken or getattr(net, sys.argv[1]))(x, scale=1.5), y)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    print(float(loss).hex())
net.eval()
for one, args in ((net, ()), (Base(), (x[:, 1:],)), (net, (x[:, 1:],))):
    for call in (one.forward, one):
        try:
            call(*args)
        except (TypeError, ValueError):
            print([line for line in traceback.format_exc().splitlines() if "train.py" not in line])
print(inspect.signature(net.forward), inspect.getfullargspec(net.forward).args)
print(float(paddle.jit.to_static(net, full_graph=True)(x).sum()).hex())
"""


@pytest.mark.parametrize("how", ["forward", "value", "taken"])
def test_a_forward_that_is_called_directly_is_observed_and_keeps_its_results_and_errors(probed, how):
    script = probed.write("train.py", DIRECT)
    bare = probed.plain(sys.executable, script, how, OMP_NUM_THREADS="1").stdout
    done = probed(sys.executable, script, how, OMP_NUM_THREADS="1")
    assert done.out == bare and not done.of("probe_error")
    looks = {p["i"] for event in done.of("tensors") for p in event["params"]}
    if how == "taken":  # before its class was changed: its layers are observed one by one
        assert {model["modules"][0]["type"] for model in done.of("model")} >= {"Linear"} and looks
        return
    (model,) = done.of("model")
    assert [(one["name"], one["type"]) for one in model["modules"]] == [
        ("", "Net"), ("inner", "Linear"), ("drop", "Dropout"), ("head", "Linear"),
    ]  # fmt: skip
    assert looks == set(range(len(model["parameters"])))
    assert "bias" in {one["name"] for one in model["parameters"]}
