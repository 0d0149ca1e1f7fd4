"""State of a repository (rebase, merge, ...), read from the files of its git folder without calling git."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from labbook.errors import GitError
from labbook.frozen import dataclass
from labbook.store.git.git_process import GitFolders, discover, run_git

_OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)
_HASH = re.compile("[0-9a-f]{40,64}")


@dataclass(frozen=True)
class WorkTree:
    """One work tree of a repository.

    Args:
        ref: Full name of the branch it has checked out, or "" on a detached head.
        busy_with: Full name of the branch that a rebase will move at its end, or "".
    """

    folders: GitFolders
    ref: str
    busy_with: str = ""


def operation(git_dir: Path) -> str:
    """Return the operation in progress: "rebase", "merge", "cherry-pick", "revert", "bisect", or ""."""
    return next((name for file, name in _OPERATIONS if (git_dir / file).exists()), "")


def head_ref(folders: GitFolders) -> str:
    """Return the full name of the checked-out branch (it may be unborn), or "" on a detached head."""
    content = _read(folders.git_dir / "HEAD")
    if not content.startswith("ref:"):
        return ""
    ref = content.removeprefix("ref:").strip()
    if ref != "refs/heads/.invalid":
        return ref
    # A repository in the reftable format stores its head elsewhere.
    return run_git(folders, "symbolic-ref", "--quiet", "HEAD").out.decode("utf-8", "surrogateescape").strip()


def head_commit(folders: GitFolders) -> str:
    """Return the hash of the checked-out commit, "" if there is none or it cannot be read.

    Cost: that of `read_commit` for a branch. Used where git fails, and for the many repositories of editable packages.
    """
    content = _read(folders.git_dir / "HEAD")
    if _HASH.fullmatch(content):
        return content
    with contextlib.suppress(GitError):
        return read_commit(folders, head_ref(folders))
    return ""


def is_partial_clone(folders: GitFolders) -> bool:
    """Return whether git has left out contents on purpose, to fetch each when it is needed; labbook's git may not."""
    return "promisor" in _read(folders.common_dir / "config").lower()


def read_commit(folders: GitFolders, ref: str) -> str:
    """Return the commit of a branch by its full name, or of a hash if the repository has it; else "".

    Cost: a branch is read from its file; another process is needed for a hash, a symbolic ref or the reftable format.
    """
    if ref.startswith("refs/"):
        loose = _read(folders.common_dir / ref)
        if _HASH.fullmatch(loose):
            return loose
        if not loose and not (folders.common_dir / "reftable").exists():
            packed = _bytes(folders.common_dir / "packed-refs")
            row = re.search(rb"^([0-9a-f]{40,64}) %s$" % re.escape(os.fsencode(ref)), packed, re.MULTILINE)
            return row[1].decode() if row else ""
    answer = run_git(folders, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    return answer.out.decode("ascii", "replace").strip() if answer.code == 0 else ""


def work_trees(folders: GitFolders) -> list[WorkTree]:
    """Return all existing work trees of the repository, the main one first."""
    common = folders.common_dir
    found: list[GitFolders] = []
    if common == folders.git_dir:
        found += [] if folders.bare else [folders]
    elif common.name == ".git":
        main = discover(common.parent)
        found += [main] if main is not None and not main.bare else []
    for git_dir in sorted((common / "worktrees").glob("*")) if (common / "worktrees").is_dir() else []:
        top = Path(_read(git_dir / "gitdir")).parent
        if top.is_absolute() and top.is_dir():
            found.append(GitFolders(top.resolve(), git_dir, common))
    return [WorkTree(each, head_ref(each), _being_rebased(each.git_dir)) for each in found]


def _being_rebased(git_dir: Path) -> str:
    for file in ("rebase-merge/head-name", "rebase-apply/head-name"):
        content = _read(git_dir / file)
        if content:
            return content
    return ""


def _read(path: Path) -> str:
    return _bytes(path)[:65536].decode("utf-8", "surrogateescape").strip()


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
