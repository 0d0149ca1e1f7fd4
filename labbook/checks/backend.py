"""What the checks need of a framework: one interface, two implementations, chosen by the objects that were given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Backend(Protocol):
    """A framework, seen from the checks. Tensors, modules and optimizers are those of the framework."""

    name: str

    def is_tensor(self, value: Any) -> bool:  # noqa: ANN401
        """Whether it is one of its tensors."""

    def array(self, tensor: Any) -> Any:  # noqa: ANN401
        """Its values in host memory as a NumPy array, floats in double precision."""

    def dtype(self, tensor: Any) -> str:  # noqa: ANN401
        """Name of its element type, "float32"."""

    def is_float(self, tensor: Any) -> bool:  # noqa: ANN401
        """Whether its elements are real floating-point numbers."""

    def n_bytes(self, tensor: Any) -> int:  # noqa: ANN401
        """Its size in bytes."""

    def leaf(self, tensor: Any, *, double: bool) -> Any:  # noqa: ANN401
        """A copy that requires gradients, in double precision where asked for."""

    def tensor_like(self, array: Any, tensor: Any) -> Any:  # noqa: ANN401
        """A NumPy array as a tensor of the kind and place of another."""

    def parameters(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Names and parameters, each once; statistics that are no parameters left out."""

    def trainable(self, parameter: Any) -> bool:  # noqa: ANN401
        """Whether it is trained."""

    def modules(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Names and modules of the tree, the root first with the name ""."""

    def leaves(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Those without modules below them."""

    def watch(self, module: Any, seen: Callable[[Any], None]) -> Callable[[], None]:  # noqa: ANN401
        """Has `seen(output)` called after each call of a module; returns what ends it."""

    def training(self, module: Any) -> bool:  # noqa: ANN401
        """Its mode."""

    def set_training(self, model: Any, on: bool) -> None:  # noqa: ANN401
        """Sets the mode of a whole model."""

    def no_grad(self) -> AbstractContextManager[Any]:
        """No gradients inside."""

    def with_grad(self) -> AbstractContextManager[Any]:
        """Gradients inside, whatever the caller has switched off."""

    def backward(self, loss: Any) -> None:  # noqa: ANN401
        """Computes gradients."""

    def requires_grad(self, tensor: Any) -> bool:  # noqa: ANN401
        """Whether a backward call can start from it."""

    def gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        """Its gradient or `None`."""

    def take_gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        """Takes its gradient away; the result goes back by `give_gradient`."""

    def give_gradient(self, parameter: Any, gradient: Any) -> None:  # noqa: ANN401
        """Puts a gradient, or none, in its place."""

    def gradients_of(self, outputs: list[Any], inputs: list[Any], weights: list[Any]) -> list[Any]:
        """Gradients of the weighted sum of outputs; `None` for an input that is not used."""

    def held(self, optimizer: Any) -> list[Any]:  # noqa: ANN401
        """The parameters that an optimizer holds, in order, repetitions included."""

    def rates(self, optimizer: Any) -> list[float]:  # noqa: ANN401
        """Its learning rates, one a group."""

    def adam(self, model: Any, rate: float) -> Any:  # noqa: ANN401
        """A new Adam over the trainable parameters."""

    def move(self, tensor: Any, model: Any) -> Any:  # noqa: ANN401
        """The tensor where the model is."""

    def clone(self, tensor: Any) -> Any:  # noqa: ANN401
        """A copy without history, `None` where it holds nothing yet."""

    def put(self, tensor: Any, values: Any) -> None:  # noqa: ANN401
        """Writes a copy's values back in place."""

    def random_state(self, loader: Any) -> Any:  # noqa: ANN401
        """The state of its generators and of those of a loader."""

    def set_random_state(self, state: Any) -> None:  # noqa: ANN401
        """Puts them back."""

    def counting_saved(self, seen: Callable[[Any], None]) -> AbstractContextManager[Any]:
        """Has `seen(tensor)` called for each tensor that is kept for the backward pass."""

    def own_gradcheck(self, function: Callable[..., Any], inputs: tuple[Any, ...], rtol: float) -> str | None:
        """The framework's own check: "" when it passes, else what it says; `None` where it has none."""


def choose_backend(*things: object) -> Backend:
    """The framework that these objects belong to; looks into lists, tuples and dictionaries.

    Raises:
        TypeError: They belong to none that is known.
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
    """The objects in nested lists, tuples and dictionaries."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from flat(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from flat(part)
    else:
        yield value


def named(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """The same with a path for each: "0", "1.mask", "pixel_values"."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from named(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for at, part in enumerate(value):
            yield from named(part, f"{path}.{at}" if path else str(at))
    else:
        yield path, value


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - a nested batch
    """The same nesting with each object changed."""
    if isinstance(value, Mapping):
        parts = {key: mapped(part, change) for key, part in value.items()}
        try:
            return type(value)(parts)  # type: ignore[call-arg]
        except TypeError:
            return parts
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[mapped(part, change) for part in value])
    if isinstance(value, (list, tuple)):
        return type(value)([mapped(part, change) for part in value])
    return change(value)
