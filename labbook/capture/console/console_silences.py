"""Times at which a command printed nothing, so that its lines can be assigned to processes that ran in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from labbook.store.json_files import read_text_or_nothing

_NAME = "silences.txt"
_SHORTEST_S = 0.3
"""Source: chosen by us; Python needs longer to import a framework."""
_MOST = 4096
"""Silences until only those of twice the length are noted, which bounds the file."""


class Silence(NamedTuple):
    """A time without output. Unix seconds, and the number of the line after it."""

    began: float
    ended: float
    line: int


class SilenceLog:
    """Appends the silences of a run to a file in the folder of its console."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._last = 0.0
        self._count = 0

    def end_silence(self, find_line: Callable[[], int | None]) -> None:
        """Notes a silence that ends now, if it was long.

        Args:
            find_line: Returns the number of the line that begins; `None` within a line, where nothing is noted.
        """
        now = time.time()
        began, self._last = self._last, now
        if now - began < _SHORTEST_S * 2 ** (self._count // _MOST):
            return
        line = find_line()
        if line is None or (not began and line != 1):  # a recorder before this one wrote the lines until now
            return
        self._count += 1
        with suppress(OSError), self._path.open("a", encoding="ascii") as file:
            file.write(f"{began:.3f} {now:.3f} {line}\n")


def read_silences(folder: Path) -> list[Silence]:
    """Returns the silences of a run in order; none if a part of its output went to a file, which has no times."""
    if (folder / "files.json").exists():
        return []
    found = []
    for row in read_text_or_nothing(folder / _NAME).splitlines():
        with suppress(ValueError):
            began, ended, line = row.split()
            found.append(Silence(float(began), float(ended), int(line)))
    return found


def lines_of_spans(starts: Sequence[float], silences: Sequence[Silence]) -> list[int]:
    """Returns the number of the first line after each start; none unless each one is in a silence."""
    found = [next((s.line for s in silences if s.began <= start <= s.ended), 0) for start in starts]
    return found if all(found) else []
