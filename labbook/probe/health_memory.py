"""How much memory this process holds, and how many graphs of past backward calls are still alive in it."""

import os

from .protocol import MEMORY

EVERY_S = 10.0
"""Told at dense steps, and at least so often. Source: chosen by us."""

MARKED = 64
"""Graphs that are marked to see whether they stay alive."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Memory:
    """The memory of one process, as `memory` events.

    Args:
        emit: `emit(kind, **fields)` writes an event.
        framework: Its name.
        now: Monotonic time, in seconds.
    """

    def __init__(self, emit, framework, now):
        self._emit = emit
        self._framework = framework
        self._told_s = now
        self._marks = []

    def marks_wanted(self):
        """Whether another graph is to be marked."""
        return len(self._marks) < MARKED

    def mark(self, mark):
        """Takes a weak reference that lives as long as a graph; `None` where a graph cannot be marked."""
        if mark is not None:
            self._marks.append(mark)

    def due(self, now):
        """Whether nothing was told for long."""
        return now - self._told_s > EVERY_S

    def tell(self, now, step, device):
        """Writes the event.

        Args:
            now: Monotonic time, in seconds.
            step: Number of the step that has ended.
            device: Memory of the devices, `None` where there is none.
        """
        self._told_s = now
        before = self._marks[:-1]  # the graph of the step that has just ended may well be alive
        self._emit(
            MEMORY,
            framework=self._framework,
            step=step,
            rss=resident_bytes(),
            workers_rss=None,
            device=device,
            graphs=sum(1 for mark in before if mark() is not None) if before else None,
            graphs_of=len(before),
        )


def resident_bytes():
    """Resident memory of this process, `None` where the system does not tell.

    Cost: 10 microseconds.
    """
    try:
        with open("/proc/self/statm", "rb") as stream:
            return int(stream.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None
