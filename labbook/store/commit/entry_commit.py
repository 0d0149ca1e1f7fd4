"""Commits entries, and nothing else, with one `git fast-import`, also during a merge or rebase of the user.

The user's index, stash, hooks, staged files and HEAD do not change: entries go to a branch of their own. Only with
`commit = "checkout"` they go to the branch that is checked out. A commit that is not possible now is queued for a later
command.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.errors import GitError, LabbookError
from labbook.frozen import dataclass
from labbook.model.message import Message, message_of
from labbook.store.commit import commit_queue
from labbook.store.commit.branch_checkout import adopt_remote_branch, hide_entries, notebook_prefix
from labbook.store.commit.sync_state import read_state, update_state
from labbook.store.git.branch_locks import STALE_S, clear_stale_locks
from labbook.store.git.fast_import import (
    FileChange,
    blob_hash,
    blob_stream,
    commit_stream,
    failure_reason,
    read_changes,
    temporary_obstacle,
)
from labbook.store.git.git_identity import Signers, read_signers
from labbook.store.git.git_index_sync import IndexLockedError, clear_leftovers, stage, update_files
from labbook.store.git.git_process import GitFolders, run_git
from labbook.store.git.git_state import WorkTree, head_ref, operation, read_commit, work_trees
from labbook.store.journal import write_atomically
from labbook.store.locks import hold_lock

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor
    from labbook.store.notebook import Notebook

_PATIENCE_S = 8.0
"""Time limit for a commit before it is queued. Source: chosen by us; 32 recorders that end at the same time need about
1 s here."""


@dataclass(frozen=True)
class CommitOutcome:
    """The outcome of a commit.

    Args:
        status: "committed", "unchanged" (the branch has these files already), "queued" (for a later command), "off"
            (by setting, or no repository), "withheld" (a file or the message may contain a secret) or "failed".
        commit: Full hash, or "".
        ref: Full name of the branch, or "".
        reason: Why it was not committed, as part of a sentence in English, or "".
        why: The same for any language, if it is known as a message.
    """

    status: str
    commit: str = ""
    ref: str = ""
    reason: str = ""
    why: Message | None = None

    @property
    def cause(self) -> Message | str:
        """Why it was not committed, as a value of a message."""
        return self.why or self.reason


def _not_committed(status: str, error: LabbookError, ref: str = "") -> CommitOutcome:
    return CommitOutcome(status, "", ref, error.message, message_of(error))


def commit_files(
    notebook: Notebook,
    files: Sequence[Path],
    message: str,
    *,
    when: float | None = None,
    redactor: Redactor | None = None,
    only_new: bool = False,
) -> CommitOutcome:
    """Commit files as they are on disk, after a scan for secrets in them and in the message.

    Never raises: problems with git are in the outcome.

    Args:
        files: Absolute paths inside the notebook. A folder means its files; a path that does not exist is deleted on
            the branch.
        when: Unix time (s) of the commit; now when `None`.
        redactor: Redactor of the run; `None`: the notebook's rules and the secrets of this environment.
        only_new: Whether to skip files that the branch already has: its version is preserved, and restored on disk if
            the file was not edited since.

    Cost: 3 processes of git, about 12 ms; 5 on a branch that is checked out.
    """
    commit = _Commit(files, message, time.time() if when is None else when, only_new)
    outcome = _attempt(notebook, commit, _PATIENCE_S, redactor)
    if outcome.status != "queued":
        return outcome
    root = notebook.paths.root
    try:
        relative = tuple(str(path.relative_to(root)) for path in files)
        commit_queue.enqueue(notebook.paths, relative, message, commit.when, outcome.reason, only_new=only_new)
    except (OSError, ValueError) as error:
        failed = GitError("errors.commit.not_queued", cause=outcome.cause, reason=error)
        return _not_committed("failed", failed, outcome.ref)
    return outcome


def commit_queued(notebook: Notebook) -> list[CommitOutcome]:
    """Make queued commits, oldest first, until one has to be queued again; never raises."""
    outcomes = []
    with contextlib.suppress(OSError):
        for item in commit_queue.pending_commits(notebook.paths):
            files = [notebook.paths.root / file for file in item.files]
            outcome = _attempt(notebook, _Commit(files, item.message, item.when, item.only_new), 0.5)
            outcomes.append(outcome)
            if outcome.status == "withheld":
                withhold(notebook, files, item.message, item.when, outcome.reason, only_new=item.only_new)
            elif outcome.status not in ("committed", "unchanged"):
                break
            commit_queue.remove_commit(item)
    return outcomes


def withhold(
    notebook: Notebook, files: Sequence[Path], message: str, when: float, reason: str, *, only_new: bool = False
) -> None:
    """Record a withheld commit: `labbook recover` makes it, and its files are not published before.

    Raises:
        OSError: The note cannot be written.
    """
    relative = tuple(path.relative_to(notebook.paths.root).as_posix() for path in files)
    queue = commit_queue.WITHHELD
    commit_queue.enqueue(notebook.paths, relative, message, when, reason, queue=queue, only_new=only_new)


class _MustWaitError(GitError):
    """The commit is not possible now, but may be later."""


@dataclass(frozen=True)
class _Commit:
    """A commit to make: see `commit_files`."""

    files: Sequence[Path]
    message: str
    when: float
    only_new: bool


@dataclass(frozen=True)
class _Target:
    """Target of a commit: a branch, and the work trees that have it checked out."""

    folders: GitFolders
    ref: str
    trees: tuple[WorkTree, ...]


def _last_look(
    notebook: Notebook, changes: Sequence[FileChange], message: str, redactor: Redactor | None
) -> CommitOutcome | None:
    """Return the outcome "withheld" if a file or the message may contain a secret or cannot be scanned."""
    from labbook.store.commit.last_look import secret_error, secrets_in
    from labbook.store.recorder_redaction import make_redactor

    try:
        judge = redactor or make_redactor(os.environ, (), notebook.redaction_rules())
    except LabbookError as error:
        return _not_committed("failed", error)
    found = secrets_in(changes, message, judge)
    return _not_committed("withheld", secret_error(found)) if found else None


def _attempt(notebook: Notebook, commit: _Commit, patience_s: float, redactor: Redactor | None = None) -> CommitOutcome:
    """Try to commit; a problem is in the outcome."""
    folders = notebook.git_folders()
    off = ""
    if notebook.config.commit == "off":
        off = "commits are switched off"
    elif folders is None:
        off = "the notebook is not in a git repository; `labbook commit` works once it is"
    ref = ""
    try:
        # Exactly the bytes of the commit; also scanned without a commit, because a site shows them.
        changes = read_changes(notebook.paths, commit.files)
        refused = _last_look(notebook, changes, commit.message, redactor)
        if refused is not None:
            return refused
        if off or folders is None:
            return CommitOutcome("off", reason=off)
        target = _target(notebook, folders)
        ref = target.ref
        return _commit_changes(notebook, target, commit, changes, patience_s)
    except GitError as error:
        return _not_committed("queued", error, ref)
    except ValueError as error:
        return CommitOutcome("failed", "", ref, str(error))
    except OSError as error:
        if off:
            return CommitOutcome("off", reason=off)
        place = str(error.filename or notebook.paths.root)
        return _not_committed("queued", GitError("errors.commit.file", path=place, reason=error), ref)


def _commit_changes(
    notebook: Notebook, target: _Target, commit: _Commit, changes: Sequence[FileChange], patience_s: float
) -> CommitOutcome:
    """Commit the contents of files, while no other labbook commits to this repository."""
    folders, ref = target.folders, target.ref
    prefix = notebook_prefix(notebook, folders)
    if prefix:
        changes = [FileChange(os.fsencode(f"{prefix}/") + change.path, change.data) for change in changes]
    if notebook.config.commit == "branch" and not folders.bare:
        hide_entries(folders, prefix, (change.path for change in changes))
    signers = read_signers(folders, notebook.config.author)
    with (
        hold_lock(folders.common_dir / "labbook-commits", patience_s) as lock,
        _mark_commit(target, lock) as previous_died,
    ):
        if not target.trees and not read_commit(folders, ref) and adopt_remote_branch(folders, ref):
            # The next sync or command merges what people wrote here with the branch, before it commits that.
            adopted = {"ref": ref, "commit": read_commit(folders, ref), "local": "", "base": None}
            update_state(notebook, landing=adopted)
        if commit.only_new:
            changes = _leave_existing(target, changes, commit.when)
        follows_tip = (read_state(notebook).get("base") or "") == read_commit(folders, ref)
        outcome = _land(target, commit, changes, signers, patience_s, lock, previous_died)
        if follows_tip and outcome.commit and not target.trees and lock is not None:
            update_state(notebook, base=outcome.commit)
        return outcome


def _target(notebook: Notebook, folders: GitFolders) -> _Target:
    trees = work_trees(folders)
    ref = f"refs/heads/{notebook.config.branch}"
    if notebook.config.commit == "checkout":
        doing = operation(folders.git_dir)
        if doing:
            raise _MustWaitError("errors.commit.in_progress", operation=doing, folder=folders.top)
        ref = head_ref(folders)
        if not ref:
            raise _MustWaitError("errors.commit.detached", folder=folders.top)
    for tree in trees:
        if tree.busy_with == ref:
            raise _MustWaitError(
                "errors.commit.rebased", branch=ref.removeprefix("refs/heads/"), folder=tree.folders.top
            )
    return _Target(folders, ref, tuple(tree for tree in trees if tree.ref == ref))


@contextlib.contextmanager
def _mark_commit(target: _Target, lock: int | None) -> Iterator[float | None]:
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
    except _MustWaitError:
        # This process interrupted nothing; the mark of an earlier one is still valid.
        os.ftruncate(lock, 0)
        os.pwrite(lock, left if died is not None else b"", 0)
        raise
    # Not in a `finally`: if git was interrupted, the next process has to know.
    os.ftruncate(lock, 0)


def _land(
    target: _Target,
    commit: _Commit,
    changes: Sequence[FileChange],
    signers: Signers,
    patience_s: float,
    lock: int | None,
    previous_died: float | None,
) -> CommitOutcome:
    """Retry until the branch has the changes or the time limit is reached."""
    deadline = time.monotonic() + patience_s
    keep_open = () if lock is None else (lock,)
    while True:
        tip, stored = _read_stored(target, changes)
        if _is_same(changes, stored):
            return CommitOutcome("unchanged", tip, target.ref)
        trouble = _stage_everywhere(target, tip, changes, keep_open)
        if not trouble:
            before = {tree.folders.top: _as_before(tree, changes, stored) for tree in _other_trees(target)}
            stream = commit_stream(
                target.ref, [tip] if tip else [], changes, commit.message, signers=signers, when=commit.when
            )
            answer = run_git(target.folders, "fast-import", "--quiet", stdin=stream, timeout_s=60, keep_open=keep_open)
            if answer.code == 0:
                for top, unchanged in before.items():
                    update_files(top, changes, unchanged)
                return CommitOutcome("committed", answer.out.decode("ascii").strip(), target.ref)
            trouble = temporary_obstacle(answer.error)
        if lock is not None and clear_stale_locks(target.folders, target.ref, target.trees, previous_died):
            continue
        if time.monotonic() > deadline:
            raise _MustWaitError.from_data(trouble.as_data())
        time.sleep(random.uniform(0.005, 0.05))


def _leave_existing(target: _Target, changes: Sequence[FileChange], when: float) -> list[FileChange]:
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


def _read_stored(target: _Target, changes: Sequence[FileChange]) -> tuple[str, dict[bytes, str]]:
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
    target: _Target, tip: str, changes: Sequence[FileChange], keep_open: Sequence[int]
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
            raise _MustWaitError("errors.commit.old_lock", reason=error, minutes=minutes) from error
        return error
    return None


def _other_trees(target: _Target) -> list[WorkTree]:
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
