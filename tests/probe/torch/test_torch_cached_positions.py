"""Positions of tokens that follow a prompt one by one, as the lookup tables of a PyTorch model get them."""

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
        self.words, self.places = torch.nn.Embedding(9, 8), torch.nn.Embedding(32, 8)
        self.out = torch.nn.Linear(8, 9)

    def forward(self, ids, start=0):
        return self.out(self.words(ids) + self.places(torch.arange(start, start + ids.shape[1])))

model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    ids = torch.randint(0, 9, (4, 7))
    loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    token = model(torch.tensor([[3, 3, 1, 8, 2, 1]])).argmax(-1)[:, -1:]
    for step in range(4):
        token = model(token, eval(sys.argv[1])).argmax(-1)
"""


@pytest.mark.parametrize(
    ("start", "offsets"),
    [("6 + step", [0, 0, 0, 0]), ("7 + step", [1, 1, 1, 1]), ("0", [-7, -8, -9]), ("step", [])],
)
def test_positions_of_tokens_after_a_prompt(probed, tmp_path, start, offsets):
    """Tokens that count from 0 are a prompt of one token, and what follows it."""
    program = tmp_path / "generates.py"
    program.write_text(PROGRAM, "utf-8")
    outcome = probed(sys.executable, str(program), start, OMP_NUM_THREADS="1")
    assert outcome.of("probe_error") == []
    rows = outcome.of("evaluation")[-1].get("positions", [])
    assert [offset for _, _, offset in rows] == offsets and len({number for _, number, _ in rows}) <= 1
