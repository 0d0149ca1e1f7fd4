"""The last look: what is secret in exactly the bytes that are committed, and in the message of the commit."""

from __future__ import annotations

import os
from collections.abc import Sequence

from labbook.frozen import dataclass
from labbook.probe.redaction import Redactor
from labbook.store.fast_import import FileChange
from labbook.store.redact import Hit, scan_bytes

_MOST_NAMED = 3


@dataclass(frozen=True)
class Found:
    """Something secret in what is to be committed.

    Args:
        place: Path of the file, relative to the notebook, or "the commit message".
        hit: The rule that found it, and the line.
    """

    place: str
    hit: Hit


def secrets_in(changes: Sequence[FileChange], message: str, redactor: Redactor) -> list[Found]:
    """What may be secret in the files and in the message of a commit."""
    found = [
        Found(os.fsdecode(change.path), hit)
        for change in changes
        if change.data is not None
        for hit in scan_bytes(change.data, redactor)
    ]
    return found + [
        Found("the commit message", hit) for hit in scan_bytes(message.encode("utf-8", "replace"), redactor)
    ]


def told(found: Sequence[Found]) -> str:
    """Where the secrets are and what they look like, as a part of a sentence; never their text."""
    named = [f"{each.place}, line {each.hit.line} ({each.hit.rule})" for each in found[:_MOST_NAMED]]
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return f"it may hold a secret in {'; '.join(named)}{more}"
