"""Commits entries, and nothing else, with one `git fast-import`, also during a merge or rebase of the user.

The user's index, stash, hooks, staged files and HEAD do not change: entries go to a branch of their own. Only with
`commit = "checkout"` they go to the branch that is checked out. A commit that is not possible now is queued for a later
command.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.errors import GitError, LabbookError
from labbook.frozen import dataclass
from labbook.model.message import Message, message_of
from labbook.store.commit import commit_queue
from labbook.store.commit.branch_checkout import adopt_remote_branch, hide_entries, notebook_prefix
from labbook.store.commit.branch_tip import Target, commit_on_tip, find_target, leave_existing, mark_commit
from labbook.store.commit.sync_state import read_state, update_state
from labbook.store.git.fast_import import FileChange, commit_stream, read_changes
from labbook.store.git.git_identity import read_signers
from labbook.store.git.git_state import read_commit
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
    try:
        relative = tuple(map(notebook.paths.relative, files))
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
    relative = tuple(map(notebook.paths.relative, files))
    queue = commit_queue.WITHHELD
    commit_queue.enqueue(notebook.paths, relative, message, when, reason, queue=queue, only_new=only_new)


@dataclass(frozen=True)
class _Commit:
    """A commit to make: see `commit_files`."""

    files: Sequence[Path]
    message: str
    when: float
    only_new: bool


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
        target = find_target(notebook, folders)
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
    notebook: Notebook, target: Target, commit: _Commit, changes: Sequence[FileChange], patience_s: float
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
        mark_commit(target, lock) as previous_died,
    ):
        if not target.trees and not read_commit(folders, ref) and adopt_remote_branch(folders, ref):
            # The next sync or command merges what people wrote here with the branch, before it commits that.
            adopted = {"ref": ref, "commit": read_commit(folders, ref), "local": "", "base": None}
            update_state(notebook, landing=adopted)
        if commit.only_new:
            changes = leave_existing(target, changes, commit.when)
        follows_tip = (read_state(notebook).get("base") or "") == read_commit(folders, ref)

        def stream_on(tip: str) -> bytes:
            parents = [tip] if tip else []
            return commit_stream(ref, parents, changes, commit.message, signers=signers, when=commit.when)

        tip, is_new = commit_on_tip(target, changes, stream_on, patience_s, lock, previous_died)
        if follows_tip and tip and not target.trees and lock is not None:
            update_state(notebook, base=tip)
        return CommitOutcome("committed" if is_new else "unchanged", tip, ref)
