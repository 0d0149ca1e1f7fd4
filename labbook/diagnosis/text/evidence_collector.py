"""Collects exceptions and lines of a text with bounded memory: of similar ones the first and the last few."""

from __future__ import annotations

import builtins
import itertools
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from labbook.diagnosis.text.exit_lines import count_framework_words
from labbook.diagnosis.text.hedging import is_change_description, is_feature_request
from labbook.diagnosis.text.log_lines import LogLine
from labbook.diagnosis.text.parsed_exception import ParsedException
from labbook.diagnosis.text.survived_errors import has_training_steps
from labbook.model.evidence import ObservedException, OutputLine
from labbook.model.run import Frame

_FIRST = 4
_LAST = 4
_KINDS = 400
"""Groups of similar exceptions or lines; everything beyond them shares one group."""
_LONGEST_SAID = 4_000
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d[\d.,]*(?:e[-+]?\d+)?")

PRINTS_STEPS = "prints_steps"
"""Condition of evidence: the text contains step lines of a training."""
LAST_STEP = "last_step_line"
"""Fact of a log: the number of its last step line. What it reports before may have been survived."""
Kind = TypeVar("Kind")


class _FirstAndLast(Generic[Kind]):
    """The first and the last few of similar things, and how many there were."""

    def __init__(self) -> None:
        self.first: list[Kind] = []
        self.last: deque[Kind] = deque(maxlen=_LAST)
        self.count = 0

    def add(self, one: Kind) -> None:
        self.count += 1
        (self.first if len(self.first) < _FIRST else self.last).append(one)

    def __iter__(self) -> Iterator[Kind]:
        return itertools.chain(self.first, self.last)


@dataclass
class EvidenceCollector:
    """The evidence read so far."""

    stacks: list[tuple[Frame, ...]] = field(default_factory=list)
    clues: Counter[str] = field(default_factory=Counter)
    wished: bool = False
    proposed: bool = False
    steps: bool = False
    going: list[int] = field(default_factory=list)
    """Numbers of the last step lines, in order."""
    tail: bytes = b""
    newlines: int = 0
    _raised: dict[str, _FirstAndLast[ObservedException]] = field(default_factory=dict)
    _outputs: dict[str, _FirstAndLast[OutputLine]] = field(default_factory=dict)

    def add_exceptions(self, found: Iterable[ParsedException]) -> None:
        """Adds the exceptions of one writer, without last lines that only repeat a traceback."""
        for one in found:
            made = one.to_observed()
            if one.bare and self._is_repetition(made):
                continue
            wording = _NUMBER.sub("0", f"{made.type}|{made.message[:200]}")
            place = made.frames[-1] if made.frames else None
            kind = f"{made.rank}|{wording}|{(place.file, place.line) if place else ''}"
            self._store(self._raised, kind, made)

    def _is_repetition(self, made: ObservedException) -> bool:
        first = made.message.split("\n", 1)[0].strip()
        ones = (one for one in itertools.chain.from_iterable(self._raised.values()) if made.rank in (None, one.rank))
        known = (k for one in ones for k in (one, *(behind for behind, _ in one.context), one.inner) if k)
        return bool(first) and any(k.type == made.type and first in k.message for k in known)

    def add_line(self, line: LogLine, kind: str, text: str) -> None:
        """Adds one line or block outside of exceptions."""
        when = line.time if line.time is not None else float(line.number)
        output = OutputLine(text[:_LONGEST_SAID], kind, line.number, line.rank, 1, when)
        # The same words are counted once as a line and once as a block.
        wording = _NUMBER.sub("0", text[:160])
        self._store(self._outputs, f"{kind}|{line.rank}|{chr(10) in text}|{wording}", output)

    def note_wording(self, text: str, *, whole: bool) -> None:
        """Counts words of each framework, and notes whether the text is a feature request or describes a change."""
        self.wished = self.wished or is_feature_request(text[:20_000])
        self.steps = self.steps or has_training_steps(text[:20_000])
        self.proposed = self.proposed or (whole and is_change_description(text[:20_000]))
        self.clues.update(count_framework_words(text[:400_000]))

    def add_step(self, number: int) -> None:
        """Adds the number of a step line."""
        self.going.append(number)
        del self.going[: -2 * _KINDS]

    @staticmethod
    def _store(where: dict[str, _FirstAndLast[Kind]], kind: str, one: Kind) -> None:
        where.setdefault("" if kind not in where and len(where) >= _KINDS else kind, _FirstAndLast()).add(one)

    def exceptions(self) -> list[ObservedException]:
        """The collected exceptions."""
        all_ = list(itertools.chain.from_iterable(self._raised.values()))
        worded = {one.type for one in all_ if one.message.strip()}
        # A traceback without its end counts only where nothing else was found. Notebooks print the class at its head.
        return [one for one in all_ if one.message or (one.type and not _lacks_end(one, worded))] or all_

    def lines(self) -> list[OutputLine]:
        """The collected lines; the first of a group has the count of all."""
        groups = self._outputs.values()
        return [replace(one, count=1 if place else group.count) for group in groups for place, one in enumerate(group)]


def _lacks_end(one: ObservedException, worded: set[str]) -> bool:
    """Whether the text has this exception once more, with its message. Those of Python may have none."""
    return one.type in worded and not hasattr(builtins, one.type)


def guess_framework(clues: Counter[str]) -> str:
    """The framework whose words are more frequent; "" when neither is."""
    torch, paddle = clues["torch"], clues["paddle"]
    return "torch" if torch > paddle else "paddle" if paddle > torch else ""
