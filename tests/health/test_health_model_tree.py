"""The tree of a model for its diagram: order, folding, health, limits."""

from __future__ import annotations

import dataclasses
import time

import pytest
from order_of_tests import in_one_test

from labbook.health.model_tree import MOST_ROWS, model_tree
from labbook.model.signals import Signals


def rows_of(*named, parameters=0):
    """Module rows from (name, class) in the order of the calls; the model itself is called last."""
    rows = [
        {
            "i": i,
            "name": name,
            "type": kind,
            "depth": name.count(".") + bool(name),
            "order": i if name else len(named),
            "parameters": 10 if kind == "Linear" else 0,
            "trainable": 10 if kind == "Linear" else 0,
            "output": [{"shape": (8, 4)}],
        }
        for i, (name, kind) in enumerate([("", "Net"), *named])
    ]
    names = [row["name"] + ".weight" for row in rows if row["parameters"]]
    owners = [row["i"] for row in rows if row["parameters"]]
    weights = [
        {"i": i, "name": n, "shape": (2, 5), "trainable": True, "module": m}
        for i, (n, m) in enumerate(zip(names, owners, strict=True))
    ]
    return {"model": 0, "root": "Net", "modules": rows, "parameters": weights}


def tree(model, **signals):
    return model_tree(model, dataclasses.replace(Signals("torch"), models=(model,), **signals))


def drawn(rows):
    return [(row["depth"], row["count"], row["type"], row["name"], row["last"]) for row in rows]


def blocks(count, inner=("fc", "act")):
    kinds = {"fc": "Linear", "act": "ReLU"}
    found = [("layers", "ModuleList")]
    for number in range(count):
        found.append((f"layers.{number}", "Block"))
        found += [(f"layers.{number}.{name}", kinds[name]) for name in inner]
    return found


def test_equal_blocks_in_a_row_are_one_part_and_their_list_is_left_out():
    rows = tree(rows_of(*blocks(12), ("head", "Linear"), ("tail", "Linear")))

    assert drawn(rows) == [
        (0, 1, "Net", "", ""),
        (1, 12, "Block", "layers.0", "layers.11"),
        (2, 1, "Linear", "fc", ""),
        (2, 1, "ReLU", "act", ""),
        (1, 1, "Linear", "head", ""),
        (1, 1, "Linear", "tail", ""),
    ]
    assert [row["parameters"] for row in rows] == [140, 10, 10, 0, 10, 10]
    assert [row["total"] for row in rows] == [1, 1, 12, 12, 1, 1]


def test_experts_that_get_different_numbers_of_rows_are_one_part():
    model = rows_of(*blocks(3))
    for number, rows in enumerate((7, 3, 13)):
        for row in model["modules"]:
            row["output"] = [{"shape": (rows, 4)}] if row["name"].startswith(f"layers.{number}") else row["output"]

    assert [(row["count"], row["output"]) for row in tree(model)[1:]] == [(3, "3-13x4"), (1, "3-13x4"), (1, "3-13x4")]


def test_modules_of_which_a_part_is_not_known_have_no_number_of_parameters():
    model = rows_of(*blocks(3)) | {"parameters": [], "left_out": {"modules": 900, "parameters": 900}}

    assert [row["parameters"] for row in tree(model) if row["type"] in ("Net", "ModuleList", "Block")] == [0, 0, 10, 0]


def test_parts_stand_in_the_order_in_which_they_run():
    model = rows_of(("last", "Linear"), ("first", "ReLU"))
    model["modules"][1]["order"], model["modules"][2]["order"] = 2, 1
    assert [row["name"] for row in tree(model)] == ["", "first", "last"]


def test_a_block_that_differs_is_a_part_of_its_own():
    model = rows_of(*blocks(3))
    next(row for row in model["modules"] if row["name"] == "layers.1.fc")["trainable"] = 0
    next(row for row in model["parameters"] if row["name"] == "layers.1.fc.weight")["trainable"] = False
    rows = tree(model)

    assert [row["count"] for row in rows if row["type"] == "Block"] == [1, 1, 1]
    assert [row["name"] for row in rows for one in row["states"] if one["state"] == "frozen"] == ["fc"]


