"""The size of updates: each check fires on steps that are too large or too small, and on no others."""

import math

import pytest
from order_of_tests import in_one_test

from labbook.health.rules.updates import hardly_moved
from labbook.model.signals import Signals


def updates(make_model, looks, ratio, **init):
    model = make_model("Linear", "Linear", init={1: init, 2: init})
    tensors = looks(params=lambda step: [{"i": i, "w": 1.0, "g": 1.0, "ratio": ratio(step)} for i in (0, 1)])
    return {"models": (model,), "tensors": tensors}


@in_one_test(
    ("ratio", "init", "verdict"),
    [
        (lambda step: 0.4, {}, "fail"),
        (lambda step: 1e-3, {}, "ok"),
        (lambda step: 3.0 / step, {}, "ok"),
        (lambda step: 0.4, {"std": 0.0}, "not observed"),
    ],
)
def test_size_of_updates(ask, make_model, looks, ratio, init, verdict):
    assert ask("update_too_large", signals=updates(make_model, looks, ratio, **init)).verdict == verdict


@in_one_test(("size", "last", "verdict"), [(0.16, 0.03, "note"), (0.16, 1.2, "fail"), (1.5, 0.03, "fail")])
def test_large_updates_of_a_model_that_learns_are_a_note(ask, make_model, looks, make_series, size, last, verdict):
    loss = make_series("loss", [1.4] * 20 + [last] * 40)
    assert ask("update_too_large", loss, signals=updates(make_model, looks, lambda _: size)).verdict == verdict


@in_one_test(("last", "verdict"), [(6.5, "note"), (7.9, "warn")])
def test_large_updates_of_few_matrices_are_a_note_while_the_loss_falls(
    ask, make_model, looks, make_series, last, verdict
):
    model = make_model("Linear", "Linear", "Linear")
    tensors = looks(
        params=lambda _: [{"i": i, "w": 1.0, "g": 1.0, "ratio": 0.14 if i == 0 else 0.01} for i in range(3)]
    )
    loss = make_series("loss", [8.0] * 20 + [last] * 40)
    assert ask("update_too_large", loss, signals={"models": (model,), "tensors": tensors}).verdict == verdict


@in_one_test(("size", "rate"), [(0.4, 10.0), (5.0, 1.0), (426.0, 0.01)])
def test_the_advised_rate_brings_updates_below_a_tenth_of_the_weights(ask, make_model, looks, make_series, size, rate):
    found = ask("update_too_large", make_series("lr", [100.0] * 60), signals=updates(make_model, looks, lambda _: size))
    assert found.advice == f"Lower the learning rate to about {rate:.2g}."


def test_a_short_run_is_judged_by_shattering_updates_only(ask, make_model, looks):
    def signals(ratio):
        made = updates(make_model, looks, lambda step: ratio)
        return {**made, "tensors": made["tensors"][:4]}

    assert ask("update_too_large", signals=signals(5.0)).verdict == "fail"
    assert ask("update_too_large", signals=signals(0.3)).verdict == "not observed"


def test_a_first_update_that_wipes_the_weights_out(ask, make_model, looks, make_series):
    signals = updates(make_model, looks, lambda step: 10.0 if step == 1 else 0.3 / step)
    worse = make_series("loss", [0.5, 90.0, *[3.0 + i % 4 for i in range(60)]])
    better = make_series("loss", [0.5, 0.4, *[0.3] * 60])
    assert ask("update_too_large", worse, signals=signals).verdict == "fail"
    assert ask("update_too_large", better, signals=signals).verdict == "ok"


def test_the_advised_rate_is_that_of_the_first_step(ask, make_model, looks, make_series):
    """The second step is that of a gradient which the first one made grow."""
    signals = updates(make_model, looks, lambda step: {1: 0.4, 2: 4e7}.get(step, 0.3 / step))
    series = (make_series("loss", [0.5, 90.0, *[3.0 + i % 4 for i in range(60)]]), make_series("lr", [1.0] * 60))
    found = ask("update_too_large", *series, signals=signals)
    assert found.advice == "Lower the learning rate to about 0.1."
    # The sentence is about the largest one; those before it may be what made the loss rise.
    assert "4e+07 times its norm in step 2" in found.observed and "step" not in found.where


