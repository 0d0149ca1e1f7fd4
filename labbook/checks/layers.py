"""`trace`: shape and value range of the output of each layer."""

from __future__ import annotations

import math
from typing import Any

from labbook.checks.backend import Backend, iter_named_leaves
from labbook.checks.backend_choice import choose_backend
from labbook.checks.batches import split_batch
from labbook.checks.report_to_run import report
from labbook.checks.results import Layer, Text, Trace
from labbook.checks.state_guard import preserve_state

_MAX_LAYERS = 2000


def trace(model: Any, batch: Any) -> Trace:  # noqa: ANN401
    """Run the model once in its current mode; report shape, range and share of zeros of each layer's output.

    Args:
        model: A module of PyTorch or a layer of PaddlePaddle.
        batch: A batch of a loader: (inputs, ..., targets), a dictionary, or the input alone.

    Returns:
        The layers without sublayers, in the order of their calls. All state is restored.

    Raises:
        TypeError: The model belongs to no supported framework.
    """
    backend = choose_backend(model)
    layers: list[Layer] = []
    stopped = None
    with preserve_state(backend, model), backend.no_grad():
        whole = split_batch(batch, model, backend)
        watched = backend.named_leaves(model) or [("", model)]
        ends = [backend.watch(module, _layer_recorder(backend, name, module, layers)) for name, module in watched]
        try:
            whole.run(model, None, backend)
        except Exception as error:  # raised by the user's model; the layers before it are reported
            stopped = error
        finally:
            for end in ends:
                end()
    return report(_answer(type(model).__name__, layers, stopped))


def _layer_recorder(backend: Backend, name: str, module: Any, layers: list[Layer]) -> Any:  # noqa: ANN401
    def record_output(output: Any) -> None:  # noqa: ANN401
        for _, tensor in iter_named_leaves(output):
            if backend.is_tensor(tensor) and len(layers) < _MAX_LAYERS:
                layers.append(_layer(backend, name, type(module).__name__, tensor))

    return record_output


def _layer(backend: Backend, name: str, kind: str, tensor: Any) -> Layer:  # noqa: ANN401
    import numpy

    values = backend.array(tensor)
    good = values[numpy.isfinite(values)] if backend.is_float(tensor) else values
    nan = math.nan
    return Layer(
        name=name,
        type=kind,
        shape=tuple(int(n) for n in tensor.shape),
        dtype=backend.dtype(tensor),
        low=float(good.min()) if good.size else nan,
        high=float(good.max()) if good.size else nan,
        mean=float(good.mean()) if good.size else nan,
        std=float(good.std()) if good.size else nan,
        zero=float((values == 0).mean()) if values.size else 0.0,
        bad=int(values.size - good.size),
    )


def _answer(name: str, layers: list[Layer], stopped: Exception | None) -> Trace:
    first = next((layer for layer in layers if layer.bad), None)
    dead = [layer.name or layer.type for layer in layers if layer.zero == 1.0 and layer.shape]
    if first is not None:
        summary = Text("{layer} is the first to give values that are not finite", layer=first.name or first.type)
    elif stopped:
        summary = Text("{count} outputs", count=len(layers))
    elif dead:
        summary = Text("only zeros come out of {layers}", layers=", ".join(dead[:5]))
    else:
        summary = Text("{count} outputs, all finite", count=len(layers))
    verdict = "fail" if first or stopped else "warn" if dead else "ok"
    if stopped:
        summary = Text("{seen}; then {error}", seen=summary, error=f"{type(stopped).__name__}: {str(stopped)[:200]}")
    return Trace(Text("Trace of {model}", model=name), verdict, Text("{summary}.", summary=summary), tuple(layers))
