"""The process tree of a run, read from /proc, and the Python processes in it that the probe did not see.

Reads only; never signals or waits. Source: mechanisms, section 1.3.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labbook.capture.launchers import is_python
from labbook.probe.events.protocol import ENV_PROBE, EVENTS_FOLDER

_YOUNG_S = 1.5
"""How long a new process is looked at in every poll: it may still turn from a fork into another program."""

_MAX_PROBED_IDS = 64
"""Up to so many new process ids are asked for one by one; above it, /proc is listed. Source: measured, 3 to 8 us an id
against 42 us for a list of 132 processes."""

_FEW_LOOKS = 40


@dataclass(frozen=True)
class ProcessStat:
    """One line of /proc/pid/stat.

    Args:
        ticks: Start time in clock ticks since boot; with the id it names one process.
        cpu_s: Time on processors, that of children that ended and were waited for included.
        state: "R", "S", "D", "Z", ...
    """

    pid: int
    ppid: int
    ticks: int
    cpu_s: float
    state: str


@dataclass
class SeenPython:
    """A Python process of the run, as /proc showed it.

    Args:
        ids: Its process ids, the outermost first; more than one inside a process namespace.
        marked: Whether its environment carries the probe's settings; `None` when that could not be read.
        fork: Whether it is a fork of another Python without a program of its own.
    """

    pid: int
    ppid: int
    ticks: int
    argv: tuple[str, ...]
    executable: str
    ids: tuple[int, ...] = ()
    marked: bool | None = None
    fork: bool = False


def read_bytes(path: str, limit: int = 65536) -> bytes:
    """Content of a small file of /proc, empty when it is gone or not ours to read."""
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
    """The state of one process, `None` when it is gone."""
    text = read_bytes(f"/proc/{pid}/stat", 4096)
    # The name in parentheses may hold anything, parentheses too; the fields are counted from the last one.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    cpu = sum(int(f) for f in fields[11:15]) / _TICKS_A_SECOND
    return ProcessStat(pid, int(fields[1]), int(fields[19]), cpu, fields[0].decode())


@dataclass
class ProcessTree:
    """A process and its descendants, also those whose parent has ended.

    Call `update` often: what lives and dies between two calls is not seen.

    Args:
        root: Process id of the command.
    """

    root: int
    members: dict[int, ProcessStat] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    _last_id: int = -1
    _first_look: dict[int, float] = field(default_factory=dict)
    _pythons: dict[tuple[int, int], SeenPython] = field(default_factory=dict)
    _marker: bytes = b""
    _looks: int = 0

    def update(self, whole: bool = False) -> list[SeenPython]:
        """Finds new members and drops those that ended; returns Pythons that are new or have changed.

        Args:
            whole: Also read every member again, for its CPU time, and look again at what program each one is.

        Cost:
            About 15 us when no process was started anywhere; 10 us for each new one; 10 us a member when `whole`.
        """
        now = time.monotonic()
        self._read_marker()
        if self._last_id < 0:
            self._adopt(self.root, now, force=True)
        for pid in self._new_ids():
            self._adopt(pid, now)
        if whole:
            self._refresh()
        young = [pid for pid, since in self._first_look.items() if now - since < _YOUNG_S]
        if not whole:
            self._first_look = {pid: self._first_look[pid] for pid in young}
        return [p for p in map(self._look, list(self.members) if whole else young) if p is not None]

    def _read_marker(self) -> None:
        if self._marker or self._looks > _FEW_LOOKS:
            return
        self._looks += 1
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
            listed = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208 - twice as fast
            fresh = listed - self._seen
            self._seen = listed
            return sorted(fresh)
        return []

    def _adopt(self, pid: int, now: float, force: bool = False) -> None:
        if pid in self.members:
            return
        stat = read_stat(pid)
        if stat is None or (pid == os.getpid() and not force):
            return
        ours = force or stat.ppid in self.members or self._is_marked(pid)
        # The id of a thread answers like its process; only the first thread is a process.
        if ours and _ids(pid)[:1] == (pid,):
            self.members[pid] = stat
            self._first_look[pid] = now

    def _is_marked(self, pid: int) -> bool | None:
        if not self._marker:
            return None
        environ = read_bytes(f"/proc/{pid}/environ", 1 << 20)
        # An environment may be empty, and may be one that we must not read.
        readable = environ or os.access(f"/proc/{pid}/environ", os.R_OK)
        return self._marker in environ.split(b"\0") if readable else None

    def _refresh(self) -> None:
        for pid, known in list(self.members.items()):
            stat = read_stat(pid)
            if stat is None or stat.ticks != known.ticks:
                del self.members[pid]
                self._first_look.pop(pid, None)
            else:
                self.members[pid] = stat

    def _look(self, pid: int) -> SeenPython | None:
        """The Python in a member when it was not known like this before."""
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
        found = SeenPython(pid, stat.ppid, stat.ticks, argv, executable, _ids(pid), self._is_marked(pid), fork)
        self._pythons[key] = found
        return found


def _last_process_id() -> int:
    """The process id given last on this system, -1 when that is not told; unchanged means that nothing was started."""
    with contextlib.suppress(ValueError, IndexError):
        return int(read_bytes("/proc/loadavg", 200).split()[4])
    return -1


def _executable(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)").rpartition("/")[2]  # noqa: PTH115
    except OSError:
        return ""


def _ids(pid: int) -> tuple[int, ...]:
    """Process ids of a process from the outermost namespace inwards; those of its first thread for a thread."""
    group: tuple[int, ...] = ()
    for line in read_bytes(f"/proc/{pid}/status", 4096).splitlines():
        name, _, value = line.partition(b":")
        if name == b"Tgid":
            group = (int(value),)
        elif name == b"NSpid" and group == (pid,):
            return tuple(int(v) for v in value.split())
    return group


def find_unobserved(resources: Path) -> list[dict[str, Any]]:
    """Python processes of the run that never said hello.

    Args:
        resources: The sampler's file; the event files are looked for in the folder `events` beside it.

    Returns:
        One object a process: `pid`, `ppid`, `argv` (redacted), `reason`; the same command line only once, with
        `count`. A process that lived for less than the time between two polls (50 ms at first) may be missing.
    """
    return unobserved_pythons(_pythons_in(resources), _said_hello(resources.parent / EVENTS_FOLDER))


def unobserved_pythons(seen: Iterable[Mapping[str, Any]], hello: set[tuple[int, int]]) -> list[dict[str, Any]]:
    """Those Pythons that are not among `hello`, (process id, start ticks) of the processes that said hello."""
    latest = {(record["pid"], record["ticks"]): record for record in seen}
    silent: dict[tuple[str, ...], dict[str, Any]] = {}
    for (pid, ticks), record in latest.items():
        ids = record.get("ids") or [pid]
        if record.get("fork") or any((i, ticks) in hello for i in ids):
            continue
        argv = tuple(str(a) for a in record.get("argv") or ())
        known = silent.setdefault(
            argv,
            {"pid": pid, "ppid": record.get("ppid") or 0, "argv": list(argv), "reason": _reason(record), "count": 0},
        )
        known["count"] += 1
    return list(silent.values())


def _reason(record: Mapping[str, Any]) -> str:
    version = _version(str(record.get("executable") or ""))
    if version and version < (3, 8):
        return f"Python {version[0]}.{version[1]} is older than 3.8, which the probe needs"
    for word in list(record.get("argv") or ())[1:]:
        if not str(word).startswith("-") or str(word) in ("-c", "-m", "-"):
            break
        for letter, why in (
            ("I", "which ignores PYTHONPATH"),
            ("E", "which ignores PYTHONPATH"),
            ("S", "which skips sitecustomize"),
        ):
            if letter in str(word) and not str(word).startswith(("--", "-X", "-W")):
                return f"started with -{letter}, {why}"
    if record.get("marked") is False:
        return "started with an environment that does not hold labbook's variables"
    return "the probe did not start in it; the reason is not known"


def _version(executable: str) -> tuple[int, int] | None:
    numbers = executable.removeprefix("python").split(".")
    if len(numbers) >= 2 and numbers[0].isdigit() and numbers[1].isdigit():
        return int(numbers[0]), int(numbers[1])
    return None


def _pythons_in(resources: Path) -> Iterator[dict[str, Any]]:
    for record in read_samples(resources):
        if record.get("k") == "python" and isinstance(record.get("pid"), int) and isinstance(record.get("ticks"), int):
            yield record


def read_samples(resources: Path) -> Iterator[dict[str, Any]]:
    """The sampler's records, in order; lines that are torn or no objects are skipped."""
    with contextlib.suppress(OSError), resources.open("rb") as stream:
        for line in stream:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


def _said_hello(events: Path) -> set[tuple[int, int]]:
    """(process id, start ticks) in the names of the event files, `<host>-<pid>-<start ticks>.jsonl`."""
    found: set[tuple[int, int]] = set()
    for file in events.glob("*.jsonl") if events.is_dir() else ():
        _, pid, ticks = ["", "", "", *file.stem.rsplit("-", 2)][-3:]
        if pid.isdigit() and ticks.isdigit():
            found.add((int(pid), int(ticks)))
    return found
