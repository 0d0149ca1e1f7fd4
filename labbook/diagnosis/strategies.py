"""Which reader decides when several can explain a failure: an ordered list of strategies, the first answer wins.

A page of the catalogue that fits with certainty comes first, then the family that the message of an exception gives,
then a line in which a program reports an error without an exception, and last pages that are only likely. Where no
strategy has an answer the failure is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from labbook.diagnosis.candidates import ANYTHING, Candidate, is_cause_of
from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.families.message_family import (
    family_of_class,
    family_of_import,
    family_of_line,
    family_of_lookup,
    family_of_message,
    family_of_source,
    names_nothing,
)
from labbook.diagnosis.finding_builder import build_family_finding, build_finding
from labbook.diagnosis.fingerprint import normalise_message
from labbook.diagnosis.text.evidence_collector import LAST_STEP, PRINTS_STEPS
from labbook.diagnosis.text.hedging import drop_questions, without_speculation
from labbook.diagnosis.text.survived_errors import is_soft
from labbook.frozen import dataclass
from labbook.model.evidence import Evidence, ObservedException
from labbook.model.finding import Finding

_GENERAL_CLASSES = ("KeyError", "NotImplementedError", "ValueError", "RuntimeError", "AssertionError", "Exception")
"""Classes that programs raise for anything: their message is more specific."""
_ABORTED = "native_crash"
_SURVIVED = ("performance", "checkpoint_key_mismatch", "checkpoint_size_mismatch")
"""Families of warnings after which programs train normally."""
INTERRUPTED = "interrupted"
_OF_PYTHON = "type_error_user_code"
_OF_LOOKUPS = (_OF_PYTHON, "index_out_of_range")
_NOT_SETTINGS = ("data_decode_error", _OF_PYTHON, "api_version_mismatch")
_LIKELY = 2
_CERTAIN = 3
_LISTED = 3
"""Families that make a text without a traceback a list. Source: no failure of `benchmarks.diagnosis` shows three."""


@dataclass(frozen=True)
class Case:
    """One failure and the pages that fit it."""

    evidence: Evidence
    matcher: Matcher
    language: str
    candidates: tuple[Candidate, ...]


def certain_page(case: Case) -> list[Finding]:
    """All matching pages when one fits what ended the program by more than the class of an exception."""
    certain = (c for c in case.candidates if c.fatal and c.match.weight > 1 and not _is_weak(c))
    return _page_findings(case, case.candidates) if any(certain) else []


def exception_family(case: Case) -> list[Finding]:
    """The family that class, message and place of an exception give, where no page describes it.

    Behind it come pages of other families that do not rest on the class alone.
    """
    ended = [one for one in case.evidence.exceptions if one.ended_process or one.thread]
    exceptions = sorted(ended, key=lambda one: (one.ended_process, one.order), reverse=True)
    readings = ((family_of_message(one), one) for exception in exceptions for one in _root_first(exception))
    reading, raised = next((pair for pair in readings if pair[0] is not None), (None, None))
    if reading is None or raised is None:
        return []
    finding = build_family_finding(reading, raised, case.evidence, case.language)
    pages = _page_findings(case, [c for c in case.candidates if not _rests_on_class(c)])
    # What Python's own error says of its cause holds, whatever it is about.
    same = next((f for f in pages if f.family == _OF_PYTHON and f.message == finding.message), finding)
    finding = replace(finding, causes=same.causes, fixes=same.fixes)
    return [finding, *(replace(f, follows_from="") for f in pages if f.family != finding.family)]


def program_line(case: Case) -> list[Finding]:
    """The family of a line in which a program reports an error without a class, where no exception says anything.

    Such lines are error codes of CUDA, and what loaders of model files and other native code print before they abort.
    In the log of a training that goes on, a page that fits a warning explains more.
    """
    evidence = case.evidence
    silent = [names_nothing(one) for one in evidence.exceptions if one.type or one.message]
    if evidence.clean_end or not all(silent):
        return []
    if case.candidates and PRINTS_STEPS in evidence.conditions:
        return []
    # Native code logs its reason as a warning before it raises.
    kinds = ("output", "warning") if silent else ("output",)
    lines = (one.text for one in evidence.lines if one.kind in kinds and "\n" not in one.text)
    readings = (family_of_line(drop_questions(without_speculation(text))) for text in lines)
    shown = ((one, ObservedException("", one.sentence)) for one in readings if one)
    return next(([build_family_finding(*pair, evidence, case.language)] for pair in shown), [])


def likely_page(case: Case) -> list[Finding]:
    """All matching pages but hints that rest on the class of an exception alone.

    Native code that printed a failed check before it aborted did so itself: the abort has no cause of its own.
    """
    checked = any(one.ended_process and one.message and not one.type for one in case.evidence.exceptions)
    known = [c for c in case.candidates if not (checked and c.id == _ABORTED and c.exception is None)]
    return _page_findings(case, [c for c in known if c.match.weight > 1 or not _rests_on_class(c)])


STRATEGIES: Mapping[str, Callable[[Case], list[Finding]]] = {
    "certain page": certain_page,
    "family of an exception": exception_family,
    "line of a program": program_line,
    "likely page": likely_page,
}
"""In order: the first one with an answer decides. Each returns its findings, the cause first."""


def choose_strategy(case: Case) -> tuple[str, list[Finding]]:
    """Name of the first strategy that explains a failure, with its findings; `("", [])` when none does."""
    answers = ((name, find(case)) for name, find in STRATEGIES.items())
    return next((answer for answer in answers if answer[1]), ("", []))


def choose_findings(case: Case) -> list[Finding]:
    """The findings of the first strategy with an answer, without those that explain nothing.

    Removed are the report of a launcher and a line about what programs do without, where something unknown was raised,
    and, in the log of a training that goes on, warnings of slowness and of keys that were not loaded.
    """
    candidates, evidence = case.candidates, case.evidence
    sure = [c for c in candidates if c.match.weight > 1]
    families = {c.match.symptom.family for c in sure if not any(is_cause_of(other, c) for other in sure)}
    if len(families) >= _LISTED and not any(one.frames or one.inner for one in evidence.exceptions):
        # A list of messages, as names of tests or in a manual: only the end of the process counts.
        return _page_findings(case, [c for c in candidates if not (c.exception or c.line)])
    findings = choose_strategy(case)[1]
    if candidates and _is_aside(candidates[0]) and _has_unexplained_exception(evidence, candidates):
        findings = [f for f in findings if f.symptom != candidates[0].id]
    if PRINTS_STEPS not in evidence.conditions:
        return findings
    survived = candidates and not evidence.exceptions and all(map(_is_survived, candidates))
    return [] if survived or all(f.family == "performance" for f in findings) else findings


def _page_findings(case: Case, candidates: Sequence[Candidate]) -> list[Finding]:
    """The findings of pages; consequences of the first are marked, hints beside a certain first are left out.

    Certain is only what a distinct message shows, in a text whose exceptions are all explained and in which no later
    one ended the program, and, where it has no traceback, after which the training did not go on.
    """
    findings: list[Finding] = []
    last_step = int(case.evidence.facts.get(LAST_STEP, 0))
    unexplained = _has_unexplained_exception(case.evidence, case.candidates)
    for candidate in candidates:
        first = candidates[0]
        if findings and candidate.match.weight == 1 and first.match.weight > 1:
            continue
        finding = build_finding(candidate.match, candidate.exception, candidate.line, case.evidence, case.language)
        doubtful = unexplained or _is_overtaken(candidate, case.candidates) or _program_continues(candidate, last_step)
        if doubtful or not candidate.is_distinct:
            finding = replace(finding, tier=max(finding.tier, _LIKELY))
        if findings:
            follows = ANYTHING in candidate.match.symptom.caused_by or is_cause_of(first, candidate)
            same_exception = candidate.exception is not None and first.exception is not None and candidate.fatal
            finding = replace(finding, follows_from=first.id if follows or same_exception else "")
        findings.append(finding)
    return findings


def _is_overtaken(candidate: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Whether a later exception of the same process, that is no consequence of it, ended the program.

    An exit status has no place of its own: any exception is later.
    """
    since = -1.0 if candidate.order == float("inf") else candidate.order
    later = (c for c in candidates if c.exception is not None and c.fatal and c.order > since)
    own = (c for c in later if c.rank == candidate.rank or None in (c.rank, candidate.rank))
    return any(ANYTHING not in c.match.symptom.caused_by and not is_cause_of(candidate, c) for c in own)


