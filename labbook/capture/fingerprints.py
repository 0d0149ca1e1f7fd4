"""Fingerprints of files: whole where they are small, by samples where they are large, within a budget of time.

They are made in the recorder, never in the training process. Source: mechanisms, section 7.
"""

from __future__ import annotations

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
    """What may still be spent on fingerprints; files that come too late are sampled, then only named.

    Args:
        seconds: Time for all files of a run. Source: chosen by us, what a user would not notice after a training.
        full_bytes: Bytes that may be hashed whole, over all files; some 1.5 GB/s on one core.
        hash_full_bytes: Larger files are sampled.
    """

    seconds: float = 2.0
    full_bytes: int = 1 << 30
    hash_full_bytes: int = 64 << 20
    _begin: float = field(default_factory=time.monotonic)

    def spent(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() - self._begin > self.seconds


@dataclass(frozen=True)
class Fingerprint:
    """The fingerprint of one file, or the reason why there is none; `size` is -1 when it is not known."""

    text: str
    size: int
    reason: str = ""


def fingerprint(path: Path, budget: Budget, seen_mtime_ns: int = 0) -> Fingerprint:
    """The fingerprint of a file as it is now.

    Args:
        path: The file.
        budget: What may be spent; it is reduced.
        seen_mtime_ns: Its time when the run opened it for reading; another time now means that what was read is gone.
            0 when nothing is known.
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
        if budget.spent():
            return Fingerprint("", before.st_size, "no time left to fingerprint it")
        text = _hashed(handle, before.st_size, budget)
        after = os.fstat(handle)
    except OSError:
        return Fingerprint("", -1, "unreadable")
    finally:
        os.close(handle)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        return Fingerprint("", after.st_size, "changed while it was read")
    return Fingerprint(text, before.st_size)


def _hashed(handle: int, size: int, budget: Budget) -> str:
    digest = hashlib.sha256()
    if size <= budget.hash_full_bytes and size <= budget.full_bytes:
        budget.full_bytes -= size
        while chunk := os.read(handle, _CHUNK):
            digest.update(chunk)
        return f"sha256:{digest.hexdigest()}"
    # Size and 16 pieces spread evenly, the first and the last among them.
    digest.update(str(size).encode())
    last = max(0, size - _SAMPLE_BYTES)
    for number in range(_SAMPLES):
        digest.update(os.pread(handle, _SAMPLE_BYTES, number * last // (_SAMPLES - 1)))
    return f"sampled:{digest.hexdigest()}"


def manifest(members: Mapping[str, tuple[int, str]]) -> str:
    """One fingerprint of many files.

    Args:
        members: Relative path -> size in bytes and fingerprint, "" where a file has none.

    Returns:
        "manifest:..." when every member has a fingerprint, else "names:...", which stands for names and sizes alone.
    """
    whole = all(text for _, text in members.values())
    digest = hashlib.sha256()
    for path in sorted(members):
        size, text = members[path]
        digest.update(f"{path}\0{size}\0{text if whole else ''}\n".encode("utf-8", "surrogateescape"))
    return f"{'manifest' if whole else 'names'}:{digest.hexdigest()}"


def list_files(folder: Path) -> dict[str, tuple[int, str]]:
    """Regular files of a folder, without those of folders below: name -> size and no fingerprint. Empty when gone."""
    found: dict[str, tuple[int, str]] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) >= _MAX_LISTED:
                    break
                if entry.is_file(follow_symlinks=False):
                    found[entry.name] = (entry.stat(follow_symlinks=False).st_size, "")
    except OSError:
        return found
    return found
