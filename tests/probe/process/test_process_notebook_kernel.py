"""A notebook that is executed: the kernel says hello, and an error in a cell is reported though it ends no process."""

import json
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(
    not (find_spec("nbconvert") and find_spec("ipykernel")), reason="nbconvert or ipykernel is not installed"
)

CELLS = ["import argparse, json\nLR = 0.5\nopen('data.txt', 'w').write('x')", "def f(x):\n    return 1 / x\nf(0)"]


def notebook(*cells):
    rows = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "source": cell, "outputs": [], "execution_count": None}
        for n, cell in enumerate(cells)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": rows, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


@pytest.mark.slow
def test_the_error_of_a_cell_is_recorded(probed):
    probed.write("train.ipynb", notebook(*CELLS))
    command = ("-m", "jupyter", "nbconvert", "--to", "notebook", "--execute", "--allow-errors", "train.ipynb")
    done = probed(sys.executable, *command, IPYTHONDIR=str(probed.folder / "ipython"))
    kernels = [events for events in done.files.values() if "ipykernel_launcher" in str(events[0]["argv"])]
    assert len(kernels) == 1
    (event,) = [event for event in kernels[0] if event["k"] == "exception"]
    assert (event["where"], event["type"], event["exit"]) == ("main", "ZeroDivisionError", False)
    assert [(f["function"], f["source"]) for f in event["frames"] if f["user"]][-1] == ("f", "return 1 / x")
    seen = [event["values"] for event in kernels[0] if event["k"] == "arguments"]
    assert {"LR": 0.5} in seen
    assert "data.txt" in done.paths()
    assert "signature_scheme" not in str(done.files)  # of the kernel's connection file, which holds its key
    assert not done.of("probe_error")
    text = (probed.folder / "train.nbconvert.ipynb").read_text()
    assert "_labbook_probe" not in text
    assert "labbook/probe" not in text
