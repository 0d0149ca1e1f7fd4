"""What a rank measured of its steps: their time, collective calls and losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from labbook.model.events.process_kinds import Stacks
from labbook.model.events.training_kinds import Step
from labbook.record.run_from_journal.rank_differences import devices_used
from labbook.store.journal import ProcessEvents

_FEWEST_STEPS = 5


def own_step_s(process: ProcessEvents) -> float | None:
    """Returns the median seconds of a rank's own work in a step; `None` if it is not known.

    That is data, forward and the rest, without the collective calls of the program. Ranks wait for each other in the
    backward and in the optimizer step, too, where gradients are averaged. PaddlePaddle's calls are not timed, so that
    the rest is not known there. On an accelerator the host waits wherever it reads a value: only the time for data is
    known to be its own.
    """
    on_cpu, own = _is_on_cpu(process), []
    for event in process.events_of_kind(Step):
        phases, waited = event.get("ph"), event.get("collective", 0.0)
        if not phases:
            continue
        names = ("data", "forward", "other") if event.get("framework") == "torch" else ("data", "forward")
        if not on_cpu:
            own.append(phases.get("data", 0.0))
        elif math.isfinite(waited):
            spent = sum(seconds for name, seconds in phases.items() if name in names and isinstance(seconds, float))
            own.append(max(0.0, spent - waited))
    return _median_s(own)


def _is_on_cpu(process: ProcessEvents) -> bool:
    devices = devices_used(process)
    return bool(devices) and all("cpu" in name.lower() for name in devices)


def step_s(process: ProcessEvents) -> float | None:
    """Returns the median seconds of a step of a rank; `None` if it is not known."""
    times = [event["dt"] for event in process.events_of_kind(Step) if math.isfinite(event.get("dt", math.nan))]
    return _median_s(times)


def data_s(process: ProcessEvents) -> float | None:
    """Returns the median seconds that a rank waits for data in a step; `None` if it is not known."""
    times = [event["ph"].get("data", 0.0) for event in process.events_of_kind(Step) if event.get("ph")]
    return _median_s(times)


def _median_s(times: Sequence[float]) -> float | None:
    return round(median(times), 6) if len(times) >= _FEWEST_STEPS else None


def collective_calls(process: ProcessEvents) -> dict[int, int]:
    """Returns how many collective calls the program made in each step of which it is known: step -> calls."""
    return {
        event["step"]: event["calls"]
        for event in process.events_of_kind(Step)
        if "calls" in event and event.get("n") == 1
    }


def collective_order(process: ProcessEvents) -> dict[int, str]:
    """Returns the last collective calls of all ranks that the program began before it hung: number -> name."""
    known = [event["collectives"] for event in process.events_of_kind(Stacks) if "collectives" in event]
    if not known:
        return {}
    names = known[-1].get("last", [])
    return dict(enumerate(names, known[-1].get("made", 0) - len(names) + 1))


def first_bad_loss(process: ProcessEvents) -> tuple[int, str] | None:
    """Returns the first step with a loss that is not finite, and that loss: "nan", "inf" or "-inf"; else `None`.

    The probe ends a window of steps at the first such loss.
    """
    for event in process.events_of_kind(Step):
        loss = event.get("loss")
        for value in loss if isinstance(loss, tuple) else (loss,):
            if isinstance(value, float) and not math.isfinite(value):
                return event.get("step", 0), str(value)
    return None
