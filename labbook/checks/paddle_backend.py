"""PaddlePaddle, seen from the checks. Imported only once objects of PaddlePaddle were given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import prod
from typing import Any

import paddle

_FLOATS = ("float16", "bfloat16", "float32", "float64")


class PaddleBackend:
    """See `Backend`."""

    name = "paddle"

    def is_tensor(self, value: Any) -> bool:  # noqa: ANN401
        """Whether it is a tensor."""
        return isinstance(value, paddle.Tensor)

    def array(self, tensor: Any) -> Any:  # noqa: ANN401
        """Its values as a NumPy array, floats in double precision."""
        plain = tensor.detach()
        plain = paddle.as_real(plain) if plain.is_complex() else plain
        return plain.astype("float64").numpy() if self.is_float(plain) else plain.numpy()

    def dtype(self, tensor: Any) -> str:  # noqa: ANN401
        """Name of its element type."""
        return str(tensor.dtype).removeprefix("paddle.")

    def is_float(self, tensor: Any) -> bool:  # noqa: ANN401
        """Whether its elements are real floating-point numbers."""
        return self.dtype(tensor) in _FLOATS

    def n_bytes(self, tensor: Any) -> int:  # noqa: ANN401
        """Its size in bytes."""
        return int(prod(tensor.shape)) * int(tensor.element_size())

    def leaf(self, tensor: Any, *, double: bool) -> Any:  # noqa: ANN401
        """A copy that requires gradients."""
        copy = tensor.detach().clone()
        copy = copy.astype("float64") if double else copy
        copy.stop_gradient = False
        return copy

    def tensor_like(self, array: Any, tensor: Any) -> Any:  # noqa: ANN401
        """A NumPy array as a tensor of the kind and place of another."""
        return paddle.to_tensor(array, dtype=tensor.dtype, place=tensor.place)

    def parameters(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Names and parameters, each once; the running statistics of batch norms, parameters too, are left out."""
        found: dict[int, tuple[str, Any]] = {}
        for prefix, layer in model.named_sublayers(include_self=True):
            statistics = {"_mean", "_variance"} if hasattr(layer, "_mean") and hasattr(layer, "_variance") else set()
            for name, parameter in layer._parameters.items():
                if parameter is not None and name not in statistics:
                    found.setdefault(id(parameter), (f"{prefix}.{name}" if prefix else name, parameter))
        return list(found.values())

    def trainable(self, parameter: Any) -> bool:  # noqa: ANN401
        """Whether it is trained."""
        return not parameter.stop_gradient

    def modules(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Names and layers of the tree."""
        return list(model.named_sublayers(include_self=True))

    def leaves(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Those without layers below them."""
        return [(name, layer) for name, layer in self.modules(model) if not list(layer.children())]

    def watch(self, module: Any, seen: Callable[[Any], None]) -> Callable[[], None]:  # noqa: ANN401
        """Has `seen(output)` called after each call of a layer."""

        def hook(_layer: Any, _inputs: Any, output: Any) -> None:  # noqa: ANN401
            seen(output)

        remove: Callable[[], None] = module.register_forward_post_hook(hook).remove
        return remove

    def training(self, module: Any) -> bool:  # noqa: ANN401
        """Its mode."""
        return bool(module.training)

    def set_training(self, model: Any, on: bool) -> None:  # noqa: ANN401
        """Sets the mode of a whole model."""
        if on:
            model.train()
        else:
            model.eval()

    def no_grad(self) -> AbstractContextManager[Any]:
        """No gradients inside."""
        context: AbstractContextManager[Any] = paddle.no_grad()
        return context

    def with_grad(self) -> AbstractContextManager[Any]:
        """Gradients inside."""
        context: AbstractContextManager[Any] = paddle.enable_grad()
        return context

    def backward(self, loss: Any) -> None:  # noqa: ANN401
        """Computes gradients."""
        loss.backward()

    def requires_grad(self, tensor: Any) -> bool:  # noqa: ANN401
        """Whether a backward call can start from it."""
        return not tensor.stop_gradient

    def gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        """Its gradient or `None`; a sparse one as a dense tensor."""
        gradient = parameter._grad_ivar()
        if gradient is None or not gradient._is_initialized():
            return None
        return paddle.to_tensor(gradient.numpy()) if gradient.is_selected_rows() else gradient

    def take_gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        """Takes its gradient away; a copy is kept, because the framework clears the memory itself."""
        gradient = self.gradient(parameter)
        kept = None if gradient is None else gradient.clone()
        parameter.clear_gradient(False)
        return kept

    def give_gradient(self, parameter: Any, gradient: Any) -> None:  # noqa: ANN401
        """Puts a gradient, or none, in its place."""
        if gradient is None:
            parameter.clear_gradient(False)
        else:
            parameter.grad = gradient

    def gradients_of(self, outputs: list[Any], inputs: list[Any], weights: list[Any]) -> list[Any]:
        """Gradients of the weighted sum of outputs."""
        return list(paddle.grad(outputs, inputs, weights, allow_unused=True))

    def held(self, optimizer: Any) -> list[Any]:  # noqa: ANN401
        """The parameters that an optimizer holds."""
        groups = getattr(optimizer, "_param_groups", None) or optimizer._parameter_list or []
        if groups and isinstance(groups[0], dict):
            return [parameter for group in groups for parameter in group["params"]]
        return list(groups)

    def rates(self, optimizer: Any) -> list[float]:  # noqa: ANN401
        """Its learning rate; those of groups are factors of it."""
        return [float(optimizer.get_lr())]

    def adam(self, model: Any, rate: float) -> Any:  # noqa: ANN401
        """A new Adam over the trainable parameters."""
        trained = [parameter for _, parameter in self.parameters(model) if self.trainable(parameter)]
        return paddle.optimizer.Adam(learning_rate=rate, parameters=trained)

    def move(self, tensor: Any, model: Any) -> Any:  # noqa: ANN401
        """The tensor where the model is."""
        first = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
        return tensor if first is None or str(first.place) == str(tensor.place) else tensor._copy_to(first.place, True)

    def clone(self, tensor: Any) -> Any:  # noqa: ANN401
        """A copy without history, `None` where it holds nothing yet."""
        return tensor.detach().clone() if tensor._is_initialized() and not tensor.is_dist() else None

    def put(self, tensor: Any, values: Any) -> None:  # noqa: ANN401
        """Writes a copy's values back in place."""
        with paddle.no_grad():
            tensor.copy_(values, True)

    def random_state(self, loader: Any) -> Any:  # noqa: ANN401
        """The state of the generators of this process."""
        on_device = paddle.device.get_device().startswith("gpu")
        return paddle.get_rng_state("cpu"), paddle.get_cuda_rng_state() if on_device else None

    def set_random_state(self, state: Any) -> None:  # noqa: ANN401
        """Puts them back."""
        host, devices = state
        paddle.set_rng_state(host, "cpu")
        if devices is not None:
            paddle.set_cuda_rng_state(devices)

    def counting_saved(self, seen: Callable[[Any], None]) -> AbstractContextManager[Any]:
        """Has `seen(tensor)` called for each tensor that is kept for the backward pass."""

        def pack(tensor: Any) -> Any:  # noqa: ANN401
            seen(tensor)
            return tensor

        context: AbstractContextManager[Any] = paddle.autograd.saved_tensors_hooks(pack, lambda tensor: tensor)
        return context

    def own_gradcheck(self, function: Callable[..., Any], inputs: tuple[Any, ...], rtol: float) -> str | None:
        """PaddlePaddle has no public one."""
        return None
