"""The errors that labbook raises on purpose, each with a hint and an exit code.

One base class, few kinds. Only `cli.py` prints them. A message says what could not be done and names the value in
question; the hint says what to do next.
"""

from __future__ import annotations


class LabbookError(Exception):
    """An expected failure, told to the user in one line and a hint, never as a traceback.

    Args:
        message: What could not be done, with the value in question.
        hint: What to do next; empty where nothing can be advised.
        exit_code: Overrides the code of the kind, for `labbook record`, which ends as a shell would (127, 126).
    """

    exit_code = 3

    def __init__(self, message: str, *, hint: str = "", exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(LabbookError):
    """The command line asks for something that does not exist or cannot be combined."""

    exit_code = 2


class NothingFoundError(LabbookError):
    """The question was understood and the answer is empty."""

    exit_code = 1


class NotebookError(LabbookError):
    """The notebook or its settings cannot be used."""

    exit_code = 3


class EntryError(LabbookError):
    """One entry or note cannot be read; the rest of the notebook still works."""

    exit_code = 3


class GitError(LabbookError):
    """Git could not do what was asked."""

    exit_code = 4


class Unavailable(Exception):  # noqa: N818 - it is an answer, not an error
    """A capture source declines; its reason is written in the entry as *not observed*."""
