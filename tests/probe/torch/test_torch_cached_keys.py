"""What becomes of a cache of keys from token to token, as the joins in a PyTorch model show it."""

from __future__ import annotations

import sys

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.forked("torch")]

PROGRAM = """
import sys
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 9)
        self.context = torch.nn.Parameter(torch.randn(1, 2, 8))

    def forward(self, ids, cache=None):
        x = self.words(ids)
        if cache is not None:
            if cache:
                x = torch.cat([cache[0], x], dim=1)
            old, new = cache[:1], x
            cache[:] = [eval(sys.argv[1])]
            x = torch.cat([self.context.expand(len(x), -1, -1), x[:, -1:]], dim=1)[:, -1:] + x.mean(1, keepdim=True)
        return self.out(x)

model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    ids = torch.randint(0, 9, (4, 7))
    loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    cache = []
    model(torch.tensor([[3, 3, 1, 8, 2, 1], [1, 2, 4, 4, 5, 6]]), cache)
    for word in (4, 5, 6, 7):
        model(torch.full((2, 1), word), cache)
"""


@pytest.mark.parametrize(
    ("left", "change"),
    [
        ("new", "kept"),
        ("new.flip(0)", "kept"),  # samples in another order, as in a beam search
        ("new[:, -6:]", "kept"),  # a window
        ("new.roll(1, 1)", "moved"),
        ("old[0] if old else new", "lost"),
        ("new * 2", "other"),
    ],
)
def test_cache_from_token_to_token(probed, tmp_path, left, change):
    """The other join of each forward, with a context of two positions, is no cache."""
    program = tmp_path / "generates.py"
    program.write_text(PROGRAM, "utf-8")
    outcome = probed(sys.executable, str(program), left, OMP_NUM_THREADS="1")
    assert outcome.of("probe_error") == []
    rows = [{k: v for k, v in row.items() if k != "line"} for row in outcome.of("evaluation")[-1].get("caches", [])]
    assert rows == [{change: 3}, {"other": 3}]
