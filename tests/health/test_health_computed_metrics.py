"""Logged metrics beside those that the outputs and labels of the same passes give."""

import pytest

LOADERS = ({"index": 0, "length": 512, "batches": 8, "batch_size": 64}, {"index": 1, "length": 128, "batches": 2})
RIGHT, LAST, HALF = (64, 90, 100, 112), (0.55, 0.61, 0.9, 0.8), (0.4, 0.5, 0.55, 0.6)


def phases(loader=1, first=0):
    return tuple(
        {
            "batches": 2,
            "samples": 128,
            "end_step": 10 * at + 10,
            "compared": [
                {
                    "loader": loader,
                    "epoch": None if loader is None else first + at,
                    "batches": 2,
                    "n": 128,
                    "right": right,
                    "values": {
                        "accuracy": {"all": right / 128, "last": LAST[at], "half": HALF[at]},
                        "rmse": {"all": 2.0 - at / 4, "squared": (2.0 - at / 4) ** 2},
                    },
                }
            ],
        }
        for at, right in enumerate(RIGHT)
    )


USUAL = [right / 128 for right in RIGHT]
SUMS = [sum(USUAL[: at + 1]) for at in range(4)]


@pytest.mark.parametrize(
    ("name", "logged", "how"),
    [
        ("val_acc", LAST, "that of the last batch alone"),
        ("test accuracy", [round(100 * one, 1) for one in LAST], "that of the last batch alone"),
        ("acc", HALF, "that of logits compared with 0.5"),
        ("val_acc", [right / 512 for right in RIGHT], "the number of right answers divided by 512"),
        ("val_acc", [100 * right / 512 for right in RIGHT], "the number of right answers divided by 512"),
        ("val_acc", [100 * one for one in SUMS], "the sum over all passes so far"),
        ("val_acc", [one / (at + 1) for at, one in enumerate(SUMS)], "that of all passes so far"),
        ("val_rmse", [4.0, 3.0625, 2.25, 1.5625], "the mean squared error, without the root"),
        ("val_acc", USUAL, None),
        ("val_acc", [round(100 * one) for one in USUAL], None),
        ("val_acc", [0.3, 0.45, 0.5, 0.62], None),  # another definition, as one with weights
        ("val_acc", [right / 150 for right in RIGHT], None),  # a divisor that is no known length
        ("train_acc", LAST, None),
        ("best_val_acc", LAST, None),
        ("val_acc_top5", LAST, None),
        ("val_balanced_acc", LAST, None),
        ("val_acc", LAST[:2], None),  # too few
        ("val_acc", [0.9, 0.9, 0.9, 0.9], None),
    ],
)
def test_a_metric_that_is_not_the_usual_one_and_fits_a_mistake_in_each_pass(ask, make_series, name, logged, how):
    signals = {"evaluations": phases(), "loaders": LOADERS}
    found = ask("metric_of_wrong_values", make_series(name, logged, "text"), signals=signals)
    assert (found and found.verdict) == (how and "warn")
    assert how is None or f"is {how}, in all 4 passes" in found.observed


@pytest.mark.parametrize(("loader", "first"), [(None, 0), (1, 3)])
def test_a_total_over_a_stream_is_no_total_that_was_not_reset(ask, make_series, loader, first):
    """Passes that are not all of one loader from its first one on: the running accuracy of test and then train."""
    running = [one / (at + 1) for at, one in enumerate(SUMS)]
    signals = {"evaluations": phases(loader, first), "loaders": LOADERS}
    assert ask("metric_of_wrong_values", make_series("accuracy", running, "text"), signals=signals) is None


def test_the_value_of_a_batch_beside_the_usual_one_is_a_display(ask, make_series):
    series = [make_series("val_acc", LAST, "text"), make_series("accuracy", USUAL, "text")]
    signals = {"evaluations": phases(), "loaders": LOADERS}
    assert ask("metric_of_wrong_values", *series, signals=signals) is None
