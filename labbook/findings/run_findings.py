"""Diagnoses a run that has ended, and adds the earlier runs with the same findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from labbook.model.finding import Diagnosis, EarlierRun, Finding
from labbook.model.run import Run
from labbook.store.text.sentences import Sentences

_MAX_LAST_LINE = 300
_ANYTHING = "any"
"""In `caused_by` of a page: a consequence of whatever else failed."""

_UNEVEN = "rank_step_count_mismatch"

if TYPE_CHECKING:
    from labbook.diagnosis.catalogue.symptom_catalogue import Catalogue
    from labbook.diagnosis.service import Diagnoser
    from labbook.store.notebook import Notebook


def add_diagnosis(notebook: Notebook, run: Run) -> Run:
    """Returns the run with its findings and their symptoms, families and fingerprints.

    If the diagnosis fails, the run gets a note with the error and nothing else changes.
    """
    try:
        diagnosis = _diagnose_run(notebook, run)
    except Exception as error:
        # The entry is written even if a hostile log breaks the diagnosis.
        say = Sentences(notebook.config.language_in_use())
        reason = say.line("diagnosis.not_diagnosed", error=f"{type(error).__name__}: {error}")
        return replace(run, notes=(*run.notes, reason[:500]))
    findings = diagnosis.findings
    return replace(
        run,
        findings=findings,
        unsure=_explain_uncertainty(notebook, run, diagnosis) if run.status in ("failed", "killed") else "",
        symptoms=_unique([*(f.symptom for f in findings), *run.symptoms]),
        families=_unique([*(f.family for f in findings), *run.families]),
        fingerprints=_unique([*(f.fingerprint for f in findings), *diagnosis.fingerprints, *run.fingerprints]),
    )


def _explain_uncertainty(notebook: Notebook, run: Run, diagnosis: Diagnosis) -> str:
    """Returns why there is no certain diagnosis, with the last line printed if no exception was raised."""
    raised = "Traceback (most recent call last)" in run.console.text or run.exceptions
    if not diagnosis.unsure or run.exit_code is None or raised:
        return diagnosis.unsure
    last: str = next((line.strip() for line in reversed(run.console.text.splitlines()) if line.strip()), "")
    say = Sentences(notebook.config.language_in_use())
    if not last:
        return say.line("diagnosis.ended_silently", code=run.exit_code)
    return say.line("diagnosis.ended_itself", code=run.exit_code, line=last[:_MAX_LAST_LINE])


def _diagnose_run(notebook: Notebook, run: Run) -> Diagnosis:
    from labbook.diagnosis.run_evidence import collect_run_evidence

    evidence = collect_run_evidence(run)
    wrong = any(check.verdict in ("fail", "warn") for check in evidence.checks)
    if evidence.clean_end and not wrong:
        # Most runs end here: the pages and their matcher are not loaded for them (0.1 s).
        return Diagnosis()
    from labbook.diagnosis.service import Diagnoser
    from labbook.fixes.unknown_failure import describe_exception
    from labbook.index.documents import script_key
    from labbook.report.entry.title import script_name

    diagnoser = Diagnoser(notebook)
    diagnosis = name_first_cause(diagnoser.diagnose(evidence), run, diagnoser.catalogue)
    diagnosis = _review_code(diagnosis, run, diagnoser)
    script = script_key(run.project, script_name(run))
    diagnosis = add_earlier_runs(notebook, diagnosis, but=run.id, script=script, run=run)
    if not diagnosis.findings and (own := describe_exception(run)) is not None:
        # No page describes it: its fingerprint finds it again, and the notebook may know a fix.
        seen = add_earlier_runs(notebook, Diagnosis((own,)), but=run.id, script=script, run=run)
        fits = any(one.fits for finding in seen.findings for one in finding.seen_before)
        return seen if fits else replace(diagnosis, fingerprints=(own.fingerprint,))
    return diagnosis


def name_first_cause(diagnosis: Diagnosis, run: Run, catalogue: Catalogue) -> Diagnosis:
    """Returns the diagnosis with what failed first in front of what only reports that something else failed.

    A broken connection to a peer, or a launcher's report, is known to the catalogue; the exception of the rank that
    failed first may not be. Then that exception is the headline, with its own message, and the others follow from it.
    """
    from labbook.diagnosis.catalogue.matcher import Matcher
    from labbook.diagnosis.finding_builder import first_message_line
    from labbook.diagnosis.run_evidence import read_caught_exception
    from labbook.fixes.unknown_failure import describe_exception
    from labbook.report.ending_exception import ending_exception

    diagnosis = _locate_awaited_rank(diagnosis, run, catalogue)
    first, top = ending_exception(run), diagnosis.primary
    page = catalogue.symptoms.get(top.symptom) if top is not None else None
    if first is None or top is None or page is None:
        return diagnosis
    if _ANYTHING not in page.caused_by and not _waited_for_failed_rank(top, run):
        return diagnosis
    if (uneven := _uneven_epochs(diagnosis, run)) is not None:
        rest = [replace(f, follows_from=uneven.symptom) if f is top else f for f in diagnosis.findings]
        return replace(diagnosis, findings=(uneven, *(f for f in rest if f is not uneven)), unsure="")
    exception = read_caught_exception(first)
    # Ranks may fail with errors of one class.
    if (top.exception, top.message) == (first.type, first_message_line(exception.message)):
        return diagnosis
    known = Matcher(catalogue).match_exception(exception)[:1]
    if any(_ANYTHING in match.symptom.caused_by for match in known):
        return diagnosis  # the first to report the end of another rank, as on another port
    of_page = next((f for f in diagnosis.findings for match in known if f.symptom == match.symptom.id), None)
    if of_page is not None:
        rest = [replace(f, follows_from=of_page.symptom) if f is top else f for f in diagnosis.findings]
        return replace(diagnosis, findings=(replace(of_page, follows_from=""), *(f for f in rest if f is not of_page)))
    own = describe_exception(run)
    if own is None:
        return diagnosis
    rest = [replace(f, follows_from=f.follows_from or own.family) for f in diagnosis.findings if f.severity == "error"]
    others = [finding for finding in diagnosis.findings if finding.severity != "error"]
    return replace(diagnosis, findings=(own, *rest, *others), unsure="")


def _waited_for_failed_rank(finding: Finding, run: Run) -> bool:
    """Whether a finding is about a collective call in which others waited for the rank that failed first."""
    odd = run.facts("ranks").get("odd") or {}
    is_of_others = finding.family == "nccl_or_collective" and finding.where.get("rank") not in odd.get("ranks", ())
    return is_of_others and odd.get("kind") == "failed" and bool(odd.get("error"))


def _locate_awaited_rank(diagnosis: Diagnosis, run: Run, catalogue: Catalogue) -> Diagnosis:
    """Returns the diagnosis with the place of the rank that the others waited for, where they are all that failed."""
    odd, top = run.facts("ranks").get("odd") or {}, diagnosis.primary
    awaited = odd.get("kind") in ("elsewhere", "differs", "behind", "ended") and odd.get("where")
    if top is None or not awaited or top.where.get("rank") in odd["ranks"]:
        return diagnosis
    page = catalogue.symptoms.get(top.symptom)
    if top.family != "nccl_or_collective" and (page is None or _ANYTHING not in page.caused_by):
        return diagnosis
    top = replace(top, where={**odd["where"], "rank": odd["ranks"][0]})
    return replace(diagnosis, findings=(top, *diagnosis.findings[1:]))


def _uneven_epochs(diagnosis: Diagnosis, run: Run) -> Finding | None:
    """Returns the finding of a shorter epoch where the roll-call says that just that rank ended before the others."""
    odd = run.facts("ranks").get("odd") or {}
    ended = odd.get("ranks") or () if odd.get("kind") == "ended" else ()
    return next((f for f in diagnosis.findings if f.symptom == _UNEVEN and f.where.get("rank") in ended), None)


def _review_code(diagnosis: Diagnosis, run: Run, diagnoser: Diagnoser) -> Diagnosis:
    from labbook.findings.script_remarks import add_violations

    try:
        return add_violations(diagnosis, run, diagnoser.catalogue, diagnoser.language)
    except Exception:
        # Unreadable code costs the result of the review, never the diagnosis.
        return diagnosis


def add_earlier_runs(
    notebook: Notebook, diagnosis: Diagnosis, but: str = "", script: str = "", run: Run | None = None
) -> Diagnosis:
    """Returns the diagnosis with the earlier runs of the notebook that had the same findings.

    Args:
        diagnosis: Diagnosis of one run.
        but: Id of that run, which is left out.
        script: Script of that run, as its title names it; "" if the run is in the notebook or has no script.
        run: That run, `None` if only a text is known.
    """
    seen = _find_earlier_runs(notebook, diagnosis.findings, but, script, run)
    findings = tuple(
        replace(finding, seen_before=tuple(seen.get(finding.symptom or finding.family, ())))
        for finding in diagnosis.findings
    )
    return replace(diagnosis, findings=findings)


def _find_earlier_runs(
    notebook: Notebook, findings: tuple[Finding, ...], but: str, script: str, run: Run | None
) -> Mapping[str, tuple[EarlierRun, ...]]:
    if not findings:
        return {}
    from labbook.errors import LabbookError
    from labbook.fixes.fix_history import find_earlier_runs

    try:
        return find_earlier_runs(notebook, findings, run=but, script=script, now=run)
    except LabbookError:
        # The commands that search the index report that it cannot be read.
        return {}


def _unique(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
