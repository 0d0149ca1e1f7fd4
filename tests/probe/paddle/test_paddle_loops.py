"""What the probe sees in PaddlePaddle beside the model: short runs, losses by hand, averages, and judges."""

from __future__ import annotations

import sys

import pytest

pytestmark = [pytest.mark.paddle, pytest.mark.forked("paddle")]

SHORT = """
import paddle
from paddle import nn

class Network(nn.Layer):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.utils.spectral_norm(nn.Linear(8, 4)), nn.Linear(3, 3)
    def forward(self, x):
        return self.used(x)

def train():
    paddle.seed(3)
    model, critic, spare = Network(), nn.Linear(4, 1), nn.Linear(4, 1)
    model.eval()
    model(paddle.ones([2, 8]))
    model.train()
    rules = [paddle.optimizer.AdamW(0.01, parameters=one.parameters()) for one in (model, spare)]
    for _ in range(6):
        critic(model(paddle.randn([5, 8]))).mean().backward()
        for rule in rules:
            rule.step()
            rule.clear_grad()
train()
"""


@pytest.mark.long
def test_short_runs_inside_functions_with_adamw_are_known_to_the_end(probed):
    """AdamW calls no constructor of its base class; `critic` is in no optimizer, and `spare` in no forward."""
    done = probed(sys.executable, probed.write("short.py", SHORT), OMP_NUM_THREADS="1")
    loop = done.of("loop")[-1]
    assert (loop["optimizers"], loop["judged"]) == (2, 6)
    assert loop["never_grad"] == ["unused.weight", "unused.bias"]
    assert (loop["outside"], loop["models_left_out"]) == (["weight", "bias"], ["Linear"])
    assert loop["stale"]["1"]["tensors"] == 2
    assert not [leaf for graph in done.of("graph") for leaf in graph["foreign"] if leaf["parameter"]]
    assert [model["spectral_eval_first"] for model in done.of("model") if model["root"].endswith("Network")] == [
        ["used"]
    ]


SEVERAL = """
import gc
import paddle
from paddle import nn

class Network(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 3), nn.Linear(3, 2)
    def forward(self, x):
        return self.head(self.body(x))

def train(net, parameters=None):
    rule = paddle.optimizer.SGD(0.1, parameters=parameters or net.parameters())
    for _ in range(3):
        net(paddle.randn([5, 4])).sum().backward(); rule.step(); rule.clear_grad()

for _ in range(12):
    train(Network())
net = Network()
train(net, net.head.parameters())
train(net)
gc.collect()
other = Network()
train(other)
"""


def test_optimizers_tell_which_model_they_train(probed):
    """Also those that are gone: no gradient of `net` is called unused in the training of `other`."""
    done = probed(sys.executable, probed.write("several.py", SEVERAL), OMP_NUM_THREADS="1")
    made = done.of("optimizer")
    assert [event["trains"] for event in made] == [*range(13), 12, 13]
    assert {event["root"] for event in made} == {"Network"} and made[0]["parameters"] == 23
    assert done.of("loop")[-1]["outside"] == []


REPLACED = """
import gc
import paddle
from paddle import nn

def train():
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1D(3))
    rule = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    for _ in range(40):
        net(paddle.randn([5, 4])).sum().backward(); rule.step(); rule.clear_grad()
    return net, rule

first = train()[1]
gc.collect()
net, second = train()
"""


def test_running_statistics_of_a_model_that_is_gone_are_no_stale_parameters(probed):
    loop = probed(sys.executable, probed.write("replaced.py", REPLACED), OMP_NUM_THREADS="1").of("loop")[-1]
    assert not loop.get("stale")


AFTER = """
import paddle
import paddle.nn.functional as F
from paddle import nn

paddle.seed(4)
model = nn.Linear(6, 3)
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
for _ in range(4):
    with paddle.amp.auto_cast(dtype="bfloat16"):
        scores = model(paddle.randn([8, 6]))
    chances = F.softmax(scores, axis=0)
    loss = -paddle.log(nn.Softmax()(scores * 2) * chances).mean()
    shown = F.softmax(scores.detach())
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    F.softmax(scores * 3)
"""


def test_a_softmax_between_model_and_loss_is_looked_at(probed):
    """Not one that shows predictions, nor one after the backward."""
    done = probed(sys.executable, probed.write("after.py", AFTER), OMP_NUM_THREADS="1")
    seen = [(row["line"], row["dim"], row["size"], row["of_output"]) for row in done.of("tensors")[-1]["functions"]]
    assert seen == [("after.py:12", 0, 8, True), ("after.py:13", 1, 3, False)]
    assert done.of("loop")[-1]["cast_ignored"] == {"level": "O1", "dtype": "bfloat16"}


