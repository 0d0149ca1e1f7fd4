"""Removes the locks of git on a branch that a killed process left."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from labbook.store.git.git_process import GitFolders
from labbook.store.git.git_state import WorkTree

STALE_S = 60.0
"""Age from which a lock on a branch counts as stale. Source: mechanisms, section 5.3."""


def clear_stale_locks(
    folders: GitFolders, ref: str, trees: Sequence[WorkTree], previous_died: float | None = None
) -> bool:
    """Removes stale locks on a branch and returns whether there were any.

    Only called under labbook's own lock. Git holds these two locks for milliseconds: one that is a minute old is
    stale, and so is one that is a second old if a labbook died during a commit before it was created.

    Args:
        ref: Full name of the branch.
        trees: The work trees that have it checked out.
        previous_died: When a labbook began a commit in which it died (Unix time, s), or `None`.
    """
    locks = [folders.common_dir / f"{ref}.lock", *(tree.folders.git_dir / "HEAD.lock" for tree in trees)]
    removed = False
    for path in locks:
        with contextlib.suppress(OSError):
            made = path.stat().st_mtime
            age = time.time() - made
            if age > STALE_S or (previous_died is not None and made >= previous_died - 0.01 and age > 1.0):
                path.unlink()
                removed = True
    return removed
