"""A model fails by a wrong width, is fixed and confirmed; the same mistake in another script is shown that fix."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

DIGITS = Path(__file__).parents[1] / "programs" / "digits_data.py"

PROGRAM = """
import torch
from digits_data import load_digits
from torch import nn

images, labels = load_digits()
x = torch.tensor(images / 16.0, dtype=torch.float32)
y = torch.tensor(labels)
model = nn.Sequential(nn.Linear(64, {made}), nn.ReLU(), nn.Linear({width}, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.train()
for start in range(0, 320, 32):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x[start : start + 32]), y[start : start + 32])
    loss.backward()
    optimizer.step()
"""


@pytest.mark.long  # three trainings; `tests/commands/test_commands_fix.py` has the same flow without a framework
def test_a_fix_is_proposed_confirmed_found_and_shown_again(project, git):
    shutil.copy(DIGITS, project.folder)
    script = project.folder / "train.py"
    script.write_text(PROGRAM.format(made=48, width=32))
    crash = project.record(sys.executable, "train.py", check=False)
    assert crash.returncode == 1 and "shape_mismatch_linear" in crash.stderr
    failed = project.run()["id"]

    script.write_text(PROGRAM.format(made=48, width=48))
    done = project.record(sys.executable, "train.py")
    cured = project.run()["id"]
    assert f"may have fixed {failed}" in done.stderr and "nn.Linear(48, 10)" in done.stderr
    assert f"labbook fix {failed}" in project.entry()

    said = project("fix", "last").stdout
    assert failed in said and "nn.Linear(48, 10)" in said and "committed as" in said
    files = git(project.folder, "show", "--name-only", "--format=", "labbook").splitlines()
    assert sorted(name.rsplit("/", 1)[-1] for name in files) == [
        f"{failed}.md", f"{cured}.md", "shape_mismatch_linear.md"
    ]  # fmt: skip
    assert project.run(failed)["fix"] == cured

    (project.folder / "other.py").write_text(PROGRAM.format(made=24, width=16))
    again = project.record(sys.executable, "other.py", check=False)
    assert failed in again.stderr and "nn.Linear(48, 10)" in again.stderr

    pasted = f'  File "/elsewhere/train.py", line 99, in <module>\n{_last_lines(crash.stderr)}'
    for question in (pasted, "形状不匹配", "mat1 and mat2 shapes cannot be multiplied (7x9 and 5x3)"):
        (first, *_) = json.loads(project("search", question, "--json").stdout)
        assert failed in first["path"] and "nn.Linear(48, 10)" in first["fix_text"], question
        assert first["fix"] == cured and first["symptom"] == "shape_mismatch_linear" and first["held"] == 0


def _last_lines(output):
    """The traceback of the program, from the line below its first frame."""
    lines = output.splitlines()
    start = next(n for n, line in enumerate(lines) if "train.py" in line and "File" in line)
    end = next(n for n, line in enumerate(lines) if line.startswith("RuntimeError"))
    return "\n".join(lines[start + 1 : end + 1])
