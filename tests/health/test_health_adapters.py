"""Adapters such as LoRA: a few trained weights in a frozen model, which begin so that they change nothing."""

from dataclasses import replace

import pytest
from order_of_tests import in_one_test

from labbook.health.evidence.layer_history import Parameter
from labbook.health.rules.gradient import _is_query_or_key


@pytest.mark.parametrize(("backwards", "verdict"), [(0, "warn"), (20, "note")])
def test_a_head_that_is_not_in_the_file_stays_random_where_nothing_is_trained(ask, backwards, verdict):
    event = {"what": "model", "keys": 6, "matched": 5, "missing": ["head"], "missing_n": 1, "unexpected_n": 1}
    signals = {"loaded": (event,), "loop": {"steps": backwards, "backwards": backwards}}
    assert ask("partial_state_load", signals=signals).verdict == verdict


@pytest.mark.parametrize(("unexpected", "verdict"), [(0, "note"), (10, "fail")])
def test_a_file_of_which_every_key_matches_is_no_wrong_file(ask, unexpected, verdict):
    event = {"what": "model", "keys": 51, "matched": 10, "missing": ["base.weight"], "missing_n": 41}
    signals = {"loaded": ({**event, "unexpected_n": unexpected},)}
    assert ask("partial_state_load", signals=signals).verdict == verdict


@pytest.mark.parametrize(
    ("shared", "words"), [(["embed", "head"], "10 of 10"), (["head", "encoder"], "9 of 10"), ([], "9 of 10")]
)
def test_a_tied_weight_is_loaded_by_any_of_its_names(ask, shared, words):
    event = {"what": "model", "keys": 10, "matched": 9, "missing": ["head", "encoder"][: 1 + ("encoder" in shared)]}
    event |= {"missing_n": len(event["missing"])}
    model = {"model": 0, "modules": [], "parameters": [], "shared": [shared] if shared else []}
    found = ask("partial_state_load", signals={"loaded": (event,), "models": (model,)})
    assert found.observed.startswith(words) and found.verdict == ("ok" if words == "10 of 10" else "note")


@pytest.mark.parametrize(("zero", "verdict"), [(1.0, "ok"), (0.0, "fail")])
def test_weights_in_front_of_one_that_begins_as_zero_do_not_make_a_profile(ask, make_model, looks, zero, verdict):
    model = make_model(*["Linear"] * 9, init={i: {"zero": zero if i % 2 == 0 else 0.0} for i in range(1, 9)})
    names = [f"encoder.{i}.value.lora_{part}.default.weight" for i in range(4) for part in "AB"]
    for row, name in zip(model["parameters"], [*names, "classifier.default.weight"], strict=True):
        row["name"] = name
    rows = [{"i": i, "g": 3e-3 if i % 2 else 1e-5 * 1.5**i, "w": 1.0, "ratio": 1e-3} for i in range(9)]
    rows[8]["g"] = 0.08
    if not zero:
        rows = [{**row, "g": 0.08 * 10.0 ** (i - 8)} for i, row in enumerate(rows)]
    found = ask("vanishing_gradient", signals={"models": (model,), "tensors": looks(params=lambda _: rows)})
    assert found.verdict == verdict


@in_one_test("name", ["query.lora_B.default", "q_proj.lora_B.x", "to_k.0.lora.up"])
def test_an_adapter_of_a_query_is_like_the_query(name):
    parameter = Parameter(f"layers.1.attention.{name}.weight", (4, 4), True, "Linear", {}, {}, 1)
    assert _is_query_or_key(parameter)
    assert not _is_query_or_key(replace(parameter, name="query_encoder.layer.weight"))


@in_one_test(
    ("names", "running", "verdict"),
    [
        (["layers.0.value.weight", "layers.1.value.weight"], [], "warn"),
        (["pooler.weight"], [], "note"),
        (["positions.weight"], [], "warn"),
        (["heads.1.weight", "heads.2.weight"], ["heads.0"], "note"),
        (
            ["layers.0.experts.1.weight", "layers.1.experts.1.weight"],
            ["layers.0.experts.0", "layers.1.experts.0"],
            "note",
        ),
    ],
)
def test_a_part_that_runs_in_no_block_was_forgotten(ask, names, running, verdict):
    ran = ["", "layers.0", "layers.1", *running]
    modules = [{"i": i, "name": name, "type": "Part", "package": "", "order": i} for i, name in enumerate(ran)]
    modules += [{"i": 99, "name": "positions", "type": "Embedding", "package": "torch"}]
    signals = {
        "loop": {
            "never_grad": names,
            "never_called": names,
            "never_grad_n": len(names),
            "trainable_n": 100,
            "judged": 50,
        },
        "models": ({"model": 0, "modules": modules, "parameters": []},),
    }
    assert ask("param_never_gets_grad", signals=signals).verdict == verdict


def test_factors_at_zero_in_a_model_that_was_rebuilt(ask, make_model, looks):
    def rows(step):
        norm = 1.0 if step < 60 else 0.0  # what had these numbers before were layers
        return [{"i": 0, "w": norm, "g": norm}, {"i": 1, "w": norm, "g": norm}, {"i": 2, "w": 1.0, "g": 1.0}]

    signals = {"models": (make_model("Linear", "Linear", "Linear"),), "tensors": looks(params=rows)}
    assert ask("gradient_zero_in_part", signals=signals).verdict == "warn"


@pytest.mark.parametrize(("began", "verdict"), [(30.0, "fail"), (10.0, "ok")])
def test_the_graph_of_a_first_phase_says_nothing_on_an_adapter_of_a_later_optimizer(ask, began, verdict):
    graph = {"t": 20.0, "step": 20, "reachable": 4, "unreachable": [], "unreachable_n": 0}
    loop = {"backwards": 100, "trainable_n": 4, "never_grad": ["adapter.weight"], "never_grad_n": 1}
    signals = {"loop": loop, "graphs": (graph,), "optimizers": ({"t": began, "index": 1},)}
    assert ask("param_never_gets_grad", signals=signals).verdict == verdict


@pytest.mark.parametrize(
    ("layers", "order", "reason"), [(4, None, "the order in which"), (3, 0, "no model has 4 layers")]
)
def test_layers_of_unknown_order_are_not_called_few(ask, make_model, looks, layers, order, reason):
    """Keras on PyTorch holds its weights in one dictionary, which never runs."""
    model = make_model(*["Linear"] * layers)
    model["modules"] = [{**module, "order": module["order"] if order == 0 else None} for module in model["modules"]]
    rows = [{"i": i, "g": 0.1, "w": 1.0, "ratio": 1e-3} for i in range(layers)]
    found = ask("vanishing_gradient", signals={"models": (model,), "tensors": looks(params=lambda _: rows)})
    assert found.verdict == "not observed" and reason in found.observed
