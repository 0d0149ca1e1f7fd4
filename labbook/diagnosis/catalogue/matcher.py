"""Matches exceptions, lines and exit statuses with the patterns of the catalogue."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from labbook.diagnosis.catalogue.pattern import NormalisedText, compile_pattern, is_different, normalise_text
from labbook.diagnosis.catalogue.symptom_catalogue import KINDS, Catalogue
from labbook.frozen import dataclass
from labbook.model.evidence import ObservedException, OutputLine, ProcessEnd
from labbook.model.symptom import Pattern, Symptom

_MOST_LETTERS = 20_000
_HALF = _MOST_LETTERS // 2
_WHOLE = re.compile(r"\[Errno \d+\] [^:]+$")
"""An error of the system without a file name: it has no further part that may be cut off."""

_CUT_SIGNS = re.compile(r"(?:\.{2,}|[\s…'\"`*)\]])+$")
"""What a reader puts where a message breaks off; one full stop ends a whole sentence."""
_SPEAKS_ALONE = 24
"""A pattern with a class needs so many characters to match a message without a class: `'model'` may be any word."""

ENDINGS = ("oom_kill", "time_limit", "lost_node", "reader_died", "stalled")
"""Facts of `Ending` that a pattern `exit:` may name beside statuses and signals."""


@dataclass(frozen=True)
class Match:
    """A page that fits a piece of evidence.

    Args:
        weight: 3 certain, 2 likely, 1 a hint.
        length: Characters of the pattern; of two that fit, the longer one is more specific.
        values: What its placeholders captured.
        typed: Whether the pattern names the class of the exception.
        whole: Whether the message begins with it, and is one of its kind: not a class alone, nor a line like a message.
    """

    symptom: Symptom
    weight: int
    length: int
    values: Mapping[str, str]
    typed: bool = False
    whole: bool = False

    @property
    def strength(self) -> tuple[int, bool, int]:
        """Sort key; the strongest match has the largest."""
        return (self.weight, self.length > 0 or self.typed, self.length)


class _Shape(NamedTuple):  # there are 4,900; instances of a frozen data class took half as long again to make
    symptom: Symptom
    pattern: Pattern


class Matcher:
    """The patterns of a catalogue, prepared for matching."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        # Each with the text that must occur in what it fits, the quick first test of all of them.
        self._shapes: dict[str, list[tuple[str, _Shape]]] = {kind: [] for kind in KINDS}
        self._by_type: dict[str, list[_Shape]] = {}
        self._by_beginning: dict[str, list[_Shape]] = {}
        for symptom in catalogue.symptoms.values():
            for pattern in symptom.patterns:
                shape = _Shape(symptom, pattern)
                if not pattern.text and pattern.kind == "exception":
                    for name in pattern.types:
                        self._by_type.setdefault(name, []).append(shape)
                else:
                    self._shapes[pattern.kind].append((pattern.anchor, shape))
                    if pattern.beginning and pattern.kind == "exception":
                        self._by_beginning.setdefault(pattern.beginning, []).append(shape)

    def match_exception(self, raised: ObservedException, framework: str = "") -> list[Match]:
        """The pages that fit one exception, strongest first; its `inner` exception does not count."""
        # Of an `assert` without a message its source line counts.
        source = raised.failing_line if raised.type == "AssertionError" else ""
        text = normalise_text(_shorten(raised.message or source))
        names = {raised.type, f"{raised.module}.{raised.type}"} if raised.type else set()
        found = self._matching(self._shapes["exception"], text, names, framework)
        # Libraries print one exception inside another, with the class before its message.
        found += self._matching(self._shapes["output"], text, names, framework)
        for name in names:
            for shape in self._by_type.get(name, ()):
                if _fits_framework(shape, framework) and not _is_excluded(shape.symptom, text):
                    found.append(Match(shape.symptom, shape.pattern.weight, 0, {}, typed=True, whole=not text.low))
        if not any(match.length for match in found) and not _WHOLE.match(raised.message):
            found += self._cut(raised.message, names, framework)
        # What a page excludes may be the class: one library quotes the error of another.
        named = normalise_text(f"{raised.module}.{raised.type}")
        return _keep_strongest([match for match in found if not _is_excluded(match.symptom, named)])

    def match_line(self, line: OutputLine, framework: str = "", *, as_exception: bool = False) -> list[Match]:
        """The pages that fit a line of output, strongest first.

        Args:
            framework: "torch", "paddle" or "" if unknown.
            as_exception: Whether it may be the message of an exception without its class.
        """
        text = normalise_text(_shorten(line.text))
        found = self._matching(self._shapes["output"], text, set(), framework)
        if line.kind == "warning":
            found += self._matching(self._shapes["warning"], text, set(), framework)
        elif as_exception:
            shown = self._matching(self._shapes["exception"], text, set(), framework)
            found += [replace(match, whole=False) for match in shown]
        return _keep_strongest(found)

    def match_ending(self, ending: ProcessEnd) -> list[Match]:
        """The pages that fit how a process ended, strongest first."""
        names = {ending.signal or str(ending.facts.get("child_signal") or ""), str(ending.exit_code)}
        found = []
        known = {name for name in ENDINGS if ending.facts.get(name)}
        for _, shape in self._shapes["exit"]:
            wanted = set(shape.pattern.exits)
            if wanted & (names | known):
                # A known reason is more specific than a status or signal.
                specific = 1 if wanted & known else 0
                found.append(Match(shape.symptom, shape.pattern.weight, specific, {}, typed=True, whole=True))
        return _keep_strongest(found)

    def _cut(self, message: str, names: set[str], framework: str) -> list[Match]:
        """The pages whose patterns start like a message without its end; none where their families differ."""
        line = next((line for line in message.splitlines() if line.strip()), "")
        text = normalise_text(_CUT_SIGNS.sub("", line[:_MOST_LETTERS]))
        best: list[Match] = []
        near = [shapes for beginning, shapes in self._by_beginning.items() if beginning in text.low]
        for shape in itertools.chain.from_iterable(near):
            wanted = shape.pattern.types
            if (wanted and names and not names & set(wanted)) or not _fits_framework(shape, framework):
                continue
            letters = compile_pattern(shape.pattern.text).find_cut(text)
            if letters < (best[0].length if best else 1) or _is_excluded(shape.symptom, text):
                continue
            match = Match(shape.symptom, min(2, shape.pattern.weight), letters, {})
            best = [*best, match] if best and letters == best[0].length else [match]
        return best if len({match.symptom.family for match in best}) == 1 else []

    def _matching(
        self, shapes: Iterable[tuple[str, _Shape]], text: NormalisedText, names: set[str], framework: str
    ) -> list[Match]:
        found = []
        low = text.low
        for shape in [shape for anchor, shape in shapes if anchor in low]:
            template = compile_pattern(shape.pattern.text)
            typed = bool(names and names & set(shape.pattern.types))
            if shape.pattern.types and not typed and (names or template.length < _SPEAKS_ALONE):
                continue
            if not _fits_framework(shape, framework):
                continue
            values = template.find(text)
            quantity = shape.pattern.differ
            if values is None or (quantity and not is_different(quantity, values["a"], values["b"])):
                continue
            if not _is_excluded(shape.symptom, text):
                whole = template.is_whole(text)
                found.append(Match(shape.symptom, shape.pattern.weight, template.length, values, typed, whole))
        return found


def _fits_framework(shape: _Shape, framework: str) -> bool:
    wanted = shape.pattern.frameworks
    return not wanted or not framework or framework in wanted


def _is_excluded(symptom: Symptom, text: NormalisedText) -> bool:
    return any(compile_pattern(template).find(text) is not None for template in symptom.not_when)


def _keep_strongest(found: Sequence[Match]) -> list[Match]:
    """One match for each page, strongest first; equally strong ones in the order of their ids."""
    ordered = sorted(sorted(found, key=lambda m: m.symptom.id), key=lambda m: m.strength, reverse=True)
    best: dict[str, Match] = {}
    for match in ordered:
        first = best.setdefault(match.symptom.id, match)
        if match.whole and match.weight == first.weight:
            best[first.symptom.id] = replace(first, whole=True)
    return list(best.values())


def _shorten(message: str) -> str:
    """The beginning and the end of a very long message."""
    return message if len(message) <= _MOST_LETTERS else f"{message[:_HALF]}\n{message[-_HALF:]}"
