"""Layers that do not train and still have their random weights."""

import math

import pytest
from order_of_tests import in_one_test


@in_one_test(
    ("frozen", "init", "extra", "verdict"),
    [
        ((2,), {}, {}, "warn"),
        ((4,), {}, {}, "warn"),
        ((1, 2, 3), {}, {}, "note"),
        ((), {}, {}, None),
        ((1, 2, 3, 4), {}, {}, None),
        ((2,), {"writes": {}}, {}, None),
        ((2,), {"std": 0.12}, {}, None),
        ((2,), {"std": 0.0201, "writes": {"kaiming_uniform_": 1, "normal_": 1}}, {}, "warn"),
        ((2,), {}, {"loaded": ({"what": "model", "matched": 4, "keys": 4},)}, None),
        ((2,), {}, {"loaded": ({"what": "optimizer", "matched": 4, "keys": 4},)}, "warn"),
    ],
)
def test_layers_frozen_at_their_random_weights(ask, make_model, frozen, init, extra, verdict):
    model = make_model("Linear", "Linear", "Linear", "Linear")
    for number, parameter in enumerate(model["parameters"], 1):
        parameter["trainable"] = number not in frozen
        parameter["init"] = {**parameter["init"], "writes": {"kaiming_uniform_": 1}, **init}
    found = ask("frozen_at_random", signals={"models": (model,), **extra})
    assert (found.verdict if found else None) == verdict
    if verdict:
        assert found.observed.startswith(f"{len(frozen)} of 4 layers do not train")


@in_one_test(
    ("still", "ratio", "verdict"),
    [((2,), 0.0, "warn"), ((1, 2, 3), 0.0, "warn"), ((2,), 1e-9, None), ((1, 2, 3, 4), 0.0, None)],
)
def test_layers_that_stand_still_with_a_gradient(ask, make_model, looks, still, ratio, verdict):
    """As in a group with `lr=0`; where no layer moves, `step_changed_nothing` says so."""
    model = make_model("Linear", "Linear", "Linear", "Linear")
    for parameter in model["parameters"]:
        parameter["init"] = {**parameter["init"], "writes": {"kaiming_uniform_": 1}}
    rows = [{"i": i, "w": 1.0, "g": 1.0, "ratio": ratio if i + 1 in still else 1e-3} for i in range(4)]
    found = ask("frozen_at_random", signals={"models": (model,), "tensors": looks(params=lambda _: rows)})
    assert (found and found.verdict) == verdict


def test_a_frozen_layer_with_few_weights_is_counted_only_beside_a_larger_one(ask, make_model):
    model = make_model("Linear", "Linear", "Linear", "Linear")
    for number, parameter in enumerate(model["parameters"], 1):
        parameter["trainable"] = number > 2
        parameter["init"] = {**parameter["init"], "writes": {"kaiming_uniform_": 1}}
    model["parameters"][0]["shape"] = (6, 9)
    found = ask("frozen_at_random", signals={"models": (model,)})
    assert found.observed.startswith("2 of 4 layers do not train")
    model["parameters"][1]["trainable"] = True
    assert ask("frozen_at_random", signals={"models": (model,)}) is None


def test_frozen_random_features_are_a_finding_where_the_loss_stays_at_chance(
    rows_of, make_run, make_model, make_series
):
    model = make_model("Linear", "Linear", "Linear")
    for number, parameter in enumerate(model["parameters"], 1):
        parameter["trainable"] = number == 3
        parameter["init"] = {**parameter["init"], "writes": {"kaiming_uniform_": 1}}

    def rows(fall, count=150):
        losses = [2.31 * math.exp(-fall * i) + 0.01 * math.sin(i * i) for i in range(count)]
        function = {"fn": "cross_entropy", "classes": 10, "calls": count}
        signals = {"models": (model,), "losses": (function,), "loop": {"optimizers": 1}}
        return rows_of(make_run(make_series("loss", losses), make_series("lr", [0.1] * 150), signals=signals))

    assert rows(0.0)["frozen_at_random"].verdict == "warn" and rows(0.02)["frozen_at_random"].verdict == "note"
    assert rows(0.0)["loss_at_chance"].explained_by == "frozen_at_random"
    assert rows(0.0002, 400)["frozen_at_random"].verdict == "warn"  # hardly learns
    assert rows(0.002, 400)["frozen_at_random"].verdict == "note"


@pytest.mark.parametrize(("rank", "verdict"), [((4, 4), None), ((4, 6), "warn")])
def test_a_frozen_layer_beside_a_low_rank_product(ask, make_model, rank, verdict):
    model = make_model("Linear", "Linear", "Linear")
    shapes = {"0.layer.weight": [64, 64], "0.down.weight": [rank[0], 64], "0.up.weight": [64, rank[1]]}
    for row, (name, shape) in zip(model["parameters"], shapes.items(), strict=True):
        row.update(name=name, shape=shape, trainable="layer" not in name)
        row["init"].update(std=(1 / (3 * 64)) ** 0.5, mean=0.0, fan_in=64, writes={"kaiming_uniform_": 1})
    found = ask("frozen_at_random", signals={"models": (model,)})
    assert (found.verdict if found else None) == verdict


