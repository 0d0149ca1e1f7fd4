"""A sentence for people as a key with values; each language has its own template for the key.

`message("health.loss_at_chance.stuck", loss=2.31, chance=2.303)` describes a finding. The templates are in
`templates/words/messages/<language>_<first part of the key>.toml`; `labbook.store.text.sentences` fills them. Code
passes messages on and never parses sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from labbook.errors import LabbookError
from labbook.frozen import dataclass


@dataclass(frozen=True)
class Message:
    """A key of the message files with the values of its placeholders.

    Args:
        key: File, table and row: "health.loss_at_chance.stuck".
        values: Name of a placeholder -> a number, a string (a name, a path), another message, or a list of these.
            Numbers are unformatted: the template defines their format.
    """

    key: str
    values: Mapping[str, Any] = field(default_factory=dict)


def message(key: str, /, **values: Any) -> Message:  # noqa: ANN401 - numbers, text, messages and lists of them
    """Create the message of a key with its values."""
    return Message(key, values)


def message_of(error: LabbookError) -> Message:
    """Return the message of an error, as a value of another message."""
    return Message(error.key, error.values)


def advice_of(error: LabbookError) -> Message | None:
    """Return the advice of an error, or `None`."""
    return Message(error.advice_key, error.values) if error.hint else None


def as_data(message: Message) -> dict[str, Any]:
    """Convert a message to plain data (JSON), the form in `run.json`."""
    return {"key": message.key, "values": {name: _value_as_data(value) for name, value in message.values.items()}}


def _value_as_data(value: Any) -> Any:  # noqa: ANN401 - value of a placeholder
    if isinstance(value, Message):
        return as_data(value)
    return [_value_as_data(part) for part in value] if isinstance(value, (list, tuple)) else value
