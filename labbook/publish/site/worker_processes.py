"""Runs work in forked processes, which share the data read so far and end with this process."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

Made = TypeVar("Made")

_FOR_TWO = 50_000
"""Fewest bytes of pages for a second process. Source: chosen by us; they take as long as starting one."""

_MOST_AT_ONCE = 32
_FEWEST_CHUNKS = 6
"""Fewest parts for each process. Source: chosen by us; pages differ in time, and all processes should end together."""


def can_have_some() -> bool:
    """Whether this system can fork."""
    return "fork" in multiprocessing.get_all_start_methods()


def map_in_processes(work: Callable[[str], Made], names: Sequence[str], workers: int) -> Iterator[Made]:
    """Returns the results of `work` for names, in order, computed in several processes.

    Args:
        work: Called in the processes; its result is sent back.
        names: Its arguments.
    """
    global _work
    _work = work
    at_once = max(1, min(_MOST_AT_ONCE, len(names) // (_FEWEST_CHUNKS * workers)))
    gc.freeze()
    try:
        with _pool(workers) as pool:
            yield from pool.map(_call_work, names, chunksize=at_once)
    finally:
        gc.unfreeze()
        _work = None


def share_out(names: Sequence[str], sizes: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Returns names in two parts of similar size; the second is empty where one process is faster."""
    parts: tuple[list[str], list[str]] = ([], [])
    total = [0, 0]
    for name in sorted(names, key=lambda name: sizes.get(name, 0), reverse=True):
        smaller = int(total[1] < total[0])
        parts[smaller].append(name)
        total[smaller] += sizes.get(name, 0)
    return parts if total[1] >= _FOR_TWO else (list(names), [])


@contextlib.contextmanager
def run_in_worker(work: Callable[[], Made]) -> Iterator[Callable[[], Made]]:
    """Runs `work` in another process and returns a function that waits for its result.

    Starts no thread, so that more processes can be forked. If the process fails, `work` runs here and may raise.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    gc.freeze()
    try:
        process = context.Process(target=_answer, args=(work, ours, theirs, os.getpid()), daemon=True)
        process.start()
    finally:
        gc.unfreeze()
    theirs.close()

    def receive_result() -> Made:
        try:
            found: Made = ours.recv()
        except EOFError:
            return work()
        return found

    try:
        yield receive_result
    finally:
        ours.close()
        process.join()


@contextlib.contextmanager
def run_aside_or_later(work: Callable[[], Made], workers: int) -> Iterator[Callable[[], Made]]:
    """Like `run_in_worker` with two or more workers; else the work runs when its result is needed."""
    if workers < 2:
        yield work
        return
    with run_in_worker(work) as made:
        yield made


def _answer(work: Callable[[], Any], theirs: Connection, mine: Connection, parent: int) -> None:
    _end_with(parent)
    theirs.close()
    # Without an answer, the waiting process knows that this one failed.
    with contextlib.suppress(BaseException):
        mine.send(work())


def _pool(workers: int) -> ProcessPoolExecutor:
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(workers, context, _end_with, (os.getpid(),))


def _end_with(parent: int) -> None:
    """Makes the kernel end this process with its parent: orphans would hold the lock of the build."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


_SET_PARENT_DEATH_SIGNAL = 1
"""Option of prctl(2). Source: linux/prctl.h."""

_work: Callable[[str], Any] | None = None
"""Work of the processes; inherited by fork, not sent."""


def _call_work(name: str) -> Any:  # noqa: ANN401 - whatever the work makes
    assert _work is not None
    return _work(name)
