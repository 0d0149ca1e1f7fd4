"""Removes errors that a training survived: its log prints steps after a warning or a handled error.

Only for logs: in the report of a person every error that they show counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from labbook.diagnosis.text.exit_lines import prints_nonfinite
from labbook.diagnosis.toml_data import compile_patterns
from labbook.model.evidence import ObservedException, OutputLine

_RE = compile_patterns(__file__)

_ENOUGH = 3
"""Step lines after an error that the training survived. Source: chosen by us; one may come from another rank."""
_ENOUGH_BEFORE_END = 2
"""The same after what programs do without, and where they say that they are done. Source: chosen by us."""


def has_training_steps(text: str) -> bool:
    """Whether a text contains step lines of a training."""
    return _RE["step"].search(text) is not None


def is_training_step(text: str) -> bool:
    """Whether a line is a step line with finite numbers."""
    return _RE["step"].search(text) is not None and not prints_nonfinite(text)


def is_soft(text: str) -> bool:
    """Whether a line reports only what programs often do without."""
    return _RE["soft"].search(text) is not None


def find_good_end(lines: Sequence[str], last: int) -> int:
    """Number of the last line by which a program says that it is done, 0 without one."""
    ends = (place for place, text in enumerate(lines, 1) if _RE["done"].search(text))
    return last - len(lines) + max(ends, default=len(lines) - last)


def only_reports(text: str) -> bool:
    """Whether the end of a text says that tests passed, or is the help of a program."""
    return _RE["passed"].search(text) is not None


def was_caught(one: ObservedException) -> bool:
    """Whether a traceback was printed by who caught it: it starts in a function, not in a module or worker.

    The traceback that ends a process starts where the process started. One that Python ignored ends nothing.
    """
    if not one.ended_process:
        return True
    first = one.frames[0] if one.frames and one.inner is None and not one.context else None
    return first is not None and first.user and not first.function.startswith("<") and not one.thread


def drop_survived(
    raised: list[ObservedException], lines: list[OutputLine], steps: Sequence[int], good_end: int = 0
) -> tuple[list[ObservedException], list[OutputLine]]:
    """The exceptions and lines after which the training did not continue.

    Args:
        raised: If one of them ended its process with a traceback, all remain, unless the training went on after it and
            said that it ended.
        lines: Lines outside of exceptions.
        steps: Numbers of the step lines, in order.
        good_end: Number of the line by which the program says that it is done, 0 without one.
    """
    traced = [one.line for one in raised if (one.frames or one.inner) and not was_caught(one)]
    if traced and not (good_end > max(traced) and len(steps) - bisect_right(steps, max(traced)) >= _ENOUGH):
        return raised, lines
    if any(_RE["people"].search(one.text) for one in lines if one.kind == "output"):
        return raised, lines

    def is_kept(one: ObservedException | OutputLine) -> bool:
        text, kind = (one.text, one.kind) if isinstance(one, OutputLine) else (f"{one.type}: {one.message}", "")
        soft = one.rank is None and (is_soft(text) or (kind and not _RE["hard"].search(text)))
        aside = kind == "warning" or _RE["without_class"].search(text) or _RE["instead"].search(text)
        enough = 1 if aside else _ENOUGH_BEFORE_END if soft or good_end > one.line else _ENOUGH
        return len(steps) - bisect_right(steps, one.line) < enough

    return [one for one in raised if is_kept(one)], [one for one in lines if is_kept(one)]
