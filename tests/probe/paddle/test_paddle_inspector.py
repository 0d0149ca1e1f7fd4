"""What the probe sees of PaddlePaddle trainings, and that PyTorch's twin programs are described in the same words."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parents[2] / "programs"
KINDS = ("model", "tensors", "batch", "prints", "loss_call", "graph", "loop", "evaluation", "loader", "memory")

pytestmark = [pytest.mark.paddle, pytest.mark.forked("paddle")]


def play(probed, *options, level="deep"):
    """The events of a twin program."""
    probed.settings["level"] = level
    done = probed(sys.executable, str(PROGRAMS / "twins_health.py"), *options, OMP_NUM_THREADS="1")
    assert not done.of("probe_error"), done.of("probe_error")
    return done


@pytest.mark.forked()
def test_a_healthy_training_is_seen_whole(probed):
    done = play(probed, "paddle")
    (model,) = done.of("model")
    assert [module["type"] for module in model["modules"]][1:] == ["Conv2D", "BatchNorm2D", "ReLU", "Dropout", "Linear"]
    assert {module["package"] for module in model["modules"][1:]} == {"paddle"}
    assert {event["graphs"] or 0 for event in done.of("memory")} == {0}
    (norm,) = [module for module in model["modules"] if module["type"] == "BatchNorm2D"]
    assert [event["statistics"] for event in done.of("state") if "parameters" in event][-1] == norm["parameters"]
    names = [parameter["name"] for parameter in model["parameters"]]
    assert names == ["conv.weight", "conv.bias", "norm.weight", "norm.bias", "head.weight", "head.bias"]
    assert model["modules"][2]["options"]["momentum"] == pytest.approx(0.1)
    assert model["parameters"][4]["init"]["fan_in"] == 288
    assert [1, 2] in model["feeds"]
    first = done.of("tensors")[0]
    assert {params["i"] for params in first["params"]} == set(range(6))
    assert all(params["g"] > 0 and params["ratio"] is not False for params in first["params"])
    modules = {module["i"]: module for module in first["modules"]}
    assert modules[2]["bn"]["n"] == 32 * 36
    assert 0 <= modules[3]["dead"] <= 1
    graph = done.of("graph")[0]
    assert graph["reachable"] == 6
    assert not graph["unreachable"]
    assert graph["cut"] is None
    (loader,) = done.of("loader")
    assert (loader["batch_size"], loader["shuffle"], loader["length"], loader["batches"]) == (32, True, 320, 10)
    loop = done.of("loop")[-1]
    assert loop["steps"] == loop["backwards"] == loop["forwards"]["train_grad"] == 12
    assert loop["forwards_lonely"] == 0
    assert loop["cleared"]["0"]["not_cleared"] == 0
    assert loop["frozen"] == 0
    assert loop["never_grad_n"] == loop["outside_n"] == 0
    phase = done.of("evaluation")[0]
    assert (phase["batches"], phase["training"], phase["grad"], phase["samples"]) == (10, False, False, 320)
    assert phase["loss"]["cross_entropy"] > 0
    assert 0 <= phase["accuracy"] <= 1
    batch = done.of("batch")[0]
    assert sum(batch["labels"]["histogram"].values()) == 32
    assert [leaf["role"] for leaf in batch["leaves"]] == ["input", "label"]
    loss = done.of("loss_call")[0]
    assert (loss["fn"], loss["classes"], loss["prob_rows"], loss["outside"]) == ("cross_entropy", 10, 0, 0)
    assert all(
        set(step["ph"]) >= {"data", "forward", "backward", "optimizer"} for step in done.of("step") if "ph" in step
    )


@pytest.mark.long
def test_gradients_that_are_not_cleared(probed):
    cleared = play(probed, "paddle", "--fault", "not_cleared").of("loop")[-1]["cleared"]["0"]
    assert cleared["not_cleared"] == cleared["checked"] == cleared["streak"] == 11
    assert cleared["largest"] > 0


def test_a_cut_graph_is_found_with_its_line(probed):
    done = play(probed, "paddle", "--fault", "cut", "--steps", "24")
    graph = done.of("graph")[0]
    assert set(graph["unreachable"]) == {"conv.weight", "conv.bias", "norm.weight", "norm.bias"}
    assert graph["cut"]["op"] == "detach"
    assert graph["cut"]["source"] == "x = x.detach()"
    assert set(done.of("loop")[-1]["never_grad"]) == set(graph["unreachable"])


@pytest.mark.long
def test_backward_in_eval_mode(probed):
    seen = play(probed, "paddle", "--fault", "eval_mode").of("loop")[-1]["backward_in_eval"]
    assert (seen["count"], seen["in_train"], seen["first_step"], seen["stochastic"]) == (12, 0, 1, True)


@pytest.mark.long
def test_softmax_before_cross_entropy(probed):
    done = play(probed, "paddle", "--fault", "softmax")
    assert done.of("loss_call")[-1]["prob_rows"] == 1.0
    functions = [one for event in done.of("tensors") for one in event["functions"]]
    assert {(one["fn"], one["dim"], one["size"]) for one in functions} == {("softmax", 1, 10)}


@pytest.mark.long
def test_the_flight_recorder_names_layer_operator_and_line(probed):
    (flight,) = play(probed, "paddle", "--fault", "nan").of("flight")
    assert (flight["step"], flight["trigger"], flight["finding"]) == (5, "loss", "forward")
    assert flight["module"] == {"name": "", "type": "Net"}
    assert flight["op"] == "log"
    assert flight["source"] == "x = torch.log(x * 0 - 1)".replace("torch", "paddle")
    assert [row["step"] for row in flight["recent"]] == [1, 2, 3, 4]
    assert flight["batch"]["leaves"][0]["bad"] == 0


def test_what_paddle_is_silent_about(probed):
    loop = play(probed, "paddle", "--fault", "outside").of("loop")[-1]
    (read,) = loop["out_of_bounds"]
    assert (read["op"], read["max"], read["size"]) == ("index", 9, 4)
    losses = play(probed, "paddle", "--fault", "broadcast").of("loss_call")
    recorded = [loss for loss in losses if loss["fn"] == "mse_loss"][-1]
    assert recorded["broadcast"] == recorded["observed"] > 0
    assert recorded["items"] == 32 * 32
    rng = play(probed, "paddle", "--fault", "seed").of("loop")[-1]["rng"]
    assert rng["same"] >= 3
    assert rng["seeded"] >= 3


LOADERS = """
import numpy, paddle
rows = paddle.io.TensorDataset([paddle.ones([8, 2])])
for options in ({}, {"shuffle": True}, {"batch_sampler": paddle.io.BatchSampler(rows, shuffle=True, batch_size=4)}):
    for _ in paddle.io.DataLoader(rows, **options):
        pass
