"""Pages of the catalogue that fit the evidence of a failure, in order: the cause first, its consequences behind it.

The first exception that ended the program is the cause; within one exception it is the innermost one that was raised
again. A page that another page names as its cause moves behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from labbook.diagnosis.catalogue.matcher import Match, Matcher
from labbook.diagnosis.catalogue.run_conditions import conditions_said, is_about_place
from labbook.diagnosis.text.exit_lines import prints_nonfinite
from labbook.diagnosis.text.hedging import drop_questions, is_prose, without_speculation
from labbook.diagnosis.text.survived_errors import is_soft
from labbook.frozen import dataclass
from labbook.model.evidence import Evidence, ObservedException, OutputLine

ANYTHING = "any"
"""In `caused_by`: the symptom is a consequence of whatever else ended the program."""

_COMPUTING = (
    *("shape_mismatch", "dtype_mismatch", "device_mismatch", "cuda_oom", "cuda_device_assert", "illegal_memory_access"),
    *("cudnn_error", "nccl_or_collective", "nan_or_inf", "disk_full", "host_oom_killed", "backward_twice"),
    "no_grad_path",
)
"""Failures of the computation itself. A programming error in the code that handles one of them is not the cause."""
_DISTINCT = 15  # characters of a pattern from which on a line is hardly found in another text; chosen by us
_PRINTED_NAN = "loss_printed_nan"
_OF_PYTHON = "type_error_user_code"
_COMPILER_BACKEND = "compile_backend_failed"
_MAX_DEPTH = 12


@dataclass(frozen=True)
class Candidate:
    """A matching page with the evidence that it matched.

    Args:
        line: The line of output, or `None`; beside an exception, one that says more about it.
        fatal: Whether it ended a program, as far as is known.
        order: Position in time.
        depth: Place in the chain of one exception: 0 happened first.
    """

    match: Match
    exception: ObservedException | None = None
    line: OutputLine | None = None
    fatal: bool = True
    order: float = 0.0
    rank: int | None = None
    depth: int = 0

    @property
    def is_distinct(self) -> bool:
        """Whether its message leaves no other reading: it is whole, no consequence of anything, and no prose.

        Where another page fits in the code of a library, a message without its traceback leaves two readings.
        """
        whole = self.match.whole and ANYTHING not in self.match.symptom.caused_by
        if self.exception is not None and not self.exception.frames:
            whole = whole and not any(map(is_about_place, self.match.symptom.instead))
        if self.line is None or self.exception is not None:
            return whole
        return whole and self.match.length >= _DISTINCT and not is_prose(self.line.text)

    @property
    def id(self) -> str:
        """Id of the symptom."""
        return self.match.symptom.id


def collect_candidates(evidence: Evidence, matcher: Matcher) -> list[Candidate]:
    """The pages that fit the exceptions, lines and exit status of a failure, one candidate for each page.

    First comes what failed first and ended the program; consequences come after causes.
    """
    found = [c for one in evidence.exceptions for c in _match_chain(one, matcher, evidence.framework)]
    if not evidence.clean_end:
        # Words without a class are read as a message only where no exception has a message that a page knows.
        bare = not any(c.match.weight > 1 for c in found)
        found += _match_lines(evidence, matcher, as_exception=bare)
        found += [Candidate(match, order=float("inf")) for match in matcher.match_ending(evidence.ending)[:1]]
    meant = [_follow_instead(candidate, evidence, matcher) for candidate in found]
    several = len({candidate.rank for candidate in found}) > 1
    return _move_causes_first(_one_each(sorted(meant, key=lambda candidate: _importance(candidate, several))))


def _follow_instead(candidate: Candidate, evidence: Evidence, matcher: Matcher) -> Candidate:
    """The candidate, or the one of the page that its page names for a condition of this run or message."""
    page = candidate.match.symptom
    met = evidence.conditions | conditions_said(page.instead, candidate.exception, candidate.line)
    known = next((matcher.catalogue.symptoms.get(id_) for said, id_ in page.instead.items() if said in met), None)
    return replace(candidate, match=replace(candidate.match, symptom=known)) if known else candidate


def _importance(candidate: Candidate, several_ranks: bool) -> tuple[object, ...]:
    """Sort key: what ended the program before other output, certain before likely, causes in time order."""
    consequence = ANYTHING in candidate.match.symptom.caused_by
    hint = candidate.exception is None and candidate.match.weight == 1
    # Of several ranks the first to fail is the cause; in one process what came last ended it.
    forwards = candidate.exception is None or (several_ranks and candidate.rank is not None)
    order = candidate.order if forwards else -candidate.order
    weight = candidate.match.weight
    return (
        not candidate.fatal,
        hint,
        consequence,
        weight == 1,
        candidate.exception is None and weight < 3,
        candidate.exception is None,
        candidate.exception is None and candidate.line is not None and is_soft(candidate.line.text),
        order,
        candidate.depth,
        -weight,
    )


def _one_each(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first candidate of each page; an exception or a block with the first single line that the page fits, too."""
    first: dict[str, Candidate] = {}
    for candidate in candidates:
        kept = first.setdefault(candidate.id, candidate)
        block = kept.line is not None and "\n" in kept.line.text and "\n" not in (candidate.line or kept.line).text
        if candidate.line is not None and (block or (kept.exception is not None and kept.line is None)):
            first[kept.id] = replace(kept, line=candidate.line)
    return list(first.values())


