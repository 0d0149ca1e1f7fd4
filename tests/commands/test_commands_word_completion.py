"""Tab completes what the notebook has: runs, experiments, symptoms, the keys of a query."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from labbook.cli import labbook
from labbook.store.experiment_of_script import choose_experiment
from labbook.store.notebook_finder import create_notebook, find_notebook


@pytest.mark.parametrize(
    ("words", "typed", "expected"),
    [
        (["explain"], "loss_nonf", "loss_nonfinite"),
        (["report", "-e"], "exp0", "exp001_train_dynamic"),
        (["record", "--experiment"], "exp", "exp001_train_dynamic"),
        (["rm"], "exp", "exp001_train_dynamic"),
        (["rm"], "la", "last"),
        (["list"], "sta", "status:"),
        (["search"], "symp", "symptom:"),
        (["bisect"], "la", "last"),
    ],
)
def test_words_of_the_notebook_are_completed(tmp_path, monkeypatch, words, typed, expected):
    create_notebook(tmp_path / "book")
    monkeypatch.chdir(tmp_path / "book")
    choose_experiment(find_notebook(tmp_path / "book", environ={}), "train.py")
    completion = ShellComplete(labbook, {}, "labbook", "_LABBOOK_COMPLETE")
    assert expected in [item.value for item in completion.get_completions(words, typed)]
