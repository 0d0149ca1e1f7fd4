"""The evidence of a diagnosis: exceptions, lines of output, the ending, health checks, facts of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from labbook.frozen import dataclass
from labbook.model.run import CheckResult, Frame


@dataclass(frozen=True)
class ObservedException:
    """An exception, captured by the probe or read from text.

    Args:
        type: Name of the class without its module; "" if the text contains only the message.
        message: Text after the class name, without quoted tracebacks (they are in `inner`).
        module: Module of the class, or "".
        frames: Outermost first; `user` is true for files outside installed libraries.
        inner: The exception that this one re-raises, from a dataloader worker or a spawned process.
        context: Chained exceptions, nearest first, each with "cause" or "context".
        rank: Rank of the process, or `None`.
        thread: Name of the thread that ended with it, or "".
        order: Position in time: smaller came first.
        step: Last optimizer step before it, or `None`.
        ended_process: Whether the process ended because of it, if known.
        line: Line number in the text, from 1, or 0.
        tensors: Tensors of the failing line, each with `name`, `shape`, `dtype`, `device`, `range`.
        names: The name that does not exist (`missing`), similar ones that do (`near`), all if few (`known`), and `own`
            where the function, class or module that lacks it is in the project.
    """

    type: str
    message: str
    module: str = ""
    frames: tuple[Frame, ...] = ()
    inner: ObservedException | None = None
    context: tuple[tuple[ObservedException, str], ...] = ()
    rank: int | None = None
    thread: str = ""
    order: float = 0.0
    step: int | None = None
    ended_process: bool = True
    line: int = 0
    tensors: tuple[Mapping[str, Any], ...] = ()
    names: Mapping[str, Any] = field(default_factory=dict)

    @property
    def failing_line(self) -> str:
        """The source of the line that raised it, or "" where it is not known."""
        return self.frames[-1].source if self.frames else ""


@dataclass(frozen=True)
class OutputLine:
    """A notable line of output outside exceptions.

    Args:
        text: One line or a coherent block, without prefixes and escape sequences.
        kind: "output" or "warning".
        line: Line number, from 1.
        rank: Rank in the line's prefix, or `None`.
        order: Position in time, comparable with that of exceptions of the same evidence.
    """

    text: str
    kind: str = "output"
    line: int = 0
    rank: int | None = None
    count: int = 1
    order: float = 0.0


@dataclass(frozen=True)
class ProcessEnd:
    """How a process ended.

    Args:
        exit_code: Exit status, `None` if unknown.
        signal: "SIGKILL", ... or "".
        facts: `oom_kill` (what killed the process), `memory` (memory use, if that is unknown), `memory_free` (whether
            memory was not nearly full, if no kill for memory was counted), `time_limit`, `core_dump`, `silent_s`
            (seconds without progress), `stalled` (whether that is long), `stacks` (of all threads), `waiting`
            ("reader", "collective", "lock", "input", "worker"), `where` (the user's line that blocks or failed),
            `reader_died` (exception of the thread that prepared the data), `children` (child processes ended by
            signals), `child_signal` (signal of the first one if no exception mentions it). Texts are messages as plain
            data, or lines of a log.
    """

    exit_code: int | None = None
    signal: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """The evidence of one failure.

    Args:
        exceptions: Ordered by first line or time.
        lines: Ordered by line number or time.
        ending: How the process ended, if known.
        checks: Rows of the health checklist.
        conditions: Names of conditions that are true in this run ("first_step", "memory_rising"), and with "not " in
            front of those that are known to be false; see `labbook.diagnosis.catalogue.run_conditions`.
        facts: Values for placeholders in fixes ("batch_size", "lr").
        framework: "torch", "paddle" or "".
        clean_end: Whether the program is known to have succeeded; output alone is then no failure.
        code: Text of all files of the program, or "" where it is not known to be all.
    """

    exceptions: tuple[ObservedException, ...] = ()
    lines: tuple[OutputLine, ...] = ()
    ending: ProcessEnd = field(default_factory=ProcessEnd)
    checks: tuple[CheckResult, ...] = ()
    conditions: frozenset[str] = frozenset()
    facts: Mapping[str, Any] = field(default_factory=dict)
    framework: str = ""
    clean_end: bool = False
    code: str = ""
