"""What is kept for the pages is small, plain and in the order of the model."""

import json
from dataclasses import replace

import pytest

from labbook.health.model_summary import summary
from labbook.model.run_json import run_from_json, run_to_json


def test_models_flow_and_losses(make_run, make_series, make_model, looks):
    model = make_model("Linear", "ReLU", "Linear")
    tensors = looks(params=lambda _: [{"i": 0, "g": 0.5, "w": 2.0, "ratio": 1e-3}, {"i": 1, "g": 0.1, "w": 1.0}])
    losses = ({"fn": "cross_entropy", "line": "t.py:3", "training": True, "calls": 9, "classes": 10},)
    flight = {"step": 3, "finding": "forward", "module": {"name": "a.b"}, "batch": {"leaves": [{"shape": [9]}]}}
    signals = {"models": (model,), "tensors": tensors, "losses": losses, "flight": flight}
    signals["phases"] = {"forward": make_series("forward", [0.01] * 30)}
    found = summary(make_run(make_series("loss", [1.0, 0.5]), signals=signals))
    assert [row["name"] for row in found["models"][0]["rows"]] == ["", "layer1", "layer2", "layer3"]
    assert found["models"][0]["parameters"] == 2000
    assert found["flow"][0] == {"name": "layer1.weight", "gradient": 0.5, "weight": 2.0, "update": 0.001}
    assert found["losses"] == [{"function": "cross_entropy", "line": "t.py:3", "calls": 9, "classes": 10}]
    assert found["flight"] == {"step": 3, "finding": "forward", "module": "a.b"}
    assert found["phases"] == {"forward": 0.01}
    assert "loaders" not in found


@pytest.mark.parametrize("captured", [{"trainings": {"rows": [{}]}}, {"phases": {"count": 2}}])
def test_tensors_of_one_of_several_trainings_or_phases_are_not_shown_as_those_of_the_run(
    make_run, make_series, make_model, looks, captured
):
    signals = {"models": (make_model("Linear"),), "tensors": looks(params=lambda _: [{"i": 0, "g": 0.5, "w": 2.0}])}
    run = make_run(make_series("loss", [1.0, 0.5]), signals=signals)
    assert "weights" in summary(run) and "weights" not in summary(replace(run, captured=captured))


def test_a_module_has_all_parameters_in_it_and_shared_ones_once(make_run, make_series):
    rows = [("", 0), ("body", 0), ("body.fc", 12), ("head", 12)]
    modules = [
        {"i": i, "name": n, "type": "L", "depth": 1, "parameters": p, "trainable": p} for i, (n, p) in enumerate(rows)
    ]
    model = {"model": 0, "modules": modules}
    weight = {"i": 0, "name": "body.fc.weight", "shape": [4, 3], "trainable": True}
    tied = {**model, "parameters": [weight], "shared": [["body.fc.weight", "head.weight"]]}
    # A recurrent layer of PaddlePaddle holds the weights of its cells; other parameters are not its own.
    other = {"i": 1, "name": "head.weight", "shape": [5], "trainable": False}
    held = {**model, "parameters": [weight, other], "shared": [["body.fc.weight", "body.weight"]]}
    totals = []
    for one in (model, tied, held):
        found = summary(make_run(make_series("loss", [1.0]), signals={"models": (one,)}))["models"][0]
        totals.append({row["name"]: row["total"] for row in found["rows"]})
        assert found["parameters"] == totals[-1][""]
    assert totals == [
        {"": 24, "body": 12, "body.fc": 12, "head": 12},
        {"": 12, "body": 12, "body.fc": 12, "head": 12},
        {"": 17, "body": 12, "body.fc": 12, "head": 5},
    ]


def test_nothing_was_trained(make_run):
    assert summary(make_run()) == {}


def test_signals_are_not_stored_and_health_is(make_run, make_series, make_model):
    run = make_run(make_series("loss", [1.0, 0.5]), signals={"models": (make_model("Linear"),)})
    stored = run_to_json(run)
    assert "signals" not in stored and "printed" not in stored
    assert run_from_json(json.loads(json.dumps(stored))).signals == ()


def test_a_deep_model_is_cut_by_depth(make_run, make_series):
    modules = [{"i": i, "name": f"m{i}", "type": "Linear", "depth": 1 + i % 5, "order": i} for i in range(300)]
    found = summary(make_run(make_series("loss", [1.0]), signals={"models": ({"model": 0, "modules": modules},)}))
    assert {row["depth"] for row in found["models"][0]["rows"]} == {1} and found["models"][0]["left_out"] == 240


def test_a_model_that_only_holds_the_one_that_ran_is_not_listed(make_run, make_series, make_model):
    """As a module of Lightning that calls `self.net(x)`; one that holds another network is listed."""
    ran = make_model("Linear", "ReLU")
    names = [("", "Lit"), ("net", ran["root"]), *((f"net.{row['name']}", row["type"]) for row in ran["modules"][1:])]
    rows = [{"i": at, "name": name, "type": kind, "depth": name.count(".")} for at, (name, kind) in enumerate(names)]
    ran["modules"][0]["type"] = ran["root"]
    for kept, modules in ((1, rows), (2, [{**row, "type": "Tanh"} for row in rows])):
        holder = {"model": 1, "root": "Lit", "modules": modules, "parameters": []}
        found = summary(make_run(make_series("loss", [1.0]), signals={"models": (ran, holder)}))
        assert len(found["models"]) == kept


def test_equal_models_without_names_are_listed_once(make_run, make_series, make_model):
    """Local copies of federated averaging; not two critics, which the program has under two names."""
    for names, listed in ((["", ""], 1), (["q1", "q2"], 2)):
        models = tuple({**make_model("Linear"), "model": at, "variable": name} for at, name in enumerate(names))
        found = summary(make_run(make_series("loss", [1.0, 0.5]), signals={"models": models}))
        assert len(found["models"]) == listed


def test_a_part_that_is_called_by_itself_too_is_no_further_model(make_run, make_series, make_model):
    whole, part = make_model("Embedding", "Linear"), make_model("Embedding", root="Embedding", part_of=[0])
    part["model"] = 1
    for shown, models in (
        (["Net"], (whole, part)),
        (["Net"], (part | {"part_of": []}, whole | {"parts": [1]})),
        (["Net", "Embedding"], (whole, part | {"part_of": []})),
    ):
        found = summary(make_run(make_series("loss", [1.0]), signals={"models": models}))
        assert [model["root"] for model in found["models"]] == shown


def test_parameters_with_names_of_their_own_are_no_modules(make_run, make_series):
    rows = [("", "Program", 12), ("fc_0", "Linear", 8), ("w", "Linear", 4)]
    modules = [{"i": i, "name": n, "type": t, "parameters": p, "order": i} for i, (n, t, p) in enumerate(rows)]
    parameters = [{"name": "fc_0.w_0", "shape": [8], "trainable": True}, {"name": "w", "shape": [4], "trainable": True}]
    model = {"model": 0, "root": "Program", "modules": modules, "parameters": parameters}
    found = summary(make_run(make_series("loss", [1.0]), signals={"models": (model,)}))["models"][0]
    assert [(row["name"], row["total"]) for row in found["rows"]] == [("", 12), ("fc_0", 8)]
