"""Several trainings in one process: each is a run of its own, and no number of one is in the entry of another."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from labbook.record.trial_entries import _best_row
from labbook.store.paths import is_run_id, is_trial_id
from labbook.store.text.frontmatter import parse
from tests.conftest import PROGRAMS

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]


class Trials:
    """A recorded run and its trials, as facts and as front matter."""

    def __init__(self, book, *command):
        self.done = book.record(*command, check=False, timeout=300, framework="torch")
        self.book = book
        self.pages = {path.stem: path.read_text() for path in sorted((book.folder / "notes" / "runs").rglob("*.md"))}
        self.fronts = {name: parse(page, "")[0] for name, page in self.pages.items()}
        self.runs = {
            path.parent.name: json.loads(path.read_text())
            for path in (book.folder / "notes" / "runs").rglob("run.json")
        }
        [self.id] = [name for name in self.pages if not is_trial_id(name)]
        self.trials = [name for name in self.pages if is_trial_id(name)]

    def losses(self, name):
        return {s["name"]: s for s in self.runs[name]["series"]}


def recorded(make_book, folder, program, *words):
    book = make_book(folder / "book")
    shutil.copy(PROGRAMS / program, book.folder)
    return Trials(book, sys.executable, program, *words)


@pytest.fixture(scope="module")
def optuna_run(make_book, tmp_path_factory):
    pytest.importorskip("optuna")
    return recorded(make_book, tmp_path_factory.mktemp("optuna"), "several_trials.py", "optuna")


@pytest.fixture(scope="module")
def hydra_run(make_book, tmp_path_factory):
    pytest.importorskip("hydra")
    return recorded(make_book, tmp_path_factory.mktemp("hydra"), "hydra_multirun.py", "--multirun", "lr=0.1,0.01,0.001")


def test_each_trial_of_a_study_is_a_run_with_its_own_numbers(optuna_run):
    fronts = [optuna_run.fronts[name] for name in optuna_run.trials[:5]]
    assert [front["status"] for front in fronts] == ["finished", "finished", "failed", "finished", "finished"]
    assert [front["trial"] for front in fronts] == [0, 1, 2, 3, 0]
    assert {front["trial_of"] for front in fronts} == {optuna_run.id}
    assert all(is_run_id(front["id"]) for front in fronts)
    rates = [front["params"]["lr"] for front in fronts]
    assert len(set(rates)) == 5
    for name, rate in zip(optuna_run.trials[:5], rates, strict=True):
        series = optuna_run.losses(name)
        assert series["loss"]["steps"] == list(range(1, 13)) and "loss.opt1" not in series
        assert series["lr"]["values"] == pytest.approx([rate] * 12)
    complete = optuna_run.losses(optuna_run.trials[0])
    assert complete["objective"]["values"] == pytest.approx([complete["loss"]["values"][-1]])
    assert fronts[0]["metric"] == "objective" and fronts[0]["direction"] == "min" and fronts[4]["direction"] == "max"
    assert len(complete["intermediate_value"]["values"]) == 12
    [error] = optuna_run.runs[optuna_run.trials[2]]["exceptions"]
    assert (error["type"], error["message"], error["step"]) == ("ValueError", "planted", 12)
    assert "pruned" in fronts[1]["tags"]


def test_of_values_that_lists_show_alike_the_first_trial_is_the_best_one_as_on_the_page_of_the_sweep():
    rows = [
        {"number": n, "state": "complete", "metric": "val_acc", "direction": "max", "best": best}
        for n, best in enumerate((0.5, 0.9, 0.900000012))
    ]
    assert _best_row(rows)["best"] == 1


def test_the_run_around_them_keeps_console_and_code_and_no_number_of_a_trial(optuna_run):
    assert optuna_run.done.returncode == 0, optuna_run.done.stderr
    run = optuna_run.runs[optuna_run.id]
    loss = optuna_run.losses(optuna_run.id)["loss"]
    assert loss["steps"] == list(range(1, 25)), "only the training behind the study"
    assert not [s for s in run["series"] if s["source"] in ("text", "optuna")]
    page = optuna_run.pages[optuna_run.id]
    assert "## Trials" in page and "planted" in page.partition("## Console")[2]
    assert run["captured"]["trials"]["rows"][0]["params"] == {
        "lr": optuna_run.fronts[optuna_run.trials[0]]["params"]["lr"]
    }
    # Three trials were asked for at once: they are listed, and none of them gets the training behind them.
    assert len(optuna_run.trials) == 9 and "at the same time" in page
    listed = [row for row in run["captured"]["trials"]["rows"] if not row["id"]]
    assert [row["last"] for row in listed] == [0.0] * 3
    assert [p["role"] for p in run["processes"]] == ["main"] and not run["exceptions"]


def test_trials_of_several_threads_have_their_own_curves_and_results(optuna_run):
    for name in optuna_run.trials[-4:]:
        front, series = optuna_run.fronts[name], optuna_run.losses(name)
        assert series["lr"]["values"] == pytest.approx([front["params"]["lr"]] * 12)
        assert series["loss"]["values"] == pytest.approx(series["intermediate_value"]["values"])
        assert series["objective"]["values"] == pytest.approx([-series["loss"]["values"][-1]])
        assert front["direction"] == "max" and front["status"] == "finished" and "loss.opt1" not in series
        assert "tensors, batches and memory of all trials" in optuna_run.pages[name]


def test_all_of_it_is_one_commit_with_the_page_of_the_sweep(optuna_run, git):
    log = git(optuna_run.book.folder, "log", "--format=%s", "--name-only", "--all", "-1")
    assert log.count("run.json") == 10 and "/trials.svg" in log
    sweeps = list((optuna_run.book.folder / "notes" / "sweeps").glob("*.md"))
    assert sorted(page.stem for page in sweeps) == ["asked", "rate-scan", "together"]
    assert all("variance explained" in page.read_text() or "Fewer than 4" in page.read_text() for page in sweeps)


def test_jobs_of_a_multirun_are_trials_with_their_composed_options(hydra_run):
    assert hydra_run.done.returncode == 0, hydra_run.done.stderr
    fronts = [hydra_run.fronts[name] for name in hydra_run.trials]
    assert [front["params"]["lr"] for front in fronts] == [0.1, 0.01, 0.001]
    assert all(front["params"]["optimizer.momentum"] == 0.0 and front["params"]["steps"] == 12 for front in fronts)
    assert [hydra_run.losses(name)["loss"]["steps"][-1] for name in hydra_run.trials] == [12] * 3
    around = hydra_run.fronts[hydra_run.id]
    assert around["trials"] == 3 and not around["metrics"] and "lr" not in around["params"]
    healthy = all(front["verdict"] == "healthy" for front in fronts)
    assert (around["verdict"], around["verdict_reason"]) == (("healthy", None) if healthy else ("unknown", "trials"))


@pytest.mark.long
def test_a_plain_loop_over_learning_rates_is_a_sweep(make_book, tmp_path):
    found = recorded(make_book, tmp_path, "several_trials.py", "loop")
    fronts = [found.fronts[name] for name in found.trials]
    assert [front["params"]["lr"] for front in fronts] == [0.1, 0.01, 0.03, 0.003]
    for name, front in zip(found.trials, fronts, strict=True):
        loss = found.losses(name)["loss"]
        assert loss["steps"] == list(range(1, 13)) and front["trial_of"] == found.id
        assert found.losses(name)["result"]["values"][-1] < loss["values"][0]
    [page] = (found.book.folder / "notes" / "sweeps").glob("*.md")
    assert "lr" in page.read_text() and page.with_suffix("").joinpath("trials.svg").is_file()
    around = found.fronts[found.id]
    assert around["metric"] == fronts[0]["metric"] == "val_loss"  # printed once a training
    best = min(front["metrics"]["val_loss"]["last"] for front in fronts)
    assert around["metrics"]["val_loss"]["last"] == around["metrics"]["val_loss"]["best"] == best


@pytest.mark.long
def test_trials_by_hand_and_an_error_that_ends_the_program(make_book, tmp_path):
    found = recorded(make_book, tmp_path, "several_trials.py", "by hand")
    assert found.done.returncode == 1
    assert [found.fronts[name]["params"]["lr"] for name in found.trials] == [0.1, 0.01, 1.0]
    assert [found.fronts[name]["status"] for name in found.trials] == ["finished", "finished", "failed"]
    run = found.runs[found.id]
    assert run["status"] == "failed" and [e["message"] for e in run["exceptions"]] == ["diverged"]
    frames = [frame["function"] for frame in run["exceptions"][0]["frames"]]
    assert frames == ["<module>"], "neither the probe nor labbook is in the traceback"
    assert "Traceback" in found.done.stderr + found.done.stdout
