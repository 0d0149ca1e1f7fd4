"""Finds notes that were edited since their last commit."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from labbook.errors import GitError
from labbook.store.commit.branch_checkout import notebook_prefix
from labbook.store.git.fast_import import blob_hash
from labbook.store.git.git_process import GitFolders, run_git
from labbook.store.git.git_state import head_ref, read_commit
from labbook.store.notebook import Notebook

_FEW = 200
"""Up to this number of notes, git is asked for these alone."""
_TICK_NS = 2_000_000_000
"""The coarsest time stamps in use (FAT: 2 s)."""


def edited_notes(
    notebook: Notebook, *, since_ns: int = 0, known: Mapping[bytes, str] = MappingProxyType({})
) -> list[Path]:
    """Return Markdown files below `notes/` that differ from their branch, sorted, without entries of running runs.

    A note that was renamed counts under its old name too, which is no longer a file. A note that is only missing does
    not: another branch may have been checked out.

    Args:
        since_ns: Look only at files that changed since then, on the clock of the file system.
        known: Path from the top of the repository -> hash on the branch, for files of which the caller knows it.

    Raises:
        GitError: Commits are off (no repository, or `commit = "off"`), or the branch cannot be read.

    Cost: reading the notes that changed, and one process of git if one of them is not among the known ones.
    """
    folders = notebook.git_folders()
    if folders is None:
        raise GitError("errors.git.no_repository", root=notebook.paths.root)
    if notebook.config.commit == "off":
        raise GitError("errors.git.switched_off")
    notes = _changed_since(notebook.paths.notes, since_ns)
    if not notes:
        return []
    top = folders.top.resolve()
    names = {path: os.fsencode(path.resolve().relative_to(top)) for path in notes}
    others = [path for path, name in names.items() if name not in known]
    committed = {**known, **(_blobs(notebook, folders, others) if others else {})}
    found, new = [], set()
    for path in notes:
        data = path.read_bytes()
        name = committed.get(names[path], "")
        if name != blob_hash(data, like=name) and b"\nstatus: running\n" not in data.partition(b"\n---")[0]:
            found.append(path)
            if not name:
                new |= {blob_hash(data, like="0" * length) for length in (40, 64)}
    if new:
        found += _old_names(notebook, folders, new)
    return sorted(found)


def _old_names(notebook: Notebook, folders: GitFolders, blobs: Collection[str]) -> list[Path]:
    """Return notes of the branch that are not on disk and have one of these contents."""
    runs = notebook.paths.notes / "runs"
    same = [name for name, blob in _blobs(notebook, folders, ()).items() if blob in blobs and name.endswith(b".md")]
    files = [folders.top / os.fsdecode(name) for name in same]
    return [file for file in files if runs not in file.parents and not os.path.lexists(file)]


def newest_change(folder: Path) -> int:
    """Return the time (ns) of the newest change of a note or folder below `folder`, or 0."""
    newest, waiting = 0, [str(folder)]
    while waiting:
        with contextlib.suppress(OSError):
            place = waiting.pop()
            newest = max(newest, os.stat(place).st_ctime_ns)  # noqa: PTH116 - thousands of folders
            items = list(os.scandir(place))
            names = {item.name for item in items}
            for item in items:
                if item.is_dir(follow_symlinks=False):
                    waiting += [] if f"{item.name}.md" in names else [item.path]
                elif item.name.endswith(".md"):
                    newest = max(newest, item.stat(follow_symlinks=False).st_ctime_ns)
    return newest


def has_conflict(path: Path) -> bool:
    """Whether a file holds the marks that git puts around both sides of a conflict."""
    lines = path.read_bytes().split(b"\n")
    begins = next((at for at, line in enumerate(lines) if line.startswith(b"<<<<<<< ")), len(lines))
    return any(line.startswith(b">>>>>>> ") for line in lines[begins:])


def _changed_since(folder: Path, since_ns: int) -> list[Path]:
    """Markdown files that changed, by the time that no editor sets back."""
    found, waiting, oldest_ns = [], [str(folder)], since_ns - _TICK_NS
    while waiting:
        with contextlib.suppress(OSError):
            place = waiting.pop()
            # Relative to the open folder, looking at a file takes two thirds of the time.
            folder_fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                items = list(os.scandir(folder_fd))
                names = {item.name for item in items} if since_ns else ()
                for item in items:
                    name = item.name
                    if name.endswith(".md") and item.is_file(follow_symlinks=False):
                        status = item.stat(follow_symlinks=False)
                        if not since_ns or status.st_ctime_ns >= oldest_ns or status.st_mtime_ns >= oldest_ns:
                            found.append(Path(place, name))
                    elif item.is_dir(follow_symlinks=False) and f"{name}.md" not in names:
                        # The folder of an entry holds its figures, not notes.
                        waiting.append(f"{place}/{name}")
            finally:
                os.close(folder_fd)
    return sorted(found)


def _blobs(notebook: Notebook, folders: GitFolders, notes: Sequence[Path]) -> dict[bytes, str]:
    """Hash of each file below `notes/`, or of a few notes, by path from the top of the repository."""
    branch = f"refs/heads/{notebook.config.branch}"
    ref = head_ref(folders) if notebook.config.commit == "checkout" else branch
    if not ref or not read_commit(folders, ref):
        return {}
    below = [f"{notebook_prefix(notebook, folders)}/notes".removeprefix("/")]
    if 0 < len(notes) <= _FEW:
        below = [os.path.relpath(path.resolve(), folders.top.resolve()) for path in notes]
    answer = run_git(folders, "ls-tree", "-r", "-z", "--full-tree", ref, "--", *below)
    if answer.code:
        raise GitError(
            "errors.git.branch_not_read",
            branch=ref.removeprefix("refs/heads/"),
            folder=folders.top,
            reason=answer.error.strip() or "-",
        )
    rows = (row.split(b"\t", 1) for row in answer.out.split(b"\0") if row)
    return {path: about.split()[2].decode("ascii") for about, path in rows}