TOGETHER = """
import sys
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import DataLoader, TensorDataset

paddle.seed(5)
judge, model = nn.Linear(4, 2), nn.Linear(6, 4)
if sys.argv[1:] != ["training"]:
    judge.eval()
optimizer = paddle.optimizer.Adam(0.01, parameters=model.parameters())
slow = paddle.incubate.LookAhead(optimizer, alpha=0.5, k=3)
data = TensorDataset([paddle.randn([60, 6])])
for epoch in range(2):
    for (batch,) in DataLoader(data, batch_size=10, shuffle=True):
        with paddle.no_grad():
            wanted = model(batch)
        answer = model(batch)
        (F.mse_loss(answer, wanted) + judge(answer).mean()).backward()
        slow.step()
        slow.clear_grad()
"""


@pytest.mark.parametrize("mode", ["evaluation", "training"])
@pytest.mark.long
def test_judges_and_averages_beside_a_training(probed, mode):
    done = probed(sys.executable, probed.write("together.py", TOGETHER), mode, OMP_NUM_THREADS="1")
    loop = done.of("loop")[-1]
    assert loop["steps"] == 12  # LookAhead averages what Adam trains; it takes no step of its own
    assert loop["outside_models"] == (mode == "evaluation")
    assert loop["held_twice"] == 0
    # What was evaluated first, as by a teacher, is trained on all the same.
    assert {(p["phase"], p["batches"]) for p in done.of("prints") if p["loader"] is not None} == {
        ("eval", 6),
        ("train", 6),
    }


DIFFERENCES = """
import sys
import paddle
from paddle import nn

before = paddle.Tensor.__sub__
model = nn.Linear(6, 1) if len(sys.argv) < 3 else paddle.jit.to_static(nn.Linear(6, 1))
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
form = [8] if sys.argv[1] == "row" else [8, 1]
for _ in range(5):
    output = model(paddle.randn([8, 6]))
    pairs = output - output.t()
    ((paddle.randn(form) - output) ** 2).mean().backward()
    assert paddle.Tensor.__sub__ is before
    optimizer.step()
    optimizer.clear_grad()
"""


@pytest.mark.parametrize("form", [["row"], ["column"], ["row", "compiled"], ["column", "compiled"]])
def test_a_difference_by_hand_of_a_column_and_a_row(probed, form):
    """Differences of all pairs of outputs are meant."""
    done = probed(sys.executable, probed.write("differences.py", DIFFERENCES), *form, OMP_NUM_THREADS="1")
    blown = {"op": "sub", "shape": [8, 8], "of": [8, 1], "sure": True, "line": "differences.py:13"}
    assert done.of("graph")[0]["blown"] == (blown if form[0] == "row" else None)


TERMS = """
import paddle
from paddle import nn

paddle.seed(6)
model = nn.Linear(6, 3)
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
for _ in range(6):
    output = model(paddle.randn([8, 6]))
    spread = output.var().item()
    size = output.detach().abs().mean()
    shown = output.mean() + size
    loss = (output ** 2).mean() + 0.1 * spread + size + 1.0
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""


def test_terms_of_a_loss_without_gradient(probed):
    """What changes from step to step, on the way to the backward call."""
    done = probed(sys.executable, probed.write("terms.py", TERMS), OMP_NUM_THREADS="1")
    assert not done.of("probe_error")
    found = done.of("graph")[-1]["constant"]
    assert {(term["line"], term["number"], len(term["values"])) for term in found} == {
        ("terms.py:13", True, 3),
        ("terms.py:13", False, 3),
    }


WORKERS = """
import numpy as np
import paddle
from paddle import nn
from paddle.io import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        return np.random.rand(4).astype("float32")

def alike(worker):
    np.random.seed(7)

model = nn.Linear(4, 1)
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
for rows in DataLoader(Rows(), batch_size=4, num_workers=2, worker_init_fn=alike):
    model(rows).mean().backward()
    optimizer.step()
    optimizer.clear_grad()
"""


def test_the_memory_and_the_seeds_of_workers(probed):
    done = probed(sys.executable, probed.write("workers.py", WORKERS), OMP_NUM_THREADS="1")
    assert any((recorded["workers_rss"] or 0) > 0 for recorded in done.of("memory"))
    assert done.of("loader")[0]["drawn_alike"] is True


BODY = """
import paddle
import paddle.nn.functional as F
from paddle import nn

paddle.seed(8)
body, head = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1D(8), nn.ReLU()), nn.Linear(8, 1)
optimizer = paddle.optimizer.SGD(0.01, parameters=[*body.parameters(), *head.parameters()])
for _ in range(3):
    codes = body(paddle.randn([10, 6]))
    spread = (codes * 0.0).square().mean(0).sqrt()
    loss = F.mse_loss(head(codes), paddle.randn([10, 1])) + (spread - 1).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""


