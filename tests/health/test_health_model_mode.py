"""Checks of the mode of a model, where validation looks like training."""

from __future__ import annotations

import pytest
from order_of_tests import in_one_test

pytestmark = pytest.mark.pure


@in_one_test(
    ("name", "changed", "verdict"),
    [
        ("test_accuracy", {}, "warn"),
        ("accuracy", {}, "not observed"),
        ("accuracy", {"forwards_lonely": 9, "shuffle": True}, "warn"),
        ("accuracy", {"forwards_lonely": 9, "shuffle": False}, "not observed"),
        ("test_accuracy", {"losses_lonely": 5}, "not observed"),
        ("test_accuracy", {"evaluations": ({"batches": 4, "training": False, "stochastic": True},)}, "ok"),
    ],
    ids=["validation", "of the training data", "passes", "one order", "some have a loss", "another phase"],
)
def test_validation_without_a_loss_that_looks_like_training(ask, make_series, name, changed, verdict):
    changed = dict(changed)
    layer = {"i": 0, "name": "drop", "type": "Dropout", "order": 0, "options": {"p": 0.5}}
    signals = {
        "evaluations": changed.pop("evaluations", ()),
        "loaders": ({"shuffle": changed.pop("shuffle", False), "batches": 30}, {"shuffle": False, "batches": 8}),
        "loop": {
            "steps": 90,
            "backwards": 90,
            "forwards_lonely": 24,
            "losses_lonely": 0,
            "accumulation": {"1": 90},
            "forwards": {"train_grad": 114},
            **changed,
        },
        "losses": ({"fn": "cross_entropy", "line": "t.py:9", "training": True, "calls": 90},),
        "models": ({"model": 0, "modules": [layer], "parameters": []},),
    }
    found = ask("eval_in_train_mode", make_series(name, [0.5, 0.7], "console"), signals=signals)
    assert found.verdict == verdict and (verdict != "warn" or "24 forward passes" in found.observed)


@in_one_test(
    ("phase", "names", "verdict"),
    [
        ({}, ("accuracy",), "warn"),
        ({"grad": False}, ("accuracy",), "warn"),
        ({"loss": {"cross_entropy": 0.5}}, ("accuracy",), "fail"),
        ({}, (), "not observed"),
        ({"training": False}, ("accuracy",), "ok"),
        ({"asked": True}, ("accuracy",), "ok"),
        ({"stochastic": False}, ("accuracy",), "ok"),
    ],
    ids=["with gradients", "without", "with a loss", "generates", "evaluation mode", "attack", "no such layer"],
)
def test_a_program_that_only_evaluates(ask, make_series, phase, names, verdict):
    known = {"training": True, "stochastic": True, "grad": True, "batches": 6, "begin_step": 1, **phase}
    series = [make_series(name, [0.5], "text") for name in names]
    found = ask("eval_in_train_mode", *series, signals={"evaluations": (known,)}, processes=())
    assert found.verdict == verdict and (verdict in ("ok", "not observed") or found.where == {"step": 0}), (
        "before the first step"
    )


@in_one_test(
    ("phase", "loaded", "verdict"),
    [
        ({}, {"what": "model", "matched": 40, "missing_n": 0}, "warn"),
        ({"repeated": 5}, {"what": "model", "matched": 40, "missing_n": 0}, "not observed"),
        ({}, {"what": "model", "matched": 38, "missing_n": 2}, "not observed"),
        ({"training": False}, {"what": "model", "matched": 40, "missing_n": 0}, "ok"),
    ],
    ids=["trained weights", "Monte Carlo dropout", "a new head", "evaluation mode"],
)
def test_a_program_that_computes_outputs_of_trained_weights(ask, phase, loaded, verdict):
    known = {"training": True, "stochastic": True, "grad": False, "batches": 6, "begin_step": 1, **phase}
    signals = {"evaluations": (known,), "loaded": (loaded,)}
    assert ask("eval_in_train_mode", signals=signals, processes=()).verdict == verdict


def test_samples_drawn_in_training_mode_are_no_phase_in_evaluation_mode(ask):
    """As of a generator at the end, whose batch normalisation is in training mode."""
    known = {"training": True, "stochastic": True, "grad": False, "batches": 1, "begin_step": 87}
    found = ask("eval_in_train_mode", signals={"evaluations": (known,), "loop": {"steps": 87}})
    assert found.verdict == "not observed" and "forwards in training mode, with too few" in found.observed


@in_one_test(("root", "words"), [("Net", "was seen"), ("DistributedDataParallel(Net)", "are not followed")])
def test_a_validation_by_the_module_inside_a_wrapper_is_not_followed(ask, root, words):
    signals = {"loop": {"steps": 90}, "models": ({"model": 0, "root": root, "modules": [], "parameters": []},)}
    assert ask("eval_in_train_mode", signals=signals).observed.endswith(words)


@in_one_test(
    ("kind", "root", "words"),
    [
        ("BatchNorm2d", "Net", "no dropout or batch normalisation in training mode"),
        ("Linear", "Net", "no module behaves differently in evaluation mode"),
        ("Linear", "Sequential", "no dropout or batch normalisation in training mode"),
    ],
)
def test_a_container_in_training_mode_whose_modules_are_not(ask, kind, root, words):
    layer = {"i": 0, "name": "norm", "type": kind, "order": 0}
    evaluation = {"root": root, "batches": 1, "training": True, "stochastic": False, "phases": 1}
    models = ({"model": 0, "root": "Net", "modules": [layer], "parameters": []},)
    found = ask("eval_in_train_mode", signals={"evaluations": (evaluation,), "models": models, "loop": {"steps": 9}})
    assert (found.verdict, found.observed) == ("ok", words)
