"""Keeps entries as files next to their branch: hidden from `git status` of the code, restored in a fresh clone."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from labbook.errors import GitError, NotebookError
from labbook.store.git.git_process import GitFolders, read_blobs, run_git
from labbook.store.git.git_state import read_commit
from labbook.store.journal import write_atomically
from labbook.store.notebook import Notebook
from labbook.store.scaffold import append_lines

_HIDDEN = ("notes/runs/", "notes/experiments/", "notes/reports/", "notes/sweeps/")


def missing_files(notebook: Notebook) -> list[Path]:
    """Return files in `notes/` on the notebook's branch that are not on disk; empty if git fails."""
    try:
        return list(_find_missing(notebook, notebook.paths.notes))
    except GitError:
        return []


def restore_missing(notebook: Notebook, below: Path | None = None) -> list[Path]:
    """Write the missing files and return them; existing files are not changed.

    Args:
        below: A file or folder in `notes/` to restore; default: all of `notes/`.

    Raises:
        GitError: git could not read them.
        NotebookError: They cannot be written.
    """
    folders = notebook.git_folders()
    if folders is None or folders.bare:
        return []
    if notebook.config.commit == "branch" and below is None:
        ref = f"refs/heads/{notebook.config.branch}"
        if not read_commit(folders, ref):
            adopt_remote_branch(folders, ref)
    wanted = _find_missing(notebook, below or notebook.paths.notes)
    if notebook.config.commit == "branch" and (wanted or below is None):
        hide_entries(folders, notebook_prefix(notebook, folders))
    for renamed in _find_renamed(notebook, folders, wanted):
        del wanted[renamed]
    if not wanted:
        return []
    written = []
    contents = read_blobs(folders, wanted.values())
    for file, blob in wanted.items():
        if _stays_inside(file, notebook.paths.root):
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                # Not durable: git has it, and a fresh clone of 10,000 entries would wait 5 ms for each.
                write_atomically(file, contents[blob], durable=False)
            except OSError as error:
                raise NotebookError("errors.file.not_written", path=file, reason=error) from error
            written.append(file)
    return written


def restore_before_writing(notebook: Notebook, below: Path) -> None:
    """Write the missing files of one folder, or one missing file, so that no new page replaces one of the branch.

    Raises:
        NotebookError: They cannot be written.
    """
    # The page is also written without git on the PATH.
    with contextlib.suppress(GitError):
        restore_missing(notebook, below)


def notebook_prefix(notebook: Notebook, folders: GitFolders) -> str:
    """Return the notebook's root relative to the top of its repository, "" if they are the same."""
    prefix = notebook.paths.root.resolve().relative_to(folders.top).as_posix()
    return "" if prefix == "." else prefix


def hide_entries(folders: GitFolders, prefix: str, paths: Iterable[bytes] = ()) -> None:
    """Hide entries from `git status` of the code through `info/exclude` of this clone, not the user's `.gitignore`.

    Args:
        prefix: The notebook below its top folder.
        paths: Files on the notebook's branch, below the top folder: other notes are hidden once they are there.
    """
    start = f"{prefix}/" if prefix else ""
    notes = (name for name in map(os.fsdecode, paths) if name.startswith(f"{start}notes/"))
    others = (name for name in notes if not name.removeprefix(start).startswith(_HIDDEN))
    names = [*(start + folder for folder in _HIDDEN), *others]
    escaped = (re.sub(r"([\\*?\[\]!# ])", r"\\\1", name) for name in names)
    lines = ["/" + re.sub(r"[\r\n]", "?", name) for name in escaped]  # a pattern cannot hold a line break
    with contextlib.suppress(OSError):
        append_lines(folders.common_dir / "info" / "exclude", lines)


def adopt_remote_branch(folders: GitFolders, ref: str) -> bool:
    """Create the branch `ref` at the commit of a remote's branch; returns whether there is one.

    In a fresh clone only the remote has the branch; a new one would have no common history.
    """
    commit = known_commit(folders, ref)
    if not commit:
        return False
    return run_git(folders, "update-ref", ref, commit, "0" * len(commit)).code == 0


def known_commit(folders: GitFolders, ref: str) -> str:
    """Return the commit of a branch: of the local one, of `origin`, or of the only remote that has it; else ""."""
    name = ref.removeprefix("refs/heads/")
    remotes = f"refs/remotes/*/{name}"
    answer = run_git(folders, "for-each-ref", "--format=%(objectname) %(objecttype) %(refname)", ref, remotes)
    rows = (line.split(" ", 2) for line in os.fsdecode(answer.out).splitlines())
    known = {found: commit for commit, kind, found in rows if kind == "commit"}
    others = [commit for found, commit in known.items() if found != ref]
    first = known.get(ref) or known.get(f"refs/remotes/origin/{name}")
    return first or (others[0] if len(others) == 1 else "")


def _find_missing(notebook: Notebook, below: Path) -> dict[Path, str]:
    """Return path -> hash of its content.

    Raises:
        GitError: The repository cannot be read.
    """
    folders = notebook.git_folders()
    if folders is None or folders.bare:
        return {}
    ref = "HEAD"
    if notebook.config.commit == "branch":
        ref = known_commit(folders, f"refs/heads/{notebook.config.branch}")
        if not ref:
            return {}
    inside = f"{notebook_prefix(notebook, folders)}/{notebook.paths.relative(below)}".lstrip("/")
    answer = run_git(folders, "ls-tree", "-r", "-z", "--full-tree", ref, "--", inside)
    found = {}
    for line in answer.out.split(b"\0")[:-1] if answer.code == 0 else []:
        facts, _, name = line.partition(b"\t")
        mode, _, blob = facts.decode("ascii").split(" ")
        file = folders.top / os.fsdecode(name)
        if mode.startswith("100") and notebook.paths.notes in file.parents and not os.path.lexists(file):
            found[file] = blob
    return found


def _find_renamed(notebook: Notebook, folders: GitFolders, missing: Mapping[Path, str]) -> list[Path]:
    """Return the missing notes whose text is on disk in a note that the branch lacks: people renamed them.

    Entries count as missing: their names are their ids.
    """
    from labbook.store.git.fast_import import blob_hash

    runs, notes = notebook.paths.notes / "runs", notebook.paths.notes
    blobs = {blob: file for file, blob in missing.items() if file.suffix == ".md" and runs not in file.parents}
    if not blobs:
        return []
    like = next(iter(blobs))
    beside = (p for p in notes.rglob("*.md") if runs not in p.parents and p.is_file() and p not in missing)
    same = {page: blob for page in beside if (blob := blob_hash(page.read_bytes(), like=like)) in blobs}
    if not same:
        return []
    ref = "HEAD"
    if notebook.config.commit == "branch":
        ref = known_commit(folders, f"refs/heads/{notebook.config.branch}")
    names = {os.fsencode(page.resolve().relative_to(folders.top.resolve())): page for page in same}
    answer = run_git(folders, "ls-tree", "-r", "-z", "--name-only", "--full-tree", ref, "--", *map(os.fsdecode, names))
    committed = answer.out.split(b"\0")
    return [blobs[same[page]] for name, page in names.items() if name not in committed]


def _stays_inside(file: Path, root: Path) -> bool:
    """Whether a path of a foreign tree, symbolic links resolved, is inside the notebook."""
    return ".." not in file.parts and ".git" not in file.parts and file.parent.resolve().is_relative_to(root.resolve())
