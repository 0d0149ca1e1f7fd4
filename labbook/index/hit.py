"""One note that answers a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labbook.frozen import dataclass


@dataclass(frozen=True)
class Hit:
    """A note that was found.

    Args:
        path: Relative to the notebook, forward slashes.
        line: Where the best passage stands, from 1.
        snippet: That passage, as plain text.
        meta: The front matter.
        kind: "run", "experiment", "symptom", "report", "note", or "catalogue" for a page that labbook brings.
        loose: True when the note has some of the words only, because none has all.
        why: What it was found by: "same fingerprint", "same symptom", "same family", "words" or "filters".
        symptom: The symptom that it has in common with the question, or its first one; "" where it has none.
        fix: What cured it, in words, or "".
        by: The run that was cured, or "".
        held: In how many later runs of its script the fix held, `None` where there is no fix.
        returned: The run in which the failure came back after the fix, or "".
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
