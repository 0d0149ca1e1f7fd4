"""The PyTorch backend of the checks; imported only if objects of PyTorch are passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from labbook.checks.backend import Backend

_GENERATOR_OWNERS = ("", "sampler", "batch_sampler", "batch_sampler.sampler", "dataset")


class TorchBackend(Backend):
    """See `Backend`."""

    module = torch
    after_forward = "register_forward_hook"
    saved_tensors_hooks = torch.autograd.graph.saved_tensors_hooks

    def array(self, tensor: Any) -> Any:  # noqa: ANN401
        plain = tensor.detach()
        if plain.layout is not torch.strided:
            plain = plain.to_dense()
        plain = torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain
        plain = plain.to(device="cpu", dtype=torch.float64 if plain.is_floating_point() else plain.dtype)
        return plain.numpy()

    def is_float(self, tensor: Any) -> bool:  # noqa: ANN401
        return bool(tensor.is_floating_point())

    def n_bytes(self, tensor: Any) -> int:  # noqa: ANN401
        return int(tensor.numel()) * int(tensor.element_size())

    def leaf(self, tensor: Any, *, double: bool) -> Any:  # noqa: ANN401
        copy = tensor.detach().clone()
        return (copy.double() if double else copy).requires_grad_(True)

    def tensor_like(self, array: Any, tensor: Any) -> Any:  # noqa: ANN401
        return torch.as_tensor(array, dtype=tensor.dtype, device=tensor.device)

    def parameters(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        return list(model.named_parameters())

    def modules(self, model: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        return list(model.named_modules())

    def set_training(self, model: Any, on: bool) -> None:  # noqa: ANN401
        model.train(on)

    def requires_grad(self, tensor: Any) -> bool:  # noqa: ANN401
        return bool(tensor.requires_grad)

    def gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        return parameter.grad

    def remove_gradient(self, parameter: Any) -> Any:  # noqa: ANN401
        """Remove and return the gradient of a parameter; its tensor is not written to."""
        gradient, parameter.grad = parameter.grad, None
        return gradient

    def set_gradient(self, parameter: Any, gradient: Any) -> None:  # noqa: ANN401
        parameter.grad = gradient

    def gradients_of(self, outputs: list[Any], inputs: list[Any], weights: list[Any]) -> list[Any]:
        return list(torch.autograd.grad(outputs, inputs, weights, allow_unused=True))

    def optimizer_parameters(self, optimizer: Any) -> list[Any]:  # noqa: ANN401
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def rates(self, optimizer: Any) -> list[float]:  # noqa: ANN401
        return [float(group["lr"]) for group in optimizer.param_groups if group.get("lr") is not None]

    def adam(self, model: Any, rate: float) -> Any:  # noqa: ANN401
        return torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)

    def move(self, tensor: Any, model: Any) -> Any:  # noqa: ANN401
        first = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
        return tensor if first is None or first.device == tensor.device else tensor.to(first.device)

    def clone(self, tensor: Any) -> Any:  # noqa: ANN401
        lazy = getattr(torch.nn.parameter, "UninitializedTensorMixin", ())
        return None if isinstance(tensor, lazy) or tensor.is_meta else tensor.detach().clone()

    def write_back(self, tensor: Any, values: Any) -> None:  # noqa: ANN401
        """Write the values of a copy back in place, without changing the tensor's version counter."""
        tensor.data.copy_(values)

    def random_state(self, loader: Any) -> Any:  # noqa: ANN401
        """State of the default random generators and of those of a loader."""
        has_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call, unused-ignore]
        devices = torch.cuda.get_rng_state_all() if has_cuda else None
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
        host, devices, generators = state
        torch.set_rng_state(host)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
        for generator, own in generators:
            generator.set_state(own)

    def framework_gradcheck(self, function: Callable[..., Any], inputs: tuple[Any, ...], rtol: float) -> str | None:
        """Run `torch.autograd.gradcheck`: "" if it passes, else its message."""
        try:
            torch.autograd.gradcheck(function, inputs, rtol=rtol, atol=1e-5, raise_exception=True)
        except RuntimeError as error:  # base class of GradcheckError
            return " ".join(str(error).split())[:300]
        return ""
