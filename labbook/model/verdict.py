"""The verdict on a run: whether its result can be trusted.

The status says how the command ended; the verdict says what the health checks and the diagnosis found. It is judged
once, when the run has ended, and is stored in `run.json` and in the front matter of the entry.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass

if TYPE_CHECKING:
    from labbook.model.finding import Finding
    from labbook.model.run import Run
    from labbook.model.series import Series

VERDICTS = ("healthy", "suspect", "unhealthy", "failed", "unknown")
"""healthy: training was observed and no check warned. suspect: a check warned. unhealthy: a check failed, or the loss
ended as NaN or infinity. failed: the command failed or was killed. unknown: not enough was observed to say."""

REASONS = ("running", "lost", "no_step", "evaluation", "trials", "not_measured", "no_checks", "exit")
"""Reasons that are no symptoms. running: the run has not ended. lost: how it ended is not known. no_step: no training
step was observed. evaluation: the run evaluated a model and did not train one. trials: each trial of the run has its
own verdict, and not all are healthy. not_measured: steps were counted, but neither loss nor gradients were observed.
no_checks: an older entry without health checks. exit: the command failed without a diagnosis."""

LIKELY = 2
"""Last tier of certainty that counts for a verdict; hints do not."""

_OTHER_FAMILIES = ("performance",)
"""Families of checks that say how fast a training is, not whether its result can be trusted."""

STANDSTILL = "stalled_no_progress"
"""The check of a training that made no progress until it was stopped, which is no result."""

_MEASURED = ("loss_nonfinite", "loss_seen", "nonfinite_gradient", "gradient_all_zero")
"""Checks of which one must have had data before a run is called healthy."""

_ROWS = {"unhealthy": ("| **fail** |", "| **不通过** |"), "suspect": ("| **warn** |", "| **警告** |")}
"""How the health table of an entry writes what was found; older entries have no `verdict` in their front matter."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run.

    Args:
        name: One of `VERDICTS`.
        reason: Id of the symptom behind it, or one of `REASONS`; "" for a healthy run.
    """

    name: str
    reason: str = ""


def judge_run(run: Run) -> Verdict:
    """Returns the verdict on a run from its status, health checks and findings."""
    if run.status == "running":
        return Verdict("unknown", "running")
    if run.status in ("failed", "killed"):
        return Verdict("failed", next((f.symptom or f.family for f in run.findings), "exit"))
    fault = worst_fault(run)
    if fault:
        return Verdict("unhealthy", fault)
    if run.status == "lost":
        return Verdict("unknown", "lost")
    # Of an imported run the steps are known by its series.
    if not run.imported_from and not run.steps:
        if run.captured.get("trials"):
            found = {row.get("verdict") for row in run.facts("trials").get("rows") or () if row.get("verdict")}
            return Verdict("healthy") if found == {"healthy"} else Verdict("unknown", "trials")
        evaluated = any(signals.evaluations for signals in run.signals)
        warned = _first_check(run, "warn") if evaluated else ""
        return Verdict("suspect", warned) if warned else Verdict("unknown", "evaluation" if evaluated else "no_step")
    stood_still = any(f.symptom == STANDSTILL and f.tier <= LIKELY for f in run.findings)
    warned = _first_check(run, "warn") or (STANDSTILL if stood_still else "")
    if warned:
        return Verdict("suspect", warned)
    observed = any(check.id in _MEASURED and check.verdict in ("ok", "note") for check in run.checks)
    return Verdict("healthy") if observed else Verdict("unknown", "not_measured")


def worst_fault(run: Run) -> str:
    """Returns the symptom of the worst fault of a run that may have ended well, causes first; "" without one.

    What only follows from something that was found, be it with less severity, is not the fault.
    """
    found = [f for f in run.findings if f.symptom and f.tier <= LIKELY and f.class_ not in _OTHER_FAMILIES]
    errors = [finding for finding in found if finding.severity == "error"]
    first: Finding | None = min(errors, key=lambda finding: (bool(finding.follows_from), finding.tier), default=None)
    if first is not None:
        return next((cause.symptom for cause in found if cause.symptom == first.follows_from), first.symptom)
    failed = _first_check(run, "fail")
    # The check needs the probe; a loss that was only printed can end as NaN, too.
    losses = [series for series in run.series if "loss" in series.name.lower() and series.values]
    losses = [series for series in losses if not is_placeholder(series, run.series)]
    return failed or ("loss_nonfinite" if any(not math.isfinite(s.values[-1]) for s in losses) else "")


def is_placeholder(series: Series, known: Sequence[Series]) -> bool:
    """Whether a program only writes NaN in place of a loss that it has not, as the mean of no validation batch is.

    That is: the value was never a number, and the loss that the probe saw is finite to the end.
    """
    seen = [other for other in known if other.source == "probe" and other.name.split(".opt")[0] == "loss"]
    finite = bool(seen) and all(other.last is not None and math.isfinite(other.last) for other in seen)
    return series.is_from_text and finite and all(map(math.isnan, series.values))


def _first_check(run: Run, verdict: str) -> str:
    """Returns the id of the first check with a verdict, causes before consequences, or ""."""
    found = [
        check
        for check in run.checks
        if check.verdict == verdict and (check.family not in _OTHER_FAMILIES or check.id == STANDSTILL)
    ]
    return next((check.id for check in sorted(found, key=lambda check: bool(check.explained_by))), "")


def judge_entry(meta: Mapping[str, Any], body: str = "") -> Verdict:
    """Returns the verdict in the front matter of an entry; that of an older entry is read from its health table.

    Args:
        body: The text of the entry, if it is at hand.
    """
    given = meta.get("verdict")
    if given in VERDICTS:
        return Verdict(str(given), str(meta.get("verdict_reason") or ""))
    status = meta.get("status")
    if status == "running":
        return Verdict("unknown", "running")
    named = meta.get("symptoms")
    symptoms = [str(name) for name in named] if isinstance(named, list) else []
    if status in ("failed", "killed"):
        return Verdict("failed", next(iter(symptoms), "exit"))
    for name, marks in _ROWS.items():
        if any(mark in body for mark in marks):
            return Verdict(name, next(iter(symptoms), ""))
    if symptoms:
        return Verdict("suspect", symptoms[0])
    if status not in ("finished", "interrupted"):
        return Verdict("unknown", "lost")
    metrics = meta.get("metrics")
    loss = metrics.get("loss") if isinstance(metrics, Mapping) else None
    probe = meta.get("probe")
    probed = isinstance(probe, Mapping) and probe.get("status") in ("ok", "partial")
    if not probed or not isinstance(loss, Mapping) or not loss.get("steps"):
        return Verdict("unknown", "no_checks")
    return Verdict("unhealthy", "loss_nonfinite") if loss.get("last") in ("nan", "inf", "-inf") else Verdict("healthy")
