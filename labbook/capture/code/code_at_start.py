"""Finds source files that were edited while their run went on, and writes them as they were at its start."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labbook.errors import GitError
from labbook.store.git.git_process import create_repository, discover, run_git


def write_code_at_start(
    files: Iterable[Path], facts: Mapping[str, Any], patch: Path, started: float, folder: Path
) -> dict[Path, Path]:
    """Writes the source files of a run as they were at its start, if one of them has another content now.

    A file of which git and the patch know nothing, such as code that the program generates, is not edited.

    Args:
        files: Absolute paths of files that the run loaded.
        facts: Facts of its code, see `labbook.capture.code.working_tree`.
        patch: Its uncommitted changes; need not exist.
        started: Start of the run, in seconds since the epoch.
        folder: Where the files are written, as they lie in the folder of the code.

    Returns:
        File -> its copy; empty if none was edited. The copy does not exist if the old content cannot be made.
    """
    top = Path(str(facts.get("top") or "")).expanduser()
    inside = [file for file in files if top.is_absolute() and file.is_relative_to(top)]
    newer = [file for file in inside if _is_newer(file, started)]
    if not newer:
        return {}
    names = [file.relative_to(top).as_posix() for file in newer]
    try:
        _write_committed(names, str(facts.get("commit") or ""), top, folder)
        _apply_patch(names, patch, folder)
    except (OSError, GitError):
        return dict.fromkeys(newer, folder / "unknown")
    known = [name for name in names if (folder / name).is_file()]
    if all((folder / name).read_bytes() == (top / name).read_bytes() for name in known):
        return {}
    copies = {file: folder / file.relative_to(top) for file in inside}
    for file, copy in copies.items():
        if not copy.exists() and file.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    return copies


def _is_newer(file: Path, moment: float) -> bool:
    try:
        return file.stat().st_mtime > moment
    except OSError:
        return False


def _write_committed(names: Iterable[str], commit: str, top: Path, folder: Path) -> None:
    """Writes files as they are in the commit of a run; those that are not in it are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    repository = discover(top)
    if repository is None or not commit:
        return
    for name in names:
        found = run_git(repository, "cat-file", "blob", f"{commit}:{name}")
        if not found.code:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(found.out)


def _apply_patch(names: Iterable[str], patch: Path, folder: Path) -> None:
    """Applies what a patch says of some files to those in a folder.

    Raises:
        OSError: It does not apply.
    """
    if not patch.is_file():
        return
    repository = create_repository(folder)
    only = [f"--include={_escape(name)}" for name in names]
    done = run_git(repository, "apply", "--whitespace=nowarn", *only, "-", stdin=patch.read_bytes())
    shutil.rmtree(repository.git_dir, ignore_errors=True)
    if done.code:
        raise OSError(done.error)


def _escape(name: str) -> str:
    return "".join(f"\\{letter}" if letter in "*?[\\" else letter for letter in name)
