"""Adds numbers and notes from inside a program: `labbook.log()` and `labbook.note()`.

Outside a recorded run both do nothing, so they can stay in the program. They never raise and import nothing heavy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

_MAX_NOTE = 4000


def log(step: int | None = None, **values: float) -> None:
    """Adds numbers to the entry of the recorded run; does nothing outside one and never raises.

    Args:
        step: Step of the numbers; the last optimizer step by default.
        **values: Names and numbers. Scalars of NumPy, PyTorch and PaddlePaddle are numbers; anything else is left out,
            and the entry says so.
    """
    probe = _probe()
    if probe is None:
        return
    with probe.guard("labbook.log"):
        loggers = import_module("_labbook_probe.process.metric_loggers")
        for name, value in values.items():
            if loggers.number(value) is None:
                probe.unobserved(f"{name} of labbook.log", f"{type(value).__name__} is not a number")
        loggers.record(probe, "labbook", probe.step if step is None else step, values)


def note(text: str) -> None:
    """Adds a note to the entry of the recorded run; does nothing outside one and never raises.

    Args:
        text: The sentence, cut at 4000 characters.
    """
    probe = _probe()
    if probe is None:
        return
    with probe.guard("labbook.note"):
        probe.event("note", text=str(text)[:_MAX_NOTE])


def _probe() -> Any:  # noqa: ANN401 - a class of the probe, which is not typed
    return getattr(sys, "_labbook_probe", None)
