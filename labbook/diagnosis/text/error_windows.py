"""Finds the parts of a long log that may report a failure, by searching blocks of bytes for rare words."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from labbook.diagnosis.text.log_lines import LONGEST_LINE
from labbook.diagnosis.toml_data import join_patterns, read_toml

_TABLES = read_toml(Path(__file__).with_name("rare_words.toml"))
_RE = {
    name: re.compile(join_patterns(_TABLES[name]).encode()) for name in ("error_word", "no_number", "begins", "goes_on")
}
_ALSO = {"weak": None, "error": _RE["error_word"], "nonfinite": _RE["no_number"]}
_STRONG: dict[bytes, re.Pattern[bytes] | None] = {word.encode(): None for word in _TABLES["strong"]["items"]}
_WEAK = {word.encode(): also for name, also in _ALSO.items() for word in _TABLES[name]["items"]}
"""Rare parts of words; where a word is common in healthy logs, with a pattern that its line must fit too."""

_BEFORE = 12
_AFTER = 30
"""Lines read after the last one that looks like a failure: a message may continue, a chain may follow."""
_LONGEST = 4_000
_BUDGET = 20_000
"""Lines that are parsed. Of a program that prints a traceback at each step the first thousand are enough; after the
budget only the last window is parsed. Source: chosen by us, about two seconds of parsing."""
_LONGEST_BYTES = 8 * LONGEST_LINE
_BLOCK = 1 << 20
_COLOUR = re.compile(rb"\x1b\[[\d;]*m")
"""Notebooks colour parts of a line: a marker of the line that failed, a class, each word of the code."""


class ErrorWindow(NamedTuple):
    """Consecutive lines that are parsed together.

    Args:
        lines: With their numbers.
        whole: Whether they are the whole text.
        alone: Whether each line is parsed on its own.
    """

    lines: list[tuple[int, bytes]]
    whole: bool = False
    alone: bool = False


def find_windows(chunks: Iterable[bytes], short: int) -> Iterator[ErrorWindow]:
    """The windows of a log that may hold a failure, in order; a text of up to `short` lines as one window."""
    blocks = (_COLOUR.sub(b"", block) for block in _whole_lines(chunks))
    start = b""
    for block in blocks:
        start += block
        if start.count(b"\n") > short or len(start) > 4 * _BLOCK:
            break
    else:
        lines = start.removesuffix(b"\n").split(b"\n") if start else []
        yield ErrorWindow(list(enumerate(lines, 1)), whole=True)
        return
    finder = _WindowFinder()
    yield from finder.search(start)
    for block in blocks:
        yield from finder.search(block)
    yield from finder.close()


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines; a line of more than 2 MiB loses its middle."""
    rest = bytearray()
    for chunk in chunks:
        for at in range(0, len(chunk), _BLOCK):
            part = chunk[at : at + _BLOCK]
            end = part.rfind(b"\n")
            if end < 0:
                rest += part
                if len(rest) > 2 * _BLOCK:
                    del rest[_LONGEST_BYTES : len(rest) - _LONGEST_BYTES]
                continue
            yield bytes(rest) + part[: end + 1]
            rest = bytearray(part[end + 1 :])
    if rest:
        yield bytes(rest)


class _WindowFinder:
    """Finds windows block by block; a window may continue in the next block."""

    def __init__(self) -> None:
        self._open: list[tuple[int, bytes]] = []
        self._inside = False
        self._quiet = 0
        self._number = 1
        self._read = 0
        self._skipped: list[tuple[int, bytes]] = []
        self._alone: list[tuple[int, bytes]] = []
        self._alone_read = 0

    def search(self, block: bytes) -> Iterator[ErrorWindow]:
        strong, weak = _line_starts(block, _STRONG), _line_starts(block, _WEAK)
        candidates = sorted(strong | weak)
        at = 0
        while at < len(block):
            if self._inside:
                at = self._extend(block, at, strong)
                if self._quiet > _AFTER or len(self._open) >= _LONGEST:
                    yield from self._close_window()
                continue
            place = bisect_left(candidates, at)
            if place >= len(candidates):
                break
            start = candidates[place]
            line = _line_at(block, start)
            number = self._number + block.count(b"\n", at, start)
            if start in strong and _RE["begins"].search(line[:_LONGEST_BYTES]):
                self._begin(block, at, start, number)
                at = start
                continue
            self._alone.append((number, _shorten_line(line)))
            at = start + len(line) + 1
            self._number = number + 1
            if len(self._alone) >= 1000:
                yield from self._singles()
        if at < len(block):
            self._number += block.count(b"\n", at)
        yield from self._singles()

    def _begin(self, block: bytes, at: int, start: int, number: int) -> None:
        """Opens a window a few lines above the line that was found."""
        above = block[max(at, start - _BEFORE * _LONGEST_BYTES) : start].split(b"\n")[-_BEFORE - 1 : -1]
        self._open = [(place, _shorten_line(line)) for place, line in enumerate(above, number - len(above))]
        self._inside, self._quiet, self._number = True, 0, number

    def _extend(self, block: bytes, at: int, strong: set[int]) -> int:
        while at < len(block):
            line = _line_at(block, at)
            self._open.append((self._number, _shorten_line(line)))
            if at in strong and _RE["begins"].search(line[:_LONGEST_BYTES]):
                self._quiet = 0
            elif not (self._quiet < 3 and _RE["goes_on"].match(line)):
                self._quiet += 1
            at += len(line) + 1
            self._number += 1
            if self._quiet > _AFTER or len(self._open) >= _LONGEST:
                break
        return at

    def _close_window(self) -> Iterator[ErrorWindow]:
        lines, self._open, self._inside, self._quiet = self._open, [], False, 0
        if self._read < _BUDGET:
            self._read += len(lines)
            yield ErrorWindow(lines)
        else:
            self._skipped = lines

    def _singles(self) -> Iterator[ErrorWindow]:
        lines, self._alone = self._alone, []
        self._alone_read += len(lines)
        if lines:
            # Of a flood of warnings only a shrinking share is parsed, and counted.
            step = 1 + self._alone_read // (10 * _BUDGET)
            yield ErrorWindow(lines[::step], alone=True)

    def close(self) -> Iterator[ErrorWindow]:
        if self._inside:
            self._read = 0
            yield from self._close_window()
        if self._skipped:
            yield ErrorWindow(self._skipped)


def _line_starts(block: bytes, words: dict[bytes, re.Pattern[bytes] | None]) -> set[int]:
    starts: set[int] = set()
    for word, also in words.items():
        at = block.find(word)
        while at >= 0:
            start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
            end = len(block) if end < 0 else end
            if also is None or also.search(block, max(start, at - 200), min(end, at + 200)):
                starts.add(start)
            at = block.find(word, end)
    return starts


def _line_at(block: bytes, start: int) -> bytes:
    end = block.find(b"\n", start)
    return block[start:] if end < 0 else block[start:end]


def _shorten_line(line: bytes) -> bytes:
    return line if len(line) <= 2 * _LONGEST_BYTES else line[:_LONGEST_BYTES] + b" ... " + line[-_LONGEST_BYTES:]
