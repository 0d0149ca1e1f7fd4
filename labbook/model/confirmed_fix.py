"""What cured a failure: proposed, confirmed or rejected."""

from __future__ import annotations

import re

from labbook.frozen import dataclass
from labbook.model.run import Change

_MOST_LETTERS = 60
_AROUND = 24
_FEW = 2
"""Changed lines of a file that are shown themselves."""
_COUNT = re.compile(r"\+\d+ -\d+ lines$")


@dataclass(frozen=True)
class Proposal:
    """A later run that does not show a failure any more, and where it differs. Nothing of it is asserted.

    Args:
        failed: The run that failed, or that a check found something in.
        by: The later run.
        symptoms: What the first one showed and the second one does not.
        fingerprints: The same, as identities.
        changes: Where they differ, likeliest cure first.
        confirmed: Whether somebody has said that this was the fix.
    """

    failed: str
    by: str
    symptoms: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    confirmed: bool = False


@dataclass(frozen=True)
class Fix:
    """What somebody confirmed as the cure of a failing run.

    Args:
        run: The run that failed.
        by: The run that was cured, or "".
        text: What the fix was, in one line: people's words, else the differences that rank first.
        symptoms: What it cured.
        changes: Where the two runs differ, likeliest first; empty without `by`.
        diff: The changes of code between them, shortened, or "".
    """

    run: str
    by: str = ""
    text: str = ""
    symptoms: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    diff: str = ""


def in_words(changes: tuple[Change, ...], most: int = 3) -> str:
    """The first differences as one line: "--lr 3.0 → 0.1; model.py +3 -1 lines"; "" when there are none."""
    said = list(dict.fromkeys(_said(change) for change in changes[:most]))
    if len(changes) > most:
        said.append(f"and {len(changes) - most} more")
    return "; ".join(said)


def changed_lines(diff: str) -> tuple[list[str], list[str]]:
    """The lines that a unified diff takes out, and those that it puts in, without blank ones."""
    lines = [line for line in diff.splitlines() if line[:3] not in ("---", "+++")]
    removed = [line[1:].strip() for line in lines if line[:1] == "-" and line[1:].strip()]
    added = [line[1:].strip() for line in lines if line[:1] == "+" and line[1:].strip()]
    return removed, added


def sides(change: Change) -> tuple[str, str]:
    """A difference as two values: of a file in which one or two lines changed, these; of others, how many lines."""
    if change.kind in ("code", "config") and "\n@@ " in change.detail:
        removed, added = changed_lines(change.detail)
        if _are_few(removed, added) and removed + added:
            return _differing("; ".join(removed), "; ".join(added))
    counts = line_counts(change)
    return ("", f"+{counts[0]} -{counts[1]} lines") if counts else _differing(change.before, change.now)


def line_counts(change: Change) -> tuple[int, int] | None:
    """Returns how many lines a change of a file adds and removes; `None` where one or two changed, or it is no diff."""
    if change.kind not in ("code", "config") or "\n@@ " not in change.detail:
        return None
    removed, added = changed_lines(change.detail)
    return None if _are_few(removed, added) else (len(added), len(removed))


def _are_few(removed: list[str], added: list[str]) -> bool:
    return len(removed) <= _FEW and len(added) <= _FEW


def _said(change: Change) -> str:
    before, now = sides(change)
    told = f"{before} → {now}" if before and now else now or (f"{before} taken out" if before else "")
    if "\n@@ " in change.detail and not _COUNT.match(told):
        return f"{change.what}: {told}" if before else f"{change.what}: {told} put in"
    return f"{change.what} {told}".strip()


def _differing(before: str, now: str) -> tuple[str, str]:
    """Two values, of long ones the part in which they differ, with some words around it."""
    if max(len(before), len(now)) <= _MOST_LETTERS:
        return before, now
    ahead = next((n for n, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))
    rest = min(len(before), len(now)) - ahead
    pairs = zip(reversed(before), reversed(now), strict=False)
    behind = next((n for n, (a, b) in enumerate(pairs) if a != b or n >= rest), rest)
    return _window(before, ahead, behind), _window(now, ahead, behind)


def _window(text: str, ahead: int, behind: int) -> str:
    start = max(0, ahead - _AROUND)
    if start:
        # From the beginning of a word.
        start = text.rfind(" ", 0, ahead - 4) + 1 if " " in text[start : ahead - 4] else start
    end = min(len(text), max(len(text) - behind, start) + _AROUND)
    part = text[start:end]
    part = part if len(part) <= _MOST_LETTERS else part[: _MOST_LETTERS - 1] + "…"
    return f"{'…' if start else ''}{part}{'…' if end < len(text) and not part.endswith('…') else ''}"
