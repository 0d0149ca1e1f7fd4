"""The size of the batches of a training is not that of the last batch of an epoch."""

from types import SimpleNamespace

import pytest

from labbook.record.run_from_journal.successive_trainings import _batch_sizes, _data_sizes
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


def test_the_size_of_data_that_are_fewer_than_a_batch_is_none_of_a_batch():
    """As in a learning curve, whose trainings have one batch size."""
    events = [{"k": "loader", "batch_size": 64}]
    events += [{"k": "step", "opt": opt, "samples": size} for opt, size in ((0, 40), (1, 64), (1, 22))]
    process = ProcessEvents("p", tuple(events))
    trainings = [SimpleNamespace(process=process, last_optimizer={"index": index}) for index in (0, 1)]
    assert _batch_sizes(trainings) == [0, 64]


def test_the_data_of_a_training_are_those_of_the_loader_before_its_first_step():
    """As in active learning, whose rounds have more and more labels: they are no repeats."""
    loaders = [(1.0, 60), (2.5, 400), (3.0, 120), (4.5, 400)]  # the second and fourth ones test
    process = ProcessEvents("p", tuple({"k": "loader", "t": t, "length": length} for t, length in loaders))
    trainings = [SimpleNamespace(process=process, begin=begin) for begin in (1.1, 3.1)]
    assert _data_sizes(trainings) == [60, 120]
    assert _data_sizes([*trainings, SimpleNamespace(process=process, begin=4.0)])[-1] == 0
