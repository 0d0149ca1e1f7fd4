"""Brings entries that git has fetched into the notebook, without a network; commands call it when they start."""

from __future__ import annotations

import os

from labbook.errors import LabbookError
from labbook.model.message import Message, message
from labbook.store.commit.sync_state import read_state, tracking_marks, update_state
from labbook.store.git.git_process import GitFolders
from labbook.store.git.git_state import head_ref, is_partial_clone, read_commit
from labbook.store.notebook import Notebook


def follow_remote(notebook: Notebook) -> list[Message]:
    """Create the notebook's branch in a fresh clone, merge what was fetched, restore missing files.

    Never raises and never uses a network. Without a change since the last call, it reads a few small files.

    Returns:
        What was done, as sentences for the user.
    """
    folders = notebook.git_folders()
    try:
        if folders is None or folders.bare or notebook.config.commit != "branch":
            return []
        tracked, head = tracking_marks(notebook, folders), _head_mark(folders)
        state = read_state(notebook)
        behind = (state.get("base") or "") != read_commit(folders, f"refs/heads/{notebook.config.branch}")
        if state.get("tracked") == tracked and state.get("head") == head and not behind:
            return []
        done = _follow(notebook, folders, first="tracked" not in state, moved=state.get("head") != head)
        update_state(notebook, tracked=tracking_marks(notebook, folders), head=_head_mark(folders))
        return done
    except (LabbookError, OSError):
        # Reading goes on with what is here; `labbook sync` and `labbook doctor` say why.
        return [message("sync.partial_clone")] if folders and is_partial_clone(folders) else []


def change_mark(notebook: Notebook) -> tuple[str, ...]:
    """Return a value that changes when the notebook's branch or a folder or note of the notebook changes."""
    from labbook.store.commit.changed_notes import newest_change

    folders = notebook.git_folders()
    tip = read_commit(folders, f"refs/heads/{notebook.config.branch}") if folders else ""
    return (tip, str(newest_change(notebook.paths.notes)))


def _follow(notebook: Notebook, folders: GitFolders, *, first: bool, moved: bool) -> list[Message]:
    # Every command calls this module, and needs these 20 ms of imports only when something has moved.
    from labbook.sharing.disk_update import notebook_ref
    from labbook.sharing.local_merge import align_disk, merge_fetched
    from labbook.sharing.remote_git import list_remotes, tracking_ref
    from labbook.sharing.tree_diff import diff_trees, is_ancestor, runs_among
    from labbook.store.commit.branch_checkout import known_commit, notebook_prefix, restore_missing

    ref = notebook_ref(notebook, folders)
    done = []
    tip, state = read_commit(folders, ref), read_state(notebook)
    base = str(state.get("base") or "")
    if base and tip and not state.get("landing"):
        align_disk(notebook, folders, ref)  # another work tree or notebook of the repository has moved the branch
    remotes = list_remotes(folders)
    wanted = notebook.config.remote or ("origin" if "origin" in remotes else next(iter(remotes), ""))
    fetched = read_commit(folders, tracking_ref(wanted, ref)) if wanted else ""
    fetched = fetched if tip else known_commit(folders, ref)
    if fetched and fetched != tip and not (tip and is_ancestor(folders, fetched, tip)):
        new = merge_fetched(notebook, folders, ref, fetched)
    else:
        new = read_commit(folders, ref)
    came = diff_trees(folders, base or tip, new) if new not in ("", base) else {}
    inside = os.fsencode(f"{notebook_prefix(notebook, folders)}/notes/".lstrip("/"))
    count = runs_among(p for p, c in came.items() if c.before is None and p.startswith(inside))
    if not tip and new:
        done.append(message("sync.created_branch", branch=notebook.config.branch, remote=wanted, count=count))
    elif count:
        done.append(message("sync.followed", count=count))
    if tip and (moved or first or not base):
        restored = restore_missing(notebook)
        if read_state(notebook).get("landing"):
            merge_fetched(notebook, folders, ref, tip)  # a commit has adopted the remote's branch
        elif not base:
            update_state(notebook, base=new)
        if restored and not done:
            done.append(message("sync.restored", count=len(restored), branch=notebook.config.branch))
    return done


def _head_mark(folders: GitFolders) -> str:
    """What is checked out, and when it was: a look at another branch and back removes the entries from the disk."""
    ref = head_ref(folders)
    if ref:
        return f"{ref}:{read_commit(folders, ref)}:{(folders.git_dir / 'HEAD').stat().st_mtime_ns}"
    return (folders.git_dir / "HEAD").read_text("utf-8", "surrogateescape").strip()
