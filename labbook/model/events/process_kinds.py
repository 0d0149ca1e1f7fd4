"""Events of any Python process: its start and end, what it opened, what failed."""

from __future__ import annotations

from typing import Annotated, TypedDict

from labbook.model.events.field_types import LONG, Count, Finite, Options, Text, Texts


class Event(TypedDict, total=False):
    """The envelope of every event: schema number, sequence in its file, Unix time (s), kind; and the framework."""

    v: int
    n: int
    t: Finite
    k: str
    framework: str


class Hello(Event, total=False):
    """The first line of every file."""

    pid: int
    ppid: int
    start_ticks: int | None
    host: str
    argv: Texts
    executable: Text
    version: str
    implementation: str
    prefix: Text
    base_prefix: Text
    cwd: Text
    flags: Options
    sys_path: Texts
    fd1: Text
    fd2: Text
    fd1_file: list[Count]
    fd2_file: list[Count]
    role: str
    env: dict[str, Text]


class SustainedOverhead(TypedDict, total=False):
    """Overhead after the set-up."""

    step: Count
    overhead_s: Finite
    elapsed_s: Finite


class ExitCall(TypedDict, total=False):
    """The last call of `sys.exit` in the main thread."""

    t: Finite
    step: Count
    code: int
    message: Text
    frames: list[StackFrame]


class Bye(Event, total=False):
    """The last line of a process that ended in an orderly way."""

    steps: Count
    backwards: Count
    overhead_s: Finite
    elapsed_s: Finite
    lost_events: Count
    sustained: SustainedOverhead
    exit: ExitCall


class Arguments(Event, total=False):
    """Parsed options."""

    source: str
    name: str
    values: Options
    unchanged: list[str]


class Config(Event, total=False):
    """A configuration file that was opened for reading."""

    path: Text
    format: str
    text: Text
    truncated: bool


class FileItem(TypedDict, total=False):
    """A file that was opened, or a folder of many."""

    path: Text
    mode: str
    size: int
    size_before: Count
    mtime_ns: int
    folder: bool
    members: Count
    before: str


class Files(Event, total=False):
    """Files that were opened."""

    items: Annotated[list[FileItem], LONG]


class Sources(Event, total=False):
    """What of the user's code the process loaded, and the environment variables that this code reads."""

    files: Annotated[list[Text], LONG]
    packages: Annotated[list[str], LONG]
    imported: Annotated[list[str], LONG]
    environment: dict[str, Text]
    allowed: dict[str, Text]
    versions: dict[str, str]
    modules: Annotated[list[Texts], LONG]


class StackFrame(TypedDict, total=False):
    """A line of a traceback or of a thread's stack."""

    file: Text
    line: Count
    function: Text
    source: Text
    user: bool


class LinkedException(TypedDict, total=False):
    """An exception in the chain of another one, or a member of its group."""

    type: Text
    message: Text
    relation: str
    frames: list[StackFrame]
    group: list[LinkedException]


class UncaughtException(Event, total=False):
    """An uncaught exception."""

    where: str
    thread: Text
    type: Text
    module: Text
    message: Text
    notes: Texts
    chain: list[LinkedException]
    group: list[LinkedException]
    frames: list[StackFrame]
    tensors: list[Options]
    names: Options
    step: int
    exit: bool
    trial: Count


class ChildDied(Event, total=False):
    """A child of `multiprocessing` was ended by a signal that this process did not send."""

    pid: int
    name: Text
    target: Text
    signal: str


class ThreadStack(TypedDict, total=False):
    """What a thread was doing."""

    name: Text
    main: bool
    frames: list[StackFrame]


class CollectiveOrder(TypedDict, total=False):
    """The collective calls of all ranks that a program has begun: their number, and the names of the last ones."""

    made: Count
    last: list[str]


class Stacks(Event, total=False):
    """What all threads were doing."""

    reason: str
    silent_s: Finite
    step: int
    threads: list[ThreadStack]
    collectives: CollectiveOrder


class PythonWarning(Event, total=False):
    """The first time a Python warning is shown. `own`: whether the line is the program's, not a package's."""

    category: Text
    message: Text
    file: Text
    line: int
    own: bool


class Note(Event, total=False):
    """A sentence from `labbook.note()`."""

    text: Text


class Trial(Event, total=False):
    """The beginning or the end of one of several trainings in one process."""

    own: bool
    tool: str
    group: str
    number: int
    params: Options
    state: str
    values: list[float]
    directions: list[str]
    together: bool
    label: Count


class UnobservedSignal(Event, total=False):
    """Something that this process could not observe."""

    what: Text
    reason: Text


class ProbeError(Event, total=False):
    """A guarded failure of the probe itself."""

    where: Text
    error: Text
    count: Count


class SpawnedProcess(Event, total=False):
    """A child process was started through Python."""

    pid: int
    argv: Texts
    how: str
