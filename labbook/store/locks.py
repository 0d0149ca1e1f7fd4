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
    """Holds an exclusive lock on the file `path` while the block runs; yields its descriptor, or `None` without it.

    The block runs in any case: where locks are not supported or the wait was in vain, correctness has to come from
    elsewhere (compare-and-swap, exclusive creation), and the lock only saves double work. A child that inherits the
    descriptor keeps the lock until it ends.

    Args:
        path: The lock file; it is made and never removed.
        wait_s: Longest wait.
    """
    descriptor = _take(path, wait_s)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            # Not unlocked outright: a child that still has the descriptor keeps the lock.
            os.close(descriptor)


def _take(path: Path, wait_s: float) -> int | None:
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
    """Whether the lock was taken, or `None` where the file system has no locks."""
    try:
        # `flock`, not `lockf`: the latter is lost when any descriptor of the file is closed in this process.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return None
