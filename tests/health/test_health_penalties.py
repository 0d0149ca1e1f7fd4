"""Penalties on the weights against the loss and its gradient."""

from order_of_tests import in_one_test


@in_one_test(
    ("total", "penalised", "verdict"), [(60.0, 4, "warn"), (60.0, 0, None), (5.0, 4, None), (60.0, None, None)]
)
def test_a_penalty_larger_than_the_loss(ask, make_series, total, penalised, verdict):
    graph = {"step": 1, **({"penalised": penalised} if penalised is not None else {})}
    called = {"fn": "cross_entropy", "training": True, "reduction": "mean", "value_first": 1.4, "line": "a.py:3"}
    signals = {"graphs": (graph,), "losses": (called,)}
    found = ask("regularisation_dominates", make_series("loss", [total] * 30), signals=signals)
    assert (found.verdict if found else None) == verdict


@in_one_test(("end", "last", "verdict"), [(1.42, 1.38, "warn"), (0.5, 0.3, None), (1.42, 0.2, None)])
def test_a_penalty_that_falls_alone(ask, make_series, end, last, verdict):
    called = {"fn": "cross_entropy", "training": True, "reduction": "mean", "value_first": 1.5, "value_last": last}
    signals = {"graphs": ({"step": 1, "penalised": 4},), "losses": ({**called, "classes": 4, "line": "a.py:3"},)}
    found = ask("regularisation_dominates", make_series("loss", [9.0] * 10 + [end] * 20), signals=signals)
    assert (found.verdict if found else None) == verdict


@in_one_test(
    ("last", "norm", "verdict"), [(0.6, 2.0, "warn"), (0.6, 4.5, None), (1.9, 2.0, None), (0.02, 2.0, None)]
)  # the data loss is a third of the end at most, and not next to nothing; the weights have shrunk
def test_a_penalty_that_crushes_the_weights(ask, make_series, make_model, looks, last, norm, verdict):
    called = {"fn": "mse_loss", "training": True, "reduction": "mean", "value_first": 7.0, "value_last": last}
    signals = {
        "graphs": ({"step": 1, "penalised": 4},),
        "losses": ({**called, "line": "a.py:3"},),
        "models": (make_model("Linear", "Linear"),),
        "tensors": looks(params=lambda step: [{"i": i, "w": 5.0 if step == 1 else norm} for i in range(2)]),
    }
    found = ask("regularisation_dominates", make_series("loss", [14.0] * 10 + [2.0] * 20), signals=signals)
    assert (found.verdict if found else None) == verdict


@in_one_test(
    ("kind", "options", "left", "verdict"),
    [
        ("Momentum", {"weight_decay": 0.4, "momentum": 0.9}, 0.2, "warn"),
        ("SGD", {"weight_decay": 0.4, "momentum": 0.0}, 0.2, None),
        ("SGD", {"weight_decay": 0.4, "momentum": 0.9}, 0.9, None),
        ("SGD", {"weight_decay": 5e-4, "momentum": 0.9}, 0.2, None),
        ("Adam", {"weight_decay": 0.4}, 0.2, None),
        ("AdamW", {"weight_decay": 0.8}, 0.2, "warn"),
    ],
)
def test_weights_that_decay_wears_down(ask, make_series, make_model, looks, kind, options, left, verdict):
    signals = {
        "models": (make_model("Linear", "Linear", "Linear"),),
        "tensors": looks(
            params=lambda step: [{"i": i, "w": 5.0 if step < 3 else 5 * left, "g": 8.0} for i in range(3)]
        ),
        "optimizers": ({"type": kind, "options": options},),
        "losses": ({"fn": "cross_entropy", "training": True, "value_first": 1.4},),
        "loop": {"steps": 100, "backwards": 100, "optimizers": 1},
    }
    found = ask("regularisation_dominates", make_series("lr", [0.02] * 100), signals=signals)
    assert (found.verdict if found else None) == verdict


@in_one_test(
    ("options", "gradient", "loaded", "verdict"),
    [
        ({"weight_decay": 1.0}, 0.5, False, "warn"),
        ({"weight_decay": 5e-4}, 0.5, False, None),
        ({"weight_decay": 1.0}, 50.0, False, None),
        ({"weight_decay": 1.0}, 0.5, True, None),
        ({}, 0.5, False, None),
    ],
)
def test_weight_decay_stronger_than_the_gradient(
    ask, make_series, make_model, looks, options, gradient, loaded, verdict
):
    signals = {
        "models": (make_model("Linear", "Linear", "Linear"),),
        "tensors": looks(params=lambda _: [{"i": i, "w": 5.0, "g": gradient} for i in range(3)]),
        "optimizers": ({"type": "SGD", "options": options},),
        "losses": ({"fn": "cross_entropy", "training": True, "value_first": 1.4},),
        "loaded": ({"what": "model", "matched": 6, "keys": 6, "step": 0},) if loaded else (),
        "loop": {"steps": 100, "backwards": 100, "optimizers": 1},
    }
    found = ask("regularisation_dominates", make_series("lr", [0.1] * 100), signals=signals)
    assert (found.verdict if found else None) == verdict
