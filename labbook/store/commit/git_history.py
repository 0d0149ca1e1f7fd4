"""Finds the last commit of a note."""

from __future__ import annotations

import os
from pathlib import Path

from labbook.errors import GitError
from labbook.store.git.git_process import run_git
from labbook.store.notebook import Notebook


def last_commit(notebook: Notebook, file: Path) -> str:
    """Full hash of the latest commit that touched a file of the notebook, "" when there is none or git cannot tell.

    Looks at the branch that entries are committed to, then at what is checked out.
    """
    folders = notebook.git_folders()
    if folders is None:
        return ""
    relative = os.path.relpath(file.resolve(), folders.top.resolve())
    for ref in (f"refs/heads/{notebook.config.branch}", "HEAD"):
        try:
            answer = run_git(folders, "rev-list", "--max-count=1", "--end-of-options", ref, "--", relative)
        except GitError:
            return ""
        found = answer.out.decode("ascii", "replace").strip()
        if answer.code == 0 and found:
            return found
    return ""
