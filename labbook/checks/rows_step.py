"""Rows of the checklist about gradients, the optimizer, one step, memory and the mode of the model."""

from __future__ import annotations

from typing import Any

from labbook.checks.backend import Backend
from labbook.checks.batches import Batch
from labbook.checks.results import Row, Text, names_text, number

_SAME = 1e-4
"""Relative difference attributed to summation order. Source: chosen by us, for single precision."""


def gradient_rows(backend: Backend, model: Any) -> list[Row]:  # noqa: ANN401
    """Rows about the current gradients of the parameters."""
    import numpy

    trained = [(name, p) for name, p in backend.parameters(model) if backend.trainable(p)]
    if not trained:
        return [Row("gradients", "at least one trainable parameter", "none found", "fail", "everything is frozen")]
    missing, zero, bad, total = [], [], [], 0.0
    for name, parameter in trained:
        gradient = backend.gradient(parameter)
        if gradient is None:
            missing.append(name)
            continue
        values = backend.array(gradient)
        if not numpy.isfinite(values).all():
            bad.append(name)
        elif not values.any():
            zero.append(name)
        else:
            total += float((values**2).sum())
    count = len(trained)
    of = "{part} of {count}"
    expected, observed = Text(of, part=count, count=count), Text(of, part=count - len(missing), count=count)
    unused = "without: {names}; unused in forward, or cut off by detach or no_grad"
    detail: str = Text(unused, names=names_text(missing)) if missing else ""
    verdict = "fail" if missing else "ok"
    rows = [Row("every trainable parameter has a gradient", expected, observed, verdict, detail)]
    if bad:
        observed = Text("not in {names}", names=names_text(bad))
        rows.append(Row("gradients are finite", "all", observed, "fail", "see labbook.checks.trace"))
    elif zero:
        detail = Text("exactly 0: {names}; dead units, or a weight behind a zero", names=names_text(zero))
        rows.append(Row("gradient norm", "above 0 everywhere", number(total**0.5), "warn", detail))
    else:
        rows.append(Row("gradient norm", "finite, above 0", number(total**0.5), "ok"))
    return rows


def optimizer_rows(backend: Backend, model: Any, optimizer: Any) -> list[Row]:  # noqa: ANN401
    """Rows about the parameters of the optimizer."""
    if optimizer is None:
        return []
    names = {id(p): name for name, p in backend.parameters(model)}
    trained = {id(p): name for name, p in backend.parameters(model) if backend.trainable(p)}
    in_optimizer = backend.optimizer_parameters(optimizer)
    missing = [name for key, name in trained.items() if key not in {id(p) for p in in_optimizer}]
    # In PaddlePaddle the running statistics of batch norms are parameters, too, and an optimizer may hold them.
    everything = {id(p) for p in model.parameters()} | set(names)
    foreign = [p for p in in_optimizer if id(p) not in everything]
    frozen = [names[id(p)] for p in in_optimizer if id(p) in names and id(p) not in trained]
    twice = len(in_optimizer) - len({id(p) for p in in_optimizer})
    what, expected = "optimizer holds the model's parameters", Text("exactly the {n} trainable ones", n=len(trained))
    if foreign:
        observed = Text("{part} of {count} are in no part of the model", part=len(foreign), count=len(in_optimizer))
        detail = "create the optimizer after the model is complete: a layer was replaced or the model created again"
        return [Row(what, expected, observed, "fail", detail)]
    if missing:
        observed = Text("{part} of them", part=len(trained) - len(missing))
        return [Row(what, expected, observed, "fail", Text("not held: {names}", names=names_text(missing)))]
    if twice:
        observed = Text("{part} of them twice", part=twice)
        return [Row(what, expected, observed, "warn", "each parameter belongs in one group")]
    if frozen:
        return [Row(what, expected, Text("all, and {count} frozen ones", count=len(frozen)), "note")]
    return [Row(what, expected, "exactly these", "ok")]


