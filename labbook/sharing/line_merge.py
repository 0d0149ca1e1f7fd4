"""Three-way merge of lines that is symmetric, never loses a line that somebody wrote, and never fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from labbook.frozen import dataclass

Lines = tuple[str, ...]

_PLACEHOLDER = re.compile(r"\s*(<!--(?! labbook:).*-->)?\s*")
_SENTENCE = re.compile(r"\s*(?![`~#|<\0])(.*?\w){4}")
"""A line of text, not one of Markdown's fences, headings, tables and comments."""
_LIST_ITEM = re.compile(r"\s*([-*+|]|\d+[.)])")


@dataclass(frozen=True)
class ConflictMarks:
    """The lines around two versions of the same lines: before the first, between them, and after the second."""

    before: tuple[str, ...]
    between: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class MergedLines:
    """The merged lines, and the number of places with two versions."""

    lines: tuple[str, ...]
    conflicts: int = 0


def merge_lines(
    base: Sequence[str] | None, one: Sequence[str], other: Sequence[str], marks: ConflictMarks | None
) -> MergedLines:
    """Return the merge of two versions of some lines; exchanging the versions gives the same result.

    A line that one version changed is taken from it. Where one deleted what the other edited, the edit stays. Where
    both added lines at the same place, or replaced an empty placeholder, both additions stay, one after the other.
    Where both changed the same lines, both versions stay between `marks`. A sentence that both have stays.

    Args:
        base: The common ancestor; `None` when there is none: then lines that both versions have represent it.
        marks: Lines around two versions; `None`: both stay without marks, for lists and tables.
    """
    first, second = sorted((tuple(one), tuple(other)))
    if first == second:
        return MergedLines(first)
    if base is None:
        base = tuple(line for at, _, size in _matches(first, second) for line in first[at : at + size])
    merged: list[str] = []
    conflicts = 0
    for common, left, right in _regions(tuple(base), first, second):
        lines, conflict = _choose(common, left, right, marks)
        merged += lines
        conflicts += conflict
    # The base had such a line twice, and each version deleted another one.
    lost = {line for line in {*first} & {*second} & {*base} - {*merged} if _SENTENCE.match(line)}
    if lost:
        return merge_lines([line for line in base if line not in lost], first, second, marks)
    return MergedLines(tuple(merged), conflicts)


def _matches(first: Lines, second: Lines) -> list[tuple[int, int, int]]:
    """Return equal runs of lines as (start in the first, start in the second, length)."""
    head = 0
    while head < min(len(first), len(second)) and first[head] == second[head]:
        head += 1
    tail = 0
    while tail < min(len(first), len(second)) - head and first[-1 - tail] == second[-1 - tail]:
        tail += 1
    middle = SequenceMatcher(
        None, first[head : len(first) - tail], second[head : len(second) - tail], autojunk=False
    ).get_matching_blocks()
    blocks = [(0, 0, head), *((a + head, b + head, size) for a, b, size in middle)]
    blocks.append((len(first) - tail, len(second) - tail, tail))
    return [block for block in blocks if block[2]]


def _regions(base: Lines, first: Lines, second: Lines) -> Iterator[tuple[Lines, Lines, Lines]]:
    """Yield corresponding regions of the three: those equal in all, and those between them."""
    done = (0, 0, 0)
    ends = (len(base), len(first), len(second))
    for start, stop, in_first, in_second in [*_common_runs(base, first, second), (ends[0], ends[0], ends[1], ends[2])]:
        yield base[done[0] : start], first[done[1] : in_first], second[done[2] : in_second]
        size = stop - start
        same = base[start:stop]
        yield same, same, same
        done = (stop, in_first + size, in_second + size)


def _common_runs(base: Lines, first: Lines, second: Lines) -> Iterator[tuple[int, int, int, int]]:
    """Yield runs of lines that all three have: start and stop in the base, starts in both versions."""
    one, other = _matches(base, first), _matches(base, second)
    i = j = 0
    while i < len(one) and j < len(other):
        start = max(one[i][0], other[j][0])
        stop = min(one[i][0] + one[i][2], other[j][0] + other[j][2])
        if start < stop:
            yield start, stop, one[i][1] + start - one[i][0], other[j][1] + start - other[j][0]
        if one[i][0] + one[i][2] < other[j][0] + other[j][2]:
            i += 1
        else:
            j += 1


def _choose(common: Lines, left: Lines, right: Lines, marks: ConflictMarks | None) -> tuple[list[str], int]:
    if left == right or right == common:
        return list(left), 0
    if left == common:
        return list(right), 0
    if _contains(left, right):
        return list(left), 0
    if _contains(right, left):
        return list(right), 0
    head = 0
    while left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    first, second = sorted((left[head : len(left) - tail], right[head : len(right) - tail]))
    start, stop = list(left[:head]), list(left[len(left) - tail :])
    if not first or not second:
        return [*start, *first, *second, *stop], 0
    if marks is None or all(_PLACEHOLDER.fullmatch(line) for line in common):
        return [*start, *first, *_gap(first[-1], second[0]), *second, *stop], 0
    versions = sorted({*_versions(first, marks), *_versions(second, marks)})
    inside = [line for version in versions for line in (*marks.between, *version)][len(marks.between) :]
    return [*start, *marks.before, *inside, *marks.after, *stop], 1


def _versions(lines: Lines, marks: ConflictMarks) -> list[Lines]:
    """Return the versions between marks of an earlier merge, so that a third one stands beside them; else the lines."""
    before, between, after = (_without_blank_ends(each) for each in (marks.before, marks.between, marks.after))
    whole = _without_blank_ends(lines)
    inside = whole[len(before) : len(whole) - len(after)]
    if whole[: len(before)] != before or whole[len(whole) - len(after) :] != after or _contains(inside, before):
        return [lines]
    found, rest = [], inside
    while _contains(rest, between):
        at = next(at for at in range(len(rest)) if rest[at : at + len(between)] == between)
        found.append(_without_blank_ends(rest[:at]))
        rest = rest[at + len(between) :]
    return [*found, _without_blank_ends(rest)]


def _without_blank_ends(lines: Lines) -> Lines:
    texts = [at for at, line in enumerate(lines) if line.strip()]
    return lines[texts[0] : texts[-1] + 1] if texts else ()


def _contains(whole: Lines, part: Lines) -> bool:
    """Whether some lines are a run of others; a version without lines is part of any."""
    return any(whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1))


def _gap(above: str, below: str) -> list[str]:
    """Return an empty line between two paragraphs; items of a list and rows of a table follow each other."""
    close = not above.strip() or not below.strip() or (_LIST_ITEM.match(above) and _LIST_ITEM.match(below))
    return [] if close else [""]
