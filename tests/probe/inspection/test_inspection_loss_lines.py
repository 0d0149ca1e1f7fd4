"""The operation and the line of a loss that stopped being finite."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parents[2] / "programs"
TORCH, PADDLE = PROGRAMS / "nan_losses_torch.py", PROGRAMS / "nan_losses_paddle.py"


def lines_of(program: Path, case: str) -> list[int]:
    return [at for at, line in enumerate(program.read_text().splitlines(), 1) if line.endswith(f"  # {case}")]


@pytest.fixture
def flight(probed):
    """`flight(program, case)`: what the recorder reported, and what the program printed."""

    def start(program, case):
        done = probed(sys.executable, str(program), case, OMP_NUM_THREADS="1")
        assert done.of("probe_error") == []
        (found,) = done.of("flight")
        assert (found["finding"], found["step"]) == ("loss expression", 6)
        return found, done.out

    return start


def long(*cases):
    return [pytest.param(*case, marks=pytest.mark.long) for case in cases]


@pytest.mark.torch
@pytest.mark.forked("torch")
@pytest.mark.parametrize(
    ("case", "op", "found"),
    [
        ("log", "Log", {"inf": 1, "nan": 0, "of": 64, "low": 0.0}),
        ("div", "Div", {"zeros": 1}),
        *long(
            ("logs", "Log", {"then": {"op": "Mul", "nan": 3}}),
            ("exp", "Exp", {"nan": 0, "of": 320}),
            ("pow", "Pow", {"exponent": 1.5, "of": 640}),
            ("acos", "Acos", {"inf": 0, "of": 64}),
            ("ignored", "NllLoss", {"nan": 1}),
            ("empty", "Mean", {"nan": 1}),
        ),
    ],
)
def test_the_operation_that_made_the_value_is_shown_with_its_line(flight, case, op, found):
    seen, printed = flight(TORCH, case)
    assert seen["made"]["op"] == op
    if "then" in found:
        assert seen["made"]["then"]["op"] == found.pop("then")["op"]
    assert {key: seen["made"][key] for key in found} == found
    assert [seen["line"]] == lines_of(TORCH, case) and seen["function"] == "loss_of"
    assert f"{op}!" in seen["op"] and seen["may"] == []
    assert printed.splitlines()[-1] == "anomaly mode False"


@pytest.mark.torch
@pytest.mark.forked("torch")
def test_an_operation_is_not_blamed_for_the_target_that_it_was_given(flight):
    seen, _ = flight(TORCH, "target")
    assert (seen["made"]["op"], seen["made"]["given"], seen["may"]) == ("Sub", True, [])
    assert [seen["line"]] == lines_of(TORCH, "target")


@pytest.mark.torch
@pytest.mark.forked("torch")
@pytest.mark.long
def test_the_one_operation_with_an_infinite_derivative_is_named(flight):
    seen, _ = flight(TORCH, "sqrt")
    assert (seen["trigger"], seen["made"], [one["op"] for one in seen["may"]]) == ("gradient", None, ["Sqrt"])
    assert [seen["line"]] == lines_of(TORCH, "sqrt")


@pytest.mark.paddle
@pytest.mark.forked("paddle")
@pytest.mark.parametrize(
    ("case", "op"), [("logs", "Log"), *long(("log", "Log"), ("div", "Divide"), ("pow", "Pow"), ("sqrt", "Sqrt"))]
)
def test_paddle_names_the_operations_that_may_have_made_it_with_their_lines(flight, case, op):
    seen, printed = flight(PADDLE, case)
    assert seen["made"] is None
    assert {one["op"] for one in seen["may"]} == {op}
    assert [one["line"] for one in seen["may"]] == lines_of(PADDLE, case)
    assert (seen["line"] == seen["may"][0]["line"]) == (len(seen["may"]) == 1)
    assert printed.splitlines()[-1] == "operators __truediv__ log"


OWN_MODE = """
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(4):
    out = model(torch.ones(3, 4))
    with torch.autograd.set_detect_anomaly(True):
        loss = torch.sqrt(((out - out.detach()) ** 2).sum(1)).mean() if step == 3 else out.mean()
        try:
            loss.backward()
        except RuntimeError as error:
            print("raised", "returned nan" in str(error))
    optimizer.step()
    optimizer.zero_grad()
out = model(torch.ones(3, 4))
print(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
"""


@pytest.mark.torch
@pytest.mark.forked("torch")
def test_the_anomaly_mode_of_the_program_is_its_own(probed):
    """It begins it while lines are kept: its check for NaN raises as ever, and its mode ends with its context."""
    done = probed(sys.executable, probed.write("own_mode.py", OWN_MODE), OMP_NUM_THREADS="1")
    assert done.out.splitlines()[-2:] == ["raised True", "False True"]
