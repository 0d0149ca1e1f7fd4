"""Splits a batch into model inputs and targets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from labbook.checks.backend import Backend, iter_named_leaves, map_leaves

Loss = Callable[..., Any]


@dataclass(frozen=True)
class Forward:
    """One forward pass.

    Args:
        outputs: Return value of the model.
        prediction: First floating-point tensor of the outputs, or `None`.
        loss: Return value of the loss function, or `None`.
    """

    outputs: Any
    prediction: Any
    loss: Any


@dataclass(frozen=True)
class Batch:
    """A batch, split into inputs and target.

    A tuple of two or more items is inputs and, last, the target; a dictionary is passed as keyword arguments; any other
    value is the only input.

    Args:
        whole: The batch as loaded, on the device of the model.
        inputs: Positional inputs of the model; empty for a dictionary.
        target: Target of the loss; the whole dictionary for a dictionary; `None` for a single input.
    """

    whole: Any
    inputs: tuple[Any, ...]
    named: Mapping[str, Any]
    target: Any

    def run(self, model: Any, loss: Loss | None, backend: Backend) -> Forward:  # noqa: ANN401
        """Call the model and the loss."""
        outputs = model(**self.named) if self.named else model(*self.inputs)
        prediction = next(
            (t for _, t in iter_named_leaves(_as_containers(outputs)) if backend.is_tensor(t) and backend.is_float(t)),
            None,
        )
        if loss is not None:
            return Forward(outputs, prediction, _first_element(loss(outputs, self.target)))
        own = getattr(outputs, "loss", None)
        if own is None and isinstance(outputs, Mapping):
            own = outputs.get("loss")
        if own is not None:
            logits = getattr(outputs, "logits", None)
            return Forward(outputs, logits if logits is not None else prediction, own)
        return Forward(outputs, prediction, None)

    def take_first(self, count: int, backend: Backend) -> Batch:
        """The first samples of the batch."""

        def cut(value: Any) -> Any:  # noqa: ANN401
            return value[:count] if backend.is_tensor(value) and len(value.shape) > 0 else value

        return Batch(
            map_leaves(self.whole, cut),
            map_leaves(self.inputs, cut),
            map_leaves(self.named, cut),
            map_leaves(self.target, cut),
        )

    def named_tensors(self, backend: Backend) -> list[tuple[str, Any]]:
        """Return paths and tensors of the batch."""
        return [(path or "input", value) for path, value in iter_named_leaves(self.whole) if backend.is_tensor(value)]

    def samples(self, backend: Backend) -> int:
        """Number of samples (length of the first axis), or 0."""
        first = next((t for _, t in self.named_tensors(backend) if len(t.shape) > 0), None)
        return 0 if first is None else int(first.shape[0])


def split_batch(value: Any, model: Any, backend: Backend) -> Batch:  # noqa: ANN401
    """Move a batch to the device of the model and split it."""
    whole = map_leaves(value, lambda part: backend.move(part, model) if backend.is_tensor(part) else part)
    if isinstance(whole, Mapping):
        return Batch(whole, (), whole, whole)
    if isinstance(whole, (tuple, list)) and len(whole) > 1:
        return Batch(whole, tuple(whole[:-1]), {}, whole[-1])
    if isinstance(whole, (tuple, list)) and len(whole) == 1:
        return Batch(whole, (whole[0],), {}, None)
    return Batch(whole, (whole,), {}, None)


def first_batch(loader: Iterable[Any]) -> tuple[Any, bool]:
    """Return the first batch, and whether it was consumed from an iterator.

    Raises:
        ValueError: The loader is empty.
    """
    spent = iter(loader) is loader
    # With `persistent_workers` the loader would reuse this iterator.
    source = copy.copy(loader) if hasattr(loader, "_iterator") else loader
    for batch in source:
        return batch, spent
    raise ValueError("labbook.checks: the loader gave no batch")


def _as_containers(outputs: Any) -> Any:  # noqa: ANN401
    """Return outputs as nested containers; a dataclass as a dictionary."""
    if isinstance(outputs, (Mapping, list, tuple)) or not hasattr(outputs, "__dict__"):
        return outputs
    return dict(vars(outputs)) if hasattr(type(outputs), "__dataclass_fields__") else outputs


def _first_element(value: Any) -> Any:  # noqa: ANN401
    return value[0] if isinstance(value, (tuple, list)) and value else value
