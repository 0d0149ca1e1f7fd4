"""Finds notes that were edited since their last commit."""

from __future__ import annotations

import os
from pathlib import Path

from labbook.errors import GitError
from labbook.store.branch_checkout import notebook_prefix
from labbook.store.fast_import import blob_hash
from labbook.store.git_process import GitFolders, run_git
from labbook.store.git_state import head_ref
from labbook.store.notebook import Notebook


def edited_notes(notebook: Notebook) -> list[Path]:
    """Return Markdown files below `notes/` that differ from their branch, sorted, without entries of running runs.

    Raises:
        GitError: Commits are off (no repository, or `commit = "off"`), or the branch cannot be read.

    Cost: one process of git, and reading all notes.
    """
    folders = notebook.git_folders()
    if folders is None:
        raise GitError(f"the notebook {notebook.paths.root} is in no git repository", hint="`git init` makes one there")
    if notebook.config.commit == "off":
        raise GitError("commits are switched off in this notebook", hint="`commit` in labbook.toml says so")
    committed = _blobs(notebook, folders)
    top = folders.top.resolve()
    found = []
    for path in sorted(notebook.paths.notes.rglob("*.md")):
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        name = committed.get(os.fsencode(path.resolve().relative_to(top)), "")
        if name != blob_hash(data, like=name) and not _runs_on(data):
            found.append(path)
    return found


def has_conflict(path: Path) -> bool:
    """Whether a file holds the marks that git puts around both sides of a conflict."""
    lines = path.read_bytes().split(b"\n")
    begins = next((at for at, line in enumerate(lines) if line.startswith(b"<<<<<<< ")), len(lines))
    return any(line.startswith(b">>>>>>> ") for line in lines[begins:])


def _blobs(notebook: Notebook, folders: GitFolders) -> dict[bytes, str]:
    """Hash of each file below `notes/`, by path from the top of the repository."""
    branch = f"refs/heads/{notebook.config.branch}"
    ref = head_ref(folders) if notebook.config.commit == "checkout" else branch
    if not ref or run_git(folders, "rev-parse", "--verify", "--quiet", ref).code:
        return {}
    below = f"{notebook_prefix(notebook, folders)}/notes".removeprefix("/")
    answer = run_git(folders, "ls-tree", "-r", "-z", "--full-tree", ref, "--", below)
    if answer.code:
        raise GitError(
            f"cannot read the branch {ref.removeprefix('refs/heads/')} of {folders.top}",
            hint=answer.error.strip() or "`git fsck` says what is broken",
        )
    rows = (row.split(b"\t", 1) for row in answer.out.split(b"\0") if row)
    return {path: about.split()[2].decode("ascii") for about, path in rows}


def _runs_on(data: bytes) -> bool:
    """Whether this is the entry of a running run, which is committed at its end."""
    return b"\nstatus: running\n" in data.partition(b"\n---")[0]
