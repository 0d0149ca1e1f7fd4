"""What earlier runs say about the differences that may have cured a run.

What was there in the last healthy run does no harm by itself; what came since may. What an earlier failed attempt had
already is no cure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from difflib import SequenceMatcher

from labbook.fixes.backward_slice import Slice, slice_backward
from labbook.fixes.difference_names import list_failing_frames
from labbook.frozen import dataclass
from labbook.model.confirmed_fix import changed_lines
from labbook.model.run import Change, Run

NEW_SINCE_HEALTHY, UNKNOWN, HARMLESS, NO_CURE = -1, 0, 1, 2

_UPDATES = (".backward(", ".step(", ".minimize(")
"""Calls of a training step, from which a slice begins where no line failed."""


@dataclass(frozen=True)
class Background:
    """Earlier runs of a failed one, and its code.

    Args:
        since_healthy: Differences between the last healthy run before and the failed one; `None` if there is none.
        attempts: Differences between each earlier failed attempt and the failed run.
        before: What reaches the failing line in the run that failed.
        now: The same in the later run.
        is_of_data: Whether the data were found to be wrong: what reaches the failing line is what reaches the model.
    """

    since_healthy: Sequence[Change] | None = None
    attempts: Sequence[Sequence[Change]] = ()
    before: Slice = field(default_factory=Slice)
    now: Slice = field(default_factory=Slice)
    is_of_data: bool = False

    def judge(self, change: Change) -> int:
        """Returns what earlier runs say about a difference: one of the constants above."""
        if any(_is_taken_back(change, attempt) for attempt in self.attempts):
            return NO_CURE
        if self.since_healthy is None:
            return UNKNOWN
        old, new = changed_lines(change.detail)
        if not old and not new:
            is_new = any((one.kind, one.what) == (change.kind, change.what) for one in self.since_healthy)
            return NEW_SINCE_HEALTHY if is_new else HARMLESS
        gone, came = _lines_of(change, self.since_healthy)
        if not came.isdisjoint(old) or not gone.isdisjoint(new):
            return NEW_SINCE_HEALTHY
        return HARMLESS if old else UNKNOWN

    def count_steps(self, change: Change, names: Sequence[str]) -> int | None:
        """Returns the steps from a difference to the failing line, `None` if it does not reach it.

        Args:
            names: Names of an option, variable or key.
        """
        if change.kind != "code":
            steps = [one.names[name] for one in (self.before, self.now) for name in names if name in one.names]
            return min(steps, default=None)
        sides = zip((self.before, self.now), changed_lines(change.detail), strict=True)
        found = [side.find_line(change.what, line) for side, lines in sides for line in lines]
        return min((one for one in found if one is not None), default=None)


def _is_taken_back(change: Change, attempt: Sequence[Change]) -> bool:
    """Whether a difference restores what an earlier failed attempt had."""
    old, new = changed_lines(change.detail)
    if not old and not new:
        same = [one for one in attempt if (one.kind, one.what) == (change.kind, change.what)]
        return any(one.before == change.now for one in same)
    gone, came = _lines_of(change, attempt)
    return gone.issuperset(new) and came.issuperset(old)


def _lines_of(change: Change, others: Sequence[Change]) -> tuple[set[str], set[str]]:
    """Returns the lines that some differences took out of the file of a difference, and put into it."""
    parts = [changed_lines(one.detail) for one in others if (one.kind, one.what) == (change.kind, change.what)]
    return {line for old, _ in parts for line in old}, {line for _, new in parts for line in new}


def slice_failure(
    failed: Run, code: dict[str, str], now: dict[str, str], *, is_of_data: bool = False
) -> tuple[Slice, Slice]:
    """Returns what reaches the failing lines of a run, in its code and in that of a later one.

    Args:
        code: Path -> text of the files of the run that failed.
        now: The same of the later run.
        is_of_data: Whether the code of models is left out.
    """
    frames = [(frame.file, frame.line) for frame in list_failing_frames(failed)] or [
        (str(f.where["file"]), int(f.where.get("line") or 0)) for f in failed.findings if f.where.get("file")
    ]
    places = [(path, line) for file, line in frames for path in code if f"/{file}".endswith(f"/{path}")]
    if not places:
        rows = [(path, n, text) for path in code for n, text in enumerate(code[path].splitlines(), 1)]
        places = [(path, n) for call in _UPDATES for path, n, text in rows if call in text]
    later = [(path, n) for path, line in places for n in _find_again(code[path], line, now.get(path, ""))]
    return slice_backward(code, places, is_of_data), slice_backward(now, later, is_of_data)


def _find_again(text: str, line: int, other: str) -> list[int]:
    """Returns the number of a line in another version of its file, else that of the same call."""
    rows, others = text.splitlines(), [row.strip() for row in other.splitlines()]
    wanted = rows[line - 1].strip() if 0 < line <= len(rows) else ""
    same = [n for n, row in enumerate(others, 1) if wanted and row == wanted]
    start = wanted.partition("(")[0] + "("
    alike = [n for n, row in enumerate(others, 1) if wanted and row.startswith(start)]
    return same[:1] or sorted(alike, key=lambda n: -SequenceMatcher(None, wanted, others[n - 1]).ratio())[:1]