@in_one_test(
    ("ratio", "rates", "verdict"),
    [
        (1e-10, [1e-10] * 60, "warn"),
        (1e-10, [1e-12 * (i + 1) for i in range(60)], "note"),
        (1e-6, [1e-6] * 60, "note"),
        (1e-4, [1e-3] * 60, "ok"),
    ],
)
def test_steps_that_move_nothing_are_a_finding_whatever_the_loss_does(
    rows_of, make_run, make_model, looks, make_series, ratio, rates, verdict
):
    signals = updates(make_model, looks, lambda step: ratio) | {"loop": {"optimizers": 1}}
    series = [make_series("loss", [1.4 - 0.001 * i for i in range(60)]), make_series("lr", rates)]
    row = rows_of(make_run(*series, signals=signals)).get("update_too_small")
    assert (row.verdict if row else "ok") == verdict


@in_one_test(
    ("rate", "fall", "verdict"),
    [(1e-6, 5e-5, "warn"), (1e-6, 5e-3, "ok"), (1e-6, 0.0, "ok"), (1e-3, 5e-5, "ok")],
    ids=["hardly falls", "falls", "flat", "a usual rate"],
)
def test_a_loss_that_hardly_falls_at_a_tiny_rate(rows_of, make_run, make_model, make_series, rate, fall, verdict):
    losses = [4.4 * math.exp(-fall * i) + 0.001 * math.sin(i * i) for i in range(300)]
    signals = {"models": (make_model("Linear"),), "loop": {"optimizers": 1}, "tensors": ({"params": [{"i": 0}]},)}
    row = rows_of(make_run(make_series("loss", losses), make_series("lr", [rate] * 300), signals=signals)).get(
        "update_too_small"
    )
    assert (row.verdict if row else "ok") == verdict


@in_one_test(("last", "verdict"), [(20, "fail"), (100, "ok"), (150, "ok")])
def test_parameters_that_stop_although_no_rate_is_known(ask, make_model, looks, last, verdict):
    signals = updates(make_model, looks, lambda step: 1e-3 if step <= last else 0.0)
    found = ask("step_changed_nothing", signals={**signals, "loop": {"unchanged": {"0": {"checked": 9}}}})
    assert found.verdict == verdict


@in_one_test(("first", "fall", "named"), [(1.2, 0.0, True), (1.2, 0.02, False), (0.2, 0.0, False)])
def test_first_steps_that_shatter_the_weights_are_the_cause_of_a_loss_at_chance(
    rows_of, make_run, make_model, looks, make_series, first, fall, named
):
    losses = [2.31 * math.exp(-fall * i) + 0.01 * math.sin(i * i) for i in range(150)]
    function = {"fn": "cross_entropy", "classes": 10, "calls": 150}
    signals = updates(make_model, looks, lambda step: first if step < 3 else 0.02) | {"losses": (function,)}
    series = [make_series("loss", losses), make_series("lr", [0.1] * 150)]
    rows = rows_of(make_run(*series, signals=signals | {"loop": {"optimizers": 1}}))
    assert (rows["update_too_large"].verdict == "fail") is named
    if named:
        assert rows["loss_at_chance"].explained_by == "update_too_large"


