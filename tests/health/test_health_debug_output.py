"""What the entry keeps of batches, layers and parameters."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from labbook.health import debug_output
from labbook.health.evidence.layer_history import parameters_of
from labbook.model.signals import Signals

MODEL = {
    "model": 0,
    "root": "Net",
    "modules": [
        {"i": 0, "name": "", "type": "Net", "depth": 0, "order": 2},
        {"i": 1, "name": "body", "type": "Linear", "depth": 1, "order": 0, "parameters": 12, "trainable": 12},
        {"i": 2, "name": "head", "type": "Linear", "depth": 1, "order": 1, "parameters": 6, "trainable": 0},
    ],
    "parameters": [
        {"i": 0, "name": "body.weight", "shape": [4, 3], "trainable": True, "module": 1},
        {"i": 1, "name": "head.weight", "shape": [2, 3], "trainable": False, "module": 2},
    ],
}


def look(step, ratio, low=-1.0):
    return {
        "model": 0,
        "step": step,
        "params": [
            {"i": 0, "w": 2.0, "g": 0.5, "g_zero": 0.25, "ratio": ratio, "bad": 0},
            {"i": 1, "w": 1.0, "g": None, "ratio": ratio * 4, "bad": 1},
        ],
        "modules": [
            {
                "i": 1,
                "shape": [8, 4],
                "dtype": "float32",
                "min": low,
                "max": 1.0,
                "mean": 0.0,
                "std": math.nan,
                "bad": 0,
            }
        ],
    }


def batch(step, phase="train"):
    leaves = [
        {
            "path": "0",
            "role": "input",
            "shape": [8, 3],
            "dtype": "float32",
            "min": 0,
            "max": 1,
            "mean": 0.5,
            "std": 0.2,
        },
        {"path": "1", "role": "label", "shape": [8], "dtype": "int64", "min": 0, "max": 1},
    ]
    return {"step": step, "phase": phase, "leaves": leaves, "labels": {"histogram": {"0": 5, "1": 3}}}


@pytest.fixture(scope="module")
def signals(read_signals):
    looks = (look(1, 0.01), look(9, 0.03, low=-2.0))
    return read_signals(Signals("torch", models=(MODEL,), tensors=looks, batches=(batch(1), batch(5), batch(9))))


def test_first_and_last_batch_of_a_phase(signals):
    rows = debug_output.batches(signals)

    assert [(row["step"], row["role"], row["shape"], row["classes"]) for row in rows] == [
        (1, "input", "8x3", 0), (1, "label", "8", 2), (9, "input", "8x3", 0), (9, "label", "8", 2),
    ]  # fmt: skip
    assert rows[0]["low"] == 0 and rows[0]["std"] == 0.2


def test_the_last_batch_of_several_trainings_is_of_another_one(signals):
    rows = debug_output.batches(replace(signals, trainings=((0.0, 1.0), (1.0, 2.0))))
    assert {row["step"] for row in rows} == {1}


def test_each_layer_at_the_first_and_the_last_look(signals):
    seen = debug_output.layers(signals)

    assert seen["steps"] == [1, 9] and seen["left_out"] == 0
    (body,) = seen["rows"]
    assert (body["name"], [each["low"] for each in body["looks"]]) == ("body", [-1.0, -2.0])
    assert body["looks"][0]["std"] is None


def test_parameters_at_the_last_look(signals):
    seen = debug_output.parameters(signals)

    assert seen["steps"] == [9]
    body, head = seen["rows"]
    assert (body["weight"], body["gradient"], body["update"], body["zero"]) == (2.0, 0.5, 0.03, 0.25)
    assert (head["trainable"], head["gradient"], head["bad"]) == (False, None, 1)


def test_parameters_of_one_step_under_their_names(signals):
    unnamed = {**look(1, 0.01), "model": 7}
    later = {**look(11, 0.02), "params": look(11, 0.02)["params"][:1]}
    found = debug_output.parameters(replace(signals, tensors=(unnamed, *signals.tensors, later)))

    assert found["steps"] == [9]
    assert [(row["name"], row["weight"]) for row in found["rows"]] == [
        (row["name"], row["weight"]) for row in debug_output.parameters(signals)["rows"]
    ]
    (row, *_) = debug_output.parameters(Signals("torch", tensors=(unnamed,)))["rows"]
    assert (row["name"], row["shape"]) == ("parameter 0", "")


def test_the_update_ratio_is_a_series_with_its_extremes_over_what_trains(signals):
    rows = [{**row, "trainable": True} for row in signals.models[0]["parameters"]]
    thawed = replace(signals, models=({**signals.models[0], "parameters": rows},))
    for one, values in ((thawed, ((0.025, 0.075), (0.01, 0.03), (0.04, 0.12))), (signals, ((0.01, 0.03),) * 3)):
        (series,) = debug_output.update_ratios(one)
        assert (series.name, series.steps) == ("update_ratio", (1, 9))
        assert (series.values, series.low, series.high) == values


def test_models_with_equal_names_are_apart(signals):
    """A teacher and then a student: the rows of each with its number, the update ratio of each optimizer."""
    second = {**MODEL, "model": 1}
    later = [{**look(step, 0.02), "model": 1, "opt": 1} for step in (1, 5, 9)]
    both = replace(signals, models=(MODEL, second), tensors=(*signals.tensors, *later))

    ratios = debug_output.update_ratios(both)
    assert [(one.name, one.steps) for one in ratios] == [("update_ratio", (1, 9)), ("update_ratio.opt1", (1, 5, 9))]
    rows = debug_output.parameters(both)["rows"]
    weights = ("body.weight", "head.weight")
    assert [(row["name"], row["model"]) for row in rows] == [(name, model) for model in (0, 1) for name in weights]
    assert {row["model"] for row in debug_output.parameters(signals)["rows"]} == {0}


def test_nothing_seen_is_nothing_told():
    empty = Signals("torch")
    assert debug_output.batches(empty) == [] and debug_output.update_ratios(empty) == ()
    assert debug_output.layers(empty) == {} == debug_output.parameters(empty)


@pytest.mark.parametrize(("dtype", "role"), [("int64", "label"), ("float32", "input")])  # an autoencoder
def test_labels_that_the_model_gets_too_are_one_row(dtype, role):
    label = {"shape": [8], "dtype": dtype, "min": 0, "max": 1, "mean": 0.5, "std": 0.5}
    leaves = [{"path": "labels", "role": "input", **label}, {"path": "target", "role": "label", **label}]
    both = {"step": 1, "phase": "train", "leaves": leaves, "labels": {"histogram": {"0": 4, "1": 4}}}
    rows = debug_output.batches(Signals("torch", batches=(both,)))

    assert [(row["leaf"], row["role"], row["classes"]) for row in rows] == [("labels", role, 2)]


def test_a_sequence_that_the_model_reverses_is_its_input():
    tokens = {"shape": [8, 5], "dtype": "int64", "min": 0, "max": 9, "mean": 4.5, "std": 2.5}
    leaves = [{"path": "0", "role": "input", **tokens}, {"path": "target", "role": "label", **tokens}]
    rows = debug_output.batches(Signals("torch", batches=({"step": 1, "phase": "train", "leaves": leaves},)))
    assert [(row["leaf"], row["role"]) for row in rows] == [("0", "input"), ("target", "label")]


@pytest.mark.parametrize(
    ("dtype", "high", "classes", "count"),
    [
        ("int64", 2, range(3), 3),
        ("float32", 1, range(66), 0),
        ("int64", 255, range(0, 255, 2), 0),
        ("int64", 255, [*range(199), 255], 0),
    ],
    ids=["labels", "ids of another column", "labels of another loss", "as many as are written"],
)
def test_classes_of_a_target_are_counted_where_they_are_its_own(dtype, high, classes, count):
    target = {"path": "target", "role": "label", "shape": [300], "dtype": dtype, "min": 0, "max": high}
    batch = {"step": 1, "phase": "train", "leaves": [target], "labels": {"histogram": {str(c): 1 for c in classes}}}
    (row,) = debug_output.batches(Signals("torch", batches=(batch,)))
    assert row["classes"] == count


def test_a_batch_of_a_phase_has_its_number():
    rows = [{"phase": "train", "step": step, "t": t, "leaves": [{"path": "0"}]} for step, t in ((1, 0.9), (18, 12.0))]
    signals = Signals("torch", batches=tuple(rows), spans={0: (1.0, 9.0), 1: (10.0, 20.0)})
    assert [row["part"] for row in debug_output.batches(signals, in_phases=True)] == [1, 2]
    assert [row["part"] for row in debug_output.batches(signals)] == [0, 0]


def test_ids_of_a_batch_are_no_classes_of_a_target_with_the_same_ends():
    target = {"path": "target", "role": "label", "shape": [4], "dtype": "int64", "min": 0, "max": 3, "mean": 1.5}
    batch = {"step": 1, "phase": "train", "leaves": [target], "labels": {"histogram": {"0": 3, "3": 1}}}
    (row,) = debug_output.batches(Signals("torch", batches=(batch,)))
    assert row["classes"] == 0


def test_models_that_are_looked_at_in_other_steps_are_shown_at_their_last_one(signals):
    """Generator and critic, each with an optimizer and steps of its own."""
    second = {**MODEL, "model": 1}
    later = [{**look(step, 0.02), "model": 1, "opt": 1} for step in (1, 12)]
    both = replace(signals, models=(MODEL, second), tensors=(*signals.tensors, *later))
    found = debug_output.parameters(both)
    assert found["steps"] == [9, 12]
    assert [row["model"] for row in found["rows"]] == [0, 0, 1, 1]
    assert {row["model"] for row in debug_output.layers(both)["rows"]} == {0}, "one header for all columns"
    together = [{**look(step, 0.02), "model": 1} for step in (1, 9)]
    both = replace(both, tensors=(*signals.tensors, *together))
    assert {row["model"] for row in debug_output.layers(both)["rows"]} == {0, 1}


def test_a_tensor_of_a_model_and_of_a_part_that_is_called_has_one_row(signals):
    """An actor that is never called as a whole: its parts are, and `same` says which parameters they share with it."""
    part = {**MODEL, "model": 1, "parameters": [{**row, "same": [0, row["i"]]} for row in MODEL["parameters"]]}
    later = [{**look(step, 0.02), "model": 1} for step in (10, 11, 12)]
    both = replace(signals, models=(MODEL, part), tensors=(*signals.tensors, *later))
    assert [row["model"] for row in debug_output.parameters(both)["rows"]] == [1, 1]
    assert [step for step, _ in parameters_of(both)[0].history] == [1, 9, 10, 11, 12]
    assert parameters_of(both)[0].init == parameters_of(signals)[0].init
