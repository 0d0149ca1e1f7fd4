"""A run trains bitwise the same with the probe: losses, weights and the state of every random source."""

import pytest
from pytest import approx

PROGRAMS = [
    pytest.param("digits_torch.py", ("--clip", 0.5), marks=pytest.mark.torch),
    pytest.param(
        "digits_torch.py", ("--optimizer", "SGD", "--accumulate", 3), marks=[pytest.mark.torch, pytest.mark.long]
    ),
    pytest.param("digits_paddle.py", ("--clip", 0.5), marks=[pytest.mark.paddle, pytest.mark.long]),
    pytest.param(
        "digits_paddle.py", ("--optimizer", "Momentum", "--minimize", "--accumulate", 2), marks=pytest.mark.paddle
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("program", "arguments"), PROGRAMS)
def test_training_is_bitwise_the_same(run, healthy, program, arguments):
    bare = run(program, *arguments, probe=False, fork="paddle" if "paddle" in program else "torch")
    # PaddlePaddle says so when it is imported, which the fork was not asked to do.
    watched = healthy(run(program, *arguments, PYTHONWARNINGS="ignore:No ccache found"))
    if watched.result != bare.result:
        again = run(program, *arguments, probe=False)
        assert again.result == bare.result, "the program itself is not deterministic here: nothing is said of the probe"
    assert watched.result == bare.result
    assert len(watched.steps()) == 40
    assert watched.err == bare.err


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("digits_torch.py", marks=pytest.mark.torch),
        pytest.param("digits_paddle.py", marks=[pytest.mark.paddle, pytest.mark.long]),
    ],
)
def test_one_more_random_draw_would_be_noticed(run, program):
    options = {"probe": False, "fork": "paddle" if "paddle" in program else "torch"}
    assert run(program, "--steps", 2, **options).result != run(program, "--steps", 2, "--draw", **options).result


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("digits_torch.py", marks=pytest.mark.torch),
        pytest.param("digits_paddle.py", marks=pytest.mark.paddle),
    ],
)
def test_what_was_measured_is_what_the_program_saw(run, healthy, program):
    outcome = healthy(run(program, "--steps", 25, fork="paddle" if "paddle" in program else "torch"))
    steps = outcome.steps()
    assert [event["step"] for event in steps] == list(range(1, 26))
    assert [event["loss"] for event in steps] == outcome.result["losses"]
    assert [event["grad_norm"] for event in steps] == approx(outcome.result["norms"], rel=1e-5)
    assert [event["lr"] for event in steps] == [[approx(1e-3 * 0.5 ** (step // 10))] for step in range(25)]
    assert all(event["dt"] > 0 for event in steps[1:]) and "dt" not in steps[0]
    assert all(event["n"] == 1 and event["backwards"] == 1 for event in steps)
    bye = outcome.of("bye")[0]
    assert bye["steps"] == 25 and bye["backwards"] == 25 and bye["lost_events"] == 0
