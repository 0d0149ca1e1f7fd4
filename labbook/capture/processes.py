"""Follows the process tree of a run and finds its Python processes without a probe.

Reads only; never signals or waits.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labbook.capture.launchers import is_python
from labbook.probe.events.protocol import ENV_PROBE, EVENTS_FOLDER
from labbook.store.json_files import read_json_lines

_NEW_PROCESS_S = 1.5
"""How long each poll reads a new process again: a fork may still become another program by `exec`."""

_MAX_PROBED_IDS = 64
"""Up to this many new process ids are read one by one; for more, /proc is listed. Source: measured, 3 to 8 us per id
against 42 us for a list of 132 processes."""

_MAX_MARKER_READS = 40


PATH_REPLACED = "started with a PYTHONPATH of its own, without the folder of the probe"
"""Reason of a process without a probe, which a command like `export PYTHONPATH=src` in a script causes."""


@dataclass(frozen=True)
class ProcessStat:
    """One line of /proc/pid/stat.

    Args:
        ticks: Start time in clock ticks since boot; with the id it identifies one process.
        cpu_s: CPU time, including that of reaped children.
        state: "R", "S", "D", "Z", ...
    """

    pid: int
    ppid: int
    ticks: int
    cpu_s: float
    state: str


@dataclass
class PythonProcess:
    """A Python process of the run, read from /proc.

    Args:
        ids: Its process ids, the outermost first; more than one inside a process namespace.
        marked: Whether its environment has the probe's settings; `None` if it is not readable.
        fork: Whether it is a fork of another Python process, without an `exec`.
        lost_path: Whether its `PYTHONPATH` is one that the command set itself, without the folder of the probe.
    """

    pid: int
    ppid: int
    ticks: int
    argv: tuple[str, ...]
    executable: str
    ids: tuple[int, ...] = ()
    marked: bool | None = None
    fork: bool = False
    lost_path: bool = False


def read_bytes(path: str, limit: int = 65536) -> bytes:
    """Returns the content of a small file of /proc, empty if it is gone or not readable."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(handle, limit)
    except OSError:
        return b""
    finally:
        os.close(handle)


_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def read_stat(pid: int) -> ProcessStat | None:
    """Returns the state of one process, `None` if it has ended."""
    text = read_bytes(f"/proc/{pid}/stat", 4096)
    # The name in parentheses may itself contain parentheses; the fields are counted from the last one.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    cpu = sum(int(f) for f in fields[11:15]) / _TICKS_A_SECOND
    return ProcessStat(pid, int(fields[1]), int(fields[19]), cpu, fields[0].decode())


@dataclass
class ProcessTree:
    """A process and its descendants, including those whose parent has ended.

    Call `update` often: it misses processes that start and end between two calls.

    Args:
        root: Process id of the command.
    """

    root: int
    members: dict[int, ProcessStat] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _last_id: int = -1
    _first_seen: dict[int, float] = field(default_factory=dict)
    _pythons: dict[tuple[int, int], PythonProcess] = field(default_factory=dict)
    _marker: bytes = b""
    _marker_reads: int = 0

    def update(self, whole: bool = False) -> list[PythonProcess]:
        """Adds new members and drops ended ones; returns new and changed Python processes.

        Args:
            whole: Also read every member again, for its CPU time and its program.

        Cost:
            About 15 us if no process was started anywhere; 10 us for each new one; with `whole` 10 us per member.
        """
        now = time.monotonic()
        self._read_marker()
        if self._last_id < 0:
            self._add_member(self.root, now, force=True)
        for pid in self._new_ids():
            self._add_member(pid, now)
        if whole:
            self._refresh()
        new = [pid for pid, since in self._first_seen.items() if now - since < _NEW_PROCESS_S]
        if not whole:
            self._first_seen = {pid: self._first_seen[pid] for pid in new}
        return [p for p in map(self._identify_python, list(self.members) if whole else new) if p is not None]

    def _read_marker(self) -> None:
        if self._marker or self._marker_reads > _MAX_MARKER_READS:
            return
        self._marker_reads += 1
        for variable in read_bytes(f"/proc/{self.root}/environ", 1 << 20).split(b"\0"):
            if variable.startswith(ENV_PROBE.encode() + b"="):
                self._marker = variable

    def _new_ids(self) -> list[int]:
        last = _last_process_id()
        before, self._last_id = self._last_id, last
        if last == before and last > 0:
            return []
        if 0 < last - before <= _MAX_PROBED_IDS and before > 0:
            return list(range(before + 1, last + 1))
        with contextlib.suppress(OSError):
            current = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208 - twice as fast
            new = current - self._seen
            self._seen = current
            return sorted(new)
        return []

    def _add_member(self, pid: int, now: float, force: bool = False) -> None:
        if pid in self.members:
            return
        stat = read_stat(pid)
        if stat is None or (pid == os.getpid() and not force):
            return
        is_member = force or stat.ppid in self.members or self._is_marked(pid)
        # /proc has the ids of threads as well; only the first thread is a process.
        if is_member and _namespace_ids(pid)[:1] == (pid,):
            self.members[pid] = stat
            self._first_seen[pid] = now

    def _is_marked(self, pid: int) -> bool | None:
        if not self._marker:
            return None
        environ = read_bytes(f"/proc/{pid}/environ", 1 << 20)
        # An empty result is either an empty environment or one without permission to read.
        readable = environ or os.access(f"/proc/{pid}/environ", os.R_OK)
        return self._marker in environ.split(b"\0") if readable else None

    def _refresh(self) -> None:
        for pid, known in list(self.members.items()):
            stat = read_stat(pid)
            if stat is None or stat.ticks != known.ticks:
                del self.members[pid]
                self._first_seen.pop(pid, None)
            else:
                self.members[pid] = stat

    def _identify_python(self, pid: int) -> PythonProcess | None:
        """Returns the Python process of a member if it is new or runs another command line."""
        stat = self.members.get(pid)
        if stat is None:
            return None
        executable = _executable(pid)
        if not is_python(executable):
            return None
        argv = tuple(
            w.decode("utf-8", "replace") for w in read_bytes(f"/proc/{pid}/cmdline").rstrip(b"\0").split(b"\0")
        )
        key = (pid, stat.ticks)
        known = self._pythons.get(key)
        if argv == ("",) or (known is not None and known.argv == argv):
            return None
        parent = next((p for p in self._pythons.values() if p.pid == stat.ppid), None)
        fork = parent is not None and parent.argv == argv
        python = PythonProcess(
            pid,
            stat.ppid,
            stat.ticks,
            argv,
            executable,
            _namespace_ids(pid),
            self._is_marked(pid),
            fork,
            _has_own_path(pid),
        )
        self._pythons[key] = python
        return python


