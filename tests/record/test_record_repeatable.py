"""The same seeded run has the same checklist, however often it is recorded and whatever else the machine does."""

import re
import shutil
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"
MEASURED = {"probe_overhead", "dataloader_bottleneck", "memory_graph_retained"}
"""Checks that measure time or memory: their values differ from run to run."""


def checklist(run):
    """Verdicts, sentences without numbers (how many steps are inspected depends on a budget), and what was trained."""
    rows = {
        row["id"]: (row["verdict"], re.sub(r"\d+", "#", row["observed"]))
        for row in run["checks"]
        if row["id"] not in MEASURED
    }
    return rows, run["verdict"], [run["metrics"][name] for name in ("loss", "grad_norm", "lr")]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "times"),
    [
        pytest.param("digits_torch.py", 10, marks=[pytest.mark.torch, pytest.mark.long]),
        pytest.param("digits_paddle.py", 10, marks=[pytest.mark.paddle, pytest.mark.long]),
    ],
)
def test_a_seeded_run_has_one_checklist(project, name, times):
    for file in (name, "digits_data.py"):
        shutil.copy(PROGRAMS / file, project.folder / file)
    found = []
    for _ in range(times):
        project.record(sys.executable, name, "--steps", "60")
        found.append(checklist(project.run()))
    assert len(found[0][0]) > 10
    for other in found[1:]:
        assert other == found[0]
