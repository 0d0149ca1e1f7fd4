"""Takes a batch apart: what goes into the model, what the loss compares with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from labbook.checks.backend import Backend, mapped, named

Loss = Callable[..., Any]


@dataclass(frozen=True)
class Forward:
    """One forward pass.

    Args:
        outputs: What the model returned.
        prediction: Its first floating-point tensor, `None` where there is none.
        loss: What the loss function returned, `None` without one.
    """

    outputs: Any
    prediction: Any
    loss: Any


@dataclass(frozen=True)
class Batch:
    """A batch as the checks read it.

    A pair or longer tuple is inputs and, last, targets; a dictionary goes to the model by name; anything else is the
    one input.

    Args:
        whole: As the loader gave it, where the model is.
        inputs: Positional inputs of the model; empty for a dictionary.
        named: Inputs by name.
        target: What the loss compares with; the whole dictionary for one; `None` for a lone input.
    """

    whole: Any
    inputs: tuple[Any, ...]
    named: Mapping[str, Any]
    target: Any

    def run(self, model: Any, loss: Loss | None, backend: Backend) -> Forward:  # noqa: ANN401
        """Calls the model and the loss."""
        outputs = model(**self.named) if self.named else model(*self.inputs)
        prediction = next((t for _, t in named(_plain(outputs)) if backend.is_tensor(t) and backend.is_float(t)), None)
        if loss is not None:
            return Forward(outputs, prediction, _first(loss(outputs, self.target)))
        own = getattr(outputs, "loss", None)
        if own is None and isinstance(outputs, Mapping):
            own = outputs.get("loss")
        if own is not None:
            logits = getattr(outputs, "logits", None)
            return Forward(outputs, logits if logits is not None else prediction, own)
        return Forward(outputs, prediction, None)

    def part(self, count: int, backend: Backend) -> Batch:
        """The first samples of the batch."""

        def cut(value: Any) -> Any:  # noqa: ANN401
            return value[:count] if backend.is_tensor(value) and len(value.shape) > 0 else value

        return Batch(
            mapped(self.whole, cut), mapped(self.inputs, cut), mapped(self.named, cut), mapped(self.target, cut)
        )

    def leaves(self, backend: Backend) -> list[tuple[str, Any]]:
        """Names and tensors."""
        return [(path or "input", value) for path, value in named(self.whole) if backend.is_tensor(value)]

    def samples(self, backend: Backend) -> int:
        """Length of the first axis; 0 where there is none."""
        first = next((t for _, t in self.leaves(backend) if len(t.shape) > 0), None)
        return 0 if first is None else int(first.shape[0])


def split_batch(value: Any, model: Any, backend: Backend) -> Batch:  # noqa: ANN401
    """Takes a batch apart, after moving its tensors to where the model is."""
    whole = mapped(value, lambda part: backend.move(part, model) if backend.is_tensor(part) else part)
    if isinstance(whole, Mapping):
        return Batch(whole, (), whole, whole)
    if isinstance(whole, (tuple, list)) and len(whole) > 1:
        return Batch(whole, tuple(whole[:-1]), {}, whole[-1])
    if isinstance(whole, (tuple, list)) and len(whole) == 1:
        return Batch(whole, (whole[0],), {}, None)
    return Batch(whole, (whole,), {}, None)


def first_batch(loader: Iterable[Any]) -> tuple[Any, bool]:
    """The first batch, and whether it was taken from an iterator, which cannot be put back.

    Raises:
        ValueError: There is none.
    """
    spent = iter(loader) is loader
    # A loader that keeps its workers would keep an iterator of ours.
    source = copy.copy(loader) if hasattr(loader, "_iterator") else loader
    for batch in source:
        return batch, spent
    raise ValueError("labbook.checks: the loader gave no batch")


def _plain(outputs: Any) -> Any:  # noqa: ANN401
    """Outputs as nested containers; a record of fields as its values."""
    if isinstance(outputs, (Mapping, list, tuple)) or not hasattr(outputs, "__dict__"):
        return outputs
    return dict(vars(outputs)) if hasattr(type(outputs), "__dataclass_fields__") else outputs


def _first(value: Any) -> Any:  # noqa: ANN401
    return value[0] if isinstance(value, (tuple, list)) and value else value
