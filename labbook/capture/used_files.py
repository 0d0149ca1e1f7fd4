"""Lists the files that a run read and wrote, with fingerprints; many of one folder as one row."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from labbook.capture.fingerprints import Budget, Fingerprint, combine_fingerprints, fingerprint_file, list_files
from labbook.capture.tracked_files import tracked_digest
from labbook.model.events.process_kinds import FileItem
from labbook.model.run_files import FileUse

if TYPE_CHECKING:
    from labbook.store.config import Config

MANY_FILES = 16
"""More files than this in one folder, used alike, become one row. Source: chosen by us, a table one can still read."""

_MAX_ROWS = 60
_PROBE_WHOLE = 16 << 20
"""Larger files are sampled by `probe/process/file_access.py`."""
_MODES = {"r": "read", "w": "written", "rw": "read and written"}
_IGNORED_FOLDERS = ("/proc/", "/sys/", "/dev/")
_CODE = (".pyc", ".pyo", ".pyi", ".so")


@dataclass
class FilePathUse:
    """The use of one path by all processes of a run.

    Args:
        mode: "r", "w" or "rw".
        size_before: Bytes that were in the file before the run; 0 if it made or emptied it. Known of a written file.
        before: Fingerprint of a file that was read and then written.
    """

    path: str
    mode: str
    mtime_ns: int = 0
    size: int = -1
    folder: bool = False
    members: int = 1
    before: str = ""
    size_before: int = 0


def summarize_files(
    items: Iterable[FileItem], cwd: Path, config: Config, linked_from: Path | None = None
) -> list[FileUse]:
    """Returns the files that a run read and wrote, with files only read first.

    Fingerprints are computed now; a file that changed after the run read it has none. A folder in which the probe only
    counted files gets the fingerprint of the names and sizes in it.

    Args:
        items: Items of the probe's `files` events, over all processes.
        cwd: The run's working folder; paths below it are shown relative to it, those below the home folder with "~".
        config: Settings; `hash_full_bytes` is the size above which files are hashed by samples.
        linked_from: Folder with the files that a rerun has links to in `cwd`; they are shown by the path of the link.

    Cost:
        At most two seconds; 1.5 GB/s for small files, 1.3 ms for each large one.
    """
    used, cwd = merge_uses(items), cwd.expanduser()
    shown_from = (cwd,) if linked_from is None else (cwd, linked_from.expanduser())
    budget = Budget(hash_full_bytes=config.hash_full_bytes)
    rows: list[FileUse] = []
    for mode in ("r", "rw", "w"):
        same_mode = [use for use in used.values() if use.mode == mode]
        # Those deleted again, as old checkpoints, are counted apart from those that are there.
        for is_gone in (False, True):
            for folder, uses in _group_by_folder([use for use in same_mode if _is_gone(use) == is_gone], cwd):
                rows.append(_make_row(folder, uses, shown_from, budget))
    return _limit_rows([row for row in rows if not _is_temporary(row, cwd)])


def _is_gone(use: FilePathUse) -> bool:
    """Whether a file was written and deleted again."""
    return use.mode != "r" and not os.path.lexists(os.path.expanduser(use.path))  # noqa: PTH111 - of each of thousands


def merge_uses(items: Iterable[FileItem]) -> dict[str, FilePathUse]:
    """Returns the use of each path over all processes."""
    used: dict[str, FilePathUse] = {}
    for item in items:
        path, mode = item.get("path", ""), item.get("mode") or "r"
        # The probe writes the home folder as "~"; the working folder may be below it.
        path = str(Path(path).expanduser()) if path.startswith("~/") else path
        if not path.startswith(("/", "~")) or path.startswith(_IGNORED_FOLDERS) or path.endswith(_CODE):
            continue
        mode = mode if mode in _MODES else "rw"
        size_before = item.get("size_before", 0)
        first = FilePathUse(path, mode, folder=item.get("folder", False), size_before=size_before)
        known = used.setdefault(path, first)
        known.size_before = min(known.size_before, size_before)
        known.mode = mode if known.mode == mode else "rw"
        known.before = known.before or item.get("before", "")
        known.size = max(known.size, item.get("size", 0))
        known.mtime_ns = max(known.mtime_ns, item.get("mtime_ns", 0))
        known.members = max(known.members, item.get("members") or 1)
    return used


def _group_by_folder(uses: Sequence[FilePathUse], cwd: Path) -> list[tuple[str, list[FilePathUse]]]:
    """Returns single files as ("", [file]) and folders with many files; deep trees are joined bottom-up."""
    folders: dict[str, list[FilePathUse]] = {}
    for use in uses:
        folders.setdefault(use.path if use.folder else str(PurePosixPath(use.path).parent), []).append(use)
    alone: list[FilePathUse] = []
    for folder, members in list(folders.items()):
        if len(members) <= MANY_FILES and not any(m.folder for m in members):
            alone += members
            del folders[folder]
    # One file in each of many folders, as in `<class>/<image>`: joined one level up until the table is short enough.
    limit = MANY_FILES
    while len(alone) + len(folders) > _MAX_ROWS and limit >= 2:
        joined = _join_up(folders, alone, limit, cwd)
        if not joined:
            limit //= 2
    return [("", [use]) for use in sorted(alone, key=lambda u: u.path)] + sorted(folders.items())


def _join_up(folders: dict[str, list[FilePathUse]], alone: list[FilePathUse], limit: int, cwd: Path) -> bool:
    parents: dict[str, list[str]] = {}
    for folder in folders:
        parents.setdefault(str(PurePosixPath(folder).parent), []).append(folder)
    files: dict[str, list[FilePathUse]] = {}
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
        joined_ids = {id(use) for use in files.get(parent, [])}
        alone[:] = [use for use in alone if id(use) not in joined_ids]
        joined = True
    return joined


def _may_join(folder: str, cwd: Path) -> bool:
    """Whether a row for this folder is useful: not for the root, the home or the parents of `cwd`."""
    path = Path(folder)
    return len(path.parts) > 2 and path != Path.home() and not cwd.is_relative_to(path)


def _make_row(folder: str, uses: Sequence[FilePathUse], shown_from: Sequence[Path], budget: Budget) -> FileUse:
    mode = _MODES[uses[0].mode]
    if not folder:
        use = uses[0]
        fingerprint = _fingerprint_use(use, budget)
        shown = display_path(use.path, *shown_from)
        path = Path(use.path).expanduser()
        samples = _samples(path, fingerprint, budget) if "w" in use.mode else ""
        tracked = tracked_digest(path)
        size, text, reason = fingerprint.size, fingerprint.text, fingerprint.reason
        return FileUse(shown, mode, size, text, 1, reason, use.before, samples, tracked)
    members: dict[str, tuple[int, str]] = {}
    counted = 0
    for use in uses:
        if use.folder:
            counted += use.members
            inside = list_files(Path(use.path).expanduser())
            members |= {_relative_name(f"{use.path}/{name}", folder): value for name, value in inside.items()}
    for use in uses:
        if not use.folder:
            fingerprint = _fingerprint_use(use, budget) if not counted else Fingerprint("", use.size)
            if fingerprint.reason != "gone":
                members[_relative_name(use.path, folder)] = (fingerprint.size, fingerprint.text)
    size = sum(max(0, member[0]) for member in members.values()) if members else -1
    count = max(counted, len(members) or len(uses))  # without temporary files and old checkpoints
    reason = "" if members else "gone"
    text = combine_fingerprints(members) if members else ""
    tracked = tracked_digest(Path(folder).expanduser())
    return FileUse(display_path(folder, *shown_from) + "/", mode, size, text, count, reason, tracked=tracked)


def _samples(path: Path, whole: Fingerprint, budget: Budget) -> str:
    """Returns the fingerprint by samples of a written file that has one of all its bytes, or "".

    A later run that reads the file and writes it again samples it: the probe hashes less than the recorder.
    """
    if whole.size <= _PROBE_WHOLE or not whole.text.startswith("sha256:") or budget.is_spent():
        return ""
    return fingerprint_file(path, Budget(hash_full_bytes=0)).text


def _fingerprint_use(use: FilePathUse, budget: Budget) -> Fingerprint:
    result = fingerprint_file(Path(use.path).expanduser(), budget, use.mtime_ns if use.mode == "r" else 0)
    return result if result.size >= 0 else Fingerprint(result.text, use.size, result.reason)


def _relative_name(path: str, folder: str) -> str:
    return path.removeprefix(folder.rstrip("/") + "/")


def display_path(path: str, *folders: Path) -> str:
    """Returns a path as entries show it: relative below one of the working folders, with "~" below the home folder."""
    pure = Path(path)
    for base in dict.fromkeys(base for folder in folders for base in (folder, folder.resolve())):
        if pure.is_relative_to(base) and pure != base:
            return pure.relative_to(base).as_posix()
    home = Path.home()
    if pure.is_relative_to(home) and len(home.parts) > 1:
        return f"~/{pure.relative_to(home).as_posix()}" if pure != home else "~"
    return path


def _is_temporary(row: FileUse, cwd: Path) -> bool:
    """Whether a row is a temporary file, such as of a compiler or a queue, that the run wrote and removed."""
    temporary = row.path.startswith(("/tmp/", "/var/tmp/", "/dev/shm/")) and not str(cwd).startswith("/tmp/")
    scratch = row.members == 1 and _is_scratch(row.path)
    # Papermill and nbconvert hand the kernel a file `/tmp/tmp1a2b.json`: read only by it, and gone.
    wanted = row.mode != "read" or (scratch and row.path.startswith("/tmp/"))
    return row.reason == "gone" and wanted and (temporary or scratch)


def _is_scratch(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.startswith((".", "tmp", "~")) or name.endswith((".tmp", ".part", ".lock", ".swp", "~"))


def _limit_rows(rows: list[FileUse]) -> list[FileUse]:
    """Returns at most `3 * _MAX_ROWS` rows; one more row counts the rest."""
    limit = 3 * _MAX_ROWS
    if len(rows) <= limit:
        return rows
    rest = rows[limit:]
    total = sum(max(0, row.size_bytes) for row in rest)
    mode = rest[0].mode if len({row.mode for row in rest}) == 1 else "read and written"
    count = sum(row.members for row in rest)
    return [*rows[:limit], FileUse("(other files)", mode, total, "", count, "too many to list")]
