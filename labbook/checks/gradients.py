"""`gradcheck`: compares the gradients of a function with finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from labbook.checks.backend import Backend, iter_named_leaves
from labbook.checks.backend_choice import choose_backend
from labbook.checks.report_to_run import report
from labbook.checks.results import GradCheck, Text, most_serious, names_text, shape_text
from labbook.checks.state_guard import preserve_state

_STEP = 1e-6
"""Step of the finite differences, in double precision. Source: the default of `torch.autograd.gradcheck`."""

_MAX_ELEMENTS = 64
"""Elements of each input that are checked, evenly spaced. Source: chosen by us; each costs two calls."""


def gradcheck(function: Callable[..., Any], inputs: Any, rtol: float = 1e-3) -> GradCheck:  # noqa: ANN401
    """Compare gradients with central differences in double precision; PyTorch's own `gradcheck` runs, too.

    Args:
        function: Takes the inputs and returns one or more tensors. A module is called in double precision only if its
            parameters are.
        inputs: A tensor or a tuple of tensors; floating-point ones are checked, as copies in double precision.
        rtol: Largest relative difference that passes.

    Raises:
        TypeError: The inputs belong to no supported framework, or none has floating-point values.
    """
    given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    backend = choose_backend(*given)
    # Only modules have state to restore; functions have none.
    model = function if hasattr(function, "parameters") and hasattr(function, "forward") else None
    with preserve_state(backend, model), backend.with_grad():
        copies = tuple(
            backend.leaf(v, double=True) if backend.is_tensor(v) and backend.is_float(v) else v for v in given
        )
        chosen = [at for at, v in enumerate(copies) if backend.is_tensor(v) and backend.is_float(v)]
        if not chosen:
            raise TypeError("labbook.checks: gradcheck needs an input of floating point")
        errors = _differences(backend, function, copies, chosen, rtol)
        own = backend.framework_gradcheck(function, copies, rtol)
    verdict = most_serious([row[4] for row in errors] + ["fail" if own else "ok"])
    wrong = [row[0] for row in errors if row[4] == "fail"]
    name = getattr(function, "__name__", type(function).__name__)
    summary: str = "The gradients agree with finite differences." if verdict == "ok" else ""
    if wrong:
        summary = Text("The gradient for {names} is wrong.", names=names_text(wrong))
    if own:
        their = f"{backend.name}.autograd.gradcheck: {own}"
        summary = Text("{summary} {error}", summary=summary, error=their) if summary else their
    return report(GradCheck(Text("Gradients of {name}", name=name), verdict, summary, tuple(errors)))


def _differences(
    backend: Backend, function: Callable[..., Any], inputs: tuple[Any, ...], chosen: list[int], rtol: float
) -> list[tuple[str, str, int, float, str]]:
    outputs = _outputs(backend, function, inputs)
    weights = [backend.tensor_like(_weights(backend.array(out)), out) for out in outputs]
    able = [at for at in range(len(outputs)) if backend.requires_grad(outputs[at])]
    if able:
        found = backend.gradients_of(
            [outputs[at] for at in able], [inputs[at] for at in chosen], [weights[at] for at in able]
        )
    else:
        found = [None] * len(chosen)
    rows: list[tuple[str, str, int, float, str]] = []
    for at, gradient in zip(chosen, found, strict=True):
        error, count = _largest_error(backend, function, inputs, at, gradient)
        verdict = "ok" if error <= rtol else "fail"  # NaN fails, too
        rows.append((Text("input {number}", number=at), shape_text(inputs[at].shape), count, error, verdict))
    return rows


def _largest_error(
    backend: Backend,
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    at: int,
    gradient: Any,  # noqa: ANN401
) -> tuple[float, int]:
    """Return the largest difference of the checked elements, relative to their largest gradient."""
    import numpy

    base = backend.array(inputs[at]).copy()
    exact = numpy.zeros_like(base) if gradient is None else backend.array(gradient)
    places = numpy.unique(numpy.linspace(0, base.size - 1, min(base.size, _MAX_ELEMENTS)).astype(int))
    differences, scale = [], 1e-6
    for place in places if base.size else ():
        ends = []
        for sign in (1.0, -1.0):
            moved = base.copy()
            moved.flat[place] += sign * _STEP
            changed = (*inputs[:at], backend.tensor_like(moved, inputs[at]), *inputs[at + 1 :])
            with backend.no_grad():
                ends.append(sum(_weighted(backend.array(out)) for out in _outputs(backend, function, changed)))
        numeric = (ends[0] - ends[1]) / (2 * _STEP)
        scale = max(scale, abs(numeric), abs(float(exact.flat[place])))
        differences.append(abs(numeric - float(exact.flat[place])))
    worst_one = max(differences, default=0.0)
    return (worst_one / scale if math.isfinite(worst_one) else math.nan), len(differences)


def _outputs(backend: Backend, function: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Any]:
    given = [
        value
        for _, value in iter_named_leaves(function(*inputs))
        if backend.is_tensor(value) and backend.is_float(value)
    ]
    if not given:
        raise TypeError("labbook.checks: gradcheck needs a function that returns a tensor of floating point")
    return given


def _weights(values: Any) -> Any:  # noqa: ANN401
    """Return fixed weights for the sum of outputs, so that errors of single elements do not cancel."""
    import numpy

    return numpy.cos(numpy.arange(values.size, dtype="float64")).reshape(values.shape) + 1.5


def _weighted(values: Any) -> float:  # noqa: ANN401
    return float((values * _weights(values)).sum())
