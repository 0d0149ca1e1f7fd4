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
