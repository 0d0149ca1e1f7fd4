"""Memory of this process, and the number of autograd graphs of past backward calls that are still alive."""

import os

from ..events.measurement_kinds import MEMORY

EVERY_S = 10.0
"""Maximum seconds between two records besides those at dense steps. Source: chosen by us."""

FROM, GROWTH = 20, 1.15
"""First recorded step, and ratio of the later ones: dense steps may be too expensive and too few for a trend, and one
record costs 0.1 ms. Source: chosen by us; 35 records in 2000 steps, 80 in a million."""

MARKED, MARKED_FIRST = 96, 32
"""Number of graphs that are watched for staying alive: the first ones, and those of dense steps."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class ProcessMemory:
    """The memory of one process, as `memory` events.

    Args:
        now: Monotonic time, in seconds.

    Attributes:
        next_step: Step after which the next record is due.
        workers: Returns the process ids of data loader workers; set by the inspector of a framework.
    """

    def __init__(self, emit, framework, now):
        self._emit = emit
        self._framework = framework
        self._told_s = now
        self.next_step = FROM
        self._marks = []
        self._known = ()
        self.workers = tuple

    def wants_mark(self, dense, backwards):
        """Whether the graph of a backward call should be watched."""
        return (dense or backwards <= MARKED_FIRST) and len(self._marks) < MARKED

    def mark(self, mark):
        """Add a weak reference that lives as long as a graph; `None` if a graph cannot be watched."""
        if mark is not None:
            self._marks.append(mark)

    def next_s(self):
        """Time until which no record is due."""
        return self._told_s + EVERY_S

    def is_due(self, now, step):
        """Whether a record is due, by time or by steps."""
        return step >= self.next_step or now - self._told_s > EVERY_S

    def write_event(self, now, step, device):
        """Write the event.

        Args:
            now: Monotonic time, in seconds.
            step: Number of the completed step.
            device: Memory of the devices, or `None`.
        """
        self._told_s = now
        self.next_step = max(FROM, step + 1, int(step * GROWTH))
        before = self._marks[:-1]  # the graph of the last step may still be alive
        self._emit(
            MEMORY,
            framework=self._framework,
            step=step,
            rss=resident_bytes(),
            workers_rss=self._worker_memory(),
            device=device,
            graphs=sum(1 for mark in before if mark() is not None) if before else None,
            graphs_of=len(before),
        )

    def _worker_memory(self):
        """Return the memory of all workers; `None` if there are none, or others than in the previous record."""
        workers = tuple(self.workers())
        known, self._known = self._known, workers
        if not workers or (known and known != workers):
            return None
        sizes = [own_bytes(worker) for worker in workers]
        return None if None in sizes else sum(sizes)


def own_bytes(process):
    """Return the memory of a process with shared pages in equal parts (PSS); `None` if it is not available.

    In contrast to the resident size, it grows when a copy-on-write page is copied.

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
    """Return the resident memory of this process, `None` if it is not available.

    Cost: 10 microseconds.
    """
    try:
        with open("/proc/self/statm", "rb") as stream:
            return int(stream.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None


def memory_of_devices(cuda):
    """Bytes that this process uses on all devices, without waiting for them.

    Args:
        cuda: The module with the functions of a framework for its devices, such as `torch.cuda`.
    """
    fields = {"allocated": 0, "reserved": 0, "peak": 0, "total": 0}
    for index in range(cuda.device_count()):
        fields["allocated"] += cuda.memory_allocated(index)
        fields["reserved"] += cuda.memory_reserved(index)
        fields["peak"] += cuda.max_memory_allocated(index)
        fields["total"] += cuda.get_device_properties(index).total_memory
    return fields
