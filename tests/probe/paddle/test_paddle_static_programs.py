"""Steps of static programs: losses, learning rates, parameters, what is fed, and what the operators show."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.paddle, pytest.mark.forked("paddle")]

PROGRAM = """
import json, numpy, paddle
paddle.enable_static()
paddle.seed(1)
x = paddle.static.data("x", [None, 6])
y = paddle.static.data("y", [None])
label = paddle.static.data("label", [None, 1], "int64")
hidden = paddle.static.nn.fc(x, 8, activation="relu")
classes = paddle.static.nn.fc(hidden, 4, activation="softmax")
loss = paddle.mean(paddle.nn.functional.cross_entropy(classes, label))
loss = loss + paddle.mean(paddle.nn.functional.square_error_cost(paddle.static.nn.fc(hidden, 1), y))
paddle.optimizer.SGD(paddle.optimizer.lr.StepDecay(0.5, 3)).minimize(loss)
executor = paddle.static.Executor()
executor.run(paddle.static.default_startup_program())
random = numpy.random.RandomState(0)
fed = {"x": random.randn(5, 6).astype("float32"), "y": random.randn(5).astype("float32")}
fed["label"] = random.randint(0, 4, (5, 1))
losses = [executor.run(feed=fed, fetch_list=[classes, loss])[1] for _ in range(40)]
print(json.dumps([loss.item() for loss in losses]))
"""


def test_each_run_of_a_program_with_an_optimizer_is_a_step(run, healthy):
    outcome = healthy(run(PROGRAM, fork="paddle"))
    assert outcome.result == run(PROGRAM, fork="paddle", probe=False).result
    steps = outcome.of("step")
    assert [one["loss"] for one in steps] == outcome.result and len(steps) == 40
    assert {rate for one in steps for rate in one["lr"]} == {0.5}
    assert outcome.merged()["mode"] == "static" and outcome.of("optimizer")[0]["type"] == "SGD"
    (model,) = outcome.of("model")
    shapes = [tuple(row["shape"]) for row in model["parameters"]]
    assert sorted(shapes) == [(1,), (4,), (6, 8), (8,), (8, 1), (8, 4)]
    layers = {row["name"]: row for row in model["modules"]}
    assert list(layers) == ["", "fc_0", "fc_1", "fc_2"] and layers["fc_0"]["parameters"] == 56
    assert {row["name"].partition(".")[0]: row["module"] for row in model["parameters"]} == {
        "fc_0": 1,
        "fc_1": 2,
        "fc_2": 3,
    }
    assert outcome.of("memory")[-1]["rss"] > 0
    looks = outcome.of("tensors")
    assert 6 < len(looks) < 20 and all(row["w"] > 0 for row in looks[-1]["params"])
    assert all(looks[0]["params"][at]["ratio"] > 0 for at, shape in enumerate(shapes) if len(shape) == 2)


def test_the_seed_of_a_program_and_the_files_that_it_is_saved_in_are_known(run, healthy, tmp_path):
    program = PROGRAM.replace("paddle.seed(1)", "paddle.static.default_main_program().random_seed = 7")
    saved = "paddle.static.save(paddle.static.default_main_program(), sys.argv[1])\n"
    outcome = healthy(run("import sys\n" + program + saved, str(tmp_path / "model"), fork="paddle"))
    assert outcome.merged()["seeds"]["paddle"] == 7
    written = {item["path"].rpartition("/")[2] for event in outcome.of("files") for item in event["items"]}
    assert {"model.json", "model.pdparams"} <= written


def test_what_is_fed_and_what_the_operators_show(run, healthy):
    outcome = healthy(run(PROGRAM, fork="paddle"))
    batch = outcome.of("batch")[0]
    assert [(leaf["path"], leaf["role"]) for leaf in batch["leaves"]] == [("x", "input"), *[("target", "label")] * 2]
    assert sum(batch["labels"]["histogram"].values()) == batch["samples"] == 5
    calls = {call["fn"]: call for call in outcome.of("loss_call")}
    assert calls["cross_entropy"]["prob_rows"] == 1.0 and calls["cross_entropy"]["classes"] == 4
    assert calls["mse_loss"]["prob_rows"] == 0.0 and calls["mse_loss"]["reduction"] == "mean"
    (graph,) = outcome.of("graph")
    assert graph["blown"]["shape"] == [5, 5] and graph["blown"]["line"] == calls["mse_loss"]["line"] == "program.py:11"


def test_the_level_decides_how_often_a_static_program_is_looked_at(run, healthy):
    counts = [
        len(healthy(run(PROGRAM, fork="paddle", settings={"level": level})).of("tensors"))
        for level in ("light", "normal", "deep")
    ]
    assert counts[0] < counts[1] < counts[2]


MISUSED = """
import sys, numpy, paddle
paddle.enable_static()
static = paddle.static
x = static.data("x", [None, 6])
loss = paddle.mean(paddle.square(static.nn.fc(static.nn.fc(x, 8), 1)))
parts = static.default_main_program().global_block().all_parameters()
early = static.default_main_program().clone()
paddle.optimizer.SGD(0.01).minimize(loss, parameters=parts[:2])
paddle.optimizer.Adam(0.01).minimize(loss, parameters=parts[2:])
late = static.default_main_program().clone()
executor = static.Executor()