@pytest.mark.parametrize(
    ("names", "verdict"),
    [
        (("blocks.0.back", "blocks.0.fore", "blocks.1.back", "blocks.1.fore"), "note"),  # its output is not used
        (("blocks.0.back", "blocks.0.fore", "blocks.1.back", "head"), "warn"),  # a whole block
        (("0.back", "1.back", "1.head", "head"), "warn"),  # no other block has it
        (("0", "2", "4", "6"), "warn"),
    ],
)
def test_a_part_of_the_last_block_that_its_model_does_not_use(ask, make_model, names, verdict):
    model = make_model("Linear", "Linear", "Linear", "Linear")
    for number, (name, parameter) in enumerate(zip(names, model["parameters"], strict=True)):
        parameter.update(name=f"{name}.weight", trainable=number != 2)
        parameter["init"] = {**parameter["init"], "writes": {"kaiming_uniform_": 1}}
    assert ask("frozen_at_random", signals={"models": (model,)}).verdict == verdict


@pytest.mark.parametrize(("trainable", "verdict"), [(True, "warn"), (False, None)])
def test_a_bias_alone_trains_no_model_of_random_weights(ask, make_model, trainable, verdict):
    model = make_model("Linear", "Linear", "Linear")
    for parameter in model["parameters"]:
        parameter["trainable"] = False
        parameter["init"] = {**parameter["init"], "writes": {"kaiming_uniform_": 1}}
    model["parameters"].append({**model["parameters"][-1], "name": "2.bias", "shape": [8], "trainable": trainable})
    found = ask("frozen_at_random", signals={"models": (model,)})
    assert (found.verdict if found else None) == verdict


@pytest.mark.parametrize(("deviation", "verdict"), [(1.0, "warn"), (0.02, "warn"), (0.7, None)])
def test_a_frozen_table_of_positions(ask, make_model, deviation, verdict):
    model = make_model("Linear", "Linear", "Linear")
    model["modules"][1]["type"] = "Embedding"
    table = model["parameters"][0]
    table.update(name="positions.weight", shape=[32, 64], trainable=False)
    table["init"].update(std=deviation, mean=0.0, writes={"normal_": 1})
    found = ask("frozen_at_random", signals={"models": (model,)})
    assert (found and found.verdict) == verdict


@in_one_test(
    ("loads", "again", "trained", "optimizer", "verdict"),
    [
        (4, True, True, False, "warn"),
        (4, False, True, False, None),  # weights that were kept
        (2, True, True, False, None),
        (4, True, False, False, None),  # a target network
        (4, True, True, True, None),  # folds, with the state of their optimizer
    ],
)
def test_a_state_that_is_loaded_in_each_epoch(ask, make_series, loads, again, trained, optimizer, verdict):
    losses = [2.0 - 0.03 * (step % 20 if again else step / 5) for step in range(100)]
    model = {"what": "model", "trained": trained, "line": "t.py:7", "matched": 4, "keys": 4}
    events = [{**model, "step": 20 * at} for at in range(loads + 1)]
    events += [{"what": "optimizer", "step": 20, "line": "t.py:8"}] if optimizer else []
    found = ask(
        "parameters_initialised_again", make_series("loss", losses), signals={"loaded": events, "loop": {"steps": 100}}
    )
    assert (found and found.verdict) == verdict


@in_one_test(("ratio", "verdict"), [(0.01, None), (0.0, "note")])
def test_layers_that_an_earlier_optimizer_has_trained_are_not_at_their_random_weights(
    ask, make_model, looks, ratio, verdict
):
    first, second = make_model("Linear", "Linear", "Linear"), make_model("Linear", "Linear", "Linear")
    for number, parameter in enumerate(second["parameters"], 1):
        parameter["trainable"] = number == 3
        parameter["init"] = {**parameter["init"], "writes": {"kaiming_uniform_": 1}}
        parameter["same"] = (0, parameter["i"])
    second["model"] = 1
    rows = [{"i": i, "w": 1.0, "g": 1.0, "ratio": ratio} for i in range(2)]
    signals = {"models": (first, second), "tensors": looks(params=lambda _: rows)}
    found = ask("frozen_at_random", signals=signals)
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(
    ("norms", "zero", "step"),
    [
        ([1.0] * 9 + [0.0] * 20, 20, 10),
        ([1.0] * 20 + [0.0] * 9, 9, 21),
        ([0.0] * 29, 29, None),
        ([1.0, 0.0] * 15, 20, None),
    ],
)
def test_gradients_that_end_in_the_middle_of_a_training(ask, make_series, norms, zero, step):
    """As after a head was replaced that the optimizer still has: nothing clears them between backward and step."""
    signals = {"loop": {"steps": 29, "steps_without_gradient": {"0": {"none": 0, "zero": zero, "streak": zero}}}}
    found = ask("step_with_no_gradient", make_series("grad_norm", norms), signals=signals)
    assert found.verdict == "fail" and found.where == ({"step": step} if step else {})
    assert ("until then each step had one" in found.observed) == bool(step)
