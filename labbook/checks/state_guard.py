"""Restores the state that a check changes: weights, buffers, gradients, modes, optimizer, random state."""

from __future__ import annotations

import random
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from labbook.checks.backend import Backend

_MAX_DEPTH = 5
_MAX_ITEMS = 20_000
"""Longer containers are data, not layer state; they are not searched. Source: chosen by us."""


@contextmanager
def preserve_state(backend: Backend, model: Any = None, optimizer: Any = None, loader: Any = None) -> Iterator[None]:  # noqa: ANN401
    """Context manager that restores model, optimizer and random state bitwise at the end.

    It works on the user's objects, since not every model can be copied. In a recorded run the probe is suspended.

    Cost: the memory of one copy of weights, buffers and optimizer state; copied twice.
    """
    with ExitStack() as undo:
        probe = getattr(sys, "_labbook_probe", None)
        if probe is not None:
            probe.suspended += 1
            undo.callback(_resume_probe, probe)
        _save_random_state(backend, loader, undo)
        snapshot = Snapshot(backend)
        undo.callback(snapshot.restore)
        if model is not None and hasattr(model, "parameters"):
            for _, module in backend.modules(model):
                snapshot.add(vars(module))
        if optimizer is not None:
            snapshot.add(vars(optimizer))
        for parameter in snapshot.parameters(model, optimizer):
            undo.callback(backend.set_gradient, parameter, backend.remove_gradient(parameter))
        yield


def _resume_probe(probe: Any) -> None:  # noqa: ANN401
    probe.suspended -= 1


def _save_random_state(backend: Backend, loader: Any, undo: ExitStack) -> None:  # noqa: ANN401
    undo.callback(backend.set_random_state, backend.random_state(loader))
    undo.callback(random.setstate, random.getstate())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        undo.callback(numpy.random.set_state, numpy.random.get_state())


class Snapshot:
    """Contents of containers and tensors, to restore in place.

    Args:
        backend: Copies tensors.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._seen: dict[int, Any] = {}
        self._undo: list[Callable[[], None]] = []

    def add(self, value: Any, depth: int = 0) -> None:  # noqa: ANN401
        """Save a container with its contents, or a tensor."""
        if id(value) in self._seen or depth > _MAX_DEPTH:
            return
        if self._backend.is_tensor(value):
            self._seen[id(value)] = value
            copy = self._backend.clone(value)
            if copy is not None:
                self._undo.append(lambda: self._backend.write_back(value, copy))
        elif type(value) in (dict, OrderedDict, defaultdict):
            self._seen[id(value)] = value
            items = list(value.items())
            self._undo.append(lambda: _refill(value, items))
            for _, part in items[:_MAX_ITEMS]:
                self.add(part, depth + 1)
        elif type(value) is list and len(value) <= _MAX_ITEMS:
            self._seen[id(value)] = value
            parts = list(value)
            self._undo.append(lambda: value.__setitem__(slice(None), parts))
            for part in parts:
                self.add(part, depth + 1)
        elif type(value) is set:
            self._seen[id(value)] = value
            members = set(value)
            self._undo.append(lambda: _refill_set(value, members))

    def parameters(self, model: Any, optimizer: Any) -> list[Any]:  # noqa: ANN401
        """Return the parameters of both, each once."""
        found = {}
        if model is not None and hasattr(model, "parameters"):
            found = {id(parameter): parameter for _, parameter in self._backend.parameters(model)}
        for parameter in self._backend.optimizer_parameters(optimizer) if optimizer is not None else ():
            found.setdefault(id(parameter), parameter)
        return list(found.values())

    def restore(self) -> None:
        """Restore everything, containers last, so that they contain the original tensors again."""
        for undo in reversed(self._undo):
            undo()


def _refill_set(value: set[Any], members: set[Any]) -> None:
    value.clear()
    value.update(members)


def _refill(value: dict[Any, Any], items: list[tuple[Any, Any]]) -> None:
    same = len(value) == len(items) and all(
        key is old and part is was for (key, part), (old, was) in zip(value.items(), items, strict=True)
    )
    if not same:
        value.clear()
        value.update(items)
