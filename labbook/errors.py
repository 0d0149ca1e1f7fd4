"""The errors that labbook raises on purpose, each with a hint and an exit code.

There are one base class and a few kinds. Only `cli.py` prints them. A message says what could not be done, with the
value; the hint says what to do next.
"""

from __future__ import annotations


class LabbookError(Exception):
    """An expected failure, shown to the user as one line and a hint, without a traceback.

    Args:
        message: What could not be done, with the value.
        hint: What to do next; empty if there is no advice.
        exit_code: Overrides the code of the kind, for `labbook record`, which ends as a shell does (127, 126).
    """

    exit_code = 3

    def __init__(self, message: str, *, hint: str = "", exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(LabbookError):
    """The command line names something that does not exist, or options that cannot be combined."""

    exit_code = 2


class NothingFoundError(LabbookError):
    """The query is valid and has no result."""

    exit_code = 1


class NotebookError(LabbookError):
    """The notebook or its settings cannot be used."""

    exit_code = 3


class EntryError(LabbookError):
    """One entry or note cannot be read; the rest of the notebook still works."""

    exit_code = 3


class GitError(LabbookError):
    """A git operation failed."""

    exit_code = 4


class Unavailable(Exception):  # noqa: N818 - a result, not an error
    """A capture source has no facts; the entry shows the reason as *not observed*."""
