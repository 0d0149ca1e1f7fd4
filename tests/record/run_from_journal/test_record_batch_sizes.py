"""The size of the batches of a training is not that of the last batch of an epoch."""

from types import SimpleNamespace

import pytest

from labbook.record.run_from_journal.successive_trainings import _batch_sizes
from labbook.store.journal import ProcessEvents


@pytest.mark.parametrize(
    ("sizes", "usual"),
    [
        ((128, 99), 128),
        ((128, 99, 128, 99), 128),
        ((0, 0, 128, 99), 128),
        ((99,), 99),
        ((), 0),
        ((31, 35, 29, 33), 33),
        ((5, 7, 9), 7),
    ],
)
def test_the_size_of_a_batch(sizes, usual):
    steps = tuple({"k": "step", "opt": 1, "samples": float(size)} for size in sizes)
    other = {"k": "step", "opt": 0, "samples": 500}
    training = SimpleNamespace(process=ProcessEvents("p", (other, *steps)), last_optimizer={"index": 1})
    assert str(_batch_sizes([training])) == f"[{usual}]"
