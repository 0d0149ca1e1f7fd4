"""The names of a query: fields with known values, and all fields, options and metrics of the runs of a notebook."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from labbook.frozen import dataclass
from labbook.index.query_error import QueryError
from labbook.model.run_fields import (
    ALIASES,
    METRIC_PARTS,
    as_number,
    field_key,
    field_values,
    is_equal,
    option_keys,
    option_names,
)

if TYPE_CHECKING:
    import sqlite3

FILTERS = (
    *("status", "verdict", "experiment", "framework", "symptom", "check", "family", "fingerprint", "tag", "author"),
    *("project", "script", "host", "mode", "kind", "id", "path", "option", "has", "since", "before"),
)
"""Fields that the index has itself."""

VALUES = {
    "status": ("finished", "failed", "interrupted", "killed", "lost", "running"),
    "verdict": ("healthy", "suspect", "unhealthy", "failed", "unknown"),
    "kind": ("run", "experiment", "symptom", "report", "note"),
    "has": ("fix", "symptom", "metrics", "tag", "previous", "artifact", "problem"),
}
"""Field -> all its values."""

SAME_FIELD = {"check": "symptom", "tags": "tag", "symptoms": "symptom", "frameworks": "framework", "started": "since"}
"""Other names of fields."""

_LINKS = frozenset({"parents", "resumed_from", "trial_of", "sweep", "previous", "fix", "job", "attempt_before"})
"""Fields that lead to other runs: they can be asked for before a run has one."""

_INTERNAL = frozenset({"schema", "verdict_reason", "direction"})
"""Fields of front matters that hold keys of messages and the like."""

CONTAINS = frozenset({"experiment", "project", "author", "script", "host", "path"})
EXACT = frozenset({*VALUES, "mode", "option"})

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|min|h|d)")
_AGE = re.compile(r"(\d{1,5})([hdw])")
_DAY_S = 86400.0
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Filter:
    """`key:value`: notes with one of `values`, or, if `negated`, notes with none of them.

    Args:
        operator: ":" (begins with, or has), "=" (is), "<", "<=", ">" or ">=" (numbers).
    """

    key: str
    values: tuple[str, ...]
    negated: bool = False
    operator: str = ":"


@dataclass(frozen=True)
class FieldNames:
    """All names by which runs of a notebook can be filtered.

    Args:
        fields: Fields of front matters besides options and metrics.
    """

    fields: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    def is_known(self, key: str) -> bool:
        """Whether a key is a field of the index, a field, an option or a metric."""
        own = (FILTERS, SAME_FIELD, _LINKS)
        return any(key.lower() in names for names in own) or field_key(ALIASES.get(key, key)) in _keys(self)

    def has_option(self, name: str) -> bool:
        """Whether a run has an option of this name."""
        return field_key(name) in {key for one in self.params for key in option_keys(one)}

    def all_names(self) -> list[str]:
        """Returns all names that people use, those of the index first."""
        return [*FILTERS, *self.params, *self.metrics, *ALIASES, *(f for f in self.fields if f not in _INTERNAL)]


@lru_cache(maxsize=8)
def _keys(names: FieldNames) -> frozenset[str]:
    keys = {field_key(name) for name in (*names.fields, *names.metrics)}
    keys.update(f"{field_key(name)}_{part}" for name in names.metrics for part in METRIC_PARTS)
    return frozenset(keys.union(*(option_keys(name) for name in names.params)))


def field_names(index: sqlite3.Connection) -> FieldNames:
    """Returns the names of all runs of the index, in alphabetical order."""
    found: dict[str, list[str]] = {"field": [], "param": [], "metric": []}
    for kind, name in index.execute("SELECT kind, name FROM names ORDER BY name").fetchall():
        found[kind].append(name)
    return FieldNames(tuple(found["field"]), tuple(found["param"]), tuple(found["metric"]))


def fits(front: str, condition: str) -> bool:
    """Whether a run has a value that fits a condition; called by SQLite.

    Args:
        front: Front matter as JSON.
        condition: [key, operator, values] as JSON.
    """
    key, operator, wanted = _read(condition)
    if key == "option":
        names = set().union(*(option_keys(name) for name in option_names(_read(front))))
        return any(field_key(one) in names for one in wanted)
    values = field_values(_read(front), key)
    return any(_fits(value, operator, one) for value in values for one in wanted)


@lru_cache(maxsize=1024)
def value_fits(value: str, condition: str) -> bool:
    """Whether a value, as JSON, fits a condition as in `fits`; called by SQLite."""
    _, operator, wanted = _read(condition)
    return any(_fits(json.loads(value), operator, one) for one in wanted)


@lru_cache(maxsize=64)
def _read(text: str) -> Any:  # noqa: ANN401 - JSON data
    return json.loads(text)


def condition_json(wanted: Filter) -> str:
    """Returns a condition for `fits`."""
    return json.dumps([wanted.key, wanted.operator, wanted.values])


def check_filter(wanted: Filter) -> Filter:
    """Returns a filter with its values as they are compared.

    Raises:
        QueryError: The field cannot be compared with the value.
    """
    is_ordered = wanted.operator not in (":", "=")
    if wanted.key in FILTERS and is_ordered:
        raise QueryError("terminal.query.not_a_number", name=wanted.key, advice="terminal.query.text_operators")
    values = [_seconds(value) for value in wanted.values] if wanted.key in ("duration", "duration_s") else wanted.values
    if is_ordered and (bad := [value for value in values if as_number(value) is None]):
        raise QueryError(
            "terminal.query.bad_number", value=bad[0], name=wanted.key, advice="terminal.query.number_advice"
        )
    return Filter(wanted.key, tuple(values), wanted.negated, wanted.operator)


def _seconds(text: str) -> str:
    """Returns `1.5h` as seconds; other text as it is."""
    parted = _DURATION.fullmatch(text.lower())
    return str(float(parted.group(1)) * _UNITS_S[parted.group(2)]) if parted else text


def _fits(value: object, operator: str, wanted: str) -> bool:
    number, other = as_number(value), as_number(wanted)
    if operator in (":", "="):
        if number is not None and other is not None:
            return is_equal(number, other)
        text, low = str(value).lower(), wanted.lower()
        if "*" in low:
            return fnmatch.fnmatchcase(text, low)
        return text == low if operator == "=" else low in text
    if number is None or other is None or number != number or other != other:
        return False
    return {"<": number < other, "<=": number <= other, ">": number > other, ">=": number >= other}[operator]


def known_values(index: sqlite3.Connection, key: str) -> list[str]:
    """Returns the values of a field of the index, the most frequent first."""
    rows = index.execute("SELECT value FROM facets WHERE key = ? GROUP BY value ORDER BY count(*) DESC, value", (key,))
    return [value for (value,) in rows.fetchall()]


def unmatched_value(index: sqlite3.Connection, filters: Iterable[Filter]) -> tuple[Filter, Sequence[str]] | None:
    """Returns the first filter with a value that no note has, and the values that notes have."""
    for wanted in filters:
        if wanted.negated or wanted.key not in FILTERS or wanted.key in ("id", "path", "fingerprint", "option"):
            continue
        known = known_values(index, wanted.key)
        if known and not any(_matches(wanted, value) for value in known):
            return wanted, known
    return None


def _matches(wanted: Filter, value: str) -> bool:
    if wanted.operator == "=" or wanted.key in EXACT:
        return value in wanted.values
    return any(one in value if wanted.key in CONTAINS else value.startswith(one) for one in wanted.values)


def read_day(value: str, now: datetime) -> tuple[float, float]:
    """Returns the Unix seconds of the start and the end of a day, week or month."""
    begin = read_moment(value, now)
    first = date.fromtimestamp(begin)
    is_month = value[:4].isdigit() and len(value) == len("2026-11")
    last = (first + timedelta(31)).replace(day=1) if is_month else first + timedelta(7 if "W" in value.upper() else 1)
    return begin, datetime(last.year, last.month, last.day).astimezone().timestamp()


def read_moment(value: str, now: datetime) -> float:
    """Returns the Unix seconds of the start of a day, week or month, or of an age before now."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    age = _AGE.fullmatch(value.lower())
    try:
        if age:
            unit = {"h": 3600.0, "d": _DAY_S, "w": 7 * _DAY_S}[age.group(2)]
            return now.timestamp() - int(age.group(1)) * unit
        if value.lower() in ("today", "今天"):
            return today.timestamp()
        if value.lower() in ("yesterday", "昨天"):
            return (today - timedelta(days=1)).timestamp()
        if "W" in value.upper():
            year, _, week = value.upper().partition("-W")
            day: date = date.fromisocalendar(int(year), int(week), 1)
        else:
            day = date.fromisoformat(value if len(value) > 7 else f"{value}-01")
        return datetime(day.year, day.month, day.day).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise QueryError("terminal.query.bad_date", value=value, advice="terminal.query.date_advice") from None
