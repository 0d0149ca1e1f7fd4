"""From evidence to a diagnosis: which finding is the cause, which are its consequences, what to say of each.

The order is: what failed first and ended the program; within one exception the innermost that it re-raises; what a page
of the catalogue calls a consequence behind its cause. Nothing is said on the strength of a single common word: what no
pattern fits is told as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from labbook.diagnosis.candidates import ANYTHING, Candidate, is_cause_of, order_candidates
from labbook.diagnosis.catalogue.matcher import Match, Matcher
from labbook.diagnosis.families.exception_classes import family_by_class, family_by_habit
from labbook.diagnosis.families.exception_mentions import mentioned_exceptions
from labbook.diagnosis.families.message_family import build_family_finding, family_of_message
from labbook.diagnosis.families.raise_site import family_of_import, reads_checkpoint, reads_setting
from labbook.diagnosis.families.user_reports import family_of_report
from labbook.diagnosis.finding_builder import build_check_finding, build_finding
from labbook.diagnosis.text.evidence_collector import PRINTS_STEPS
from labbook.diagnosis.text.exit_lines import prints_nonfinite
from labbook.diagnosis.text.hedging import find_quoted_message, is_speculation, without_speculation
from labbook.diagnosis.text.statements import drop_questions
from labbook.model.evidence import Evidence, ObservedException, OutputLine
from labbook.model.finding import Diagnosis, Finding

_SAYS_ANYTHING = ("KeyError", "NotImplementedError", "ValueError", "RuntimeError", "AssertionError", "Exception")
"""Classes that programs raise for whatever they find wrong: their sentence says more."""
_PRINTED = "loss_printed_nan"
_ABORTED = "native_crash"
_BEFORE_ABORT = (
    *("checkpoint_load_error", "unsupported_op", "file_not_found", "permission_error", "disk_full", "cuda_oom"),
    *("host_oom_killed", "missing_dependency", "import_abi_mismatch", "nccl_or_collective", "cuda_driver_mismatch"),
    *("illegal_memory_access", "cuda_device_assert"),
)
"""What a process says before it ends itself."""
_BORNE_FAMILIES = ("performance", "checkpoint_key_mismatch", "checkpoint_size_mismatch")
_OF_TENSORS = ("shape_mismatch", "dtype_mismatch", "device_mismatch", "type_error_user_code", "index_out_of_range")
_OF_COMPUTING = (
    *("shape_mismatch", "dtype_mismatch", "device_mismatch", "cuda_oom", "cuda_device_assert", "illegal_memory_access"),
    *(
        "cudnn_error",
        "nccl_or_collective",
        "nan_or_inf",
        "disk_full",
        "host_oom_killed",
        "backward_twice",
        "no_grad_path",
    ),
)
"""What a program does not try on purpose: a slip in the code that cleans up behind it is not the failure."""
_REMARK = re.compile(r"[?？]|\bsee (?:the|docs?|also)\b|没有关系|没关系|正常", re.IGNORECASE)
"""A line that asks or explains, and is no message."""
_UNLIKE_SETTINGS = ("data_decode_error", "type_error_user_code", "api_version_mismatch")
_MOST_FINDINGS = 8
_DEEPEST = 12


def diagnose(evidence: Evidence, matcher: Matcher, language: str = "en") -> Diagnosis:
    """The findings of one failure, the cause first.

    Args:
        evidence: What is known.
        matcher: Of the catalogue.
        language: Of titles, causes and fixes; "en" or "zh".
    """
    candidates = [c for raised in evidence.exceptions for c in _of_raised(raised, matcher, evidence.framework)]
    # Words without a class are read as a message only where no exception says what happened.
    bare = not any(c.match.weight > 1 for c in candidates)
    if not evidence.clean_end:
        candidates += _of_lines(evidence, matcher, as_exception=bare)
        candidates += [Candidate(match, order=float("inf")) for match in matcher.match_ending(evidence.ending)[:1]]
    ordered = order_candidates(candidates)
    findings = [build_finding(c.match, c.exception, c.line, evidence, language) for c in ordered]
    weak = [c for c in ordered if _by_class_alone(c) or _only_aborts(c) or _of_import(c) or _of_setting(c)]
    if not any(c.fatal and c.match.weight > 1 for c in ordered if c not in weak):
        findings = _with_grammar(findings, evidence, matcher, language)
        # What the sentence says takes the place of what its class alone would mean; a hint by the class is not enough.
        read = bool(findings) and not findings[0].symptom
        alone = {c.id for c in ordered if _by_class_alone(c) and (read or c.match.weight == 1)}
        findings = [f for f in findings if f.symptom not in alone]
    findings = _folded(findings, ordered)
    if ordered and _is_wrapper(ordered[0]) and _untold(evidence, ordered):
        # The launcher's words follow from an exception that no page knows: they explain nothing.
        findings = [f for f in findings if f.symptom != ordered[0].id]
    if PRINTS_STEPS in evidence.conditions and all(f.family == "performance" for f in findings):
        # A log of training that warns of slowness and of nothing else is one of a program that runs well.
        findings = []
    elif ordered and PRINTS_STEPS in evidence.conditions and not evidence.exceptions and all(map(_goes_on, ordered)):
        findings = []
    checks = [
        build_check_finding(check, matcher.catalogue, evidence, language)
        for check in evidence.checks
        if check.verdict in ("fail", "warn")
    ]
    findings = _joined(findings, checks, matcher)[:_MOST_FINDINGS]
    return Diagnosis(tuple(findings), _unsure(findings, evidence))


def _only_aborts(candidate: Candidate) -> bool:
    """Whether it says no more than that native code ended the process, which what it said before may explain."""
    return candidate.exception is None and candidate.match.weight == 2 and candidate.id == _ABORTED


def _of_import(candidate: Candidate) -> bool:
    """Whether it calls a mistake of the program what a library raised while it was imported."""
    raised, family = candidate.exception, candidate.match.symptom.family
    return raised is not None and family == "type_error_user_code" and family_of_import(raised) is not None


def _of_setting(candidate: Candidate) -> bool:
    """Whether it calls a mistake of data or of the program what the class or the line says of a setting."""
    raised, family = candidate.exception, candidate.match.symptom.family
    if raised is None or family not in _UNLIKE_SETTINGS:
        return False
    if reads_checkpoint(raised) or reads_setting(raised):
        return True
    return family_by_class(raised.module, raised.type) == "config_error"


def _by_class_alone(candidate: Candidate) -> bool:
    """Whether only the class of an exception speaks for it, beside a sentence that may say more."""
    raised = candidate.exception
    return (
        raised is not None
        and raised.type in _SAYS_ANYTHING
        and not candidate.match.length
        and raised.message.count(" ") > 1
    )


def _goes_on(candidate: Candidate) -> bool:
    """Whether it is a hint of something that programs warn of when they begin, and train all the same."""
    page = candidate.match.symptom
    return (candidate.match.weight == 1 and page.family in _BORNE_FAMILIES) or page.family == "performance"


def _is_wrapper(candidate: Candidate) -> bool:
    return candidate.match.weight == 1 and ANYTHING in candidate.match.symptom.caused_by


def _untold(evidence: Evidence, candidates: Sequence[Candidate]) -> bool:
    """Whether an exception that ended the program is of no candidate."""
    told_of = [c.exception for c in candidates if c.exception is not None]
    return any(
        raised.ended_process and raised.message and all(raised.message != known.message for known in told_of)
        for raised in evidence.exceptions
    )


def _of_raised(raised: ObservedException, matcher: Matcher, framework: str) -> list[Candidate]:
    """What one exception shows, the root first; what re-raises or follows it behind."""
    chain = _root_first(raised, matcher, framework)
    found = []
    for depth, one in enumerate(chain):
        if not any(frame.user for frame in one.frames) and any(frame.user for frame in raised.frames):
            # It was raised inside of a library: the user's line is the one that called it.
            one = replace(one, frames=raised.frames)
        matches = matcher.match_exception(one, framework)
        kept = matches[:1] + [m for m in matches[1:] if m.weight == 3 and _related(m, matches[0])]
        found += [
            Candidate(match, one, fatal=raised.ended_process, order=raised.order, rank=raised.rank, depth=depth)
            for match in kept
        ]
    return found


def _related(match: Match, first: Match) -> bool:
    return match.symptom.id in first.symptom.caused_by or first.symptom.id in match.symptom.causes_of


def _root_first(raised: ObservedException, matcher: Matcher, framework: str, depth: int = 0) -> list[ObservedException]:
    """The exceptions behind one that was seen, the one that says what happened first; at most `_DEEPEST` deep."""
    chain = [raised]
    if depth >= _DEEPEST:
        return chain
    if raised.inner is not None:
        # A re-raised error quotes the real one, which comes first.
        chain = [*_root_first(raised.inner, matcher, framework, depth + 1), raised]
    for behind, relation in raised.context[:_DEEPEST]:
        deeper = _root_first(replace(behind, context=()), matcher, framework, depth + 1)
        chain = [*deeper, *chain] if _explains(behind, raised, relation, matcher, framework) else [*chain, *deeper]
    return chain


def _explains(
    behind: ObservedException, shown: ObservedException, relation: str, matcher: Matcher, framework: str
) -> bool:
    """Whether the exception behind another one is the one to tell of."""
    inner = shown.inner or shown
    ours = matcher.match_exception(inner, framework)
    theirs = matcher.match_exception(behind, framework)
    if not theirs:
        return False
    if not ours or theirs[0].symptom.id in ours[0].symptom.caused_by or ANYTHING in ours[0].symptom.caused_by:
        return True
    if relation == "cause":
        return theirs[0].weight >= ours[0].weight
    slipped = ours[0].symptom.family == "type_error_user_code" and theirs[0].symptom.family in _OF_COMPUTING
    return theirs[0].weight >= ours[0].weight if slipped else theirs[0].weight > ours[0].weight


def _of_lines(evidence: Evidence, matcher: Matcher, *, as_exception: bool) -> list[Candidate]:
    found = []
    certain = any(raised.message for raised in evidence.exceptions)
    for said in evidence.lines:
        if certain and said.kind == "output" and is_speculation(said.text):
            continue
        # What a sentence supposes or fears has not happened.
        text = without_speculation(said.text)
        matches = matcher.match_line(replace(said, text=text), evidence.framework, as_exception=as_exception)
        if matches and matches[0].weight < 3 and said.kind == "output":
            # Words that are not a program's own may stand in a question.
            told_text = drop_questions(text)
            if told_text != text:
                text = told_text
                matches = matcher.match_line(replace(said, text=text), evidence.framework, as_exception=as_exception)
        printed = matcher.catalogue.symptoms.get(_PRINTED)
        if not matches and printed and said.kind == "output" and prints_nonfinite(text):
            matches = [Match(printed, 1, 0, {})]
        found += [Candidate(m, None, said, said.kind != "warning", said.order, said.rank) for m in matches[:1]]
    return found


def _folded(findings: list[Finding], candidates: list[Candidate]) -> list[Finding]:
    """Marks consequences of the first finding; weak hints beside a certain finding are left out."""
    if not findings or not candidates or findings[0].symptom != candidates[0].id:
        return findings
    first = candidates[0]
    kept = [findings[0]]
    for candidate, finding in zip(candidates[1:], findings[1:], strict=False):
        if candidate.match.weight == 1 and first.match.weight > 1:
            continue
        symptom = candidate.match.symptom
        follows = ANYTHING in symptom.caused_by or is_cause_of(first, candidate)
        same_exception = candidate.exception is not None and first.exception is not None and candidate.fatal
        kept.append(replace(finding, follows_from=first.id if follows or same_exception else ""))
    return kept


def _with_grammar(findings: list[Finding], evidence: Evidence, matcher: Matcher, language: str) -> list[Finding]:
    """Puts what the grammar of the message says in front of mere hints, where no page fits."""
    for raised in sorted(evidence.exceptions, key=lambda one: (one.ended_process, one.order), reverse=True):
        innermost = raised
        for _ in range(_DEEPEST):
            if innermost.inner is None:
                break
            innermost = innermost.inner
        finding = family_of_message(innermost, evidence, language)
        if finding is not None:
            return [finding, *(f for f in findings if f.family != finding.family)]
    if evidence.clean_end or any(one.type or one.message for one in evidence.exceptions):
        cut = not evidence.clean_end and not any(one.message for one in evidence.exceptions)
        return findings or (_named(evidence, matcher, language) if cut else [])
    if findings:
        # Hints of what programs warn of and go on; what people say happened is more.
        said = _reported(evidence, language) if PRINTS_STEPS not in evidence.conditions else None
        if said is None or (findings[0].symptom == _ABORTED and said.family not in _BEFORE_ABORT):
            return findings
        return [said, *(f for f in findings if f.family != said.family)]
    for raised, families in _quoted(evidence.lines):
        finding = family_of_message(raised, evidence, language)
        if finding is not None and (not families or finding.family in families):
            return [finding]
    said = _reported(evidence, language)
    return [said] if said is not None else _named(evidence, matcher, language)


def _named(evidence: Evidence, matcher: Matcher, language: str) -> list[Finding]:
    """What a class alone means that a sentence names."""
    for raised in mentioned_exceptions(
        one.text for one in evidence.lines if one.kind == "output" and "\n" not in one.text
    ):
        matches = matcher.match_exception(raised, evidence.framework)
        family = matches[0].symptom.family if matches else family_by_class(raised.module, raised.type)
        family = family or family_by_habit(raised.module, raised.type)
        if family is not None:
            return [build_family_finding(family, 3, raised.type, raised, evidence, language)]
    return []


def _reported(evidence: Evidence, language: str) -> Finding | None:
    """What the sentences of a report say happened."""
    told_of = family_of_report(one.text for one in evidence.lines if one.kind == "output" and "\n" not in one.text)
    if told_of is None:
        return None
    family, sentence = told_of
    return build_family_finding(family, 3, sentence, ObservedException("", sentence), evidence, language)


def _quoted(said: Sequence[OutputLine]) -> Iterator[tuple[ObservedException, tuple[str, ...]]]:
    """Messages that sentences quote without a class, with the families that they may have; empty: any."""
    lines = [one.text for one in said if one.kind == "output"]
    for message in filter(None, map(find_quoted_message, lines)):
        yield ObservedException("AssertionError" if message.startswith("assert ") else "", message), ()
    if len(lines) == 1 and not _REMARK.search(lines[0]):
        # A last line whose class was lost: of settings and data people speak in sentences of their own.
        yield ObservedException("", without_speculation(lines[0])), _OF_TENSORS


def _joined(findings: list[Finding], checks: list[Finding], matcher: Matcher) -> list[Finding]:
    """Puts health findings behind a crash, those that caused it in front of it."""
    if not findings:
        return checks
    if not checks:
        return findings
    crash = findings[0]
    page = matcher.catalogue.symptoms.get(crash.symptom)
    causes: list[Finding] = []
    rest: list[Finding] = []
    for check in checks:
        own = matcher.catalogue.symptoms.get(check.symptom)
        named = (page and check.symptom in page.caused_by) or (own and crash.symptom in own.causes_of)
        if named and crash.symptom and not check.where.get("file"):
            # A cause that nobody saw happen is where it had its effect.
            check = replace(check, where={**crash.where, **check.where})
        (causes if named and crash.symptom else rest).append(check)
    if causes:
        findings = [replace(crash, follows_from=causes[0].symptom), *findings[1:]]
    return [*causes, *findings, *rest]


def _unsure(findings: Sequence[Finding], evidence: Evidence) -> str:
    if findings and (findings[0].symptom or findings[0].family != "other"):
        return ""
    if evidence.exceptions:
        last = evidence.exceptions[-1]
        return f"no page of the catalogue fits {last.type or 'this message'}"
    return "nothing in it looks like a failure that the catalogue knows"
