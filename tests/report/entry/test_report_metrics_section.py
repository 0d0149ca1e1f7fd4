"""The table of metrics: which rows it has, and whose steps they are."""

import dataclasses
import re

import pytest

from labbook.model.series import Series
from labbook.model.signals import Signals
from labbook.report.curves import curves_svg
from labbook.report.entry.entry_page import entry_markdown
from labbook.report.entry.title import run_title


@pytest.mark.parametrize(("count", "shown"), [(3, {"loss", "loss.opt1", "loss.opt2"}), (4, {"loss", "loss.opt3"})])
def test_of_many_phases_the_first_and_the_last_have_rows(runs, notebook, count, shown):
    run = runs["finished"]()
    losses = [Series.of_values(f"loss.opt{n}", "probe", (1, 2), (2.0, 1.0), axis="step") for n in range(1, count)]
    phases = {"count": count, "series": f"loss.opt{count - 1}", "several": True}
    run = dataclasses.replace(run, series=(*run.series, *losses), captured={**run.captured, "phases": phases})
    page = entry_markdown(run, notebook)
    rows = dict(re.findall(r"^\| (loss[.\w]*), phase (\d) \|", page, re.MULTILINE))
    assert set(rows) == shown and all(name == f"loss.opt{int(at) - 1}" for name, at in rows.items() if name != "loss")
    assert ("and 2 more in `metrics.csv`" in page) == (count == 4)


def test_steps_that_a_program_counts_are_not_those_of_its_optimizer(runs, notebook, notebook_zh):
    """Steps of an environment, batches that are accumulated."""
    run = runs["finished"]()
    returns = Series.of_values("episode_return", "text", (100, 90_000), (1.0, 2.0), axis="step")
    own = Series.of_values("val_f1", "text", (1, run.steps), (0.5, 0.6), axis="step")
    page = entry_markdown(dataclasses.replace(run, series=(*run.series, returns, own)), notebook)
    assert (
        "- Steps of episode_return are those that the program counts (up to 90,000); its optimizers made 240." in page
    )
    assert "those that the program counts" not in entry_markdown(
        dataclasses.replace(run, series=(*run.series, own)), notebook
    )
    page = entry_markdown(dataclasses.replace(run, series=(*run.series, returns)), notebook_zh)
    assert "- episode_return 的步数由程序自己计数（最大 90,000）；优化器共更新 240 步。" in page


def test_the_ratio_of_updates_is_defined_where_it_stands(runs, notebook, notebook_zh):
    run = runs["finished"]()
    ratio = Series.of_values("update_ratio", "probe", (1, 9), (0.03, 0.01), axis="step")
    page = entry_markdown(dataclasses.replace(run, series=(*run.series, ratio)), notebook)
    assert "- update_ratio is the norm of the change of a step / the norm of the weight: the median over" in page
    assert "update_ratio is" not in entry_markdown(run, notebook)
    page = entry_markdown(dataclasses.replace(run, series=(*run.series, ratio)), notebook_zh)
    assert "- update_ratio 为一步的变化量的范数 / 权重的范数：" in page


@pytest.mark.parametrize("names", [(), ("teacher_acc", "student_acc"), ("val/iou", "val/dice", "kl")])
def test_the_picture_of_the_curves_is_named_after_what_it_shows(runs, notebook, names):
    more = [Series.of_values(name, "text", (1, 2, 3), (0.1, 0.2, 0.3), axis="epoch") for name in names]
    run = dataclasses.replace(runs["finished"](), series=(*runs["finished"]().series, *more))
    (said,) = re.findall(r"!\[([^]]*)\]\([^)]*curves\.svg\)", entry_markdown(run, notebook))
    drawn = curves_svg(run.series, run.title, run.primary)
    assert set(names) <= {one.replace("\\", "") for one in said.split(", ")}
    assert all(f">{one}<" in drawn for one in said.replace("\\", "").split(", "))


