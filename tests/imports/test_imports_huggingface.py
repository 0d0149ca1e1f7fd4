"""The log of a trainer of Hugging Face is read from its output folder or a checkpoint."""

from __future__ import annotations

import json

from labbook.imports.formats import FORMATS
from labbook.imports.imported_run import UNREADABLE


def test_the_log_of_a_trainer_is_that_of_its_last_checkpoint(tmp_path):
    rows = [{"epoch": s / 10, "loss": 1 / s, "learning_rate": 0.1, "step": s} for s in range(1, 21)]
    rows += [{"epoch": 2.0, "eval_loss": 0.5, "step": 20}, {"train_runtime": 30.0, "train_loss": 0.2, "step": 20}]
    for steps in (9, 20):
        folder = tmp_path / "out" / f"checkpoint-{steps}"
        folder.mkdir(parents=True)
        log = [row for row in rows if row["step"] <= steps]
        state = {"global_step": steps, "train_batch_size": 8, "log_history": log, "trial_params": {"lr": 0.1}}
        (folder / "trainer_state.json").write_text(json.dumps(state))
    # As the program saves it at the end; the checkpoint of the same step lacks the evaluation after it.
    (tmp_path / "out" / "trainer_state.json").write_text(json.dumps(state))
    (folder / "trainer_state.json").write_text(json.dumps(state | {"log_history": log[:20]}))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "trainer_state.json").write_text('{"log_history": [')

    damaged, run = FORMATS["huggingface"].runs(tmp_path)
    (alone,) = FORMATS["huggingface"].runs(tmp_path / "out" / "checkpoint-20" / "trainer_state.json")

    assert {each.name: (each.steps, each.values) for each in run.series if "loss" in each.name} == {
        "eval_loss": ((20,), (0.5,)),
        "loss": (tuple(range(1, 21)), tuple(1 / s for s in range(1, 21))),
        "train_loss": ((20,), (0.2,)),
    }
    assert (run.name, run.params, run.ended - run.started) == ("out", {"train_batch_size": 8, "lr": 0.1}, 30)
    assert run.identity == alone.identity
    assert damaged.unobserved[-1] == ("trainer_state.json", UNREADABLE)
