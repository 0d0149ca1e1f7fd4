"""The main metric of a run is the one by which its program chooses the best model."""

import pytest

from labbook.model.run import Arguments, Run
from labbook.model.series import Series
from labbook.record.run_entry import _trainer_goal

NAMES = ("loss", "eval_loss", "eval_mean_token_accuracy", "val_loss", "val_MAE")


@pytest.mark.parametrize(
    ("source", "values", "metric", "direction"),
    [
        ("transformers", {"metric_for_best_model": "eval_loss", "greater_is_better": False}, "eval_loss", "min"),
        ("transformers", {"metric_for_best_model": "mean_token_accuracy"}, "eval_mean_token_accuracy", ""),
        ("transformers", {"metric_for_best_model": "loss", "greater_is_better": False}, None, ""),
        ("transformers", {"metric_for_best_model": None}, None, ""),
        ("lightning", {"monitor": "val_loss", "mode": "min"}, "val_loss", "min"),
        ("lightning", {"monitor": "val_loss"}, "val_loss", ""),
        ("lightning", {"monitor": "val_acc"}, None, ""),
        ("argparse", {"monitor": "val_loss"}, None, ""),
    ],
)
def test_the_metric_that_a_trainer_was_given(source, values, metric, direction):
    series = tuple(Series(name, "probe", (1,), (1.0,)) for name in NAMES)
    run = Run("i", "finished", (), "", 0.0, series=series, arguments=(Arguments(source, "", values),))
    goal = _trainer_goal(run)
    assert (goal.metric, goal.direction) == (metric, direction) if metric else goal is None
