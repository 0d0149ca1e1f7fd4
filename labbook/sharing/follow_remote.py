"""Brings entries that git has fetched into the notebook, without a network; commands call it when they start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from labbook.errors import LabbookError
from labbook.model.message import Message, message
from labbook.sharing.disk_update import notebook_ref
from labbook.sharing.remote_git import list_remotes, read_commit, tracking_ref
from labbook.sharing.synchronize import merge_fetched
from labbook.sharing.tree_diff import diff_trees, is_ancestor, runs_among
from labbook.store.branch_checkout import adopt_remote_branch, restore_missing
from labbook.store.git_process import GitFolders
from labbook.store.git_state import head_ref
from labbook.store.notebook import Notebook
from labbook.store.sync_state import read_state, update_state


def follow_remote(notebook: Notebook) -> list[Message]:
    """Create the notebook's branch in a fresh clone, merge what was fetched, restore missing files.

    Never raises and never uses a network. Without a change since the last call, it reads a few small files.

    Returns:
        What was done, as sentences for the user.
    """
    try:
        folders = notebook.git_folders()
        if folders is None or folders.bare or notebook.config.commit != "branch":
            return []
        tracked, head = _marks(notebook, folders)
        state = read_state(notebook)
        if state.get("tracked") == tracked and state.get("head") == head:
            return []
        done = _follow(notebook, folders, first="tracked" not in state, moved=state.get("head") != head)
        tracked, head = _marks(notebook, folders)
        update_state(notebook, tracked=tracked, head=head)
        return done
    except (LabbookError, OSError):
        return []  # reading goes on with what is here; `labbook sync` and `labbook doctor` say why


def change_mark(notebook: Notebook) -> tuple[str, ...]:
    """Return a value that changes when the notebook's branch or a folder or note of the notebook changes."""
    from labbook.store.changed_notes import newest_change

    folders = notebook.git_folders()
    tip = _read_ref(folders, f"refs/heads/{notebook.config.branch}") if folders else ""
    return (tip, str(newest_change(notebook.paths.notes)))


def _follow(notebook: Notebook, folders: GitFolders, *, first: bool, moved: bool) -> list[Message]:
    ref = notebook_ref(notebook, folders)
    done = []
    tip = read_commit(folders, ref)
    remotes = list_remotes(folders)
    wanted = notebook.config.remote or ("origin" if "origin" in remotes else next(iter(remotes), ""))
    fetched = read_commit(folders, tracking_ref(wanted, ref)) if wanted else ""
    if not tip and adopt_remote_branch(folders, ref):
        tip = read_commit(folders, ref)
        count = runs_among(diff_trees(folders, "", tip))
        done.append(message("sync.created_branch", branch=notebook.config.branch, remote=wanted, count=count))
        restore_missing(notebook)
        update_state(notebook, base=tip)
    elif tip and fetched and fetched != tip and not is_ancestor(folders, fetched, tip):
        new = merge_fetched(notebook, folders, ref, fetched)
        count = runs_among(p for p, c in diff_trees(folders, tip, new).items() if c.before is None)
        if count:
            done.append(message("sync.followed", count=count))
    if tip and (moved or first) and not done:
        restored = restore_missing(notebook)
        if restored:
            done.append(message("sync.restored", count=len(restored), branch=notebook.config.branch))
    return done


def _marks(notebook: Notebook, folders: GitFolders) -> tuple[list[str], str]:
    """Return where the remote-tracking branches and the branch are, and what is checked out."""
    name = notebook.config.branch
    heads = [_read_ref(folders, f"refs/heads/{name}") and "branch"]
    packed = _stamp(folders.common_dir / "packed-refs")
    tracked = [f"{file}:{_text(file)}" for file in _loose(folders.common_dir / "refs" / "remotes", name)]
    ref = head_ref(folders)
    return [*heads, packed, *tracked], f"{ref or _text(folders.git_dir / 'HEAD')}:{_read_ref(folders, ref)}"


def _loose(folder: Path, name: str) -> Iterator[Path]:
    return (each / name for each in sorted(folder.iterdir()) if each.is_dir()) if folder.is_dir() else iter(())


def _read_ref(folders: GitFolders, ref: str) -> str:
    """Return the commit of a ref from its file, or from the packed refs; "" if it has neither."""
    loose = _text(folders.common_dir / ref) if ref else ""
    if loose or not ref:
        return loose
    rows = _text(folders.common_dir / "packed-refs").splitlines()
    return next((row.partition(" ")[0] for row in rows if row.endswith(f" {ref}")), "")


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8", "surrogateescape").strip()
    except OSError:
        return ""


def _stamp(file: Path) -> str:
    try:
        status = os.stat(file)  # noqa: PTH116 - a small file, looked at by every command
    except OSError:
        return ""
    return f"{status.st_mtime_ns}-{status.st_size}"
