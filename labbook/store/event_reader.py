"""Reads events of a journal by their schema, so that no later reader has to check a field.

A field of another type than `labbook.model.events` says, or out of its range, is dropped; the rest of the event stays.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any

from labbook.model.events import KINDS
from labbook.model.events.field_types import FINITE, LONG, NOT_NEGATIVE, POSITIVE
from labbook.model.events.process_kinds import Event

_LONGEST_TEXT = 2000
_MOST_ENTRIES = 4000
_UNFIT: Any = object()
_NOT_FINITE = ("nan", "inf", "-inf")

FieldReader = Callable[[object], Any]
"""Returns a value as its type, or `_UNFIT`."""


def read_event(event: Mapping[str, Any]) -> Event:
    """Returns an event with the fields that fit the schema of its kind; only the envelope of an unknown kind.

    Raises:
        Never: any JSON object gives as much of an event as it holds.
    """
    kind = event.get("k")
    schema: Any = KINDS.get(kind, Event) if isinstance(kind, str) else Event
    return typing.cast(Event, _reader(schema)(event))


@cache
def _reader(hint: Any) -> FieldReader:  # noqa: ANN401 - a type
    """The reader of values of a type."""
    if typing.is_typeddict(hint):
        return _object_reader(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated and inner[0] in (int, float, str):
        return _LIMITED[inner]
    if origin is Annotated:
        return _list_reader(_reader(typing.get_args(inner[0])[0]), None)
    if origin in (types.UnionType, typing.Union):
        return _union_reader([_reader(each) for each in inner])
    if origin is list:
        return _list_reader(_reader(inner[0]), _MOST_ENTRIES)
    if origin is tuple and inner[-1] is Ellipsis:
        return _row_reader(_reader(inner[0]))
    if origin is tuple:
        return _tuple_reader([_reader(each) for each in inner])
    if origin is dict:
        return _table_reader(_reader(inner[1]))
    return _PLAIN[hint]


def _object_reader(kind: type) -> FieldReader:
    readers: dict[str, FieldReader] = {}

    def read(value: object) -> Any:  # noqa: ANN401
        if not isinstance(value, Mapping):
            return _UNFIT
        if not readers:
            # Not before the first value: a type may hold values of its own kind.
            hints = typing.get_type_hints(kind, include_extras=True)
            readers.update((name, _reader(hint)) for name, hint in hints.items())
        found = {}
        for name, part in value.items():
            reader = readers.get(name)
            if reader is not None and (fit := reader(part)) is not _UNFIT:
                found[name] = fit
        return found

    return read


def _union_reader(readers: list[FieldReader]) -> FieldReader:
    def read(value: object) -> Any:  # noqa: ANN401
        return next((fit for reader in readers if (fit := reader(value)) is not _UNFIT), _UNFIT)

    return read


def _list_reader(reader: FieldReader, most: int | None) -> FieldReader:
    """Entries that do not fit are left out."""

    def read(value: object) -> Any:  # noqa: ANN401
        if not isinstance(value, (list, tuple)):
            return _UNFIT
        return [fit for part in value[:most] if (fit := reader(part)) is not _UNFIT]

    return read


def _row_reader(reader: FieldReader) -> FieldReader:
    """All entries have to fit: their places count."""

    def read(value: object) -> Any:  # noqa: ANN401
        if not isinstance(value, (list, tuple)):
            return _UNFIT
        found = tuple(map(reader, value[:_MOST_ENTRIES]))
        return _UNFIT if _UNFIT in found else found

    return read


def _tuple_reader(readers: list[FieldReader]) -> FieldReader:
    def read(value: object) -> Any:  # noqa: ANN401
        if not isinstance(value, (list, tuple)) or len(value) != len(readers):
            return _UNFIT
        found = tuple(reader(part) for reader, part in zip(readers, value, strict=True))
        return _UNFIT if _UNFIT in found else found

    return read


def _table_reader(reader: FieldReader) -> FieldReader:
    def read(value: object) -> Any:  # noqa: ANN401
        if not isinstance(value, Mapping):
            return _UNFIT
        parts = ((str(key), reader(part)) for key, part in list(value.items())[:_MOST_ENTRIES])
        return {key: fit for key, fit in parts if fit is not _UNFIT}

    return read


def _read_float(value: object) -> Any:  # noqa: ANN401
    """A number; JSON has the strings "nan", "inf" and "-inf" for those that are not finite."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return _UNFIT
    return float(value) if isinstance(value, str) and value in _NOT_FINITE else _UNFIT


def _read_finite(value: object) -> Any:  # noqa: ANN401
    number = _read_float(value)
    return number if number is not _UNFIT and math.isfinite(number) else _UNFIT


def _read_int(value: object) -> Any:  # noqa: ANN401
    if isinstance(value, int):
        return _UNFIT if isinstance(value, bool) else value
    return int(value) if isinstance(value, float) and math.isfinite(value) else _UNFIT


def _read_count(value: object) -> Any:  # noqa: ANN401
    number = _read_int(value)
    return number if number is _UNFIT else max(0, number)


def _read_positive(value: object) -> Any:  # noqa: ANN401
    number = _read_int(value)
    return number if number is not _UNFIT and number > 0 else _UNFIT


_PLAIN: dict[Any, FieldReader] = {
    bool: lambda value: value if isinstance(value, bool) else _UNFIT,
    int: _read_int,
    float: _read_float,
    str: lambda value: value[:_LONGEST_TEXT] if isinstance(value, str) else _UNFIT,
    type(None): lambda value: value if value is None else _UNFIT,
    Any: lambda value: value,
}
_LIMITED: dict[tuple[Any, ...], FieldReader] = {
    (float, FINITE): _read_finite,
    (int, NOT_NEGATIVE): _read_count,
    (int, POSITIVE): _read_positive,
    (str, LONG): lambda value: value if isinstance(value, str) else _UNFIT,
}
