"""The best value of a series: never that of a single training batch, never one without a direction."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labbook.model.run import Process, Run
from labbook.model.series import Series
from labbook.report.series_choice import (
    best_value,
    has_epoch_values,
    is_of_batches,
    primary_series,
    printed_otherwise,
    run_best,
    window_of,
    without_repeats,
)

RUN = Run("i", "finished", ("python",), "/w", 0.0)
VALUES = st.lists(st.floats(-100, 100) | st.just(math.nan), min_size=1, max_size=60)


def of(name, values, source="text", steps=None):
    return Series(name, source, tuple(steps or range(1, len(values) + 1)), tuple(values), count=len(values))


@given(VALUES)
def test_the_best_loss_of_batches_is_a_mean_of_successive_values(values):
    series = of("loss", values, "probe")
    best, window = best_value(series, len(values)), window_of(series)
    means = [sum(values[i : i + window]) / window for i in range(len(values) - window + 1)]
    finite = [mean for mean in means if math.isfinite(mean)]
    assert (best is None) == (not finite)
    assert best is None or math.isclose(best, min(finite), rel_tol=1e-6, abs_tol=1e-6)


@given(VALUES)
def test_of_validation_the_best_is_a_value_itself(values):
    finite = [value for value in values if math.isfinite(value)]
    assert best_value(of("val_loss", values), 0) == min(finite, default=None)
    assert best_value(of("val_acc", values), 0) == max(finite, default=None)
    assert best_value(of("val_loss", values), 0, "max") == max(finite, default=None)


def test_no_best_without_a_direction():
    for name in ("lr", "grad_norm", "policy_loss", "entropy", "something", "charts/episode"):
        assert best_value(of(name, [1.0, 2.0, 3.0, 4.0]), 4) is None


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
    probe = of("loss", [1.0 / (1 + n) for n in range(60)], "probe")
    last = of("train_loss", [round(probe.values[n], 4) for n in (19, 39, 59)])
    mean = of("train_loss", [0.18, 0.0352, 0.0211])
    run = Run("i", "finished", ("python",), "/w", 0.0, processes=(Process(1, 0, (), "main", steps=60),))
    assert is_of_batches(last, replace(run, series=(probe, last)))
    assert not is_of_batches(mean, replace(run, series=(probe, mean)))
    assert not is_of_batches(replace(last, name="val_loss"), replace(run, series=(probe, last)))
    assert run_best(replace(run, series=(probe, last)), last) == sum(last.values) / 3


@pytest.mark.parametrize(
    ("factor", "differs"),
    [(1.0, False), (2.0, True), (0.5, True), (1.03, False)],
)
def test_a_loss_that_is_printed_under_the_same_name_is_compared(factor, differs):
    measured = tuple(2.0 * 0.99**i + 0.02 * (i % 3) for i in range(200))
    means = tuple(factor * sum(measured[i : i + 50]) / 50 for i in range(0, 200, 50))
    series = Series("loss", "probe", tuple(range(1, 201)), measured)
    run = replace(RUN, series=(series,), printed=(Series("loss", "text", (1, 2, 3, 4), means),))
    assert (printed_otherwise(run, series) is not None) == differs
    few = replace(run, printed=(Series("loss", "text", (1, 2), means[:2]),))
    assert printed_otherwise(few, series) is None


def test_what_never_was_a_number_does_not_stand_for_a_run():
    nothing = Series("val_loss", "text", (1, 2), (math.nan, math.nan))
    loss = Series("loss", "probe", (1, 2, 3), (3.0, 2.0, 1.0))
    assert primary_series(replace(RUN, series=(nothing, loss))) == "loss"
    assert primary_series(replace(RUN, series=(nothing,))) == "val_loss"


def test_printed_values_of_a_logged_metric_are_no_second_metric():
    logged = of("val/accuracy", [0.78125, 0.9], "tensorboard")
    printed, other = of("val_acc", [0.781, 0.9]), of("val_acc", [0.7, 0.8])
    assert without_repeats([logged, printed]) == [logged]
    assert without_repeats([logged, other]) == [logged, other] and without_repeats([printed]) == [printed]


def test_where_the_loss_may_rise_that_of_no_optimizer_has_a_best_value():
    series = tuple(of(name, [1.0] * 40, "probe") for name in ("loss", "loss.opt1"))
    run = replace(RUN, series=series, primary="loss", direction="none")
    assert [run_best(run, each) for each in series] == [None, None]