@in_one_test(("first", "best", "named"), [(0.9, 0.71, True), (0.9, 0.85, False), (0.4, 0.71, False)])
def test_first_steps_that_shatter_the_weights_are_the_cause_of_trivial_answers(
    rows_of, make_run, make_model, looks, make_series, first, best, named
):
    labels = {"0": 116, "1": 284}
    signals = updates(make_model, looks, lambda step: {1: 0.0, 2: first}.get(step, 0.02)) | {
        "prints": ({"phase": "train", "histogram": labels},),
        "loop": {"optimizers": 1, "steps": 100},
        "evaluations": tuple({"samples": 200, "accuracy": best} for _ in range(4)),
    }
    losses = [0.9 - 0.004 * step + 0.2 * math.sin(step * step) for step in range(100)]
    series = [
        make_series("loss", losses),
        make_series("lr", [0.1] * 100),
        make_series("val_acc", [best] * 4, "console"),
    ]
    rows = rows_of(make_run(*series, signals=signals))
    assert (rows["update_too_large"].verdict == "fail") is named
    if named:
        assert rows["below_trivial_baseline"].explained_by == "update_too_large"


@pytest.mark.parametrize(("ratio", "fall", "named"), [(1e-5, 0.0, True), (1e-3, 0.0, False), (1e-5, 0.01, False)])
def test_steps_too_small_are_the_cause_of_a_loss_that_stands_still(
    rows_of, make_run, make_model, looks, make_series, ratio, fall, named
):
    losses = [2.31 * math.exp(-fall * i) + 0.01 * math.sin(i * i) for i in range(150)]
    function = {"fn": "cross_entropy", "classes": 10, "main": True, "calls": 150, "backwards": 150, "first": losses[0]}
    signals = updates(make_model, looks, lambda step: ratio) | {"losses": (function,)}
    loop_facts = {"optimizers": 1, "clip": {"calls": 150, "clipped": 150, "limit": 1e-4}}
    series = [make_series("loss", losses), make_series("grad_norm", [0.4] * 150), make_series("lr", [0.1] * 150)]
    rows = rows_of(make_run(*series, signals=signals | {"loop": loop_facts}))
    assert (rows.get("clip_always_active", rows["loss_seen"]).verdict == "warn") is named
    if named:
        assert rows["update_too_small"].explained_by == "clip_always_active"
        assert rows["update_too_small"].tier == 2 and "0.15 %" in rows["update_too_small"].observed
        flat = [row for name in ("loss_at_chance", "loss_not_decreasing") if (row := rows.get(name)) is not None]
        assert flat and all(row.explained_by == "clip_always_active" for row in flat)


@pytest.mark.parametrize(
    ("optimizer", "fall", "ratio", "named"),
    [("SGD", 1e-3, 2e-4, True), ("Adam", 1e-3, 2e-4, False), ("SGD", 1e-2, 2e-4, False), ("SGD", 1e-3, 2e-3, False)],
)
def test_clipping_that_makes_a_steady_fall_slow(
    rows_of, make_run, make_model, looks, make_series, optimizer, fall, ratio, named
):
    losses = [1.6 * math.exp(-fall * i) + 1e-3 * math.sin(i * i) for i in range(150)]
    signals = updates(make_model, looks, lambda step: ratio) | {"optimizers": ({"type": optimizer},)}
    signals |= {"losses": ({"fn": "cross_entropy", "classes": 5, "calls": 150},)}
    loop_facts = {"optimizers": 1, "clip": {"calls": 150, "clipped": 150, "limit": 1e-3}}
    series = [make_series("loss", losses), make_series("grad_norm", [0.4] * 150), make_series("lr", [0.1] * 150)]
    row = rows_of(make_run(*series, signals=signals | {"loop": loop_facts}))["clip_always_active"]
    assert row.verdict == ("warn" if named else "note")


@in_one_test(("rates", "verdict"), [((1e-3, 1e-9), "warn"), ((1e-3, 1e-6), "ok"), ((1e-3, 0.0), "ok")])
def test_a_group_of_parameters_that_stands_still(ask, make_model, looks, make_series, rates, verdict):
    groups = [{"lr": rate, "tensors": 2, "elements": 20} for rate in rates]
    signals = {**updates(make_model, looks, lambda _: 1e-3), "optimizers": ({"index": 0, "groups": groups},)}
    found = ask("update_too_small", make_series("lr", [1e-3] * 60), signals=signals)
    assert (found.verdict if found is not None else "ok") == verdict


