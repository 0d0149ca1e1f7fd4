"""The interface between checks and frameworks, and walks over nested batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Backend(Protocol):
    """Operations of a framework that the checks use, on its own tensors, modules and optimizers.

    Attributes:
        module: `torch` or `paddle`.
        after_forward: The method of its modules that registers a hook to call with the output.
        saved_tensors_hooks: Its context manager for the tensors that the backward pass needs.
    """

    module: Any
    after_forward: str
    saved_tensors_hooks: Any

    @property
    def name(self) -> str:
        """Name of the framework."""
        return str(self.module.__name__)

    def is_tensor(self, value: Any) -> bool:  # noqa: ANN401
        """Whether the value is a tensor of the framework."""
        return isinstance(value, self.module.Tensor)

    def array(self, tensor: Any) -> Any:  # noqa: ANN401
        """Copy a tensor to a NumPy array in host memory, floats in double precision."""

    def dtype(self, tensor: Any) -> str:  # noqa: ANN401
        """Name of the element type ("float32")."""
        return str(tensor.dtype).removeprefix(f"{self.name}.")

    def is_float(self, tensor: Any) -> bool:  # noqa: ANN401
        """Whether the elements are real floating-point numbers."""

    def n_bytes(self, tensor: Any) -> int:  # noqa: ANN401
        """Size in bytes."""

    def leaf(self, tensor: Any, *, double: bool) -> Any:  # noqa: ANN401
        """Copy a tensor to a leaf that requires gradients, on request in double precision."""

    def tensor_like(self, array: Any, tensor: Any) -> Any:  # noqa: ANN401
        """Convert a NumPy array to a tensor with the type and device of another tensor."""

    def parameters(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Names and parameters, each once, without buffers."""

    def trainable(self, parameter: Any) -> bool:  # noqa: ANN401
        """Whether the parameter is trainable."""
        return self.requires_grad(parameter)

    def modules(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Names and modules of the tree, the root first with the name ""."""

    def named_leaves(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Names and modules without submodules."""
        return [(name, module) for name, module in self.modules(model) if not list(module.children())]

    def watch(self, module: Any, on_output: Callable[[Any], None]) -> Callable[[], None]:  # noqa: ANN401
        """Call `on_output(output)` after each call of a module; returns a function that ends this."""

        def hook(_module: Any, _inputs: Any, output: Any) -> None:  # noqa: ANN401
            on_output(output)

        remove: Callable[[], None] = getattr(module, self.after_forward)(hook).remove
        return remove

    def training(self, module: Any) -> bool:  # noqa: ANN401
        """Whether the module is in training mode."""
        return bool(module.training)

    def set_training(self, model: Any, on: bool) -> None:  # noqa: ANN401
        """Set the mode of a whole model."""

    def no_grad(self) -> AbstractContextManager[Any]:
        """Context manager that disables gradients."""
        manager: AbstractContextManager[Any] = self.module.no_grad()
        return manager

    def with_grad(self) -> AbstractContextManager[Any]:
        """Context manager that enables gradients, also inside `no_grad`."""
        manager: AbstractContextManager[Any] = self.module.enable_grad()
        return manager

    def backward(self, loss: Any) -> None:  # noqa: ANN401
        """Compute gradients."""
        loss.backward()

    def requires_grad(self, tensor: Any) -> bool:  # noqa: ANN401
        """Whether the tensor requires a gradient."""

    def gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        """Gradient of a parameter, or `None`."""

    def remove_gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        """Remove and return the gradient of a parameter; `set_gradient` restores it."""

    def set_gradient(self, parameter: Any, gradient: Any) -> None:  # noqa: ANN401
        """Set or clear the gradient of a parameter."""

    def gradients_of(self, outputs: list[Any], inputs: list[Any], weights: list[Any]) -> list[Any]:
        """Gradients of the weighted sum of outputs; `None` for an unused input."""

    def optimizer_parameters(self, optimizer: Any) -> list[Any]:  # noqa: ANN401
        """Parameters of an optimizer in order, with repetitions."""

    def rates(self, optimizer: Any) -> list[float]:  # noqa: ANN401
        """Learning rates of the optimizer, one per parameter group."""

    def adam(self, model: Any, rate: float) -> Any:  # noqa: ANN401
        """Create an Adam optimizer of the trainable parameters."""

    def move(self, tensor: Any, model: Any) -> Any:  # noqa: ANN401
        """Move a tensor to the device of the model."""

    def clone(self, tensor: Any) -> Any:  # noqa: ANN401
        """Copy without autograd history; `None` if the tensor is not initialised."""

    def write_back(self, tensor: Any, values: Any) -> None:  # noqa: ANN401
        """Write the values of a copy back in place."""

    def random_state(self, loader: Any) -> Any:  # noqa: ANN401
        """State of the random generators of the framework and of a loader."""

    def set_random_state(self, state: Any) -> None:  # noqa: ANN401
        """Restore the random generators."""

    def watch_saved_tensors(self, on_saved: Callable[[Any], None]) -> AbstractContextManager[Any]:
        """Context manager that calls `on_saved(tensor)` for each tensor saved for the backward pass."""

        def pack(tensor: Any) -> Any:  # noqa: ANN401
            on_saved(tensor)
            return tensor

        manager: AbstractContextManager[Any] = self.saved_tensors_hooks(pack, lambda tensor: tensor)
        return manager

    def framework_gradcheck(self, function: Callable[..., Any], inputs: tuple[Any, ...], rtol: float) -> str | None:
        """Run the framework's own check: "" if it passes, else its message; `None` if there is none."""


def iter_named_leaves(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over (path, object) of nested containers, with paths such as "0", "1.mask", "pixel_values"."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from iter_named_leaves(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for at, part in enumerate(value):
            yield from iter_named_leaves(part, f"{path}.{at}" if path else str(at))
    else:
        yield path, value


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - a nested batch
    """Copy nested containers with each object replaced by `change(object)`."""
    if isinstance(value, Mapping):
        parts = {key: map_leaves(part, change) for key, part in value.items()}
        try:
            return type(value)(parts)  # type: ignore[call-arg]
        except TypeError:
            return parts
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[map_leaves(part, change) for part in value])
    if isinstance(value, (list, tuple)):
        return type(value)([map_leaves(part, change) for part in value])
    return change(value)