def test_a_gradient_that_goes_wrong_before_the_head(probed):
    """The head, which was called last, computes finite gradients; running statistics are no parameters."""
    done = probed(sys.executable, probed.write("body.py", BODY), OMP_NUM_THREADS="1")
    (flight,) = done.of("flight")
    assert (flight["finding"], flight["trigger"], flight["op"]) == ("loss expression", "gradient", "Sqrt")
    assert "Sequential" in flight["reason"]
    recorded = {name: value for state in done.of("state") for name, value in state.items()}
    assert recorded["parameters"] == recorded["trainable"]


INSIDE = """
import paddle
import paddle.nn.functional as F
from paddle import nn

class Network(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 1)
    def forward(self, x):
        hidden = F.relu(self.first(x)) * 1.0
        length = paddle.sqrt((hidden * 0.0).sum(1, keepdim=True))
        return self.last(hidden + length)

paddle.seed(8)
model = Network()
optimizer = paddle.optimizer.Adam(0.01, parameters=model.parameters())
for _ in range(3):
    F.mse_loss(model(paddle.randn([10, 6])), paddle.randn([10, 1])).backward()
    optimizer.step()
    optimizer.clear_grad()
"""


def test_the_operator_whose_backward_is_not_finite(probed):
    """Found by hooks: PaddlePaddle's own check is a setting of the whole process, and prints."""
    done = probed(sys.executable, probed.write("inside.py", INSIDE), OMP_NUM_THREADS="1")
    assert not done.of("probe_error")
    (flight,) = done.of("flight")
    assert (flight["finding"], flight["op"], flight["line"]) == ("backward", "sqrt_grad", 12)
    assert "PRECISION" not in done.out + done.err


def test_the_rate_of_a_schedule_is_the_one_that_it_begins_with(probed):
    program = """
from labbook.probe.paddle.framework_state import _base_rate
from paddle.optimizer.lr import LinearWarmup, OneCycleLR, PiecewiseDecay, StepDecay
rates = PiecewiseDecay([30, 50], [0.05, 0.005, 0.0005]), StepDecay(0.3, 5), OneCycleLR(0.02, 99)
print([_base_rate(one) for one in (*rates, *(LinearWarmup(rate, 5, 0.0, 0.2) for rate in rates))])
"""
    assert (
        probed(sys.executable, probed.write("rates.py", program)).out.split("\n")[-2]
        == "[0.05, 0.3, 0.02, 0.05, 0.3, 0.02]"
    )


BEHIND = """
import paddle
from paddle import nn
net, x, y = nn.Linear(4, 3), paddle.randn([40, 4]), paddle.randint(0, 3, [40])
optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
for _ in range(6):
    for at in range(0, 40, 10):
        nn.functional.cross_entropy(net(x[at : at + 10]), y[at : at + 10]).backward()
        optimizer.step()
        optimizer.clear_grad()
    with paddle.no_grad():
        scores = net(x)
    float(nn.functional.cross_entropy(scores, y))
"""


def test_a_loss_of_the_validation_behind_the_block_without_gradients_has_no_target_of_the_training(probed):
    done = probed(sys.executable, probed.write("behind.py", BEHIND), OMP_NUM_THREADS="1")
    looked = [leaf["shape"] for b in done.of("batch") for leaf in b["leaves"] if leaf["path"] == "target"]
    assert len(looked) > 6 and set(map(tuple, looked)) == {(10,)}


LOOSE = """
import paddle
model = paddle.nn.Linear(6, 3)
rate = paddle.optimizer.lr.ReduceOnPlateau(0.1)
optimizer = paddle.optimizer.SGD({rate}, parameters=model.parameters())
for _ in range(6):
    labels = paddle.cast(paddle.ones([4, 1]), "float32")
    loss = paddle.nn.functional.log_loss(paddle.nn.functional.sigmoid(model(paddle.randn([4, 6]))[:, :1]), labels)
    loss.mean().backward()
    optimizer.step()
    optimizer.clear_grad()
    rate.step(loss.mean())
"""


@pytest.mark.parametrize(("rate", "loose"), [("0.1", ["ReduceOnPlateau"]), ("rate", [])])
def test_a_plateau_scheduler_without_an_optimizer_and_the_logarithmic_loss_are_known(run, healthy, rate, loose):
    outcome = healthy(run(LOOSE.format(rate=rate), fork="paddle"))
    assert [one["type"] for one in outcome.of("loop")[-1].get("idle_schedulers", [])] == loose
    assert {call["fn"] for call in outcome.of("loss_call")} == {"binary_cross_entropy"}
