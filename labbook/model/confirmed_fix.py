"""Fixes of failing runs: proposed or confirmed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass
from labbook.model.message import Message, as_data, message

if TYPE_CHECKING:
    from labbook.model.run import Change  # 15 ms with the classes of all events, in each command that prints a sentence

NAMED_KINDS = ("code", "command", "environment")
"""Kinds of changes with names that may be words of labbook: "commit", "command", "torch mode", "paddle mode"."""
_MAX_LENGTH = 60
_CONTEXT_LENGTH = 24
_FEW = 2
"""Changed lines of a file that are shown themselves."""
_ALIKE = 0.7
"""Similarity of a line and the one that replaced it. Source: chosen by us."""
_COMMENT = re.compile(r"(?:^|\s+)#(?=\s|$).*")
_NO_CODE = frozenset({"", "pass", "..."})
_HEADING = re.compile(
    r"(?:import|from)\b|(?:if|elif|else|for|while|with|try|except|finally|def|class|async)\b.*:$|[])}]+$"
)
"""Lines that do nothing themselves."""
_CHANGED = ("capture.difference.changed.value", "capture.difference.changed.line")
_ADDED = ("capture.difference.added.value", "capture.difference.added.line")
_NEW = {
    "input": "capture.difference.added.input",
    "environment": "capture.difference.added.environment",
    "package": "capture.difference.added.package",
}
"""Messages of a file that is there now, a variable that is set, a package that is installed."""

_MORE = "capture.change.more"

_MOVED = {None: "capture.moved.somewhere", True: "capture.moved.down", False: "capture.moved.up"}
"""Messages of lines that moved, by whether they are below the line that they passed."""

_REMOVED = ("capture.difference.removed.value", "capture.difference.removed.line")
"""Messages of a value, and of a line of a file."""


@dataclass(frozen=True)
class Proposal:
    """A later run without an earlier run's failure, and the differences between the two; a candidate, not a claim.

    Args:
        failed: Id of the run that failed or has a failed check.
        symptoms: Ids of the symptoms that are gone.
        fingerprints: Fingerprints of the failures that are gone.
        changes: Differences between the two runs, likeliest fix first; of a file one for each place.
        confirmed: Whether a person confirmed that this was the fix.
        shown: Those that may touch the failure, of changes of many lines the line that does; none if nothing shows
            which one cured the run.
        more: Number of the others.
        diff: The changes of code between the two runs, or "".
    """

    failed: str
    by: str
    symptoms: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    confirmed: bool = False
    shown: tuple[Change, ...] = ()
    more: int = 0
    diff: str = ""

    def is_evident(self) -> bool:
        """Whether something shows which difference cured the run, or there is only one."""
        return bool(self.shown) or len(self.changes) == 1


@dataclass(frozen=True)
class Fix:
    """The confirmed fix of a failing run.

    Args:
        by: Id of the run without the failure, or "".
        text: What the fix was, in one line: the user's words, else the top-ranked differences.
        symptoms: Ids of the fixed symptoms.
        changes: Differences between the two runs, likeliest fix first; empty without `by`.
        diff: The changes of code between them, shortened, or "".
    """

    run: str
    by: str = ""
    text: str = ""
    symptoms: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    diff: str = ""


def describe_changes(changes: Sequence[Change], most: int = 3, *, more: int = 0) -> Message | str:
    """Summarize the first differences: "--lr 3.0 → 0.1; model.py +3 -1 lines"; "" when there are none.

    Args:
        more: Number of further differences, which are only counted.
    """
    parts: list[Message] = []
    for change in changes[:most]:
        parts += [part for part in map(_describe, _split_lines(change)) if part not in parts]
    rest = more + sum(map(count_changes, changes[most:]))
    if parts and rest:
        parts.append(message(_MORE, count=rest))
    return message("capture.difference.list", parts=parts) if parts else ""


def describe_proposal(proposal: Proposal) -> Message | str:
    """Summarize the differences of a proposal that may be the fix."""
    return describe_changes(proposal.shown or proposal.changes, more=proposal.more if proposal.shown else 0)


def count_changes(change: Change) -> int:
    """Return how many differences a row is: one, or those that it counts."""
    what: Any = change.messages.get("what")
    data = as_data(what) if isinstance(what, Message) else what  # plain data where it was read from `run.json`
    return int(data["values"]["count"]) if data and data.get("key") == _MORE else 1


def changed_lines(diff: str) -> tuple[list[str], list[str]]:
    """Return the removed and added lines of a unified diff, without those that do nothing or differ in a comment."""
    lines = [line for line in diff.splitlines() if line[:3] not in ("---", "+++")]
    removed = [line[1:].strip() for line in lines if line[:1] == "-"]
    added = [line[1:].strip() for line in lines if line[:1] == "+"]
    return _without_comments(removed, added), _without_comments(added, removed)


def _without_comments(lines: list[str], others: list[str]) -> list[str]:
    """Return the lines with code that is not in the other lines with another comment."""
    code = {_COMMENT.sub("", line): line for line in others}
    parts = [(line, _COMMENT.sub("", line)) for line in lines]
    return [line for line, own in parts if own not in _NO_CODE and code.get(own, line) == line]


def is_move(diff: str) -> bool:
    """Whether the same lines, in the same order, were taken out and put in: they moved or are indented otherwise."""
    removed, added = changed_lines(diff)
    return bool(removed) and removed == added


def passed_line(diff: str) -> str:
    """Return the unchanged line that moved lines passed, "" where none is known."""
    rows = [line[:1] for line in diff.splitlines() if line[:1] in ("-", "+", " ")]
    between = [n for n in range(1, len(rows) - 1) if rows[n] == " " and {rows[n - 1], rows[n + 1]} == {"-", "+"}]
    lines = [line[1:].strip() for line in diff.splitlines() if line[:1] in ("-", "+", " ")]
    return lines[between[0]] if between else ""


def describe_move(change: Change) -> Message | None:
    """Summarize lines that moved: "loss.backward() moved above opt.step()"; `None` for other changes."""
    if not _has_lines(change) or not is_move(change.detail):
        return None
    lines = changed_lines(change.detail)[0]
    rows = [row for row in change.detail.splitlines() if row[1:].strip() == lines[0] and row[0] in "-+"]
    shown = lines[: 1 if lines[0].endswith(":") else _FEW]
    code = "; ".join(shown) + (" …" if shown[-1].endswith(":") else "; …") * (len(lines) > len(shown))
    if passed := passed_line(change.detail):
        return message(_MOVED[rows[0][0] == "-"], lines=code, passed=_shorten_to_difference(passed, "")[0])
    old, new = (next(len(row) - len(row[1:].lstrip()) - 1 for row in rows if row[0] == sign) for sign in "-+")
    if old != new:
        return message("capture.moved.indented", lines=code, before=old, now=new)
    return message(_MOVED[None], lines=code)


def sides(change: Change) -> tuple[str, str]:
    """Return a difference as values before and after: of a file its one or two changed lines, or counts of lines."""
    removed, added = _few_lines(change)
    if removed + added:
        return _shorten_to_difference("; ".join(removed), "; ".join(added))
    counts = line_counts(change)
    return ("", f"+{counts[0]} -{counts[1]} lines") if counts else _shorten_to_difference(change.before, change.now)


def line_counts(change: Change) -> tuple[int, int] | None:
    """Return the numbers of added and removed lines; `None` if one or two changed or there is no diff."""
    if not _has_lines(change) or any(_few_lines(change)):
        return None
    removed, added = changed_lines(change.detail)
    return (len(added), len(removed)) if removed or added else None


def _has_lines(change: Change) -> bool:
    return change.kind in ("code", "config") and "\n@@ " in change.detail


def _few_lines(change: Change) -> tuple[list[str], list[str]]:
    """Return the removed and added lines of a small change, of more lines those that say what is done; else none."""
    removed, added = changed_lines(change.detail) if _has_lines(change) else ([], [])
    moved = {*removed} & {*added}
    if moved != {*removed, *added}:  # lines that are indented in another way only
        removed, added = ([line for line in part if line not in moved] for part in (removed, added))
    if not _are_few(removed, added):
        removed, added = ([line for line in part if not _HEADING.match(line)] for part in (removed, added))
    return (removed, added) if _are_few(removed, added) else ([], [])


def _are_few(removed: list[str], added: list[str]) -> bool:
    return len(removed) <= _FEW and len(added) <= _FEW


def _split_lines(change: Change) -> list[Change]:
    """Return a change of a few lines as one change for each line that was replaced, and one for those that are new."""
    removed, added = _few_lines(change)
    if not removed or not added or len(removed) + len(added) <= _FEW or removed == added:
        return [change]
    parts = []
    for line in removed:
        (like, *_) = (*get_close_matches(line, added, n=1, cutoff=_ALIKE), "")
        added = [one for one in added if one != like]
        parts.append(f"-{line}" + f"\n+{like}" * bool(like))
    parts += ["\n".join(f"+{line}" for line in added)] if added else []
    return [replace(change, detail=f"\n@@ @@\n{part}") for part in parts]


def _describe(change: Change) -> Message:
    what = change.messages.get("what", change.what)
    if what == change.what and change.kind in NAMED_KINDS:
        what = message("capture.difference.named", what=change.what)
    if (move := describe_move(change)) is not None:
        return message("capture.difference.moved", what=what, move=move)
    counts = line_counts(change)
    if counts is not None:
        lines = message("capture.lines", added=counts[0], removed=counts[1])
        return message("capture.difference.value", what=what, value=lines)
    before, now = sides(change)
    old = change.messages.get("before", before) if before == change.before else before
    new = change.messages.get("now", now) if now == change.now else now
    is_line = "\n@@ " in change.detail and any(changed_lines(change.detail))
    if not now:
        return message(_REMOVED[is_line], what=what, before=old)
    if before:
        return message(_CHANGED[is_line], what=what, before=old, now=new)
    return message(_NEW.get(change.kind, _ADDED[is_line]), what=what, now=new)


def _shorten_to_difference(before: str, now: str) -> tuple[str, str]:
    """Return two values; long ones are cut to the part in which they differ, with some context."""
    if max(len(before), len(now)) <= _MAX_LENGTH:
        return before, now
    start = next((n for n, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))
    rest = min(len(before), len(now)) - start
    pairs = zip(reversed(before), reversed(now), strict=False)
    end = next((n for n, (a, b) in enumerate(pairs) if a != b or n >= rest), rest)
    return _window(before, start, end), _window(now, start, end)


def _window(text: str, same_start: int, same_end: int) -> str:
    start = max(0, same_start - _CONTEXT_LENGTH)
    if start:
        # Begin at a word boundary.
        start = text.rfind(" ", 0, same_start - 4) + 1 if " " in text[start : same_start - 4] else start
    end = min(len(text), max(len(text) - same_end, start) + _CONTEXT_LENGTH)
    part = text[start:end]
    part = part if len(part) <= _MAX_LENGTH else part[: _MAX_LENGTH - 1] + "…"
    return f"{'…' if start else ''}{part}{'…' if end < len(text) and not part.endswith('…') else ''}"
