"""The evidence of a diagnosis: exceptions, lines of output, the ending, health checks, facts of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from labbook.frozen import dataclass
from labbook.model.run import CheckResult, Frame


@dataclass(frozen=True)
class ObservedException:
    """One exception, captured by the probe or read from text.

    Args:
        type: Name of the class without its module; "" when the text has only the message.
        message: Everything after the class, without the tracebacks that it quotes (they are in `inner`).
        module: Module of the class, or "".
        frames: Outermost first; `user` is set where the path is not of an installed library.
        inner: The exception that this one re-raises: of a loader's worker, of a spawned child, "Origin Exception".
        context: The exceptions that it was raised from or while handling, nearest first, each with "cause" or
            "context".
        rank: Of the process, or `None`.
        thread: Name of the thread that it ended, or "".
        order: Position in time: smaller came first.
        step: Last optimizer step before it, or `None`.
        ended_process: Whether the process ended by it, as far as is known.
        line: Line of the text that it was read from (from 1), or 0.
        tensors: Tensors of the failing line, each with `name`, `shape`, `dtype`, `device`.
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


@dataclass(frozen=True)
class OutputLine:
    """A line of output that may report something and is not part of an exception.

    Args:
        text: One line, or a block that belongs together, without prefixes and escapes.
        kind: "output" or "warning".
        line: From 1.
        rank: From its prefix, or `None`.
        count: How many similar lines there were.
        order: Position in time, comparable with that of exceptions of the same evidence.
    """

    text: str
    kind: str = "output"
    line: int = 0
    rank: int | None = None
    count: int = 1
    order: float = 0.0


@dataclass(frozen=True)
class Ending:
    """How a process ended.

    Args:
        exit_code: `None` when not known.
        signal: "SIGKILL", ... or "".
        facts: `oom_kill` (a sentence on who killed it), `memory` (a sentence on it where nobody knows), `time_limit`
            (a sentence), `core_dump`, `silent_s` (no progress for so many seconds), `stalled` (true: that is long),
            `stacks` (of all threads), `waiting` ("reader", "collective", "lock", "input", "worker"), `where` (the
            user's line that waits or failed), `reader_died` (a sentence on the exception of the thread that prepared
            the data), `children` (sentences on children that signals ended), `child_signal` (of the first, where no
            exception speaks of it).
    """

    exit_code: int | None = None
    signal: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """The evidence of one failure.

    Args:
        exceptions: In the order of their first lines or times.
        lines: In order.
        ending: How it ended, where that is known.
        checks: Rows of the health checklist.
        conditions: Names that hold in this run ("first_step", "memory_rising"); see
            `labbook.diagnosis.catalogue.run_conditions`.
        facts: Values for the texts of fixes ("batch_size", "lr").
        framework: "torch", "paddle" or "".
        clean_end: Whether the program is known to have ended well: then output alone is no failure.
    """

    exceptions: tuple[ObservedException, ...] = ()
    lines: tuple[OutputLine, ...] = ()
    ending: Ending = field(default_factory=Ending)
    checks: tuple[CheckResult, ...] = ()
    conditions: frozenset[str] = frozenset()
    facts: Mapping[str, Any] = field(default_factory=dict)
    framework: str = ""
    clean_end: bool = False