def run(program=None):
    executor.run(program, feed={"x": numpy.ones((4, 6), "float32")}, fetch_list=[] if program else [loss])

def evaluate():
    run({"early": early, "late": late}.get(sys.argv[1]))

for fold in range(3):
    executor.run(static.default_startup_program())
    for epoch in range(4):
        if sys.argv[1] == "again":
            executor.run(static.default_startup_program())
        run()
        if sys.argv[1] in ("early", "late", "same"):
            evaluate()
"""


@pytest.mark.parametrize(
    ("mistake", "rising", "updates"),
    [("", 0, None), ("again", 12, None), ("early", 0, None), ("late", 0, (12, "")), ("same", 0, (12, "evaluate"))],
)
def test_runs_that_disturb_a_training_are_counted(run, healthy, mistake, rising, updates):
    outcome = healthy(run(MISUSED, mistake, fork="paddle"))
    loop = outcome.of("loop")[-1]
    assert abs(loop["restarts"]["rising"] - rising) <= 3
    wrong = loop.get("evaluation_updates")
    assert (wrong and (wrong["count"], wrong["function"])) == updates
    by_optimizer = {one["opt"] for one in outcome.of("step")}
    assert len(by_optimizer) == 2


EVALUATED = """
import sys, numpy, paddle
paddle.enable_static()
static = paddle.static

def net(training):
    named = {"weight_attr": "w", "bias_attr": "b"} if training is not None else {}
    hidden = static.nn.fc(static.data("x", [None, 6]), 8, **named)
    return paddle.mean(paddle.nn.functional.dropout(hidden, 0.5, training=bool(training)))

other = {"training": True, "test": False, "stranger": None}[sys.argv[1]]
test, begins = static.Program(), static.Program()
with static.program_guard(test, begins):
    net(other)
loss = net(True)
paddle.optimizer.SGD(0.01).minimize(loss)
executor = static.Executor()
executor.run(begins)
executor.run(static.default_startup_program())
feed = {"x": numpy.ones((4, 6), "float32")}
for epoch in range(3):
    for _ in range(6):
        executor.run(feed=feed, fetch_list=[loss])
    for _ in range(4):
        executor.run(test, feed=feed)
"""


@pytest.mark.parametrize("pir", ["0", "1"])
@pytest.mark.parametrize("program", ["training", "test", "stranger"])
def test_runs_of_another_program_are_an_evaluation(run, healthy, program, pir):
    outcome = healthy(run(EVALUATED, program, FLAGS_enable_pir_api=pir))
    phases = outcome.of("evaluation")
    assert len(phases) == (0 if program == "stranger" else 3)
    assert all(one["batches"] == 4 and one["stochastic"] is (program == "training") for one in phases)
    assert [one["begin_step"] for one in phases] == [7, 13, 19][: len(phases)]


HELD_OUT = """
import sys, numpy, paddle
paddle.enable_static()
static = paddle.static
x = static.data("x", [None, 6])
loss = paddle.mean(paddle.square(static.nn.fc(x, 1)))
score = paddle.mean(x)
paddle.optimizer.SGD(0.01).minimize(loss)
executor = static.Executor()
executor.run(static.default_startup_program())
rows = numpy.random.RandomState(0).randn(100, 6).astype("float32")
for epoch in range(4):
    for begin in range(0, 80, 4):
        part = rows[begin : begin + 4]
        if sys.argv[1] == "seldom" and begin % 8:
            executor.run(feed={"x": part}, fetch_list=[])
        else:
            executor.run(feed={"x": part}, fetch_list=[loss])
    for begin in range(0 if sys.argv[1] == "trained" else 80, 100, 4) if sys.argv[1] != "seldom" else ():
        fetched = [loss, score] if sys.argv[1] == "loss" else [score]
        executor.run(feed={"x": rows[begin : begin + 4]}, fetch_list=fetched)
"""


@pytest.mark.parametrize(("case", "runs"), [("judged", 20), ("trained", None), ("loss", None), ("seldom", None)])
def test_a_line_that_only_judges_is_known_by_its_data(run, healthy, case, runs):
    loop = healthy(run(HELD_OUT, case, fork="paddle")).of("loop")[-1]
    assert loop.get("evaluation_updates", {}).get("count") == runs
