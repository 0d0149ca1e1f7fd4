"""What the reading of a text gathers, bounded: of alike exceptions and lines the first and the last few."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

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
"""Wordings that are told apart; a text with more of them than that tells nothing by them."""
_LONGEST_SAID = 4_000
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d[\d.,]*(?:e[-+]?\d+)?")

PRINTS_STEPS = "prints_steps"
"""Condition of evidence: the text holds the lines of a training that goes on."""


@dataclass
class _Bounded:
    first: list[object] = field(default_factory=list)
    last: deque[object] = field(default_factory=lambda: deque(maxlen=_LAST))
    count: int = 0

    def add(self, one: object) -> None:
        self.count += 1
        if len(self.first) < _FIRST:
            self.first.append(one)
        else:
            self.last.append(one)


@dataclass
class EvidenceCollector:
    """Everything that was read so far."""

    stacks: list[tuple[Frame, ...]] = field(default_factory=list)
    clues: Counter[str] = field(default_factory=Counter)
    wished: bool = False
    proposed: bool = False
    steps: bool = False
    going: list[int] = field(default_factory=list)
    """Numbers of the last lines of a training that goes on, in order."""
    tail: bytes = b""
    newlines: int = 0
    _raised: dict[str, _Bounded] = field(default_factory=dict)
    _said: dict[str, _Bounded] = field(default_factory=dict)
    _lines: int = 0

    def add_exceptions(self, found: Iterable[ParsedException]) -> None:
        """Takes exceptions of one writer, without last lines that only repeat a traceback."""
        for one in found:
            made = one.to_observed()
            if one.bare and self._is_repetition(made):
                continue
            wording = _NUMBER.sub("0", f"{made.type}|{made.message[:200]}")
            place = made.frames[-1] if made.frames else None
            kind = f"{made.rank}|{wording}|{(place.file, place.line) if place else ''}"
            self._keep(self._raised, kind, made)

    def _is_repetition(self, made: ObservedException) -> bool:
        first = made.message.split("\n", 1)[0].strip()
        for kept in self._raised.values():
            for one in (*kept.first, *kept.last):
                assert isinstance(one, ObservedException)
                known = [one, *(behind for behind, _ in one.context), *([one.inner] if one.inner else [])]
                if any(k.type == made.type and first and first in k.message for k in known) and (
                    made.rank is None or made.rank == one.rank
                ):
                    return True
        return False

    def add_line(self, line: LogLine, kind: str, text: str) -> None:
        """Takes one line or block outside of exceptions."""
        when = line.time if line.time is not None else float(line.number)
        said = OutputLine(text[:_LONGEST_SAID], kind, line.number, line.rank, 1, when)
        # Blocks beside lines: the same words count once as each.
        wording = _NUMBER.sub("0", text[:160])
        self._keep(self._said, f"{kind}|{line.rank}|{chr(10) in text}|{wording}", said)

    def note_wording(self, text: str, *, whole: bool) -> None:
        """Counts what a text says of the framework, and whether it only asks for something or proposes a change.

        Args:
            text: Without prefixes.
            whole: Whether it is all there is.
        """
        self.wished = self.wished or is_feature_request(text[:20_000])
        self.note_steps(text[:20_000])
        self.proposed = self.proposed or (whole and is_change_description(text[:20_000]))
        self.clues.update(count_framework_words(text[:400_000]))

    def note_steps(self, text: str) -> None:
        """Notes whether a text holds the lines of a training that goes on."""
        self.steps = self.steps or has_training_steps(text)

    def add_step(self, number: int) -> None:
        """Notes a line of a training that goes on."""
        self.going.append(number)
        del self.going[: -2 * _KINDS]

    @staticmethod
    def _keep(where: dict[str, _Bounded], kind: str, one: object) -> None:
        if kind not in where and len(where) >= _KINDS:
            kind = ""
        where.setdefault(kind, _Bounded()).add(one)

    def exceptions(self) -> list[ObservedException]:
        """The exceptions that are kept."""
        all_ = [
            one
            for kept in self._raised.values()
            for one in (*kept.first, *kept.last)
            if isinstance(one, ObservedException)
        ]
        # A traceback whose end is missing says something only where nothing else does.
        return [one for one in all_ if one.type or one.message] or all_

    def lines(self) -> list[OutputLine]:
        """The lines that are kept; the first of a wording tells how many there were."""
        told = []
        for kept in self._said.values():
            for place, one in enumerate((*kept.first, *kept.last)):
                assert isinstance(one, OutputLine)
                count = kept.count if place == 0 else 1
                told.append(OutputLine(one.text, one.kind, one.line, one.rank, count, one.order))
        return told


def guess_framework(clues: Counter[str]) -> str:
    """The framework that a text speaks of; "" when it speaks of neither or of both alike."""
    torch, paddle = clues["torch"], clues["paddle"]
    if torch == paddle:
        return ""
    return "torch" if torch > paddle else "paddle"
