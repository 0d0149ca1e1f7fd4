"""Commits files in which a secret may be left: masks what the scan finds, and withholds what it cannot mask."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from labbook.probe.redaction.redactor import Redactor
from labbook.store.commit.entry_commit import CommitOutcome, commit_files, withhold
from labbook.store.commit.last_look import mask_files
from labbook.store.notebook import Notebook


def commit_masked(
    notebook: Notebook, files: Sequence[Path], message: str, redactor: Redactor, *, when: float | None = None
) -> CommitOutcome:
    """Commits entries and their files; if they are refused, masks them first, else withholds them from the site, too.

    Args:
        message: Commit message; it is masked.
        redactor: The redactor of the run, which also knows its secrets by value.
        when: Time of the commit (Unix seconds); `None`: now.
    """
    message = redactor.text(message)
    outcome = commit_files(notebook, files, message, when=when, redactor=redactor)
    if outcome.status == "withheld":
        # Texts masked one by one may look like a secret when joined. Masking them is better than losing the entry.
        with suppress(OSError):
            mask_files(notebook.paths.root, files, redactor)
        outcome = commit_files(notebook, files, message, when=when, redactor=redactor)
    if outcome.status == "withheld":
        with suppress(OSError):
            withhold(notebook, files, message, time.time() if when is None else when, outcome.reason)
    return outcome
