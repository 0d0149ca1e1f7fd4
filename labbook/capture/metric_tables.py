"""Reads metrics from tables on the console: a row of names over rows of numbers, or names beside numbers.

skorch and pandas align columns by blanks, Rich and Markdown separate cells by bars. Time is linear in the text.
"""

from __future__ import annotations

import re
from itertools import pairwise

from labbook.capture.metric_names import data_split, has_split, metric_name
from labbook.model.metric_kinds import metric_kind

_BARS = re.compile("[|│┃]")
_RULE = re.compile(r"[\s|│┃+\-=_:.━─═┏┓┗┛┡┩╇┳┻┠┨├┤┼┌┐└┘┬┴╞╡╪╤╧]*")
_CELL = re.compile(r"\S+(?: \S+)*")
_WORD = re.compile(r"\S+")
_NUMBER = re.compile(
    r"[-+]?(?:\d{1,15}\.\d{0,20}|\.\d{1,20}|\d{1,15})(?:[eE][-+]?\d{1,3})?%?|[-+]?(?:nan|inf)", re.IGNORECASE
)
_IN_BRACKETS = re.compile(rf"\[({_NUMBER.pattern})\]", re.IGNORECASE)
"""A number as an array of one value, as DeepXDE prints it."""
_BAR_OF_PROGRESS = re.compile(r":?\s*\d{1,3}%\|.*")
_OVER_ALL = frozenset({"all", "overall", "total", "average", "avg", "mean", "epoch"})
_OVER_CLASSES = frozenset({"macro avg", "macro"})
"""Row of a report of scikit-learn that says something of all classes; the others are of one class each."""
_PLACES = {"epoch": "epoch", "ep": "epoch", "step": "step", "iter": "step", "iteration": "step", "global_step": "step"}
_MOST_CELLS = 40
_MISSES = 2
_UNIT = re.compile(r"(?<=\w)\s{0,2}\([^()]{1,12}\):?\Z")
"""What a column is in: "val mae (MW)"."""


class TableReader:
    """Reads the lines of a console one by one; knows the columns of the table that they are in."""

    def __init__(self) -> None:
        self._columns: list[tuple[int, int, str]] = []
        self._by_bars = False
        self._misses = 0

    def read(self, line: str) -> tuple[list[tuple[str, float]], dict[str, int]]:
        """Returns the metrics in a row of a table, and its "epoch" or "step".

        Args:
            line: A line in which no name is directly before its number.
        """
        line = _BAR_OF_PROGRESS.sub("", line)
        by_bars = len(_BARS.findall(line)) >= 2
        cells = _cells(line, by_bars=by_bars)
        if not cells or len(cells) > _MOST_CELLS:
            if not _RULE.fullmatch(line):
                self._miss()
            return [], {}
        bare = [_IN_BRACKETS.fullmatch(text) for _, _, text in cells]
        cells = [(begin, end, one[1] if one else text) for (begin, end, text), one in zip(cells, bare, strict=True)]
        numbers = [_NUMBER.fullmatch(text) is not None for _, _, text in cells]
        if by_bars and len(cells) == 2 and numbers == [False, True]:
            return _select_metrics([(cells[0][2], cells[1][2])]), {}
        if not any(numbers):
            self._begin(cells, by_bars=by_bars)
            return [], {}
        if not self._columns or by_bars != self._by_bars:
            return [], {}
        label = cells[0][2].lower()
        if any(name.lower() == "support" for _, _, name in self._columns):
            if label not in _OVER_CLASSES:
                return [], {}
        elif not numbers[0] and label not in _OVER_ALL and "/" not in label:
            self._miss()
            return [], {}
        self._misses = 0
        pairs = self._aligned(cells)
        places = {
            _PLACES[name.lower()]: int(text.partition("/")[0])
            for name, text in pairs
            if name.lower() in _PLACES and text.partition("/")[0].isdigit()
        }
        return _select_metrics(pairs), places

    def _begin(self, cells: list[tuple[int, int, str]], *, by_bars: bool) -> None:
        """Takes a row of words as names of columns if one of them is a metric."""
        names = [metric_name(_title(text)) for _, _, text in cells]
        if len(cells) >= 2 and any(name is not None for name in names):
            self._columns, self._by_bars, self._misses = cells, by_bars, 0
        else:
            self._miss()

    def _miss(self) -> None:
        self._misses += 1
        if self._misses >= _MISSES:
            self._columns = []

    def _aligned(self, cells: list[tuple[int, int, str]]) -> list[tuple[str, str]]:
        """Returns (name, text) of the cells: in order, or those of blanks, if some are missing, below their names."""
        if len(cells) == len(self._columns):
            return [(_title(name), text) for (_, _, name), (_, _, text) in zip(self._columns, cells, strict=True)]
        if self._by_bars or (min(_gaps(self._columns)) > 1 and 1 in _gaps(cells)):
            return []  # another line between the rows, as of a callback
        found = []
        for begin, end, text in cells:
            under = [name for first, last, name in self._columns if first < end and begin < last]
            if len(under) == 1:
                found.append((_title(under[0]), text))
        return found


def _cells(line: str, *, by_bars: bool) -> list[tuple[int, int, str]]:
    """Returns (begin, end, text) of the cells of a line that are not empty."""
    if by_bars:
        parts = [part.strip() for part in _BARS.split(line)]
        return [(n, n + 1, part) for n, part in enumerate(parts) if part]
    pattern = _CELL if "   " in line.strip() else _WORD
    return [(m.start(), m.end(), m.group()) for m in pattern.finditer(line)]


def _title(cell: str) -> str:
    """Returns the name in a cell of titles, without its unit."""
    return _UNIT.sub("", cell).rstrip(":)")


def _gaps(cells: list[tuple[int, int, str]]) -> list[int]:
    return [behind[0] - cell[1] for cell, behind in pairwise(cells)]


def _select_metrics(pairs: list[tuple[str, str]]) -> list[tuple[str, float]]:
    """Returns name and value of the pairs that are metrics."""
    found: dict[str, float] = {}
    for name, text in pairs:
        named = metric_name(name)
        if named is None or named[0] == "lr" or _NUMBER.fullmatch(text) is None:
            continue
        is_reward = metric_kind(named[0]).quantity == "reward"  # printed with three digits, as 99.5 and 187
        if not named[1] and not is_reward and "." not in text:
            continue
        part = data_split(name)
        full = named[0] if not part or has_split(named[0]) else f"{part}/{named[0]}"
        found.setdefault(full, float(text.rstrip("%")))
    return list(found.items())