"""


def test_a_loader_in_order_is_told_from_one_that_shuffles(probed):
    done = probed(sys.executable, probed.write("loaders.py", LOADERS), OMP_NUM_THREADS="1")
    assert [loader["shuffle"] for loader in done.of("loader")] == [False, True, True]


TOO_LARGE = """
import paddle
from paddle import nn
paddle.seed(2)
x, y = paddle.randn([64, 8]), paddle.randn([64, 1])
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = paddle.optimizer.SGD(0.05, parameters=model.parameters())
for step in range(12):
    out = model(x)
    loss = (((out - y) * (1e25 if step == 5 else 1)) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
"""


def test_the_expression_of_a_loss_ends_at_the_model_and_nan_is_no_dead_unit(probed):
    probed.settings["level"] = "deep"
    done = probed(sys.executable, probed.write("too_large.py", TOO_LARGE), OMP_NUM_THREADS="1")
    (flight,) = done.of("flight")
    assert (flight["trigger"], flight["finding"]) == ("loss", "loss expression")
    assert flight["op"].startswith("Mean <- ") and "Matmul" not in flight["op"] and "Relu" not in flight["op"]
    rectifiers = [module for event in done.of("tensors") for module in event["modules"] if "dead" in module]
    assert {one["dead"] for one in rectifiers if one["in_bad"]} == {None}
    assert all(one["dead"] is not None for one in rectifiers if not one["in_bad"])


HOUSE = """
def train():
    import paddle
    from paddle import nn

    class Part(nn.Layer):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)

        def forward(self, x):
            return self.used(x)

    model = Part()
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    for step in range(40):
        model(paddle.ones([3, 4])).mean().backward()
        optimizer.step()
        optimizer.clear_grad()
