"""Selects the backend of the checks by the type of the passed objects."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from labbook.checks.backend import Backend


def choose_backend(*things: object) -> Backend:
    """Return the backend of the framework of these objects, also inside lists, tuples and dictionaries.

    Raises:
        TypeError: The objects belong to no supported framework.
    """
    for thing in flat(things):
        for kind in type(thing).__mro__:
            family = kind.__module__.partition(".")[0]
            if family == "torch" and "torch" in sys.modules:
                from labbook.checks.torch_backend import TorchBackend

                return TorchBackend()
            if family == "paddle" and "paddle" in sys.modules:
                from labbook.checks.paddle_backend import PaddleBackend

                return PaddleBackend()
    names = ", ".join(sorted({type(thing).__name__ for thing in things}))
    raise TypeError(f"labbook.checks: no object of PyTorch or PaddlePaddle among {names}")


def flat(value: object) -> Iterator[object]:
    """Iterate over the objects in nested lists, tuples and dictionaries."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from flat(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from flat(part)
    else:
        yield value
