"""The outermost guard of `labbook record`: whatever fails in labbook, the command runs and its exit status is its own.

Recording raises only as long as the command has not started. This process then becomes the command, by `exec`, with
its streams, signals and terminal as without labbook. That needs no memory, no descriptor, no thread and no disk.
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

_MISSING, _NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell for a program that does not exist or cannot be executed."""

COMMAND_FAULTS = frozenset({
    errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR, errno.ELOOP, errno.EINVAL,
    errno.ENAMETOOLONG, errno.ETXTBSY, errno.ELIBBAD,
})  # fmt: skip
"""Errors of starting a program that lie in the program itself; others (no descriptor, no memory) may be labbook's."""


def run_in_any_case(argv: Sequence[str], record: Callable[[], ChildEnd], say: Callable[[str], None]) -> NoReturn:
    """Ends this process as the command ends, recorded or not.

    Args:
        argv: The command.
        record: Records it and returns its end. It raises only when the command has not started.
        say: Shows one line to the user; never raises.

    Raises:
        UsageError: The command line asks for something that does not exist, or the command cannot be executed.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    # A thread that fails costs a part of the entry; its traceback does not belong on the user's terminal.
    threading.excepthook = lambda _: None
    try:
        end = record()
    except UsageError:
        raise  # nothing has started, so the user can type it again
    except Exception as error:
        say(f"the command runs, but this run is not recorded: {reason_of(error)}")
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        become(argv)
    from labbook.record.child.supervisor import exit_as_child

    exit_as_child(end)


def become(argv: Sequence[str]) -> NoReturn:
    """Replaces this process by the command.

    Raises:
        UsageError: The program does not exist (`exit_code` 127) or cannot be executed (126).
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Ignored by Python itself; a program expects them as the system sets them.
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            from shutil import which

            # A script without its first line is run by the shell, as every shell does.
            with suppress(OSError):
                os.execv("/bin/sh", ["sh", which(argv[0]) or argv[0], *argv[1:]])
        raise cannot_run(argv[0], error) from error


def cannot_run(name: str, error: OSError) -> UsageError:
    """The error of a program that the system refuses to execute."""
    return UsageError(
        f"cannot run {name!r}: {error.strerror or error}",
        hint="check its first line (`#!...`) and that it is made for this machine",
        exit_code=_MISSING if error.errno == errno.ENOENT else _NOT_EXECUTABLE,
    )


def reason_of(error: BaseException) -> str:
    """What failed, in half a line."""
    if isinstance(error, LabbookError):
        return error.message + (f" ({error.hint})" if error.hint else "")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {error.filename}" if error.filename else "")
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return f"a bug in labbook: {type(error).__name__}: {error}"