@in_one_test(("moved", "zero", "verdict"), [(0.04, 0.0, "warn"), (0.8, 0.0, "ok"), (0.0, 0.0, "ok"), (0.04, 0.9, None)])
def test_updates_below_the_resolution_of_the_weights(ask, make_model, looks, moved, zero, verdict):
    rows = [{"i": i, "w": 1.0, "g": 1.0, "g_zero": zero, "moved": moved} for i in (0, 1)]
    model = make_model("Linear", "Linear")
    found = ask("low_precision_updates_lost", signals={"models": (model,), "tensors": looks(params=lambda _: rows)})
    assert (found.verdict if found is not None else None) == verdict


@in_one_test(("decay", "left", "verdict"), [(20.0, 0.1, "warn"), (0.1, 0.1, None), (20.0, 0.9, None)])
def test_decay_apart_from_the_gradient_that_wins_against_it(ask, make_model, looks, make_series, decay, left, verdict):
    tensors = looks(params=lambda step: [{"i": i, "w": left ** (step / 150), "g": 1.0} for i in (0, 1)])
    optimizer = {"index": 0, "type": "AdamW", "options": {"weight_decay": decay}}
    signals = {"models": (make_model("Linear", "Linear"),), "tensors": tensors, "optimizers": (optimizer,)}
    losses = ({"fn": "cross_entropy", "training": True, "calls": 60, "classes": 10, "value_first": 2.3},)
    found = ask("regularisation_dominates", make_series("lr", [1e-3] * 60), signals={**signals, "losses": losses})
    assert (found and found.verdict) == verdict


@in_one_test(("norm", "verdict"), [(2.0, "note"), (1e-3, "warn")])
def test_small_initial_weights_that_have_grown_are_a_note(ask, make_model, looks, norm, verdict):
    model = make_model("Linear", "Linear", init={i: {"std": 1e-4} for i in (1, 2)})
    tensors = looks(params=lambda step: [{"i": i, "w": 1e-3 if step == 1 else norm, "g": 1.0} for i in (0, 1)])
    assert ask("init_scale_bad", signals={"models": (model,), "tensors": tensors}).verdict == verdict


@in_one_test(
    ("ratio", "share"),
    [(lambda _: 1e-5, 0.0015), (lambda step: 0.01 if step <= 3 else 1e-9, None), (lambda step: 2e-4 / step, 0.0013)],
    ids=["constant", "large at first", "falls"],
)
def test_the_bound_of_all_updates_counts_the_large_first_ones(make_model, looks, ratio, share):
    found = hardly_moved(Signals("torch", **updates(make_model, looks, ratio)), clipped=False)
    assert (found is None) is (share is None)
    if share is not None:
        bound = found.observed.values["share"]
        assert bound == pytest.approx(share, rel=0.1) and bound > 0.999 * sum(ratio(step) for step in range(1, 151))


def test_steps_that_changed_nothing_are_not_counted_as_changes(ask):
    signals = {"loop": {"unchanged": {"0": {"checked": 19, "unchanged": 8, "streak": 8}}}}
    assert (
        ask("step_changed_nothing", signals=signals).observed
        == "in 11 of 19 inspected steps with a gradient and a rate above 0"
    )


@in_one_test("check", ["grad_not_cleared", "step_changed_nothing"])
def test_an_optimizer_without_gradients_says_nothing_of_them(ask, make_model, looks, check):
    """As one that was created before the model was copied: its parameters get no gradient."""
    cleared = {"0": {"checked": 66, "not_cleared": 0, "streak": 0}}
    empty = {"0": {"checked": 180, "none": 180, "zero": 0, "streak": 180}}
    tensors = looks(params=lambda _: [{"i": 0, "w": 1.0, "ratio": 0.0}])
    signals = {"models": (make_model("Linear"),), "tensors": tensors}
    signals["loop"] = {"optimizers": 1, "steps": 180, "cleared": cleared, "steps_without_gradient": empty}
    found = ask(check, signals=signals)
    assert (found.verdict, found.observed) == ("not observed", "not observed: no inspected step had a gradient")


