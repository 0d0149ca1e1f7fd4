"""Runs the recorded command as if labbook were not there, and keeps what it prints."""

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
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from labbook.errors import UsageError
from labbook.frozen import dataclass
from labbook.record.child.output_copier import Copying
from labbook.record.child.signal_relay import SignalRelay
from labbook.record.child.terminal import Wiring, wired
from labbook.record.child.unrecorded import COMMAND_FAULTS, cannot_run

if TYPE_CHECKING:
    from labbook.capture.console.console_sink import ConsoleSink

_T = TypeVar("_T")
_MISSING, _NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell for a program that does not exist or cannot be executed."""


@dataclass(frozen=True)
class ChildEnd:
    """How the command ended.

    Args:
        code: Its exit status, `None` when a signal ended it.
        signal: Name of that signal ("SIGKILL"), or "".
        started: Unix time, s.
        ended: Unix time, s.
        output_open: Whether a process that it left behind still holds its output.
        trouble: What failed on labbook's side meanwhile, or "".
        core_dump: Whether a core was dumped.
    """

    code: int | None
    signal: str
    started: float
    ended: float
    output_open: bool
    trouble: str = ""
    core_dump: bool = False


def run_child(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    sink: ConsoleSink,
    full_pty: bool = False,
    on_start: Callable[[int], None],
    held: Iterable[int] = (),
) -> ChildEnd:
    """Runs a command to its end; its output goes to the user's streams byte for byte and to the sink, which is closed.

    To be called in the main thread, best before any other thread exists. For this process standard input becomes the
    null device when it is no terminal: whoever writes to it must see when the command reads no more.

    Args:
        argv: The command.
        env: Its environment.
        cwd: Its working folder.
        sink: Keeps the output.
        full_pty: Give it a whole terminal, for curses programs.
        on_start: Called with its process id as soon as it runs; what it raises is noted in `trouble`.
        held: Descriptors, as of the journal's lock, that the pump holds until the output is kept, should this process
            die before.

    Raises:
        UsageError: The program does not exist (`exit_code` 127) or cannot be executed (126). Nothing was started.
        Exception: Something else failed before the command was started; afterwards nothing is raised.
    """
    program = find_program(argv[0], env, cwd)
    _flush_own_output()
    command: subprocess.Popen[bytes] | None = None
    end: ChildEnd | None = None
    started = time.time()
    try:
        with wired(full_pty) as wiring, SignalRelay(shared=not wiring.full) as relay:
            for stream in wiring.files:
                sink.file_stream(stream.name, stream.path, stream.offset)
            wiring.take_keys()
            copying = Copying(wiring, sink, held)
            try:
                copying.start(relay)
                started = time.time()
                command = _start(program, argv, env, cwd, wiring, relay)
            except BaseException:
                copying.abandon()
                raise
            end = _follow(command, started, wiring, copying, relay, on_start)
    except Exception as error:
        if command is None:
            raise
        if end is None:
            end = ChildEnd(*_ending(_wait(command)), started, time.time(), False, f"{type(error).__name__}: {error}")
    assert end is not None
    return end


def _follow(
    command: subprocess.Popen[bytes],
    started: float,
    wiring: Wiring,
    copying: Copying,
    relay: SignalRelay,
    on_start: Callable[[int], None],
) -> ChildEnd:
    """Sees a command that runs through to its end; a failure of labbook costs a part of the entry, never its status."""
    troubles: list[str] = []

    def attempt(work: Callable[..., _T], *arguments: object) -> _T | None:
        try:
            return work(*arguments)
        except Exception as error:
            troubles.append(f"{type(error).__name__}: {error}")
            return None

    attempt(wiring.close_command_ends)
    attempt(_leave_standard_input)
    attempt(copying.keep, command.pid)
    attempt(on_start, command.pid)
    status = attempt(relay.wait_for, command)
    if status is None:
        status = attempt(relay.wait_for, command)
    if status is None:
        status = _wait(command)
    ended = time.time()
    attempt(wiring.restore)
    output_open = bool(attempt(copying.finish))
    return ChildEnd(*_ending(status), started, ended, output_open, "; ".join(troubles), relay.core_dumped)


def _ending(status: int) -> tuple[int | None, str]:
    """Exit status and signal of a command whose `Popen.returncode` is `status`."""
    name = signal.Signals(-status).name if status < 0 and -status in set(signal.Signals) else ""
    return status if status >= 0 else None if name else 128 - status, name


def _wait(command: subprocess.Popen[bytes]) -> int:
    """Waits for the command and does nothing else; signals are passed on no more."""
    while True:
        with suppress(Exception):
            return command.wait()
        time.sleep(0.05)


def find_program(name: str, env: Mapping[str, str], cwd: Path) -> str:
    """The file that a command's name stands for.

    Raises:
        UsageError: There is none (`exit_code` 127) or it cannot be executed (126); the hint names the nearest one.
    """
    if not cwd.is_dir():
        raise UsageError(f"cannot run {name!r} in {cwd}: there is no such folder", hint="name a folder that exists")
    beside = cwd / name
    if "/" in name:
        found = str(beside) if os.access(beside, os.X_OK) and not beside.is_dir() else None
    else:
        found = shutil.which(name, path=env.get("PATH", os.defpath)) if name else None
    if found is not None:
        return found
    if "/" in name and beside.is_dir():
        raise UsageError(f"cannot run {name!r}: it is a folder", hint="name a program", exit_code=_NOT_EXECUTABLE)
    if "/" in name and beside.exists():
        raise UsageError(
            f"cannot run {name!r}: it is not executable",
            hint=f"put its interpreter in front, as in `python {name}`, or make it executable with `chmod +x {name}`",
            exit_code=_NOT_EXECUTABLE,
        )
    hint = _hint(name, beside, env)
    raise UsageError(f"cannot run {name!r}: there is no such program", hint=hint, exit_code=_MISSING)


def _hint(name: str, beside: Path, env: Mapping[str, str]) -> str:
    if beside.is_file():
        how = "python " if beside.suffix == ".py" else "bash " if beside.suffix == ".sh" else "./"
        return f"to run the file of that name here, write `{how}{name}`"
    from difflib import get_close_matches

    programs: set[str] = set()
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        with suppress(OSError):
            programs.update(entry.name for entry in os.scandir(folder or "."))
    near = get_close_matches(name, programs, n=1, cutoff=0.7)
    return f"did you mean {near[0]!r}?" if near else "check its spelling and PATH"


def _start(
    program: str, argv: Sequence[str], env: Mapping[str, str], cwd: Path, wiring: Wiring, relay: SignalRelay
) -> subprocess.Popen[bytes]:
    def prepare() -> None:
        if wiring.full:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        relay.unblock()

    def start(executable: str, words: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words, executable=executable, env=dict(env), cwd=cwd, preexec_fn=prepare, start_new_session=wiring.full,
            stdin=wiring.given.get(0), stdout=wiring.given.get(1), stderr=wiring.given.get(2),
        )  # fmt: skip

    try:
        try:
            return start(program, list(argv))
        except OSError as error:
            if error.errno != errno.ENOEXEC or not _is_text(Path(program)):
                raise
            # A script without its first line is run by the shell, as every shell does.
            return start("/bin/sh", ["sh", program, *argv[1:]])
    except OSError as error:
        if error.errno in COMMAND_FAULTS:
            raise cannot_run(argv[0], error) from error
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


def _leave_standard_input() -> None:
    if not os.isatty(0):
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)


def exit_as_child(end: ChildEnd) -> NoReturn:
    """Ends this process as the command ended: with its exit status, or by the same signal.

    Whoever waits for us sees what they would have seen without labbook, a shell's "Segmentation fault" included. No
    core of this process is written. Where a signal cannot end us, as in the first process of a container, the exit
    status is 128 + its number, as a shell would show it.
    """
    try:
        _flush_own_output()
        if end.signal:
            _die_of(signal.Signals[end.signal])
    finally:
        # Whatever failed here, and where the signal did not end us.
        os._exit((128 + signal.Signals[end.signal]) if end.signal else (end.code or 0) & 0xFF)


def _die_of(number: signal.Signals) -> None:
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
    """Keeps a crash collector, which disregards the limit of core files, from taking us for the one that crashed."""
    with suppress(OSError, ImportError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
