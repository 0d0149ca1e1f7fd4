"""Files that a run read and wrote, with fingerprints; many files of one folder become one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from labbook.capture.fingerprints import Budget, Fingerprint, fingerprint, list_files, manifest
from labbook.model.run import FileUse

if TYPE_CHECKING:
    from labbook.store.config import Config

MANY = 16
"""More files than this in one folder, used alike, are one row. Source: chosen by us, a table that is still read."""

_MAX_ROWS = 60
_MODES = {"r": "read", "w": "written", "rw": "read and written"}
_PASSED_OVER = ("/proc/", "/sys/", "/dev/")
_CODE = (".py", ".pyc", ".pyo", ".pyi", ".so")


@dataclass
class _Use:
    """One path over all processes."""

    path: str
    mode: str
    mtime_ns: int = 0
    size: int = -1
    folder: bool = False
    members: int = 1


def summarize_files(items: Iterable[Mapping[str, Any]], cwd: Path, config: Config) -> list[FileUse]:
    """The files that a run read and wrote, what was read first.

    Fingerprints are of the files as they are now; a file that was read and has changed since has none. A folder in
    which the probe itself could only count files gets the fingerprint of the names and sizes in it.

    Args:
        items: Of the probe's `files` events, over all processes.
        cwd: The run's working folder; paths below it are shown relative to it, those below the home folder with "~".
        config: Says up to which size files are hashed whole.

    Cost:
        At most two seconds; 1.5 GB/s for small files, 1.3 ms for each large one.
    """
    used = _merged(items)
    budget = Budget(hash_full_bytes=config.hash_full_bytes)
    rows: list[FileUse] = []
    for mode in ("r", "rw", "w"):
        of_mode = [use for use in used.values() if use.mode == mode]
        for folder, uses in _grouped(of_mode, cwd):
            rows.append(_row(folder, uses, cwd, budget))
    kept = [row for row in rows if not _is_fleeting(row, cwd)]
    return _limited(kept)


def _merged(items: Iterable[Mapping[str, Any]]) -> dict[str, _Use]:
    used: dict[str, _Use] = {}
    for item in items:
        path, mode = str(item.get("path") or ""), str(item.get("mode") or "r")
        if not path.startswith(("/", "~")) or path.startswith(_PASSED_OVER) or path.endswith(_CODE):
            continue
        mode = mode if mode in _MODES else "rw"
        known = used.setdefault(path, _Use(path, mode, folder=bool(item.get("folder"))))
        known.mode = mode if known.mode == mode else "rw"
        known.size = max(known.size, int(item.get("size") or 0))
        known.mtime_ns = max(known.mtime_ns, int(item.get("mtime_ns") or 0))
        known.members = max(known.members, int(item.get("members") or 1))
    return used


def _grouped(uses: Sequence[_Use], cwd: Path) -> list[tuple[str, list[_Use]]]:
    """Files that stand alone, as ("", [file]), and folders of many; deep trees are joined from below."""
    folders: dict[str, list[_Use]] = {}
    for use in uses:
        folders.setdefault(use.path if use.folder else str(PurePosixPath(use.path).parent), []).append(use)
    alone: list[_Use] = []
    for folder, members in list(folders.items()):
        if len(members) <= MANY and not any(m.folder for m in members):
            alone += members
            del folders[folder]
    # One file in each of many folders, as in `<class>/<image>`: joined one level up until the table can be read.
    limit = MANY
    while len(alone) + len(folders) > _MAX_ROWS and limit >= 2:
        joined = _join_up(folders, alone, limit, cwd)
        if not joined:
            limit //= 2
    return [("", [use]) for use in sorted(alone, key=lambda u: u.path)] + sorted(folders.items())


def _join_up(folders: dict[str, list[_Use]], alone: list[_Use], limit: int, cwd: Path) -> bool:
    parents: dict[str, list[str]] = {}
    for folder in folders:
        parents.setdefault(str(PurePosixPath(folder).parent), []).append(folder)
    files: dict[str, list[_Use]] = {}
    for use in alone:
        files.setdefault(str(PurePosixPath(use.path).parent.parent), []).append(use)
    joined = False
    for parent in sorted({*parents, *files}, key=lambda p: -p.count("/")):
        below = parents.get(parent, [])
        if len(below) + len(files.get(parent, [])) <= limit or not _may_join(parent, cwd):
            continue
        group = folders.setdefault(parent, [])
        for folder in below:
            if folder != parent:
                group += folders.pop(folder, [])
        group += files.get(parent, [])
        taken = {id(use) for use in files.get(parent, [])}
        alone[:] = [use for use in alone if id(use) not in taken]
        joined = True
    return joined


def _may_join(folder: str, cwd: Path) -> bool:
    """Whether a row for this folder says something: the root, a home or what holds the working folder does not."""
    path = Path(folder)
    return len(path.parts) > 2 and path != Path.home() and not cwd.is_relative_to(path)


def _row(folder: str, uses: Sequence[_Use], cwd: Path, budget: Budget) -> FileUse:
    mode = _MODES[uses[0].mode]
    if not folder:
        use = uses[0]
        found = _print(use, budget)
        return FileUse(_shown(use.path, cwd), mode, found.size, found.text, 1, found.reason)
    members: dict[str, tuple[int, str]] = {}
    counted = 0
    for use in uses:
        if use.folder:
            counted += use.members
            inside = list_files(Path(use.path).expanduser())
            members |= {_below(f"{use.path}/{name}", folder): value for name, value in inside.items()}
    for use in uses:
        if not use.folder:
            found = _print(use, budget) if not counted else Fingerprint("", use.size)
            if found.reason != "gone":
                members[_below(use.path, folder)] = (found.size, found.text)
    size = sum(max(0, member[0]) for member in members.values())
    count = max(counted, sum(not use.folder for use in uses))
    reason = "" if members else "gone"
    return FileUse(_shown(folder, cwd) + "/", mode, size, manifest(members) if members else "", count, reason)


def _print(use: _Use, budget: Budget) -> Fingerprint:
    found = fingerprint(Path(use.path).expanduser(), budget, use.mtime_ns if use.mode == "r" else 0)
    return found if found.size >= 0 else Fingerprint(found.text, use.size, found.reason)


def _below(path: str, folder: str) -> str:
    return path.removeprefix(folder.rstrip("/") + "/")


def _shown(path: str, cwd: Path) -> str:
    pure = Path(path)
    for base in dict.fromkeys((cwd, cwd.resolve())):
        if pure.is_relative_to(base) and pure != base:
            return pure.relative_to(base).as_posix()
    home = Path.home()
    if pure.is_relative_to(home) and len(home.parts) > 1:
        return f"~/{pure.relative_to(home).as_posix()}" if pure != home else "~"
    return path


def _is_fleeting(row: FileUse, cwd: Path) -> bool:
    """Whether a row is a temporary file that came and went with the run, as compilers and queues make them."""
    temporary = row.path.startswith(("/tmp/", "/var/tmp/", "/dev/shm/")) and not str(cwd).startswith("/tmp/")
    return row.reason == "gone" and row.mode != "read" and (temporary or (row.members == 1 and _is_scratch(row.path)))


def _is_scratch(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.startswith((".", "tmp", "~")) or name.endswith((".tmp", ".part", ".lock", ".swp", "~"))


def _limited(rows: list[FileUse]) -> list[FileUse]:
    """At most so many rows as a page can bear; the rest is one row that says how many there are."""
    limit = 3 * _MAX_ROWS
    if len(rows) <= limit:
        return rows
    rest = rows[limit:]
    total = sum(max(0, row.size_bytes) for row in rest)
    mode = rest[0].mode if len({row.mode for row in rest}) == 1 else "read and written"
    count = sum(row.members for row in rest)
    return [*rows[:limit], FileUse("(other files)", mode, total, "", count, "too many to list")]
