from __future__ import annotations

import xml.dom.minidom

import pytest
from order_of_tests import in_one_test

from labbook.errors import UsageError
from labbook.model.entry import Entry
from labbook.report.best_runs import best_run
from labbook.sweep.option_style import find_style
from labbook.sweep.parallel_coordinates_svg import _separate_labels, parallel_coordinates
from labbook.sweep.sweep_summary import summarize_sweep
from labbook.sweep.trial_grid import make_trials, parse_axes, sweep_name


def trials(*words, sample=None, seed=0):
    return make_trials(parse_axes(words), sample, seed)


def test_a_grid_has_every_combination_once_and_the_last_option_changes_fastest():
    made = trials("lr=0.1,0.01", "seed=0..2", "width=8..32..8")
    assert len(made) == len(set(made)) == 24
    assert made[:2] == [
        (("lr", "0.1"), ("seed", "0"), ("width", "8")),
        (("lr", "0.1"), ("seed", "0"), ("width", "16")),
    ]
    assert {dict(trial)["seed"] for trial in made} == {"0", "1", "2"}


def test_a_sample_is_a_part_of_the_grid_and_the_same_for_the_same_seed():
    words = ("a=1..100", "b=1..100", "c=x,y")
    some = trials(*words, sample=30)
    assert len(set(some)) == 30 and set(some) <= set(trials("a=1..100", "b=1..100", "c=x", sample=10**4)) | set(some)
    assert some == trials(*words, sample=30) != trials(*words, sample=30, seed=1)
    assert trials("a=1,2", sample=30) == trials("a=1,2")
    assert len(trials("a=0..99999999999999999", "b=0..99999999999999999", sample=3)) == 3


@in_one_test(
    ("words", "message", "hint"),
    [
        ((), "no options", "lr=0.001,0.01"),
        (("lr",), "no option with values", "lr=0.001,0.01"),
        (("=3",), "no option with values", "lr=0.001"),
        (("lr=",), "empty value", "lr=0.001"),
        (("lr=1,,2",), "empty value", "lr=0.001"),
        (("seed=4..0",), "backwards", "seed=0..4"),
        (("seed=0..4..0",), "backwards", "seed=0..4"),
        (("lr=0.1..0.9",), "not one of integers", "lr=0.1,0.2"),
        (("a=1", "--a=2"), "named twice", "one list"),
        (("a=1..1000", "b=1..1000"), "1,000,000 trials", "--sample"),
    ],
)
def test_what_cannot_be_swept_is_refused(words, message, hint):
    with pytest.raises(UsageError) as refused:
        trials(*words)
    assert message in refused.value.message
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import argparse\np.add_argument('--learning-rate', type=float)", ["--learning-rate=-1", "--seed=0"]),
        ("import click\n@click.option('--learning_rate/--none')\ndef f(): pass", ["--learning_rate=-1", "--seed=0"]),
        ("import hydra\n@hydra.main()\ndef f(c): pass", ["learning_rate=-1", "seed=0"]),
        ("from omegaconf import OmegaConf\nc = OmegaConf.from_cli()", ["learning_rate=-1", "seed=0"]),
        ("import tyro", ["--learning_rate=-1", "--seed=0"]),
        ("this is no Python", ["--learning_rate=-1", "--seed=0"]),
    ],
)
def test_options_are_written_as_the_script_takes_them(tmp_path, source, words):
    (tmp_path / "train.py").write_text(source)
    trial = (("learning_rate", "-1"), ("seed", "0"))
    assert find_style(tmp_path / "train.py").words(trial) == words
    assert find_style(tmp_path / "train.py", "equals").words(trial) == ["learning_rate=-1", "seed=0"]


def test_a_name_belongs_to_a_command_line():
    one = sweep_name("src/train.py", ["lr=1,2", "seed=0..3"], [])
    assert one == sweep_name("src/train.py", ["lr=1,2", "seed=0..3"], []) != sweep_name("src/train.py", ["lr=1,3"], [])
    assert one.startswith("train-lr-seed-")


def entry(number, params, best, status="finished", metric="val_loss"):
    meta = {"id": f"20261125-1000{number:02d}-aaaa", "status": status, "params": params, "metric": metric}
    meta |= {"direction": "min", "metrics": {metric: {"first": 3.0, "best": best, "last": best, "steps": 9}}}
    return Entry(f"notes/runs/2026/11/25/20261125-1000{number:02d}-aaaa.md", meta)


def test_the_best_trial_is_first_and_the_option_that_matters_is_named_with_its_counts():
    params = [{"lr": lr, "seed": seed, "opt": opt} for lr in (0.1, 0.2, 0.4) for seed in (0, 1) for opt in ("a", "b")]
    entries = [entry(n, each, each["lr"] + each["seed"] * 0.001, "finished") for n, each in enumerate(params)]
    entries.append(entry(90, {"lr": 9.0, "seed": 0, "opt": "a"}, "nan", "failed"))

    summary = summarize_sweep(entries)

    assert summary.trials[0].values["lr"] == 0.1 and summary.trials[-1].row.id == entries[-1].id
    first, *others = summary.importance
    assert (first.option, first.values, first.trials) == ("lr", 3, 12)
    assert first.correlation > 0.9 and first.explained > 0.85
    assert all(each.order < 0.2 for each in others)
    assert next(each for each in others if each.option == "opt").correlation is None
    xml.dom.minidom.parseString(parallel_coordinates(summary, "<sweep> & more"))


def test_trials_that_were_cut_come_after_the_ones_that_ended_and_pruned_ones_say_nothing_about_options():
    trials = [entry(n, {"lr": n / 10}, 1 + n / 10, "finished") for n in range(4)]
    pruned, failed = entry(5, {"lr": 0.5}, 0.1, "finished"), entry(6, {"lr": 0.6}, 0.2, "failed")
    pruned = Entry(pruned.path, {**pruned.meta, "tags": ["pruned"]})
    summary = summarize_sweep([pruned, failed, *trials])
    assert [each.row.id for each in summary.trials] == [each.id for each in (*trials, pruned, failed)]
    assert summary.importance[0].trials == 5
    assert best_run([each.row for each in summary.trials]).id == trials[0].id


@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_trials_say_nothing_about_options(count):
    summary = summarize_sweep([entry(n, {"lr": n}, float(n)) for n in range(count)])
    assert summary.importance == ()
    assert bool(parallel_coordinates(summary, "")) == (count > 1)


def test_options_of_one_value_or_without_a_metric_do_not_break_the_summary():
    odd = [entry(n, {"lr": value, "deep": "x"}, best) for n, (value, best) in enumerate(zip(
        ["nan", None, True, "text", 1e300, -5], [1.0, 1.0, "inf", None, 1.0, 1.0], strict=True))]  # fmt: skip
    summary = summarize_sweep(odd)
    assert len(summary.trials) == 6
    xml.dom.minidom.parseString(parallel_coordinates(summary, "odd"))


def test_labels_of_close_values_do_not_cover_each_other():
    labels = [("64", 200.0), ("128", 190.0), ("129", 189.5), ("512", 60.0), ("500", 66.0)]
    assert sorted(_separate_labels(labels)) == [("512", 60.0), ("64", 200.0)]
