from __future__ import annotations

import dataclasses
import json

import pytest

from labbook.model.entry import Entry
from labbook.model.run import Framework, Process, Run
from labbook.model.run_files import FileUse
from labbook.model.run_json import run_to_json
from labbook.model.series import Series
from labbook.report.entry.entry_front_matter import entry_meta
from labbook.report.run_data import load_run, run_data
from labbook.report.run_row import RunRow
from labbook.report.series_choice import step_time_series
from labbook.report.terminal_page import strip_markup

RUN = Run(
    id="20261121-153012-k3f9",
    status="failed",
    argv=("python", "train.py"),
    cwd="/home/wei/code",
    started=1795275012.0,
    ended=1795275096.5,
    exit_code=1,
    experiment="exp001_x_dynamic",
    series=(
        Series("loss", "text", (1, 2), (9.0, 8.0)),
        Series("loss", "probe", (1, 2, 3), (2.3, 1.9, float("nan")), count=3, nonfinite=1),
    ),
    files=(FileUse("data.csv", "read", 10), FileUse("model.pt", "written", 20), FileUse("log", "read and written", 1)),
    captured={"code": {"commit": "abc", "dirty": True}, "python": {"version": "3.11.7"}, "command": {"argv": []}},
)
PATH = "notes/runs/2026/11/21/20261121-153012-k3f9.md"


def test_the_learning_rate_of_the_front_matter_is_the_highest_that_was_used():
    """Not that of the constructor, which a warm-up or OneCycleLR replaces."""
    optimizers = tuple({"type": "SGD", "index": at, "options": {"lr": 0.1}} for at in (0, 1))
    rates = [
        Series(name, "probe", (1, 9), values) for name, values in (("lr", (0.008, 0.2)), ("lr.group1", (0.01, 0.02)))
    ]
    run = dataclasses.replace(RUN, frameworks=(Framework("torch", "2", optimizers=optimizers),))
    assert entry_meta(run, "t", {})["lr"] == [0.1]
    assert entry_meta(dataclasses.replace(run, series=tuple(rates)), "t", {})["lr"] == [0.2, 0.02]


@pytest.mark.parametrize(
    ("captured", "median"), [({}, 1.0), ({"trainings": {"rows": [{}]}}, 3.0), ({"phases": {"count": 2}}, 3.0)]
)
def test_the_step_time_is_that_of_all_trainings(captured, median):
    times = (
        Series("step_time_s", "probe", (1, 2, 3), (1.0, 1.0, 1.0)),
        Series("step_time_s.opt1", "probe", tuple(range(1, 8)), (3.0,) * 7),
    )
    found = step_time_series(dataclasses.replace(RUN, series=times, captured=captured))
    assert found.median == median


def test_a_whole_run_as_data():
    data = run_data(Entry(PATH, {"id": RUN.id}), RUN, "f" * 40)

    assert (data["id"], data["status"], data["exit_code"], data["command"]) == (
        RUN.id,
        "failed",
        1,
        ["python", "train.py"],
    )
    assert data["duration_s"] == 84.5 and data["entry"] == PATH and data["commit"] == "f" * 40
    loss = data["metrics"]["loss"]
    assert (loss["first"], loss["best"], loss["steps"], loss["source"], loss["nonfinite"]) == (2.3, None, 3, "probe", 1)
    assert data["environment"] == {"python": {"version": "3.11.7"}} and data["code"]["commit"] == "abc"
    assert [f["path"] for f in data["inputs"]] == ["data.csv", "log"]
    assert [f["path"] for f in data["outputs"]] == ["model.pt", "log"]
    assert data["probe"]["status"] == "absent"


def test_values_that_are_numbered_by_epochs_are_counted_in_the_front_matter():
    loss = Series("loss", "probe", tuple(range(1, 41)), (1.0,) * 40, count=40)
    ends = (("val_acc", (3, 4)), ("auc", (9,)))
    printed = [Series(name, "text", steps, (0.5,) * len(steps), axis="epoch") for name, steps in ends]
    logged = Series("eval_f1", "transformers", (20, 40), (0.5, 0.6))
    run = dataclasses.replace(RUN, series=(loss, *printed, logged))
    run = dataclasses.replace(run, processes=(Process(1, 0, ("train.py",), "main", steps=40),))
    found = entry_meta(run, "a run", {})["metrics"]
    assert {name: one["steps"] for name, one in found.items()} == {"loss": 40, "val_acc": 2, "auc": 1, "eval_f1": 2}


def test_a_run_without_its_data_is_told_from_its_entry():
    meta = {"id": RUN.id, "status": "running", "command": "python train.py", "metrics": None, "code": None}
    data = run_data(Entry(PATH, meta), None, "")

    assert data["status"] == "running" and data["command"] == ["python", "train.py"]
    assert data["metrics"] == {} and data["code"] == {} and data["inputs"] == [] and data["exit_code"] is None


def test_the_data_beside_an_entry(notes):
    book = notes.notebook
    file = book.paths.attachments(RUN.id) / "run.json"
    assert load_run(book.paths, RUN.id) is None

    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(run_to_json(RUN)))
    assert load_run(book.paths, RUN.id).argv == RUN.argv

    for broken in ("", "[]", "{", '{"id": "other"}', "[" * 100_000):
        file.write_text(broken)
        assert load_run(book.paths, RUN.id) is None


def test_reading_on_a_terminal_leaves_markup_out():
    text = (
        "---\nid: x\n---\n<!-- labbook:begin title -->\n\n# T\n\n<details><summary>all</summary>\n\n"
        "```text\n<div>kept</div>\n```\n\n</details>\n<!-- labbook:end title -->\n"
    )
    shown = strip_markup(text)

    assert "id: x" not in shown and "labbook:begin" not in shown and "<details>" not in shown
    assert "# T" in shown and "all" in shown and "<div>kept</div>" in shown
    assert "broken" in strip_markup("---\n[broken\n")


@pytest.mark.parametrize(
    ("status", "title", "outcome"),
    [
        ("finished", "train.py: finished, val_acc 0.41 → 0.93 in 80 steps", "0.41 → 0.93 in 80 steps"),
        ("finished", "train.py：完成，val_acc 0.41 → 0.93，共 80 步", "0.41 → 0.93，共 80 步"),
        ("finished", "train.py: finished, val_acc 0.93", ""),
        ("finished", "train.py: finished, but dead ReLU units", "dead ReLU units"),
        ("finished", "train.py：完成，但有问题：ReLU 单元失活", "ReLU 单元失活"),
        ("finished", "train.py: finished, loss is NaN since step 4", "loss is NaN since step 4"),
        ("finished", "train.py: finished", ""),
        ("failed", "train.py: failed, script not found", "script not found"),
        ("failed", "train.py: ValueError at train.py:3", "ValueError at train.py:3"),
        ("finished", "My own title", "My own title"),
    ],
)
def test_the_outcome_of_a_run_repeats_no_column(status, title, outcome):
    row = RunRow("20261122-035531-ab2c", "x.md", status, title, script="train.py", metric="val_acc", last=0.93)
    assert row.outcome == outcome
