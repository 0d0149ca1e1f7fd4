"""The best value of a series: never that of a single training batch, never one without a direction."""

import math
from dataclasses import replace
from itertools import pairwise
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_of_tests import in_one_test

from labbook.model.run import Process, Run
from labbook.model.series import Series, window_of
from labbook.model.signals import Signals
from labbook.report.entry.printed_series import printed_otherwise, without_repeats
from labbook.report.series_choice import (
    best_value,
    has_epoch_values,
    is_of_batches,
    primary_direction,
    primary_series,
    run_best,
    split_direction,
    with_axis,
)

RUN = Run("i", "finished", ("python",), "/w", 0.0)
VALUES = st.lists(st.floats(-100, 100) | st.just(math.nan), min_size=1, max_size=60)


def of(name, values, source="text", steps=None):
    return Series(name, source, tuple(steps or range(1, len(values) + 1)), tuple(values), count=len(values))


@given(VALUES)
def test_the_best_loss_of_batches_is_a_median_of_successive_values(values):
    series = of("loss", values, "probe")
    best, window = best_value(series, len(values)), window_of(series)
    windows = [values[i : i + window] for i in range(len(values) - window + 1)]
    levels = [median(each) for each in windows if all(map(math.isfinite, each))]
    falls = [each for each in windows[-1:] if all(after < before for before, after in pairwise(each))]
    assert best == min([*levels, *(each[-1] for each in falls)], default=None)


def test_a_loss_that_falls_to_the_end_has_its_best_value_there():
    falling = [0.5, 0.43, 0.35, 0.26, 0.21, 0.12, 0.13, 0.09, 0.04, 0.02]
    assert best_value(of("loss", falling, "probe"), len(falling)) == 0.02
    assert best_value(of("loss", [*falling, 0.03], "probe"), len(falling) + 1) == 0.03


@given(VALUES)
def test_of_validation_the_best_is_a_value_itself(values):
    finite = [value for value in values if math.isfinite(value)]
    assert best_value(of("val_loss", values), 0) == min(finite, default=None)
    assert best_value(of("val_acc", values), 0) == max(finite, default=None)
    assert best_value(of("val_loss", values), 0, "max") == max(finite, default=None)


def test_no_best_without_a_direction():
    for name in ("lr", "grad_norm", "policy_loss", "entropy", "something", "charts/episode"):
        assert best_value(of(name, [1.0, 2.0, 3.0, 4.0]), 4) is None


def test_a_score_that_falls_may_be_an_error():
    run = replace(RUN, primary="val_score")
    for values, direction, best in (((64.6, 61.0, 59.1), "", None), ((0.6, 0.8, 0.7), "max", 0.8)):
        score = of("val_score", values)
        one = replace(run, series=(score,))
        assert (primary_direction(one), run_best(one, score)) == (direction, best)


def test_rewards_are_of_episodes():
    assert best_value(of("Average reward", [30.8, 17.1, 15.7], steps=(20, 40, 60)), 424) == 30.8


def test_values_of_epochs_are_told_from_those_of_batches():
    assert has_epoch_values(of("train_loss", [1.0, 0.5, 0.4]), 300)
    assert not has_epoch_values(of("loss", [1.0, 0.5, 0.4], steps=(100, 200, 300)), 300), "each hundredth batch"
    assert not has_epoch_values(of("acc", [0.1] * 200), 300)
    assert not has_epoch_values(of("train_loss_step", [1.0, 0.5]), 300)
    assert has_epoch_values(of("train_loss_epoch", [1.0, 0.5], steps=(99, 199)), 200)


def test_the_chosen_direction_holds_for_the_primary_series_alone():
    run = Run(
        "i", "finished", ("python",), "/w", 0.0, series=(of("gap", [1.0, 3.0, 2.0]), of("val_loss", [1.0, 3.0])),
        processes=(Process(1, 0, (), "main", steps=30),), primary="gap", direction="max",
    )  # fmt: skip
    assert [run_best(run, series) for series in run.series] == [3.0, 1.0]
    none = replace(run, primary="val_loss", direction="none")
    assert [run_best(none, series) for series in run.series] == [None, None]
    assert primary_series(replace(run, primary="", direction="")) == "val_loss"


