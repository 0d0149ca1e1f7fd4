"""Rows of the checklist for what the code of a run shows."""

from __future__ import annotations

import pytest

from labbook.diagnosis.catalogue.check_pages import load_check_pages
from labbook.findings.code_checks import check_code
from labbook.health.checklist import checklist
from labbook.model.run import Console, Process, Run
from labbook.model.signals import Signals

FLIP = """import random
import torch
def augment(image, mask):
    if random.random() < 0.5:
        image = image.flip(-1)
    return image, mask
"""


def run_of(tmp_path, code, **fields):
    path = tmp_path / "train.py"
    path.write_text(code, encoding="utf-8")
    processes = (Process(1, 0, ("python", "train.py"), "main", steps=5),)
    signals = (Signals("a", loop={"steps": 5, "backwards": 5}),)
    return Run(id="a", status="finished", argv=("python", "train.py"), cwd="", started=0.0,
               **{"sources": (str(path),), "signals": signals, "processes": processes, **fields})  # fmt: skip


def test_a_fault_in_the_code_is_a_row_with_its_place(tmp_path):
    run = run_of(tmp_path, FLIP)
    rows = [row for row in checklist(run, load_check_pages(tmp_path), check_code(run)) if row.verdict == "warn"]
    assert [(row.id, row.where) for row in rows] == [("flipped_without_target", {"file": "train.py", "line": 5})]
    assert "`image` is flipped" in rows[0].observed and rows[0].evidence == ("in the code: train.py:5",)
    assert rows[0].detail.startswith("flip both")


def test_code_that_is_right_broken_or_not_trained_with_has_no_row(tmp_path):
    right = FLIP.replace("        image = image.flip(-1)\n", "        image, mask = image.flip(-1), mask.flip(-1)\n")
    assert check_code(run_of(tmp_path, right)) == []
    assert check_code(run_of(tmp_path, FLIP + "print 'two'\n")) == []
    assert check_code(run_of(tmp_path, FLIP, signals=())) == []
    assert check_code(run_of(tmp_path, FLIP, sources=(str(tmp_path / "gone.py"),))) == []


@pytest.mark.parametrize(("mode", "rows"), [("compiled", ["dropout_active_in_eval"]), ("dynamic", [])])
def test_the_code_of_a_compiled_forward_takes_the_place_of_measurements(tmp_path, mode, rows):
    layer = "class Net(nn.Module):\n    def forward(self, x):\n        return F.dropout(x, 0.5)\n"
    code = f"import torch.nn.functional as F\nfrom torch import nn\n{layer}"
    run = run_of(tmp_path, code, signals=(Signals("a", mode=mode, loop={"steps": 5, "backwards": 5}),))
    assert [check.id for check, _ in check_code(run)] == rows


def test_a_program_that_left_because_of_nan_is_not_healthy(tmp_path):
    loop = "def nll(p):\n    return -torch.log(torch.sigmoid(p)).mean()\nwhile True:\n    loss = nll(x)\n"
    code = f"import torch\n{loop}    if torch.isnan(loss):\n        print('gave up on NaN')\n        break\n"
    run = run_of(tmp_path, code, signals=(), console=Console("0 0.3\ngave up on NaN\n"))
    rows = [row for row in checklist(run, load_check_pages(tmp_path), check_code(run)) if row.verdict == "fail"]
    assert [(row.id, row.where["line"]) for row in rows] == [("loss_nonfinite", 6)]
    assert "train.py:6 tests it; printed: gave up on NaN" in rows[0].evidence
    assert any("infinite as soon as" in sentence for sentence in rows[0].evidence) and "logsigmoid" in rows[0].detail
    assert check_code(run_of(tmp_path, code, signals=(), console=Console("0 0.3\n"))) == []


