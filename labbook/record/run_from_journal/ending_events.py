"""Facts of a run that was stopped from outside: dead child processes, silence, thread stacks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from labbook.model.events.process_kinds import Bye, ChildDied, StackFrame, Stacks, ThreadStack, UncaughtException
from labbook.model.message import as_data, message
from labbook.model.run import CaughtException, Frame, Run
from labbook.probe.events import protocol
from labbook.record.run_from_journal.blocked_on import classify_wait
from labbook.record.run_from_journal.ranks import rank_of_process
from labbook.store.journal import ProcessEvents, events_of_kind

STALLED_S = 60.0
"""Silence that counts as a standstill, in programs with short steps. Source: chosen by us."""

_STEPS_OF_SILENCE = 10.0
_MOST_THREADS = 12
_MOST_FRAMES = 12
_MOST_CHILDREN = 4
_MOST_TEXT = 200_000
_MOST_SOURCE = 1000
_READER_LOOPS = ("_thread_loop", "_pin_memory_loop", "__reader_thread_loop_for_legacy__")
_JUST_BEFORE_S = 5.0
_PROBE = str(Path(protocol.__file__).parents[1]) + "/"
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3\.\d+/")
_THREAD = re.compile(r"^(Current thread|Thread) (0x[0-9a-f]+)(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):")
_FRAME = re.compile(r'^  File "(?P<file>[^"\n]*)", line (?P<line>\d+) in (?P<function>.*)$')


def standstill_facts(
    run: Run, processes: Sequence[ProcessEvents], ranks: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Returns the facts of a standstill; empty for a run that ended by itself.

    Args:
        run: The run without captured facts.
        ranks: Its roll-call, which knows the hang in which it was stopped.

    Returns:
        Any of `children` (a message for each child that a signal ended), `child_signal` (of the first), `silent_s`,
        `stalled` (true), `stacks` (list of `name`, `main`, `frames`), `waiting`, `where` (`file`, `line`, `function`,
        `source` of the user's line that waits or failed), `reader_died` (the exception, as a message).
    """
    if run.status not in ("interrupted", "killed", "failed"):
        return {}
    deaths = events_of_kind(processes, ChildDied)
    facts: dict[str, Any] = {"children": [_describe_death(event) for event in deaths[:_MOST_CHILDREN]]}
    facts["child_signal"] = deaths[0].get("signal", "") if deaths else ""
    stacks = _last_stacks(processes, run)
    if stacks is not None:
        silent, threads = stacks
        facts["stacks"] = [_shorten_frames(thread) for thread in threads[:_MOST_THREADS]]
        frames = program_frames(threads)
        facts["waiting"] = classify_wait(frames, in_group=_is_ranked(processes))
        facts["where"] = find_user_line(frames)
        if silent is not None:
            facts["silent_s"] = round(silent, 1)
            facts["stalled"] = silent >= max(STALLED_S, _STEPS_OF_SILENCE * _step_s(run))
    if ranks.get("hung_s"):
        facts.update(stalled=True, silent_s=ranks["hung_s"])
        facts.update({name: ranks["odd"][name] for name in ("where", "waiting") if name in ranks["odd"]})
    dead = _find_dead_reader(run, facts.get("silent_s"))
    if dead is not None:
        facts["reader_died"] = _describe_exception(dead)
        facts["waiting"] = "reader"
    return {key: value for key, value in facts.items() if value}


