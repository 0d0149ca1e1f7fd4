"""Input stream of `git fast-import`: a commit of whole files, or files only."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from labbook.errors import GitError
from labbook.frozen import dataclass
from labbook.store.git.git_identity import Signers
from labbook.store.paths import NotebookPaths

_IDENTITY_BAD = re.compile(r"[<>\x00-\x1f\x7f]+")


@dataclass(frozen=True)
class FileChange:
    """Change of one path in a commit.

    Args:
        path: Relative to the notebook or to the top of the repository, with forward slashes, as bytes.
        data: The new content, or `None` for a deletion.
        mode: Of the file, as git writes it.
        blob: Hash of a stored content that takes the place of `data`, or "".
    """

    path: bytes
    data: bytes | None
    mode: str = "100644"
    blob: str = ""


def read_changes(paths: NotebookPaths, files: Sequence[Path]) -> list[FileChange]:
    """Read files from disk for a commit.

    A folder means its regular files. Symbolic links, special files, and files in the private folder or in `.git` are
    skipped.

    Args:
        files: Absolute paths inside the notebook. One that does not exist is a deletion.

    Returns:
        One change per file, its path relative to the notebook.

    Raises:
        OSError: A file cannot be read.
        ValueError: A path is outside the notebook, or in a private folder.
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
    """Return the content of a regular file, or `None`; links are not followed."""
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
    ref: str, parents: Sequence[str], changes: Sequence[FileChange], message: str, *, signers: Signers, when: float
) -> bytes:
    """Return the stream for one commit on `ref`; git prints its hash.

    Args:
        parents: None, one or two; git refuses to move the branch if the first is no longer its tip.
        signers: Author and committer.
        when: Unix time (s) of the commit.
    """
    text = message.encode("utf-8", "replace")
    parts = [
        b"feature done\nfeature get-mark\n",
        b"commit %s\nmark :1\n" % os.fsencode(ref),
        _signatures(signers, when),
        b"data %d\n%s\n" % (len(text), text),
    ]
    parts += [b"%s %s\n" % (word, parent.encode()) for word, parent in zip((b"from", b"merge"), parents, strict=False)]
    # Deletions first: a file may take the place of a folder.
    parts += [b"D %s\n" % _quote_path(c.path) for c in changes if c.data is None]
    for change in changes:
        if change.data is not None:
            content = b"" if change.blob else b"data %d\n%s\n" % (len(change.data), change.data)
            source = change.blob or "inline"
            parts.append(b"M %s %s %s\n%s" % (change.mode.encode(), source.encode(), _quote_path(change.path), content))
    parts.append(b"\nget-mark :1\ndone\n")
    return b"".join(parts)


def _signatures(signers: Signers, when: float) -> bytes:
    """Return the lines with author and committer of a commit at `when`, Unix time (s)."""
    stamp = f"{max(0, int(when))} +0000".encode()
    author = _signature(signers.author, signers.author_email)
    committer = _signature(signers.committer, signers.committer_email)
    return b"author %s %s\ncommitter %s %s\n" % (author, stamp, committer, stamp)


def blob_stream(changes: Sequence[FileChange]) -> bytes:
    """Return the stream that stores the contents of `changes`; git prints their hashes in order."""
    parts = [b"feature done\nfeature get-mark\n"]
    marked = [change.data for change in changes if change.data is not None]
    for number, data in enumerate(marked, start=1):
        parts.append(b"blob\nmark :%d\ndata %d\n%s\n" % (number, len(data), data))
    parts += [b"get-mark :%d\n" % number for number in range(1, len(marked) + 1)]
    return b"".join([*parts, b"done\n"])


def _quote_path(path: bytes) -> bytes:
    """Quote a path of any bytes for fast-import."""
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def _signature(name: str, email: str) -> bytes:
    """Return name and address in a form that git takes; labbook's for what is missing."""
    clean = " ".join(_IDENTITY_BAD.sub(" ", name).split()).strip(" .,:;\"'") or "labbook"
    address = "".join(_IDENTITY_BAD.sub("", email).split()) or "labbook@localhost"
    return f"{clean} <{address}>".encode("utf-8", "replace")


def blob_hash(data: bytes | None, like: str) -> str:
    """Return the blob hash of a content, in the format of another hash; "" for no content."""
    if data is None:
        return ""
    import hashlib  # 3 ms; most often no file has changed

    name = "sha256" if len(like) == 64 else "sha1"
    return hashlib.new(name, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def temporary_obstacle(error: str) -> GitError:
    """Return why `git fast-import` failed, if another try may succeed.

    Args:
        error: What it printed; the crash report that it names is removed.

    Raises:
        GitError: The failure is permanent.
    """
    reason = failure_reason(error)
    if "does not contain" in error or "but expected" in error or "reference already exists" in error:
        return GitError("errors.commit.branch_moved")
    locked = re.search(r"Unable to create '(.+?)': File exists", error)
    if locked:
        return GitError("errors.git.index_locked", lock=locked[1])
    raise GitError("errors.git.entry_not_committed", reason=reason)


def failure_reason(error: str) -> str:
    """Return the first line of what `git fast-import` printed, and remove the crash report that it names."""
    report = re.search(r"dumping crash report to (.+fast_import_crash_\d+)", error)
    if report:
        Path(report[1]).unlink(missing_ok=True)
    lines = [line for line in error.splitlines() if not line.startswith("fast-import: dumping")]
    return lines[0].removeprefix("fatal: ").removeprefix("error: ") if lines else "it gave no reason"
