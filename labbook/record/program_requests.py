"""What `labbook record` is asked to do in the program besides looking, checked and made ready for the probe."""

from __future__ import annotations

from collections.abc import Sequence

from labbook.errors import UsageError
from labbook.record.watch_expressions import parse_condition

PROFILE_STEPS = 5
_MOST_PROFILED = 100
"""Source: chosen by us; a step of a small transformer makes some 10,000 events of a trace."""


def parse_requests(
    watch: Sequence[str] = (),
    breaks: Sequence[str] = (),
    stop_on: Sequence[str] = (),
    max_steps: int | None = None,
    profile: str | None = None,
) -> dict[str, object]:
    """The settings of the probe under `asked`; empty when nothing was asked for.

    Args:
        watch: Conditions of `--watch`.
        breaks: Conditions of `--break`.
        stop_on: Conditions of `--stop-on`.
        max_steps: Of `--max-steps`.
        profile: How many steps are profiled, as typed; `None` for none.

    Raises:
        UsageError: A condition that cannot be read, or a number out of range.
    """
    asked: dict[str, object] = {}
    for option, texts in (("watch", watch), ("break", breaks), ("stop-on", stop_on)):
        if texts:
            asked[option] = [[text.strip(), parse_condition(text, f"--{option}")] for text in texts]
    if max_steps is not None:
        if max_steps < 1:
            raise UsageError(f"--max-steps {max_steps}: there are no such steps", hint="give 1 or more")
        asked["max_steps"] = max_steps
    if profile is not None:
        asked["profile"] = _profiled(profile)
    return asked


def _profiled(typed: str) -> int:
    try:
        steps = int(typed)
    except ValueError:
        raise UsageError(
            f"--profile {typed}: that is no number of steps",
            hint="put `--` before the command: --profile -- python ...",
        ) from None
    if not 1 <= steps <= _MOST_PROFILED:
        raise UsageError(f"--profile {typed}: only 1 to {_MOST_PROFILED} steps can be profiled")
    return steps
