"""Merges two commits of the notebook's branch without a work tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from labbook.errors import GitError
from labbook.frozen import dataclass
from labbook.sharing.file_merge import are_different_runs, merge_file, name_beside, other_run_id, run_of
from labbook.sharing.tree_diff import PathChange, TreeEntry, diff_trees, merge_bases
from labbook.store.git.fast_import import FileChange, commit_stream
from labbook.store.git.git_identity import Signers
from labbook.store.git.git_process import GitFolders, read_blobs, run_git

_DEEPEST = 8
"""Most levels of ancestors that are merged to get one. Source: chosen by us; more than one needs pushes by hand."""


@dataclass(frozen=True)
class NewFile:
    """A file of the merge: an existing blob, or new data."""

    mode: str
    blob: str = ""
    data: bytes = b""


@dataclass(frozen=True)
class TreeMerge:
    """The merge of two trees.

    Args:
        changes: What differs from the first tree: path -> file, or `None` for a deletion.
        conflicts: Files in which two versions of the same lines stay, and entries of runs that got another id.
    """

    changes: Mapping[bytes, NewFile | None]
    conflicts: tuple[bytes, ...]


class CodeConflictError(Exception):
    """Both sides changed the same lines of files outside of the notebook, which labbook does not merge."""

    def __init__(self, paths: list[bytes]) -> None:
        super().__init__(paths)
        self.paths = paths


def merge_trees(
    folders: GitFolders, base: str, ours: str, theirs: str, *, is_ours_to_merge: Callable[[bytes], bool] | None = None
) -> TreeMerge:
    """Return the merge of two commits; the resulting tree does not depend on which is `ours`.

    Args:
        base: Their common ancestor, or "".
        ours: The commit that `changes` are relative to.
        theirs: The other commit.
        is_ours_to_merge: Whether a path belongs to the notebook; `None`: all do.

    Raises:
        CodeConflictError: Both changed the same lines of a file that does not belong to the notebook.
        GitError: A commit cannot be read.
    """
    changed = diff_trees(folders, base, ours)
    one, other = _follow_renames(changed, diff_trees(folders, base, theirs))
    both = [path for path in one if path in other and one[path].after != other[path].after]
    result: dict[bytes, NewFile | None] = {
        path: _as_file(change.after) for path, change in other.items() if path not in one
    }
    blobs = read_blobs(folders, _needed_blobs(one, other, both))
    apart, conflicts = _rename_other_runs(one, other, both, blobs, folders, result)
    foreign = []
    for path in both:
        if path in apart:
            continue
        mine, yours = one[path].after, other[path].after
        if mine is None or yours is None:
            # Deleted here, edited there: the edit stays.
            result[path] = _as_file(mine or yours)
            continue
        if not (mine.is_file and yours.is_file):
            result[path] = _as_file(max(mine, yours, key=lambda entry: (entry.mode, entry.blob)))
            conflicts.append(path)
            continue
        before = one[path].before
        old = blobs[before.blob] if before is not None and before.is_file else None
        merged = merge_file(path, old, blobs[mine.blob], blobs[yours.blob])
        if merged.conflict:
            conflicts.append(path)
            if is_ours_to_merge is not None and not is_ours_to_merge(path):
                foreign.append(path)
        result[path] = NewFile(_merge_mode(before, mine, yours), data=merged.data)
        if merged.beside:
            result[_sibling(path, merged.beside)] = NewFile("100644", data=merged.beside_data)
    if foreign:
        raise CodeConflictError(foreign)
    _keep_runs_whole(one, other, result)
    _separate_files_from_folders(folders, one, result)
    return TreeMerge(_real_changes(changed, result), tuple(sorted(conflicts)))


def commit_merge(
    folders: GitFolders,
    base_of: str | None,
    ours: str,
    theirs: str,
    *,
    signers: Signers,
    when: float,
    message: str,
    is_ours_to_merge: Callable[[bytes], bool] | None = None,
    one_parent: bool = False,
) -> tuple[str, tuple[bytes, ...]]:
    """Create the commit that merges two commits and return its hash with the files that hold two versions.

    No branch moves. A commit that contains the other is returned as it is.

    Args:
        base_of: The common ancestor, `None` to look for it.
        signers: Author and committer.
        when: Unix time (s).
        is_ours_to_merge: See `merge_trees`.
        one_parent: Whether `ours` is the only parent.

    Raises:
        CodeConflictError: See `merge_trees`.
        GitError: git failed.
    """
    base = _common_ancestor(folders, ours, theirs, 0) if base_of is None else base_of
    if base == theirs and not one_parent:
        return ours, ()
    if base == ours and not one_parent:
        return theirs, ()
    merged = merge_trees(folders, base, ours, theirs, is_ours_to_merge=is_ours_to_merge)
    if one_parent and not merged.changes:
        return ours, ()
    parents = (ours,) if one_parent else (ours, theirs)
    return write_commit(folders, parents, merged.changes, signers=signers, when=when, message=message), merged.conflicts


def write_commit(
    folders: GitFolders,
    parents: tuple[str, ...],
    changes: Mapping[bytes, NewFile | None],
    *,
    signers: Signers,
    when: float,
    message: str,
) -> str:
    """Create a commit with one `git fast-import` and return its hash; no branch moves.

    Raises:
        GitError: git failed.
    """
    scratch = f"refs/labbook/merge-{os.getpid()}"
    files = [
        FileChange(path, file.data, file.mode, file.blob) if file is not None else FileChange(path, None)
        for path, file in changes.items()
    ]
    stream = commit_stream(scratch, parents, files, message, signers=signers, when=when)
    answer = run_git(folders, "fast-import", "--quiet", "--force", stdin=stream, timeout_s=600)
    run_git(folders, "update-ref", "-d", scratch)
    if answer.code:
        raise GitError(
            "errors.git.merge_not_written", folder=folders.top, reason="".join(answer.error.splitlines()[:1])
        )
    return answer.out.decode("ascii").split()[0]


def _common_ancestor(folders: GitFolders, one: str, other: str, depth: int) -> str:
    """Return the common ancestor, "" for none; several (after merges across) are merged into one.

    Their contents decide on the order, not their hashes, which depend on the time.
    """
    bases = merge_bases(folders, one, other)
    if not bases:
        return ""
    if len(bases) > 2:
        trees = run_git(folders, "rev-parse", *(f"{base}^{{tree}}" for base in bases)).out.split()
        bases = [base for _, base in sorted(zip(trees, bases, strict=True))]
    merged = bases[0]
    for base in bases[1:] if depth < _DEEPEST else ():
        before = _common_ancestor(folders, merged, base, depth + 1)
        changes = merge_trees(folders, before, merged, base).changes
        merged = write_commit(folders, (merged, base), changes, signers=Signers(), when=0, message="Common ancestor\n")
    return merged


def _follow_renames(
    one: Mapping[bytes, PathChange], other: Mapping[bytes, PathChange]
) -> tuple[Mapping[bytes, PathChange], Mapping[bytes, PathChange]]:
    """Return the changes of both sides, with the edit of a note at the name that the other side has given to it."""
    sides = [dict(one), dict(other)]
    for at, (renaming, editing) in enumerate(((one, other), (other, one))):
        gone: dict[str, list[bytes]] = {}
        for path, change in renaming.items():
            if change.after is None and change.before is not None and path.endswith(b".md") and not run_of(path):
                gone.setdefault(change.before.blob, []).append(path)
        for new, change in renaming.items():
            old = gone.pop(change.after.blob, []) if change.before is None and change.after is not None else []
            edit = editing.get(old[0]) if len(old) == 1 else None
            if edit is not None and edit.after is not None and edit.after.is_file and new not in editing:
                sides[at][new] = PathChange(edit.before, change.after)
                sides[1 - at][new] = sides[1 - at].pop(old[0])
    return sides[0], sides[1]


def _needed_blobs(one: Mapping[bytes, PathChange], other: Mapping[bytes, PathChange], both: list[bytes]) -> list[str]:
    entries = [e for p in both for e in (one[p].before, one[p].after, other[p].after)]
    return [entry.blob for entry in entries if entry is not None and entry.is_file]


def _rename_other_runs(
    one: Mapping[bytes, PathChange],
    other: Mapping[bytes, PathChange],
    both: list[bytes],
    blobs: Mapping[str, bytes],
    folders: GitFolders,
    result: dict[bytes, NewFile | None],
) -> tuple[set[bytes], list[bytes]]:
    """Give the second of two runs with one id a new id; return the paths that this settles, and the new entries."""
    settled: set[bytes] = set()
    entries = []
    for path in both:
        run = run_of(path)
        mine, yours = one[path].after, other[path].after
        if run is None or run[2] != b".md" or one[path].before is not None or mine is None or yours is None:
            continue
        if not are_different_runs(blobs[mine.blob], blobs[yours.blob]):
            continue
        folder, old_id, _ = run
        renamed_is_mine = blobs[mine.blob] > blobs[yours.blob]
        side = one if renamed_is_mine else other
        new_id = other_run_id(old_id, blobs[(mine if renamed_is_mine else yours).blob])
        files = {p: c.after for p, c in side.items() if p.startswith(folder + old_id) and c.after is not None}
        contents = read_blobs(folders, [entry.blob for entry in files.values() if entry.is_file])
        for old_path, entry in files.items():
            data = contents.get(entry.blob, b"").replace(old_id, new_id)
            result[old_path.replace(old_id, new_id)] = NewFile(entry.mode, data=data)
        for each in {p for p in (*one, *other) if p.startswith((folder + old_id + b".", folder + old_id + b"/"))}:
            settled.add(each)
            kept = (other if renamed_is_mine else one).get(each)
            result[each] = _as_file(kept.after) if kept is not None else None
        entries.append(folder + new_id + b".md")
    return settled, entries


def _keep_runs_whole(
    one: Mapping[bytes, PathChange], other: Mapping[bytes, PathChange], result: dict[bytes, NewFile | None]
) -> None:
    """Undo the deletion of an entry's files by one side where the other side edited the entry."""
    for mine, yours in ((one, other), (other, one)):
        edited = {run_of(p)[:2] for p, c in mine.items() if run_of(p) and c.after is not None}  # type: ignore[index]
        for path, change in yours.items():
            run = run_of(path)
            if run and change.after is None and run[:2] in edited and path not in mine:
                result[path] = _as_file(change.before)


