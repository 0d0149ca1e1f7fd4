"""Reading files, folders and notebooks; the command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from labbook.commands.review import command
from labbook.errors import UsageError
from labbook.review.reviewer import review, review_files

LOOP = """import torch
net = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    net(torch.randn(4, 2)).mean().backward()
    opt.step()
"""


def run(*arguments):
    return CliRunner().invoke(command, list(arguments))


def serious(done):
    return [one.rule for one in done.violations if one.severity != "note"]


def notebook(path: Path, *cells: object) -> Path:
    made = [{"cell_type": "code", "source": cell} for cell in cells]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "loss.backward("}, *made]}))
    return path


def test_review_executes_no_code(tmp_path):
    (tmp_path / "a.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nimport torch\nraise SystemExit(3)\n" + LOOP)
    before = set(sys.modules)

    assert serious(review([tmp_path])) == ["missing-zero-grad"]
    assert not (tmp_path / "ran").exists()
    assert not {"torch", "paddle"} & (set(sys.modules) - before)


def test_a_violation_names_the_notebook_cell(tmp_path):
    lines = LOOP.splitlines(keepends=True)
    path = notebook(tmp_path / "a.ipynb", ["%matplotlib inline\n", *lines[:3]], "!ls\n" + "".join(lines[3:]))

    found = review([path]).violations[0]

    assert (found.rule, found.cell, found.line) == ("missing-zero-grad", 3, 3)
    assert found.place.endswith("a.ipynb[3]:3")


def test_a_broken_cell_is_reported_and_skipped(tmp_path):
    path = notebook(tmp_path / "a.ipynb", "print 'two'", LOOP)

    done = review([path])

    assert serious(done) == ["missing-zero-grad"]
    assert "a.ipynb[2]:1" in done.problems[0]
    assert "不是有效的 Python 3 代码" in review([path], "zh").problems[0]


@pytest.mark.parametrize(
    "raw",
    [b"print 'two'\n", b"def f(:\n", b"\x00\x01", b"x = " + b"(" * 5000, b"{}"],
    ids=["py2", "syntax", "nul", "deep", "json"],
)
def test_unparsable_files_are_reported_and_skipped(tmp_path, raw):
    (tmp_path / "bad.py").write_bytes(raw)
    (tmp_path / "good.py").write_text(LOOP)
    (tmp_path / "bad.ipynb").write_bytes(raw)

    done = review([tmp_path])

    assert serious(done) == ["missing-zero-grad"]
    assert any("bad.ipynb" in problem for problem in done.problems)


def test_files_in_the_same_folder_are_followed_only_if_imported(tmp_path):
    (tmp_path / "other.py").write_text("def clear(opt):\n    opt.zero_grad()\n")
    (tmp_path / "a.py").write_text(
        LOOP.replace("    opt.step()", "    opt.step()\n    clear(opt)").replace(
            "import torch", "import torch\nfrom other import clear"
        )
    )
    (tmp_path / "b.py").write_text(LOOP)

    assert [Path(one.file).name for one in review([tmp_path]).violations if one.severity == "error"] == ["b.py"]


def test_recursive_code_is_reviewed(tmp_path):
    (tmp_path / "a.py").write_text(
        "import torch\nx = x\ny = z\nz = y\ndef f(a):\n    g(a).backward()\ndef g(a):\n    f(a)\n    return g(g)\n"
        "class A(A): pass\nfor i in x:\n    f(y)\n    z.backward()\n    y.step()\n"
    )

    assert review([tmp_path]).files == 1


def test_review_stops_at_the_time_limit(tmp_path):
    (tmp_path / "a.py").write_text(LOOP)

    assert review_files([tmp_path / "a.py"], seconds=-1.0).violations == ()


def test_a_missing_path_is_an_error():
    with pytest.raises(UsageError, match="there is no file or folder"):
        review([Path("not/there")])


def test_review_command(tmp_path):
    (tmp_path / "a.py").write_text(LOOP)

    shown = run(str(tmp_path), "--language", "en")
    data = json.loads(run(str(tmp_path), "--json").stdout)

    assert shown.exit_code == 0 and "a.py:5" in shown.output and "grad_not_cleared" in shown.output
    assert (data[0]["line"], data[0]["symptom"], data[0]["severity"]) == (5, "grad_not_cleared", "error")
    assert data[0]["source"].endswith(".backward()")
    assert run(str(tmp_path), "--fail-on", "error").exit_code == 1
    assert "清零" in run(str(tmp_path), "--language", "zh").output
    assert len(json.loads(run("--rules", "--json").stdout)) > 30


def test_fail_on_compares_severities(tmp_path):
    (tmp_path / "a.py").write_text(LOOP.replace("    opt.step()", "    opt.step()\n    opt.zero_grad()"))

    assert run(str(tmp_path), "--fail-on", "warning").exit_code == 0
    assert run(str(tmp_path), "--fail-on", "note").exit_code == 1


MODEL = """import functools, torch
from dataclasses import dataclass
from types import SimpleNamespace
from torch import nn
def build():
    return nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