train()
"""


def test_what_was_known_of_a_model_outlives_it(probed):
    loop = probed(sys.executable, probed.write("inside.py", HOUSE), OMP_NUM_THREADS="1").of("loop")[-1]
    assert loop["steps"] == 40
    assert loop["never_grad"] == loop["never_called"] == ["unused.weight", "unused.bias"]


BOOTSTRAPPED = """
import paddle
from labbook.probe.paddle.autograd_graph import count_penalised, is_bootstrapped
from paddle.nn.functional import mse_loss, smooth_l1_loss
online, target, x, r, d = paddle.nn.Linear(3, 2), paddle.nn.Linear(3, 2), *(paddle.rand([4, n]) for n in (3, 1, 1))
r, d, best = r[:, 0], d[:, 0], lambda net: net(x).max(axis=1)
for loss, goal in (
    (mse_loss, r + 0.9 * best(online) * (1 - d)),
    (smooth_l1_loss, r + 0.9 * best(online)),
    (lambda one, other: ((other - one) ** 2).mean(), (r + online(x)[:, 1] * (1 - d) * 0.9).reshape([4])),
    (mse_loss, r + 0.9 * online(x)[:, 1]),
    (mse_loss, (r + 0.9 * best(online) * (1 - d)).detach()),
    (mse_loss, r + 0.9 * best(target) * (1 - d)),
    (mse_loss, r + online(x)[:, 1]),
    (mse_loss, best(online)),
    (lambda one, other: (other - one).mean(), r + 0.5 * best(online).square()),  # the likelihood of a flow
):
    print(is_bootstrapped([loss(online(x)[:, 0], goal)]))
fit, squares = mse_loss(online(x), x[:, :2]), sum((p**2).sum() for p in online.parameters())
print(*map(count_penalised, ([fit], [fit + squares], [fit + (online.bias * online.bias).sum()])))
"""


def test_targets_with_a_gradient_and_penalties_are_read_off_the_graph(probed):
    done = probed(sys.executable, probed.write("bootstrapped.py", BOOTSTRAPPED), OMP_NUM_THREADS="1")
    assert done.out.split()[-12:] == ["True"] * 4 + ["False"] * 5 + ["0", "2", "1"]


POLICIES = """
import json, paddle
from labbook.probe.inspection.policy_loss import ascends, clipped_ratio, is_inverted, weighted_by_values
from labbook.probe.paddle.autograd_graph import LOSS_GRAPH, _roots
functional = paddle.nn.functional
net, x, a = paddle.nn.Linear(5, 4), paddle.rand([8, 5]), paddle.zeros([8, 1], "int64")
r, critic = paddle.rand([8]), paddle.nn.Linear(5, 1)
log, v = functional.log_softmax(net(x)).take_along_axis(a, 1).squeeze(1), critic(x).squeeze(-1)
chosen = paddle.log(functional.softmax(net(x))[:, 0])
old = log.detach() * 1.01
scaled = lambda one: (one - one.mean()) / (one.std() + 1e-8)
clipped = lambda one: -paddle.minimum(one * r, paddle.clip(one, 0.8, 1.2) * r).mean()
read = lambda loss: [
    ascends(LOSS_GRAPH, _roots([loss])),
    weighted_by_values(LOSS_GRAPH, _roots([loss])),
    (ratio := clipped_ratio(LOSS_GRAPH, _roots([loss]))) and is_inverted(LOSS_GRAPH, ratio),
]
print(json.dumps([read(loss) for loss in (
    log.mean(),
    -log.mean(),
    (log * r).sum(),
    -(log * (r - v)).mean(),
    (-chosen * scaled(r - v)).sum() + functional.mse_loss(v, r),
    -(paddle.distribution.Normal(v, paddle.ones([8])).log_prob(r) * (r - v)).mean(),
    -(log * (r - v.detach())).mean() + functional.mse_loss(v, r),
    (functional.softmax(net(x)) * functional.log_softmax(net(x))).sum(),
    clipped(paddle.exp(log - old)),
    clipped((old - log).exp()),
    (old - log).exp().mean(),
)]))
"""


def test_a_policy_loss_is_read_from_the_graph(probed):
    done = probed(sys.executable, probed.write("policies.py", POLICIES), OMP_NUM_THREADS="1")
    ascending, weighted, inverted = zip(*json.loads(done.out.splitlines()[-1]), strict=True)
    assert ascending == (True, *[False] * 10)
    assert weighted == (*[False] * 3, *[True] * 3, *[False] * 5)
    assert inverted == (*[None] * 8, False, True, None)


CLIPPED = """
import sys, paddle
net, rows = paddle.nn.Linear(5, 4), paddle.rand([16, 5])
optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
new = lambda: paddle.nn.functional.log_softmax(net(rows))[:, 0]
old = new().detach()
for _ in range(24):
    log = new()
    ratio = (log - (log.detach() if "always" in sys.argv else old)).exp()
    (-paddle.minimum(ratio, ratio.clip(0.8, 1.2))).mean().backward()
    optimizer.step()
    optimizer.clear_grad()
