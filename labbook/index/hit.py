"""One result of a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labbook.frozen import dataclass


@dataclass(frozen=True)
class Hit:
    """A note, or a page of the catalogue, that matches a search.

    Args:
        path: Path relative to the notebook, with forward slashes.
        line: Line of the best passage, from 1.
        kind: "run", "experiment", "symptom", "report", "note", or "catalogue" for a built-in page.
        loose: True if the note has only some of the words, because no note has all of them.
        why: Kind of the match: "same fingerprint", "same symptom", "same family", "words" or "filters".
        symptom: Symptom shared with the query, else its first one, else "".
        fix: Description of the fix, or "".
        by: Run that no longer fails, or "".
        held: Number of later runs of its script without the failure, `None` without a fix.
        returned: Run in which the failure came back, or "".
    """

    path: str
    line: int
    title: str
    snippet: str
    meta: Mapping[str, Any]
    kind: str = "note"
    loose: bool = False
    why: str = "words"
    symptom: str = ""
    fix: str = ""
    by: str = ""
    held: int | None = None
    returned: str = ""
