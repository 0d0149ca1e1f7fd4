"""The pytest plugin in sessions of its own: plain, with xdist, with and without `--labbook`."""

from __future__ import annotations

import re
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.process

INSTALLED = any(point.value == "labbook.pytest_plugin" for point in entry_points(group="pytest11"))
"""Whether the installed labbook, which may be older than the code, has the entry point."""

TESTS = """
import pytest
import torch
from torch import nn

class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x

def batch():
    return torch.randn(6, 4), torch.randint(0, 3, (6,))

def test_right_gradient(gradcheck):
    assert gradcheck(lambda x: x * x, torch.randn(3)).ok

def test_wrong_gradient(gradcheck):
    gradcheck(Broken.apply, torch.randn(3))

def test_good_step(check_training_step):
    model = nn.Linear(4, 3)
    check_training_step(model, batch(), nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=0.1))

def test_frozen_step(check_training_step):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    check_training_step(model, batch(), nn.CrossEntropyLoss(), optimizer)

def test_raising_step(check_training_step):
    check_training_step(nn.Sequential(nn.Linear(4, 8), nn.Linear(9, 3)), batch(), nn.CrossEntropyLoss())

def test_batch_is_learned(overfit_one_batch):
    torch.manual_seed(0)
    assert overfit_one_batch(nn.Linear(4, 3), batch(), nn.CrossEntropyLoss()).verdict != "fail"

def test_plain_failure():
    nn.Linear(4, 3)(torch.randn(2, 5))

def test_own_assertion():
    assert nn.Linear(4, 3)(torch.randn(2, 4)).shape == (4, 3)

@pytest.mark.xfail
def test_expected():
    nn.Linear(4, 3)(torch.randn(2, 5))

def test_skipped():
    pytest.skip("not today")

@pytest.fixture
def broken():
    nn.Linear(4, 3)(torch.randn(2, 5))

def test_broken_fixture(broken):
    pass
"""
OUTCOMES = {"passed": 3, "failed": 5, "errors": 1, "skipped": 1, "xfailed": 1}


@pytest.fixture
def session(pytester, monkeypatch):
    """Runs pytest in a process of its own on a file of tests."""
    pytester.makepyfile(test_model=TESTS)
    monkeypatch.setenv("PYTHONPATH", str(pytest.importorskip("labbook").__path__[0].rpartition("/")[0]))

    def run(*arguments: str):
        loaded = [] if INSTALLED else ["-p", "labbook.pytest_plugin"]
        return pytester.runpytest_subprocess(*loaded, "-p", "no:cacheprovider", *arguments)

    return run


@pytest.mark.torch
@pytest.mark.parametrize("arguments", [[], pytest.param(["-n", "2"], marks=pytest.mark.long)], ids=["plain", "xdist"])
def test_every_known_failure_is_diagnosed(session, arguments):
    done = session("--labbook", "--show-capture=no", *arguments)
    done.assert_outcomes(**OUTCOMES)
    out = done.stdout.str()
    # Wrong shape: in a test, in a fixture and inside the check of a step; the row of the optimizer.
    assert out.count("labbook: cause and advice") == 4
    assert out.count("(shape_mismatch_linear, certain)") == 3
    assert "cause: " in out and "fix: " in out
    assert re.search(r"test_model.py:[0-9]+  nn.Linear\(4, 3\)\(torch.randn\(2, 5\)\)", out)
    # The line of the check inside labbook is not the user's.
    assert not re.search(r"batches.py:[0-9]+  ", out)
    assert "optimizer holds the model's parameters" in out and "The gradient for input 0 is wrong" in out


LIGHT = """
import sys
import pytest

def test_passes(gradcheck, check_training_step, overfit_one_batch):
    heavy = ("labbook.checks", "labbook.findings", "labbook.store")
    assert not [name for name in sys.modules if name.startswith(heavy)]

def test_fails():
    open("missing.csv")
"""


@pytest.mark.parametrize("on", [True, False])
def test_a_setting_switches_it_on_and_nothing_heavy_is_loaded(pytester, session, on):
    pytester.makeini(f"[pytest]\nlabbook = {str(on).lower()}\nfilterwarnings = error\n")
    pytester.makepyfile(test_model=LIGHT)
    done = session()
    done.assert_outcomes(passed=1, failed=1)
    assert done.ret == 1 and ("(file_not_found, likely)" in done.stdout.str()) is on
