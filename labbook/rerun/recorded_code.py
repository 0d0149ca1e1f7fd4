"""Puts the code of a recorded run into a folder of its own: a worktree at its commit, with its patch."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labbook.compare.run_settings import captured_facts
from labbook.errors import GitError, UsageError
from labbook.frozen import dataclass
from labbook.model.message import Message, message
from labbook.store.git.git_process import GitFolders, create_repository, discover, run_git
from labbook.store.notebook import Notebook

_GIT_S = 600.0


def cache_folder() -> Path:
    """Returns the folder of worktrees and environments of reruns."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "labbook"


@dataclass(frozen=True)
class RecordedCode:
    """The code of a run in a folder.

    Args:
        top: Its top folder.
        cwd: The working folder of the command; it lies to `top` as `original` lay to the top folder then.
        original: The folder that the run was recorded in.
        checkout: The checkout of the same repository on this machine, where the run was recorded on another machine,
            in a container or by a colleague.
        notes: What differs from the recorded code.
    """

    top: Path
    cwd: Path
    original: Path
    checkout: Path | None = None
    notes: tuple[Message, ...] = ()

    @property
    def original_top(self) -> Path:
        """The top folder of the code that the run was recorded in."""
        return Path(os.path.normpath(self.original / os.path.relpath(self.top, self.cwd)))

    def move_path(self, path: Path) -> Path:
        """Returns where a path of the recorded code is now; what is here no more, such as data, stays where it was."""
        if not path.is_relative_to(self.original_top):
            return path
        moved = self.top / path.relative_to(self.original_top)
        return moved if moved.exists() or not path.exists() else path

    def move_paths(self, text: str) -> str:
        """Returns a text, such as a list of folders, in which each path is moved, and `~` is the home folder."""
        top = self.original_top
        tops = {str(top), f"~/{top.relative_to(Path.home())}" if top.is_relative_to(Path.home()) else str(top)}
        begin = r"(?<![^:;,=\s\"'\[({])"
        paths = rf"{begin}(?:{'|'.join(map(re.escape, tops))})(?![^/:;,\s\"'\])}}])[^:;,\s\"'\])}}]*"
        text = re.sub(paths, lambda found: str(self.move_path(Path(found[0]).expanduser())), text)
        return re.sub(rf"{begin}~(?=/|$|[:;,])", lambda _: str(Path.home()), text)


@contextlib.contextmanager
def recorded_code(
    notebook: Notebook, run: Mapping[str, Any], *, incomplete: bool = False, keep: bool = False
) -> Iterator[RecordedCode]:
    """Gives the code of a run, in a folder that is removed at the end.

    Args:
        run: Its `run.json`.
        incomplete: Whether code is accepted of which the entry lacks a part.

    Raises:
        UsageError: The code was not recorded, is incomplete, its commit is gone, or its patch does not apply.
    """
    code = captured_facts(run, "code")
    if not code or "unavailable" in code:
        raise UsageError("errors.rerun.no_code", run=run.get("id"))
    notes = () if code.get("patch_complete", True) else (_incomplete(run, code, allowed=incomplete),)
    original = Path(str(run.get("cwd") or "")).expanduser()
    top = Path(str(code.get("top") or original)).expanduser()
    original = original if original.is_absolute() else top
    # `python ../code/train.py`: a program may have been started outside of its code.
    shared = os.path.commonpath([top, original])
    repository = _repository(code, original, notebook) if code.get("repository") else None
    # Not in the notebook, whose files the recorder does not count as the program's.
    folder = cache_folder() / "reruns"
    folder.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix=f"{run.get('id')}-", dir=folder))
    place, cwd = (root / "code" / path.relative_to(shared) for path in (top, original))
    with _raise_on_sigterm():
        try:
            if repository is not None and code.get("commit"):
                _check_out(repository, place, str(code["commit"]))
            else:
                place.mkdir(parents=True)
                create_repository(place)
            _apply(notebook, run, code, place)
            cwd.mkdir(parents=True, exist_ok=True)
            elsewhere = repository.top if repository is not None and not top.is_dir() else None
            yield RecordedCode(place, cwd, original, elsewhere, notes)
        finally:
            if not keep:
                _remove(repository, place)
                shutil.rmtree(root, ignore_errors=True)


