"""`labbook compare` on two recorded runs of a script whose option and code changed in between."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

SCRIPT = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
lr = parser.parse_args().lr
for step in range(5):
    print(f"step {step} loss: {1 / (1 + step * lr):.4f}")
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory, make_project, git):
    """A notebook with two runs, which no test changes; their ids."""
    project = make_project(tmp_path_factory.mktemp("compared") / "project")
    for lr, subject in (("0.1", "the trainer"), ("0.5", "a word on the trainer")):
        (project.folder / "train.py").write_text(f"{SCRIPT}# {subject}\n")
        git(project.folder, "commit", "-qam", subject)
        project.record(sys.executable, "train.py", "--lr", lr)
    runs = [run["id"] for run in json.loads(project("list", "--json").stdout)]
    return project, runs[1], runs[0]


@pytest.fixture
def own_two(two, tmp_path):
    """The same runs in a copy of the notebook."""
    project, before, now = two
    shutil.copytree(project.folder, tmp_path / "project")
    return type(project)(tmp_path / "project"), before, now


def test_what_differs_stands_side_by_side(two):
    labbook, before, now = two
    lines = labbook("compare").stdout.splitlines()

    assert lines[0].split() == ["what", before, now]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert rows["--lr"] == ["0.1", "0.5"]
    assert rows["loss"] == ["0.7143", "0.3333"]
    assert rows["status"] == ["finished", "finished"]
    assert "commit" in rows and "train.py" in rows
    assert labbook("compare", before, now).stdout.splitlines() == lines
    assert labbook("compare", now, before).stdout.splitlines()[0].split() == ["what", now, before]


def test_the_code_in_between(two):
    labbook, _, _ = two
    output = labbook("compare", "--code").stdout

    assert "a word on the trainer  Wei" in output
    assert "-# the trainer\n+# a word on the trainer\n" in output


def test_json_has_metrics_changes_and_commits(two):
    labbook, before, now = two
    data = json.loads(labbook("compare", "--json").stdout)

    assert (data["before"], data["now"]) == (before, now)
    assert data["metrics"] == {"loss (last)": [0.7143, 0.3333]}
    assert ("argument", "--lr", "0.1", "0.5") in [
        (c["kind"], c["what"], c["before"], c["now"]) for c in data["changes"]
    ]
    assert [commit["subject"] for commit in data["commits"]] == ["a word on the trainer"]


def test_without_the_code_repository_only_commits_are_missing(two, own_two):
    labbook, before, now = own_two
    for run in (before, now):
        day = f"{run[:4]}/{run[4:6]}/{run[6:8]}"
        file = labbook.folder / "notes" / "runs" / day / run / "run.json"
        file.write_text(file.read_text().replace(str(two[0].folder), "/nowhere"))
    done = labbook("compare", "--code", check=False)

    assert "--lr" in done.stdout
    assert "the code repository is not on this machine" in done.stderr


def test_a_run_without_previous_run_or_data_is_an_error(project):
    project.record(sys.executable, "train.py")
    done = project("compare", check=False)
    assert done.returncode == 1 and "has no previous run of the same script" in done.stderr
    run = project.run()["id"]
    day = f"{run[:4]}/{run[4:6]}/{run[6:8]}"
    (project.folder / "notes" / "runs" / day / run / "run.json").write_text("{")
    done = project("compare", run, run, check=False)
    assert done.returncode == 1 and "has no data to compare" in done.stderr


def test_more_than_two_runs_get_a_column_each(own_two):
    labbook, before, now = own_two
    labbook.record(sys.executable, "train.py", "--lr", "0.9")
    third = json.loads(labbook("list", "--json").stdout)[0]["id"]

    lines = labbook("compare", before, now, third, now).stdout.splitlines()
    assert lines[0].split() == ["what", before, now, third]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert rows["--lr"] == ["0.1", "0.5", "0.9"]
    assert rows["loss"] == ["0.7143", "0.3333", "0.2174"]

    data = json.loads(labbook("compare", before, now, third, "--json").stdout)
    assert data["runs"] == [before, now, third]
    assert {"kind": "argument", "what": "--lr", "values": ["0.1", "0.5", "0.9"]} in data["changes"]

    text = labbook("compare", before, third, "--markdown").stdout.splitlines()
    assert text[0] == f"|  |  | {before} | {third} |" and text[1] == "|---|---|---|---|"
    assert "| argument | --lr | 0.1 | 0.9 |" in text
    assert {line.count("|") for line in text} == {5}


def test_wrong_options_and_too_many_runs_are_errors(two):
    labbook, before, now = two

    done = labbook("compare", before, now, now, "--markdown", "--code", check=False)
    assert "--code compares exactly two runs" in done.stderr
    assert "21 runs are more than 20" in labbook("compare", *[before] * 21, check=False).stderr
