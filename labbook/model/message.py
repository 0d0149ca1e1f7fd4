"""A sentence for people as a key with values; each language has its own template for the key.

`message("health.loss_at_chance.stuck", loss=2.31, chance=2.303)` says what was found. The templates stand in
`templates/words/messages/<language>_<first part of the key>.toml`; `labbook.store.sentences` fills them. Code passes
the message on and never takes a sentence apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from labbook.frozen import dataclass


@dataclass(frozen=True)
class Message:
    """A key of the message files with the values of its placeholders.

    Args:
        key: File, table and row: "health.loss_at_chance.stuck".
        values: Name of a placeholder -> a number, a string that is data (a name, a path), another message, or a list of
            these. Numbers are not formatted: the template says how.
    """

    key: str
    values: Mapping[str, Any] = field(default_factory=dict)


def message(key: str, **values: Any) -> Message:  # noqa: ANN401 - numbers, text, messages and lists of them
    """Returns the message of a key with its values."""
    return Message(key, values)


def as_data(said: Message) -> dict[str, Any]:
    """Returns a message as plain data (JSON), as `run.json` holds it."""
    return {"key": said.key, "values": {name: _plain(value) for name, value in said.values.items()}}


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever a message may hold
    if isinstance(value, Message):
        return as_data(value)
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value
