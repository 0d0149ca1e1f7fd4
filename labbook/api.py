"""What a program may tell its notebook itself: `labbook.log()` and `labbook.note()`.

Outside a recorded run both do nothing, so they can stay in the program. They never raise and import nothing heavy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

_MAX_NOTE = 4000


def log(step: int | None = None, **values: float) -> None:
    """Adds numbers to the entry of the run that is being recorded; does nothing outside one. Never raises.

    Args:
        step: Where the numbers belong; the last optimizer step when left out.
        **values: Name and number; scalars of NumPy, PyTorch and PaddlePaddle count as numbers, anything else is left
            out and the entry says so.
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
    """Adds a sentence to the entry of the run that is being recorded; does nothing outside one. Never raises.

    Args:
        text: The sentence; at most 4000 characters are kept.
    """
    probe = _probe()
    if probe is None:
        return
    with probe.guard("labbook.note"):
        probe.event("note", text=str(text)[:_MAX_NOTE])


def _probe() -> Any:  # noqa: ANN401 - a class of the island, which is not typed
    return getattr(sys, "_labbook_probe", None)
