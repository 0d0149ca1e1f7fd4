"""Identity of a process: its id, which may be reused, with its start time."""

from __future__ import annotations

from pathlib import Path


def start_ticks(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot (field 22 of /proc/pid/stat), 0 if it has ended.

    Process ids are reused; together with this number they are unique. A zombie counts as ended, because in containers
    it may never be reaped.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0