@pytest.mark.parametrize(
    ("lost", "norm", "verdict"), [(6, 0.4, "ok"), (6, 0.0, "fail"), (2, 0.4, "fail")], ids=["trained", "idle", "part"]
)
def test_a_gradient_norm_refutes_that_no_parameter_of_an_optimizer_trains(ask, make_series, lost, norm, verdict):
    norms = make_series("grad_norm.opt3", [norm] * 42)
    signals = {"loop": {"stale": {"3": {"tensors": lost, "held": 6, "elements": 611}}}}
    assert ask("optimizer_params_stale", norms, signals=signals).verdict == verdict


def test_parameters_of_a_head_that_was_replaced_are_not_among_those_with_a_gradient(ask):
    """The optimizer holds the old head, and never clears the gradients of the new one."""
    loop = {"trainable_n": 6, "backwards": 30, "stale": {"0": {"tensors": 2, "held": 6}}, "outside": ["head.weight"]}
    signals = {"loop": {**loop, "cleared": {"0": {"checked": 9, "not_cleared": 0, "streak": 0}}}}
    found = ask("param_never_gets_grad", signals=signals)
    assert found.observed == "4 of 6 parameters in the optimizer; 2 of no model that runs have none"
    assert ask("grad_not_cleared", signals=signals).observed.startswith("those in the optimizer cleared")


def test_a_backbone_in_no_optimizer_is_not_among_all_parameters(ask):
    signals = {"loop": {"trainable_n": 6, "backwards": 30}, "optimizers": ({"index": 0, "type": "Adam", "tensors": 2},)}
    assert (
        ask("param_never_gets_grad", signals=signals).observed == "all 2 parameters in the optimizer, of 6 in the model"
    )


def test_some_steps_that_change_nothing_are_noted(ask):
    found = ask(
        "step_changed_nothing", signals={"loop": {"unchanged": {"0": {"checked": 20, "unchanged": 7, "streak": 7}}}}
    )
    assert (
        found.verdict == "note" and found.observed == "in 13 of 20 inspected steps with a gradient and a rate above 0"
    )


def test_a_model_of_lookup_tables_has_no_matrix_whose_updates_are_judged(ask, make_model, looks):
    model = make_model("Linear")
    model["modules"][1]["type"] = "Embedding"
    tensors = looks(params=lambda _: [{"i": 0, "w": 1.0, "g": 1.0, "ratio": 0.4}])
    found = ask("update_too_large", signals={"models": (model,), "tensors": tensors})
    assert found.verdict == "not observed" and "lookup tables" in found.observed


@pytest.mark.parametrize(
    ("framework", "factors", "verdict"),
    [
        ("paddle", [1e-3, 1e-2], "warn"),
        ("paddle", [1e-3, 1.0], "warn"),
        ("paddle", [0.03], "warn"),
        ("paddle", [0.1, 1.0], "ok"),
        ("paddle", [], "ok"),
        ("torch", [1e-3, 1e-2], "ok"),
    ],
)
def test_rates_of_groups_that_are_factors(ask, make_series, framework, factors, verdict):
    groups = [{"lr": 1e-6 * one, "learning_rate": one} for one in factors] or [{"lr": 1e-6}]  # in a warm-up
    optimizer = {"framework": framework, "options": {"learning_rate": 1e-3}, "groups": groups}
    found = ask(
        "learning_rate_seen", make_series("lr", [1e-6, 1e-3]), signals={"optimizers": (optimizer,)}, framework=framework
    )
    assert found.verdict == verdict
