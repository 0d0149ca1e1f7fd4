"""Fingerprints files within a time budget: small files whole, large ones by samples.

They are computed in the recorder, never in the training process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_SAMPLES = 16
_SAMPLE_BYTES = 64 * 1024
_CHUNK = 1 << 20
_MAX_LISTED = 100_000


@dataclass
class Budget:
    """The remaining time and bytes for fingerprints; later files are sampled, then only named.

    Args:
        seconds: Time for all files of a run. Source: chosen by us, too short to notice after a training.
        full_bytes: Bytes that may be hashed whole, over all files; about 1.5 GB/s on one core.
        hash_full_bytes: Larger files are sampled.
    """

    seconds: float = 2.0
    full_bytes: int = 1 << 30
    hash_full_bytes: int = 64 << 20
    _begin: float = field(default_factory=time.monotonic)

    def is_spent(self) -> bool:
        """Whether the time is used up."""
        return time.monotonic() - self._begin > self.seconds


@dataclass(frozen=True)
class Fingerprint:
    """The fingerprint of one file, or the reason why there is none; `size` is -1 if unknown."""

    text: str
    size: int
    reason: str = ""


def fingerprint_file(path: Path, budget: Budget, seen_mtime_ns: int = 0) -> Fingerprint:
    """Returns the fingerprint of a file's current content.

    Args:
        budget: The remaining budget, which is reduced.
        seen_mtime_ns: Modification time when the run opened the file for reading, 0 if unknown. If it has changed, the
            content that was read no longer exists.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return Fingerprint("", -1, "gone")
    except OSError:
        return Fingerprint("", -1, "unreadable")
    try:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            return Fingerprint("", -1, "not a regular file")
        if seen_mtime_ns and before.st_mtime_ns != seen_mtime_ns:
            return Fingerprint("", before.st_size, "changed after it was read")
        if budget.is_spent():
            return Fingerprint("", before.st_size, "no time left to fingerprint it")
        text = _hash_content(handle, before.st_size, budget)
        after = os.fstat(handle)
    except OSError:
        return Fingerprint("", -1, "unreadable")
    finally:
        os.close(handle)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        return Fingerprint("", after.st_size, "changed while it was read")
    return Fingerprint(text, before.st_size)


def _hash_content(handle: int, size: int, budget: Budget) -> str:
    digest = hashlib.sha256()
    if size <= budget.hash_full_bytes and size <= budget.full_bytes:
        budget.full_bytes -= size
        while chunk := os.read(handle, _CHUNK):
            digest.update(chunk)
        return f"sha256:{digest.hexdigest()}"
    # The size and 16 evenly spaced pieces, including the first and the last.
    digest.update(str(size).encode())
    last = max(0, size - _SAMPLE_BYTES)
    for number in range(_SAMPLES):
        digest.update(os.pread(handle, _SAMPLE_BYTES, number * last // (_SAMPLES - 1)))
    return f"sampled:{digest.hexdigest()}"


def combine_fingerprints(members: Mapping[str, tuple[int, str]]) -> str:
    """Returns one fingerprint of many files.

    Args:
        members: Relative path -> size in bytes and fingerprint, "" if a file has none.

    Returns:
        "manifest:..." if every member has a fingerprint, else "names:...", of names and sizes alone.
    """
    whole = all(text for _, text in members.values())
    digest = hashlib.sha256()
    for path in sorted(members):
        size, text = members[path]
        digest.update(f"{path}\0{size}\0{text if whole else ''}\n".encode("utf-8", "surrogateescape"))
    return f"{'manifest' if whole else 'names'}:{digest.hexdigest()}"


def list_files(folder: Path) -> dict[str, tuple[int, str]]:
    """Returns the regular files directly in a folder: name -> size and an empty fingerprint."""
    files: dict[str, tuple[int, str]] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if len(files) >= _MAX_LISTED:
                break
            if entry.is_file(follow_symlinks=False):
                files[entry.name] = (entry.stat(follow_symlinks=False).st_size, "")
    return files
