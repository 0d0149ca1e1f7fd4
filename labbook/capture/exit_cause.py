"""Explains the end of a run: out-of-memory kills, memory limits, time limits of batch jobs.

`read_oom_counters` is called before the command starts and again after its end; `explain_exit` turns the difference
into messages as plain data, with the keys of `labbook.model.evidence.Ending.facts`: `oom_kill`, `memory` (memory use at
a kill without a known cause), `time_limit`, `batch_end`, `core_dump`.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labbook.model.message import Message, as_data, message
from labbook.store.json_files import read_json_lines, read_text_or_nothing

_MOST_GROUPS = 12
_NO_LIMIT = 1 << 60
_NEAR = 0.9
"""Share of the limit above which memory counts as nearly full. Source: chosen by us."""

_NEAR_LIMIT_S = (120.0, 300.0)
"""A signal because of the time limit arrives at most this long before the limit (`--signal` of Slurm) and at most this
long after it (grace time). Source: defaults of Slurm, with a margin."""

_SHARE_BEFORE = 0.5
"""It arrives before the limit by at most this part of the time that the run lasted: a short job is always near to its
limit. Source: chosen by us."""

_KILLED = re.compile(
    r"(?:Memory cgroup out of memory|Out of memory): Kill(?:ed)? process (\d+) \(([^)]{1,40})\)[^;\n]*"
)
_MOST_KERNEL_BYTES = 4 << 20
_KILLS = ("SIGKILL",)
_BATCH_ENDS = {
    "requeued": "capture.ending.requeued",
    "preempted": "capture.ending.preempted",
    "cancelled": "capture.ending.cancelled",
}
_LIMIT_SIGNALS = ("SIGKILL", "SIGTERM", "SIGXCPU", "SIGUSR2", "SIGINT")


def read_oom_counters(root: Path = Path("/")) -> dict[str, dict[str, int]]:
    """Returns the out-of-memory kills so far, per control group and of the machine.

    Args:
        root: The folder used as "/" in tests.

    Returns:
        Name -> `kills`, and if known `failures` (allocations refused), `limit` and `peak` in bytes.

    Cost: under a millisecond.
    """
    counters: dict[str, dict[str, int]] = {}
    for folder in _memory_groups(root):
        facts = _read_group(folder)
        if facts:
            counters[str(folder.relative_to(root))] = facts
    kills = _read_field(read_text_or_nothing(root / "proc/vmstat"), "oom_kill")
    if kills is not None:
        counters["machine"] = {"kills": kills}
        total = _read_field(read_text_or_nothing(root / "proc/meminfo"), "MemTotal:")
        if total:
            counters["machine"]["limit"] = total * 1024
    return counters


def explain_exit(
    end: Mapping[str, Any],
    resources: Path,
    started: float,
    time_limit: Mapping[str, Any],
    lost: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the facts that explain the end of a run.

    Args:
        end: The end of the command: `code`, `signal`, `ended`, `core_dump`, `counters` with `before` and `after`, and
            `slurm`, why Slurm ended the job (`slurm.read_job_end`).
        resources: File of the resource samples.
        started: Unix time, s.
        time_limit: Of the batch job, from `read_time_limit` at the start; empty without one.
        lost: What is known of a run whose recorder died, so that nobody saw its end: `stopped`, the time of the first
            signal, and `last_seen`, that of the last sign of life.
    """
    facts: dict[str, Any] = {}
    if lost:
        limit = _limit_of_lost(lost, time_limit, started)
        facts.update({"time_limit": as_data(limit)} if limit else {})
    if not end:
        return facts
    if end.get("core_dump"):
        facts["core_dump"] = True
    ended = float(end.get("ended") or time.time())
    facts.update(_memory_facts(end, resources, max(0.0, ended - started)))
    facts.update(_scheduler_facts(end, time_limit, started, ended))
    return facts


def _memory_facts(end: Mapping[str, Any], resources: Path, age_s: float) -> dict[str, Any]:
    """Returns `oom_kill`, or what is known of the memory where a run was killed and the kernel names no reason."""
    code = end.get("code")
    killed = str(end.get("signal") or "") in _KILLS or code == 137
    counters = end.get("counters") or {}
    before, after = counters.get("before") or {}, counters.get("after") or {}
    resident = _last_resident(resources)
    oom = _describe_oom_kill(before, after, resident) if code != 0 else None
    if not oom and (killed or code not in (0, None)):
        oom = find_oom_kill(_kernel_lines(), age_s)
    if oom:
        return {"oom_kill": as_data(oom)}
    if not killed:
        return {}
    facts: dict[str, Any] = {"memory": as_data(_describe_memory(after, resident))}
    return {**facts, "memory_free": True} if after and not _is_nearly_full(after, resident) else facts


