"""The loss is called what the program calls it."""

import os
import sys
from types import SimpleNamespace

import pytest

from labbook.probe.training.call_site import _parse_backward_expression, line_of, place_of


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("/tmp/ipykernel_14405/454074984.py", "In[6]"),
        ("/tmp/ipykernel_14405/other.py", "/tmp/ipykernel_14405/other.py"),
        ("/home/me/skipy/train.py", "/home/me/skipy/train.py"),
        ("train.py", os.path.abspath("train.py")),
        ("<string>", "<string>"),
    ],
)
def test_a_line_of_a_notebook_is_named_by_its_cell(monkeypatch, file, path):
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={"/tmp/ipykernel_14405/454074984.py": 6}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    names = {}
    exec(compile("import sys\nframe = sys._getframe()\n", file, "exec"), names)
    assert place_of(names["frame"])["file"] == path
    assert line_of(names["frame"]) == f"{os.path.basename(path)}:2"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("loss_g.backward()", "loss_g"),
        ("self.loss_g.backward(retain_graph=True)", "loss_g"),
        ("scaler.scale(loss_g).backward()", "loss_g"),
        ("scaler.scale(loss_g / steps).backward()", "loss_g"),
        ("(loss_g / 4).backward()", "loss_g"),
        ("self.accelerator.backward(loss_g)", "loss_g"),
        ("torch.autograd.backward(loss_g)", "loss_g"),
        ("self.manual_backward(loss_g)", "loss_g"),
        ("loss_g.mean().backward()", "loss_g"),
        ("losses['mask'].backward()", "mask"),
        ("if step: loss_g.backward()", "loss_g"),
        ("(loss_a + loss_b).backward()", ""),
        ("criterion(model(x), y).backward()", ""),
        ("criterion(output).backward()", ""),
        ("self.criterion(output).backward()", ""),
        ("losses[0].backward()", ""),
        ("for loss in losses: a.backward(); b.backward()", ""),
        ("trainer.fit(model)", ""),
        ("if loss.backward() is None:", ""),
        ("", ""),
    ],
)
def test_the_name_of_what_backward_is_called_on(line, name):
    assert _parse_backward_expression(line) == name
