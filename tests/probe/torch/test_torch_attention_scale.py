"""The factor of attention scores, as the autograd graph shows it, in the ways in which programs write it."""

import math

import pytest


@pytest.mark.parametrize(
    ("scores", "factor"),
    [
        (lambda q, k: (q @ k.mT / math.sqrt(8)).masked_fill(torch.eye(10).bool(), -1e9), 8**-0.5),
        (lambda q, k: torch.matmul(q, k.transpose(-1, -2)) * 8**-0.5 + torch.zeros(10, 10), 8**-0.5),
        (lambda q, k: torch.einsum("bhid,bhjd->bhij", q * 0.5, k) / 64, 1 / 128),
        (lambda q, k: torch.where(torch.eye(10).bool(), torch.tensor(-1e9), (k @ q.mT) * 8), 8.0),
        (lambda q, k: q @ k.mT / torch.sqrt(torch.tensor([8.0])), 8**-0.5),
        (lambda q, k: q @ k.mT, 1.0),
        (lambda q, k: q @ k.mT * torch.nn.Parameter(torch.tensor(9.0)), None),
        (lambda q, k: torch.nn.functional.normalize(q, dim=-1) @ k.mT * 10, None),
        (lambda q, k: q @ k.mT * 9 + torch.nn.Parameter(torch.zeros(10, 10)), None),
        (lambda q, k: q.cumsum(-1) @ k.mT * 9, None),
        (lambda q, k: (q @ k.mT * 9).detach(), None),
    ],
)
def test_factor_of_attention_scores(scores, factor):
    global torch
    torch = pytest.importorskip("torch")
    from labbook.probe.torch.attention_scale import score_scale

    projected = torch.nn.Linear(32, 64)(torch.randn(2, 10, 32)).chunk(2, -1)
    query, key = (part.view(2, 10, 4, 8).transpose(1, 2) for part in projected)
    found = score_scale(scores(query, key))
    assert found == (None if factor is None else [pytest.approx(factor, rel=1e-5), 8])
