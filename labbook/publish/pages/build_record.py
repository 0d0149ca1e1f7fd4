"""Records the pages of a site, so that the next build renders only those that would differ.

The record is in the private folder of the notebook and may be deleted. It applies only to files with the size and time
that they had when they were written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from labbook.frozen import dataclass
from labbook.store.journal import write_atomically

_FORM = 2
"""Version of the file; another number means another format."""

_JUST_NOW_NS = 2_000_000_000
"""A file changed less than this before it was read may change again with the same time stamp. Source: two seconds, the
coarsest resolution of file systems in use."""


class WrittenFile(NamedTuple):
    """A written page or other file.

    Args:
        key: Key of its sources.
        size: Bytes written.
        written_ns: Modification time.
        stat: State of its source file, "" if unusable.
        digest: Digest of the source file.
        linked: Files that its links refer to, existing or not.
    """

    key: str
    size: int = -1
    written_ns: int = -1
    stat: str = ""
    digest: str = ""
    linked: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    title: str = ""


@dataclass(frozen=True)
class BuildRecord:
    """Record of a site.

    Args:
        frame: Key of what all pages share: settings, templates, versions, navigation.
        pages: Pages by path below `notes/`.
        files: Other files by path below the folder of the site.
        days: Day with runs -> key of what its pages show besides their notes.
    """

    frame: str = ""
    pages: Mapping[str, WrittenFile] = field(default_factory=dict)
    files: Mapping[str, WrittenFile] = field(default_factory=dict)
    days: Mapping[str, str] = field(default_factory=dict)


def read_record(path: Path) -> BuildRecord:
    """Returns the record in a file; an empty one if it is missing or unreadable."""
    try:
        data = json.loads(path.read_bytes())
        if data["form"] != _FORM:
            return BuildRecord()
        days = {str(day): str(key) for day, key in data["days"].items()}
        return BuildRecord(str(data["frame"]), _read_known(data["pages"]), _read_known(data["files"]), days)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return BuildRecord()


def write_record(path: Path, record: BuildRecord) -> None:
    """Writes the record atomically.

    Raises:
        OSError: It cannot be written; the next build renders everything.
    """
    # Named tuples are written as lists.
    data = {"form": _FORM, **{field.name: getattr(record, field.name) for field in fields(record)}}
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(), durable=False)


def content_key(*parts: object) -> str:
    """Returns a digest of parts, which are bytes or objects with a faithful `repr`."""
    made = blake2b(digest_size=16)
    for part in parts:
        plain = isinstance(part, bytes)
        data = bytes(part) if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass")
        made.update(b"%d%c" % (len(data), b":" if plain else b"="))
        made.update(data)
    return made.hexdigest()


def file_state(found: os.stat_result, now_ns: int) -> str:
    """Returns the state of a file; "" if it may change again with the same time stamp."""
    if abs(now_ns - found.st_mtime_ns) < _JUST_NOW_NS or abs(now_ns - found.st_ctime_ns) < _JUST_NOW_NS:
        return ""
    return f"{found.st_mtime_ns:x}.{found.st_ctime_ns:x}.{found.st_size:x}.{found.st_ino:x}"


def file_state_or_gone(path: str, now_ns: int) -> str:
    """Returns the `file_state` of a file, "gone" if it cannot be read."""
    try:
        return file_state(os.stat(path), now_ns)  # noqa: PTH116 - ten thousand times
    except OSError:
        return "gone"


def files_below(folder: Path, flat: Sequence[str] = ()) -> dict[str, tuple[int, int]]:
    """Returns path -> size and time of all files below a folder; empty if it does not exist.

    Args:
        flat: Folders in it, with a trailing slash, whose subfolders are left out.

    Cost: 10,000 files in 60 ms; measured on 2 cores.
    """
    found: dict[str, tuple[int, int]] = {}
    waiting = [("", str(folder))]
    while waiting:
        prefix, here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if prefix not in flat:
                            waiting.append((f"{prefix}{entry.name}/", entry.path))
                    else:
                        state = entry.stat(follow_symlinks=False)
                        found[prefix + entry.name] = (state.st_size, state.st_mtime_ns)
        except OSError:
            continue
    return found


def state_of_folders(folders: Iterable[Path], *, by_content: bool = False) -> str:
    """Returns a key of the files in some folders, by names, sizes and times.

    Args:
        by_content: Whether to read the files: a new installation or clone has the same key, whatever the times.

    Cost: by content, 0.15 s for labbook and its templates; measured on 2 cores.
    """
    if not by_content:
        return content_key(*(sorted(_sources(files_below(folder)).items()) for folder in folders))
    return content_key(
        *(
            [(path, (folder / path).read_bytes()) for path in sorted(_sources(files_below(folder)))]
            for folder in folders
        )
    )


def _sources(files: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    return {path: state for path, state in files.items() if not path.endswith((".pyc", ".tmp", "~"))}


def _read_known(data: Mapping[str, list[Any]]) -> dict[str, WrittenFile]:
    return {
        path: WrittenFile(
            str(key), int(size), int(at), str(stat), str(digest), tuple(linked), tuple(warnings), str(title)
        )
        for path, (key, size, at, stat, digest, linked, warnings, title) in data.items()
    }
