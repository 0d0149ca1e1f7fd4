"""Typed access to fields of probe events; a field of another type than expected counts as missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Facts = Mapping[str, Any]


def number(facts: Facts, *path: str) -> float | None:
    """The number at this path of keys; `None` when there is none. It may be NaN or infinite."""
    value = at(facts, *path)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)


def finite(facts: Facts, *path: str) -> float | None:
    """The number at this path when it is finite, else `None`."""
    value = number(facts, *path)
    return value if value is not None and math.isfinite(value) else None


def count(facts: Facts, *path: str) -> int:
    """The count at this path; 0 when there is none."""
    value = finite(facts, *path)
    return 0 if value is None else max(0, int(value))


def flag(facts: Facts, *path: str) -> bool:
    """Whether the value at this path is true."""
    return at(facts, *path) is True


def words(facts: Facts, *path: str) -> str:
    """The text at this path; "" when there is none."""
    value = at(facts, *path)
    return value if isinstance(value, str) else ""


def names(facts: Facts, *path: str) -> list[str]:
    """The list of texts at this path; empty when there is none."""
    value = at(facts, *path)
    return [v for v in value if isinstance(v, str)] if isinstance(value, (list, tuple)) else []


def table(facts: Facts, *path: str) -> Facts:
    """The object at this path; empty when there is none."""
    value = at(facts, *path)
    return value if isinstance(value, Mapping) else {}


def rows(facts: Facts, *path: str) -> list[Facts]:
    """The objects in the list at this path; empty when there is none."""
    value = at(facts, *path)
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, (list, tuple)) else []


def shape(facts: Facts, *path: str) -> tuple[int, ...]:
    """The shape at this path; empty when there is none."""
    value = at(facts, *path)
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, int) for v in value):
        return ()
    return tuple(value)


def nans(facts: Facts) -> int:
    """Returns how many NaN a tensor has; where only their presence is known, all its non-finite values."""
    return count(facts, "bad") if facts.get("nan") is True else count(facts, "nan")


def histogram(facts: Facts, *path: str) -> dict[str, int]:
    """Class -> count at this path; empty when there is none."""
    return {str(k): int(v) for k, v in table(facts, *path).items() if isinstance(v, (int, float)) and v > 0}


def at(facts: Facts, *path: str) -> Any:  # noqa: ANN401 - JSON data
    """The value at this path of keys, `None` when it ends before."""
    value: Any = facts
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value
