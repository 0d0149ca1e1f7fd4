"""Trainings are compared where one line of the program makes the steps of all."""

import pytest

from labbook.record.run_from_journal.successive_trainings import training_phases
from labbook.record.run_from_journal.training_order import find_trainings
from labbook.store.journal import ProcessEvents


@pytest.mark.parametrize(
    ("models", "lines", "count"),
    [
        ((0, 1), ("train.py:9", "train.py:9"), 2),  # folds
        ((0, 1), ("train.py:9", "train.py:20"), 0),  # a teacher and its student
        ((0, 1), ("In[3]:9", "In[4]:9"), 2),  # a cell that runs again
        ((0, 0, 1, 1), ("train.py:9", "train.py:20") * 2, 2),  # a pretraining and fine-tuning for each fold
    ],
)
def test_trainings_that_one_line_steps_are_compared(models, lines, count):
    events = []
    for at, (model, line) in enumerate(zip(models, lines, strict=True)):
        made = {"k": "optimizer", "index": at, "trains": model, "line": line, "root": "Net", "tensors": 4}
        events += [made, {"k": "step", "opt": at, "step": 1}, {"k": "step", "opt": at, "step": 2}]
    process = ProcessEvents("0.jsonl", tuple({**event, "t": float(t)} for t, event in enumerate(events)))
    assert len(find_trainings([process])) == count
    assert training_phases([process])["several"]
