"""What a health check is, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass

if TYPE_CHECKING:
    from labbook.model.run import Run
    from labbook.model.signals import Signals

FAMILIES = (
    *("numeric", "gradient", "activation", "convergence", "loop-bug", "data", "performance", "memory", "distributed"),
    *("environment", "record"),
)
"""Classes of the catalogue, in the order in which rows are listed; "record" is about how well the run was observed."""


@dataclass(frozen=True)
class Outcome:
    """The answer of one check for one process that trained.

    Args:
        verdict: "ok", "warn", "fail", "note" or "not observed".
        observed: What was seen, in a few words with numbers.
        evidence: Sentences with numbers and places that support it.
        where: Any of `module`, `parameter`, `file`, `line`, `function`, `step`, `rank`.
        p: Probability of such data in a healthy run, where the check is a test with a stated null.
        expected: What was expected, where that depends on the run; "" for the check's own words.
    """

    verdict: str
    observed: str
    evidence: tuple[str, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    p: float | None = None
    expected: str = ""


Question = Callable[["Run", "Signals"], "Outcome | None"]


@dataclass(frozen=True)
class Check:
    """One question about a training, with what it needs to be answered.

    Args:
        id: The symptom's id in the catalogue where it has one.
        title: The row's name.
        expected: What a healthy run shows.
        family: One of `FAMILIES`.
        tier: 1: a logical invariant, certain when it fires. 2: a statistical test. 3: a hint, never more than a note.
        needs: Signals without which it is not observed: a field of `Signals`, `loop.<key>`, or the name of a series.
        run: Answers it for one process; `None` when the question does not arise.
        advice: What usually helps, one sentence.
        whole: Whether it is asked once for the whole run and not for each process.
    """

    id: str
    title: str
    expected: str
    family: str
    tier: int
    needs: tuple[str, ...]
    run: Question
    advice: str = ""
    whole: bool = False


def check(
    id: str,
    title: str,
    expected: str,
    *,
    family: str,
    tier: int,
    needs: tuple[str, ...] = (),
    advice: str = "",
    whole: bool = False,
) -> Callable[[Question], Check]:
    """Makes a `Check` of the function below it; see `Check` for the arguments."""

    def made(question: Question) -> Check:
        return Check(id, title, expected, family, tier, needs, question, advice, whole)

    return made