def test_health_is_at_the_part_and_names_the_worst_of_equal_ones():
    model = rows_of(*blocks(3), ("squash", "Tanh"), ("head", "Linear"), ("spare", "Linear"))
    place = {row["name"]: row["i"] for row in model["modules"]}
    model["modules"][place["spare"]]["order"] = None
    dead = {"i": place["layers.1.act"], "dead": 0.8, "dead_n": 2048, "zero": 0.9}
    alive = {"i": place["layers.0.act"], "dead": 0.1, "dead_n": 2048, "zero": 0.5}
    flat = {"i": place["squash"], "sat": 0.9}
    gradients = [{"i": i, "g": 0.5 * (i + 1)} for i in range(4)]
    looks = tuple(
        {"step": step, "model": 0, "modules": [dead, alive, flat, {"i": place["head"]}], "params": gradients}
        for step in (1, 2, 3, 5)
    )
    loop = {"never_grad": ["spare.weight"], "judged": 40, "backwards": 40}
    rows = {row["name"]: row for row in tree(model, tensors=looks, loop=loop)}

    state = {name: [(one["state"], one["value"], one["modules"], one["name"]) for one in rows[name]["states"]]
             for name in rows}  # fmt: skip
    assert state["act"] == [("dead", 0.8, 1, "layers.1.act")]
    assert state["squash"] == [("saturated", 0.9, 1, "squash")]
    assert state["spare"] == [("no_gradient", 1.0, 1, "spare"), ("not_called", 1.0, 1, "spare")]
    assert state["head"] == state[""] == state["layers.0"] == []
    assert rows["fc"]["history"] == [[step, 0.5, 1.5] for step in (1, 2, 3, 5)]
    assert rows["fc"]["gradient"] == [0.5, 1.5] and rows["head"]["gradient"] == [2.0, 2.0]


def test_the_gradient_of_a_module_is_the_median_of_its_norms():
    """Not the root of the medians of its parameters: weight and bias are large in turns."""
    model = rows_of(("body", "Linear"), ("head", "Linear"))
    bias = {**model["parameters"][0], "name": "body.bias", "i": len(model["parameters"])}
    model["parameters"].append(bias)
    norms = ((3.0, 4.0), (4.0, 3.0), (0.3, 0.4))
    looks = tuple(
        {
            "step": step,
            "model": 0,
            "modules": [{"i": 0}],
            "params": [{"i": 0, "g": weight}, {"i": bias["i"], "g": other}],
        }
        for step, (weight, other) in enumerate(norms, 1)
    )
    assert next(row for row in tree(model, tensors=looks) if row["name"] == "body")["gradient"] == [5.0, 5.0]


def test_weights_that_are_used_without_a_call_of_their_module_are_not_idle():
    model = rows_of(("attention", "Linear"), ("head", "Linear"))
    model["modules"][1]["order"] = None
    look = ({"step": 1, "model": 0, "params": [{"i": 0, "g": 0.2}]},)
    assert not any(row["states"] for row in tree(model, tensors=look))


def test_vanishing_gradients_are_marked_where_the_check_fires():
    model = rows_of(*((f"fc{n}", "Linear") for n in range(8)))
    for n, row in enumerate(model["modules"]):
        row["output"] = [{"shape": (8, n + 1)}]
    looks = tuple(
        {"step": s, "model": 0, "params": [{"i": n, "g": 10.0 ** (n - 9)} for n in range(8)]} for s in range(1, 6)
    )
    marked = [row["name"] for row in tree(model, tensors=looks) if row["states"]]
    assert marked == ["fc0", "fc1", "fc2", "fc3"]


@in_one_test("model", [
    {}, {"modules": []}, rows_of(), rows_of(("a", "Linear")) | {"modules": [{"i": 0, "name": "", "type": "Net"}] * 2},
])  # fmt: skip
def test_nothing_is_drawn_without_modules_or_shapes(model):
    assert tree(model) == []


@pytest.mark.parametrize("shape", ["wide", "deep", "blocks"])
def test_huge_models_stay_small_and_keep_their_health(shape):
    names = {
        "wide": [(f"part{n}", "Linear") for n in range(400)],
        "deep": [(".".join(["x"] * (n + 1)), "Linear") for n in range(300)],
        "blocks": [(f"b{n}" + tail, kind) for n in range(80) for tail, kind in (("", "Block"), (".f", "Linear"))],
    }[shape]
    model = rows_of(*names)
    for n, row in enumerate(model["modules"]):
        row["output"] = [{"shape": (8, n + 1)}]
    model["modules"][150]["trainable"] = 0
    began = time.process_time()
    rows = tree(model)

    assert time.process_time() - began < 3
    assert len(rows) <= MOST_ROWS + 2
    frozen = [one for row in rows for one in row["states"] if one["state"] == "frozen"]
    assert [one["name"] for one in frozen] == [model["modules"][150]["name"]]
