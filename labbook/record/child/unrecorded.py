"""The outermost guard of `labbook record`: the command runs even if labbook fails.

Recording raises only before the command has started. Then `exec` replaces this process by the command, with streams,
signals and terminal as without labbook. That needs no memory, no descriptor, no thread and no disk.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from labbook.errors import LabbookError, UsageError

if TYPE_CHECKING:
    from labbook.record.child.supervisor import ChildEnd

EXIT_MISSING, EXIT_NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell for a program that does not exist or cannot be executed."""

COMMAND_FAULTS = frozenset({
    errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR, errno.ELOOP, errno.EINVAL,
    errno.ENAMETOOLONG, errno.ETXTBSY, errno.ELIBBAD,
})  # fmt: skip
"""Errors at start-up that are caused by the program; others (no descriptor, no memory) may be labbook's."""


def record_or_exec(argv: Sequence[str], record: Callable[[], ChildEnd], say: Callable[[str], None]) -> NoReturn:
    """Records the command, or replaces this process by it if recording fails; never returns.

    Args:
        argv: The command.
        record: Records the command and returns its end; raises only if the command has not started.
        say: Shows one line to the user; never raises.

    Raises:
        UsageError: The command line is wrong, or the command cannot be executed.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    # A thread that fails costs part of the entry; its traceback does not belong on the user's terminal.
    threading.excepthook = lambda _: None
    try:
        end = record()
    except UsageError:
        raise  # nothing has started, so the user can correct the command line
    except Exception as error:
        say(f"the command runs, but this run is not recorded: {describe_error(error)}")
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        exec_command(argv)
    from labbook.record.child.supervisor import exit_like_child

    exit_like_child(end)


def exec_command(argv: Sequence[str]) -> NoReturn:
    """Replaces this process by the command.

    Raises:
        UsageError: The program does not exist (`exit_code` 127) or cannot be executed (126).
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores them; a program expects the system's default.
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            from shutil import which

            # A script without a `#!` line is run by the shell, as every shell does.
            with suppress(OSError):
                os.execv("/bin/sh", ["sh", which(argv[0]) or argv[0], *argv[1:]])
        raise start_error(argv[0], error) from error


def start_error(name: str, error: OSError) -> UsageError:
    """Returns the error for a program that the system refuses to execute."""
    return UsageError(
        f"cannot run {name!r}: {error.strerror or error}",
        hint="check its first line (`#!...`) and that it was built for this machine",
        exit_code=EXIT_MISSING if error.errno == errno.ENOENT else EXIT_NOT_EXECUTABLE,
    )


def describe_error(error: BaseException) -> str:
    """Returns a short description of an error, without a traceback."""
    if isinstance(error, LabbookError):
        return error.message + (f" ({error.hint})" if error.hint else "")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {error.filename}" if error.filename else "")
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return f"a bug in labbook: {type(error).__name__}: {error}"
