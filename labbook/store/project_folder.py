"""Identifies the project that a folder belongs to: its repository, or the folder itself outside git."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.frozen import dataclass
from labbook.store.json_files import read_text_or_nothing

if TYPE_CHECKING:
    from labbook.store.notebook import Notebook

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


def identify_project(folder: Path, top: Path | None, notebook: Path) -> Project:
    """Returns the project of a program.

    Args:
        folder: The folder of the program; the project itself where there is no repository.
        top: Top folder of the repository around it, or `None`.
        notebook: Root of the notebook. The repository or folder that holds it is its own project.
    """
    own = notebook.resolve()
    if top is None:
        top = folder.resolve()
        is_own = top.is_relative_to(own) or own.is_relative_to(top)
    else:
        top = _main_worktree(top.resolve())
        is_own = own.is_relative_to(top)
    return Project() if is_own else Project(top.name, _read_remote(top) or str(top))


def list_projects_around(folder: Path, notebook: Notebook) -> list[str]:
    """Returns the identities of the projects that a folder may belong to as entries have them, nearest first.

    Outside git a project is the folder of a program: this folder, or one above it.
    """
    from labbook.store.recorder_redaction import make_redactor

    top, root = find_repository(folder), notebook.paths.root
    above = [] if top else [identify_project(one, None, root).root for one in folder.parents]
    redactor = make_redactor(os.environ, (), notebook.redaction_rules())
    found = (identify_project(folder, top, root).root, *filter(None, above))
    return list(dict.fromkeys(redactor.text(one) for one in found))


def find_repository(folder: Path) -> Path | None:
    """Returns the top folder of the git repository around `folder`, or `None`."""
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return None


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