def _scheduler_facts(
    end: Mapping[str, Any], time_limit: Mapping[str, Any], started: float, ended: float
) -> dict[str, Any]:
    """Returns `batch_end`, why Slurm ended the job, or `time_limit` where a run was stopped near it."""
    slurm, code = end.get("slurm") or {}, end.get("code")
    if slurm.get("why") in _BATCH_ENDS:
        return {"batch_end": as_data(message(_BATCH_ENDS[slurm["why"]], job=slurm["job"]))}
    stopped = str(end.get("signal") or "") in _LIMIT_SIGNALS or (isinstance(code, int) and code > 128)
    limit = _describe_limit(ended, time_limit, started) if stopped else None
    return {"time_limit": as_data(limit)} if limit else {}


def read_time_limit(environ: Mapping[str, str], *, ask: bool = True) -> dict[str, Any]:
    """Returns the time limit of this batch job: `t`, Unix time in s, and `variable`; empty outside of one.

    Args:
        environ: `SLURM_JOB_END_TIME`, or `PBS_WALLTIME`, which counts from the start of the job's shell.
        ask: Whether to ask Slurm, whose versions before 23.02 do not set the variable.
    """
    from labbook.capture.slurm import read_end_time

    environ = {**(read_end_time(environ) if ask else {}), **environ}
    limit = _parse_number(environ.get("SLURM_JOB_END_TIME"))
    if limit is not None:
        return {"t": limit, "variable": "SLURM_JOB_END_TIME"}
    walltime = _parse_number(environ.get("PBS_WALLTIME"))
    return {} if walltime is None else {"t": _session_start() + walltime, "variable": "PBS_WALLTIME"}


def _limit_of_lost(lost: Mapping[str, Any], limit: Mapping[str, Any], started: float) -> Message | None:
    """Returns a message if the batch system ended a run at its time limit and killed the recorder, too.

    Either the recorder got a signal then, or the run lived beyond the limit, which only the grace time allows.
    """
    stopped = float(lost.get("stopped") or 0.0)
    last = max(stopped, float(lost.get("last_seen") or 0.0))
    is_stopped = stopped and _describe_limit(stopped, limit, started) is not None
    return _describe_limit(last, limit, started) if limit and (is_stopped or last >= limit["t"]) else None


def _describe_limit(ended: float, limit: Mapping[str, Any], started: float) -> Message | None:
    """Returns a message if a run ended at the time limit of its batch job, else `None`."""
    if not limit:
        return None
    late = ended - limit["t"]
    if not -min(_NEAR_LIMIT_S[0], _SHARE_BEFORE * (ended - started)) <= late <= _NEAR_LIMIT_S[1]:
        return None
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(limit["t"]))
    key = "capture.ending.after_limit" if late >= 0 else "capture.ending.before_limit"
    return message(key, seconds=abs(late), clock=clock, variable=limit["variable"])


def find_oom_kill(lines: Sequence[tuple[float, str]], age_s: float) -> Message | None:
    """Returns a message with the out-of-memory kill in the kernel log during a run, else `None`.

    Args:
        lines: (age in seconds, text), oldest first.
        age_s: Time since the start of the run.
    """
    for age, text in reversed(lines):
        match = _KILLED.search(text)
        if match is not None and age <= age_s + 1.0:
            return message("capture.ending.kernel_log", line=match[0].strip()[:200])
    return None


def _describe_oom_kill(before: Mapping[str, Any], after: Mapping[str, Any], resident: int) -> Message | None:
    for name, now in after.items():
        was = before.get(name)
        if not isinstance(was, Mapping) or "kills" not in was:
            continue
        kills = int(now.get("kills") or 0) - int(was["kills"])
        if kills <= 0:
            continue
        of_machine = name == "machine"
        where = message("capture.ending.machine") if of_machine else message("capture.ending.group", name=name)
        return _clauses(message("capture.ending.oom_kill", kills=kills, where=where), *_amounts(after, name, resident))
    return None


