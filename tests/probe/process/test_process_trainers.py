"""Settings and numbers of the trainers of libraries, which no parser and no logger has seen. Real libraries only."""

import pytest
from pytest import approx


def started(run, healthy, name):
    pytest.importorskip(name)
    outcome = healthy(run("trainers.py", name, fork="paddle" if name == "paddle" else None))
    assert outcome.result == run("trainers.py", name, probe=False, fork="paddle" if name == "paddle" else None).result
    told = [event for event in outcome.of("arguments") if event["source"] == name]
    return outcome, {event["name"]: event["values"] for event in told}


def numbers(outcome, source, name):
    rows = [(event["step"], event["values"]) for event in outcome.of("scalars") if event["source"] == source]
    return [(step, values[name]) for step, values in rows if name in values]


def test_lightning(run, healthy):
    outcome, settings = started(run, healthy, "lightning")
    assert settings["Lit"] == {"hidden": 16, "lr": 0.01}
    assert settings["Trainer"]["max_epochs"] == 3 and settings["Trainer"]["gradient_clip_val"] == 1.0
    assert "precision" not in settings["Trainer"], "only what was given"
    told = numbers(outcome, "lightning", "val_acc")
    assert [step for step, _ in told] == [3, 7, 11]
    assert told[-1][1] == approx(outcome.result[1])


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
    assert settings == {"TorchTrainer.fit": {"batch_size": 8, "epochs": 2, "verbose": 0}}