"""


@pytest.mark.parametrize(
    ("setup", "model"),
    [
        ('kit = {"net": build()}', 'kit["net"]'),
        ('kit = dict(opt=None)\nkit["net"] = build()', 'kit["net"]'),
        ("kit = SimpleNamespace(net=build())", "kit.net"),
        ("class Kit:\n    def __init__(self, net):\n        self.net = net\nkit = Kit(build())", "kit.net"),
        ("@dataclass\nclass Kit:\n    net: nn.Module\n    lr: float = 0.1\nkit = Kit(build())", "kit.net"),
        ("def make():\n    net = build()\n    return net, 0.1\nnet, lr = make()", "net"),
        ('NETS = {"mlp": functools.partial(nn.Softmax, dim=1)}\nnet = NETS["mlp"]()', "net"),
        (
            "def train(net):\n    net = net.to('cpu')\n    criterion(net(torch.ones(4)), y)\ntrain(build())",
            "nn.Linear(4, 3)",
        ),
    ],
)
def test_values_are_followed_through_what_holds_them(tmp_path, setup, model):
    """A model in a dictionary, an object or a tuple is the same model."""
    path = tmp_path / "train.py"
    path.write_text(
        f"{MODEL}{setup}\ncriterion = nn.CrossEntropyLoss()\nloss = criterion({model}(torch.randn(2, 4)), y)\n"
    )
    assert [found.rule for found in review_files([path]).violations] == ["softmax-before-loss"]


@pytest.mark.parametrize(
    "holder",
    ['kit = {"net": build()}\nkit.update(net=nn.Linear(4, 3))', 'kit = {"net": build()}\nkit["net"] = nn.Linear(4, 3)'],
)
def test_a_value_that_is_replaced_is_unknown(tmp_path, holder):
    path = tmp_path / "train.py"
    path.write_text(f'{MODEL}{holder}\nloss = nn.CrossEntropyLoss()(kit["net"](torch.randn(2, 4)), y)\n')
    assert not review_files([path]).violations


def test_a_parameter_is_followed_to_a_call_under_another_name(tmp_path):
    (tmp_path / "scores.py").write_text(
        "import torch\ndef evaluate(net, batches):\n    with torch.no_grad():\n"
        "        for x in batches:\n            print(net(x).mean())\n"
    )
    (tmp_path / "train.py").write_text(
        "import torch\nfrom torch import nn\nfrom scores import evaluate as run_evaluation\n"
        "net = nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.5))\nopt = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for x in torch.randn(9, 8, 4):\n    opt.zero_grad()\n    net(x).mean().backward()\n    opt.step()\n"
        "run_evaluation(net, torch.randn(3, 8, 4))\n"
    )
    assert serious(review([tmp_path])) == ["never-eval"]