def test_the_best_loss_of_single_batches_is_defined(runs, notebook):
    """Front matter and lists have it; it is no value of the series."""
    values = [1.0 - 0.01 * n + 0.3 * (n % 2) for n in range(60)]
    loss = Series.of_values("loss", "probe", tuple(range(1, 61)), tuple(values), axis="step")
    run = dataclasses.replace(runs["finished"](), series=(loss,), primary="loss")
    page = entry_markdown(run, notebook)
    said = re.search(
        r"- Lists and comparisons take ([\d.]+) as the best loss: the best median of (\d+) successive", page
    )
    assert said and float(said[1]) > min(values)
    assert f"best: {said[1]}" in page
    other = dataclasses.replace(runs["finished"](), series=(*runs["finished"]().series, loss))
    assert "Lists and comparisons take" not in entry_markdown(other, notebook)


@pytest.mark.parametrize(("closure", "backwards", "is_said"), [(True, 60, True), (True, 3, False), (False, 60, False)])
def test_what_is_measured_with_a_closure_is_said(runs, notebook, closure, backwards, is_said):
    run = runs["finished"]()
    framework = dataclasses.replace(run.frameworks[0], optimizers=({"type": "LBFGS", "closure": closure},))
    signals = Signals("torch", loop={"steps": 3, "backwards": backwards})
    page = entry_markdown(dataclasses.replace(run, frameworks=(framework,), signals=(signals,)), notebook)
    assert ("a loss is that of the first call" in page) == is_said


@pytest.mark.parametrize(
    ("values", "steps", "shown"),
    [
        ((0.5, 0.9, 0.8), (1, 2, 3), "0.9 (epoch 2)"),
        ((0.5, 0.9, 0.9), (1, 2, 3), "0.9 (epoch 2, 3)"),
        ((0.9, 0.9, 0.9, 0.8), (1, 2, 3, 4), "0.9 (epoch 1, 2, ...)"),
        ((0.5, 0.9, 0.8), (1, 2, 1), "0.9"),
    ],
)
def test_the_best_value_has_its_epochs_unless_these_begin_anew(runs, notebook, values, steps, shown):
    printed = Series.of_values("val_acc", "text", steps, values, axis="epoch")
    page = entry_markdown(dataclasses.replace(runs["finished"](), series=(printed,)), notebook)
    assert f"| val_acc | {values[0]} | {shown} |" in page


@pytest.mark.parametrize("count", [2, 3])
def test_values_of_several_trainings_are_no_course_of_one(runs, notebook, count):
    measured = [Series.of_values(name, "probe", (1, 2), (2.0, 1.0), axis="step") for name in ("loss", "loss.opt1")]
    printed = Series.of_values("val_acc", "text", (1, 2, 3, 4), (0.5, 0.9, 0.4, 0.8), starts=(0, 2), axis="number")
    run = runs["finished"]()
    trainings = {"metric": "loss", "rows": [{"number": at + 1, "params": {}} for at in range(count)]}
    run = dataclasses.replace(run, series=(*measured, printed), captured={**run.captured, "trainings": trainings})
    page = entry_markdown(run, notebook)
    assert f"values of all {count}, one after another: first is of training 1, best of any" in page
    assert ("| loss.opt1, training 2 |" in page) == (count == 2), "of one optimizer each"


@pytest.mark.parametrize(("starts", "begins_anew"), [((0, 2), True), ((), False)])
def test_epochs_that_begin_anew_are_no_course_of_one_training(runs, notebook, starts, begins_anew):
    printed = Series.of_values("val_acc", "text", (1, 2, 3, 4), (0.5, 0.9, 0.4, 0.8), starts=starts, axis="number")
    run = dataclasses.replace(runs["finished"](), series=(printed,), primary="val_acc")
    assert ("The epochs begin anew: the values of val_acc are" in entry_markdown(run, notebook)) == begins_anew
    assert ("val_acc 0.8" in run_title(run)) == begins_anew and ("0.5 → 0.8" in run_title(run)) != begins_anew