def test_the_loss_of_the_last_batch_printed_once_an_epoch_is_of_a_batch():
    probe = of("loss", [1.0 / (1 + n) for n in range(59)] + [0.03], "probe")
    last = of("train_loss", [round(probe.values[n], 4) for n in (19, 39, 59)])
    mean = of("train_loss", [0.18, 0.0352, 0.0211])
    run = Run("i", "finished", ("python",), "/w", 0.0, processes=(Process(1, 0, (), "main", steps=60),))
    assert is_of_batches(last, replace(run, series=(probe, last)))
    assert not is_of_batches(mean, replace(run, series=(probe, mean)))
    assert not is_of_batches(replace(last, name="val_loss"), replace(run, series=(probe, last)))
    logged = replace(
        mean, name="train/loss", source="Lightning", steps=tuple(29 + 30 * n for n in range(len(mean.values)))
    )
    assert not is_of_batches(logged, replace(run, series=(probe, logged)))
    broken = replace(probe, values=(float("nan"), *probe.values[1:]))
    assert is_of_batches(broken, replace(run, series=(broken,)))
    exact = replace(logged, values=tuple(probe.values[n] for n in (19, 39, 59)))
    assert is_of_batches(exact, replace(run, series=(probe, exact)))
    assert run_best(replace(run, series=(probe, last)), last) == median(last.values)


RUN_OF_60 = replace(RUN, processes=(Process(1, 0, (), "main", steps=60),))


def test_a_metric_of_batches_or_of_the_epoch_so_far_has_no_best_value():
    auc = of("auc", [0.55, 0.59, 0.88, 0.83], steps=(0, 20, 30, 50))
    run = replace(RUN_OF_60, series=(auc,), primary="auc")
    assert run_best(run, auc) is None
    assert run_best(replace(run, direction="max"), auc) is not None, "chosen by people"


def test_the_steps_of_a_printed_series_may_number_its_points():
    def last_step(series, steps, axis=""):
        return with_axis(replace(series, axis=axis), steps).last_step

    assert last_step(of("val_acc", [0.1, 0.2, 0.3]), 60) is None
    assert last_step(of("test_mse", [0.1], steps=(5,)), 96) is None, "the epoch"
    assert last_step(of("val_acc", [0.1, 0.2], steps=(20, 40)), 60) == 40
    assert last_step(of("val_acc", [0.1, 0.2], steps=(20, 40)), 60, "epoch") is None
    assert last_step(of("val_acc", [0.1, 0.2, 0.3]), 5, "number") is None, "more than half as many as steps"
    assert last_step(of("acc", [0.1, 0.2, 0.3]), 3, "number") == 3, "a value in each step"
    assert last_step(of("acc", [0.1, 0.2, 0.3], steps=(20, 40, 60)), 60, "line") == 60
    assert last_step(of("acc", [0.1, 0.2, 0.3], steps=(10, 20, 30)), 60, "line") is None, "epochs of two steps"
    assert last_step(of("acc", [0.1, 0.2, 0.3], steps=(4, 8, 12)), 60, "fraction") is None, "epochs or rounds"
    assert last_step(of("acc", [0.1, 0.2, 0.3], steps=(20, 40, 60)), 60, "fraction") == 60
    assert last_step(of("loss", [0.1, 0.2], "probe"), 60) == 2


@pytest.mark.parametrize(
    ("values", "printed", "primary", "direction"),
    [
        ((0.3, 0.5, 0.8), True, "val", "max"),
        ((0.9, 0.6, 0.5), True, "val", "min"),
        ((0.9, 0.6, 0.5), False, "loss", ""),
    ],
)
def test_a_value_of_the_validation_split_is_the_headline_beside_a_printed_loss(values, printed, primary, direction):
    loss, val = of("loss", [1.0, 0.7, 0.6], "probe"), of("val", values)
    run = replace(RUN_OF_60, series=(loss, val, of("train", values)), printed=(of("loss", [1.0]),) if printed else ())
    assert primary_series(run) == primary
    assert split_direction(run, primary) == direction


