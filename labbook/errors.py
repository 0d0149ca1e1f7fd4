"""The errors that labbook raises on purpose: a key of the message files with values, and an exit code.

There are one base class and a few kinds. `raise NotebookError("errors.journal.not_writable", path=path, reason=error)`
says what could not be done, with the value; the template `errors.journal.not_writable_advice` says what to do next.
`cli.py` prints both in the language in use; `str(error)` is English.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeVar

_Kind = TypeVar("_Kind", bound="LabbookError")


class LabbookError(Exception):
    """An expected failure, shown to the user as one line and an advice, without a traceback.

    Args:
        key: Key of the message: what could not be done, with the value.
        advice: Key of the message of what to do next; by default that of the message with `_advice`, if there is one.
        exit_code: Overrides the code of the kind, for `labbook record`, which ends as a shell does (127, 126).
        **values: Values of the placeholders. An exception represents its reason, a path for its text.
    """

    exit_code = 3
    language = ""
    """Of the command that failed, "en" or "zh"; empty if no command has set it."""

    def __init__(self, key: str, /, *, advice: str = "", exit_code: int | None = None, **values: object) -> None:
        super().__init__(key)
        self.key = key
        self.advice_key = advice or f"{key}_advice"
        self.values: dict[str, Any] = {name: _json_value(value) for name, value in values.items()}
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return self.message

    @property
    def message(self) -> str:
        """What could not be done, in English."""
        return self.texts("en")[0]

    @property
    def hint(self) -> str:
        """What to do next, in English; empty if there is no advice."""
        return self.texts("en")[1]

    def texts(self, language: str) -> tuple[str, str]:
        """Returns the message and the advice in a language, "en" or "zh"."""
        # By name: errors are on the ground floor, the message files two floors above; read once an error is shown.
        filled: tuple[str, str] = import_module("labbook.store.text.sentences").Sentences(language).error(self)
        return filled

    def as_data(self) -> dict[str, Any]:
        """Returns the error as plain data, for another process, or as a value of another error."""
        return {"key": self.key, "advice": self.advice_key, "values": self.values}

    @classmethod
    def from_data(cls: type[_Kind], data: Mapping[str, Any]) -> _Kind:
        """Returns the error of `as_data`."""
        return cls(str(data["key"]), advice=str(data["advice"]), **data["values"])


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


def _json_value(value: object) -> object:
    """Returns a value of a message as JSON knows it."""
    if isinstance(value, LabbookError):
        return value.as_data()
    if isinstance(value, OSError):
        return value.strerror or str(value)
    if isinstance(value, (list, tuple)):
        return [_json_value(each) for each in value]
    if hasattr(value, "key") and hasattr(value, "values"):  # a message
        return {"key": value.key, "values": {name: _json_value(each) for name, each in value.values.items()}}
    if value is None:
        return ""
    return str(value) if isinstance(value, (BaseException, os.PathLike)) else value
