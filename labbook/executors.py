"""Runs work over many entries on local processes, threads, or a Ray or Dask cluster, by `concurrent.futures`.

The results come in the order of the items whatever executes them, so that what is written does not depend on it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, TypeVar

from labbook.errors import UsageError

Item = TypeVar("Item")
Made = TypeVar("Made")

CHOICES = "processes, threads, ray://ADDRESS or dask://ADDRESS"
_WAITING_PER_WORKER = 3
"""Items that are sent ahead of the result that is awaited. Source: chosen by us; no worker waits."""


@contextlib.contextmanager
def open_executor(chosen: str = "processes", workers: int | None = None) -> Iterator[tuple[Executor, int]]:
    """Yields an executor and its number of workers.

    Args:
        chosen: One of `CHOICES`. The workers of a cluster must reach the notebook under the same path.
        workers: Number of local workers; by default the number of usable processors.

    Raises:
        UsageError: The choice is unknown, its package is not installed, or the cluster does not answer.
    """
    check_choice(chosen)
    scheme, _, address = chosen.partition("://")
    count = workers or len(os.sched_getaffinity(0))
    executor: Executor
    close: Callable[[], object] | None = None
    if chosen == "processes":
        executor = _processes(count)
    elif chosen == "threads":
        executor = ThreadPoolExecutor(count)
    else:
        executor, count, close = _CLUSTERS[scheme](address, chosen)
    try:
        yield executor, count
    finally:
        executor.shutdown(wait=True)
        if close is not None:
            close()


def check_choice(chosen: str) -> None:
    """Raise a `UsageError` for what is none of `CHOICES`."""
    scheme, _, address = chosen.partition("://")
    if chosen not in ("processes", "threads") and not (address and scheme in _CLUSTERS):
        raise UsageError("errors.executor.unknown", chosen=chosen, choices=CHOICES)


def map_in_order(
    executor: Executor, workers: int, work: Callable[[Item], Made], items: Iterable[Item]
) -> Iterator[tuple[Item, Made]]:
    """Yields (item, result) in the order of the items; only few items wait at a time.

    Args:
        executor: From `open_executor`.
        work: A function of a module, so that other processes find it.
        items: Arguments; read when they are sent.
    """
    waiting: deque[tuple[Item, Future[Made]]] = deque()
    try:
        for item in items:
            waiting.append((item, executor.submit(work, item)))
            if len(waiting) > _WAITING_PER_WORKER * workers:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        for _, future in waiting:
            future.cancel()


def _processes(count: int) -> Executor:
    import multiprocessing

    # Neither threads nor locks of this process are inherited, as with `fork`.
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))


def _dask(address: str, chosen: str) -> tuple[Executor, int, Callable[[], object]]:
    client: Any = None
    try:
        client = _import_package("distributed", "'dask[distributed]'").Client(f"tcp://{address}", timeout="10s")
        workers = sum(each["nthreads"] for each in client.scheduler_info(n_workers=-1)["workers"].values())
    except (OSError, ValueError) as error:
        raise _no_answer(chosen, error) from error
    return client.get_executor(), max(1, workers), client.close


def _ray(address: str, chosen: str) -> tuple[Executor, int, Callable[[], object]]:
    ray: Any = _import_package("ray", "ray")
    try:
        ray.init(chosen if ":" in address else address, logging_level="ERROR", log_to_driver=False)
        workers = int(ray.cluster_resources().get("CPU", 1))
    except (OSError, ValueError, RuntimeError) as error:
        raise _no_answer(chosen, error) from error
    return _RayExecutor(ray), max(1, workers), ray.shutdown


class _RayExecutor(Executor):
    """Tasks of Ray as futures."""

    def __init__(self, ray: Any) -> None:  # noqa: ANN401 - the module
        self._call = ray.remote(lambda work, args, kwargs: work(*args, **kwargs))

    def submit(self, fn: Callable[..., Made], /, *args: Any, **kwargs: Any) -> Future[Made]:  # noqa: ANN401
        """Returns the future of a task."""
        future: Future[Made] = self._call.remote(fn, args, kwargs).future()
        return future


_CLUSTERS: dict[str, Callable[[str, str], tuple[Executor, int, Callable[[], object]]]] = {"dask": _dask, "ray": _ray}


def _import_package(module: str, package: str) -> Any:  # noqa: ANN401 - a module
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError("errors.executor.not_installed", module=module, reason=error, package=package) from error


def _no_answer(chosen: str, error: Exception) -> UsageError:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return UsageError("errors.executor.no_answer", chosen=chosen, reason=first)
