"""Steps that are not followed, in real programs: nothing is counted by halves, and what fails in one is looked at."""

from __future__ import annotations

import sys

import pytest

from labbook.probe.training.step_sampling import StepSampler

PROGRAM = """
import importlib, sys
name = sys.argv[1]
framework = importlib.import_module(name)
nn, functional = framework.nn, framework.nn.functional
model = nn.Linear(4, 3)
if name == "torch":
    optimizer = framework.optim.SGD(model.parameters(), 0.01)
    clear = optimizer.zero_grad
    rows, labels = framework.ones(8, 4), framework.zeros(8, dtype=framework.int64)
else:
    optimizer = framework.optimizer.SGD(0.01, parameters=model.parameters())
    clear = optimizer.clear_grad
    rows, labels = framework.ones([8, 4]), framework.zeros([8], dtype="int64")
for step in range(1300):
    functional.cross_entropy(model(rows), labels).backward()
    optimizer.step()
    clear()
try:
    functional.cross_entropy(model(rows), labels + 9)
except (IndexError, ValueError):
    print("refused")
functional.cross_entropy(model(rows * float("nan")), labels).backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    "framework",
    [pytest.param(name, marks=[getattr(pytest.mark, name), pytest.mark.forked(name)]) for name in ("torch", "paddle")],
)
def test_steps_that_are_not_followed(probed, framework):
    done = probed(sys.executable, probed.write("train.py", PROGRAM), framework, OMP_NUM_THREADS="1")
    assert "refused" in done.out
    assert not done.of("probe_error"), done.of("probe_error")
    missed = [one["what"] for one in done.of("unobserved") if one["what"].startswith("details of ")]
    assert len(missed) == 1, "they were followed"
    loop = done.of("loop")[-1]
    assert loop["steps"] == 1301
    assert loop["losses_lonely"] == 0
    (flight,) = done.of("flight")
    assert (flight["step"], flight["trigger"], flight["finding"]) == (1301, "loss", "bad batch")
    assert [one["outside"] for one in done.of("loss_call") if one["line"] == "train.py:20"] == [8]


def test_steps_that_were_all_followed_are_not_named():
    sampler = StepSampler(0.0)
    for step in range(1, 600):
        sampler.end_of_step(now=0.001 * step, spent=0.0005 * step)
    assert sampler.fast and not sampler.left_out()[1]
