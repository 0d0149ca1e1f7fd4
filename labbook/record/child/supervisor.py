"""Runs the recorded command without changing its behaviour, and stores its output."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from labbook.errors import UsageError
from labbook.frozen import dataclass
from labbook.record.child.output_copier import OutputCopier
from labbook.record.child.signal_relay import SignalRelay
from labbook.record.child.start_errors import COMMAND_FAULTS, EXIT_MISSING, EXIT_NOT_EXECUTABLE, start_error
from labbook.record.child.terminal import ChildStreams, open_child_streams

if TYPE_CHECKING:
    from labbook.capture.console.console_sink import ConsoleSink

_T = TypeVar("_T")

_JUMP_S = 5.0
"""Least jump of the clock. Source: chosen by us; a time server moves the clock by less than that."""


@dataclass(frozen=True)
class ChildEnd:
    """The end of the command.

    Args:
        code: Its exit status, `None` when a signal with a name ended it.
        signal: Name of that signal ("SIGKILL"), or "".
        started: Unix time, s.
        ended: Unix time, s.
        output_open: Whether a process that it started still has its output open.
        trouble: Errors of labbook meanwhile, or "".
        core_dump: Whether a core was dumped.
        stopped: Unix time of the last SIGINT or SIGTERM for it, 0 if there was none; s.
        signal_number: Number of the signal that ended it, also of a real-time signal, or 0.
        heeded: As `stopped`, but 0 if the command ignored the signal and ended with status 0: nothing interrupted it.
    """

    code: int | None
    signal: str
    started: float
    ended: float
    output_open: bool
    trouble: str = ""
    core_dump: bool = False
    stopped: float = 0.0
    signal_number: int = 0
    heeded: float = 0.0


class _Clock:
    """The time since the start of the command, also where somebody sets the clock of the machine meanwhile."""

    def __init__(self) -> None:
        self.started = time.time()
        self._began = _uptime()

    def read_time(self) -> float:
        """Returns the Unix time (s); after a jump of the clock, as it would be without that."""
        now, unchanged = time.time(), self.started + _uptime() - self._began
        return now if abs(now - unchanged) < _JUMP_S else unchanged


def _uptime() -> float:
    """Returns a time (s) that nobody sets, and that goes on while the machine sleeps, where the system has one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def run_child(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    sink: ConsoleSink,
    full_pty: bool = False,
    on_start: Callable[[int], None],
    on_stop: Callable[[float], None] = lambda _: None,
    lock_descriptors: Iterable[int] = (),
) -> ChildEnd:
    """Runs a command to its end; copies its output to the user's streams and to the sink.

    Closes the sink. Call it in the main thread, best before any other thread exists. Standard input of this process
    becomes the null device if it is no terminal, so that its writer notices when the command stops reading.

    Args:
        full_pty: Give the command a terminal of its own, for curses programs.
        on_start: Called with the process id as soon as the command runs; its exceptions are noted in `trouble`.
        on_stop: Called with the time of the first SIGINT or SIGTERM, s.
        lock_descriptors: Descriptors, such as the journal's lock, that the pump keeps open until the output is stored,
            even if this process dies.

    Raises:
        UsageError: The program does not exist (`exit_code` 127) or cannot be executed (126). Nothing was started.
        Exception: Something else failed before the command was started; afterwards nothing is raised.
    """
    program = find_program(argv[0], env, cwd)
    _flush_own_output()
    command: subprocess.Popen[bytes] | None = None
    end: ChildEnd | None = None
    clock = _Clock()
    try:
        with open_child_streams(full_pty) as streams, SignalRelay(not streams.full, on_stop) as relay:
            for stream in streams.files:
                sink.file_stream(stream.name, stream.path, stream.offset)
            streams.take_keys()
            copier = OutputCopier(streams, sink, lock_descriptors)
            try:
                copier.start(relay)
                clock = _Clock()
                command = _start(program, argv, env, cwd, streams, relay)
            except BaseException:
                copier.abandon()
                raise
            end = _supervise(command, clock, streams, copier, relay, on_start)
    except Exception as error:
        if command is None:
            raise
        if end is None:
            end = replace(_end_of(_wait(command), clock), trouble=f"{type(error).__name__}: {error}")
    assert end is not None
    return end


def _supervise(
    command: subprocess.Popen[bytes],
    clock: _Clock,
    streams: ChildStreams,
    copier: OutputCopier,
    relay: SignalRelay,
    on_start: Callable[[int], None],
) -> ChildEnd:
    """Waits for the end of a running command; an error of labbook never changes the command's status."""
    errors: list[str] = []

    def attempt(work: Callable[..., _T], *arguments: object) -> _T | None:
        try:
            return work(*arguments)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
            return None

    attempt(streams.close_command_ends)
    attempt(_release_standard_input)
    attempt(copier.start_storing, command.pid)
    attempt(on_start, command.pid)
    status = attempt(relay.wait_for, command)
    if status is None:
        status = attempt(relay.wait_for, command)
    if status is None:
        status = _wait(command)
    end = _end_of(status, clock)
    attempt(streams.restore)
    output_open = bool(attempt(copier.finish))
    trouble = "; ".join(errors)
    end = replace(end, output_open=output_open, trouble=trouble, core_dump=relay.core_dumped)
    return replace(end, stopped=relay.stopped, heeded=relay.stopped if status else relay.heeded)