"""


def test_the_ratio_of_a_policy_loss_is_watched_in_the_first_steps(probed):
    for arguments, ones in (([], 0), (["always"], 19)):
        done = probed(sys.executable, probed.write("clipped.py", CLIPPED), *arguments, OMP_NUM_THREADS="1")
        graph = done.of("graph")[-1]
        assert (graph["ratios"], graph["ratios_one"]) == (19, ones)


COMPILED = """
import sys, paddle

class Model(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.line = paddle.nn.Linear(3, 1)

    def forward(self, x, y):
        return paddle.mean(paddle.square(self.line(x) - y))

model = paddle.jit.to_static(Model(), full_graph="full" in sys.argv)
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
target = paddle.rand([8] if "broken" in sys.argv else [8, 1])
for _ in range(24):
    model(paddle.rand([8, 3]), target).backward()
    optimizer.step()
    optimizer.clear_grad()
"""


@pytest.mark.parametrize("how", ["full", "guarded"])
def test_the_loss_of_a_compiled_function_is_read(probed, how):
    for word, shape in (("broken", [8, 8]), ("fixed", None)):
        done = probed(sys.executable, probed.write("compiled.py", COMPILED), how, word, OMP_NUM_THREADS="1")
        blown = done.of("graph")[-1]["blown"]
        assert (blown and blown["shape"]) == shape


LEAKING = """
import paddle
from paddle import nn
original, count = paddle.Tensor.grad_fn, [0]

def counted(tensor):
    count[0] += 1
    return original.__get__(tensor)

paddle.Tensor.grad_fn = property(counted)
model, head = nn.Linear(4, 2), nn.Linear(2, 1)
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters() + head.parameters())
for step in range(80):
    if step == 30:
        count[0] = 0
    head(model(paddle.ones([3, 4]))).mean().backward()
    optimizer.step()
    optimizer.clear_grad()
print(count[0])
"""


@pytest.mark.parametrize("level", ["normal", "deep"])
@pytest.mark.long
def test_nodes_of_the_graph_are_left_alone_after_the_first_steps(probed, level):
    """PaddlePaddle 3.3 never frees what `Tensor.grad_fn` returns: 8 KB each time."""
    probed.settings["level"] = level
    assert probed(sys.executable, probed.write("counted.py", LEAKING), OMP_NUM_THREADS="1").out.split()[-1] == "0"


@pytest.mark.torch
@pytest.mark.parametrize("fault", ["", *(pytest.param(fault, marks=pytest.mark.long) for fault in ("cut", "nan"))])
def test_both_frameworks_tell_the_same_fields(probed, forked, fault):
    """An event of PaddlePaddle has exactly the fields that its twin in PyTorch has, down to nested ones."""
    options = ("--fault", fault, "--steps", "24")
    shapes = []
    for framework in ("torch", "paddle"):
        probed.forked = forked(framework)
        done = play(probed, framework, *options)
        shapes.append({kind: fields_of(done.of(kind)) for kind in (*KINDS, *(("flight",) if fault == "nan" else ()))})
    for kind, fields in shapes[0].items():
        assert fields == shapes[1][kind], kind


_LISTS = {"params", "modules", "leaves", "input", "output", "parameters"}
_EITHER = {
    "g_bad",
    "g_zero",
    "g",
    "writes",
    "constant_n",
    "constant_at",
    "reason",
    "state",
    "options",
}


def fields_of(events, kinds=("framework", "v", "n", "t", "k")):
    """Names of all fields of some events, those of nested objects and lists of objects included."""
    found = set()

    def collect(prefix, value):
        if isinstance(value, dict):
            for name, inner in value.items():
                if name in kinds or name in _EITHER or name.isdigit():
                    continue
                found.add(prefix + name)
                if name in {"forwards", "cleared", "rng", "backward_in_eval", "cut", *_LISTS}:
                    collect(prefix + name + ".", inner)
        elif isinstance(value, list):
            for inner in value:
                collect(prefix, inner)

    for event in events:
        collect("", event)
    return found
