"""Compares the clocks of the nodes of a job by the steps that its ranks make together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import cast

from labbook.model.events.process_kinds import Event
from labbook.model.events.training_kinds import State, Step
from labbook.store.journal import ProcessEvents

_FEWEST_STEPS = 3
_LEAST_S = 0.5
"""Smaller differences may come from the steps. Source: chosen by us."""

_SPREAD = 0.25
"""The differences at the steps lie within this part of their median, else the ranks do not step together. Source:
chosen by us."""


def clock_offsets(processes: Mapping[int, Sequence[ProcessEvents]]) -> dict[int, float]:
    """Returns by how many seconds the clock of each task is ahead of that of the first one; 0 where it is not known.

    Args:
        processes: Task -> its processes.
    """
    times = {task: _step_times(found) for task, found in processes.items()}
    first: dict[int, float] = next((each for _, each in sorted(times.items()) if each), {})
    return {task: _offset(each, first) for task, each in times.items()}


def _offset(times: Mapping[int, float], first: Mapping[int, float]) -> float:
    apart = [times[step] - first[step] for step in times.keys() & first.keys()]
    if len(apart) < _FEWEST_STEPS:
        return 0.0
    middle = median(apart)
    is_steady = max(abs(each - middle) for each in apart) <= _SPREAD * abs(middle)
    return middle if abs(middle) >= _LEAST_S and is_steady else 0.0


def _step_times(processes: Sequence[ProcessEvents]) -> dict[int, float]:
    """Returns step -> time at which a process of a group made it."""
    for process in processes:
        groups = [event.get("distributed", {}) for event in process.events_of_kind(State)]
        steps = [step for step in process.events_of_kind(Step) if step.get("n", 1) == 1 and not step.get("opt")]
        if steps and any(group.get("world_size", 0) > 1 for group in groups):
            return {step.get("step", 0): step.get("t", 0.0) for step in steps}
    return {}


def shift_clock(process: ProcessEvents, seconds: float) -> ProcessEvents:
    """Returns the events of a process as a clock would have timed them that is behind by some seconds."""
    if not seconds:
        return process
    events = tuple(
        cast(Event, {**event, "t": event["t"] - seconds}) if "t" in event else event for event in process.events
    )
    return replace(process, events=events)
