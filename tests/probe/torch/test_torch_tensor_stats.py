"""Numbers of a tensor that are found the fast way are those of PyTorch's own functions."""

from __future__ import annotations

import pytest

from labbook.probe.torch.module_calls import ModuleCalls
from labbook.probe.torch.module_outputs import ModuleOutputs
from labbook.probe.torch.parameter_stats import ParameterStats
from labbook.probe.torch.tensor_stats import MOST, TensorStats, WithoutModes

SHAPES = [(7,), (40, 300), (4, 8, 30, 30)]


@pytest.fixture(scope="module", autouse=True)
def framework() -> None:
    """Imported when the first of these tests runs: every worker collects all files."""
    global torch
    torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def stats(framework):
    return TensorStats(torch)


def numbers(shape, scale=1.0, shift=0.0):
    drawn = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64)
    return (drawn * scale + shift).to(torch.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e-3, 100.0), (1e-12, 0.0), (1e18, 0.0)])
def test_mean_and_deviation_are_those_of_the_exact_numbers(stats, shape, scale, shift):
    sample = numbers(shape, scale, shift).reshape(-1)
    mean, std = stats.moments(sample)
    exact = sample.double()
    assert std == pytest.approx(exact.std(correction=0).item(), rel=2e-3)
    assert mean == pytest.approx(exact.mean().item(), rel=1e-5, abs=1e-5 * scale)


def test_squares_that_overflow_are_not_told_as_an_infinite_deviation(stats):
    sample = torch.full((4096,), 1e18)
    sample[::2] = -1e18
    assert stats.moments(sample)[1] == pytest.approx(1e18, rel=1e-3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_value_that_is_not_finite_is_told_and_the_others_are_judged_without_it(stats, shape, bad):
    tensor = numbers(shape)
    tensor.view(-1)[3] = bad
    seen = stats.inspect(tensor)
    kept = tensor[torch.isfinite(tensor)]
    assert (seen["bad"], seen["nan"]) == (1, bad != bad)
    assert seen["max"] == pytest.approx(kept.max().item())
    # Of larger tensors the deviation is that of a sample, whose own error is 1 in the root of twice its size.
    error = 1e-3 if tensor.numel() <= MOST else 3 / (2 * MOST) ** 0.5
    assert seen["std"] == pytest.approx(kept.std(correction=0).item(), rel=error)


@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", "int64", "uint8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_extremes_are_exact_for_every_kind_of_number(stats, shape, kind):
    tensor = (numbers(shape) * 20 + 50).to(getattr(torch, kind))
    seen = stats.inspect(tensor.transpose(0, -1))
    assert seen["min"] == pytest.approx(float(tensor.min().item()), rel=1e-6)
    assert seen["max"] == pytest.approx(float(tensor.max().item()), rel=1e-6)


@pytest.mark.parametrize(("shape", "unit"), [((40, 30), 1), ((6, 30, 5, 5), 1), ((6, 7, 30), 2)])
def test_dead_units_are_those_without_a_value_above_zero(stats, shape, unit):
    looks = ModuleOutputs(torch, stats, WithoutModes(torch), pytest.fail, float, ModuleCalls())
    tensor = numbers(shape).relu()
    tensor.transpose(0, unit)[:12] = 0.0
    assert looks.dead("relu", tensor) == {"dead": 12 / 30, "dead_n": shape[0]}


def test_how_much_samples_differ_is_the_share_of_their_variance(stats):
    looks = ModuleOutputs(torch, stats, WithoutModes(torch), pytest.fail, float, ModuleCalls())
    rows = numbers((32, 256)) + torch.linspace(-3.0, 3.0, 256)
    spread, square = rows.var(0, correction=0).mean().item(), rows.mean(0).square().mean().item()
    assert looks.batch_variation(rows) == pytest.approx(spread / (spread + square), rel=1e-4)
    assert looks.batch_variation(torch.ones(4, 6)) == 0.0
    rows[0, 0] = float("inf")
    assert looks.batch_variation(rows) is None


def test_a_subclass_of_the_program_is_read_without_its_code(stats):
    """It slices by code of its own, as the tensors of MONAI do."""

    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise AssertionError(f"{func} of the program ran")

    with torch._C.DisableTorchFunction():
        loud = numbers((8, 3)).as_subclass(Loud)
    with WithoutModes(torch):
        assert stats.inspect(loud)["shape"] == [8, 3] and len(stats.numbers(loud[:2], 6)) == 6


def test_nan_in_a_gradient_is_no_zero(stats):
    weight = torch.nn.Parameter(torch.ones(4, 4))
    weight.grad = torch.full((4, 4), float("nan"))
    weight.grad[0, 0] = 0.0
    seen = ParameterStats(torch, stats, WithoutModes(torch), None)
    seen.inspect_gradients(torch.optim.SGD([weight], lr=0.1), {}, closure=False)
    assert [(row["g_bad"], row["g_zero"]) for row in seen._gradient_fields] == [(15, 1 / 16)]
