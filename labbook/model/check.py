"""A health check and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass
from labbook.model.message import Message

if TYPE_CHECKING:
    from labbook.model.run import CheckResult, Run
    from labbook.model.signals import Signals

FAMILIES = (
    *("numeric", "gradient", "activation", "convergence", "loop-bug", "data", "performance", "memory", "distributed"),
    *("environment", "record"),
)
"""Classes of the catalogue, in the order in which rows are listed; "record" is about how well the run was observed."""


@dataclass(frozen=True)
class Outcome:
    """Result of one check for one training process.

    Args:
        verdict: "ok", "warn", "fail", "note" or "not observed".
        observed: What was measured, with its numbers.
        evidence: Supporting sentences with numbers and locations.
        where: Any of `module`, `parameter`, `file`, `line`, `function`, `step`, `rank`.
        p: Probability of such data in a healthy run, where the check is a test with a stated null.
        expected: What a healthy run shows, where that depends on the run; `None`: text of the symptom page.
        advice: What to change, where values of this run make it specific; `None`: text of the symptom page.
    """

    verdict: str
    observed: Message
    evidence: tuple[Message, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    p: float | None = None
    expected: Message | None = None
    advice: Message | None = None


@dataclass(frozen=True)
class CheckWording:
    """Texts of one check from its symptom page, in one language.

    Args:
        title: Name of the row, a short noun phrase.
        expected: What a healthy run shows.
        advice: The first fix to try, one line of Markdown.
        advice_of: Case that the check may observe, the last part of the key of a message -> the fix to try there first.
    """

    title: str
    expected: str = ""
    advice: str = ""
    advice_of: Mapping[str, str] = field(default_factory=dict)

    def first_advice(self, cases: Iterable[str]) -> str:
        """Returns the first fix to try where a check observed these cases."""
        return next((self.advice_of[case] for case in cases if case in self.advice_of), self.advice)


@dataclass(frozen=True)
class CheckPages:
    """Texts and relations of all checks, read from the symptom pages.

    Args:
        wording: Id of a check -> language -> its texts.
        causes_of: Id of a symptom -> ids of its consequences.
    """

    wording: Mapping[str, Mapping[str, CheckWording]] = field(default_factory=dict)
    causes_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


CheckFunction = Callable[["Run", "Signals"], "Outcome | None"]


@dataclass(frozen=True)
class Check:
    """One health check and the signals that it needs.

    Its title, expectation and advice are on the symptom page with the same id.

    Args:
        id: Id of the symptom that it detects.
        family: One of `FAMILIES`.
        tier: 1: a logical invariant, certain when it fires. 2: a statistical test. 3: a hint, never more than a note.
        needs: Required signals (else "not observed"): a field of `Signals`, `loop.<key>`, or the name of a series.
        run: Evaluates one process; returns `None` when the check does not apply.
        whole: Whether it runs once per run instead of once per process.
    """

    id: str
    family: str
    tier: int
    needs: tuple[str, ...]
    run: CheckFunction
    whole: bool = False


def check(
    id: str, *, family: str, tier: int, needs: tuple[str, ...] = (), whole: bool = False
) -> Callable[[CheckFunction], Check]:
    """Turn the decorated function into a `Check`; see `Check` for the arguments."""

    def decorate(function: CheckFunction) -> Check:
        return Check(id, family, tier, needs, function, whole)

    return decorate


def cases_of(row: CheckResult) -> list[str]:
    """Return which of the ways of its symptom a row observed: the last parts of the keys of its messages."""
    return [one.key.rpartition(".")[2] for one in (row.observed_message, *row.evidence_messages) if one]