def _move_causes_first(candidates: list[Candidate]) -> list[Candidate]:
    """Moves a cause before the pages that name it as their cause."""
    ordered = list(candidates)
    # Each pair is moved at most once: pages may name each other in a circle.
    for _ in range(len(ordered) * (len(ordered) - 1) // 2):
        misplaced = next(_iter_misplaced(ordered), None)
        if misplaced is None:
            break
        cause, effect = misplaced
        ordered.insert(effect, ordered.pop(cause))
    return ordered


def _iter_misplaced(ordered: Sequence[Candidate]) -> Iterator[tuple[int, int]]:
    """Places of causes, other than hints, that come behind an effect of theirs, with the place of the effect."""
    for later, cause in enumerate(ordered):
        if cause.match.weight > 1:
            yield from ((later, earlier) for earlier in range(later) if is_cause_of(cause, ordered[earlier]))


def is_cause_of(cause: Candidate, effect: Candidate) -> bool:
    """Whether a page names the first as a cause of the second."""
    named = cause.id in effect.match.symptom.caused_by or effect.id in cause.match.symptom.causes_of
    # Where pages name each other, the order in time decides.
    back = effect.id in cause.match.symptom.caused_by or cause.id in effect.match.symptom.causes_of
    return named and not back


def _match_chain(raised: ObservedException, matcher: Matcher, framework: str) -> list[Candidate]:
    """The pages that fit one exception and its chain, the root first."""
    chain = _root_first(raised, matcher, framework)
    found = []
    for depth, one in enumerate(chain):
        if not any(frame.user for frame in one.frames) and any(frame.user for frame in raised.frames):
            # Raised inside a library: the user's line is the one that called it.
            one = replace(one, frames=raised.frames)
        matches = _blame_compiler(matcher.match_exception(one, framework))
        chosen = matches[:1] + [m for m in matches[1:] if m.weight == 3 and _is_related(m, matches[0])]
        # The main thread may wait for one that has ended.
        fatal = raised.ended_process or bool(raised.thread)
        found += [Candidate(m, one, None, fatal, raised.order, raised.rank, depth) for m in chosen]
    return found


def _blame_compiler(matches: list[Match]) -> list[Match]:
    """The pages of one exception; a programming error that a compiler reports is one of the compiler's own code."""
    slipped = bool(matches) and matches[0].symptom.family == _OF_PYTHON
    return sorted(matches, key=lambda match: slipped and match.symptom.id != _COMPILER_BACKEND)


def _is_related(match: Match, first: Match) -> bool:
    return match.symptom.id in first.symptom.caused_by or first.symptom.id in match.symptom.causes_of


def _root_first(raised: ObservedException, matcher: Matcher, framework: str, depth: int = 0) -> list[ObservedException]:
    """The chain of an exception, the root cause first; at most `_MAX_DEPTH` deep."""
    chain = [raised]
    if depth >= _MAX_DEPTH:
        return chain
    if raised.inner is not None:
        # A re-raised error quotes the real one, which comes first.
        quoted = _root_first(raised.inner, matcher, framework, depth + 1)
        chain = [raised, *quoted] if _is_compiler_bug(raised, matcher, framework) else [*quoted, raised]
    for behind, relation in raised.context[:_MAX_DEPTH]:
        deeper = _root_first(replace(behind, context=()), matcher, framework, depth + 1)
        chain = [*deeper, *chain] if _explains(behind, raised, relation, matcher, framework) else [*chain, *deeper]
    return chain


def _is_compiler_bug(raised: ObservedException, matcher: Matcher, framework: str) -> bool:
    """Whether the backend of a compiler reports a programming error, which is then one of its own code."""
    if raised.inner is None:
        return False
    ours = matcher.match_exception(raised, framework)
    theirs = matcher.match_exception(raised.inner, framework)
    slipped = bool(theirs) and theirs[0].symptom.family == _OF_PYTHON
    return slipped and bool(ours) and ours[0].symptom.id == _COMPILER_BACKEND


def _explains(
    behind: ObservedException, shown: ObservedException, relation: str, matcher: Matcher, framework: str
) -> bool:
    """Whether the earlier exception of a chain is the cause of the later one."""
    ours = matcher.match_exception(shown.inner or shown, framework)
    theirs = matcher.match_exception(behind, framework)
    if not theirs:
        return False
    if not ours or theirs[0].symptom.id in ours[0].symptom.caused_by or ANYTHING in ours[0].symptom.caused_by:
        return True
    if relation == "cause":
        return theirs[0].weight >= ours[0].weight
    slipped = ours[0].symptom.family == _OF_PYTHON and theirs[0].symptom.family in _COMPUTING
    return theirs[0].weight >= ours[0].weight if slipped else theirs[0].weight > ours[0].weight


def _match_lines(evidence: Evidence, matcher: Matcher, *, as_exception: bool) -> Iterator[Candidate]:
    """The best page for each line of output, without sentences that only suppose or ask something."""
    printed_nan = matcher.catalogue.symptoms.get(_PRINTED_NAN)
    alone = not evidence.exceptions
    for line in (one for one in evidence.lines if not (alone and is_prose(one.text, quoting=True))):
        read = replace(line, text=without_speculation(line.text))
        matches = matcher.match_line(read, evidence.framework, as_exception=as_exception)
        if matches and matches[0].weight < 3 and line.kind == "output":
            # Words that no program prints in this form may be part of a question.
            read = replace(read, text=drop_questions(read.text))
            matches = matcher.match_line(read, evidence.framework, as_exception=as_exception)
        if not matches and printed_nan and line.kind == "output" and prints_nonfinite(read.text):
            matches = [Match(printed_nan, 1, 0, {})]
        for match in matches[:1]:
            yield Candidate(match, None, line, line.kind != "warning", line.order, line.rank)
