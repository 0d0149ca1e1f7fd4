"""Compilation must not notice the probe: as many graphs, breaks and recompilations, the same losses, a quiet stderr.

`tests/probe/inspection/test_inspection_model_unchanged.py` compiles a model and a whole step in each `make test`.
"""

import re

import pytest
from pytest import approx

pytestmark = [pytest.mark.torch, pytest.mark.slow]

CASES = ("eager", "compiled_model", "compiled_step", "compiled_update", "compiled_clip", "compiled_autocast")


@pytest.fixture(scope="module")
def both(run):
    return run("compiled_torch.py", *CASES, probe=False), run("compiled_torch.py", *CASES)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_graphs_are_those_of_the_bare_program(both, name, healthy):
    bare, watched = both
    healthy(watched)
    counted, expected = watched.result[name], bare.result[name]
    frames, bare_frames = counted.pop("frames"), expected.pop("frames")
    assert counted == expected
    assert frames.get("total", 0) <= bare_frames.get("total", 0)


@pytest.mark.long
def test_nothing_more_is_printed(both):
    bare, watched = both
    times = re.compile(r"^[A-Z]\d{4} [\d:.]+ \d+ ", re.MULTILINE)
    assert times.sub("", watched.err) == times.sub("", bare.err)


@pytest.mark.long
def test_a_compiled_model_is_told(run):
    outcome = run("compiled_torch.py", "compiled_model", fork="torch")
    assert outcome.merged()["mode"] == "compiled"
    assert outcome.merged()["model"] == "OptimizedModule(Sequential)"
    assert [event["loss"] for event in outcome.steps()] == approx(outcome.result["compiled_model"]["losses"])


def test_what_runs_inside_a_compiled_update_is_not_claimed(run):
    program = """
import torch
w = torch.nn.Parameter(torch.ones(3))
o = torch.optim.SGD([w], lr=0.1)
step = torch.compile(o.step, backend="eager")
for i in range(80):
    o.zero_grad(); loss = (w * i).sum(); loss.backward(); step()
"""
    outcome = run(program, fork="torch")
    assert outcome.of("optimizer")[0]["type"].startswith("none seen")
    assert len(outcome.of("step")) == 80
    assert [event["step"] for event in outcome.of("step")] == list(range(1, 81))
    assert any("optimizer steps" in event["what"] for event in outcome.of("unobserved"))
