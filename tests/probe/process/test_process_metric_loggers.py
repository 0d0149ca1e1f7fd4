"""What a program logs itself arrives in the events, and the logger does what it did before."""

import importlib.util

import pytest


def scalars(outcome, source):
    events = [event for event in outcome.of("scalars") if event["source"] == source]
    return [(event["step"], event["values"]) for event in events]


def test_tensorboard_scalars_are_read_and_still_written(run, healthy):
    outcome = healthy(run("logs.py", "tensorboard", fork="torch"))
    found = scalars(outcome, "tensorboard")
    assert found[0] == (0, {"train/loss": 1.0}) and found[1] == (1, {"train/loss": 0.5})
    assert (7, {"split/a": 1.0, "split/b": 2.0}) in found
    assert len(found) == 4
    assert list((outcome.folder / "board").glob("events*"))


@pytest.mark.parametrize("name", ["tensorboardx", "visualdl", "wandb", "mlflow"])
def test_other_loggers_are_read(run, healthy, name):
    package = {"tensorboardx": "tensorboardX"}.get(name, name)
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    outcome = healthy(run("logs.py", name))
    key = "train.loss" if name == "wandb" else "train/loss"
    expected = [(0, {key: 1.0}), (1, {key: 0.5}), (2, {key: pytest.approx(1 / 3)})]
    assert scalars(outcome, "tensorboard" if name == "tensorboardx" else name) == expected


def test_what_lightning_writes_as_csv_is_read(run, healthy):
    program = """
import os, sys
os.makedirs("lightning_fabric/loggers")
open("lightning_fabric/__init__.py", "w").close(), open("lightning_fabric/loggers/__init__.py", "w").close()
with open("lightning_fabric/loggers/csv_logs.py", "w") as file:
    file.write("class _ExperimentWriter:\\n    def log_metrics(self, metrics_dict, step=None):\\n        pass\\n")
sys.path.insert(0, os.getcwd())
from lightning_fabric.loggers.csv_logs import _ExperimentWriter
_ExperimentWriter().log_metrics({"val_acc": 0.5}, 15)
"""
    assert scalars(healthy(run(program)), "lightning") == [(15, {"val_acc": 0.5})]


def test_labbook_log_and_note(run, healthy):
    outcome = healthy(run("logs.py", "labbook"))
    found = [(3, {"loss": 0.5, "accuracy": 0.25}), (None, {"loss": 1}), (4, {"val/loss": 0.25}), (5, {"accuracy": 0.5})]
    assert scalars(outcome, "labbook") == found
    assert [event["text"] for event in outcome.of("note")] == ["a sentence"]
    assert [event["what"] for event in outcome.of("unobserved")] == ["`text` of labbook.log"]


def test_labbook_log_does_nothing_outside_a_recorded_run(run):
    assert run("logs.py", "labbook", probe=False).err == ""


def test_endless_logging_is_recorded_in_bounded_space(run, healthy):
    program = """
import labbook
for step in range(60000):
    labbook.log(step=step, loss=step / 7)
"""
    outcome = healthy(run(program))
    found = scalars(outcome, "labbook")
    assert [step for step, _ in found[:5000]] == list(range(5000))
    assert found[-1][0] == 59999
    assert len(found) < 25000


@pytest.mark.paddle
def test_metrics_of_a_paddle_model_are_those_of_its_callbacks(run, healthy):
    program = """
import json, paddle
from paddle import nn
paddle.seed(0)
x = paddle.randn([40, 4])
class Data(paddle.io.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, i):
        return x[i].numpy(), (x[i, :1] > 0).astype("int64").numpy()
seen = []
class Seen(paddle.callbacks.Callback):
    def on_eval_end(self, logs=None):
        seen.append(logs["acc"])
net = nn.Linear(4, 2)
model = paddle.Model(net)
optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())
model.prepare(optimizer, nn.CrossEntropyLoss(), paddle.metric.Accuracy())
model.fit(Data(), Data(), epochs=2, batch_size=16, verbose=0, callbacks=[Seen()])
seen.append(model.evaluate(Data(), batch_size=16, verbose=0)["acc"])
target = (x[:, :1] > 0).astype("int64")
print(json.dumps([*seen, float(nn.functional.cross_entropy(net(x), target))]))
"""
    outcome = healthy(run(program, fork="paddle"))
    logged = [event["values"] for event in outcome.of("scalars")]
    *accuracies, loss = outcome.result
    assert [values["val/acc"] for values in logged if "val/acc" in values] == accuracies[:2]
    assert [values["eval/acc"] for values in logged if "eval/acc" in values] == accuracies[2:]
    losses = [values[name] for values in logged for name in ("val/loss", "eval/loss") if name in values]
    assert losses[1:] == pytest.approx([loss, loss])  # of all samples, not of the last batch
    assert [set(values) for values in logged if "acc" in values] == [{"acc"}] * 2
