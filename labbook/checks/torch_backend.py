"""PyTorch, seen from the checks. Imported only once objects of PyTorch were given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

_GENERATOR_OWNERS = ("", "sampler", "batch_sampler", "batch_sampler.sampler", "dataset")


class TorchBackend:
    """See `Backend`."""

    name = "torch"

    def is_tensor(self, value: Any) -> bool:  # noqa: ANN401
        """Whether it is a tensor."""
        return isinstance(value, torch.Tensor)

    def array(self, tensor: Any) -> Any:  # noqa: ANN401
        """Its values as a NumPy array, floats in double precision."""
        plain = tensor.detach()
        if plain.layout is not torch.strided:
            plain = plain.to_dense()
        plain = torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain
        plain = plain.to(device="cpu", dtype=torch.float64 if plain.is_floating_point() else plain.dtype)
        return plain.numpy()

    def dtype(self, tensor: Any) -> str:  # noqa: ANN401
        """Name of its element type."""
        return str(tensor.dtype).removeprefix("torch.")

    def is_float(self, tensor: Any) -> bool:  # noqa: ANN401
        """Whether its elements are real floating-point numbers."""
        return bool(tensor.is_floating_point())

    def n_bytes(self, tensor: Any) -> int:  # noqa: ANN401
        """Its size in bytes."""
        return int(tensor.numel()) * int(tensor.element_size())

    def leaf(self, tensor: Any, *, double: bool) -> Any:  # noqa: ANN401
        """A copy that requires gradients."""
        copy = tensor.detach().clone()
        return (copy.double() if double else copy).requires_grad_(True)

    def tensor_like(self, array: Any, tensor: Any) -> Any:  # noqa: ANN401
        """A NumPy array as a tensor of the kind and place of another."""
        return torch.as_tensor(array, dtype=tensor.dtype, device=tensor.device)

    def parameters(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Names and parameters, each once."""
        return list(model.named_parameters())

    def trainable(self, parameter: Any) -> bool:  # noqa: ANN401
        """Whether it is trained."""
        return bool(parameter.requires_grad)

    def modules(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Names and modules of the tree."""
        return list(model.named_modules())

    def leaves(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Those without modules below them."""
        return [(name, module) for name, module in model.named_modules() if not list(module.children())]

    def watch(self, module: Any, seen: Callable[[Any], None]) -> Callable[[], None]:  # noqa: ANN401
        """Has `seen(output)` called after each call of a module."""

        def hook(_module: Any, _inputs: Any, output: Any) -> None:  # noqa: ANN401
            seen(output)

        remove: Callable[[], None] = module.register_forward_hook(hook).remove
        return remove

    def training(self, module: Any) -> bool:  # noqa: ANN401
        """Its mode."""
        return bool(module.training)

    def set_training(self, model: Any, on: bool) -> None:  # noqa: ANN401
        """Sets the mode of a whole model."""
        model.train(on)

    def no_grad(self) -> AbstractContextManager[Any]:
        """No gradients inside."""
        return torch.no_grad()

    def with_grad(self) -> AbstractContextManager[Any]:
        """Gradients inside."""
        return torch.enable_grad()

    def backward(self, loss: Any) -> None:  # noqa: ANN401
        """Computes gradients."""
        loss.backward()

    def requires_grad(self, tensor: Any) -> bool:  # noqa: ANN401
        """Whether a backward call can start from it."""
        return bool(tensor.requires_grad)

    def gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        """Its gradient or `None`."""
        return parameter.grad

    def take_gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        """Takes its gradient away: the tensor itself is kept and not written to."""
        gradient, parameter.grad = parameter.grad, None
        return gradient

    def give_gradient(self, parameter: Any, gradient: Any) -> None:  # noqa: ANN401
        """Puts a gradient, or none, in its place."""
        parameter.grad = gradient

    def gradients_of(self, outputs: list[Any], inputs: list[Any], weights: list[Any]) -> list[Any]:
        """Gradients of the weighted sum of outputs."""
        return list(torch.autograd.grad(outputs, inputs, weights, allow_unused=True))

    def held(self, optimizer: Any) -> list[Any]:  # noqa: ANN401
        """The parameters that an optimizer holds."""
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def rates(self, optimizer: Any) -> list[float]:  # noqa: ANN401
        """Its learning rates."""
        return [float(group["lr"]) for group in optimizer.param_groups if group.get("lr") is not None]

    def adam(self, model: Any, rate: float) -> Any:  # noqa: ANN401
        """A new Adam over the trainable parameters."""
        return torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)

    def move(self, tensor: Any, model: Any) -> Any:  # noqa: ANN401
        """The tensor where the model is."""
        first = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
        return tensor if first is None or first.device == tensor.device else tensor.to(first.device)

    def clone(self, tensor: Any) -> Any:  # noqa: ANN401
        """A copy without history."""
        lazy = getattr(torch.nn.parameter, "UninitializedTensorMixin", ())
        return None if isinstance(tensor, lazy) or tensor.is_meta else tensor.detach().clone()

    def put(self, tensor: Any, values: Any) -> None:  # noqa: ANN401
        """Writes a copy's values back in place, without a mark in the tensor's history."""
        tensor.data.copy_(values)

    def random_state(self, loader: Any) -> Any:  # noqa: ANN401
        """The state of the default generators and of those of a loader."""
        awake = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call, unused-ignore]
        devices = torch.cuda.get_rng_state_all() if awake else None
        generators = {}
        for owner in _GENERATOR_OWNERS:
            place = loader
            for part in owner.split(".") if owner else ():
                place = getattr(place, part, None)
            generator = getattr(place, "generator", None)
            if isinstance(generator, torch.Generator):
                generators[id(generator)] = (generator, generator.get_state())
        return torch.get_rng_state(), devices, list(generators.values())

    def set_random_state(self, state: Any) -> None:  # noqa: ANN401
        """Puts them back."""
        host, devices, generators = state
        torch.set_rng_state(host)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
        for generator, own in generators:
            generator.set_state(own)

    def counting_saved(self, seen: Callable[[Any], None]) -> AbstractContextManager[Any]:
        """Has `seen(tensor)` called for each tensor that is kept for the backward pass."""

        def pack(tensor: Any) -> Any:  # noqa: ANN401
            seen(tensor)
            return tensor

        return torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)

    def own_gradcheck(self, function: Callable[..., Any], inputs: tuple[Any, ...], rtol: float) -> str | None:
        """`torch.autograd.gradcheck`: "" when it passes, else what it says."""
        try:
            torch.autograd.gradcheck(function, inputs, rtol=rtol, atol=1e-5, raise_exception=True)
        except RuntimeError as error:  # its own error is a kind of it
            return " ".join(str(error).split())[:300]
        return ""
