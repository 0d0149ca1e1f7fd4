"""Writes files to the tip of a branch and to the work trees that have it checked out, beside the user's own git."""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from labbook.errors import GitError
from labbook.frozen import dataclass
from labbook.store.git.branch_locks import STALE_S, clear_stale_locks
from labbook.store.git.fast_import import FileChange, blob_hash, blob_stream, failure_reason, temporary_obstacle
from labbook.store.git.git_index_sync import IndexLockedError, clear_leftovers, stage, update_files
from labbook.store.git.git_process import GitFolders, run_git
from labbook.store.git.git_state import WorkTree, head_ref, operation, work_trees
from labbook.store.journal import write_atomically

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook


class MustWaitError(GitError):
    """The commit is not possible now, but may be later."""


@dataclass(frozen=True)
class Target:
    """Target of a commit: a branch, and the work trees that have it checked out."""

    folders: GitFolders
    ref: str
    trees: tuple[WorkTree, ...]


def find_target(notebook: Notebook, folders: GitFolders) -> Target:
    """Return the branch that the notebook's commits go to.

    Raises:
        MustWaitError: The user's merge or rebase uses it, or no branch is checked out and `commit` is "checkout".
    """
    trees = work_trees(folders)
    ref = f"refs/heads/{notebook.config.branch}"
    if notebook.config.commit == "checkout":
        doing = operation(folders.git_dir)
        if doing:
            raise MustWaitError("errors.commit.in_progress", operation=doing, folder=folders.top)
        ref = head_ref(folders)
        if not ref:
            raise MustWaitError("errors.commit.detached", folder=folders.top)
    for tree in trees:
        if tree.busy_with == ref:
            raise MustWaitError(
                "errors.commit.rebased", branch=ref.removeprefix("refs/heads/"), folder=tree.folders.top
            )
    return Target(folders, ref, tuple(tree for tree in trees if tree.ref == ref))


@contextlib.contextmanager
def mark_commit(target: Target, lock: int | None) -> Iterator[float | None]:
    """Mark in the lock file that a commit is in progress; yields the time of the mark of a process that died.

    Git inherits the lock: a process that acquires it knows that the previous one and its git have ended.
    """
    if lock is None:
        yield None
        return
    left = os.pread(lock, 32, 0)
    died = float(left) if re.fullmatch(rb"\d+\.\d+", left) else None
    if died is not None:
        for tree in target.trees:
            clear_leftovers(tree.folders)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{min(time.time(), died or time.time()):.3f}".encode(), 0)
    try:
        yield died
    except MustWaitError:
        # This process interrupted nothing; the mark of an earlier one is still valid.
        os.ftruncate(lock, 0)
        os.pwrite(lock, left if died is not None else b"", 0)
        raise
    # Not in a `finally`: if git was interrupted, the next process has to know.
    os.ftruncate(lock, 0)


def commit_on_tip(
    target: Target,
    changes: Sequence[FileChange],
    stream_on: Callable[[str], bytes],
    patience_s: float,
    lock: int | None,
    previous_died: float | None,
) -> tuple[str, bool]:
    """Retry until the branch has the changes; returns its tip, and whether that is a new commit.

    Args:
        stream_on: Returns the input of `git fast-import` for a commit on this tip, "" for the first commit.
        lock: Descriptor of the lock file, which git inherits.
        previous_died: Of `mark_commit`.

    Raises:
        MustWaitError: It was not possible within the time limit.
        GitError: The branch cannot be read, or git cannot store the files.
    """
    deadline = time.monotonic() + patience_s
    keep_open = () if lock is None else (lock,)
    while True:
        tip, stored = _read_stored(target, changes)
        if _is_same(changes, stored):
            return tip, False
        trouble = _stage_everywhere(target, tip, changes, keep_open)
        if not trouble:
            before = {tree.folders.top: _as_before(tree, changes, stored) for tree in _other_trees(target)}
            answer = run_git(
                target.folders, "fast-import", "--quiet", stdin=stream_on(tip), timeout_s=60, keep_open=keep_open
            )
            if answer.code == 0:
                for top, unchanged in before.items():
                    update_files(top, changes, unchanged)
                return answer.out.decode("ascii").strip(), True
            trouble = temporary_obstacle(answer.error)
        if lock is not None and clear_stale_locks(target.folders, target.ref, target.trees, previous_died):
            continue
        if time.monotonic() > deadline:
            raise MustWaitError.from_data(trouble.as_data())
        time.sleep(random.uniform(0.005, 0.05))


