"""What the system knows of how a run ended: out-of-memory kills, the limit of memory, the time limit of a batch job.

`counters` is read before the command starts and once more after its end; `ending_facts` makes sentences of the
difference, with the keys of `labbook.model.evidence.Ending.facts`: `oom_kill`, `memory` (what is known of memory where
a kill is not explained), `time_limit`, `core_dump`.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labbook.capture.processes import read_samples

_MOST_GROUPS = 12
_NO_LIMIT = 1 << 60
_NEAR = 0.9
"""Share of the limit from which on memory counts as nearly full. Source: chosen by us."""

_NEAR_LIMIT_S = (120.0, 300.0)
"""A job ended by its time limit gets its signal not more than so long before the limit (`--signal` of Slurm is that
early) and not more than so long after it (grace time). Source: defaults of Slurm, with room."""

_KILLED = re.compile(
    r"(?:Memory cgroup out of memory|Out of memory): Kill(?:ed)? process (\d+) \(([^)]{1,40})\)[^;\n]*"
)
_MOST_KERNEL_BYTES = 4 << 20
_KILLS = ("SIGKILL",)
_LIMIT_SIGNALS = ("SIGKILL", "SIGTERM", "SIGXCPU", "SIGUSR2", "SIGINT")


def counters(root: Path = Path("/")) -> dict[str, dict[str, int]]:
    """Kills for want of memory so far, by who counts them: the control groups of this process, and the machine.

    Args:
        root: Stands for "/" in tests.

    Returns:
        Name -> `kills`, and where known `failures` (allocations refused), `limit` and `peak` in bytes.

    Cost: under a millisecond.
    """
    found: dict[str, dict[str, int]] = {}
    for folder in _groups(root):
        facts = _of_group(folder)
        if facts:
            found[str(folder.relative_to(root))] = facts
    kills = _number_after(_text(root / "proc/vmstat"), "oom_kill")
    if kills is not None:
        found["machine"] = {"kills": kills}
        total = _number_after(_text(root / "proc/meminfo"), "MemTotal:")
        if total:
            found["machine"]["limit"] = total * 1024
    return found


def ending_facts(end: Mapping[str, Any], resources: Path, started: float, environ: Mapping[str, str]) -> dict[str, Any]:
    """What explains the end of a run.

    Args:
        end: How the command ended: `code`, `signal`, `ended`, `core_dump`, and `counters` with `before` and `after`.
        resources: File of the resource samples.
        started: Unix time, s.
        environ: Of the run: batch systems tell the time limit there.
    """
    facts: dict[str, Any] = {}
    if not end:
        return facts
    if end.get("core_dump"):
        facts["core_dump"] = True
    ended = float(end.get("ended") or time.time())
    signal, code = str(end.get("signal") or ""), end.get("code")
    killed = signal in _KILLS or code == 137
    told = end.get("counters") or {}
    before, after = told.get("before") or {}, told.get("after") or {}
    held = _last_resident(resources)
    oom = _oom_kill(before, after, held) if code != 0 else ""
    if not oom and (killed or code not in (0, None)):
        oom = find_oom_kill(_kernel_lines(), max(0.0, ended - started))
    if oom:
        facts["oom_kill"] = oom
    elif killed:
        facts["memory"] = _no_sign(after, held)
    limit = time_limit(ended, environ)
    if limit and (signal in _LIMIT_SIGNALS or (isinstance(code, int) and code > 128)):
        facts["time_limit"] = limit
    return facts


def time_limit(ended: float, environ: Mapping[str, str]) -> str:
    """A sentence where a run ended at the time limit of its batch job, "" where it did not.

    Args:
        ended: Unix time, s.
        environ: `SLURM_JOB_END_TIME`, or `PBS_WALLTIME` with `PBS_JOB_START` or the age of the job's shell.
    """
    name, limit = "SLURM_JOB_END_TIME", _number(environ.get("SLURM_JOB_END_TIME"))
    if limit is None and _number(environ.get("PBS_WALLTIME")) is not None:
        name = "PBS_WALLTIME"
        limit = _session_began() + (_number(environ["PBS_WALLTIME"]) or 0.0)
    if limit is None:
        return ""
    late = ended - limit
    if not -_NEAR_LIMIT_S[0] <= late <= _NEAR_LIMIT_S[1]:
        return ""
    when = f"{abs(late):.0f} s {'after' if late >= 0 else 'before'}"
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(limit))
    return f"it was ended {when} the end of the job's time, {clock} UTC ({name})"


def find_oom_kill(lines: Sequence[tuple[float, str]], age_s: float) -> str:
    """A sentence on a kill for want of memory that the kernel log tells of during a run, "" where it tells none.

    Args:
        lines: (age in seconds, text), oldest first.
        age_s: How long ago the run began.
    """
    for age, text in reversed(lines):
        found = _KILLED.search(text)
        if found is not None and age <= age_s + 1.0:
            return f"the kernel log says: {found[0].strip()[:200]}"
    return ""


def _oom_kill(before: Mapping[str, Any], after: Mapping[str, Any], held: int) -> str:
    for name, now in after.items():
        was = before.get(name)
        if not isinstance(was, Mapping) or "kills" not in was:
            continue
        kills = int(now.get("kills") or 0) - int(was["kills"])
        if kills <= 0:
            continue
        what = "1 process" if kills == 1 else f"{kills} processes"
        where = "on this machine" if name == "machine" else f"in the control group {name}"
        limit = int(now.get("limit") or 0)
        sentence = f"the kernel killed {what} {where} for want of memory"
        sentence += f"; the limit is {_bytes(limit)}" if limit else ""
        return sentence + (f", and this run held {_bytes(held)} when it was last looked at" if held else "")
    return ""


def _no_sign(after: Mapping[str, Any], held: int) -> str:
    """What is known of memory where a process was killed and nobody says why."""
    limits = [int(group["limit"]) for group in after.values() if group.get("limit")]
    limit = min(limits, default=0)
    if held and limit and held >= _NEAR * limit:
        return (
            f"memory was nearly full: this run held {_bytes(held)} of {_bytes(limit)} when it was last looked at; "
            "no counter that can be read here says who killed it"
        )
    counted = "no kill for want of memory was counted" if after else "no counter of such kills can be read here"
    amounts = f": it held {_bytes(held)} when it was last looked at" if held else ""
    amounts += f", the limit is {_bytes(limit)}" if held and limit else ""
    return f"nothing shows that memory ran out ({counted}){amounts}; who sent the signal is not known"


def _groups(root: Path) -> Iterator[Path]:
    """Folders of the memory control groups of this process, its own first, then those around it."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number != "0" and "memory" not in controllers.split(","):
            continue
        for mount, inside in _mounts(root, "" if number == "0" else "memory"):
            below = path[len(inside) :] if inside != "/" and path.startswith(inside) else path
            folder = root / mount.lstrip("/") / below.strip("/")
            top = root / mount.lstrip("/")
            for _ in range(_MOST_GROUPS):
                if folder.is_dir():
                    yield folder
                if folder == top or top not in folder.parents:
                    break
                folder = folder.parent


