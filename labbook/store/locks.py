"""A lock between processes of one machine, released by the system when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def hold_lock(path: Path, wait_s: float) -> Iterator[int | None]:
    """Hold an exclusive lock on the file `path` while the block runs; yields its descriptor, or `None` without it.

    The block always runs: without a lock (not supported, or not acquired in time) correctness relies on other means
    (compare-and-swap, exclusive creation); the lock only avoids duplicate work. A child that inherits the descriptor
    holds the lock until it ends.

    Args:
        path: The lock file; it is created and never removed.
    """
    descriptor = _acquire(path, wait_s)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            # Closed but not unlocked: a child with the descriptor holds the lock.
            os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return whether a living process holds an exclusive lock on the file; false without the file or without locks.

    A shared lock is tried, so that two processes that ask at once do not see each other.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _acquire(path: Path, wait_s: float) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    deadline = time.monotonic() + wait_s
    while not (taken := _try(descriptor)) and taken is not None and time.monotonic() < deadline:
        time.sleep(random.uniform(0.001, 0.02))
    if taken:
        return descriptor
    os.close(descriptor)
    return None


def _try(descriptor: int) -> bool | None:
    """Whether the lock was acquired, or `None` if the file system has no locks."""
    try:
        # `flock`, not `lockf`: the latter is released when any descriptor of the file is closed in this process.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return None
