"""The diagnosis of a run that has ended: its findings, and where the same was seen before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from labbook.model.finding import Diagnosis, Finding, Seen
from labbook.model.run import Run

_MOST_LAST_LINE = 300

if TYPE_CHECKING:
    from labbook.diagnosis.service import Diagnoser
    from labbook.store.notebook import Notebook


def with_diagnosis(notebook: Notebook, run: Run) -> Run:
    """The run with its findings, and with their symptoms, families and identities in the order of the findings.

    A diagnosis that fails costs itself alone: the run says so in its notes.
    """
    try:
        diagnosis = diagnosis_of_run(notebook, run)
    except Exception as error:
        # Whatever a hostile log does to it, the entry is written.
        reason = f"it could not be diagnosed: {type(error).__name__}: {error}"
        return replace(run, notes=(*run.notes, reason[:500]))
    found = diagnosis.findings
    return replace(
        run,
        findings=found,
        unsure=_unsure(run, diagnosis) if run.status in ("failed", "killed") else "",
        symptoms=_each([*(f.symptom for f in found), *run.symptoms]),
        families=_each([*(f.family for f in found), *run.families]),
        fingerprints=_each([*(f.fingerprint for f in found), *run.fingerprints]),
    )


def _unsure(run: Run, diagnosis: Diagnosis) -> str:
    """Why nothing certain is said; of a program that ended itself without an exception, the last that it said."""
    raised = "Traceback (most recent call last)" in run.console.text or run.exceptions
    if not diagnosis.unsure or run.exit_code is None or raised:
        return diagnosis.unsure
    last: str = next((line.strip() for line in reversed(run.console.text.splitlines()) if line.strip()), "")
    said = f"; the last line that it printed: {last[:_MOST_LAST_LINE]}" if last else " and printed nothing"
    return f"the program ended itself with status {run.exit_code} without an exception{said}"


def diagnosis_of_run(notebook: Notebook, run: Run) -> Diagnosis:
    """What the diagnosis of a run says, with what the notebook remembers of each finding."""
    from labbook.diagnosis.run_evidence import collect_run_evidence

    evidence = collect_run_evidence(run)
    wrong = any(check.verdict in ("fail", "warn") for check in evidence.checks)
    if evidence.clean_end and not wrong:
        # Most runs end here: the pages and their matcher are not loaded for them (0.1 s).
        return Diagnosis()
    from labbook.diagnosis.service import Diagnoser
    from labbook.report.entry.title import script_name

    diagnoser = Diagnoser(notebook)
    diagnosis = _with_code(diagnoser.diagnose(evidence), run, diagnoser)
    return remembered(notebook, diagnosis, but=run.id, script=script_name(run))


def _with_code(diagnosis: Diagnosis, run: Run, diagnoser: Diagnoser) -> Diagnosis:
    from labbook.record.reviewing import with_remarks

    try:
        return with_remarks(diagnosis, run, diagnoser.catalogue, diagnoser.language)
    except Exception:
        # Code in an odd shape costs its own remarks, never the diagnosis.
        return diagnosis


def remembered(notebook: Notebook, diagnosis: Diagnosis, but: str = "", script: str = "") -> Diagnosis:
    """The diagnosis with the earlier runs of the notebook in which the same was seen.

    Args:
        notebook: Where to look.
        diagnosis: Its findings.
        but: Id of the run itself, which is not counted.
        script: Its script as a title names it, "" where it is in the notebook or of no script.
    """
    seen = _seen_before(notebook, diagnosis.findings, but, script)
    findings = tuple(
        replace(finding, seen_before=tuple(seen.get(finding.symptom or finding.family, ())))
        for finding in diagnosis.findings
    )
    return replace(diagnosis, findings=findings)


def _seen_before(
    notebook: Notebook, findings: tuple[Finding, ...], but: str, script: str
) -> Mapping[str, tuple[Seen, ...]]:
    if not findings:
        return {}
    from labbook.errors import LabbookError
    from labbook.fixes.fix_history import seen_before

    try:
        return seen_before(notebook, findings, run=but, script=script)
    except LabbookError:
        # An index that cannot be read is told by the commands that ask it; the diagnosis stands without it.
        return {}


def _each(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
