"""Trainings are compared where one line of the program makes the steps of all."""

import pytest

from labbook.model.run import Run
from labbook.model.series import Series
from labbook.record.run_from_journal.successive_trainings import training_phases
from labbook.record.run_from_journal.training_order import find_trainings
from labbook.report.entry.title import run_title
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


def test_a_best_value_is_not_called_best_twice():
    loss = Series("loss", "probe", (1, 2), (2.0, 1.0))
    rows = [{"number": 0, "params": {"lr": 0.1}}, {"number": 1, "params": {"lr": 0.2}}]
    facts = {"metric": "best_validation_accuracy", "best": 0, "value": 0.97, "rows": rows}
    run = Run("i", "finished", (), "", 0.0, script="a.py", series=(loss,), captured={"trainings": facts})
    assert run_title(run) == "a.py: finished, 2 trainings, best validation_accuracy 0.97 (training 1: lr=0.1)"


@pytest.mark.parametrize(("step", "count"), [(4, 0), (None, 2)], ids=["resumed", "another state"])
def test_a_training_resumes_where_the_event_of_the_last_step_is_written_after_that_of_the_load(step, count):
    state = {"k": "loaded", "what": "model", "matched": 5, **({"step": step} if step else {})}
    events = []
    for at, losses in enumerate(((9.0, 5.0, 2.0, 1.0), (1.0, 0.5, 0.3, 0.1))):
        events.append({"k": "optimizer", "index": at, "trains": at, "line": "train.py:9", "root": "Net", "tensors": 4})
        events += [{"k": "step", "opt": at, "step": n, "loss": loss} for n, loss in enumerate(losses, 1)]
    events.insert(4, state)
    process = ProcessEvents("0.jsonl", tuple({**event, "t": float(t)} for t, event in enumerate(events)))
    assert len(find_trainings([process])) == count


@pytest.mark.parametrize(
    ("values", "best", "title"),
    [
        ((0.91,), 0, "2 trainings, test_acc 0.91"),
        ((0.91, 0.95, 0.9), 0, "2 trainings, best test_acc 0.95"),
        ((0.91, 0.95, 0.9), None, "2 trainings, lowest median loss 0.4 on average (0.3 to 0.5)"),
    ],
    ids=["one result", "search", "folds"],
)
def test_what_a_program_reports_is_the_result_of_its_trainings_before_their_losses(values, best, title):
    test = Series.of_values("test_acc", "text", range(1, len(values) + 1), values, axis="number")
    facts = {"metric": "loss", "rows": [{"number": 0, "params": {}}, {"number": 1, "params": {}}]}
    facts |= {"mean": 0.4, "low": 0.3, "high": 0.5} if best is None else {"best": best, "value": 0.3}
    run = Run("i", "finished", (), "", 0.0, script="a.py", series=(test,), captured={"trainings": facts})
    assert run_title(run) == f"a.py: finished, {title}"