@in_one_test(
    ("train", "primary", "direction"),
    [((0.8, 0.4), "val", "min"), ((0.803, 0.497), "val", "min"), ((0.2, 0.9), "loss", "")],
    ids=["losses of steps", "means of steps", "accuracies"],
)
def test_splits_are_losses_where_that_of_training_is_what_was_measured(train, primary, direction):
    loss = of("loss", [0.9, 0.7, 0.8, 0.6, 0.5, 0.4], "probe")
    run = replace(RUN_OF_60, series=(loss, of("train", train), of("val", (0.6, 0.7))))
    assert primary_series(run) == primary
    assert split_direction(run, primary) == direction


def test_a_loss_beside_rewards_has_no_best_value():
    loss, reward = of("loss", [1.0, -2.0, 0.5], "probe"), of("reward", [1.0, 3.0, 2.0])
    run = replace(RUN_OF_60, series=(loss, reward), primary="reward")
    assert [run_best(run, series) for series in run.series] == [None, 3.0]


def test_what_is_trained_to_compare_with_comes_last():
    names = ("teacher/val_acc", "alone/val_acc", "student/val_acc", "baseline_val_f1")
    assert primary_series(replace(RUN_OF_60, series=tuple(of(name, [0.2, 0.9]) for name in names))) == names[2]


def test_what_is_measured_of_a_task_comes_before_its_accuracy():
    assert primary_series(replace(RUN_OF_60, series=(of("acc", [0.2, 0.9]), of("mIoU", [0.3, 0.8])))) == "mIoU"


@in_one_test(
    ("factor", "differs"),
    [(1.0, False), (2.0, True), (0.5, True), (1.03, False)],
)
def test_a_loss_that_is_printed_under_the_same_name_is_compared(factor, differs):
    measured = tuple(2.0 * 0.99**i + 0.02 * (i % 3) for i in range(200))
    means = tuple(factor * sum(measured[i : i + 50]) / 50 for i in range(0, 200, 50))
    series = Series("loss", "probe", tuple(range(1, 201)), measured)
    run = replace(RUN, series=(series,), printed=(Series("loss", "text", (1, 2, 3, 4), means),))
    assert (printed_otherwise(run, series) is not None) == differs
    group = Series("loss.group1", "probe", (1,), (2.0,))
    assert printed_otherwise(replace(run, series=(series, group)), series) is None, "it may be that of the other one"
    few = replace(run, printed=(Series("loss", "text", (1, 2), means[:2]),))
    assert printed_otherwise(few, series) is None
    kept = [*range(50), *range(50, 200, 15)]  # of later steps, fewer points
    sparse = replace(series, steps=tuple(i + 1 for i in kept), values=tuple(measured[i] for i in kept))
    assert (printed_otherwise(replace(run, series=(sparse,)), sparse) is not None) == differs


def test_what_never_was_a_number_does_not_stand_for_a_run():
    nothing = Series("val_loss", "text", (1, 2), (math.nan, math.nan))
    loss = Series("loss", "probe", (1, 2, 3), (3.0, 2.0, 1.0))
    assert primary_series(replace(RUN, series=(nothing, loss))) == "loss"
    assert primary_series(replace(RUN, series=(nothing,))) == "val_loss"
    assert primary_series(replace(RUN, series=(of("hp_metric", [-1.0], "tensorboard"),))) == ""


def test_printed_values_of_a_logged_metric_are_no_second_metric():
    logged = of("val/accuracy", [0.78125, 0.9], "tensorboard")
    printed, other = of("val_acc", [0.781, 0.9]), of("val_acc", [0.7, 0.8])
    assert without_repeats(RUN, [logged, printed]) == [logged]
    assert without_repeats(RUN, [logged, of("val_acc", [0.781, 0.9, 0.9])]) == [logged]
    assert len(without_repeats(RUN, [logged, of("val_acc", [0.781, 0.9, 0.8])])) == 2
    run = replace(RUN, series=(of("eval_f1", [0.86]), of("eval/f1", [0.86, 1.0], "tensorboard")))
    assert primary_series(run) == "eval/f1", "of the printed one, a value was not read"
    assert without_repeats(RUN, [logged, other]) == [logged, other] and without_repeats(RUN, [printed]) == [printed]


