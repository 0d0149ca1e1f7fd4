"""What a health check is, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass
from labbook.model.message import Message

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
        observed: What was measured, with its numbers.
        evidence: Sentences with numbers and places that support it.
        where: Any of `module`, `parameter`, `file`, `line`, `function`, `step`, `rank`.
        p: Probability of such data in a healthy run, where the check is a test with a stated null.
        expected: What a healthy run shows, where that depends on the run; `None` for the words of the page.
        advice: What to change, where values of this run make it precise; `None` for the words of the page.
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
    """What the symptom page of a check says in one language.

    Args:
        title: Name of the row, a short noun phrase.
        expected: What a healthy run shows.
        advice: The first thing to try, Markdown of one line.
    """

    title: str
    expected: str = ""
    advice: str = ""


@dataclass(frozen=True)
class CheckPages:
    """What the symptom pages say of all checks.

    Args:
        wording: Id of a check -> language -> its words.
        causes_of: Id of a symptom -> ids of what follows from it.
    """

    wording: Mapping[str, Mapping[str, CheckWording]] = field(default_factory=dict)
    causes_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Question = Callable[["Run", "Signals"], "Outcome | None"]


@dataclass(frozen=True)
class Check:
    """One question about a training, with what it needs to be answered.

    Its name, what it expects and what helps stand on the symptom page of the same id.

    Args:
        id: Id of the symptom that it finds.
        family: One of `FAMILIES`.
        tier: 1: a logical invariant, certain when it fires. 2: a statistical test. 3: a hint, never more than a note.
        needs: Signals without which it is not observed: a field of `Signals`, `loop.<key>`, or the name of a series.
        run: Answers it for one process; `None` when the question does not arise.
        whole: Whether it runs once for the whole run and not once for each process.
    """

    id: str
    family: str
    tier: int
    needs: tuple[str, ...]
    run: Question
    whole: bool = False


def check(
    id: str, *, family: str, tier: int, needs: tuple[str, ...] = (), whole: bool = False
) -> Callable[[Question], Check]:
    """Makes a `Check` of the function below it; see `Check` for the arguments."""

    def made(question: Question) -> Check:
        return Check(id, family, tier, needs, question, whole)

    return made