def _has_own_path(pid: int) -> bool:
    """Whether the command replaced the `PYTHONPATH` of a process, so that it does not find the probe."""
    environ = read_bytes(f"/proc/{pid}/environ", 1 << 20).split(b"\0")
    path = next((variable for variable in environ if variable.startswith(b"PYTHONPATH=")), b"")
    return bool(path) and b"/probe/inject" not in path and any(v.startswith(b"LABBOOK_PROBE=") for v in environ)


def _last_process_id() -> int:
    """Returns the newest process id of the system, -1 if unknown; unchanged means no new process."""
    with contextlib.suppress(ValueError, IndexError):
        return int(read_bytes("/proc/loadavg", 200).split()[4])
    return -1


def _executable(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)").rpartition("/")[2]  # noqa: PTH115
    except OSError:
        return ""


def _namespace_ids(pid: int) -> tuple[int, ...]:
    """Returns the ids of a process from the outermost namespace inwards; of a thread, its process id."""
    group: tuple[int, ...] = ()
    for line in read_bytes(f"/proc/{pid}/status", 4096).splitlines():
        name, _, value = line.partition(b":")
        if name == b"Tgid":
            group = (int(value),)
        elif name == b"NSpid" and group == (pid,):
            return tuple(int(v) for v in value.split())
    return group


def find_unobserved(resources: Path) -> list[dict[str, Any]]:
    """Returns the Python processes of the run in which the probe did not start.

    Args:
        resources: The sampler's file; the event files are in the folder `events` next to it.

    Returns:
        `pid`, `ppid`, `argv` (redacted), `reason` and `count` of each command line. A process that ran for less than
        the time between two polls (50 ms at first) may be missing.
    """
    return _list_unobserved(_read_pythons(resources), _observed_processes(resources.parent / EVENTS_FOLDER))


def _list_unobserved(seen: Iterable[Mapping[str, Any]], hello: set[tuple[int, int]]) -> list[dict[str, Any]]:
    """Returns the Python processes whose (process id, start ticks) are not among `hello`."""
    latest = {(record["pid"], record["ticks"]): record for record in seen}
    unobserved: dict[tuple[str, ...], dict[str, Any]] = {}
    for (pid, ticks), record in latest.items():
        ids = record.get("ids") or [pid]
        if record.get("fork") or any((i, ticks) in hello for i in ids):
            continue
        argv = tuple(str(a) for a in record.get("argv") or ())
        known = unobserved.setdefault(
            argv,
            {"pid": pid, "ppid": record.get("ppid") or 0, "argv": list(argv), "reason": _reason(record), "count": 0},
        )
        known["count"] += 1
    return list(unobserved.values())


def _reason(record: Mapping[str, Any]) -> str:
    version = _version(str(record.get("executable") or ""))
    if version and version < (3, 8):
        return f"Python {version[0]}.{version[1]} is older than 3.8, which the probe needs"
    for word in list(record.get("argv") or ())[1:]:
        if not str(word).startswith("-") or str(word) in ("-c", "-m", "-"):
            break
        for option, why in (
            ("I", "which ignores PYTHONPATH"),
            ("E", "which ignores PYTHONPATH"),
            ("S", "which skips sitecustomize"),
        ):
            if option in str(word) and not str(word).startswith(("--", "-X", "-W")):
                return f"started with -{option}, {why}"
    if record.get("lost_path"):
        return PATH_REPLACED
    if record.get("marked") is False:
        return "started with an environment that lacks labbook's variables"
    return "the probe did not start, for an unknown reason"


def _version(executable: str) -> tuple[int, int] | None:
    numbers = executable.removeprefix("python").split(".")
    if len(numbers) >= 2 and numbers[0].isdigit() and numbers[1].isdigit():
        return int(numbers[0]), int(numbers[1])
    return None


def _read_pythons(resources: Path) -> Iterator[dict[str, Any]]:
    for record in read_json_lines(resources):
        if record.get("k") == "python" and isinstance(record.get("pid"), int) and isinstance(record.get("ticks"), int):
            yield record


def _observed_processes(events: Path) -> set[tuple[int, int]]:
    """Returns (process id, start ticks) from the event files `<host>-<pid>-<start ticks>.jsonl`."""
    processes: set[tuple[int, int]] = set()
    for file in events.glob("*.jsonl") if events.is_dir() else ():
        _, pid, ticks = ["", "", "", *file.stem.rsplit("-", 2)][-3:]
        if pid.isdigit() and ticks.isdigit():
            processes.add((int(pid), int(ticks)))
    return processes