def test_optimizers_that_share_a_loss_list_it_once():
    names = ["loss", "lr", "grad_norm", "loss.opt1", "lr.opt1", "grad_norm.opt1", "loss.opt2"]
    values = [[3.0, 2.0], [0.1, 0.1], [1.0, 2.0], [3.0, 2.0], [0.1, 0.1], [5.0, 6.0], [7.0, 8.0]]
    series = [of(name, each, "probe") for name, each in zip(names, values, strict=True)]
    assert [s.name for s in without_repeats(RUN, series)] == ["loss", "lr", "grad_norm", "grad_norm.opt1", "loss.opt2"]
    trainings = replace(RUN, captured={"trainings": {"count": 2}})
    assert without_repeats(trainings, series) == series


def test_where_the_loss_may_rise_that_of_no_optimizer_has_a_best_value():
    series = tuple(of(name, [1.0] * 40, "probe") for name in ("loss", "loss.opt1"))
    run = replace(RUN, series=series, primary="loss", direction="none")
    assert [run_best(run, each) for each in series] == [None, None]
    watched = {"metric": "gap", "direction": "min", "loss_may_rise": True}
    run = replace(RUN, series=(*series, of("gap", [3.0, 1.0, 2.0])), primary="gap", direction="min")
    run = replace(run, captured={"watched": watched})
    assert [run_best(run, each) for each in run.series] == [None, None, 1.0]


@pytest.mark.parametrize("steps", [(20, 40, 60), (1, 2, 3)])
def test_the_best_of_a_watched_value_is_one_of_its_values(steps):
    run = replace(RUN_OF_60, series=(of("hq", [0.2, 0.9, 0.3], steps=steps),), primary="hq", direction="max")
    assert run_best(replace(run, captured={"watched": {"metric": "hq"}}), run.series[0]) == 0.9


@pytest.mark.parametrize(("mean", "primary"), [(0.62, "mean_AUC"), (0.9, "val_loss")])
def test_a_mean_of_folds_that_has_a_name_of_its_own_stands_for_the_run(mean, primary):
    series = (of("val_loss", [0.4, 0.3]), of("AUC", [0.5, 0.6, 0.7, 0.68]), of("mean_AUC", [mean]))
    assert primary_series(replace(RUN_OF_60, series=series)) == primary


@pytest.mark.parametrize(("last", "primary"), [([0.6], "AUC"), ([0.7], "F1"), ([], "F1")])
def test_the_metric_that_a_program_averages_over_folds_stands_for_the_run(last, primary):
    folds = {"F1": [0.9, 0.8, 0.7, 0.9], "AUC": [0.5, 0.6, 0.7, 0.6, *last]}
    series = [
        Series(name, "text", tuple(range(len(values))), *[tuple(values)] * 3, len(values), 0)
        for name, values in folds.items()
    ]
    run = Run(id="r", status="finished", script="a.py", series=tuple(series), argv=(), cwd="/", started=0.0)
    assert primary_series(run) == primary


@pytest.mark.parametrize(("name", "best"), [("recall@1", 0.9), ("train_loss", 0.7)])
def test_what_is_printed_once_an_evaluation_is_of_a_whole_data_set(name, best):
    series = of(name, [0.7, 0.8, 0.9], steps=(50, 100, 150))
    run = replace(RUN, series=(series,))
    assert is_of_batches(series, run)
    run = replace(run, signals=(Signals("torch", evaluations=({}, {}, {"phases": 3})),))
    assert (is_of_batches(series, run), run_best(run, series)) == (False, best)
    beside = replace(run, signals=(), series=(series, of("val", [0.1, 0.2, 0.3], steps=(50, 100, 150))))
    assert run_best(beside, series) == best


@pytest.mark.parametrize(
    ("printed", "primary"),
    [("final_loss", "loss"), ("test_loss", "test_loss"), ("final_accuracy", "final_accuracy")],
)
def test_a_loss_printed_once_does_not_take_the_place_of_those_of_all_steps(printed, primary):
    steps = Series("loss", "probe", (1, 2, 3), (1.1, 0.7, 0.5))
    run = Run("i", "finished", (), "", 0.0, series=(Series(printed, "text", (1,), (0.5,)), steps))
    assert primary_series(run) == primary
