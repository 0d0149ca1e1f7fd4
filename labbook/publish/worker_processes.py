"""Work in processes beside this one: each is a copy of it, has what was read so far, and ends when it does."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

Made = TypeVar("Made")

_MOST_AT_ONCE = 32
_FEWEST_CHUNKS = 6
"""Parts that each process gets at least. Source: chosen by us; pages take longer than others, and all should end
together."""


def can_have_some() -> bool:
    """Whether this system copies processes."""
    return "fork" in multiprocessing.get_all_start_methods()


def by_many(work: Callable[[str], Made], names: Sequence[str], workers: int) -> Iterator[Made]:
    """What `work` makes of each name, in their order, made in several processes.

    Args:
        work: Called in the processes; what it returns is sent back.
        names: What it is called with.
        workers: How many processes.
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


@contextlib.contextmanager
def run_in_worker(work: Callable[[], Made]) -> Iterator[Callable[[], Made]]:
    """Has `work` done in a process of its own meanwhile; gives what waits for it and returns what it made.

    No thread is started for it: further processes may be made while it runs. Where it fails it is done here again, and
    raises what it raises.
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

    def made() -> Made:
        try:
            found: Made = ours.recv()
        except EOFError:
            return work()
        return found

    try:
        yield made
    finally:
        ours.close()
        process.join()


@contextlib.contextmanager
def beside_or_later(work: Callable[[], Made], workers: int) -> Iterator[Callable[[], Made]]:
    """As `run_in_worker` where there may be two processes; else the work is done when it is waited for."""
    if workers < 2:
        yield work
        return
    with run_in_worker(work) as made:
        yield made


def _answer(work: Callable[[], Any], theirs: Connection, mine: Connection, parent: int) -> None:
    _end_with(parent)
    theirs.close()
    # Whatever goes wrong is seen by who waits: there is no answer.
    with contextlib.suppress(BaseException):
        mine.send(work())


def _pool(workers: int) -> ProcessPoolExecutor:
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(workers, context, _end_with, (os.getpid(),))


def _end_with(parent: int) -> None:
    """Has the kernel end this process with its parent: orphans would keep the lock of the build for ever."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


_SET_PARENT_DEATH_SIGNAL = 1
"""Of prctl(2). Source: linux/prctl.h."""

_work: Callable[[str], Any] | None = None
"""What the processes do: it is handed over by being there when they start, and never sent."""


def _call_work(name: str) -> Any:  # noqa: ANN401 - whatever the work makes
    assert _work is not None
    return _work(name)
