"""What holds in a run decides which cause of a loss that is no number is told first."""

from __future__ import annotations

import dataclasses

import pytest

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.run_evidence import collect_run_evidence
from labbook.model.events.training_kinds import Evaluation
from labbook.model.run import CaughtException, CheckResult, Process, Run
from labbook.model.signals import Signals

RUN = Run("i", "finished", ("python", "a.py"), "/w", 0.0, ended=12.0, script="a.py")
WRONG = CheckResult("loss_nonfinite", "loss is finite", "", "9 of 99 values", "fail", family="numeric", tier=1)


def _norms(*values: float) -> list[dict[str, float]]:
    return [{"step": step, "grad_norm": value} for step, value in enumerate(values)]


@pytest.mark.parametrize(
    ("flight", "cause"),
    [
        ({"op": "Neg <- Mean <- Log <- Sigmoid", "recent": _norms(0.7, 0.4, 0.6, 0.44)}, "logarithm"),
        ({"op": "log", "recent": []}, "logarithm"),
        ({"op": "Neg <- Mean <- Log! <- Sub", "recent": []}, "logarithm"),
        ({"op": "Neg <- Mul! <- Log <- Softmax", "recent": []}, "learning rate"),
        ({"op": "Log <- Softmax", "recent": _norms(0.7, 0.9, 90.0, 4e5)}, "learning rate"),
        ({"op": "LogSoftmax", "recent": _norms(1.0, 1.1)}, "learning rate"),
        ({}, "learning rate"),
    ],
)
def test_the_likeliest_cause_for_this_run_comes_first(flight: dict[str, object], cause: str) -> None:
    run = dataclasses.replace(RUN, checks=(WRONG,), signals=(Signals("torch", flight=flight),))
    found = diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings[0]
    assert found.symptom == "loss_nonfinite" and cause in found.causes[0]


@pytest.mark.parametrize(
    ("raised", "written", "steps", "validation"),
    [(5.0, 5.1, 8, True), (5.0, 4.9, 8, False), (5.0, 5.1, 0, False), (None, 5.1, 8, False)],
)
def test_a_run_failed_in_validation_where_the_phase_was_still_open(
    raised: float | None, written: float, steps: int, validation: bool
) -> None:
    caught = CaughtException("main", "RuntimeError", "builtins", "", pid=7, t=raised or 0.0, ended_process=bool(raised))
    phases: tuple[Evaluation, ...] = ({"t": 2.0, "end_step": 4}, {"t": written, "end_step": 8})
    run = dataclasses.replace(
        RUN,
        status="failed",
        exceptions=(caught,),
        processes=(Process(7, 1, ("a.py",), "main", steps=steps),),
        signals=(Signals("torch", pid=7, evaluations=phases),),
    )
    assert ("validation" in collect_run_evidence(run).conditions) is validation


def test_a_batch_that_is_not_finite_is_the_cause() -> None:
    batch = dataclasses.replace(WRONG, id="nonfinite_input")
    run = dataclasses.replace(RUN, checks=(WRONG, batch))
    found = next(
        f
        for f in diagnose(collect_run_evidence(run), Matcher(load_catalogue())).findings
        if f.symptom == "loss_nonfinite"
    )
    assert "batch" in found.causes[0]
