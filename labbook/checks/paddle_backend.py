"""The PaddlePaddle backend of the checks; imported only if objects of PaddlePaddle are passed."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import paddle

from labbook.checks.backend import Backend

_FLOATS = ("float16", "bfloat16", "float32", "float64")


class PaddleBackend(Backend):
    """See `Backend`."""

    module = paddle
    after_forward = "register_forward_post_hook"
    saved_tensors_hooks = paddle.autograd.saved_tensors_hooks

    def array(self, tensor: Any) -> Any:  # noqa: ANN401
        plain = tensor.detach()
        plain = paddle.as_real(plain) if plain.is_complex() else plain
        return plain.astype("float64").numpy() if self.is_float(plain) else plain.numpy()

    def is_float(self, tensor: Any) -> bool:  # noqa: ANN401
        return self.dtype(tensor) in _FLOATS

    def n_bytes(self, tensor: Any) -> int:  # noqa: ANN401
        return int(prod(tensor.shape)) * int(tensor.element_size())

    def leaf(self, tensor: Any, *, double: bool) -> Any:  # noqa: ANN401
        copy = tensor.detach().clone()
        copy = copy.astype("float64") if double else copy
        copy.stop_gradient = False
        return copy

    def tensor_like(self, array: Any, tensor: Any) -> Any:  # noqa: ANN401
        return paddle.to_tensor(array, dtype=tensor.dtype, place=tensor.place)

    def parameters(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Names and parameters, each once, without the running statistics of batch norm (parameters in Paddle)."""
        found: dict[int, tuple[str, Any]] = {}
        for prefix, layer in model.named_sublayers(include_self=True):
            statistics = {"_mean", "_variance"} if hasattr(layer, "_mean") and hasattr(layer, "_variance") else set()
            for name, parameter in layer._parameters.items():
                if parameter is not None and name not in statistics:
                    found.setdefault(id(parameter), (f"{prefix}.{name}" if prefix else name, parameter))
        return list(found.values())

    def modules(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        return list(model.named_sublayers(include_self=True))

    def set_training(self, model: Any, on: bool) -> None:  # noqa: ANN401
        if on:
            model.train()
        else:
            model.eval()

    def requires_grad(self, tensor: Any) -> bool:  # noqa: ANN401
        return not tensor.stop_gradient

    def gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        """Gradient of a parameter, or `None`; a sparse one as a dense tensor."""
        gradient = parameter._grad_ivar()
        if gradient is None or not gradient._is_initialized():
            return None
        return paddle.to_tensor(gradient.numpy()) if gradient.is_selected_rows() else gradient

    def remove_gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        """Remove the gradient of a parameter and return a copy, because the framework clears the memory."""
        gradient = self.gradient(parameter)
        kept = None if gradient is None else gradient.clone()
        parameter.clear_gradient(False)
        return kept

    def set_gradient(self, parameter: Any, gradient: Any) -> None:  # noqa: ANN401
        if gradient is None:
            parameter.clear_gradient(False)
        else:
            parameter.grad = gradient

    def gradients_of(self, outputs: list[Any], inputs: list[Any], weights: list[Any]) -> list[Any]:
        return list(paddle.grad(outputs, inputs, weights, allow_unused=True))

    def optimizer_parameters(self, optimizer: Any) -> list[Any]:  # noqa: ANN401
        groups = getattr(optimizer, "_param_groups", None) or optimizer._parameter_list or []
        if groups and isinstance(groups[0], dict):
            return [parameter for group in groups for parameter in group["params"]]
        return list(groups)

    def rates(self, optimizer: Any) -> list[float]:  # noqa: ANN401
        """Learning rate of the optimizer; the rates of groups are factors of it."""
        return [float(optimizer.get_lr())]

    def adam(self, model: Any, rate: float) -> Any:  # noqa: ANN401
        trained = [parameter for _, parameter in self.parameters(model) if self.trainable(parameter)]
        return paddle.optimizer.Adam(learning_rate=rate, parameters=trained)

    def move(self, tensor: Any, model: Any) -> Any:  # noqa: ANN401
        first = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
        return tensor if first is None or str(first.place) == str(tensor.place) else tensor._copy_to(first.place, True)

    def clone(self, tensor: Any) -> Any:  # noqa: ANN401
        return tensor.detach().clone() if tensor._is_initialized() and not tensor.is_dist() else None

    def write_back(self, tensor: Any, values: Any) -> None:  # noqa: ANN401
        with paddle.no_grad():
            tensor.copy_(values, True)

    def random_state(self, loader: Any) -> Any:  # noqa: ANN401
        """State of the random generators of this process."""
        on_device = paddle.device.get_device().startswith("gpu")
        return paddle.get_rng_state("cpu"), paddle.get_cuda_rng_state() if on_device else None

    def set_random_state(self, state: Any) -> None:  # noqa: ANN401
        host, devices = state
        paddle.set_rng_state(host, "cpu")
        if devices is not None:
            paddle.set_cuda_rng_state(devices)

    def framework_gradcheck(self, function: Callable[..., Any], inputs: tuple[Any, ...], rtol: float) -> str | None:
        """Return `None`: PaddlePaddle has no public gradient check."""
        return None
