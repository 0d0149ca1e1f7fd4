"""Which process a process id names: an id is used again, together with its start time it is unique."""

from __future__ import annotations

from pathlib import Path


def start_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot (field 22 of /proc/pid/stat), 0 when it has ended.

    A process id alone says little: it is used again. Together with this number it names one process. In containers a
    dead process whose parent is gone may never be reaped: a zombie has ended.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0
