"""Settings and numbers of the trainers of libraries, which no parser and no logger has seen. Real libraries only."""

import sys

import pytest
from pytest import approx


def started(run, healthy, name):
    pytest.importorskip(name)
    outcome = healthy(run("trainers.py", name, fork="paddle" if name == "paddle" else None))
    assert outcome.result == run("trainers.py", name, probe=False, fork="paddle" if name == "paddle" else None).result
    found = [event for event in outcome.of("arguments") if event["source"] == name]
    return outcome, {event["name"]: event["values"] for event in found}


def numbers(outcome, source, name):
    rows = [(event["step"], event["values"]) for event in outcome.of("scalars") if event["source"] == source]
    return [(step, values[name]) for step, values in rows if name in values]


def test_lightning(run, healthy):
    outcome, settings = started(run, healthy, "lightning")
    assert settings["Lit"] == {"hidden": 16, "lr": 0.01}
    assert settings["Trainer"]["max_epochs"] == 3 and settings["Trainer"]["gradient_clip_val"] == 1.0
    assert "precision" not in settings["Trainer"], "only what was given"
    found = numbers(outcome, "lightning", "val_acc")
    assert [step for step, _ in found] == [3, 7, 11]
    assert found[-1][1] == approx(outcome.result[1])


def test_transformers(run, healthy):
    outcome, settings = started(run, healthy, "transformers")
    [values] = settings.values()
    assert values["num_train_epochs"] == 2 and values["learning_rate"] == 1e-3
    [event] = [event for event in outcome.of("arguments") if event["source"] == "transformers"]
    assert "adam_beta1" in event["unchanged"] and "num_train_epochs" not in event["unchanged"]
    assert [list(row) for row in numbers(outcome, "transformers", "eval_loss")] == outcome.result
    names = {name for event in outcome.of("scalars") for name in event["values"]}
    assert names == {"loss", "eval_loss", "eval_accuracy", "train_loss"}


@pytest.mark.paddle
def test_paddle_model_fit(run, healthy):
    _, settings = started(run, healthy, "paddle")
    assert settings == {"Model.fit": {"batch_size": 8, "epochs": 2, "verbose": 0}}


def test_skorch(run, healthy):
    _, settings = started(run, healthy, "skorch")
    expected = {"lr": 0.05, "max_epochs": 2, "verbose": 0, "module__hidden": 16, "batch_size": 128}
    assert settings["NeuralNet"].items() >= expected.items()


def test_keras(run, healthy, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    _, settings = started(run, healthy, "keras")
    compiled = {"learning_rate": 0.01, "optimizer": "SGD"}
    assert settings == {"compile": compiled, "TorchTrainer.fit": {"batch_size": 8, "epochs": 2, "verbose": 0}}


LIBRARIES = {
    "ultralytics/utils.py": "DEFAULT_CFG_DICT = {'epochs': 100, 'imgsz': 640}",
    "ultralytics/engine/trainer.py": """
from types import SimpleNamespace
import ultralytics.utils
class BaseTrainer:
    def __init__(self, overrides):
        self.args = SimpleNamespace(**dict(ultralytics.utils.DEFAULT_CFG_DICT, **overrides))
""",
    "stable_baselines3/common/base_class.py": """
class BaseAlgorithm:
    def _setup_learn(self):
        pass
""",
    "skorch/net.py": """
class NeuralNet:
    def __init__(self, lr=0.01, max_epochs=10, **kwargs):
        vars(self).update(kwargs, lr=lr, max_epochs=max_epochs)
    def get_params(self, deep=True):
        return dict(vars(self), module=object)
    def initialize(self):
        return self
""",
}
USES = """
from skorch.net import NeuralNet
from stable_baselines3.common.base_class import BaseAlgorithm
from ultralytics.engine.trainer import BaseTrainer
BaseTrainer({'epochs': 3})
class Agent(BaseAlgorithm):
    def __init__(self, policy, gamma=0.99, n_steps=2048):
        self.policy, self.gamma, self.n_steps, self.num_timesteps = object(), gamma, n_steps, 0
Agent('MlpPolicy', gamma=0.9)._setup_learn()
net = NeuralNet(lr=0.1)
net.lr = 0.2  # as a search does, after it has made a net
net.initialize()
"""


def test_trainers_of_libraries_are_read_when_they_train(probed):
    for name, text in LIBRARIES.items():
        probed.write(name, text)
    written = probed(sys.executable, probed.write("train.py", USES)).of("arguments")
    assert [(event["source"], event["values"], event.get("unchanged")) for event in written] == [
        ("ultralytics", {"epochs": 3, "imgsz": 640}, ["imgsz"]),
        ("stable_baselines3", {"gamma": 0.9, "n_steps": 2048}, ["n_steps"]),
        ("skorch", {"lr": 0.2, "max_epochs": 10}, ["max_epochs"]),
    ]


def test_fastai(run, healthy):
    outcome, settings = started(run, healthy, "fastai")
    assert settings["Learner.fit_one_cycle"].items() >= {"n_epoch": 2, "lr_max": 0.01}.items()
    [optimizer] = outcome.of("optimizer")
    assert optimizer["type"] == "adam_step of fastai" and optimizer["options"]["wd"] == 0.01
    rates = [event["lr"][0] for event in outcome.of("step") if event.get("lr")]
    assert len(rates) == 12 and max(rates) == approx(0.01, rel=0.1), "of the schedule, step by step"
    loaders = [(loader["length"], loader["batch_size"], loader["shuffle"]) for loader in outcome.of("loader")]
    assert loaders == [(48, 8, True), (16, 8, False)]
    assert [phase["batches"] for phase in outcome.of("evaluation")] == [2, 2, 2]
