"""Updates the index of a checked-out work tree for a commit made by `git fast-import`: `git status` stays clean.

The entry is added to the index *before* the branch moves. If the process is killed in between, the entry is a staged
addition, which the user's next commit includes; in the other order that commit would delete it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from labbook.errors import GitError
from labbook.store.git.fast_import import FileChange
from labbook.store.git.git_process import GitFolders, quiet_filters, run_git
from labbook.store.journal import write_atomically

_LOCK_MARK = b"labbook\n"
"""Content of labbook's `index.lock`. Git's own is empty or an index."""


class IndexLockedError(GitError):
    """Another program holds `index.lock`.

    Attributes:
        age_s: How long it has been there, in seconds.
    """

    def __init__(self, lock: Path) -> None:
        super().__init__("errors.git.index_locked", lock=lock)
        self.age_s = 0.0
        with contextlib.suppress(OSError):
            self.age_s = max(0.0, time.time() - lock.stat().st_mtime)


def stage(
    folders: GitFolders,
    blobs: Mapping[bytes, str],
    keep_open: Sequence[int] = (),
    *,
    modes: Mapping[bytes, str] | None = None,
) -> None:
    """Set paths of a work tree's index; its other entries do not change.

    Works on a copy that replaces the index under git's own lock. Only labbook writes its mark to that lock, so a stale
    one is recognised by its content.

    Args:
        blobs: Path -> hash of its content, or zeros to remove the path.
        keep_open: Descriptors of locks that git inherits: if this process is killed, its git still writes the draft,
            which must not be removed before git has ended.
        modes: Modes of paths that are no plain files.

    Raises:
        IndexLockedError: Another program is writing the index.
        GitError: git failed.
    """
    index = folders.git_dir / "index"
    copy = folders.git_dir / f"labbook-index-{os.getpid()}-{os.urandom(3).hex()}"
    lock = folders.git_dir / "index.lock"
    try:
        _acquire(lock, copy)
        try:
            if index.exists():
                import shutil  # with its compressors, 5 ms

                shutil.copy(index, copy)
            else:
                copy.unlink()
            _write(folders, copy, blobs, keep_open, modes or {})
            copy.replace(index)
        finally:
            lock.unlink(missing_ok=True)
    finally:
        copy.unlink(missing_ok=True)
        copy.with_name(copy.name + ".lock").unlink(missing_ok=True)


def clear_leftovers(folders: GitFolders) -> None:
    """Remove the files of a killed `stage`. Only call this while no other labbook can use the repository."""
    lock = folders.git_dir / "index.lock"
    with contextlib.suppress(OSError):
        if lock.stat().st_size == len(_LOCK_MARK) and lock.read_bytes() == _LOCK_MARK:
            lock.unlink()
    for copy in folders.git_dir.glob("labbook-index-*"):
        copy.unlink(missing_ok=True)


def update_files(top: Path, changes: Sequence[FileChange], before: Mapping[bytes, bool]) -> None:
    """Update the files of another work tree to the commit, except files that were edited there.

    Args:
        top: Top folder of that work tree.
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


def _acquire(lock: Path, draft: Path) -> None:
    """Acquire `index.lock` with the mark already in it: a hard link to a complete file."""
    draft.write_bytes(_LOCK_MARK)
    try:
        os.link(draft, lock)
    except FileExistsError:
        raise IndexLockedError(lock) from None
    except OSError:
        # A file system without hard links.
        try:
            with lock.open("xb") as stream:
                stream.write(_LOCK_MARK)
        except FileExistsError:
            raise IndexLockedError(lock) from None
    # Copying the index onto the draft must not write through the link.
    draft.unlink()
    draft.touch()


def _write(
    folders: GitFolders, index: Path, blobs: Mapping[bytes, str], keep_open: Sequence[int], modes: Mapping[bytes, str]
) -> None:
    lines = [
        b"%s %s 0\t%s\0" % (modes.get(path, "100644").encode() if blob.strip("0") else b"0", blob.encode(), path)
        for path, blob in blobs.items()
    ]
    # Writing an index makes git compare files that changed in the same second, which would run a clean filter.
    listed = run_git(folders, "config", "--list", "--name-only", "-z")
    if listed.code:
        raise GitError("errors.git.configuration_not_read", folder=folders.top, reason=listed.error)
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
        raise GitError("errors.git.index_not_written", folder=folders.top, reason=answer.error)
