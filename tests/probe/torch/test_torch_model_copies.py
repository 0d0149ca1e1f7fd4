"""Copies of a trained model: whether they are evaluated with the statistics of batch norm that they were made with."""

from types import SimpleNamespace

import pytest

from labbook.probe.torch.model_copies import ModelCopies
from labbook.probe.torch.tensor_stats import TensorStats

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("trained", "copied", "stale"), [(1.0, 0.0, 1), (1.0, 0.9, 0), (0.0, 0.0, 0)])
def test_the_statistics_of_a_copy_are_compared_with_those_of_the_trained_model(trained, copied, stale):
    torch = pytest.importorskip("torch")
    models = [torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3)) for _ in range(2)]
    root = SimpleNamespace(module=lambda: models[0], called=1)
    modes = SimpleNamespace(is_possible=lambda: True)
    inspector = SimpleNamespace(stats=TensorStats(torch), without_modes=modes, followed_models=lambda: [root])
    copies = ModelCopies(torch, inspector)
    one = SimpleNamespace(norm=copies._first_running_mean(models[1]))
    models[0][1].running_mean.add_(trained)
    models[1][1].running_mean.add_(copied)
    assert copies._has_stale_norm(one, models[1]) == stale
    assert copies._first_running_mean(models[0][0]) is None
