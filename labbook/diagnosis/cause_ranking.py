"""The diagnosis of a failure: its findings, the cause first, consequences behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labbook.diagnosis.candidates import collect_candidates
from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.finding_builder import build_check_finding, first_message_line, locate_exception
from labbook.diagnosis.strategies import INTERRUPTED, Case, choose_findings
from labbook.model.evidence import Evidence, ObservedException
from labbook.model.finding import Diagnosis, Finding
from labbook.model.run import INTERRUPTS, NOTEBOOK_REPORTS, is_launcher_error
from labbook.store.text.sentences import Sentences

_MAX_FINDINGS = 8
_TERMINATED = "`Termination signal` is detected by the operating system"
"""What Paddle prints when it gets SIGTERM."""
_OF_INTERRUPTS = (
    *(INTERRUPTED, "dataloader_worker_died", "nccl_or_collective", "pickling_error", "shared_memory"),
    *("spawn_child_failed", ""),
)
"""Families, and pages of the family "other", of what child processes report when their parent is interrupted."""


def diagnose(evidence: Evidence, matcher: Matcher, language: str = "en") -> Diagnosis:
    """The findings of one failure, the cause first."""
    rows = (check for check in evidence.checks if check.verdict in ("fail", "warn"))
    checks = [build_check_finding(check, matcher.catalogue, evidence, language) for check in rows]
    crash = _crash_findings(evidence, matcher, language)
    if not crash and not evidence.clean_end:
        # A warning is no reason why a program ended itself without a word.
        checks = [check for check in checks if check.severity == "error"]
    findings = _add_checks(crash, checks, matcher)[:_MAX_FINDINGS]
    return Diagnosis(tuple(findings), _describe_doubt(findings, evidence, Sentences(language)))


def _crash_findings(evidence: Evidence, matcher: Matcher, language: str) -> list[Finding]:
    """The findings of the crash; an interruption comes behind a failure after which somebody pressed Ctrl-C."""
    findings = choose_findings(Case(evidence, matcher, language, tuple(collect_candidates(evidence, matcher))))
    stopped = next((one for one in evidence.exceptions if _is_interrupt(one)), None)
    if stopped is None or not findings:
        return findings
    others = tuple(one for one in evidence.exceptions if stopped.rank in (None, one.rank) and not _is_interrupt(one))
    failed_first = any(one.order < stopped.order for one in others)
    if findings[0].family != INTERRUPTED:
        late = not failed_first and _is_of_interrupts(findings[0])
        return sorted(findings, key=lambda one: one.family != INTERRUPTED) if late else findings
    before = _crash_findings(replace(evidence, exceptions=others, lines=()), matcher, language) if others else []
    if not before or (_is_of_interrupts(before[0]) and (before[0].tier > 1 or not failed_first)):
        return findings
    return [*before, *(one for one in findings if one.symptom not in {known.symptom for known in before})]


def _is_of_interrupts(finding: Finding) -> bool:
    """Whether child processes report it when their parent is interrupted."""
    return (finding.symptom if finding.family == "other" else finding.family) in _OF_INTERRUPTS


def _is_interrupt(one: ObservedException) -> bool:
    if one.message.startswith(_TERMINATED):
        return True
    return one.type in INTERRUPTS or any(behind.type in INTERRUPTS for behind, _ in one.context)


def _add_checks(findings: list[Finding], checks: list[Finding], matcher: Matcher) -> list[Finding]:
    """Health findings that caused the crash in front of it, all others behind it."""
    if not findings or not checks:
        return findings or checks
    crash = findings[0]
    page = matcher.catalogue.symptoms.get(crash.symptom)
    causes: list[Finding] = []
    rest: list[Finding] = []
    for check in checks:
        own = matcher.catalogue.symptoms.get(check.symptom)
        named = (page and check.symptom in page.caused_by) or (own and crash.symptom in own.causes_of)
        if named and crash.symptom and not check.where.get("file"):
            # A check without a place of its own gets the place of the crash.
            check = replace(check, where={**crash.where, **check.where})
        (causes if named and crash.symptom else rest).append(check)
    if causes:
        findings = [replace(crash, follows_from=causes[0].symptom), *findings[1:]]
    return [*causes, *findings, *rest]


def _describe_doubt(findings: Sequence[Finding], evidence: Evidence, say: Sentences) -> str:
    if findings and (findings[0].symptom or findings[0].family != "other"):
        return ""
    if not evidence.exceptions:
        return say.line("diagnosis.no_message")
    raised = reversed(evidence.exceptions)
    one = min(raised, key=lambda one: (is_launcher_error(one.type), one.type in NOTEBOOK_REPORTS))
    if not one.type:
        return say.line("diagnosis.no_page")
    error = ": ".join(filter(None, (one.type, first_message_line(one.message))))
    place = locate_exception(one)
    return say.line("diagnosis.no_page_at" if place.get("source") else "diagnosis.no_page_of", error=error, **place)
