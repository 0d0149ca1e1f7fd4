"""The first loss of a training, and the initial weights."""

import math

import pytest
from order_of_tests import in_one_test

from labbook.model.run_files import Parent


def first_loss(value, **fields):
    call = {"fn": "cross_entropy", "training": True, "calls": 9, "classes": 10, "reduction": "mean", "step": 1}
    return {"losses": ({**call, "line": "t.py:1", "value_first": value, **fields},)}


@in_one_test(
    ("value", "fields", "verdict"),
    [
        (math.log(10), {}, "ok"),
        (6.0, {}, "warn"),
        (0.4, {}, "ok"),
        (math.log(10) * 32, {"reduction": "sum", "items": 32}, "ok"),
        (6.0, {"weight": True}, "not observed"),
        (6.0, {"classes": 32, "input": {"shape": [32, 32]}}, "not observed"),
        (0.7, {"fn": "bce_with_logits", "classes": None}, "ok"),
        (40.0, {"fn": "mse_loss"}, "not observed"),
    ],
)
def test_the_first_loss(ask, value, fields, verdict):
    assert ask("init_loss_off", signals=first_loss(value, **fields)).verdict == verdict


@in_one_test(("value", "loaded", "words"), [(0.1, True, "trained weights"), (0.1, False, "ln"), (2.3, True, "ln")])
def test_a_loss_below_chance_with_loaded_weights_is_expected(ask, value, loaded, words):
    state = ({"what": "model", "matched": 9, "missing_n": 0},) if loaded else ()
    found = ask("init_loss_off", signals=first_loss(value) | {"loaded": state})
    assert found.verdict == "ok" and words in found.expected and ("trained" in found.expected) == (words != "ln")


def test_where_samples_of_a_batch_are_compared_the_reason_is_that(ask):
    square = {"classes": 32, "input": {"shape": [32, 32]}}
    assert "as many classes as samples" in ask("init_loss_off", signals=first_loss(6.0, **square)).observed
    assert "weights or reduction" in ask("init_loss_off", signals=first_loss(6.0, weight=True)).observed


def test_checks_of_classes_have_one_reason_in_a_regression(ask):
    checks = ("init_loss_off", "label_out_of_head", "class_imbalance")
    assert len({str(ask(name, signals=first_loss(40.0, fn="mse_loss")).observed) for name in checks}) == 1


@pytest.mark.parametrize(("second", "verdict"), [(2.4, "ok"), (0.4, "ok"), (6.0, "warn")])
def test_the_first_loss_of_each_training(ask, make_series, second, verdict):
    series = [make_series("loss", [2.3, 0.5]), make_series("loss.opt3", [second, 0.5])]
    times = {"spans": {0: (1.0, 2.0), 3: (3.0, 4.0)}, "trainings": ((1.0, 2.0), (3.0, 4.0))}
    result = ask("init_loss_off", *series, signals={**first_loss(2.3), **times})
    assert result.verdict == verdict and ("training 2" in result.observed) == (second > 2.31)


def test_a_loss_that_is_summed_in_a_later_training_is_found(ask, make_series):
    later = {"reduction": "sum", "items": 64, "line": "t.py:9", "step": 61, "training": True}
    (mean,), (summed,) = (first_loss(*row)["losses"] for row in ((2.3,), (150.0,)))
    series = [make_series("loss", [2.3, 0.5]), make_series("loss.opt1", [150.0, 90.0])]
    result = ask("init_loss_off", *series, signals={"losses": (mean, {**summed, **later})})
    assert result.verdict == "warn" and "64" in result.observed and 'reduction="mean"' in result.advice


@pytest.mark.parametrize(("side", "verdict"), [("LinalgVectorNorm", "note"), ("Relu", "warn")])
def test_scaled_cosines_begin_where_the_program_has_them(ask, side, verdict):
    rows = [["NllLoss", [1], None], ["Mul", [2], None], ["Mm", [3, 4], None], ["Div", [5, 6], None], ["Div", [7], None]]
    rows += [["Addmm", [], None], [side, [5], None], ["LinalgVectorNorm", [8], None], ["", [], "proto"]]
    signals = {**first_loss(6.0), "graphs": ({"step": 1, "operations": rows},)}
    assert ask("init_loss_off", signals=signals).verdict == verdict


def test_weights_that_were_loaded_may_begin_anywhere(ask):
    loaded = {"loaded": ({"what": "model", "matched": 9, "keys": 10, "step": 0},)}
    assert ask("init_loss_off", signals={**first_loss(6.0), **loaded}).verdict == "note"


