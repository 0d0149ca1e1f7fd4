"""Conversion between a `Run` and the plain data of `run.json`."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from labbook import __version__
from labbook.model.downsampling import downsample
from labbook.model.run import Run
from labbook.model.series import Series

RUN_SCHEMA = 1
"""Format version of `run.json`; a reader accepts every version and ignores what it does not know."""


def run_to_json(run: Run, max_points: int | None = None) -> dict[str, Any]:
    """Convert a run to JSON data, with the version of labbook; non-finite numbers become "nan", "inf" and "-inf".

    Args:
        max_points: Maximum number of points of a series, always with its extremes and ends; `None`: all.
    """
    if max_points is not None:
        run = dataclasses.replace(run, series=tuple(downsample(s, max_points) for s in run.series))
    return {"schema": RUN_SCHEMA, "labbook": __version__, **_encoded_object(run)}


def line_by_line(facts: Mapping[str, Any]) -> str:
    """Format a JSON object with one line per field, so that a diff names the field."""
    fields = (
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False, default=str)}" for key, value in facts.items()
    )
    return "{\n" + ",\n".join(fields) + "\n}\n"


def run_from_json(data: Mapping[str, Any]) -> Run:
    """Read a run from JSON data; unknown keys are ignored, missing or unusable ones get their default.

    Raises:
        Nothing: a file of another version, or one edited by hand, gives the fields that can be read.
    """
    defaults = {"id": "", "status": "lost", "argv": (), "cwd": "", "started": 0.0}
    return typing.cast(Run, _decode_object(Run, {**defaults, **data}))


def _encoded_object(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any of the model's dataclasses
    encoded: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        if not field.metadata.get("stored", True):
            continue
        part = getattr(value, field.name)
        if isinstance(value, Series) and field.name in ("low", "high") and _equal_values(part, value.values):
            continue
        encoded[field.name] = _encode(part)
    return encoded


def _equal_values(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a == b or (a != a and b != b) for a, b in pairs)


def _encode(value: Any) -> Any:  # noqa: ANN401 - JSON data
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if dataclasses.is_dataclass(value):
        return _encoded_object(value)
    if isinstance(value, Mapping):
        return {str(key): _encode(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_encode(part) for part in value]
    return str(value)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode_object(kind: Any, data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any of the model's dataclasses
    """Create an instance of a dataclass; a field whose value does not match its type gets its default."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name not in data or not field.metadata.get("stored", True):
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                values[field.name] = _default_value(_hints(kind)[field.name])
            continue
        try:
            values[field.name] = _decode(_hints(kind)[field.name], data[field.name])
        except (TypeError, ValueError):
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                values[field.name] = _default_value(_hints(kind)[field.name])
    if kind is Series:
        # Omitted in the file if each point is one step.
        values.setdefault("low", values["values"])
        values.setdefault("high", values["values"])
    return kind(**values)


def _default_value(hint: Any) -> Any:  # noqa: ANN401 - a value of that type
    origin = typing.get_origin(hint)
    if origin is tuple:
        return ()
    if origin in (types.UnionType, typing.Union):
        return None
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {}
    return hint()


def _decode(hint: Any, value: Any) -> Any:  # noqa: ANN401 - a value of that type
    """Convert `value` to the type `hint`.

    Raises:
        TypeError: The value has another type.
        ValueError: The value cannot be converted.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _decode(next(h for h in inner if h is not type(None)), value)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise TypeError(hint)
        if inner[-1] is Ellipsis:
            return tuple(_decode(inner[0], part) for part in value)
        return tuple(_decode(h, part) for h, part in zip(inner, value, strict=True))
    if origin is not None or hint is Any:
        if origin is not None and not isinstance(value, Mapping):
            raise TypeError(hint)
        return value
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise TypeError(hint)
        return _decode_object(hint, value)
    return _scalar(hint, value)


def _scalar(hint: type, value: Any) -> Any:  # noqa: ANN401 - JSON data
    if hint is float and (isinstance(value, (int, float)) or value in ("nan", "inf", "-inf")):
        return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r} is no {hint.__name__}")
