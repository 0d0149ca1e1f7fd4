"""Parses the options of `labbook record` that the probe carries out inside the program."""

from __future__ import annotations

from collections.abc import Sequence

from labbook.errors import UsageError
from labbook.record.watch_expressions import parse_condition

_MOST_PROFILED = 100
"""Source: chosen by us; a step of a small transformer makes some 10,000 events of a trace."""


def parse_requests(
    watch: Sequence[str] = (),
    breaks: Sequence[str] = (),
    stop_on: Sequence[str] = (),
    max_steps: int | None = None,
    profile: str | None = None,
) -> dict[str, object]:
    """Returns the settings of the probe under `asked`; empty if no option was given.

    Args:
        watch: Conditions of `--watch`.
        breaks: Conditions of `--break`.
        stop_on: Conditions of `--stop-on`.
        profile: Number of steps to profile, as typed; `None` for no profile.

    Raises:
        UsageError: A condition cannot be parsed, or a number is out of range.
    """
    requests: dict[str, object] = {}
    for option, texts in (("watch", watch), ("break", breaks), ("stop-on", stop_on)):
        if texts:
            requests[option] = [[text.strip(), parse_condition(text, f"--{option}")] for text in texts]
    if max_steps is not None:
        if max_steps < 1:
            raise UsageError("errors.record.max_steps", steps=max_steps)
        requests["max_steps"] = max_steps
    if profile is not None:
        requests["profile"] = _parse_step_count(profile)
    return requests


def _parse_step_count(typed: str) -> int:
    try:
        steps = int(typed)
    except ValueError:
        raise UsageError("errors.record.profile_no_number", typed=typed) from None
    if not 1 <= steps <= _MOST_PROFILED:
        raise UsageError("errors.record.profile_too_many", typed=typed, most=_MOST_PROFILED)
    return steps
