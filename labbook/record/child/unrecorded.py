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

from labbook.errors import UsageError
from labbook.record.child.start_errors import describe_error, start_error
from labbook.store.config import Config
from labbook.store.text.sentences import Sentences

if TYPE_CHECKING:
    from labbook.record.child.supervisor import ChildEnd


def record_or_exec(argv: Sequence[str], record: Callable[[], ChildEnd], print_line: Callable[[str], None]) -> NoReturn:
    """Records the command, or replaces this process by it if recording fails; never returns.

    Args:
        record: Records the command and returns its end; raises only if the command has not started.
        print_line: Prints one line to the user; never raises.

    Raises:
        UsageError: The command line is wrong, or the command cannot be executed.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    # A failed thread loses part of the entry; its traceback is not printed to the user's terminal.
    threading.excepthook = lambda _: None
    try:
        end = record()
    except UsageError:
        raise  # nothing has started, so the user can correct the command line
    except Exception as error:
        print_line(_not_recorded(error))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        exec_command(argv)
    from labbook.record.child.supervisor import exit_like_child

    exit_like_child(end)


def _not_recorded(error: Exception) -> str:
    try:
        line = Sentences(Config().language_in_use()).line("record.not_recorded", error=describe_error(error))
    except Exception:  # the texts cannot be read either: no descriptor, no memory
        return f"the command runs, but this run is not recorded: {type(error).__name__}: {error}"
    return line


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