def _separate_files_from_folders(
    folders: GitFolders,
    one: Mapping[bytes, PathChange],
    result: dict[bytes, NewFile | None],
) -> None:
    """Give a file another name where the other side made a folder of that name."""
    final = {path: _as_file(change.after) for path, change in one.items()} | result
    there = {path for path, file in final.items() if file is not None}
    for path in sorted(there):
        for folder in PurePosixPath(os.fsdecode(path)).parents:
            taken = os.fsencode(folder.as_posix())
            file = final.get(taken)
            if taken in there and file is not None:
                data = file.data or read_blobs(folders, [file.blob])[file.blob]
                result[_sibling(taken, name_beside(taken, data))] = NewFile(file.mode, file.blob, file.data)
                result[taken] = None
                there.discard(taken)


def _real_changes(
    one: Mapping[bytes, PathChange], result: Mapping[bytes, NewFile | None]
) -> dict[bytes, NewFile | None]:
    """Return the changes of the first tree, without those that it has already."""
    return {path: file for path, file in sorted(result.items()) if path not in one or _as_file(one[path].after) != file}


def _as_file(entry: TreeEntry | None) -> NewFile | None:
    return None if entry is None else NewFile(entry.mode, entry.blob)


def _merge_mode(before: TreeEntry | None, mine: TreeEntry, yours: TreeEntry) -> str:
    if mine.mode == yours.mode or before is None:
        return max(mine.mode, yours.mode)
    return yours.mode if mine.mode == before.mode else mine.mode


def _sibling(path: bytes, name: str) -> bytes:
    folder, slash, _ = path.rpartition(b"/")
    return folder + slash + os.fsencode(name)
