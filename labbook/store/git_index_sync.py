"""Keeps a checked-out work tree in step with a commit that was made beside it, so that `git status` stays clean.

The entry is put into the index *before* the branch moves. Killed in between, it stands there as a staged addition,
which the user's next commit takes along; the other way round that commit would delete it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from labbook.errors import GitError
from labbook.store.fast_import import FileChange
from labbook.store.git_process import GitFolders, quiet_filters, run_git
from labbook.store.journal import write_atomically

_OURS = b"labbook\n"
"""Content of an `index.lock` of ours. Git's own is empty or an index."""


class IndexLockedError(GitError):
    """Another program holds `index.lock`.

    Args:
        lock: The lock.

    Attributes:
        age_s: How long it has been there, in seconds.
    """

    def __init__(self, lock: Path) -> None:
        super().__init__(f"another program holds {lock}")
        self.age_s = 0.0
        with contextlib.suppress(OSError):
            self.age_s = max(0.0, time.time() - lock.stat().st_mtime)


def stage(folders: GitFolders, blobs: Mapping[bytes, str], keep_open: Sequence[int] = ()) -> None:
    """Sets paths of a work tree's index; all its other entries stay as they are.

    Works on a copy that takes the index's place under git's own lock. No git process ever holds that lock for us, so
    one of ours that was left behind can be told by its content.

    Args:
        folders: The work tree.
        blobs: Path -> hash of its content, or zeros to take the path out.
        keep_open: Descriptors of locks that git inherits: killed in the middle, this process leaves a git that still
            writes its draft, and nobody may clear up before it has ended.

    Raises:
        IndexLockedError: Somebody else is writing the index.
        GitError: git could not.
    """
    index = folders.git_dir / "index"
    copy = folders.git_dir / f"labbook-index-{os.getpid()}-{secrets.token_hex(3)}"
    lock = folders.git_dir / "index.lock"
    try:
        _take(lock, copy)
        try:
            if index.exists():
                shutil.copy(index, copy)
            else:
                copy.unlink()
            _write(folders, copy, blobs, keep_open)
            copy.replace(index)
        finally:
            lock.unlink(missing_ok=True)
    finally:
        copy.unlink(missing_ok=True)
        copy.with_name(copy.name + ".lock").unlink(missing_ok=True)


def clear_leftovers(folders: GitFolders) -> None:
    """Removes what a killed `stage` left. Only to be called while no other labbook can be at work here."""
    lock = folders.git_dir / "index.lock"
    with contextlib.suppress(OSError):
        if lock.stat().st_size == len(_OURS) and lock.read_bytes() == _OURS:
            lock.unlink()
    for copy in folders.git_dir.glob("labbook-index-*"):
        copy.unlink(missing_ok=True)


def update_files(top: Path, changes: Sequence[FileChange], before: Mapping[bytes, bool]) -> None:
    """Brings the files of another work tree up to the commit; files that somebody changed there stay.

    Args:
        top: Top folder of that work tree.
        changes: What was committed.
        before: Path -> whether the file there was as in the commit before (or absent in both).
    """
    for change in changes:
        file = top / os.fsdecode(change.path)
        if not before.get(change.path, False):
            continue
        if change.data is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, change.data)


def _take(lock: Path, draft: Path) -> None:
    """Takes `index.lock` with our mark in it from the first moment: a link to a file that is complete."""
    draft.write_bytes(_OURS)
    try:
        os.link(draft, lock)
    except FileExistsError:
        raise IndexLockedError(lock) from None
    except OSError:
        # A file system without hard links.
        try:
            with lock.open("xb") as stream:
                stream.write(_OURS)
        except FileExistsError:
            raise IndexLockedError(lock) from None
    # Copying the index onto the draft must not write through the link.
    draft.unlink()
    draft.touch()


def _write(folders: GitFolders, index: Path, blobs: Mapping[bytes, str], keep_open: Sequence[int]) -> None:
    lines = [
        b"%s %s 0\t%s\0" % (b"100644" if blob.strip("0") else b"0", blob.encode(), path) for path, blob in blobs.items()
    ]
    # Writing an index makes git compare files that changed in the same second, and that would run a clean filter.
    listed = run_git(folders, "config", "--list", "--name-only", "-z")
    if listed.code:
        raise GitError(f"cannot read the configuration of {folders.top}: {listed.error}")
    answer = run_git(
        folders,
        "update-index",
        "--add",
        "--replace",
        "-z",
        "--index-info",
        stdin=b"".join(lines),
        settings=quiet_filters(listed.out.decode("utf-8", "surrogateescape").split("\0")),
        environment={"GIT_INDEX_FILE": str(index)},
        keep_open=keep_open,
    )
    if answer.code:
        raise GitError(f"cannot add to the index of {folders.top}: {answer.error}")
