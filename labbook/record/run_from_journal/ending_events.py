"""How a run ended, put together: what the system says, how long nothing moved, and where its threads stood."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from labbook.model.run import CaughtException, Frame, Run
from labbook.probe.events import protocol
from labbook.record.run_from_journal.blocked_on import classify_wait
from labbook.store.journal import ProcessEvents

STALLED_S = 60.0
"""Silence that is called a standstill, in programs with short steps. Source: chosen by us."""

_STEPS_OF_SILENCE = 10.0
_MOST_THREADS = 12
_MOST_FRAMES = 12
_MOST_CHILDREN = 4
_MOST_TEXT = 200_000
_MOST_SOURCE = 1000
_READER_LOOPS = ("_thread_loop", "_pin_memory_loop", "__reader_thread_loop_for_legacy__")
_JUST_BEFORE_S = 5.0
_PROBE = str(Path(protocol.__file__).parent) + "/"
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3\.\d+/")
_THREAD = re.compile(r"^(Current thread|Thread) (0x[0-9a-f]+)(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):")
_FRAME = re.compile(r'^  File "(?P<file>[^"\n]*)", line (?P<line>\d+) in (?P<function>.*)$')


def with_standstill(run: Run, processes: Sequence[ProcessEvents], events: Path) -> dict[str, Any]:
    """The facts of a standstill, of a run that did not end by itself; empty for any other.

    Args:
        run: As assembled so far.
        processes: Events of its processes.
        events: Folder of the event files.

    Returns:
        Any of `children` (a sentence for each child that a signal ended), `child_signal` (of the first), `silent_s`,
        `stalled` (true), `stacks` (list of `name`, `main`, `frames`), `waiting`, `where` (`file`, `line`, `function`,
        `source` of the user's line that waits or failed), `reader_died` (the exception, as a sentence).
    """
    if run.status not in ("interrupted", "killed", "failed"):
        return {}
    deaths = [event for process in processes for event in process.of_kind(protocol.CHILD_DIED)]
    facts: dict[str, Any] = {"children": [_child(event) for event in deaths[:_MOST_CHILDREN]]}
    facts["child_signal"] = str(deaths[0].get("signal") or "") if deaths else ""
    told = _last_stacks(processes, events, run)
    if told is not None:
        silent, threads = told
        facts["stacks"] = [_shortened(thread) for thread in threads[:_MOST_THREADS]]
        frames: list[dict[str, Any]] = next((thread["frames"] for thread in threads if thread.get("main")), [])
        facts["waiting"] = classify_wait(frames)
        facts["where"] = _place(frames)
        if silent is not None:
            facts["silent_s"] = round(silent, 1)
            facts["stalled"] = silent >= max(STALLED_S, _STEPS_OF_SILENCE * _step_s(run))
    dead = dead_reader(run, facts.get("silent_s"))
    if dead is not None:
        facts["reader_died"] = _sentence(dead)
        facts["waiting"] = "reader"
    return {key: value for key, value in facts.items() if value}


def dead_reader(run: Run, silent_s: float | None) -> CaughtException | None:
    """The exception of a thread whose end left the run waiting; `None` where there is none.

    Args:
        run: One that was ended from outside.
        silent_s: How long it stood still, if it did.
    """
    if run.status == "failed":
        return None
    for error in run.exceptions:
        if error.where != "thread":
            continue
        if any(frame.function.rpartition(".")[2] in _READER_LOOPS for frame in error.frames):
            return error
        if silent_s is not None and run.ended is not None and error.t >= run.ended - silent_s - _JUST_BEFORE_S:
            return error
    return None


def threads_of_text(text: str) -> list[dict[str, Any]]:
    """The stacks that the interpreter itself wrote, innermost frame last, the thread first that got the signal.

    Args:
        text: Of `faulthandler`.
    """
    threads: list[dict[str, Any]] = []
    for line in text[:_MOST_TEXT].splitlines():
        begun, frame = _THREAD.match(line), _FRAME.match(line)
        if begun is not None:
            current = line.startswith("Current")
            threads.append({"name": begun["name"] or "", "main": current, "frames": []})
        elif frame is not None and threads and not frame["file"].startswith(_PROBE):
            threads[-1]["frames"].insert(0, _frame(frame["file"], int(frame["line"]), frame["function"]))
    threads = [thread for thread in threads if thread["frames"]]
    if threads and not any(thread["main"] for thread in threads):
        # The interpreter lists the newest thread first: the main thread is the last one.
        threads[-1].update(main=True, name="main")
    threads.reverse()
    return sorted(threads, key=lambda thread: not thread["main"])


def _child(death: Mapping[str, Any]) -> str:
    what = ", ".join(str(death[key]) for key in ("name", "target") if death.get(key))
    return f"the child process {death.get('pid')} ({what or 'unnamed'}) was ended by {death.get('signal')}"


def _frame(file: str, line: int, function: str) -> dict[str, Any]:
    # Code of the probe in the place of a library's stands under the name of the import machinery.
    library = _LIBRARY.search(file) or file.startswith("<frozen")
    return {"file": file, "line": line, "function": function, "source": "", "user": not library}


def _last_stacks(
    processes: Sequence[ProcessEvents], events: Path, run: Run
) -> tuple[float | None, list[dict[str, Any]]] | None:
    """How long the process that stood still longest did so, and its threads; `None` where nothing was written."""
    found: list[tuple[float | None, list[dict[str, Any]]]] = []
    for process in processes:
        told = process.of_kind(protocol.STACKS)
        last: Mapping[str, Any] = told[-1] if told else {}
        silent = last.get("silent_s")
        if last.get("reason") == "silence" and isinstance(silent, (int, float)) and run.ended is not None:
            silent = float(silent) + max(0.0, run.ended - float(last.get("t") or run.ended))
        text = _written(events / process.name.replace(".jsonl", protocol.STACKS_ENDING))
        threads = threads_of_text(text) if text else list(last.get("threads") or ())
        if threads:
            known = isinstance(silent, (int, float)) and last.get("reason") != "moved"
            found.append((float(silent) if known and silent is not None else None, threads))
    return max(found, key=lambda one: -1.0 if one[0] is None else one[0], default=None)


def _written(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(_MOST_TEXT)
    except OSError:
        return ""


def _shortened(thread: Mapping[str, Any]) -> dict[str, Any]:
    frames = list(thread.get("frames") or ())
    return {**thread, "frames": frames if thread.get("main") else frames[-_MOST_FRAMES:]}


def _place(frames: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The innermost line of the user's code."""
    own = next((frame for frame in reversed(frames) if frame.get("user")), None)
    if own is None:
        return {}
    source = own.get("source") or _line_of(str(own.get("file") or ""), int(own.get("line") or 0))
    return {"file": own.get("file"), "line": own.get("line"), "function": own.get("function"), "source": source}


def _line_of(file: str, line: int) -> str:
    """A line of source, as it is now; "" where it cannot be read."""
    with suppress(OSError), Path(file).expanduser().open(encoding="utf-8", errors="replace") as stream:
        return next(islice(stream, max(0, line - 1), None), "").strip()[:_MOST_SOURCE] if line else ""
    return ""


def _step_s(run: Run) -> float:
    times = [s for series in run.series if series.name == "step_time_s" for s in series.values if s == s]
    return median(times) if times else 0.0


def _sentence(error: CaughtException) -> str:
    frame: Frame | None = next((frame for frame in reversed(error.frames) if frame.user), None)
    at = f" at {frame.file}:{frame.line}" if frame is not None else ""
    first = next(iter(error.message.splitlines()), "")[:200]
    thread = (
        f"the thread {error.thread} that prepared the data" if error.thread else "the thread that prepared the data"
    )
    return f"{thread} died of {error.type}: {first}{at}"
