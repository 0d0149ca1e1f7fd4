"""The line of an operation that the flight recorder names without one."""

from __future__ import annotations

import pytest

from labbook.findings.operation_lines import add_operation_line
from labbook.model.run import Run
from labbook.model.signals import Signals

CODE = """import torch
p = torch.softmax(z, 1)
print(f"{p.log().mean()}")
loss = -(y * torch.log(p)).sum() / 3
size = torch.log(torch.tensor(5.0))
norm = x / x.sum()
share = total / norm
loss.backward()
"""


@pytest.mark.parametrize(
    ("flight", "line"),
    [
        # Two logarithms are computed and not only printed: the review knows which one can be infinite.
        ({"finding": "expression", "made": {"op": "Log"}}, 4),
        (
            {"finding": "loss expression", "may": [{"op": "Log"}], "source": "loss.backward()", "file": "t", "line": 8},
            4,
        ),
        ({"finding": "expression", "made": {"op": "Sqrt"}}, None),
        ({"finding": "expression", "made": {"op": "Div"}}, None),
        ({"finding": "loss expression", "made": {"op": "Log"}, "source": "x", "file": "t", "line": 2}, 2),
        ({"finding": "bad batch", "made": {"op": "Log"}}, None),
    ],
)
def test_one_line_alone_that_fits(tmp_path, flight, line):
    path = tmp_path / "train.py"
    path.write_text(CODE, encoding="utf-8")
    run = Run(id="a", status="finished", argv=(), cwd="", started=0.0, signals=(Signals("a", flight=flight),))
    assert add_operation_line(run, [path]).signals[0].flight.get("line") == line


def test_a_few_lines_that_fit_are_all_shown(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("import torch\np = torch.sigmoid(z)\na = torch.log(p)\nb = torch.log(1 - p)\n", encoding="utf-8")
    flight = {"finding": "expression", "made": {"op": "Log"}}
    run = Run(id="a", status="finished", argv=(), cwd="", started=0.0, signals=(Signals("a", flight=flight),))
    found = add_operation_line(run, [path]).signals[0].flight
    assert [(one["op"], one["line"]) for one in found["may"]] == [("Log", 3), ("Log", 4)] and "line" not in found
