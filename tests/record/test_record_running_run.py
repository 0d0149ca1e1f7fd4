"""What a run that goes on has recorded so far is shown, and nothing is written for it."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from labbook.record.running_run import RunningRuns
from labbook.store.notebook_finder import find_notebook

PRINTING = """
import sys, time
for epoch in range(4):
    print(f"epoch {epoch} val_acc: {0.5 + epoch / 10}", flush=True)
sys.stdin.readline()
"""
TRAINING = """
import sys, time, torch
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.001)
while True:
    model(torch.ones(4, 3)).pow(2).mean().backward()
    optimizer.step()
    time.sleep(0.01)
"""


@pytest.fixture
def begin(book):
    """Starts a recorded program; it is ended after the test."""
    started = []

    def run(source, output=subprocess.DEVNULL):
        (book.folder / "train.py").write_text(source)
        command = [sys.executable, "-m", "labbook", "record", "--", sys.executable, "train.py"]
        started.append(subprocess.Popen(command, cwd=book.folder, stdin=subprocess.PIPE, stdout=output,
                                        stderr=subprocess.DEVNULL))  # fmt: skip
        return started[-1]

    yield run
    for each in started:
        each.terminate()
        each.stdin.close()
        each.wait(30)


def wait_for_page(book, words, seconds=60.0):
    deadline = time.monotonic() + seconds
    while words not in (shown := book("show", check=False).stdout):
        assert time.monotonic() < deadline, "it was not shown in time"
        time.sleep(0.2)
    return shown


@pytest.mark.parametrize("to_file", [False, True])
def test_a_running_program_has_its_metrics_in_list_and_show(book, begin, tmp_path, to_file):
    """Also where the output goes to a file, as with `nohup`."""
    with (tmp_path / "train.log").open("w") as log:
        recorder = begin(PRINTING, log if to_file else subprocess.DEVNULL)
    shown = wait_for_page(book, "0.8")
    entry = next((book.folder / "notes" / "runs").rglob("*.md"))
    on_disk = entry.read_text()
    assert "train.py: running, val_acc 0.5 → 0.8" in shown and "epoch 3 val_acc: 0.8" in shown
    assert "train.py: running, val_acc 0.5 → 0.8" in book("list").stdout
    (row,) = json.loads(book("list", "--json").stdout)
    assert (row["status"], row["metric"]["last"], row["duration_s"] > 0) == ("running", 0.8, True)
    assert json.loads(book("show", "--json").stdout)["metrics"]["val_acc"]["last"] == 0.8
    assert entry.read_text() == on_disk and "val_acc" not in on_disk
    runs = RunningRuns(find_notebook(book.folder, chosen=book.folder, environ={}))
    view = runs.view(entry.stem)
    assert view["title"] == "train.py: running, val_acc 0.5 → 0.8" and view["output"].endswith("epoch 3 val_acc: 0.8")
    assert "<svg" in view["curves"] and runs.view("20200101-000000-aaaa") is None
    recorder.stdin.close()
    assert recorder.wait(30) == 0
    assert "train.py: finished, val_acc 0.5 → 0.8" in book("list").stdout


@pytest.mark.torch
def test_what_the_checks_find_is_shown_while_the_training_goes_on(book, begin):
    begin(TRAINING)
    title = "running, gradients accumulate across steps"
    shown = wait_for_page(book, title)
    assert "verdict: unknown" in shown and "| **fail** |" in shown
    assert title in book("list").stdout
