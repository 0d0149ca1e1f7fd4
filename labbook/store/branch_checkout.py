"""Entries as plain files beside their branch: hidden from the code's `git status`, brought back in a fresh clone."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.errors import GitError, NotebookError
from labbook.store.git_process import GitFolders, run_git
from labbook.store.journal import write_atomically
from labbook.store.scaffold import append_lines

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook

_HIDDEN = ("notes/runs/", "notes/experiments/", "notes/reports/")


def missing_files(notebook: Notebook) -> list[Path]:
    """Files in `notes/` on the notebook's branch that are not on disk; empty when git cannot tell."""
    try:
        return list(_missing(notebook, notebook.paths.notes))
    except GitError:
        return []


def restore_missing(notebook: Notebook, below: Path | None = None) -> list[Path]:
    """Writes those files and returns them; files that are there stay as they are.

    Args:
        notebook: Whose files.
        below: A file or folder in `notes/` to which the search is limited; all of `notes/` by default.

    Raises:
        GitError: git could not read them.
        NotebookError: They cannot be written.
    """
    folders = notebook.git_folders()
    if folders is None or folders.bare:
        return []
    if notebook.config.commit == "branch" and below is None:
        ref = f"refs/heads/{notebook.config.branch}"
        if run_git(folders, "rev-parse", "--verify", "--quiet", ref).code:
            adopt_remote_branch(folders, ref)
    wanted = _missing(notebook, below or notebook.paths.notes)
    if notebook.config.commit == "branch" and (wanted or below is None):
        hide_entries(folders, notebook_prefix(notebook, folders))
    if not wanted:
        return []
    lines = "".join(f"{blob}\n" for blob in wanted.values()).encode()
    answer = run_git(folders, "cat-file", "--batch", stdin=lines, timeout_s=300)
    if answer.code:
        raise GitError(f"cannot read the entries in {folders.top}: {answer.error}")
    written = []
    rest = memoryview(answer.out)
    for file in wanted:
        head = bytes(rest[:200]).partition(b"\n")[0]
        fields = head.split()
        if len(fields) != 3:
            raise GitError(f"the content of {file} is not in the repository", hint="fetch the branch again")
        start, size = len(head) + 1, int(fields[2])
        content, rest = bytes(rest[start : start + size]), rest[start + size + 1 :]
        if _stays_inside(file, notebook.paths.root):
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(file, content)
            except OSError as error:
                raise NotebookError(f"cannot write {file}: {error.strerror or error}") from error
            written.append(file)
    return written


def restore_before_writing(notebook: Notebook, below: Path) -> None:
    """Writes the missing files of one folder, or one missing file, so that no new page replaces what the branch has.

    Raises:
        NotebookError: They cannot be written.
    """
    # Without git on the PATH the page is written all the same.
    with contextlib.suppress(GitError):
        restore_missing(notebook, below)


def notebook_prefix(notebook: Notebook, folders: GitFolders) -> str:
    """The notebook's root relative to the top of its repository, "" when they are the same."""
    prefix = notebook.paths.root.resolve().relative_to(folders.top).as_posix()
    return "" if prefix == "." else prefix


def hide_entries(folders: GitFolders, prefix: str, pages: Sequence[str] = ()) -> None:
    """Hides entries from `git status` of the code, in the file of this clone, never in the user's `.gitignore`.

    Args:
        folders: Of the repository.
        prefix: The notebook below its top folder.
        pages: Further files of the notebook, below the top folder; symptom pages that only people write are not hidden.
    """
    names = [f"{prefix}/{folder}" if prefix else folder for folder in _HIDDEN]
    lines = ["/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", name) for name in (*names, *pages)]
    with contextlib.suppress(OSError):
        append_lines(folders.common_dir / "info" / "exclude", lines)


def adopt_remote_branch(folders: GitFolders, ref: str) -> bool:
    """Starts the branch `ref` where that of a remote stands; returns whether there is one.

    In a fresh clone only the remote has the branch: a new one would have no history in common with it.
    """
    commit = _known_commit(folders, ref)
    if not commit:
        return False
    return run_git(folders, "update-ref", ref, commit, "0" * len(commit)).code == 0


def _known_commit(folders: GitFolders, ref: str) -> str:
    """The commit of a branch: the local one, else that of `origin`, else of the only remote that has it; else ""."""
    name = ref.removeprefix("refs/heads/")
    remotes = f"refs/remotes/*/{name}"
    answer = run_git(folders, "for-each-ref", "--format=%(objectname) %(objecttype) %(refname)", ref, remotes)
    rows = (line.split(" ", 2) for line in os.fsdecode(answer.out).splitlines())
    known = {found: commit for commit, kind, found in rows if kind == "commit"}
    others = [commit for found, commit in known.items() if found != ref]
    first = known.get(ref) or known.get(f"refs/remotes/origin/{name}")
    return first or (others[0] if len(others) == 1 else "")


def _missing(notebook: Notebook, below: Path) -> dict[Path, str]:
    """Path -> hash of its content.

    Raises:
        GitError: The repository cannot be read.
    """
    folders = notebook.git_folders()
    if folders is None or folders.bare:
        return {}
    ref = "HEAD"
    if notebook.config.commit == "branch":
        ref = _known_commit(folders, f"refs/heads/{notebook.config.branch}")
        if not ref:
            return {}
    inside = f"{notebook_prefix(notebook, folders)}/{below.relative_to(notebook.paths.root).as_posix()}".lstrip("/")
    answer = run_git(folders, "ls-tree", "-r", "-z", "--full-tree", ref, "--", inside)
    found = {}
    for line in answer.out.split(b"\0")[:-1] if answer.code == 0 else []:
        facts, _, name = line.partition(b"\t")
        mode, _, blob = facts.decode("ascii").split(" ")
        file = folders.top / os.fsdecode(name)
        if mode.startswith("100") and notebook.paths.notes in file.parents and not os.path.lexists(file):
            found[file] = blob
    return found


def _stays_inside(file: Path, root: Path) -> bool:
    """Whether a name from a tree that somebody else made stays in the notebook, links included."""
    return ".." not in file.parts and ".git" not in file.parts and file.parent.resolve().is_relative_to(root.resolve())
