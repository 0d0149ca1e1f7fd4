"""Watches the files of a notebook. The only module that imports watchdog."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.errors import UsageError
from labbook.store.notebook import Notebook

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver

QUIET_S = 0.2
"""A change is reported after this time without changes, so that an entry and its files are one change."""

LONGEST_S = 5.0
"""Latest report, while a running program changes its entry continuously."""

_CHANGES = frozenset({"created", "modified", "moved", "deleted"})
"""Not "opened" and "closed", which reading a note causes."""


def changes(
    notebook: Notebook, *, polling: bool = False, stop: Callable[[], bool] | None = None, yield_start: bool = False
) -> Iterator[list[str]]:
    """Yields changed files, relative to the notebook, when changes have stopped.

    Args:
        notebook: Notebook; its notes, templates, settings and `mkdocs.yml` are watched.
        polling: Poll for changes (needed on network file systems).
        stop: Called a few times a second; true ends the iteration.
        yield_start: Whether to yield an empty list when watching begins; earlier changes are not reported.

    Raises:
        UsageError: watchdog is not installed.
    """
    happened: queue.Queue[str] = queue.Queue()
    observer = _observer(notebook, happened, polling=polling)
    try:
        if yield_start:
            yield []
        while stop is None or not stop():
            changed = _next_change(happened)
            if changed:
                yield sorted(changed)
    finally:
        observer.stop()
        observer.join(5)


def _next_change(happened: queue.Queue[str]) -> set[str]:
    """Returns the files of one change; empty if nothing happened for a moment."""
    changed: set[str] = set()
    deadline = time.monotonic() + LONGEST_S
    name = _next_name(happened, 0.25)
    while name and time.monotonic() < deadline:
        changed.add(name)
        name = _next_name(happened, QUIET_S)
    return changed | ({name} if name else set())


def _next_name(happened: queue.Queue[str], wait_s: float) -> str:
    try:
        return happened.get(timeout=wait_s)
    except queue.Empty:
        return ""


def _observer(notebook: Notebook, happened: queue.Queue[str], *, polling: bool) -> BaseObserver:
    try:
        from watchdog.events import FileSystemEventHandler
        from watchdog.observers import Observer
        from watchdog.observers.polling import PollingObserver
    except ImportError as error:
        raise UsageError("errors.site.no_watchdog") from error

    class Handler(FileSystemEventHandler):
        """Puts the paths of changes into the queue."""

        def on_any_event(self, event: Any) -> None:  # noqa: ANN401 - an event of watchdog
            """Adds the path of an event."""
            for path in (event.src_path, getattr(event, "dest_path", "")):
                name = _watched_name(notebook, str(path)) if path else ""
                if name and event.event_type in _CHANGES and not event.is_directory:
                    happened.put(name)

    def start(observer: BaseObserver) -> BaseObserver:
        observer.schedule(Handler(), str(notebook.paths.root), recursive=False)
        for folder in (notebook.paths.notes, notebook.paths.templates):
            if folder.is_dir():
                observer.schedule(Handler(), str(folder), recursive=True)
        observer.start()
        return observer

    if not polling:
        try:
            return start(Observer())
        except OSError:
            # Too many watches, or a file system without watches.
            pass
    return start(PollingObserver())


def _watched_name(notebook: Notebook, path: str) -> str:
    """Returns the file relative to the notebook, "" if the site does not depend on it."""
    try:
        relative = Path(path).resolve().relative_to(notebook.paths.root.resolve())
    except (ValueError, OSError):
        return ""
    parts = relative.parts
    if not parts or any(part.startswith(".") for part in parts) or parts[-1].endswith((".tmp", "~", ".swp")):
        return ""
    of_notebook = parts[0] in ("notes", "templates") or parts in (("mkdocs.yml",), (notebook.paths.settings.name,))
    return relative.as_posix() if of_notebook else ""
