"""Errors at the start of a command: their origin, exit codes and messages."""

from __future__ import annotations

import errno

from labbook.errors import LabbookError, UsageError
from labbook.model.message import Message, advice_of, message, message_of

EXIT_MISSING, EXIT_NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell for a program that does not exist or cannot be executed."""

COMMAND_FAULTS = frozenset({
    errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR, errno.ELOOP, errno.EINVAL,
    errno.ENAMETOOLONG, errno.ETXTBSY, errno.ELIBBAD,
})  # fmt: skip
"""Errors at start-up that are caused by the program; others (no descriptor, no memory) may be labbook's."""


def start_error(name: str, error: OSError) -> UsageError:
    """Returns the error for a program that the system refuses to execute."""
    return UsageError(
        "errors.record.not_executed",
        name=name,
        reason=error,
        exit_code=EXIT_MISSING if error.errno == errno.ENOENT else EXIT_NOT_EXECUTABLE,
    )


def describe_error(error: BaseException) -> Message:
    """Returns a short description of an error, without a traceback."""
    if isinstance(error, LabbookError):
        reason, advice = message_of(error), advice_of(error)
        return message("errors.record.with_advice", reason=reason, advice=advice) if advice else reason
    if isinstance(error, OSError) and error.strerror:
        if error.filename:
            return message("errors.record.reason_of_file", reason=error.strerror, path=str(error.filename))
        return message("errors.record.reason", reason=error.strerror)
    if isinstance(error, KeyboardInterrupt):
        return message("errors.cli.interrupted")
    return message("errors.cli.bug", kind=type(error).__name__, reason=str(error))
