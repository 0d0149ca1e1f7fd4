"""A smaller batch that fails shows a batch size that is a constant; each condition of a page can be met."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import labbook.diagnosis
from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.model.run import CaughtException, Process, Run
from labbook.model.signals import Signals
from labbook.store.toml_parser import parse_toml

RUN = Run("i", "failed", ("python", "a.py"), "/w", 0.0, ended=12.0, script="a.py")
WIDTH = "mat1 and mat2 shapes cannot be multiplied (4x8 and 10x2)"
LAST = {"shuffle": True, "length": 500, "batch_size": 32}


@pytest.mark.parametrize(
    ("shape", "loader", "steps", "is_smaller"),
    [
        ((20, 2, 8, 8), {}, 15, True),
        ((32, 2, 8, 8), {}, 15, False),
        ((20, 3, 8, 8), {}, 15, False),  # of other channels
        ((32, 256), LAST, 15, True),  # of a layer: the last batch of the first epoch
        ((32, 256), LAST, 31, True),
        ((32, 256), LAST, 7, False),
        ((32, 256), {**LAST, "drop_last": True}, 15, False),
        ((32, 256), {**LAST, "length": 512}, 15, False),
        ((32, 256), {**LAST, "shuffle": False}, 15, False),  # may be that of the validation
    ],
)
def test_a_layer_that_fails_at_a_smaller_batch_has_the_batch_size_as_a_constant(shape, loader, steps, is_smaller):
    raised = CaughtException(
        "main", "RuntimeError", "builtins", WIDTH, ended_process=True, pid=7, tensors=({"name": "x", "shape": shape},)
    )
    batch = {"phase": "train", "leaves": [{"role": "input", "shape": (32, 2, 8, 8)}]}
    signals = Signals("torch", pid=7, batches=(batch,), loaders=(loader,) if loader else ())
    process = Process(7, 1, ("python", "a.py"), "main", steps=steps)
    run = dataclasses.replace(RUN, exceptions=(raised,), signals=(signals,), processes=(process,))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).primary
    assert ("batch size as a constant" in str(found.causes[0])) is is_smaller


def test_each_condition_of_a_page_can_be_met() -> None:
    """One that no code looks for is a cause that never comes first."""
    folder = Path(labbook.diagnosis.__file__).parent
    code = "".join(file.read_text() for file in folder.rglob("*.py"))
    conditions = parse_toml((folder / "catalogue" / "conditions.toml").read_text())["conditions"]
    assert len(conditions) > 50
    assert [name for name in conditions if f'"{name}"' not in code] == []
