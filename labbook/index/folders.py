"""Lists the files of `notes/`, and the folders that changed since the last update of the index."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from labbook.frozen import dataclass
from labbook.store.paths import NotebookPaths

if TYPE_CHECKING:
    import sqlite3

TICK_NS = 2_000_000_000
"""A file changed less than this before it was read may change again with the same time stamp, so it is read again.
Source: the coarsest time stamps in use (FAT: 2 s), as git does for its index."""


class ScannedFile(NamedTuple):
    """A file on disk; its path is relative to the notebook. A tuple: there may be 100,000."""

    path: str
    mtime_ns: int
    size: int


class IndexedFile(NamedTuple):
    """A file as the index has it.

    Args:
        digest: Digest of its content.
        read_ns: When it was read.
    """

    mtime_ns: int
    size: int
    digest: str
    read_ns: int


@dataclass(frozen=True)
class FolderScan:
    """Files and folders of one scan of `notes/`.

    Args:
        files: Markdown files of the scanned folders.
        listed: Scanned folders, relative to the notebook, each with its modification time and the time of the scan; 0
            and 0 for a deleted one.
    """

    files: tuple[ScannedFile, ...]
    listed: Mapping[str, tuple[int, int]]


def scan_all(paths: NotebookPaths) -> FolderScan:
    """Returns all Markdown files of `notes/`, without links and without the attachments of entries."""
    return _walk_folders(paths, ["notes"])


def scan_changed(connection: sqlite3.Connection, paths: NotebookPaths) -> FolderScan:
    """Returns the Markdown files of folders in which a file was added, removed or replaced since the last scan."""
    known = {row[0]: row[1:] for row in connection.execute("SELECT path, mtime_ns, read_ns FROM folders")}
    changed = []
    gone: dict[str, tuple[int, int]] = {}
    for folder, (mtime_ns, read_ns) in known.items():
        try:
            now = os.stat(f"{paths.root}/{folder}").st_mtime_ns  # noqa: PTH116 - a Path for each folder costs more than the look
        except OSError:
            gone[folder] = (0, 0)
            continue
        if now != mtime_ns or read_ns - now <= TICK_NS:
            changed.append(folder)
    found = _walk_folders(paths, changed or ([] if known else ["notes"]), known)
    return FolderScan(found.files, {**gone, **found.listed})


def _walk_folders(paths: NotebookPaths, waiting: list[str], known: Mapping[str, object] | None = None) -> FolderScan:
    """Returns the files of folders and of unknown folders below them; known ones are scanned separately."""
    waiting = list(waiting)
    files: list[ScannedFile] = []
    listed: dict[str, tuple[int, int]] = {}
    while waiting:
        folder = waiting.pop()
        place = f"{paths.root}/{folder}"
        read_ns = time.time_ns()
        try:
            mtime_ns = Path(place).stat().st_mtime_ns
            items = list(os.scandir(place))
        except OSError:
            continue
        listed[folder] = (mtime_ns, read_ns)
        names = {item.name for item in items}
        for item in items:
            if item.name.startswith(".") or not is_text(item.name):
                continue
            below = f"{folder}/{item.name}"
            with contextlib.suppress(OSError):
                if item.name.endswith(".md") and item.is_file(follow_symlinks=False):
                    status = item.stat()
                    files.append(ScannedFile(below, status.st_mtime_ns, status.st_size))
                elif f"{item.name}.md" in names or below in (known or ()):
                    continue
                elif item.is_dir(follow_symlinks=False):
                    waiting.append(below)
    return FolderScan(tuple(files), listed)


def known_below(connection: sqlite3.Connection, folders: Iterable[str]) -> dict[str, IndexedFile]:
    """Returns the indexed files directly inside some folders."""
    found: dict[str, IndexedFile] = {}
    for folder in folders:
        # "0" is what follows "/".
        rows = connection.execute(
            "SELECT path, mtime_ns, size, hash, read_ns FROM files WHERE path > ? AND path < ?",
            (f"{folder}/", f"{folder}0"),
        )
        found.update({row[0]: IndexedFile(*row[1:]) for row in rows if "/" not in row[0][len(folder) + 1 :]})
    return found


def note_look(connection: sqlite3.Connection, look: FolderScan, began_ns: int, *, whole: bool) -> None:
    """Stores the result of a scan, so that the next one can skip unchanged folders.

    Args:
        connection: The index, in a transaction.
        began_ns: Start of the scan, ns since the epoch.
        whole: Whether all of `notes/` was scanned.
    """
    if whole:
        connection.execute("DELETE FROM folders")
        connection.execute("INSERT OR REPLACE INTO looked VALUES (1, ?)", (began_ns,))
    gone = [(folder,) for folder, (mtime_ns, _) in look.listed.items() if not mtime_ns]
    connection.executemany("DELETE FROM folders WHERE path = ?", gone)
    rows = [(folder, *times) for folder, times in look.listed.items() if times[0]]
    connection.executemany("INSERT OR REPLACE INTO folders VALUES (?, ?, ?)", rows)


def is_text(name: str) -> bool:
    """Whether the name of a file is valid text; other names fit neither into SQLite nor on the site."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
