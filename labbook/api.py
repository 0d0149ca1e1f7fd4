"""Adds numbers, notes and files from inside a program: `labbook.log()`, `labbook.note()` and `labbook.keep()`.

`labbook.trial()` marks one of several trainings in one program.

Outside a recorded run they do nothing, so they can stay in the program. They never raise and import nothing heavy.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

_MAX_NOTE = 4000
_MAX_NAME = 200


def log(numbers: Mapping[str, float] | int | None = None, /, step: int | None = None, **values: float) -> None:
    """Adds numbers to the entry of the recorded run; does nothing outside one and never raises.

    As `labbook.log(loss=0.5)`, `labbook.log(step, loss=0.5)` or `labbook.log({"val/loss": 0.5}, step=step)`.

    Args:
        numbers: Names and numbers, or the step.
        step: Step of the numbers; the last optimizer step by default.
        **values: Names and numbers. Scalars of NumPy, PyTorch and PaddlePaddle are numbers; anything else is left out,
            and the entry says so.
    """
    probe = _probe()
    if probe is None:
        return
    with probe.guard("labbook.log"):
        loggers = import_module("_labbook_probe.process.metric_loggers")
        if isinstance(numbers, Mapping):
            values = {**{str(name): value for name, value in numbers.items()}, **values}
        elif step is None:
            step = numbers
        for name, value in values.items():
            if loggers.number(value) is None:
                probe.unobserved(f"`{name}` of labbook.log", f"`{type(value).__name__}` is not a number")
        loggers.record(probe, "labbook", probe.step if step is None else step, values)


def keep(path: str | os.PathLike[str], name: str | None = None) -> None:
    """Keeps a file, or the files of a folder, with the recorded run; does nothing outside one and never raises.

    The recorder copies it within about a second, outside of this process: a file that is written again before that is
    kept in its later version, and the entry says so.

    Args:
        path: The file or folder; it must be complete, and closed by the program.
        name: Its name in the entry and for `labbook artifact get`; by default its path.
    """
    probe = _probe()
    if probe is None:
        return
    with probe.guard("labbook.keep"):
        full = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - `Path.absolute` leaves ".." in
        size, mtime_ns = -1, 0
        with suppress(OSError):
            status = os.stat(full)  # noqa: PTH116 - nothing is imported for one call
            if stat.S_ISREG(status.st_mode):
                size, mtime_ns = status.st_size, status.st_mtime_ns
        probe.event("keep", path=full, name=str(name or "")[:_MAX_NAME], size=size, mtime_ns=mtime_ns, step=probe.step)


@contextmanager
def trial(**params: float | str) -> Iterator[None]:
    """Marks one of several trainings in one program, so that it gets an entry of its own; never raises by itself.

    `for lr in (0.1, 0.01):` and below it `with labbook.trial(lr=lr): train(lr)`. Trials of Optuna and Hydra are known
    without it.

    Args:
        **params: The options of this trial.
    """
    probe, begun, state = _probe(), None, "complete"
    if probe is not None:
        with probe.guard("labbook.trial"):
            begun = probe.trials.begin("labbook", "", None, params)
    try:
        yield
    except BaseException as error:
        if begun is not None:
            with probe.guard("labbook.trial"):
                state = probe.trials.state_of(begun, error)
        raise
    finally:
        if begun is not None:
            with probe.guard("labbook.trial"):
                probe.trials.end(begun, state)


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