def _find_dead_reader(run: Run, silent_s: float | None) -> CaughtException | None:
    """Returns the exception of a thread whose death left the run waiting, or `None`.

    Args:
        run: A run that was stopped from outside.
        silent_s: Duration of its standstill, if there was one.
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


def parse_thread_stacks(text: str) -> list[ThreadStack]:
    """Returns the thread stacks in a dump of `faulthandler`, innermost frame last.

    Args:
        text: The dump; the thread that received the signal comes first in the result.
    """
    threads: list[ThreadStack] = []
    for line in text[:_MOST_TEXT].splitlines():
        begun, frame = _THREAD.match(line), _FRAME.match(line)
        if begun is not None:
            current = line.startswith("Current")
            threads.append(ThreadStack(name=begun["name"] or "", main=current, frames=[]))
        elif frame is not None and threads and not frame["file"].startswith(_PROBE):
            threads[-1]["frames"].insert(0, _frame(frame["file"], int(frame["line"]), frame["function"]))
    threads = [thread for thread in threads if thread["frames"]]
    if threads and not any(thread["main"] for thread in threads):
        # The interpreter lists the newest thread first: the main thread is the last one.
        threads[-1].update({"main": True, "name": "main"})
    threads.reverse()
    return sorted(threads, key=lambda thread: not thread["main"])


def _describe_death(death: ChildDied) -> dict[str, Any]:
    names = [name for name in (death.get("name"), death.get("target")) if name]
    pid = death.get("pid")
    named = message("record.ending.named", pid=pid, names=names)
    which = named if names else message("record.ending.unnamed", pid=pid)
    return as_data(message("record.ending.child", which=which, signal=death.get("signal")))


def _frame(file: str, line: int, function: str) -> StackFrame:
    # Wrappers of the probe around library code have file names like those of frozen modules.
    library = _LIBRARY.search(file) or file.startswith("<frozen")
    return {"file": file, "line": line, "function": function, "source": "", "user": not library}


def _last_stacks(processes: Sequence[ProcessEvents], run: Run) -> tuple[float | None, list[ThreadStack]] | None:
    """Returns silence and threads of the process that was silent longest; `None` without any stacks.

    Where some ranks wait in a collective, one that does not is the reason.
    """
    candidates: list[tuple[float | None, list[ThreadStack]]] = []
    for process in processes:
        last = next(reversed(process.events_of_kind(Stacks)), Stacks())
        silent = last.get("silent_s") if last.get("reason") != "moved" else None
        if last.get("reason") == "silence" and silent is not None and run.ended is not None:
            silent += max(0.0, run.ended - last.get("t", run.ended))
        text = read_stacks_text(process)
        threads = parse_thread_stacks(text) if text else last.get("threads", [])
        if threads:
            candidates.append((silent, threads))
    waits = [program_frames(threads) for _, threads in candidates]
    ranked = _is_ranked(processes)
    kinds = [classify_wait(frames, in_group=ranked) for frames in waits]
    apart = [one for one, kind in zip(candidates, kinds, strict=True) if kind != "collective"]
    if ranked and run.status == "killed" and any(_is_silent(process) for process in processes):
        return None  # the place of the others is not that of the killed one
    chosen = apart if ranked and apart else candidates
    return max(chosen, key=lambda one: -1.0 if one[0] is None else one[0], default=None)


def _is_ranked(processes: Sequence[ProcessEvents]) -> bool:
    return len({rank for rank in map(rank_of_process, processes) if rank is not None}) > 1


def _is_silent(process: ProcessEvents) -> bool:
    """Whether a rank ended without a word: no last event, no exception, no stacks."""
    if rank_of_process(process) is None or any(map(process.events_of_kind, (Bye, UncaughtException, Stacks))):
        return False
    return not read_stacks_text(process).strip()


def program_frames(threads: Sequence[ThreadStack]) -> list[StackFrame]:
    """Returns the frames of the thread that runs the program, innermost last.

    It is the main thread, unless that one only serves a library, as in workers of Ray Train.
    """
    main = next((thread.get("frames", []) for thread in threads if thread.get("main")), [])
    if _has_own_line(main) or classify_wait(main, in_group=True) == "collective":
        return main
    return next((found for thread in threads if _has_own_line(found := thread.get("frames", []))), main)


def _has_own_line(frames: Sequence[StackFrame]) -> bool:
    return any(frame.get("user") for frame in frames)


def stacks_path(process: ProcessEvents) -> Path:
    """Returns the path of the stacks that the interpreter writes itself, at a signal."""
    return process.folder / process.name.replace(".jsonl", protocol.STACKS_ENDING)


def read_stacks_text(process: ProcessEvents) -> str:
    """Returns the stacks that the interpreter wrote at a signal; "" without any."""
    try:
        with stacks_path(process).open(encoding="utf-8", errors="replace") as stream:
            return stream.read(_MOST_TEXT)
    except OSError:
        return ""


def _shorten_frames(thread: ThreadStack) -> dict[str, Any]:
    frames = thread.get("frames", [])
    return {**thread, "frames": frames if thread.get("main") else frames[-_MOST_FRAMES:]}


def find_user_line(frames: Sequence[StackFrame]) -> dict[str, Any]:
    """Returns the innermost frame of the user's code, with its source line.

    The probe writes the home folder as `~`, the interpreter does not: both get the same path.
    """
    own = next((frame for frame in reversed(frames) if frame.get("user")), None)
    if own is None:
        return {}
    file = own.get("file", "")
    source = own.get("source") or _read_source_line(file, own.get("line", 0))
    home = str(Path("~").expanduser()).rstrip("/")
    if len(home) > 1 and file.startswith(f"{home}/"):
        file = f"~{file[len(home) :]}"
    return {"file": file, "line": own.get("line"), "function": own.get("function"), "source": source}


def _read_source_line(file: str, line: int) -> str:
    """Returns a line of the file's current content; "" if it cannot be read."""
    with suppress(OSError), Path(file).expanduser().open(encoding="utf-8", errors="replace") as stream:
        return next(islice(stream, max(0, line - 1), None), "").strip()[:_MOST_SOURCE] if line else ""
    return ""


def _step_s(run: Run) -> float:
    times = [s for series in run.series if series.name == "step_time_s" for s in series.values if s == s]
    return median(times) if times else 0.0


def _describe_exception(error: CaughtException) -> dict[str, Any]:
    frame: Frame | None = next((frame for frame in reversed(error.frames) if frame.user), None)
    named = message("record.ending.thread", name=error.thread)
    values = {
        "thread": named if error.thread else message("record.ending.reader"),
        "error": f"{error.type}: {next(iter(error.message.splitlines()), '')[:200]}",
    }
    if frame is None:
        return as_data(message("record.ending.died", **values))
    return as_data(message("record.ending.died_at", file=frame.file, line=frame.line, **values))
