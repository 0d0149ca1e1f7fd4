"""A logged validation loss beside the loss of the batches of its phase, scaled labels, and renumbered classes."""

import pytest

RIGHT = [0.7, 0.6, 0.55, 0.5, 0.48]


def phases(batches, size=64):
    return tuple(
        {"loss": {"mse_loss": value}, "batches": batches, "samples": batches * size, "end_step": 10 * n + 10}
        for n, value in enumerate(RIGHT)
    )


@pytest.mark.parametrize(
    ("name", "logged", "batches", "verdict"),
    [
        ("val_loss", [0.08, 0.05, 0.06, 0.04, 0.07], 10, "warn"),  # the last batch, divided by all
        ("val_loss", [value / 10 for value in RIGHT], 10, "warn"),  # divided twice
        ("val_loss", RIGHT, 10, None),
        ("val_loss", [0.9 * value for value in RIGHT], 10, None),
        ("val_loss", [value / 64 for value in RIGHT], 60, None),  # a sum of means, divided by the samples
        ("val_loss", [10 * value for value in RIGHT], 10, None),  # a sum
        ("train_loss", [value / 10 for value in RIGHT], 10, None),
        ("val_loss", [value / 3 for value in RIGHT], 3, None),  # too few to tell
    ],
)
def test_a_logged_loss_that_is_a_part_of_the_measured_one(ask, make_series, name, logged, batches, verdict):
    signals = {"evaluations": phases(batches)}
    found = ask("metric_of_wrong_values", make_series(name, logged, "text"), signals=signals)
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(
    ("top", "zero", "mean", "function", "verdict"),
    [
        (1 / 255, 0.9, 0.1 / 255, "bce_with_logits", "warn"),
        (1.0, 0.9, 0.1, "bce_with_logits", None),
        (0.03, 0.9, 0.001, "bce_with_logits", None),  # rates
        (0.1, 0.0, 0.05, "bce_with_logits", None),
        (1 / 255, 0.9, 0.1 / 255, "mse_loss", None),
    ],
)
def test_labels_that_were_scaled(ask, top, zero, mean, function, verdict):
    leaf = {"path": "target", "shape": [8, 1, 9, 9], "min": 0.0, "max": top, "zero": zero, "mean": mean, "std": 0.1}
    looks = tuple({"phase": "train", "samples": 8, "step": n, "leaves": [leaf]} for n in (1, 2, 3))
    call = {"fn": function, "training": True, "calls": 50, "observed": 20, "line": "t.py:9"}
    found = ask("labels_scaled", signals={"batches": looks, "losses": (call,)})
    assert (found and found.verdict) == verdict


@pytest.mark.parametrize(
    ("accuracy", "renumbered", "end", "verdict"),
    [
        (0.2, 0.98, 0.05, "fail"),
        (0.05, 0.9, 0.05, "fail"),  # two classes exchanged
        (0.9, 0.95, 0.05, None),
        (0.3, 0.7, 0.05, None),  # a hard set, most of which is one other class
        (0.2, 0.98, 2.0, None),  # not learnt
        (0.2, 0.0, 0.05, None),
    ],
)
def test_classes_with_other_numbers(ask, make_series, accuracy, renumbered, end, verdict):
    seen = tuple(
        {"accuracy": accuracy, "renumbered": renumbered, "samples": 300, "batches": 3, "end_step": n} for n in (50, 100)
    )
    call = {"fn": "cross_entropy", "training": True, "calls": 100, "classes": 10, "step": 1, "observed": 20}
    losses = [2.3 - (2.3 - end) * n / 99 for n in range(80)] + [end] * 20
    found = ask("classes_renumbered", make_series("loss", losses), signals={"losses": (call,), "evaluations": seen})
    assert (found and found.verdict) == verdict
