"""What the review of the script adds to the findings of a run."""

from __future__ import annotations

import pytest

from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.findings.script_remarks import add_violations
from labbook.model.finding import Diagnosis, Finding
from labbook.model.run import Run

LOOP = """import torch
from steps import train
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, optimizer)
"""
STEPS = """import torch
def train(model, optimizer):
    for _ in range(10):
        loss = model(torch.randn(4, 2)).mean()
        loss.backward()
        optimizer.step()
"""


def diagnosed(tmp_path, symptom, family, language="en"):
    (tmp_path / "train.py").write_text(LOOP)
    (tmp_path / "steps.py").write_text(STEPS)
    run = Run(id="a", status="finished", argv=("python", "train.py"), cwd=str(tmp_path), started=0.0)
    finding = Finding(
        symptom, family, family, 1, "error", "a title", evidence=("m",), causes=("a", "b"), fixes=("c", "d")
    )
    return add_violations(Diagnosis((finding,)), run, load_catalogue(tmp_path), language).findings[0]


def test_what_the_code_shows_is_the_only_cause_and_its_advice_the_only_fix(tmp_path):
    found = diagnosed(tmp_path, "grad_not_cleared", "gradient")

    assert found.evidence == ("m",)
    assert len(found.causes) == len(found.fixes) == 1
    assert found.causes[0].startswith("steps.py:5: gradients are never cleared")
    assert found.fixes[0].startswith("Call `optimizer.zero_grad()` once per step") and found.fixes[0].endswith(".")


def test_a_consequence_is_led_back_to_the_line(tmp_path):
    assert any("steps.py:5" in line for line in diagnosed(tmp_path, "exploding_gradient", "gradient").evidence)


def test_in_chinese(tmp_path):
    found = diagnosed(tmp_path, "grad_not_cleared", "gradient", "zh")
    assert found.causes[0].startswith("steps.py:5：") and found.fixes[0].endswith("。")


def test_remarks_on_something_else_are_left_out(tmp_path):
    assert diagnosed(tmp_path, "file_not_found", "file_not_found").evidence == ("m",)


def test_code_that_is_gone_or_broken_says_nothing(tmp_path):
    run = Run(id="a", status="failed", argv=("python", "gone.py"), cwd=str(tmp_path), started=0.0)
    diagnosis = Diagnosis((Finding("grad_not_cleared", "gradient", "gradient", 1, "error", "a title"),))

    assert add_violations(diagnosis, run, load_catalogue(tmp_path), "en") == diagnosis
    (tmp_path / "gone.py").write_text("print 'two'\n")
    assert add_violations(diagnosis, run, load_catalogue(tmp_path), "en") == diagnosis


@pytest.mark.parametrize(
    ("symptom", "line"),
    [
        ("update_too_large", 3),
        ("lr_schedule_wrong", 6),
        ("clip_always_active", 5),
        ("loss_broadcast", 7),
        ("class_imbalance", None),
    ],
)
@pytest.mark.parametrize(
    "again", ["", "torch.nn.utils.clip_grad_norm_(p, 2)\nscheduler.step()\nAdam(p)\nloss(x).backward()\n"]
)
def test_the_only_call_of_its_kind_is_the_place_of_a_finding(tmp_path, symptom, line, again):
    code = """from torch.optim import Adam, lr_scheduler
import torch
optimizer = Adam(p, lr=1.0)
scheduler = lr_scheduler.StepLR(optimizer, 3)
torch.nn.utils.clip_grad_norm_(p, 1)
scheduler.step()
total = mse(model(x), y)
total.backward()
"""
    (tmp_path / "train.py").write_text(code + again)
    run = Run(id="a", status="finished", argv=("python", "train.py"), cwd=str(tmp_path), started=0.0)
    finding = Finding(symptom, "loop-bug", "loop-bug", 1, "error", "a title", where={"step": 1})
    found = add_violations(Diagnosis((finding,)), run, load_catalogue(tmp_path), "en").findings[0]
    assert found.where.get("line") == (None if again else line)
