"""Trials of workers, and what the process of the program knows of them."""

from __future__ import annotations

import pytest

from labbook.record.run_from_journal.trial_parts import split_trials
from labbook.store.journal import ProcessEvents


def mark(t, state, **fields):
    return {"k": "trial", "t": t, "tool": "ray", "group": "", "number": 3, "state": state, **fields}


@pytest.mark.parametrize(
    ("known", "state"), [((), "complete"), (("pruned",), "pruned"), (("pruned", "failed"), "failed")]
)
def test_a_scheduler_in_the_process_of_the_program_decides_whether_a_trial_is_complete(known, state):
    last = "failed" if "failed" in known else "complete"
    worker = [
        mark(1.0, "", own=True, params={"lr": 0.1}),
        {"k": "step", "t": 1.5, "step": 1},
        mark(2.0, last, own=True),
    ]
    driver = [
        {"k": "hello", "t": 0.0, "pid": 1},
        *(mark(2.5, "pruned", own=False) for _ in known[:1]),
        {"k": "scalars", "t": 3.0, "source": "tensorboard", "step": 1, "values": {"ray/tune/loss": 0.1}},
        {"k": "scalars", "t": 3.0, "source": "tensorboard", "step": 1, "values": {"val_loss": 0.1}},
    ]
    own, trials = split_trials([ProcessEvents("0.jsonl", tuple(driver)), ProcessEvents("1.jsonl", tuple(worker))])
    [trial] = trials
    assert (trial.state, trial.params) == (state, {"lr": 0.1})
    assert [event["values"] for event in own[0].events if event["k"] == "scalars"] == [{"val_loss": 0.1}]
