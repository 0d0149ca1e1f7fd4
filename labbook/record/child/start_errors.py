"""Errors at the start of a command: their origin, exit codes and messages."""

from __future__ import annotations

import errno

from labbook.errors import LabbookError, UsageError

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
