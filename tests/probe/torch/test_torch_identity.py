"""Training is bitwise the same at every level, and programs of every kind run as they would alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parents[2] / "programs"
pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.forked("torch")]


def last(output):
    return json.loads(output.stdout.strip().splitlines()[-1] if hasattr(output, "stdout") else output)


MORE_MODES = ("workers", "scaler", "amp", "several", "lbfgs", "sqrt")


@pytest.mark.parametrize("mode", ["plain", "nan", *(pytest.param(mode, marks=pytest.mark.long) for mode in MORE_MODES)])
def test_losses_weights_gradients_and_random_states_are_bitwise_the_same(probed, mode):
    command = (sys.executable, str(PROGRAMS / "health_torch_identity.py"), mode)
    one = last(probed.plain(*command, OMP_NUM_THREADS="1"))
    if mode == "plain":
        again = last(probed.plain(*command, OMP_NUM_THREADS="1"))
        assert one == again, "the program itself is not deterministic here: nothing can be said of the probe"
    for level in ("light", "normal", "deep") if mode == "nan" else ("deep",):
        probed.settings["level"] = level
        outcome = probed(*command, OMP_NUM_THREADS="1")
        assert last(outcome.out.strip().splitlines()[-1]) == one, level
        assert outcome.of("probe_error") == []
        assert len(outcome.of("flight")) == (mode in ("nan", "sqrt"))
    if mode in ("nan", "sqrt"):
        assert outcome.of("flight")[0]["finding"] in ("forward", "backward"), "the replay ran"


@pytest.mark.parametrize("mode", [pytest.param("draw", marks=pytest.mark.long), "draw_once"])
def test_one_more_random_draw_would_be_noticed(probed, mode):
    program = str(PROGRAMS / "health_torch_identity.py")
    plain = last(probed.plain(sys.executable, program, "plain"))
    drawn = last(probed.plain(sys.executable, program, mode))
    assert plain[3] != drawn[3]
    assert plain[2] != drawn[2]


@pytest.mark.parametrize("program", ["health_torch_hostile.py", "health_torch_kinds.py"])
@pytest.mark.parametrize(
    ("chunk", "level"),
    [
        (0, "deep"),
        *(
            pytest.param(chunk, level, marks=pytest.mark.long)
            for chunk, level in [*((n, "deep") for n in (1, 2, 3)), (0, "normal")]
        ),
    ],
)
def test_programs_of_every_kind_run_as_alone(probed, program, chunk, level):
    command = (sys.executable, str(PROGRAMS / program), str(chunk))
    bare = last(probed.plain(*command, OMP_NUM_THREADS="1"))
    probed.settings["level"] = level
    outcome = probed(*command, OMP_NUM_THREADS="1")
    watched = last(outcome.out.strip().splitlines()[-1])
    assert watched == bare
    assert not [name for name, result in bare.items() if isinstance(result, str) and "Error" in result]
    assert outcome.of("probe_error") == []
    assert outcome.of("tensors")
