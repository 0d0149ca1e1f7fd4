"""The cell that assigns or deletes the name that a notebook does not know, or a similar name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.diagnosis.service import Diagnoser, read_file
from labbook.diagnosis.text.log_reader import read_text
from labbook.model.run import CaughtException, Frame, Run

USES = "print(table.shape)"


def _notebook(folder: Path, *cells: str, name: str = "table", ran: int | None = None) -> Path:
    """A notebook as Jupyter saves it: the cell that prints the shape fails, those below did not run."""
    failing = cells.index(USES)
    rows = []
    for place, source in enumerate(cells):
        count = place + 1 if place <= failing else ran
        outputs = [] if place != failing else [_error(name, place + 1)]
        rows.append({"cell_type": "code", "execution_count": count, "source": source, "outputs": outputs})
    path = folder / "train.ipynb"
    path.write_text(json.dumps({"cells": rows, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}))
    return path


def _error(name: str, count: int) -> dict[str, object]:
    message = f"name '{name}' is not defined"
    head = f"NameError      Traceback (most recent call last)\nCell In[{count}], line 1\n----> 1 {USES}\n"
    return {
        "output_type": "error",
        "ename": "NameError",
        "evalue": message,
        "traceback": [head, f"NameError: {message}"],
    }


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ((USES, "table = read()"), "cell 2 assigns table, and had not run before cell 1"),
        ((USES, "%matplotlib inline\nfor table in tables:\n    pass"), "cell 2 assigns table"),
        ((USES, "def table():\n    pass"), "cell 2 assigns table"),
        (("table = read()", "del table", USES), "cell 2 deletes table"),
        (("tables = read()", USES), "no cell before assigns table; a similar name is tables"),
        (("def read():\n    tables = 1", USES), "the name is table"),
        (("tables = read()\nfrom helpers import *", USES), "the name is table"),
        (("tables = read()", "table = (", USES), "the name is table"),
        (("other = 1", USES), "the name is table"),
    ],
)
def test_a_name_error_of_a_notebook_names_the_cell(tmp_path: Path, cells: tuple[str, ...], sentence: str) -> None:
    found = Diagnoser().diagnose(read_file(_notebook(tmp_path, *cells))).primary
    assert found is not None and found.symptom == "name_undefined"
    assert found.evidence[0].startswith(sentence)


def test_a_cell_above_that_ran_later_counts_as_not_run(tmp_path: Path) -> None:
    path = _notebook(tmp_path, USES, "table = read()", ran=7)
    found = Diagnoser().diagnose(read_file(path)).primary
    assert found is not None and found.evidence[0].startswith("cell 2 assigns table, and had not run")


def test_a_usual_name_comes_with_its_import() -> None:
    found = Diagnoser().diagnose(read_text("NameError: name 'np' is not defined")).primary
    assert found is not None and found.evidence[0] == "np is usually imported by import numpy as np"


@pytest.mark.parametrize(
    ("count", "cells", "near"),
    [(2, ("", "import torch", USES, "table = read()"), True), (1, ("import torch", USES, "table = read()"), False)],
)
def test_the_cells_of_a_notebook_that_another_tool_executed_are_known(tmp_path, count, cells, near) -> None:
    path = _notebook(tmp_path, *cells)
    place = Frame(f"In[{count}]", 1, "<module>", USES, True)
    raised = CaughtException("main", "NameError", "builtins", "name 'table' is not defined", frames=(place,))
    run = Run(
        "i", "failed", ("jupyter", "execute", path.name), str(tmp_path), 0.0, script=path.name, exceptions=(raised,)
    )
    found = Diagnoser().diagnose(collect_run_evidence(run)).primary
    assert found is not None and found.evidence[0].startswith("cell 4 assigns table") == near
