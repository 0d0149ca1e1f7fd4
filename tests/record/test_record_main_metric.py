"""The main metric of a run is the one by which its program chooses the best model."""

import pytest

from labbook.findings.watched_metric import trainer_goal
from labbook.model.run import Arguments, Run
from labbook.model.series import Series
from labbook.record.run_entry import _phases

NAMES = ("loss", "eval_loss", "eval_mean_token_accuracy", "val_loss", "val_MAE", "val/loss")


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
        ("paddle", {"monitor": "loss", "mode": "auto"}, "val/loss", ""),
        ("paddle", {"monitor": "acc_top1"}, None, ""),
    ],
)
def test_the_metric_that_a_trainer_was_given(source, values, metric, direction):
    series = tuple(Series(name, "probe", (1,), (1.0,)) for name in NAMES)
    run = Run("i", "finished", (), "", 0.0, series=series, arguments=(Arguments(source, "", values),))
    goal = trainer_goal(run)
    assert (goal.metric, goal.direction) == (metric, direction) if metric else goal is None


def test_a_printed_series_has_a_part_for_each_phase_of_the_training():
    printed = Series.of_values("val_loss", "text", range(1, 6), (3.0, 2.0, 9.0, 8.0, 7.0), starts=(0, 2))
    run = Run("i", "finished", (), "", 0.0, captured={"phases": {"count": 2}})
    parts = [(part.name, part.values) for part in _phases(run, printed)]
    assert parts == [("val_loss", (9.0, 8.0, 7.0)), ("phase1/val_loss", (3.0, 2.0))]
    assert _phases(Run("i", "finished", (), "", 0.0), printed) == [printed]  # of one phase: folds
