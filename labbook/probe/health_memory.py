"""How much memory this process holds."""

import os

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident_bytes():
    """Resident memory of this process, `None` where the system does not tell.

    Cost: 10 microseconds.
    """
    try:
        with open("/proc/self/statm", "rb") as stream:
            return int(stream.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None
