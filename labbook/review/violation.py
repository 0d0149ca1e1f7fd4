"""What a review says: a remark, and the rule that it comes from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from labbook.frozen import dataclass

if TYPE_CHECKING:
    from labbook.review.code_index import Code
    from labbook.review.source_file import Source


@dataclass(frozen=True)
class Violation:
    """One finding of a rule.

    Args:
        rule: Its name, as `# labbook: ok` takes it.
        symptom: Id of the catalogue, or "".
        severity: "error", "warning" or "note".
        tier: 1 certain from the text, 2 likely, 3 a hint.
        file: As it was given.
        line: From 1; in a notebook the line of the cell.
        cell: Number of the notebook's cell from 1, or 0.
        text: The source line.
        what: One sentence in the language that was asked for.
        advice: What to do, one sentence.
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

    @property
    def place(self) -> str:
        """Where it is: "train.py:41", "study.ipynb[3]:2"."""
        return f"{self.file}[{self.cell}]:{self.line}" if self.cell else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Hit:
    """Where a rule applies, with the values of its sentences; `severity` where it differs from that of the rule."""

    node: ast.AST
    values: Mapping[str, str] = field(default_factory=dict)
    severity: str = ""


Find = Callable[["Code", "Source"], Iterator[Hit]]


@dataclass(frozen=True)
class Rule:
    """A rule of the review. Its sentences stand in `templates/words/messages/<language>_review.toml`.

    Args:
        name: What silences it.
        symptom: Id of the catalogue, or "" where it has none.
        find: Yields the places in one file.
        source: Where the rule comes from.
        loop: Whether it judges a hand-written loop; it does not apply where a trainer runs the loop.
    """

    name: str
    symptom: str
    severity: str
    tier: int
    find: Find
    source: str
    loop: bool = False

    def message_key(self, part: str) -> str:
        """Returns the key of a sentence: `part` is "what" (is wrong at a place) or "advice"."""
        return f"review.{self.name.replace('-', '_')}.{part}"
