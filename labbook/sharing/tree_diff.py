"""Reads what differs between two trees of a repository, the contents of files, and common ancestors."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from labbook.errors import GitError
from labbook.frozen import dataclass
from labbook.store.git.git_process import GitFolders, run_git

_LONG_S = 600.0
_NEAR = 20
"""Commits that are looked at without git: as many runs as somebody shares at a time, mostly."""

_ANCESTORS: set[tuple[Path, str, str]] = set()
"""Pairs of commits of which the first is in the history of the second; that never changes."""


@dataclass(frozen=True)
class TreeEntry:
    """A file of a tree: its mode ("100644", "100755", "120000" a link, "160000" a submodule) and its hash."""

    mode: str
    blob: str

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.mode.startswith("100")


@dataclass(frozen=True)
class PathChange:
    """What a path was and is; `None` where it is absent."""

    before: TreeEntry | None
    after: TreeEntry | None


@lru_cache(maxsize=4)
def diff_trees(folders: GitFolders, before: str, after: str) -> Mapping[bytes, PathChange]:
    """Return the changed paths between two commits; "" is the empty tree.

    Raises:
        GitError: A commit is missing.

    Cost: one process that reads only the folders that differ; none for the same commits again.
    """
    answer = run_git(
        folders, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index",
        before or empty_tree(after), after or empty_tree(before), timeout_s=_LONG_S,
    )  # fmt: skip
    if answer.code:
        raise GitError("errors.git.not_compared", folder=folders.top, reason=answer.error)
    fields = answer.out.split(b"\0")[:-1]
    found = {}
    for about, path in zip(fields[0::2], fields[1::2], strict=True):
        old_mode, new_mode, old, new, _ = about.decode("ascii").lstrip(":").split(" ")
        found[path] = PathChange(_entry(old_mode, old), _entry(new_mode, new))
    return found


def empty_tree(like: str) -> str:
    """Return the hash of the empty tree, which git knows without having it, in the format of another hash."""
    import hashlib  # 3 ms, rarely needed

    name = "sha256" if len(like) == 64 else "sha1"
    return hashlib.new(name, b"tree 0\0", usedforsecurity=False).hexdigest()


def merge_bases(folders: GitFolders, one: str, other: str) -> list[str]:
    """Return the best common ancestors of two commits, sorted; empty if their histories are unrelated."""
    answer = run_git(folders, "merge-base", "--all", one, other, timeout_s=_LONG_S)
    if answer.code not in (0, 1):
        raise GitError("errors.git.no_history", folder=folders.top, reason=answer.error)
    return sorted(answer.out.decode("ascii").split())


def is_ancestor(folders: GitFolders, one: str, other: str) -> bool:
    """Whether a commit is in the history of another; false if one of them is not here."""
    pair = (folders.common_dir, one, other)
    if one != other and pair not in _ANCESTORS:
        if (
            not _is_near(folders, one, other)
            and run_git(folders, "merge-base", "--is-ancestor", one, other, timeout_s=_LONG_S).code
        ):
            return False
        _ANCESTORS.add(pair)
    return True


def _is_near(folders: GitFolders, one: str, other: str) -> bool:
    """Whether the first of two commits is among the last ancestors of the other one, without starting git."""
    if (folders.common_dir / "shallow").exists():
        return False  # a parent may not be here
    for _ in range(_NEAR):
        parents = _parents_of_loose(folders, other)
        if one in parents:
            return True
        if len(parents) != 1:
            return False
        other = parents[0]
    return False


def _parents_of_loose(folders: GitFolders, commit: str) -> list[str]:
    """Returns the parents of a commit that is in a file of its own, as new ones are; empty for any other."""
    try:
        packed = (folders.common_dir / "objects" / commit[:2] / commit[2:]).read_bytes()
        head = zlib.decompress(packed).partition(b"\n\n")[0]
    except (OSError, zlib.error):
        return []
    return [line[7:].decode("ascii") for line in head.split(b"\n")[1:] if line.startswith(b"parent ")]


def runs_among(paths: Sequence[bytes] | Iterable[bytes]) -> int:
    """Return how many entries of runs are among some paths."""
    return sum(1 for path in paths if b"notes/runs/" in path and path.endswith(b".md"))


def text_path(path: bytes) -> str:
    """Return a path as text that can be printed."""
    return os.fsdecode(path).encode("utf-8", "replace").decode("utf-8")


def _entry(mode: str, blob: str) -> TreeEntry | None:
    return None if mode == "000000" else TreeEntry(mode, blob)