def _program_continues(candidate: Candidate, last_step: int) -> bool:
    """Whether the program goes on after it: a step is printed after an error without a traceback, or it was ignored."""
    source = candidate.exception or candidate.line
    if candidate.exception is not None and (candidate.exception.frames or not candidate.fatal):
        return not candidate.fatal
    return source is not None and 0 < source.line < last_step


def _root_first(exception: ObservedException) -> list[ObservedException]:
    """An exception behind those that it quotes or was raised from, the innermost quotation first."""
    while exception.inner is not None:
        exception = exception.inner
    return [*(one for one, relation in reversed(exception.context) if relation == "cause"), exception]


def _is_weak(candidate: Candidate) -> bool:
    """Whether the message of the exception may say more than the page that fits."""
    # An abort may be explained by earlier output.
    only_aborts = candidate.exception is None and candidate.match.weight == 2 and candidate.id == _ABORTED
    return _rests_on_class(candidate) or only_aborts or _is_misreading(candidate)


def _rests_on_class(candidate: Candidate) -> bool:
    """Whether only a general class fits, beside a message of several words."""
    one = candidate.exception
    general = one is not None and one.type in _GENERAL_CLASSES and one.message.count(" ") > 1
    return general and not candidate.match.length


def _is_misreading(candidate: Candidate) -> bool:
    """Whether it calls a failed import, or the reading of a setting or checkpoint, an error of the program or data."""
    one, family = candidate.exception, candidate.match.symptom.family
    if one is None:
        return False
    if family == _OF_PYTHON and family_of_import(one) is not None:
        return True
    if family_of_source(one) not in (None, family):
        return True
    if family in _OF_LOOKUPS and family_of_lookup(one) not in (None, family):
        return True
    if family == "api_version_mismatch" and candidate.match.weight == _CERTAIN and candidate.is_distinct:
        return False  # a whole message says more than a class that a library raises for anything
    return family in _NOT_SETTINGS and family_of_class(one.module, one.type) == "config_error"


def _is_aside(candidate: Candidate) -> bool:
    """Whether it is the report of a launcher or scheduler, or a line about what programs do without."""
    page = candidate.match.symptom
    if candidate.match.weight == 1 and ANYTHING in page.caused_by:
        return True
    said = candidate.line.text if candidate.line else ""
    # A scheduler stops the tasks of a job when one of them has failed.
    return candidate.exception is None and (page.family == INTERRUPTED or is_soft(said))


def _is_survived(candidate: Candidate) -> bool:
    """Whether programs print it as a warning when they start, and train normally."""
    page = candidate.match.symptom
    return (candidate.match.weight == 1 and page.family in _SURVIVED) or page.family == "performance"


def _has_unexplained_exception(evidence: Evidence, candidates: Sequence[Candidate]) -> bool:
    """Whether an exception that ended the program belongs to no candidate; ranks lose a peer at different ports."""
    known = {normalise_message(c.exception.message) for c in candidates if c.exception is not None}
    ended = (one.message for one in evidence.exceptions if one.ended_process and one.message)
    return any(normalise_message(message) not in known for message in ended)
