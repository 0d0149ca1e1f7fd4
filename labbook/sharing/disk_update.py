"""Brings files on disk from one commit of the notebook's branch to another; edited notes are merged, never replaced.

Files are written before the branch moves. If the process is killed in between, they are edits that the next sync
commits, with the content that the remote has already.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.errors import GitError, LabbookError
from labbook.frozen import dataclass
from labbook.sharing.tree_diff import PathChange, diff_trees, runs_among, text_path
from labbook.store.commit.branch_checkout import hide_entries, notebook_prefix, restore_missing
from labbook.store.commit.sync_state import read_state
from labbook.store.git.fast_import import blob_hash
from labbook.store.git.git_process import GitFolders, read_blobs, run_git
from labbook.store.git.git_state import WorkTree, head_ref, operation, read_commit, work_trees
from labbook.store.journal import write_atomically
from labbook.store.notebook import Notebook
from labbook.store.paths import SETTINGS_FILE

if TYPE_CHECKING:
    from labbook.sharing.remote_git import Remote


def notebook_ref(notebook: Notebook, folders: GitFolders) -> str:
    """Return the full name of the branch that entries are committed to.

    Raises:
        GitError: Entries go to the checked-out branch and none is checked out.
    """
    if notebook.config.commit == "branch":
        return f"refs/heads/{notebook.config.branch}"
    ref = head_ref(folders)
    if not ref:
        raise GitError("sync.error.detached", top=str(folders.top))
    return ref


def belongs_to_notebook(path: bytes, prefix: str) -> bool:
    """Whether a path of the branch belongs to the notebook, not to the code around it."""
    start = os.fsencode(f"{prefix}/") if prefix else b""
    rest = path[len(start) :]
    return path.startswith(start) and (rest.startswith((b"notes/", b"templates/")) or rest == SETTINGS_FILE.encode())


@dataclass(frozen=True)
class _Place:
    """A folder with files of the branch.

    Args:
        tree: The work tree that has the branch checked out; `None` for the notes next to a branch of their own.
    """

    top: Path
    tree: WorkTree | None


def update_disk(notebook: Notebook, folders: GitFolders, ref: str, old: str, new: str) -> list[Path]:
    """Write what differs between two commits to disk and to the index of work trees; returns notes that were merged.

    Args:
        old: Commit that the files on disk follow, or "".
        new: Commit to bring them to.

    Raises:
        GitError: A work tree of the branch is busy, or has uncommitted changes of code that the commit changes too;
            then nothing was written.
    """
    prefix = notebook_prefix(notebook, folders)
    places = _places(folders, ref)
    changes = diff_trees(folders, old, new) if old != new else {}
    if not changes:
        return []
    for place in places:
        if place.tree is not None:
            _check_clean(place, changes, prefix)
    if any(place.tree is None for place in places):
        hide_entries(folders, prefix, (path for path, change in changes.items() if change.after is not None))
    merged = []
    for place in places:
        wanted = changes
        if place.tree is None:
            start = os.fsencode(f"{prefix}/notes/".lstrip("/"))
            wanted = {path: change for path, change in changes.items() if path.startswith(start)}
        if place.tree is not None:
            entries = {p: c.after.blob if c.after else "0" * len(new) for p, c in wanted.items()}
            modes = {p: c.after.mode for p, c in wanted.items() if c.after}
            from labbook.store.git.git_index_sync import stage

            stage(place.tree.folders, entries, modes=modes)
        edited = [p for p, c in wanted.items() if c.before and c.after and runs_among((p,))]
        returned = [p for p in edited if not os.path.lexists(place.top / os.fsdecode(p))]
        merged += _write_all(folders, place, wanted)
        for path in returned:
            # Somebody edited an entry that was removed here: its figures and data come back, too.
            with contextlib.suppress(LabbookError):
                restore_missing(notebook, (place.top / os.fsdecode(path)).with_suffix(""))
    return merged


def complete_clone(remote: Remote, ref: str) -> None:
    """Fetch the notes that a partial clone lacks; pages that were made here meanwhile are merged with them.

    Raises:
        GitError: The remote cannot be read.
    """
    remote.fetch(ref)
    tip = read_commit(remote.folders, ref)
    if tip and not read_state(remote.notebook).get("base"):
        update_disk(remote.notebook, remote.folders, ref, "", tip)


def files_left(folders: GitFolders, changes: Mapping[bytes, PathChange]) -> list[str]:
    """Return the files of notes that changes delete and that are on disk still: they were edited here."""
    gone = (path for path, change in changes.items() if change.after is None and b"notes/" in path)
    return sorted(text_path(path) for path in gone if os.path.lexists(folders.top / os.fsdecode(path)))


def move_branch(folders: GitFolders, ref: str, new: str, old: str) -> bool:
    """Move the branch if it is still at `old` ("" for absent) and return whether it was."""
    return run_git(folders, "update-ref", "-m", "labbook sync", ref, new, old or "0" * len(new)).code == 0


def _places(folders: GitFolders, ref: str) -> list[_Place]:
    trees = [tree for tree in work_trees(folders) if tree.ref == ref or tree.busy_with == ref]
    for tree in trees:
        doing = operation(tree.folders.git_dir)
        if doing:
            raise GitError("sync.error.busy", operation=doing, top=str(tree.folders.top))
    places = [_Place(tree.folders.top, tree) for tree in trees]
    if folders.top not in {place.top for place in places} and not folders.bare:
        places.append(_Place(folders.top, None))
    return places


def _check_clean(place: _Place, changes: Mapping[bytes, PathChange], prefix: str) -> None:
    """Raise if files outside of the notebook have changes on disk that the update would replace."""
    assert place.tree is not None
    code = {path: change for path, change in changes.items() if not belongs_to_notebook(path, prefix)}
    if not code:
        return
    listed = run_git(place.tree.folders, "ls-files", "-s", "-z", "--full-name").out.split(b"\0")[:-1]
    staged = {row.split(b"\t", 1)[1]: row.split()[1].decode() for row in listed}
    edited = []
    for path, change in code.items():
        before = change.before.blob if change.before else ""
        after = change.after.blob if change.after else ""
        if staged.get(path, "") not in (before, after):
            edited.append(path)
            continue
        data = _read(place.top / os.fsdecode(path))
        if data is not None and blob_hash(data, before or after) not in (before, after):
            edited.append(path)
    if edited:
        names = ", ".join(text_path(path) for path in sorted(edited)[:5])
        raise GitError("sync.error.edited_files", files=names, top=str(place.top))


def _write_all(folders: GitFolders, place: _Place, changes: Mapping[bytes, PathChange]) -> list[Path]:
    merged = []
    waiting: list[bytes] = []
    for path, change in changes.items():
        file = place.top / os.fsdecode(path)
        if not _is_safe(path, file, place.top):
            continue
        if change.after is None:
            data = _read(file)
            if (
                data is not None
                and change.before is not None
                and blob_hash(data, change.before.blob) == change.before.blob
            ):
                file.unlink(missing_ok=True)
                _remove_empty(file.parent, place.top)
        elif change.after.is_file or (change.after.mode == "120000" and place.tree is not None):
            waiting.append(path)
    for start in range(0, len(waiting), 500):
        part = waiting[start : start + 500]
        merged += _write_some(folders, place, {path: changes[path] for path in part})
    return merged


def _write_some(folders: GitFolders, place: _Place, changes: Mapping[bytes, PathChange]) -> list[Path]:
    files = {path: place.top / os.fsdecode(path) for path in changes}
    present = {path: _read(file) for path, file in files.items()}
    todo: dict[bytes, bool] = {}
    for path, change in changes.items():
        assert change.after is not None
        data = present[path]
        before = change.before.blob if change.before else ""
        found = "" if data is None else blob_hash(data, change.after.blob)
        if found != change.after.blob:
            todo[path] = found not in ("", before)
    wanted = [changes[path].after.blob for path in todo]  # type: ignore[union-attr]
    wanted += [c.before.blob for p, c in changes.items() if todo.get(p) and c.before and c.before.is_file]
    blobs = read_blobs(folders, wanted)
    merged = []
    for path, edited in todo.items():
        file, change = files[path], changes[path]
        assert change.after is not None
        data = blobs[change.after.blob]
        if edited:
            present_now, mine = present[path] or b"", None
            base = blobs[change.before.blob] if change.before and change.before.is_file else None
            from labbook.sharing.file_merge import merge_file  # 10 ms, for notes edited here and elsewhere

            while present_now != mine:  # again if an editor has just written it
                mine = present_now
                data = merge_file(path, base, mine, blobs[change.after.blob]).data
                present_now = _read(file) or mine
            merged.append(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        if change.after.mode == "120000":
            if not os.path.lexists(file):
                file.symlink_to(os.fsdecode(data))
            continue
        write_atomically(file, data, durable=False)
        if change.after.mode == "100755":
            file.chmod(file.stat().st_mode | 0o111)
    return merged


def _is_safe(path: bytes, file: Path, top: Path) -> bool:
    """Whether a path of a foreign tree stays inside the work tree and outside of git's folders."""
    parts = path.lower().split(b"/")
    return (
        b".." not in parts
        and b".git" not in parts
        and b".labbook" not in parts
        and file.parent.resolve().is_relative_to(top.resolve())
        and not file.is_symlink()
    )


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes() if file.is_file() and not file.is_symlink() else None
    except OSError:
        return None


def _remove_empty(folder: Path, top: Path) -> None:
    with contextlib.suppress(OSError):
        while folder != top and folder.name not in ("notes", ""):
            folder.rmdir()
            folder = folder.parent
