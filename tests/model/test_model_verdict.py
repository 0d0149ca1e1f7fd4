"""The verdict follows from status, checks and findings; older entries get theirs from what is on their page."""

import math
from dataclasses import replace

from order_of_tests import in_one_test

from labbook.model.finding import Finding
from labbook.model.run import CheckResult, Process, Run
from labbook.model.series import Series
from labbook.model.signals import Signals
from labbook.model.verdict import VERDICTS, Verdict, judge_entry, judge_run


def row(id, verdict, **fields):
    return CheckResult(id, id, "", "", verdict, **fields)


def trials(*verdicts):
    return {"trials": {"rows": [{"verdict": each} for each in verdicts]}}


TRAINED = Run(
    "i", "finished", ("python", "a.py"), "/w", 0.0,
    processes=(Process(1, 0, ("python", "a.py"), "main", steps=40),),
    checks=(row("loss_nonfinite", "ok"), row("dead_relu", "note")),
)  # fmt: skip
EVALUATED = (Signals("torch", evaluations=({"batches": 3},)),)
NO_LOSS = Series("val_loss", "text", (1, 2), (math.nan, math.nan))
ERROR = Finding("softmax_before_cross_entropy", "loop-bug", "loop-bug", 1, "error", "Softmax before cross entropy")
CAUSE = Finding("x", "data", "data", 2, "warning", "Inputs not normalised")


@in_one_test(
    ("fields", "verdict"),
    [
        ({}, Verdict("healthy")),
        ({"status": "interrupted"}, Verdict("healthy")),
        ({"status": "running"}, Verdict("unknown", "running")),
        ({"status": "lost"}, Verdict("unknown", "lost")),
        ({"status": "failed"}, Verdict("failed", "exit")),
        ({"status": "killed", "findings": (replace(ERROR, symptom="oom"),)}, Verdict("failed", "oom")),
        ({"processes": ()}, Verdict("unknown", "no_step")),
        ({"processes": (), "signals": EVALUATED}, Verdict("unknown", "evaluation")),
        ({"processes": (), "captured": trials("healthy", "healthy", "")}, Verdict("healthy")),
        ({"processes": (), "captured": trials("healthy", "suspect")}, Verdict("unknown", "trials")),
        ({"processes": (), "captured": trials("")}, Verdict("unknown", "trials")),
        ({"processes": (), "signals": EVALUATED, "checks": (row("x", "warn"),)}, Verdict("suspect", "x")),
        ({"checks": ()}, Verdict("unknown", "not_measured")),
        ({"checks": (row("loss_nonfinite", "not observed"),)}, Verdict("unknown", "not_measured")),
        ({"checks": (*TRAINED.checks, row("x", "warn"))}, Verdict("suspect", "x")),
        ({"checks": (row("x", "warn"), row("y", "fail"))}, Verdict("unhealthy", "y")),
        ({"checks": (*TRAINED.checks, row("x", "warn", family="performance"))}, Verdict("healthy")),
        ({"status": "interrupted", "checks": (row("stalled_no_progress", "warn", family="performance"),)},
         Verdict("suspect", "stalled_no_progress")),
        ({"status": "interrupted", "findings": (replace(CAUSE, symptom="stalled_no_progress", class_="performance"),)},
         Verdict("suspect", "stalled_no_progress")),
        ({"checks": (row("x", "fail", explained_by="y"), row("y", "fail"))}, Verdict("unhealthy", "y")),
        ({"findings": (ERROR,)}, Verdict("unhealthy", "softmax_before_cross_entropy")),
        ({"findings": (replace(ERROR, tier=3),)}, Verdict("healthy")),
        # A warned cause of a failure is the fault.
        ({"findings": (replace(ERROR, follows_from="x"), CAUSE)}, Verdict("unhealthy", "x")),
        ({"findings": (replace(ERROR, follows_from="y"), CAUSE)}, Verdict("unhealthy", "softmax_before_cross_entropy")),
        ({"series": (Series("train/loss", "text", (1, 2), (1.0, math.nan)),)}, Verdict("unhealthy", "loss_nonfinite")),
        ({"series": (Series("loss", "text", (1, 2), (math.nan, 1.0)),)}, Verdict("healthy")),
        # The mean of no validation batch, beside a loss that the probe saw to be finite.
        ({"series": (NO_LOSS, Series("loss", "probe", (1, 2), (2.0, 1.0)))}, Verdict("healthy")),
        ({"series": (NO_LOSS, Series("loss", "probe", (1,), (math.nan,)))}, Verdict("unhealthy", "loss_nonfinite")),
        ({"series": (NO_LOSS,)}, Verdict("unhealthy", "loss_nonfinite")),
    ],
)  # fmt: skip
def test_the_verdict_of_a_run(fields, verdict):
    judged = judge_run(replace(TRAINED, **fields))
    assert judged == verdict and judged.name in VERDICTS


PROBED = {"probe": {"status": "ok"}, "metrics": {"loss": {"last": 0.1, "steps": 40}}}


@in_one_test(
    ("meta", "body", "verdict"),
    [
        ({"verdict": "suspect", "verdict_reason": "x", "status": "finished"}, "", Verdict("suspect", "x")),
        ({"verdict": "wonderful", "status": "finished"}, "", Verdict("unknown", "no_checks")),
        ({"status": "failed", "symptoms": ["oom"]}, "", Verdict("failed", "oom")),
        ({"status": "finished", **PROBED}, "| a | b | c | **fail** |", Verdict("unhealthy")),
        ({"status": "finished", **PROBED}, "| a | b | c | **警告** |", Verdict("suspect")),
        ({"status": "finished", **PROBED}, "| a | b | c | ok |", Verdict("healthy")),
        ({"status": "finished", "symptoms": ["x"], **PROBED}, "", Verdict("suspect", "x")),
        ({"status": "finished"}, "", Verdict("unknown", "no_checks")),
        ({"status": "finished", "metrics": 3, "symptoms": "x"}, "", Verdict("unknown", "no_checks")),
        ({"status": "running"}, "", Verdict("unknown", "running")),
        ({}, "", Verdict("unknown", "lost")),
    ],
)
def test_the_verdict_of_an_older_entry(meta, body, verdict):
    assert judge_entry(meta, body) == verdict
