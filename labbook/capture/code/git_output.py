"""Reads what git prints about a work tree: its status, and the lists of changed files. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Status:
    """The state of a work tree: its commit and branch, whether tracked files changed, new files, submodules."""

    commit: str = ""
    branch: str = ""
    detached: bool = False
    upstream: str = ""
    ahead: int | None = None
    behind: int | None = None
    changed: bool = False
    untracked: list[str] = field(default_factory=list)
    submodules: list[str] = field(default_factory=list)


def parse_status(text: str) -> Status:
    """Returns the status in the output of `git status --porcelain=v2 --branch -z`."""
    status = Status()
    items = iter(text.split("\0"))
    for item in items:
        kind, _, rest = item.partition(" ")
        if kind == "#":
            _parse_branch(status, rest)
        elif kind == "?":
            status.untracked.append(rest)
        elif kind in ("1", "2", "u"):
            status.changed = True
            fields = rest.split(" ", 9 if kind == "u" else 8 if kind == "2" else 7)
            if kind == "2":
                next(items, None)
            if fields[1].startswith("S"):
                status.submodules.append(fields[-1])
    return status


def _parse_branch(status: Status, rest: str) -> None:
    name, _, value = rest.partition(" ")
    if name == "branch.oid":
        status.commit = "" if value == "(initial)" else value
    elif name == "branch.head":
        status.detached = value == "(detached)"
        status.branch = "" if status.detached else value
    elif name == "branch.upstream":
        status.upstream = value
    elif name == "branch.ab":
        ahead, _, behind = value.partition(" ")
        status.ahead, status.behind = int(ahead), -int(behind)


def parse_changed_files(text: str) -> list[dict[str, Any]]:
    """Returns the changed files in the two lists of `git diff --raw --numstat -z`, joined."""
    files: list[dict[str, Any]] = []
    counts: dict[str, tuple[int | None, int | None]] = {}
    items = iter(text.split("\0"))
    for item in items:
        if item.startswith(":"):
            status_letter = item.split(" ")[4][:1]
            path = next(items, "")
            file: dict[str, Any] = {"path": path, "status": status_letter}
            if status_letter in ("R", "C"):
                file["path"], file["from"] = next(items, ""), path
            files.append(file)
        elif item.count("\t") >= 2:
            added, removed, path = item.split("\t", 2)
            if not path:
                next(items, None)
                path = next(items, "")
            counts[path] = (None, None) if added == "-" else (int(added), int(removed))
    for file in files:
        file["added"], file["removed"] = counts.get(file["path"], (None, None))
    conflicts = {f["path"] for f in files if f["status"] == "U"}
    return [f for f in files if f["status"] == "U" or f["path"] not in conflicts] if conflicts else files
