"""Renders templates of a notebook in a child process with limits of time, memory and output.

A template may loop forever or multiply a text by 10**9, even while it is compiled; checks inside the process cannot
prevent all of this. A forked child shares the loaded modules and data of its parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable

from labbook.errors import EntryError

LONGEST_S = 10.0
"""Source: chosen by us; the entry of a run with 300 series takes 0.4 s on 2 loaded cores."""

_MORE_BYTES = 512 * 1024 * 1024
_MOST_OUTPUT = 64 * 1024 * 1024
_OK, _FAILED = b"+", b"-"


class LimitError(EntryError):
    """The work exceeded a limit."""


def run_limited(work: Callable[[], str]) -> str:
    """Run `work` in a child process and return its text.

    Args:
        work: The function to run; its side effects are lost.

    Raises:
        EntryError: `work` raised one; its message and hint are the same.
        LimitError: It exceeded the limit of time, memory or output.

    Cost: a fork, about 5 ms in a recorder.
    """
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        os.close(reading)
        os.close(writing)
        raise LimitError("errors.template.no_process", reason=error) from error
    if child == 0:
        os.close(reading)
        _answer(work, writing)
    os.close(writing)
    try:
        answer = _read(reading, time.monotonic() + LONGEST_S)
    finally:
        os.close(reading)
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(child, 0)
    if answer is None:
        raise LimitError("errors.template.limits", seconds=LONGEST_S, size=_MOST_OUTPUT // 1024**2)
    kind, rest = answer[:1], answer[1:].decode("utf-8", "surrogatepass")
    if kind == _OK:
        return rest
    if kind == _FAILED:
        raise EntryError.from_data(json.loads(rest))
    raise LimitError("errors.template.memory")


def _answer(work: Callable[[], str], writing: int) -> None:
    """Run the work in the child and exit; never returns."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            # The parent's handlers would relay signals to the recorded command.
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        with contextlib.suppress(OSError, ValueError):
            _limit_memory()
        try:
            content = _OK + work().encode("utf-8", "surrogatepass")
        except EntryError as error:
            content = _FAILED + json.dumps(error.as_data()).encode()
        with open(writing, "wb", closefd=False) as stream:
            stream.write(content)
    finally:
        # In every case, including MemoryError: exit handlers and buffers of the parent must not run here.
        os._exit(0)


def _limit_memory() -> None:
    import resource

    with open("/proc/self/statm", "rb") as stream:  # noqa: PTH123 - nothing is imported in a child
        pages = int(stream.read().split()[0])
    most = pages * resource.getpagesize() + _MORE_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _read(reading: int, deadline: float) -> bytes | None:
    """Read the output of the child; `None` if it exceeds the limit of time or size."""
    parts: list[bytes] = []
    size = 0
    while size <= _MOST_OUTPUT:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return None
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    return None