def _describe_memory(after: Mapping[str, Any], resident: int) -> Message:
    """Returns a message on the memory use of a process that was killed without a known cause."""
    if _is_nearly_full(after, resident):
        limit = _format_bytes(_least_limit(after))
        return message("capture.ending.nearly_full", used=_format_bytes(resident), limit=limit)
    counted = message("capture.ending.none_counted") if after else message("capture.ending.not_readable")
    amounts = _amounts(after, "", resident) if resident else ()
    return _clauses(
        message("capture.ending.no_sign", counted=counted), *amounts, message("capture.ending.sender_unknown")
    )


def _amounts(after: Mapping[str, Any], group: str, resident: int) -> list[Message]:
    """Returns the limit of a control group ("": the smallest limit) and the memory of the run, as far as known."""
    limit = int(after[group].get("limit") or 0) if group else _least_limit(after)
    return [
        *([message("capture.ending.limit", limit=_format_bytes(limit))] if limit else []),
        *([message("capture.ending.used", used=_format_bytes(resident))] if resident else []),
    ]


def _clauses(*parts: Message) -> Message:
    return message("health.clauses", parts=parts)


def _least_limit(after: Mapping[str, Any]) -> int:
    return min((int(group["limit"]) for group in after.values() if group.get("limit")), default=0)


def _is_nearly_full(after: Mapping[str, Any], resident: int) -> bool:
    limit = _least_limit(after)
    return bool(resident and limit and resident >= _NEAR * limit)


def _memory_groups(root: Path) -> Iterator[Path]:
    """Yields the folders of the memory control groups of this process, innermost first."""
    for line in read_text_or_nothing(root / "proc/self/cgroup").splitlines():
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
    """Yields mount point and mounted folder of a controller; "" is cgroup version 2."""
    for line in read_text_or_nothing(root / "proc/self/mountinfo").splitlines():
        first, _, last = line.partition(" - ")
        fields, kind = first.split(), last.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == ("cgroup" if controller else "cgroup2") and (not controller or controller in kind[2].split(",")):
            yield fields[4], fields[3]


def _read_group(folder: Path) -> dict[str, int]:
    sources = (
        ("kills", "memory.events", "oom_kill"),
        ("kills", "memory.oom_control", "oom_kill"),
        ("failures", "memory.failcnt", ""),
        ("limit", "memory.max", ""),
        ("limit", "memory.limit_in_bytes", ""),
        ("peak", "memory.peak", ""),
        ("peak", "memory.max_usage_in_bytes", ""),
    )
    facts: dict[str, int] = {}
    for key, file, word in sources:
        text = read_text_or_nothing(folder / file)
        value = _read_field(text, word) if word else _parse_number(text)
        if value is not None and (key != "limit" or value < _NO_LIMIT):
            facts.setdefault(key, int(value))
    return facts


def _last_resident(resources: Path) -> int:
    """Returns the memory of all processes of the run, in bytes, from the last sample with any."""
    last = 0
    for record in read_json_lines(resources):
        if record.get("k") == "sample":
            last = int(record.get("pss") or record.get("rss") or 0) or last
    return last


def _kernel_lines() -> list[tuple[float, str]]:
    """Returns the lines of the kernel log with their age in seconds; empty if it is not readable."""
    try:
        handle = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    now, lines, size = time.clock_gettime(time.CLOCK_MONOTONIC), [], 0
    try:
        while size < _MOST_KERNEL_BYTES:
            try:
                record = os.read(handle, 8192)
            except BrokenPipeError:
                continue  # this record was overwritten in the meantime
            size += len(record)
            head, _, text = record.decode("utf-8", "replace").partition(";")
            stamp = head.split(",")[2:3]
            if "Kill" in text and stamp and stamp[0].isdigit():
                lines.append((now - int(stamp[0]) / 1e6, text))
    except OSError:
        pass  # there is no further line
    finally:
        os.close(handle)
    return lines


def _session_start() -> float:
    """Returns the start time of this session's first process, the shell of the batch job; Unix time, s."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{os.getsid(0)}/stat").read_text().rpartition(")")[2].split()
        up = time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.time() - up + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time()


def _read_field(text: str, word: str) -> int | None:
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 1 and fields[0] == word and fields[1].isdigit():
            return int(fields[1])
    return None


def _parse_number(text: str | None) -> float | None:
    try:
        return float((text or "").strip())
    except ValueError:
        return None


def _format_bytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
