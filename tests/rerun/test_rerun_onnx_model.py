"""The model of a recorded run as ONNX: the program itself runs to its first step."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

PROGRAM = """
import torch
from torch import nn
class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 2)
    def forward(self, values, mask=None):
        return {"score": self.body(values) * mask}
torch.manual_seed(0)
model = Scorer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.randn(5, 3), mask=torch.ones(5, 2))["score"].pow(2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
torch.save(model.state_dict(), "last.pt")
print(f"weight {model.body.weight[0, 0].item():.6f}")
"""

pytestmark = [
    pytest.mark.process,
    pytest.mark.long,
    # Not `importorskip` at the head: every worker imports all heads.
    pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed"),
]


def test_the_model_has_the_kept_weights_and_no_entry_is_added(project):
    onnx = pytest.importorskip("onnx")
    folder = project.folder
    (folder / "train.py").write_text(PROGRAM)
    (folder / "labbook.toml").write_text('snapshot = "last"\n')
    printed = project("record", "--", sys.executable, "train.py").stdout.split("weight ")[1].split()[0]

    done = project("graph", "last", "--onnx", "--to", "model.onnx")

    model = onnx.load(folder / "model.onnx")
    assert "with the weights of snapshot/last.pt" in done.stderr and "netron" in done.stderr
    assert [one.name for one in model.graph.input] == ["values", "mask"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    weights = [onnx.numpy_helper.to_array(one) for one in model.graph.initializer]
    assert any(f"{array.flat[0]:.6f}" == printed for array in weights if array.size == 6)
    assert len(list(folder.glob("notes/runs/*/*/*/*.md"))) == 1


def test_a_program_without_a_step_has_no_model(project):
    (project.folder / "train.py").write_text("print('loss: 1')\n")
    project("record", "--", sys.executable, "train.py")
    done = project("graph", "last", "--onnx", check=False)
    assert done.returncode != 0 and "before an optimizer step" in done.stderr and "Traceback" not in done.stderr
