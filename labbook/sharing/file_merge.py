"""Merges two versions of one file by its kind; what the chosen version lacks is kept in a file beside it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import PurePosixPath
from typing import Any

from labbook.errors import EntryError
from labbook.frozen import dataclass
from labbook.sharing.line_merge import ConflictMarks, merge_lines
from labbook.sharing.note_merge import merge_notes
from labbook.store.text import frontmatter

_FIGURES = (".svg", ".png")
_RUN = re.compile(rb"(.*notes/runs/\d{4}/\d\d/\d\d/)([0-9]{8}-[0-9]{6}-[a-z0-9]+)(\.md|/.*)", re.DOTALL)
_OF_ONE_RUN = ("host", "command", "started", "author", "duration_s")
"""Keys that are equal in all entries of one run that has ended."""
_HASH = 6


@dataclass(frozen=True)
class MergedFile:
    """A merged file.

    Args:
        beside: Name of a second file in the same folder for the version that was not chosen, or "".
        beside_data: Its content.
        conflict: Whether people should look at it.
    """

    data: bytes
    beside: str = ""
    beside_data: bytes = b""
    conflict: bool = False


def merge_file(path: bytes, base: bytes | None, one: bytes, other: bytes) -> MergedFile:
    """Return the merge of two versions of a file; exchanging the versions gives the same result.

    Args:
        path: Path of the file; `notes/` and the ending decide how it is merged.
        base: The common ancestor, or `None`.
    """
    if one == other or other == base:
        return MergedFile(one)
    if one == base:
        return MergedFile(other)
    in_notes = path.startswith(b"notes/") or b"/notes/" in path
    if in_notes and path.endswith(b".md"):
        merged = merge_notes(_text(base) if base is not None else None, _text(one), _text(other))
        return MergedFile(merged.text.encode("utf-8", "surrogateescape"), conflict=merged.conflict)
    if run_of(path) is None and b"\0" not in one + other + (base or b""):
        lines = merge_lines(
            None if base is None else _text(base).split("\n"),
            _text(one).split("\n"),
            _text(other).split("\n"),
            ConflictMarks(("",), ("",), ("",)),
        )
        if not lines.conflicts and base is not None:
            return MergedFile("\n".join(lines.lines).encode("utf-8", "surrogateescape"))
    chosen, left = sorted((one, other), key=_completeness, reverse=True)
    suffix = PurePosixPath(os.fsdecode(path)).suffix
    if suffix in _FIGURES or chosen.startswith(left.rstrip(b"\n")):
        return MergedFile(chosen)
    return MergedFile(chosen, name_beside(path, left), left, conflict=run_of(path) is None)


def name_beside(path: bytes, data: bytes) -> str:
    """Return the name of the second file for a version that was not chosen; its content decides."""
    file = PurePosixPath(os.fsdecode(path))
    return f"{file.stem}.other-{hashlib.sha256(data).hexdigest()[:8]}{file.suffix}"


def run_of(path: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return folder, run id and rest of the path of an entry or its attachment, or `None`."""
    found = _RUN.fullmatch(path)
    return (found[1], found[2], found[3]) if found else None


def are_different_runs(one: bytes, other: bytes) -> bool:
    """Whether two entries of one run id, made independently, are of different runs."""
    try:
        first, second = (frontmatter.parse(_text(text), "")[0] for text in (one, other))
    except EntryError:
        return False
    return any(first.get(key) and second.get(key) and first[key] != second[key] for key in _OF_ONE_RUN)


def other_run_id(run_id: bytes, entry: bytes) -> bytes:
    """Return the new id for the second of two runs that were given the same id; its entry decides."""
    return run_id[:24] + hashlib.sha256(entry).hexdigest()[:_HASH].encode()


def is_of_other_run(path: str) -> bool:
    """Whether a path is that of an entry with an id from `other_run_id`."""
    return re.search(rf"/notes/runs/.*-[a-z0-9]{{4,8}}[0-9a-f]{{{_HASH}}}\.md$", f"/{path}") is not None


def _completeness(data: bytes) -> tuple[bool, bool, int, int, bytes]:
    """Return a rank of the versions of a data file: a finished run before a running one, then the fuller one."""
    try:
        content: Any = json.loads(data)
    except ValueError:
        return False, False, 0, len(data), data
    running = isinstance(content, dict) and content.get("status") == "running"
    return True, not running, _count_values(content), len(data), data


def _count_values(content: Any) -> int:  # noqa: ANN401 - JSON
    if isinstance(content, dict):
        return sum(map(_count_values, content.values()))
    return sum(map(_count_values, content)) if isinstance(content, list) else int(content is not None)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