@pytest.mark.parametrize(
    ("listed", "verdict"),
    [
        ("ModuleList([block, block])", "ok"),
        ("ModuleList([shared_block] * 6)", "ok"),
        ("ModuleList([self.shared_block for _ in range(6)])", "ok"),
        ("ModuleList([block] * 6)", "warn"),
        ("ModuleList([Block()] * 6)", "warn"),
        ("ModuleList([block for _ in range(6)])", "warn"),
        ("ModuleList([shared_block, block])", "warn"),
    ],
)
def test_layers_that_are_listed_on_purpose(tmp_path, listed, verdict):
    rows = [
        {"i": 1, "name": "blocks", "type": "ModuleList"},
        {"i": 2, "name": "blocks.0", "type": "Block", "input": [{"shape": [8, 32]}], "output": [{"shape": [8, 32]}]},
        {"i": 3, "name": "blocks.0.fc", "type": "Linear", "trainable": 100},
    ]
    models = ({"modules": rows, "repeated": [["blocks", 2, 6]]},)
    signals = (Signals("a", models=models, loop={"steps": 5, "backwards": 5}),)
    run = run_of(tmp_path, f"from torch import nn\nblocks = nn.{listed}\n", signals=signals)
    found = {row.id: row.verdict for row in checklist(run, load_check_pages(tmp_path), check_code(run))}
    assert found.get("layers_share_weights", "ok") == verdict


ALWAYS_DROPS = """
from torch import nn
from torch.nn import functional as F
class Net(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.1, training=True)
"""


@pytest.mark.parametrize(("doc", "verdict"), [("'Monte Carlo dropout: the mean of 20 passes.'", "ok"), ("", "fail")])
def test_dropout_that_is_active_in_evaluation_on_purpose(tmp_path, doc, verdict):
    phases = ({"batches": 4, "training": False, "dropout_active": 8, "dropout_line": "train.py:6"},)
    signals = (Signals("a", evaluations=phases, loop={"steps": 5, "backwards": 5}),)
    run = run_of(tmp_path, doc + ALWAYS_DROPS, signals=signals)
    found = {row.id: row.verdict for row in checklist(run, load_check_pages(tmp_path), check_code(run))}
    assert found.get("dropout_active_in_eval", "ok") == verdict


RESUMES = """
import torch
model, begin = torch.nn.Linear(4, 1), 0
optimizer = torch.optim.Adam(model.parameters())
if resume:
    saved = torch.load(resume)
    model.load_state_dict(saved["model"])
    begin = saved["epoch"]
for epoch in range(begin, 9):
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("loaded", "named"),
    [
        ((), []),
        (({"what": "model", "step": 0},), ["optimizer_state_not_restored"]),
        (({"what": "model", "step": 90},), []),
        (({"what": "optimizer", "step": 0},), []),
        (({"what": "model", "step": 0}, {"what": "optimizer", "step": 0}), []),
    ],
)
def test_only_a_run_that_loaded_weights_is_resumed_without_its_optimizer(tmp_path, loaded, named):
    """The same code also trains from the beginning, and loads its best weights at the end."""
    signals = (Signals("a", loaded=loaded, loop={"steps": 5, "backwards": 5}),)
    assert [check.id for check, _ in check_code(run_of(tmp_path, RESUMES, signals=signals))] == named


def test_an_optimizer_of_any_name_may_be_loaded(tmp_path):
    signals = (Signals("a", loaded=({"what": "model", "step": 0},), loop={"steps": 5, "backwards": 5}),)
    text = RESUMES.replace("optimizer", "o").replace(
        "begin = saved", "o.load_state_dict(saved['o'])\n    begin = saved"
    )
    assert check_code(run_of(tmp_path, text, signals=signals)) == []


RESUMED = """import torch
net = torch.nn.Linear(2, 1)
opt = torch.optim.Adam(net.parameters())
state = torch.load("last.pt")
net.load_state_dict(state["model"])
start = state["epoch"] + 1
for epoch in range(start, 9):
    opt.zero_grad()
    net(x).sum().backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("time", "step", "spans", "rows"),
    [
        (1.0, 0, {0: (2.0, 3.0)}, ["optimizer_state_not_restored"]),
        (4.0, 50, {0: (2.0, 3.0), 1: (5.0, 6.0)}, ["optimizer_state_not_restored"]),  # the next part of one program
        (4.0, 50, {0: (2.0, 6.0)}, []),  # an earlier epoch is taken up again
        (4.0, 50, {0: (2.0, 3.0)}, []),  # the best weights, to be tested
    ],
)
def test_weights_without_their_optimizer_are_a_fault_where_a_training_begins(tmp_path, time, step, spans, rows):
    loaded = ({"what": "model", "step": step, "t": time},)
    run = run_of(tmp_path, RESUMED, signals=(Signals("a", loop={"steps": 60}, loaded=loaded, spans=spans),))
    assert [check.id for check, _ in check_code(run)] == rows
