"""Reads the machine from /proc and /sys: processor, memory, devices, system.

Facts: `cpu`, `cores` (usable by the run), `cores_total`, `memory_bytes`, `memory_limit_bytes` (of the control group, if
it is lower), `gpus` (list of `index`, `name`, `memory_bytes`), `driver`, `cuda_driver`, `gpu_note`,
`disk_free_bytes` (of the working folder), `os`, `kernel`, `machine`, `libc`.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from pathlib import Path
from typing import Any

from labbook.capture.context import CaptureContext
from labbook.capture.gpus import gpus_without_nvml, has_nvidia, open_gpus
from labbook.errors import Unavailable
from labbook.store.json_files import read_text_or_nothing

_NO_LIMIT_BYTES = 1 << 60
"""Control groups write a huge number for "no limit"; larger values are none."""


def capture(context: CaptureContext) -> dict[str, Any]:
    """Returns the facts of the machine; the module's docstring lists them."""
    system = os.uname()
    total = memory_total()
    facts: dict[str, Any] = {
        "cpu": cpu_name(),
        "cores": usable_cores(),
        "cores_total": os.cpu_count() or 0,
        "memory_bytes": total,
        "os": _os_name(),
        "kernel": system.release,
        "machine": system.machine,
    }
    limit = memory_limit()
    if limit is not None and (not total or limit < total):
        facts["memory_limit_bytes"] = limit
    with contextlib.suppress(OSError):
        space = os.statvfs(context.cwd)
        facts["disk_free_bytes"] = space.f_bavail * space.f_frsize
    with contextlib.suppress(OSError, ValueError):
        facts["libc"] = os.confstr("CS_GNU_LIBC_VERSION") or ""
    return facts | _gpus()


def _gpus() -> dict[str, Any]:
    try:
        reader = open_gpus()
    except Unavailable as reason:
        facts = gpus_without_nvml()
        if has_nvidia():
            facts["gpu_note"] = f"memory and load of the GPUs were not measured: {reason}"
        return facts
    try:
        return {"gpus": reader.facts(), **reader.driver()}
    finally:
        reader.close()


_MARKS = re.compile(r"\((?:R|TM|C)\)", re.IGNORECASE)
"""Trademark signs after the names of makers."""


def cpu_name(info: Path = Path("/proc/cpuinfo")) -> str:
    """Returns the processor's name, or its architecture if the kernel gives no name."""
    text = ""
    with contextlib.suppress(OSError), info.open("rb") as stream:
        # One block is enough; machines with hundreds of cores have a megabyte of text.
        text = stream.read(8192).decode("utf-8", "replace")
    for key in ("model name", "Hardware", "cpu model", "Model"):
        for line in text.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key and value.strip():
                return " ".join(_MARKS.sub("", value).split())
    return os.uname().machine


def usable_cores(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float:
    """Returns the number of usable cores: the affinity or the lower quota of the control groups."""
    cores = float(len(os.sched_getaffinity(0)))
    for folder in _group_folders(groups, own, "cpu"):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = (folder / "cpu.max").read_text().split()
            cores = min(cores, int(quota) / int(period))
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota_us = int((folder / "cpu.cfs_quota_us").read_text())
            if quota_us > 0:
                cores = min(cores, quota_us / int((folder / "cpu.cfs_period_us").read_text()))
    return int(cores) if cores == math.floor(cores) else round(cores, 2)


def memory_limit(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Returns the memory limit of the control groups in bytes, `None` without a limit."""
    limits = []
    for folder in _group_folders(groups, own, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with contextlib.suppress(OSError, ValueError):
                limits.append(int((folder / name).read_text()))
    return min((n for n in limits if n < _NO_LIMIT_BYTES), default=None)


def _group_folders(groups: Path, own: Path, controller: str) -> list[Path]:
    """Returns the folders of this process's control groups, innermost first; all their limits apply."""
    folders: list[Path] = []
    with contextlib.suppress(OSError):
        for line in own.read_text().splitlines():
            number, names, path = line.split(":", 2)
            if number == "0":
                base = groups
            elif controller in names.split(","):
                base = groups / controller
            else:
                continue
            inner = base / path.lstrip("/")
            folders += [inner, *[p for p in inner.parents if p.is_relative_to(base)]]
    # Inside a container the path is a path of the host and does not exist; the own group is at the top.
    return [f for f in dict.fromkeys([*folders, groups, groups / controller]) if f.is_dir()]


def memory_total(info: Path = Path("/proc/meminfo")) -> int:
    """Returns the bytes of main memory, 0 if unknown."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in info.read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
    return 0


def _os_name() -> str:
    for line in read_text_or_nothing(Path("/etc/os-release")).splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip().strip("\"'")
    return os.uname().sysname
