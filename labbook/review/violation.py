"""A violation that a review reports, and the rule behind it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial

from labbook.frozen import dataclass
from labbook.review.code_index import Code
from labbook.review.source_file import Source


@dataclass(frozen=True)
class Violation:
    """A violation of a rule at a line of code.

    Args:
        rule: Name of the rule, as in `# labbook: ok`.
        symptom: Id of the symptom page, or "".
        severity: "error", "warning" or "note".
        tier: 1 certain from the text, 2 likely, 3 a hint.
        file: Path as passed to the review.
        line: From 1; in a notebook the line of the cell.
        cell: Number of the notebook's cell from 1, or 0.
        text: The source line.
        what: Description, one sentence in the requested language.
        advice: Advice, one sentence in the requested language.
    """

    rule: str
    symptom: str
    severity: str
    tier: int
    file: str
    line: int
    text: str
    what: str
    advice: str
    cell: int = 0
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Location: "train.py:41", "study.ipynb[3]:2"."""
        return f"{self.file}[{self.cell}]:{self.line}" if self.cell else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Hit:
    """A node that violates a rule, with the values of its sentences; `severity` if it differs from the rule's."""

    node: ast.AST
    values: Mapping[str, str] = field(default_factory=dict)
    severity: str = ""


Find = Callable[["Code", "Source"], Iterator[Hit]]


@dataclass(frozen=True)
class Rule:
    """A rule of the review. Its sentences are in `templates/words/messages/<language>_review*.toml`.

    Args:
        name: Name that `# labbook: ok` silences.
        symptom: Id of the symptom page, or "".
        find: Yields the violations in one file.
        source: Origin of the rule.
        loop: Whether it checks hand-written loops; it is skipped if a trainer library runs the loop.
        row: Class of the row that it adds to the checklist of a run, for a fault that no measurement shows; "": none.
            That of a warning is "loop-bug" where it does not say another.
        explains: Whether it finds what the check of its symptom takes for a fault, done on purpose.
        resumed: Whether its row is one of runs that began with loaded weights; the same code also runs without them.
    """

    name: str
    symptom: str
    severity: str
    tier: int
    find: Find
    source: str
    loop: bool = False
    row: str = ""
    explains: bool = False
    resumed: bool = False

    def message_key(self, part: str) -> str:
        """Return the key of a sentence: `part` is "what" (the description) or "advice"."""
        return f"review.{self.name.replace('-', '_')}.{part}"


def _rule(
    severity: str,
    symptom: str,
    source: str,
    *,
    tier: int,
    loop: bool = False,
    row: str = "",
    explains: bool = False,
    resumed: bool = False,
) -> Callable[[Find], Rule]:
    """Turn the decorated function into a `Rule` of its name; see `Rule` for the arguments."""

    def decorate(find: Find) -> Rule:
        name = find.__name__.replace("_", "-")
        return Rule(name, symptom, severity, tier, find, source, loop, row, explains, resumed)

    return decorate


error = partial(_rule, "error", tier=1)
warning = partial(_rule, "warning", tier=2, row="loop-bug")
note = partial(_rule, "note", tier=3)
"""Decorators of rules of a severity, with its usual tier: `@warning("softmax_wrong_axis", source)`."""