def step_rows(backend: Backend, model: Any, optimizer: Any) -> list[Row]:  # noqa: ANN401
    """Take one step and compare the parameters before and after."""
    import numpy

    moving = [(name, p) for name, p in backend.parameters(model) if backend.trainable(p)]
    before = {name: backend.array(p).copy() for name, p in moving}
    driven = [name for name, p in moving if (g := backend.gradient(p)) is not None and backend.array(g).any()]
    rates = backend.rates(optimizer)
    optimizer.step()
    still, ratios = [], []
    for name, parameter in moving:
        now, was = backend.array(parameter), before[name]
        if name in driven and numpy.array_equal(now, was):
            still.append(name)
        norm = float((was**2).sum()) ** 0.5
        if name in driven and norm > 0:
            ratios.append(float(((now - was) ** 2).sum()) ** 0.5 / norm)
    expected = Text("all {count} with a gradient", count=len(driven))
    if still and rates and max(rates) == 0.0:
        return [
            Row("one step changes the parameters", expected, "none: the learning rate is 0 now", "warn", "a warm-up?")
        ]
    if still:
        observed: str = Text("{part} of {count}", part=len(driven) - len(still), count=len(driven))
        lost = "unchanged: {names}; not in the optimizer, or the update is lost in rounding"
        detail = Text(lost, names=names_text(still))
        return [Row("one step changes the parameters", expected, observed, "fail", detail)]
    ends = {"low": number(min(ratios)), "high": number(max(ratios))} if ratios else {}
    observed = Text("all; update over weight {low} to {high}", **ends) if ratios else "all"
    return [Row("one step changes the parameters", expected, observed, "ok")]


def mode_rows(backend: Backend, model: Any, batch: Batch) -> list[Row]:  # noqa: ANN401
    """Compare outputs in evaluation mode: of two calls, and of half of the batch."""
    backend.set_training(model, False)
    with backend.no_grad():
        first, again = batch.run(model, None, backend).prediction, batch.run(model, None, backend).prediction
        if first is None or again is None:
            return []
        one, two = backend.array(first), backend.array(again)
        rows = [_repeat_row(one, two)]
        count = batch.samples(backend) // 2
        if count and one.ndim and one.shape[0] == batch.samples(backend):
            half = backend.array(batch.take_first(count, backend).run(model, None, backend).prediction)
            rows.append(_batch_independence_row(one[:count], half))
    return rows


def _repeat_row(one: Any, two: Any) -> Row:  # noqa: ANN401
    what, expected = "evaluation mode repeats itself", "the same output twice"
    if _differs(one, two) <= _SAME:
        return Row(what, expected, "the same", "ok")
    detail = "something random stays on in eval(): functional dropout without training=, or noise"
    return Row(what, expected, Text("differs by {share} (relative)", share=number(_differs(one, two))), "warn", detail)


def _batch_independence_row(one: Any, half: Any) -> Row:  # noqa: ANN401
    what, expected = "samples do not influence each other", "half a batch gives the same in eval()"
    if one.shape != half.shape:
        observed = Text("another shape: {half} instead of {whole}", half=str(half.shape), whole=str(one.shape))
        return Row(what, expected, observed, "note")
    if _differs(one, half) <= 100 * _SAME:
        return Row(what, expected, "the same", "ok")
    detail = "a reshape mixes the axes, or a layer normalises over the batch"
    return Row(what, expected, Text("differs by {share} (relative)", share=number(_differs(one, half))), "warn", detail)


def _differs(one: Any, two: Any) -> float:  # noqa: ANN401
    """Return the largest difference, relative to the largest value."""
    if one.shape != two.shape or not one.size:
        return float("inf") if one.shape != two.shape else 0.0
    scale = max(float(abs(one).max()), 1e-12)
    return float(abs(one - two).max()) / scale


def memory_row(backend: Backend, model: Any, optimizer: Any, saved_bytes: int, batch: Batch) -> Row:  # noqa: ANN401
    """Row about the memory of a training step: parameters, gradients, optimizer state, saved activations."""
    parameters = backend.parameters(model)
    weights = sum(backend.n_bytes(p) for _, p in parameters)
    gradients = sum(backend.n_bytes(p) for _, p in parameters if backend.trainable(p))
    state = _state_bytes(backend, vars(optimizer), {id(p) for _, p in parameters}) if optimizer is not None else 0
    parts = {"weights": weights, "gradients": gradients, "state": state, "activations": saved_bytes}
    sizes = {name: _size(n) for name, n in {"all": sum(parts.values()), **parts}.items()}
    kept = "{all}: parameters {weights}, gradients {gradients}, optimizer {state}, kept for backward {activations}"
    expected = Text("batch of {count}", count=batch.samples(backend))
    return Row("memory of one step", expected, Text(kept, **sizes), "ok")


def _state_bytes(backend: Backend, value: Any, seen: set[int], depth: int = 0) -> int:  # noqa: ANN401
    if id(value) in seen or depth > 4:
        return 0
    seen.add(id(value))
    if backend.is_tensor(value):
        return backend.n_bytes(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return sum(_state_bytes(backend, part, seen, depth + 1) for part in parts)


def _size(n_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.3g} {unit}" if unit != "B" else f"{n_bytes:.0f} B"
        n_bytes /= 1024
    return f"{n_bytes:.3g} TiB"
