"""Events about what the user asked for: `--watch`, `--stop-on`, `--profile`, `labbook.checks`, `labbook.keep` ..."""

from __future__ import annotations

from typing import Any, TypedDict

from labbook.model.events.field_types import Count, Finite, Options, Text
from labbook.model.events.process_kinds import Event


class Keep(Event, total=False):
    """A call of `labbook.keep()`."""

    path: Text
    name: Text
    size: int
    mtime_ns: int
    step: int | None


class Moment(Event, total=False):
    """A condition came true."""

    option: str
    expression: Text
    step: int | None
    values: dict[str, float]
    batch: Options | None
    series: dict[str, list[float | None]]
    steps: dict[str, list[int]]
    line: str
    note: str


class WatchResult(Event, total=False):
    """What became of a condition, at exit."""

    option: str
    expression: Text
    held: Count
    moments: Count
    looked: Count
    first: int | None
    last: int | None
    missing: list[str]


class StopResult(Event, total=False):
    """The run was ended as asked."""

    option: str
    expression: Text
    step: int | None
    how: str
    status: int


class ProfileRow(TypedDict, total=False):
    """An operator in a profile."""

    name: Text
    calls: Count
    own_ms: Finite | None
    total_ms: Finite | None
    device_ms: Finite | None


class Profile(Event, total=False):
    """The framework's profiler ran for a few steps."""

    begin_step: Count
    end_step: Count
    seconds: Finite
    device: bool
    rows: list[ProfileRow]
    operators: Count
    trace: Text


class CheckReport(Event, total=False):
    """A result of `labbook.checks`."""

    check: str
    title: Text
    summary: Text
    verdict: str
    columns: list[Text]
    rows: list[list[Any]]
    said: dict[str, Any]
    left_out: Count
    line: str
