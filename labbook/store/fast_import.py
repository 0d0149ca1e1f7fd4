"""The stream that `git fast-import` reads: a commit of whole files, or files alone."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from labbook.frozen import dataclass
from labbook.store.paths import NotebookPaths

_IDENTITY_BAD = re.compile(r"[<>\x00-\x1f\x7f]+")


@dataclass(frozen=True)
class FileChange:
    """What a commit does to one path.

    Args:
        path: Relative to the notebook or to the top of the repository, with forward slashes, as bytes.
        data: The new content, or `None` when the file is gone.
    """

    path: bytes
    data: bytes | None


def read_changes(paths: NotebookPaths, files: Sequence[Path]) -> list[FileChange]:
    """The state on disk of the named files, for a commit.

    A folder stands for the regular files in it. Symbolic links and special files are left out, and so is everything
    in the private folder and in git's own.

    Args:
        paths: The notebook.
        files: Absolute paths inside the notebook. One that does not exist is a deletion.

    Returns:
        One change a file, its path relative to the notebook.

    Raises:
        OSError: A file cannot be read.
        ValueError: A path lies outside the notebook, or in a private folder.
    """
    changes: dict[bytes, FileChange] = {}
    for path in files:
        for file in _regular_files(path):
            relative = file.relative_to(paths.root)
            if ".." in relative.parts or relative.parts[:1] in ((), (paths.private.name,)) or ".git" in relative.parts:
                raise ValueError(f"{file} is no file of the notebook {paths.root}")
            name = os.fsencode(relative.as_posix())
            data = _content(file)
            if data is not None or not os.path.lexists(file):
                changes[name] = FileChange(name, data)
    return list(changes.values())


def _regular_files(path: Path) -> Iterable[Path]:
    if path.is_symlink() or not path.is_dir():
        return (path,)
    return sorted(p for p in path.rglob("*") if p.is_file() and not p.is_symlink())


def _content(file: Path) -> bytes | None:
    """Content of a regular file, or `None` when it is gone or something else; a link is never followed."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        if file.is_symlink():
            return None
        raise
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def commit_stream(
    ref: str, tip: str, changes: Sequence[FileChange], message: str, *, author: str, when: float
) -> bytes:
    """The stream for one commit on `ref`, whose tip is the commit `tip` ("" when there is none); prints its hash.

    Args:
        ref: Full name of the branch.
        tip: Parent; git refuses to move the branch when it is not the tip any more.
        changes: What the commit does.
        message: Commit message.
        author: Name of the author, or "".
        when: Unix time (s) of the commit.
    """
    stamp = f"{max(0, int(when))} +0000".encode()
    text = message.encode("utf-8", "replace")
    person = _identity(author)
    parts = [
        b"feature done\nfeature get-mark\n",
        b"commit %s\nmark :1\n" % os.fsencode(ref),
        b"author %s %s\ncommitter %s %s\n" % (person, stamp, _identity(""), stamp),
        b"data %d\n%s\n" % (len(text), text),
    ]
    if tip:
        parts.append(b"from %s\n" % tip.encode())
    # Deletions first: a file may take the place of a folder.
    parts += [b"D %s\n" % quoted(c.path) for c in changes if c.data is None]
    for change in changes:
        if change.data is not None:
            parts.append(b"M 100644 inline %s\ndata %d\n%s\n" % (quoted(change.path), len(change.data), change.data))
    parts.append(b"\nget-mark :1\ndone\n")
    return b"".join(parts)


def blob_stream(changes: Sequence[FileChange]) -> bytes:
    """The stream that stores the contents of `changes` and prints their hashes in order."""
    parts = [b"feature done\nfeature get-mark\n"]
    marked = [change.data for change in changes if change.data is not None]
    for number, data in enumerate(marked, start=1):
        parts.append(b"blob\nmark :%d\ndata %d\n%s\n" % (number, len(data), data))
    parts += [b"get-mark :%d\n" % number for number in range(1, len(marked) + 1)]
    return b"".join([*parts, b"done\n"])


def quoted(path: bytes) -> bytes:
    """A path as fast-import reads it, whatever bytes it holds."""
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def _identity(name: str) -> bytes:
    """A signature. Addresses are not recorded: an entry says who, never how to reach them."""
    clean = " ".join(_IDENTITY_BAD.sub(" ", name).split()).strip(" .,:;\"'") or "labbook"
    return clean.encode("utf-8", "replace") + b" <labbook@localhost>"


def blob_hash(data: bytes | None, like: str) -> str:
    """Hash that git gives to a content, in the format of another hash; "" for no content."""
    if data is None:
        return ""
    name = "sha256" if len(like) == 64 else "sha1"
    return hashlib.new(name, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