@contextlib.contextmanager
def _raise_on_sigterm() -> Iterator[None]:
    """Lets SIGTERM leave the block as an exception, so that no worktree stays in the repository of the user."""
    default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not default or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _incomplete(run: Mapping[str, Any], code: Mapping[str, Any], *, allowed: bool) -> Message:
    why = str(code.get("patch_note") or "a part of the uncommitted changes was not recorded")
    if not allowed:
        raise UsageError("errors.rerun.code_incomplete", run=run.get("id"), why=why)
    return message("rerun.incomplete", why=why)


def _repository(code: Mapping[str, Any], original: Path, notebook: Notebook) -> GitFolders:
    """Returns the repository that has the commit of a run: where it was recorded, else the one around the notebook."""
    commit = str(code.get("commit") or "")
    places = [Path(str(code.get("top") or "")).expanduser(), original, Path.cwd(), notebook.paths.root]
    found = [folders for place in places if place.is_dir() and (folders := discover(place)) is not None]
    for folders in found:
        if not commit or _has_commit(folders, commit):
            return folders
    raise UsageError(
        "errors.rerun.no_commit",
        commit=commit[:9],
        remote=code.get("remote"),
        advice="errors.rerun.fetch_from_advice" if code.get("remote") else "",
    )


def _has_commit(folders: GitFolders, commit: str) -> bool:
    try:
        return run_git(folders, "cat-file", "-e", f"{commit}^{{commit}}").code == 0
    except GitError:
        return False


def _check_out(repository: GitFolders, place: Path, commit: str) -> None:
    try:
        done = run_git(repository, "worktree", "add", "--quiet", "--detach", str(place), commit, timeout_s=_GIT_S)
    except GitError as error:
        raise UsageError("errors.rerun.not_checked_out_space", reason=error) from error
    if done.code:
        raise UsageError("errors.rerun.not_checked_out", reason="".join(done.error.splitlines()[-1:]))
    folders = discover(place)
    if folders is not None and (place / ".gitmodules").is_file():
        with contextlib.suppress(GitError):
            run_git(folders, "submodule", "--quiet", "update", "--init", "--recursive", timeout_s=_GIT_S)


def _apply(notebook: Notebook, run: Mapping[str, Any], code: Mapping[str, Any], place: Path) -> None:
    """Applies the recorded patch, which also has the new files."""
    name = str(code.get("patch") or "")
    if not name:
        return
    of = (run.get("captured") or {}).get("trial") or {}
    patch = notebook.paths.attachments(str(of.get("run") or run.get("id"))) / Path(name).name
    folders = discover(place)
    try:
        content = patch.read_bytes()
    except OSError as error:
        raise UsageError("errors.rerun.patch_not_readable", patch=patch, reason=error) from error
    if folders is None:
        raise UsageError("errors.rerun.no_repository", folder=place)
    done = run_git(folders, "apply", "--whitespace=nowarn", "--allow-empty", "-", stdin=content, timeout_s=_GIT_S)
    if done.code and "allow-empty" in done.error:  # before git 2.35
        done = run_git(folders, "apply", "--whitespace=nowarn", "-", stdin=content, timeout_s=_GIT_S)
    if done.code:
        first = next(iter(done.error.splitlines()), "git apply failed")
        raise UsageError(
            "errors.rerun.patch_fails",
            run=run.get("id"),
            reason=first,
            patch=patch,
            commit=str(code.get("commit") or "")[:9],
        )


def _remove(repository: GitFolders | None, place: Path) -> None:
    with contextlib.suppress(OSError, GitError):
        if repository is not None and (place / ".git").is_file():
            run_git(repository, "worktree", "remove", "--force", str(place), timeout_s=_GIT_S)
