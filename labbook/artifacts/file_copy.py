"""Copies one file that another process may be writing, with its SHA-256."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from labbook.frozen import dataclass

_CHUNK = 1 << 20
_ZEROS = bytes(_CHUNK)
_FICLONE = 0x40049409
"""Request of `ioctl` that shares the blocks of a file, on Btrfs, XFS and others. Source: linux/fs.h."""

_TICK_S = 0.02
"""Two writes within one tick of the kernel's clock can give equal modification times. Source: 4 to 10 ms by its
configuration."""

_ATTEMPTS = 4
_RESERVE_BYTES = 256 << 20
"""Free space that a copy leaves to the other programs of the machine. Source: chosen by us."""

_REASONS = {
    errno.ENOENT: "gone",
    errno.ENOSPC: "no space left for the copy",
    errno.EDQUOT: "no space left for the copy",
    errno.EROFS: "the folder of kept files is read-only",
}


@dataclass(frozen=True)
class CopyResult:
    """The result of a copy.

    Args:
        digest: SHA-256 in hex of the bytes in the copy; "" without a copy.
        size: Size of the copy, else of the file, -1 if unknown.
        reason: Why there is no copy, or what is uncertain about it.
        mtime_ns: Modification time of the file when the copy was made.
    """

    digest: str
    size: int
    reason: str = ""
    mtime_ns: int = 0


def copy_file(
    source: Path,
    target: Path,
    limit_bytes: int,
    *,
    attempts: int = _ATTEMPTS,
    between: Callable[[], None] = lambda: time.sleep(0.5),
) -> CopyResult:
    """Copies `source` to `target`, which must not exist.

    A file that changes during the copy is copied again. If it never rests, the last copy is kept, with a reason; its
    digest is that of the bytes in the copy in any case. On file systems with shared blocks the copy is made at once,
    elsewhere in pieces; holes of sparse files stay holes.

    Args:
        source: A regular file.
        target: A new file in a private folder; removed if the copy fails.
        limit_bytes: Larger files are not copied.
        attempts: Most copies.
        between: Waits before another attempt.
    """
    result = CopyResult("", -1, "unreadable")
    for attempt in range(attempts):
        if attempt:
            between()
        try:
            result, is_stable = _copy_once(source, target, limit_bytes)
        except OSError as error:
            with suppress(OSError):
                target.unlink()
            return CopyResult("", -1, _REASONS.get(error.errno or 0, "unreadable"))
        if is_stable or not result.digest:
            return result
    return CopyResult(result.digest, result.size, "changed while it was copied", result.mtime_ns)


def _copy_once(source: Path, target: Path, limit_bytes: int) -> tuple[CopyResult, bool]:
    """Returns the copy and whether the file did not change meanwhile."""
    handle = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            return CopyResult("", -1, "not a regular file"), True
        if before.st_size > limit_bytes:
            return CopyResult("", before.st_size, "larger than the setting `artifact_limit`"), True
        free = os.statvfs(target.parent)
        if before.st_blocks * 512 + _RESERVE_BYTES > free.f_bavail * free.f_frsize:
            return CopyResult("", before.st_size, "no space left for the copy"), True
        if time.time() - before.st_mtime < _TICK_S:
            time.sleep(_TICK_S)
            before = os.fstat(handle)
        digest, size = _copy_bytes(handle, target, limit_bytes)
        if size < 0:
            return CopyResult("", before.st_size, "larger than the setting `artifact_limit`"), True
        after = os.fstat(handle)
    finally:
        os.close(handle)
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and size == before.st_size
    with suppress(FileNotFoundError):
        # A complete file may have been renamed to the path in the meantime.
        at_path = source.stat()
        same = same and (at_path.st_ino, at_path.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    return CopyResult(digest, size, "", before.st_mtime_ns), same


def _copy_bytes(handle: int, target: Path, limit_bytes: int) -> tuple[str, int]:
    """Returns SHA-256 and size of the copy; a size of -1 for a file that grew above the limit."""
    import fcntl

    written = os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.ioctl(written, _FICLONE, handle)
        except OSError:
            return _copy_pieces(handle, written, limit_bytes)
        return _copy_pieces(written, -1, limit_bytes)
    finally:
        os.close(written)


def _copy_pieces(handle: int, written: int, limit_bytes: int) -> tuple[str, int]:
    """Hashes a file from its start, and copies it unless `written` is -1."""
    digest = hashlib.sha256()
    at = 0
    for chunk in _read_pieces(handle):
        digest.update(chunk)
        if written >= 0 and chunk != _ZEROS[: len(chunk)]:
            _write_all(written, chunk, at)
        at += len(chunk)
        if at > limit_bytes:
            return "", -1
    if written >= 0:
        os.ftruncate(written, at)
    return digest.hexdigest(), at


def _read_pieces(handle: int) -> Iterator[bytes]:
    """Yields the bytes of a file from its start; holes of a sparse file are not read."""
    at = 0
    while True:
        data = _next_data(handle, at)
        while at < data:
            zeros = _ZEROS[: data - at]
            at += len(zeros)
            yield zeros
        chunk = os.pread(handle, _CHUNK, at)
        if not chunk:
            return
        at += len(chunk)
        yield chunk


def _next_data(handle: int, at: int) -> int:
    """Returns the end of the hole at a position: the start of data, or the end of the file; `at` without a hole."""
    try:
        return os.lseek(handle, at, os.SEEK_DATA)
    except AttributeError:
        return at
    except OSError as error:
        return os.fstat(handle).st_size if error.errno == errno.ENXIO else at


def _write_all(written: int, chunk: bytes, at: int) -> None:
    rest = memoryview(chunk)
    while rest:
        count = os.pwrite(written, rest, at)
        rest, at = rest[count:], at + count


def hash_file(path: Path) -> tuple[str, int]:
    """Returns SHA-256 in hex and size of a file.

    Raises:
        OSError: The file cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _copy_pieces(handle, -1, 1 << 62)
    finally:
        os.close(handle)
