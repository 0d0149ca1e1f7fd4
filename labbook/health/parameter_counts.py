"""Counts the parameters of the modules of a model."""

from __future__ import annotations

import math
from collections.abc import Iterator

from labbook.model.events.inspection_kinds import Model

_MOST_SHARED = 100
"""Groups of shared parameters that the probe lists."""


def count_parameters(model: Model) -> dict[str, tuple[int, int]]:
    """Name of a module -> parameters and trainable parameters in it and in all modules below it.

    A parameter that several modules share counts once in each module that has it, where all parameters are listed.
    Modules of which the probe left out a part, those around the last one, have no number; the root has zero.
    """
    listed, shared = model.get("parameters", []), model.get("shared", [])
    found: dict[str, tuple[int, int]] = {"": (0, 0)}

    def add(modules: Iterator[str] | set[str], every: int, trainable: int) -> None:
        for name in modules:
            before = found.get(name, (0, 0))
            found[name] = before[0] + every, before[1] + trainable

    if not listed or model.get("left_out", {}).get("parameters") or len(shared) >= _MOST_SHARED:
        rows = model.get("modules", [])
        for row in rows:
            add(_with_parents(row.get("name", "")), row.get("parameters", 0), row.get("trainable", 0))
        if rows and model.get("left_out", {}).get("modules"):
            for name in _with_parents(rows[-1].get("name", "").rpartition(".")[0]):
                found.pop(name, None)
            found[""] = (0, 0)
        return found
    others = {names[0]: names for names in shared if names}
    for parameter in listed:
        name, shape = parameter.get("name", ""), parameter.get("shape", ())
        is_state = len(shape) < 2 and "int" in parameter.get("dtype", "")  # of a generator of Keras
        size = 0 if is_state else math.prod(shape)
        owners = {above for alias in others.get(name, [name]) for above in _with_parents(alias.rpartition(".")[0])}
        add(owners, size, size if parameter.get("trainable", False) else 0)
    return found


def _with_parents(module: str) -> Iterator[str]:
    yield module
    while module:
        module = module.rpartition(".")[0]
        yield module
