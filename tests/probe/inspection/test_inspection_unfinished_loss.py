"""A loss that is not finite, with which a program leaves before the backward pass."""

from __future__ import annotations

import sys

import pytest

PROGRAM = """
import os, sys
{imports}

LOOP
    w = {weight}
    for step in range(3):
        loss = ((w * 2 - 2 * {start}).log() * 0).sum()
        {test}
        loss.backward()
"""
TORCH = {"imports": "import torch", "weight": "torch.ones(3, requires_grad=True)"}
PADDLE = {
    "imports": "import paddle",
    "weight": 'paddle.create_parameter([3], "float32", default_initializer=paddle.nn.initializer.Constant(1.0))',
}


def leave(probed, folder, framework, test, is_function, start="1"):
    """The reports of the flight recorder on a program whose loss is NaN where its weights are 1."""
    code = PROGRAM.format(**framework, test=test, start=start)
    code = code.replace("LOOP", "def train():" if is_function else "if True:") + "train()\n" * is_function
    program = folder / "train.py"
    program.write_text(code, encoding="utf-8")
    done = probed(sys.executable, str(program), check=None, OMP_NUM_THREADS="1")
    assert done.of("probe_error") == []
    return done.of("flight")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("test", "is_function"),
    [
        ("if torch.isnan(loss): break", False),
        ("if loss != loss: sys.exit(3)", True),
        pytest.param("if loss.item() != loss.item(): os._exit(0)", True, marks=pytest.mark.long),
        ("assert torch.isfinite(loss)", True),
        pytest.param("if not torch.isfinite(loss): raise ValueError(step)", False, marks=pytest.mark.long),
    ],
)
def test_the_loss_that_a_program_leaves_with_is_searched(probed, tmp_path, test, is_function):
    """Whatever the test looks like, and without a line that is printed."""
    seen = leave(probed, tmp_path, TORCH, test, is_function)
    assert [(one["trigger"], one["finding"], one["made"]["op"]) for one in seen] == [("end", "expression", "Log")]


@pytest.mark.torch
def test_a_constant_that_is_not_finite_is_no_fault_of_the_operation_after_it(probed, tmp_path):
    test = "loss = torch.relu(torch.eye(3).log().sub(1).mul(0) @ w).sum()\n        if torch.isnan(loss): break"
    (seen,) = leave(probed, tmp_path, TORCH, test, False)
    assert (seen["made"]["op"], seen["made"]["given"]) == ("Mv", True)


@pytest.mark.torch
def test_a_finite_loss_or_one_of_another_name_is_none(probed, tmp_path):
    assert leave(probed, tmp_path, TORCH, "if step > 9: break", False, start="-3") == []
    assert leave(probed, tmp_path, TORCH, "odd, loss = loss, w.sum()", False) == []


@pytest.mark.torch
def test_a_program_that_skips_the_batch_has_not_left_because_of_it(probed, tmp_path):
    assert leave(probed, tmp_path, TORCH, "if loss.isnan(): continue", False) == []


@pytest.mark.paddle
def test_the_loss_that_a_paddle_program_leaves_with(probed, tmp_path):
    (seen,) = leave(probed, tmp_path, PADDLE, "if paddle.isnan(loss): break", False)
    assert (seen["trigger"], seen["finding"]) == ("end", "expression")
    assert "Log" in [one["op"] for one in seen["may"]]
