"""Samples CPU, memory and GPU use of a run's process tree while it runs.

The file has one JSON object per line: `{"k": "sample", "t", "n" (processes), "cpu_s" (since the start, all processes),
"rss" (bytes, summed), "pss" (bytes, shared memory counted once; only at peaks where it is cheap), "gpus"}`,
`{"k": "python", ...}` for each Python process, and finally `{"k": "end", ...}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.capture.gpus import GpuReader, open_gpus
from labbook.capture.processes import ProcessTree, PythonProcess, read_bytes
from labbook.errors import Unavailable
from labbook.store.json_files import read_json_lines

if TYPE_CHECKING:
    from labbook.probe.redaction.redactor import Redactor

_EARLY_SAMPLES_S = (0.1, 0.5, 1.0, 2.0)
"""Times of the first samples, so that short runs have some."""

_SAMPLES_PER_DOUBLING = 500
"""After this many samples the interval doubles: a month at five seconds gives about 5,000 lines, under 1 MiB."""

_POLLS = ((10.0, 0.05), (60.0, 0.1), (3600.0, 0.25), (float("inf"), 1.0))
"""Age of the run (s) -> interval (s) of polling for new processes."""

_MAX_SHARE = 0.003
"""Share of one core that sampling may use; with a slow /proc the polls become rarer. Source: chosen by us."""

_ALLOWANCE_S = 0.05
"""CPU time that polls may use beyond that share: the first ones are expensive, and short runs need them most."""

_LONGEST_PAUSE_S = 5.0

_PSS_LIMIT_BYTES = 1 << 30
"""Above it a process's page tables are not walked, as that locks its memory map, which training needs. Source:
measured, 0.9 ms for 300 MB of small pages."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