def _mounts(root: Path, controller: str) -> Iterator[tuple[str, str]]:
    """(mount point, folder of the hierarchy that is mounted there) of a controller; "" stands for version 2."""
    for line in _text(root / "proc/self/mountinfo").splitlines():
        first, _, last = line.partition(" - ")
        fields, kind = first.split(), last.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == ("cgroup" if controller else "cgroup2") and (not controller or controller in kind[2].split(",")):
            yield fields[4], fields[3]


def _of_group(folder: Path) -> dict[str, int]:
    sources = (
        ("kills", "memory.events", "oom_kill"),
        ("kills", "memory.oom_control", "oom_kill"),
        ("failures", "memory.failcnt", ""),
        ("limit", "memory.max", ""),
        ("limit", "memory.limit_in_bytes", ""),
        ("peak", "memory.peak", ""),
        ("peak", "memory.max_usage_in_bytes", ""),
    )
    found: dict[str, int] = {}
    for key, file, word in sources:
        text = _text(folder / file)
        value = _number_after(text, word) if word else _number(text)
        if value is not None and (key != "limit" or value < _NO_LIMIT):
            found.setdefault(key, int(value))
    return found


def _last_resident(resources: Path) -> int:
    """Bytes that the processes of the run held together in the last sample that saw any."""
    last = 0
    for record in read_samples(resources):
        if record.get("k") == "sample":
            last = int(record.get("pss") or record.get("rss") or 0) or last
    return last


def _kernel_lines() -> list[tuple[float, str]]:
    """Lines of the kernel log with their age in seconds; empty where it may not be read."""
    try:
        handle = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    now, found, size = time.clock_gettime(time.CLOCK_MONOTONIC), [], 0
    try:
        while size < _MOST_KERNEL_BYTES:
            try:
                record = os.read(handle, 8192)
            except BrokenPipeError:
                continue  # this record was overwritten meanwhile
            size += len(record)
            head, _, text = record.decode("utf-8", "replace").partition(";")
            stamp = head.split(",")[2:3]
            if "Kill" in text and stamp and stamp[0].isdigit():
                found.append((now - int(stamp[0]) / 1e6, text))
    except OSError:
        pass  # there is no further line
    finally:
        os.close(handle)
    return found


def _session_began() -> float:
    """Unix time at which the first process of this session started: the shell of the batch job."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{os.getsid(0)}/stat").read_text().rpartition(")")[2].split()
        up = time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.time() - up + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time()


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text("utf-8", "replace")[:65536]
    return ""


def _number_after(text: str, word: str) -> int | None:
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 1 and fields[0] == word and fields[1].isdigit():
            return int(fields[1])
    return None


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").strip())
    except ValueError:
        return None


def _bytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