def _end_of(status: int, clock: _Clock) -> ChildEnd:
    """Returns the end of a command that has just ended with this `Popen.returncode`."""
    name = signal.Signals(-status).name if status < 0 and -status in set(signal.Signals) else ""
    code = status if status >= 0 else None if name else 128 - status
    return ChildEnd(code, name, clock.started, clock.read_time(), False, signal_number=max(0, -status))


def _wait(command: subprocess.Popen[bytes]) -> int:
    """Waits for the command without passing signals on."""
    while True:
        with suppress(Exception):
            return command.wait()
        time.sleep(0.05)


def find_program(name: str, env: Mapping[str, str], cwd: Path) -> str:
    """Returns the executable file of a command's name.

    Raises:
        UsageError: There is none (`exit_code` 127) or it cannot be executed (126); the hint names a similar one.
    """
    if not cwd.is_dir():
        raise UsageError("errors.record.no_folder", name=name, cwd=cwd)
    candidate = cwd / name
    if "/" in name:
        program = str(candidate) if os.access(candidate, os.X_OK) and not candidate.is_dir() else None
    else:
        program = shutil.which(name, path=env.get("PATH", os.defpath)) if name else None
    if program is not None:
        return program
    if "/" in name and candidate.is_dir():
        raise UsageError("errors.record.is_folder", name=name, exit_code=EXIT_NOT_EXECUTABLE)
    if "/" in name and candidate.exists():
        raise UsageError("errors.record.not_executable", name=name, exit_code=EXIT_NOT_EXECUTABLE)
    raise _not_found(name, candidate, env)


def _not_found(name: str, candidate: Path, env: Mapping[str, str]) -> UsageError:
    key, code = "errors.record.no_program", EXIT_MISSING
    if candidate.is_file():
        how = "python " if candidate.suffix == ".py" else "bash " if candidate.suffix == ".sh" else "./"
        advice = "errors.record.file_here_advice"
        return UsageError(key, name=name, command=f"{how}{name}", advice=advice, exit_code=code)
    from difflib import get_close_matches

    programs: set[str] = set()
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        with suppress(OSError):
            programs.update(entry.name for entry in os.scandir(folder or "."))
    near = get_close_matches(name, programs, n=1, cutoff=0.7)
    if near:
        return UsageError(key, name=name, near=near[0], advice="errors.record.near_program_advice", exit_code=code)
    return UsageError(key, name=name, exit_code=code)


def _start(
    program: str, argv: Sequence[str], env: Mapping[str, str], cwd: Path, streams: ChildStreams, relay: SignalRelay
) -> subprocess.Popen[bytes]:
    def prepare() -> None:
        if streams.full:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        relay.unblock()

    def start(executable: str, words: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words, executable=executable, env=dict(env), cwd=cwd, preexec_fn=prepare, start_new_session=streams.full,
            stdin=streams.descriptors.get(0), stdout=streams.descriptors.get(1), stderr=streams.descriptors.get(2),
        )  # fmt: skip

    try:
        try:
            return start(program, list(argv))
        except OSError as error:
            if error.errno != errno.ENOEXEC or not _is_text(Path(program)):
                raise
            # A script without a `#!` line is run by the shell, as every shell does.
            return start("/bin/sh", ["sh", program, *argv[1:]])
    except OSError as error:
        if error.errno in COMMAND_FAULTS:
            raise start_error(argv[0], error) from error
        raise


def _is_text(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return b"\0" not in stream.read(512)
    except OSError:
        return False


def _flush_own_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _release_standard_input() -> None:
    if not os.isatty(0):
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)


def exit_like_child(end: ChildEnd) -> NoReturn:
    """Ends this process as the command ended: with its exit status, or by the same signal.

    The parent process sees the same as without labbook, including a shell's "Segmentation fault". No core of this
    process is written. If the signal cannot end this process, as for the first process of a container, the exit status
    is 128 + its number, as a shell shows it.
    """
    try:
        _flush_own_output()
        if end.signal_number:
            _kill_self(end.signal_number)
    finally:
        # After any error above, and if the signal did not end this process.
        os._exit(128 + end.signal_number if end.signal_number else (end.code or 0) & 0xFF)


def _kill_self(number: int) -> None:
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number in _DUMPING:
        _forbid_core()
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    time.sleep(0.05)


_DUMPING = {
    signal.SIGQUIT, signal.SIGILL, signal.SIGABRT, signal.SIGFPE, signal.SIGSEGV, signal.SIGBUS, signal.SIGSYS,
    signal.SIGTRAP, signal.SIGXCPU, signal.SIGXFSZ,
}  # fmt: skip
_PR_SET_DUMPABLE = 4


def _forbid_core() -> None:
    """Stops crash collectors, which ignore the core file limit, from reporting this process as crashed."""
    with suppress(OSError, ImportError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