class ResourceSampler:
    """A thread that samples a process tree into a file until it is stopped; never raises.

    Args:
        path: The file to append to.
        interval_s: Time between two samples after the first seconds; it grows in very long runs.
        redactor: Masks secrets in command lines; without one only program names and options without values are stored.
    """

    def __init__(self, pid: int, path: Path, interval_s: float, redactor: Redactor | None = None) -> None:
        self._tree = ProcessTree(pid)
        self._path = path
        self._interval_s = max(0.2, interval_s)
        self._redactor = redactor
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="labbook-resources", daemon=True)
        self._handle = -1
        self._begin = time.monotonic()
        self._children = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._samples = 0
        self._cpu_s = 0.0
        self._peak_rss = 0
        self._gpus: GpuReader | None = None
        self._cost_s = 0.0

    def start(self) -> None:
        """Starts sampling."""
        with contextlib.suppress(OSError):
            self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._begin = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """Writes the kernel's totals and stops; call it after the command was reaped."""
        elapsed = time.monotonic() - self._begin
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=2.0)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        before = self._children
        end: dict[str, Any] = {
            "k": "end",
            "t": round(time.time(), 3),
            "elapsed_s": round(elapsed, 3),
            "waited_cpu_s": round(now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime, 3),
            "cost_s": round(self._cost_s, 4),
        }
        with contextlib.suppress(OSError):
            end["load_per_core"] = round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)
        if now.ru_maxrss > before.ru_maxrss:
            end["largest_rss"] = now.ru_maxrss * 1024
        self._write(end)
        if self._handle >= 0 and not self._thread.is_alive():
            os.close(self._handle)
            self._handle = -1

    def _run(self) -> None:
        with contextlib.suppress(Unavailable, OSError, RuntimeError, MemoryError, UnicodeError):
            self._gpus = open_gpus()
        pause = 0.0
        while not self._stopped.wait(pause):
            pause = self._poll()
        self._poll()
        if self._gpus is not None:
            self._gpus.close()

    def _poll(self) -> float:
        """Polls once, samples if one is due, and returns the time to wait; an error affects only this poll."""
        begin = time.thread_time()
        age = time.monotonic() - self._begin
        try:
            due = age >= self._next_sample_s()
            for python in self._tree.update(whole=due):
                self._write(self._python_record(python))
            if due:
                self._sample(age)
        except Exception:
            self._samples += 1
        self._cost_s += time.thread_time() - begin
        overspent = self._cost_s - _ALLOWANCE_S - _MAX_SHARE * age
        pause = next(pause for until, pause in _POLLS if age < until)
        return max(pause, min(overspent / _MAX_SHARE, _LONGEST_PAUSE_S))

    def _next_sample_s(self) -> float:
        """Returns the age of the run at which the next sample is due."""
        if self._samples < len(_EARLY_SAMPLES_S):
            return _EARLY_SAMPLES_S[self._samples]
        rounds, rest = divmod(self._samples - len(_EARLY_SAMPLES_S) + 1, _SAMPLES_PER_DOUBLING)
        widened: int = 1 << rounds
        return _EARLY_SAMPLES_S[-1] + self._interval_s * (_SAMPLES_PER_DOUBLING * (widened - 1) + rest * widened)

    def _sample(self, age: float) -> None:
        members = self._tree.members
        if not members:
            self._samples += 1
            return
        # The CPU time of a process that was not reaped disappears from the sum: the largest sum counts.
        self._cpu_s = max(self._cpu_s, sum(stat.cpu_s for stat in members.values()))
        sizes = {pid: _resident_bytes(pid) for pid in members}
        rss = sum(sizes.values())
        row: dict[str, Any] = {
            "k": "sample", "t": round(time.time(), 3), "age_s": round(age, 2), "n": len(members),
            "cpu_s": round(self._cpu_s, 2), "rss": rss,
        }  # fmt: skip
        if len(members) > 1 and rss > self._peak_rss and max(sizes.values()) < _PSS_LIMIT_BYTES:
            row["pss"] = sum(_proportional_bytes(pid) or size for pid, size in sizes.items())
        self._peak_rss = max(self._peak_rss, rss)
        if self._gpus is not None:
            row["gpus"] = self._gpus.sample(members)
        self._samples += 1
        self._write(row)

    def _python_record(self, python: PythonProcess) -> dict[str, Any]:
        return {
            "k": "python", "pid": python.pid, "ppid": python.ppid, "ticks": python.ticks, "ids": list(python.ids),
            "argv": self._redact_argv(python.argv), "executable": python.executable, "marked": python.marked,
            "fork": python.fork, "lost_path": python.lost_path,
        }  # fmt: skip

    def _redact_argv(self, argv: Sequence[str]) -> list[str]:
        if self._redactor is not None:
            from labbook.probe.redaction.structures import redact_argv

            with contextlib.suppress(Exception):
                return [str(word)[:300] for word in redact_argv(list(argv), self._redactor)][:40]
        # Fails closed: nothing that could be a value is stored.
        words = [word.partition("=")[0] for word in argv[1:] if word.startswith("-") or word.endswith(".py")]
        return [argv[0].rpartition("/")[2], *(word.rpartition("/")[2][:80] for word in words)][:40]

    def _write(self, row: Mapping[str, Any]) -> None:
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                os.write(self._handle, json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n")


def _resident_bytes(pid: int) -> int:
    fields = read_bytes(f"/proc/{pid}/statm", 256).split()
    return int(fields[1]) * _PAGE if len(fields) > 1 else 0


def _proportional_bytes(pid: int) -> int:
    for line in read_bytes(f"/proc/{pid}/smaps_rollup", 4096).splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def read_resources(path: Path) -> dict[str, Any]:
    """Returns a summary of the sampler's file.

    Returns:
        `samples`, `elapsed_s`, `cpu_s`, `cpu_mean_cores`, `peak_rss_bytes`, `peak_counts_shared_twice` (bool),
        `load_per_core` (processes of the whole machine that want a core in the last minute, divided by the cores),
        `largest_process_rss_bytes`, `processes_peak`, `gpus` (list of `index`, `peak_memory_bytes`,
        `own_peak_memory_bytes`, `mean_utilisation_percent`), `sampling_fraction` (CPU time of the sampler over the
        run's time); each only if it was measured. `{"unavailable": reason}` for an empty file.
    """
    records = list(read_json_lines(path))
    samples = [r for r in records if r.get("k") == "sample"]
    end: Mapping[str, Any] = next((r for r in reversed(records) if r.get("k") == "end"), {})
    if not samples and not end:
        return {"unavailable": "no sample was taken"}
    facts: dict[str, Any] = {"samples": len(samples)}
    elapsed = float(end.get("elapsed_s") or (samples[-1]["age_s"] if samples else 0.0))
    facts["elapsed_s"] = elapsed
    cpu = max([float(r.get("cpu_s") or 0.0) for r in samples] + [float(end.get("waited_cpu_s") or 0.0)])
    facts["cpu_s"] = round(cpu, 2)
    if elapsed > 0:
        facts["cpu_mean_cores"] = round(cpu / elapsed, 2)
    if end.get("load_per_core") is not None:
        facts["load_per_core"] = end["load_per_core"]
    if end.get("cost_s") is not None and elapsed > 0:
        facts["sampling_fraction"] = round(float(end["cost_s"]) / elapsed, 5)
    return {**facts, **_memory_usage(samples, end), **_gpu_usage(samples)}


def _memory_usage(samples: Sequence[Mapping[str, Any]], end: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    largest = int(end.get("largest_rss") or 0)
    if largest:
        facts["largest_process_rss_bytes"] = largest
    if samples:
        peak = _peak_sample(samples)
        facts["peak_rss_bytes"] = max(int(peak.get("pss") or peak.get("rss") or 0), largest)
        facts["peak_counts_shared_twice"] = int(peak.get("n") or 1) > 1 and "pss" not in peak
        facts["processes_peak"] = max(int(r.get("n") or 0) for r in samples)
    elif largest:
        facts["peak_rss_bytes"] = largest
        facts["peak_counts_shared_twice"] = False
    return facts


def _peak_sample(samples: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns the sample with the most memory; sums that count shared memory once are preferred."""
    measured = max((int(r["rss"]) for r in samples if "pss" in r), default=0)
    fair = [r for r in samples if "pss" in r or int(r.get("n") or 1) == 1 or int(r.get("rss") or 0) > measured]
    return max(fair or samples, key=lambda r: int(r.get("pss") or r.get("rss") or 0))


def _gpu_usage(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = [r["gpus"] for r in samples if isinstance(r.get("gpus"), list)]
    count = max((len(r) for r in rows), default=0)
    if not count:
        return {}
    gpus = []
    for index in range(count):
        seen = [r[index] for r in rows if index < len(r)]
        device: dict[str, Any] = {"index": index}
        for name, key in (("peak_memory_bytes", "used"), ("own_peak_memory_bytes", "own")):
            values = [int(r[key]) for r in seen if key in r]
            if values:
                device[name] = max(values)
        busy = [int(r["util"]) for r in seen if "util" in r]
        if busy:
            device["mean_utilisation_percent"] = round(sum(busy) / len(busy), 1)
        gpus.append(device)
    return {"gpus": gpus}