@in_one_test(
    ("first", "loss", "resumed", "verdict"),
    [
        (0.11, 0.1, True, "ok"),
        (0.9, 0.1, True, "ok"),
        (math.log(10), 0.1, True, "note"),
        (math.log(10), 2.0, True, "ok"),
        (6.0, 2.0, True, "note"),
        (6.0, math.nan, True, "note"),
        (6.0, 0.1, False, "note"),
    ],
)
def test_the_first_loss_of_a_resumed_training_is_compared_with_the_last_one_of_its_parent(
    ask, first, loss, resumed, verdict
):
    parent = Parent("20261121-153012-k3f9", "last.pt", "last.pt", "sha256:" + "a" * 64, loss)
    fields = {"parents": (parent,), "resumed_from": parent.run if resumed else ""}
    optimizer = {"loaded": ({"what": "optimizer", "matched": 4, "step": 0},)}
    result = ask("init_loss_off", signals={**first_loss(first), **optimizer}, **fields)
    assert result.verdict == verdict
    assert (parent.run in result.expected) == (resumed and math.isfinite(loss))
    of_weights = ask("init_loss_off", signals=first_loss(first), **fields)
    assert parent.run not in of_weights.expected  # they may be those of another task


def test_symmetric_weights(ask, make_model):
    alike = {"rows_equal": True, "std": 0.0, "min": 0.01, "max": 0.01, "mean": 0.01}
    zero = {"rows_equal": True, "std": 0.0, "min": 0.0, "max": 0.0}
    kinds = ("Linear", "Linear", "Linear")
    every = make_model(*kinds, init=dict.fromkeys((1, 2, 3), alike))
    assert ask("init_symmetric", signals={"models": (every,)}).verdict == "fail"
    head = make_model(*kinds, init={3: zero})
    assert ask("init_symmetric", signals={"models": (head,)}).verdict == "ok"
    assert ask("init_symmetric", signals={"models": (make_model(*kinds),)}).verdict == "ok"


def test_scale_of_initial_weights(ask, make_model, looks):
    def signals(std, amplified=30.0):
        model = make_model("Linear", "Linear", "Linear", init={i: {"std": std} for i in (1, 2, 3)})
        return {"models": (model,), "tensors": looks(modules=lambda _: [{"i": 1, "std": amplified}])}

    assert ask("init_scale_bad", signals=signals(1.0)).verdict == "warn"
    assert ask("init_scale_bad", signals=signals(1.0, amplified=1.0)).verdict == "ok"
    assert ask("init_scale_bad", signals=signals(1e-4)).verdict == "warn"
    assert ask("init_scale_bad", signals=signals(0.0)).observed.startswith("constant weights in ")
    assert ask("init_scale_bad", signals=signals(0.06)).verdict == "ok"


def test_initialisation_written_again_and_again(ask, make_model):
    def verdict(**times):
        model = make_model(
            *["Linear"] * len(times), init={i: {"writes": {"normal_": n}} for i, n in enumerate(times.values(), 1)}
        )
        named = [{**one, "name": name} for one, name in zip(model["parameters"], times, strict=True)]
        outcome = ask("repeated_initialisation", signals={"models": ({**model, "parameters": named},)})
        return outcome and outcome.verdict

    # A recursion writes each parameter once for every module above it.
    assert verdict(**{"head.weight": 2, "block.one.weight": 3, "block.two.weight": 3}) == "warn"
    assert verdict(**{"head.weight": 1, "block.one.weight": 2}) is None
    # A library that fills all again, or a layer that several blocks share.
    assert verdict(**{"head.weight": 3, "block.one.weight": 3}) == "note"
    assert (
        verdict(**{"head.weight": 1, "block.shared.weight": 4, "block.own.weight": 1, "block.a.b.weight": 1}) == "note"
    )
    garbage = {"models": (make_model("Linear", init={1: {"max": 3e38}}),)}
    assert ask("init_skipped", signals=garbage).verdict == "note"
    state = {**garbage["models"][0]}
    state["parameters"] = [{**row, "dtype": "int64"} for row in state["parameters"]]
    assert ask("init_skipped", signals={"models": (state,)}) is None


@pytest.mark.parametrize(("captured", "values"), [({"phases": {"count": 2}}, 8), ({}, 4)])
def test_losses_of_a_second_training_with_the_same_seed_count(ask, make_series, captured, values):
    """Two optimizers that share one loss have it once."""
    series = [make_series(name, [2.3, 1.0, 0.7, 0.5]) for name in ("loss", "loss.opt1")]
    assert str(values) in ask("loss_seen", *series, captured=captured).observed


def test_measurements_of_some_steps_are_said_to_be_of_these(ask, make_series):
    """Gradient norms of short steps are measured in some steps only."""
    losses = make_series("loss", [1.0, 0.9, 0.8, 0.7])
    every = ask("gradient_all_zero", losses, make_series("grad_norm", [0.1, 0.3, 0.2, 0.2]))
    assert every.observed == "0.1 to 0.3"
    some = ask("gradient_all_zero", losses, make_series("grad_norm", [0.1, 0.3]))
    assert some.observed == "0.1 to 0.3 in 2 measured steps"
