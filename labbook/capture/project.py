"""Finds the project of a command: the repository of its program, or its folder outside git.

Two projects have programs of the same name, `train.py`: they share no experiment, no previous run and no fix.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from labbook.capture.command import find_program_file, find_repository
from labbook.frozen import dataclass
from labbook.store.json_files import read_text_or_nothing

_URL = re.compile(r"^(?:[a-z+]+://)?(?:[^@/]+@)?([^:/]+)[:/]+(?:\d+/)?(.+?)(?:\.git)?/*$")


@dataclass(frozen=True)
class Project:
    """A project of code.

    Args:
        name: Short name for people, "nanoGPT".
        root: Its identity: address of the remote, else path of the top folder; "" for the notebook's own project.
    """

    name: str = ""
    root: str = ""


def find_project(argv: Sequence[str], cwd: Path, notebook: Path) -> Project:
    """Returns the project of a command.

    Args:
        notebook: Root of the notebook. The repository or folder that holds it is its own project.
    """
    program = find_program_file(argv, cwd)
    installed = program.path is None or "site-packages" in program.path.parts or program.kind == "program"
    folder = program.folder if installed or program.path is None else program.path.resolve().parent
    top = find_repository(folder)
    own = notebook.resolve()
    if top is None:
        top = cwd.resolve() if folder.resolve().is_relative_to(cwd.resolve()) else folder.resolve()
        is_own = top.is_relative_to(own) or own.is_relative_to(top)
    else:
        top = _main_worktree(top.resolve())
        is_own = own.is_relative_to(top)
    return Project() if is_own else Project(top.name, _read_remote(top) or str(top))


def _main_worktree(top: Path) -> Path:
    """Returns the repository that a linked worktree belongs to; other folders as they are."""
    link = read_text_or_nothing(top / ".git") if (top / ".git").is_file() else ""
    found = re.match(r"gitdir: (.+)/\.git/worktrees/[^/]+\s*$", link)
    return Path(found[1]) if found else top


def _read_remote(top: Path) -> str:
    """Returns the address of `origin` as "host/owner/name", without user and password; "" if there is none."""
    text = read_text_or_nothing(top / ".git" / "config")
    section = re.search(r"^\[remote \"origin\"\]\n((?:[ \t].*\n?)*)", text, re.MULTILINE)
    url = re.search(r"^\s*url\s*=\s*(\S+)", section[1], re.MULTILINE) if section else None
    if url is None or url[1].startswith(("/", ".", "file:", "~")):
        return ""
    parts = _URL.match(url[1])
    return f"{parts[1]}/{parts[2]}" if parts else ""