def leave_existing(target: Target, changes: Sequence[FileChange], when: float) -> list[FileChange]:
    """Return the changes of paths that the branch lacks; its own files replace ones older than the commit on disk."""
    _, stored = _read_stored(target, changes)
    for change in changes:
        blob = stored.get(change.path, "")
        file = target.folders.top / os.fsdecode(change.path)
        if blob and blob != blob_hash(change.data, blob) and file.stat().st_mtime <= when:
            answer = run_git(target.folders, "cat-file", "blob", blob)
            if answer.code == 0:
                write_atomically(file, answer.out)
    return [change for change in changes if not stored.get(change.path)]


def _read_stored(target: Target, changes: Sequence[FileChange]) -> tuple[str, dict[bytes, str]]:
    """Return the branch's tip ("" if there is none), and the hash of each path in it ("" if absent)."""
    ref = os.fsencode(target.ref)
    requests = [change.path for change in changes if b"\n" not in change.path]
    lines = b"".join(b"%s:%s\n" % (ref, path) for path in requests)
    answer = run_git(target.folders, "cat-file", "--batch-check", stdin=b"%s^{commit}\n%s" % (ref, lines))
    replies = answer.out.split(b"\n")[:-1]
    if answer.code or len(replies) != len(requests) + 1:
        raise GitError(
            "errors.git.repository_not_read", folder=target.folders.top, reason=answer.error or "git gave no answer"
        )
    hashes = [line.split()[0].decode() if re.fullmatch(rb"[0-9a-f]+ \w+ \d+", line) else "" for line in replies]
    return hashes[0], dict(zip(requests, hashes[1:], strict=True))


def _is_same(changes: Sequence[FileChange], stored: Mapping[bytes, str]) -> bool:
    """Whether the branch has the changes already; a path without a known hash counts as changed."""
    return all(c.path in stored and stored[c.path] == blob_hash(c.data, stored[c.path]) for c in changes)


def _stage_everywhere(
    target: Target, tip: str, changes: Sequence[FileChange], keep_open: Sequence[int]
) -> GitError | None:
    """Write the changes to the index of every work tree of the branch; returns the obstacle, or `None`."""
    if not target.trees:
        return None
    answer = run_git(target.folders, "fast-import", "--quiet", stdin=blob_stream(changes), timeout_s=60)
    if answer.code:
        raise GitError("errors.git.entry_not_stored", reason=failure_reason(answer.error))
    hashes = answer.out.decode("ascii").split()
    gone = "0" * len(tip or hashes[0])
    written = iter(hashes)
    blobs = {change.path: gone if change.data is None else next(written) for change in changes}
    try:
        for tree in target.trees:
            stage(tree.folders, blobs, keep_open)
    except IndexLockedError as error:
        if error.age_s > STALE_S:
            # Whoever made it has most likely died: waiting costs each run the whole time and gains nothing.
            minutes = round(error.age_s / 60)
            raise MustWaitError("errors.commit.old_lock", reason=error, minutes=minutes) from error
        return error
    return None


def _other_trees(target: Target) -> list[WorkTree]:
    return [tree for tree in target.trees if tree.folders.git_dir != target.folders.git_dir]


def _as_before(tree: WorkTree, changes: Sequence[FileChange], stored: Mapping[bytes, str]) -> dict[bytes, bool]:
    """Return path -> whether the file in that work tree equals the tip and may be updated."""
    found = {}
    for change in changes:
        file = tree.folders.top / os.fsdecode(change.path)
        content = file.read_bytes() if file.is_file() and not file.is_symlink() else None
        old = stored.get(change.path, "")
        found[change.path] = (content is not None or not os.path.lexists(file)) and blob_hash(content, old) == old
    return found
