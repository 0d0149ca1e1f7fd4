"""Images that were scaled or normalised twice."""

from __future__ import annotations

import math

import pytest


def batches(**leaf):
    made = {"path": "0", "role": "input", "shape": [32, 1, 28, 28], "integer": False, **leaf}
    return {"batches": tuple({"step": at, "phase": "train", "samples": 32, "leaves": [made]} for at in range(1, 21))}


@pytest.mark.parametrize(("center", "spread"), [(0.1307, 0.3081), (0.45, 0.225), (0.5, 0.2)])
def test_pixels_that_were_normalised_twice(ask, center, spread):
    def pixels(times, mean=center, deviation=spread):
        values = {"min": 0.0, "max": 1.0, "mean": mean}
        for _ in range(times):
            values = {key: (value - center) / spread for key, value in values.items()}
        return batches(std=deviation / spread**times, **values)

    assert "normalised twice" in str(ask("input_double_normalised", signals=pixels(2)).observed)
    assert ask("input_double_normalised", signals=pixels(1)) is None
    assert ask("input_double_normalised", signals=pixels(1, center + 0.1, 0.6 * spread)) is None


@pytest.mark.parametrize(
    ("given", "observed"),
    [
        ({"min": 0.0, "max": 1 / 255, "mean": 0.001, "std": 0.001}, "divides it by 255 again before"),
        ({"min": -4.75, "max": 5.8, "mean": -1.38, "std": 3.25}, "like pixels normalised twice"),
        ({"min": -0.42, "max": 2.82, "mean": 0.0, "std": 1.0}, ""),
        ({"min": 0.0, "max": 0.004, "mean": 0.001, "std": 0.001}, ""),
    ],
)
def test_a_model_that_scales_scaled_images(ask, make_model, looks, given, observed):
    row = {"i": 1, "std": 1.0, "given": {"shape": [32, 1, 28, 28], **given}}
    layers = {"models": (make_model("Conv2d", "Linear"),), "tensors": looks(modules=lambda _: [row])}
    signals = {**batches(min=0.0, max=1.0), **layers}
    found = ask("input_double_normalised", signals=signals)
    assert observed in found.observed if observed else found is None


def test_a_hint_does_not_hide_the_cause_of_an_effect(rows_of, make_run, make_series, make_model, looks):
    """Images that were divided twice are also far from deviation 1, which is a hint and explains a flat loss too."""
    losses = [1.1 + 0.01 * math.sin(i * i) for i in range(150)]
    leaf = {"path": "0", "role": "input", "shape": [32, 1, 28, 28], "integer": False, "bad": 0, "nan": 0}
    leaf = {**leaf, "min": 0.0, "max": 1 / 255, "mean": 0.0005, "std": 0.001}
    signals = {
        "batches": tuple({"step": i, "phase": "train", "samples": 32, "leaves": [leaf]} for i in range(1, 21)),
        "models": (make_model("Conv2d", "Linear"),),
        "tensors": looks(modules=lambda _: [{"i": 1, "std": 1.0}]),
        "losses": ({"fn": "cross_entropy", "classes": 3, "calls": 150},),
        "loop": {"optimizers": 1},
    }
    rows = rows_of(make_run(make_series("loss", losses), make_series("lr", [0.1] * 150), signals=signals))
    assert rows["input_not_normalised"].verdict == "note"
    assert rows["input_double_normalised"].verdict == "warn"
    assert rows["loss_at_chance"].explained_by == "input_double_normalised"
