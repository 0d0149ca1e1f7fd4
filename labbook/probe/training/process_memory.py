"""How much memory this process holds, and how many graphs of past backward calls are still alive in it."""

import os

from ..events.protocol import MEMORY

EVERY_S = 10.0
"""Told at dense steps, and at least so often. Source: chosen by us."""

FROM, GROWTH = 20, 1.15
"""Told at this step, and whenever steps have grown by this ratio: looks at tensors may be too dear and too few for a
trend, and this costs a tenth of a millisecond. Source: chosen by us; 35 times in 2000 steps, 80 in a million."""

MARKED = 64
"""Graphs that are marked to see whether they stay alive."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class ProcessMemory:
    """The memory of one process, as `memory` events.

    Args:
        emit: `emit(kind, **fields)` writes an event.
        framework: Its name.
        now: Monotonic time, in seconds.

    Attributes:
        next_step: Step after which it is due again.
        workers: Gives the process ids of the workers of data loaders; set by the eyes of a framework.
    """

    def __init__(self, emit, framework, now):
        self._emit = emit
        self._framework = framework
        self._told_s = now
        self.next_step = FROM
        self._marks = []
        self._known = ()
        self.workers = tuple

    def marks_wanted(self):
        """Whether another graph is to be marked."""
        return len(self._marks) < MARKED

    def mark(self, mark):
        """Takes a weak reference that lives as long as a graph; `None` where a graph cannot be marked."""
        if mark is not None:
            self._marks.append(mark)

    def next_s(self):
        """Until when nothing is due."""
        return self._told_s + EVERY_S

    def due(self, now, step):
        """Whether nothing was told for long, in time or in steps."""
        return step >= self.next_step or now - self._told_s > EVERY_S

    def tell(self, now, step, device):
        """Writes the event.

        Args:
            now: Monotonic time, in seconds.
            step: Number of the step that has ended.
            device: Memory of the devices, `None` where there is none.
        """
        self._told_s = now
        self.next_step = max(FROM, step + 1, int(step * GROWTH))
        before = self._marks[:-1]  # the graph of the step that has just ended may well be alive
        self._emit(
            MEMORY,
            framework=self._framework,
            step=step,
            rss=resident_bytes(),
            workers_rss=self._of_workers(),
            device=device,
            graphs=sum(1 for mark in before if mark() is not None) if before else None,
            graphs_of=len(before),
        )

    def _of_workers(self):
        """Memory of all workers; `None` where there are none, or others than at the time before."""
        workers = tuple(self.workers())
        known, self._known = self._known, workers
        if not workers or (known and known != workers):
            return None
        sizes = [own_bytes(worker) for worker in workers]
        return None if None in sizes else sum(sizes)


def own_bytes(process):
    """Memory of a process, shared pages in equal parts; `None` where the system does not tell.

    A page that is copied when it is written counts no more than before in what is resident, but it counts here.

    Cost: half a millisecond for a gigabyte.
    """
    try:
        with open("/proc/%d/smaps_rollup" % process, "rb") as stream:
            for line in stream:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


def resident_bytes():
    """Resident memory of this process, `None` where the system does not tell.

    Cost: 10 microseconds.
    """
    try:
        with open("/proc/self/statm", "rb") as stream:
            return int(stream.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None
