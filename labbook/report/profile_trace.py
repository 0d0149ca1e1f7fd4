"""Reads the trace of a framework's profiler: time by stack of operators, and allocated memory over time."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_DEPTH = 64
_MOST_STACKS = 2000
"""Most stacks of one thread; the time of the rest goes to their callers. Source: chosen by us, 200 kB of speedscope."""

_MOST_THREADS = 6
_POINTS = 600
_LEFT_OUT = frozenset(("Trace", "ProfileStep", "overhead", "gpu_user_annotation", "ac2g"))
_OF_GPU = frozenset(("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"))
_DURATION = re.compile(r"\[[\d.]+ (?:ns|us|ms|s)\]$")
"""PaddlePaddle writes the time of an event behind its name."""

_THREAD = re.compile(r"\((?:Python|C\+\+)\)$")
"""PaddlePaddle shows one thread as two: the layers of Python and the operators."""


@dataclass
class Stack:
    """A function as called by the functions above it.

    Attributes:
        kind: "forward", "backward", "optimizer" or "gpu".
        own_us: Time in it alone, in microseconds.
        below: The functions that it calls, by name.
    """

    name: str
    kind: str = "forward"
    own_us: float = 0.0
    calls: int = 0
    below: dict[str, Stack] = field(default_factory=dict)

    @property
    def total_us(self) -> float:
        """Time in it and in what it calls."""
        return self.own_us + sum(stack.total_us for stack in self.below.values())

    def stacks(self) -> Iterator[Stack]:
        """Yields it and all below it."""
        yield self
        for stack in self.below.values():
            yield from stack.stacks()


@dataclass(frozen=True)
class Memory:
    """Allocated memory of one device.

    Attributes:
        device: "CPU" or "GPU 0".
        times_us: Microseconds since the first event, ascending. Shape: `(n,)`.
        allocated: Bytes at these times. Shape: `(n,)`.
        peak_in: Innermost function at that time, or "".
    """

    device: str
    times_us: tuple[float, ...]
    allocated: tuple[int, ...]
    peak_bytes: int
    peak_in: str


@dataclass(frozen=True)
class ProfileTrace:
    """What a trace shows.

    Attributes:
        threads: The root of each thread or GPU stream, the busiest first; the time of a root itself is that outside
            of all functions that the profiler knows. A GPU stream has none.
    """

    threads: tuple[Stack, ...]
    memory: tuple[Memory, ...]


def read_trace(text: str, mask: Callable[[str], str] = str) -> ProfileTrace:
    """Returns what a trace in the Trace Event Format shows.

    Raises:
        ValueError: It is no such trace.

    Source:
        "Trace Event Format", the Chromium project; the events as PyTorch 2 and PaddlePaddle 3 write them.
    """
    data = json.loads(text)
    events = data.get("traceEvents") if isinstance(data, Mapping) else data
    if not isinstance(events, list):
        raise ValueError("no list of events")
    known: dict[str, str] = {}

    def name_of(event: Mapping[str, Any]) -> str:
        raw = _DURATION.sub("", str(event.get("name") or "?"))[:200]
        if raw not in known:
            known[raw] = mask(raw)
        return known[raw]

    threads: dict[tuple[str, str], list[tuple[float, float, str, str]]] = {}
    stopped = _end_of_recording(events)
    for event in events:
        if isinstance(event, Mapping) and event.get("ph") == "X" and event.get("cat") not in _LEFT_OUT:
            begin, duration = _number(event.get("ts")), _number(event.get("dur"))
            if begin is None or duration is None or duration < 0 or begin > stopped:
                continue
            duration = min(duration, stopped - begin)
            name = name_of(event)
            key = (str(event.get("pid")), _THREAD.sub("", str(event.get("tid"))))
            threads.setdefault(key, []).append((begin, -duration, name, _kind(name, str(event.get("cat")))))
    roots = [_tree(thread) for thread in threads.values()]
    roots.sort(key=lambda root: -(root.total_us - root.own_us))
    return ProfileTrace(tuple(roots[:_MOST_THREADS]), tuple(_memory(events, threads.values())))


def _end_of_recording(events: Sequence[Any]) -> float:
    """Returns when the profiler stopped: ranges that were open then end later, with the work of the stop itself."""
    for event in events:
        if isinstance(event, Mapping) and event.get("ph") == "X" and event.get("cat") == "Trace":
            begin, duration = _number(event.get("ts")), _number(event.get("dur"))
            if begin is not None and duration:
                return begin + duration
    return math.inf


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _kind(name: str, category: str) -> str:
    if category in _OF_GPU:
        return "gpu"
    lowered = name.lower()
    if lowered.startswith("optimizer.") or category == "Optimization":
        return "optimizer"
    return "backward" if "backward" in lowered or "autograd" in lowered or " grad" in lowered else "forward"


def _tree(events: list[tuple[float, float, str, str]]) -> Stack:
    """Returns the root of one thread: events of equal names below equal callers are joined."""
    events.sort()
    is_gpu = all(kind == "gpu" for *_, kind in events)
    root = Stack("", "gpu" if is_gpu else "forward")
    open_: list[tuple[Stack, float]] = []
    count, busy = 0, 0.0
    for begin, negative, name, kind in events:
        end = begin - negative
        while open_ and open_[-1][1] <= begin:
            open_.pop()
        caller, limit = open_[-1] if open_ else (root, math.inf)
        end = min(end, limit)
        duration = max(0.0, end - begin)
        if caller is root:
            busy += duration
        else:
            caller.own_us -= duration
        stack = caller.below.get(name)
        if stack is None:
            if count >= _MOST_STACKS or len(open_) >= _DEPTH:
                caller.own_us += duration if caller is not root else 0.0
                continue
            # What the backward pass or the optimizer calls belongs to it.
            inherited = caller.kind if caller.kind in ("backward", "optimizer") and kind == "forward" else kind
            stack = caller.below[name] = Stack(name, inherited)
            count += 1
        stack.own_us += duration
        stack.calls += 1
        open_.append((stack, end))
    if not is_gpu and events:
        last = max(begin - negative for begin, negative, *_ in events)
        root.own_us = max(0.0, last - events[0][0] - busy)
    for stack in root.stacks():
        stack.own_us = max(0.0, stack.own_us)
    return root


def _memory(events: Iterable[Any], threads: Iterable[list[tuple[float, float, str, str]]]) -> Iterator[Memory]:
    points: dict[str, list[tuple[float, int]]] = {}
    for event in events:
        if not isinstance(event, Mapping) or event.get("ph") != "i" or event.get("name") != "[memory]":
            continue
        facts = event.get("args")
        time = _number(event.get("ts"))
        state = _allocated(facts) if isinstance(facts, Mapping) else None
        if time is not None and state is not None:
            points.setdefault(state[0], []).append((time, state[1]))
    if not points:
        return
    start = min(one[0] for series in points.values() for one in series)
    calls = [call for thread in threads for call in thread]
    for device, found in sorted(points.items()):
        found.sort()
        peak_at, peak = max(found, key=lambda point: point[1])
        around = [call for call in calls if call[0] <= peak_at <= call[0] - call[1] and call[3] != "gpu"]
        innermost = max(around)[2] if around else ""
        few = _thin_out(found)
        yield Memory(device, tuple(time - start for time, _ in few), tuple(value for _, value in few), peak, innermost)


def _allocated(facts: Mapping[str, Any]) -> tuple[str, int] | None:
    """Returns the device and its allocated bytes after an allocation, as PyTorch or PaddlePaddle writes them."""
    if "Total Allocated" in facts:
        value = _number(facts["Total Allocated"])
        device = "CPU" if facts.get("Device Type") == 0 else f"GPU {facts.get('Device Id', 0)}"
    else:
        value = _number(facts.get("current_allocated"))
        found = re.fullmatch(r"Place\((?:gpu|.*?):?(\d*)\)", str(facts.get("place")))
        device = f"GPU {found.group(1)}" if found and found.group(1) else "CPU"
    return (device, int(value)) if value is not None else None


def _thin_out(points: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Returns at most about `_POINTS` points: the largest and the last of each part."""
    if len(points) <= _POINTS:
        return points
    size = math.ceil(2 * len(points) / _POINTS)
    few: list[tuple[float, int]] = []
    for at in range(0, len(points), size):
        part = points[at : at + size]
        few += sorted({max(part, key=lambda point: point[1]), part[-1]})
    return few


def speedscope(trace: ProfileTrace, labels: list[str], title: str) -> str:
    """Returns a profile for https://www.speedscope.app: the time of each stack, a profile for each thread.

    Source:
        https://www.speedscope.app/file-format-schema.json
    """
    frames: dict[str, int] = {}
    profiles = []
    for root, label in zip(trace.threads, labels, strict=True):
        samples: list[list[int]] = []
        weights: list[float] = []
        for path, own in _paths(root, ()):
            samples.append([frames.setdefault(name, len(frames)) for name in path])
            weights.append(round(own, 3))
        total = round(sum(weights), 3)
        profiles.append(
            {
                "type": "sampled", "name": label, "unit": "microseconds", "startValue": 0, "endValue": total,
                "samples": samples, "weights": weights,
            }
        )  # fmt: skip
    whole = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "labbook",
        "name": title,
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))


def _paths(stack: Stack, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], float]]:
    path = (*above, stack.name) if stack.name else above
    if stack.own_us > 0 and path:
        yield path, stack.own_us
    for one in stack.below.values():
        yield from _paths(one, path)
