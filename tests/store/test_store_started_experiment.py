from __future__ import annotations

import pytest

from labbook.store.notebook_finder import create_notebook
from labbook.store.started_experiment import end_experiment, start_experiment, started_experiment

pytestmark = pytest.mark.process


@pytest.fixture
def own(tmp_path):
    return create_notebook(tmp_path / "book")[0]


def test_an_experiment_holds_for_a_folder_and_those_below(own, tmp_path):
    start_experiment(own, tmp_path / "a", "exp001_a_dynamic")
    start_experiment(own, tmp_path / "a" / "b", "exp002_b_dynamic")
    assert started_experiment(own, tmp_path / "a" / "c") == "exp001_a_dynamic"
    assert started_experiment(own, tmp_path / "a" / "b" / "c") == "exp002_b_dynamic"
    assert started_experiment(own, tmp_path) == ""
    assert end_experiment(own, tmp_path / "a" / "b" / "c") == "exp002_b_dynamic", "the nearest one"
    assert started_experiment(own, tmp_path / "a" / "b") == "exp001_a_dynamic"


@pytest.mark.parametrize("text", ["", "[1]", "{", "\0"])
def test_a_damaged_file_starts_nothing(own, tmp_path, text):
    start_experiment(own, tmp_path, "exp001_a_dynamic")
    (own.paths.private / "started_experiments.json").write_text(text)
    assert started_experiment(own, tmp_path) == "" and end_experiment(own, tmp_path) == ""
