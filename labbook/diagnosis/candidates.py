"""Matches with the evidence that they rest on, and the order of several: which is the cause, which the consequence."""

from __future__ import annotations

from collections.abc import Sequence

from labbook.diagnosis.catalogue.matcher import Match
from labbook.frozen import dataclass
from labbook.model.evidence import ObservedException, OutputLine

ANYTHING = "any"
"""In `caused_by`: the symptom is a consequence of whatever else ended the program."""

_OF_INTERRUPTS = (
    "interrupted",
    "dataloader_worker_died",
    "nccl_or_collective",
    "pickling_error",
    "shared_memory",
    "other",
)
"""What other processes say when the one that they belong to is interrupted."""


@dataclass(frozen=True)
class Candidate:
    """A match with the evidence that it rests on.

    Args:
        fatal: Whether it ended a program, as far as is known.
        order: Position in time.
        depth: Place in the chain of one exception: 0 is what happened first.
    """

    match: Match
    exception: ObservedException | None = None
    line: OutputLine | None = None
    fatal: bool = True
    order: float = 0.0
    rank: int | None = None
    depth: int = 0

    @property
    def id(self) -> str:
        """Id of the symptom."""
        return self.match.symptom.id


def order_candidates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """One candidate for each symptom: what failed first and ended the program in front, consequences behind causes."""
    return _interrupt_behind(_caused_first(_one_each(sorted(candidates, key=_importance))))


def _importance(candidate: Candidate) -> tuple[object, ...]:
    """Sorts what ended the program before what it only said, certain before likely, causes in time order."""
    consequence = ANYTHING in candidate.match.symptom.caused_by
    hint = candidate.exception is None and candidate.match.weight == 1
    several_ranks = candidate.rank is not None
    # Of several ranks the first to fail is the cause; in one process what came last ended it.
    order = candidate.order if several_ranks or candidate.exception is None else -candidate.order
    weight = candidate.match.weight
    return (
        not candidate.fatal,
        hint,
        consequence,
        weight == 1,
        candidate.exception is None and weight < 3,
        candidate.exception is None,
        order,
        candidate.depth,
        -weight,
    )


def _one_each(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first candidate of each symptom."""
    first: dict[str, Candidate] = {}
    for candidate in candidates:
        first.setdefault(candidate.id, candidate)
    return list(first.values())


def _caused_first(candidates: list[Candidate]) -> list[Candidate]:
    """Moves a cause in front of what the catalogue says follows from it."""
    ordered = list(candidates)
    for _ in range(len(ordered)):
        moved = False
        for later in range(1, len(ordered)):
            cause = ordered[later]
            if cause.match.weight == 1:
                continue
            for earlier in range(later):
                if is_cause_of(cause, ordered[earlier]):
                    ordered.insert(earlier, ordered.pop(later))
                    moved = True
                    break
            if moved:
                break
        if not moved:
            return ordered
    return ordered


def _interrupt_behind(ordered: list[Candidate]) -> list[Candidate]:
    """Puts an interruption behind another failure of the same text: who reports that failure pressed Ctrl-C."""
    if not ordered or ordered[0].match.symptom.family != "interrupted" or ordered[0].exception is None:
        return ordered
    first = ordered[0]
    for place, other in enumerate(ordered):
        apart = other.exception is not None and other.order != first.order and other.rank == first.rank
        if apart and other.fatal and other.match.weight > 1 and other.match.symptom.family not in _OF_INTERRUPTS:
            return [other, *ordered[:place], *ordered[place + 1 :]]
    return ordered


def is_cause_of(cause: Candidate, effect: Candidate) -> bool:
    """Whether a page calls the one a cause of the other."""
    named = cause.id in effect.match.symptom.caused_by or effect.id in cause.match.symptom.causes_of
    # Where pages name each other, the order in time stays.
    back = effect.id in cause.match.symptom.caused_by or cause.id in effect.match.symptom.causes_of
    return named and not back
