"""Merges commits into the notebook's branch and its files here, without a network."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from labbook.errors import GitError
from labbook.sharing.disk_update import belongs_to_notebook, move_branch, update_disk
from labbook.sharing.tree_diff import PathChange, is_ancestor, text_path
from labbook.store.commit.branch_checkout import known_commit, notebook_prefix
from labbook.store.commit.changed_notes import edited_notes, has_conflict
from labbook.store.commit.entry_commit import commit_files, commit_queued
from labbook.store.commit.sync_state import file_system_time, read_state, update_state
from labbook.store.git.git_identity import read_signers
from labbook.store.git.git_process import GitFolders
from labbook.store.git.git_state import read_commit
from labbook.store.locks import hold_lock
from labbook.store.notebook import Notebook

_COMMIT_WAIT_S = 8.0


@contextlib.contextmanager
def lock_sharing(folders: GitFolders) -> Iterator[None]:
    """Lets one process at a time merge what others wrote into this repository."""
    with hold_lock(folders.common_dir / "labbook-sync", 60.0):
        yield


def merge_fetched(notebook: Notebook, folders: GitFolders, ref: str, fetched: str) -> str:
    """Merge a fetched commit into the notebook's branch without a network and return the new tip.

    Raises:
        GitError: A work tree is in the way, or git failed.
    """
    with lock_sharing(folders):
        align_disk(notebook, folders, ref)
        commit_edited(notebook, {})
        tip, _ = bring_to(notebook, folders, ref, fetched, None)
        return tip


def align_disk(notebook: Notebook, folders: GitFolders, ref: str) -> None:
    """Bring the notes on disk to the branch, which git, another work tree or another notebook may have moved.

    Of a killed sync, some files are on disk, but the branch has not moved. Committed as edits, the notes among them
    would bring back entries that others delete meanwhile, without their data.
    """
    tip, state = read_commit(folders, ref), read_state(notebook)
    landing, base = state.get("landing") or {}, str(state.get("base") or "")
    if landing.get("ref") == ref:
        with contextlib.suppress(GitError):  # a work tree is busy, or git has removed the commit
            if tip and is_ancestor(folders, landing["commit"], tip):
                update_disk(notebook, folders, ref, landing["local"], tip)
                update_state(notebook, base=tip, landing=None)
            else:
                bring_to(notebook, folders, ref, landing["commit"], landing["local"], landing["base"])
    elif notebook.config.commit == "branch" and not tip:
        if fetched := known_commit(folders, ref):
            bring_to(notebook, folders, ref, fetched, "")
    elif notebook.config.commit == "branch" and base and base != tip:
        with hold_lock(folders.common_dir / "labbook-commits", _COMMIT_WAIT_S):
            if is_ancestor(folders, base, tip):
                update_disk(notebook, folders, ref, base, tip)
            update_state(notebook, base=tip)


def commit_edited(notebook: Notebook, changes: Mapping[bytes, PathChange]) -> tuple[tuple[str, str], ...]:
    """Commit queued entries and edited notes, but for known changes; return the notes that stay, with the reason."""
    commit_queued(notebook)
    began = file_system_time(notebook)
    state = read_state(notebook)
    since = int(state.get("looked_ns") or 0)
    left = [notebook.paths.root / name for name in state.get("uncommitted") or []]
    since = since if since <= began else 0  # the clock may have been set back
    files = edited_notes(notebook, since_ns=since, known={p: c.after.blob for p, c in changes.items() if c.after})
    files = sorted({*files, *(file for file in left if file.is_file())})
    unsent: dict[str, str] = {}
    ready = []
    for file in files:
        name = notebook.paths.relative(file)
        if file.is_file() and has_conflict(file):
            unsent[name] = "git conflict"
        else:
            ready.append(file)
    if ready:
        names = ", ".join(file.stem for file in ready[:3]) + (f" and {len(ready) - 3} more" if len(ready) > 3 else "")
        outcome = commit_files(notebook, ready, f"Notes: {names}\n")
        if outcome.status == "withheld":
            # One note with a secret does not hold back the others.
            for file in filter(Path.is_file, ready):
                outcome = commit_files(notebook, [file], f"Notes: {file.stem}\n")
                if outcome.status not in ("committed", "unchanged"):
                    unsent[notebook.paths.relative(file)] = outcome.reason
        elif outcome.status not in ("committed", "unchanged"):
            unsent |= {notebook.paths.relative(file): outcome.reason for file in ready}
    update_state(notebook, looked_ns=began, uncommitted=sorted(unsent))
    return tuple(sorted(unsent.items()))


def bring_to(
    notebook: Notebook, folders: GitFolders, ref: str, commit: str, local: str | None, base: str | None = None
) -> tuple[str, tuple[bytes, ...]]:
    """Bring files and branch to a commit, merged with what was committed meanwhile; returns the tip.

    `local` is the tip that the commit contains (`None`: it is merged now); `base` is the ancestor that it was merged
    with if it does not descend from `local`.
    """
    conflicts: tuple[bytes, ...] = ()
    with hold_lock(folders.common_dir / "labbook-commits", _COMMIT_WAIT_S):
        while True:
            tip = read_commit(folders, ref)
            target = commit
            if tip and tip != local:
                if base is None:
                    target, conflicts = merge_commits(notebook, folders, tip, commit, None)
                else:
                    target, conflicts = merge_commits(notebook, folders, commit, tip, local, one_parent=True)
            if tip != target:
                update_state(notebook, landing={"ref": ref, "commit": target, "local": tip, "base": base})
            is_first = not tip and notebook.config.commit == "branch"
            if is_first and not move_branch(folders, ref, target, tip):
                continue
            update_disk(notebook, folders, ref, tip, target)
            if is_first or tip == target or move_branch(folders, ref, target, tip):
                update_state(notebook, base=target, landing=None)
                return target, conflicts


def merge_commits(
    notebook: Notebook, folders: GitFolders, one: str, other: str, base: str | None, *, one_parent: bool = False
) -> tuple[str, tuple[bytes, ...]]:
    """Merge two commits; returns the merge, and the notes in which two versions of the same lines stay.

    Args:
        base: The ancestor to merge with; `None` for the common ones.
        one_parent: Whether the merge descends from `one` only, because `other` is on a history that was replaced.

    Raises:
        GitError: Code of the user would have to be merged, or git failed.
    """
    from labbook.sharing.tree_merge import CodeConflictError, commit_merge  # 10 ms, needed only for two histories

    prefix = notebook_prefix(notebook, folders)
    is_ours: Callable[[bytes], bool] | None = None
    if notebook.config.commit == "checkout":
        is_ours = lambda path: belongs_to_notebook(path, prefix)  # noqa: E731
    signers = read_signers(folders, notebook.config.author)
    try:
        return commit_merge(
            folders,
            base,
            one,
            other,
            signers=signers,
            when=time.time(),
            message="Merge the notebook\n",
            is_ours_to_merge=is_ours,
            one_parent=one_parent,
        )
    except CodeConflictError as error:
        names = ", ".join(text_path(path) for path in error.paths[:5])
        raise GitError("sync.error.code_conflict", files=names) from error
