"""`overfit_one_batch`: a model that cannot overfit one batch has a bug."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from labbook.checks.backend import Backend
from labbook.checks.backend_choice import choose_backend
from labbook.checks.batches import Batch, Loss, split_batch
from labbook.checks.report_to_run import report
from labbook.checks.results import Overfit, Text, number
from labbook.checks.state_guard import preserve_state

RATES = (1e-3, 1e-2, 1e-4)
"""Learning rates of Adam, tried in this order until the batch is learned. Source: chosen by us."""

_ENOUGH = 0.05
"""Share of the first loss below which a batch counts as learned. Source: chosen by us."""


def overfit_one_batch(
    model: Any,  # noqa: ANN401 - of either framework
    batch: Any,  # noqa: ANN401
    loss: Loss | None = None,
    optimizer: Any = None,  # noqa: ANN401
    steps: int = 200,
) -> Overfit:
    """Train repeatedly on one batch without dropout, then restore all state.

    Args:
        model: A module of PyTorch or a layer of PaddlePaddle.
        loss: `loss(output, target)`; without it, `output.loss` of the model.
        optimizer: The user's optimizer; without it, Adam with up to three learning rates.
        steps: Steps per learning rate.

    Returns:
        "ok" if the loss fell below 5 % of its first value, or all samples are classified correctly.

    Raises:
        TypeError: The model belongs to no supported framework, or there is no loss.
        ValueError: `steps` is less than 1.
    """
    if steps < 1:
        raise ValueError(f"labbook.checks: overfit_one_batch with {steps} steps")
    backend = choose_backend(model, optimizer)
    attempts: list[tuple[float | None, list[float], float | None]] = []
    for rate in [None] if optimizer is not None else RATES:
        with preserve_state(backend, model, optimizer):
            batch_data = split_batch(batch, model, backend)
            stepper = optimizer if rate is None else backend.adam(model, rate)
            losses, accuracy = _train(backend, model, batch_data, loss, stepper, steps)
        attempts.append((rate, losses, accuracy))
        if _is_learned(losses, accuracy):
            break
    return report(_answer(min(attempts, key=lambda attempt: _last_loss(attempt[1]))))


def _train(
    backend: Backend,
    model: Any,  # noqa: ANN401
    batch: Batch,
    loss: Loss | None,
    optimizer: Any,  # noqa: ANN401
    steps: int,
) -> tuple[list[float], float | None]:
    _without_dropout(backend, model)
    losses: list[float] = []
    parameters = [parameter for _, parameter in backend.parameters(model)]
    for _ in range(steps):
        for parameter in parameters:
            backend.remove_gradient(parameter)
        with backend.with_grad():
            forward = batch.run(model, loss, backend)
            if forward.loss is None:
                raise TypeError("labbook.checks: there is no loss; give loss=, or let the model return .loss")
            losses.append(float(backend.array(forward.loss).ravel()[0]))
            if not math.isfinite(losses[-1]) or not backend.requires_grad(forward.loss):
                break
            backend.backward(forward.loss)
        optimizer.step()
    with backend.no_grad():
        forward = batch.run(model, loss, backend)
    with suppress(TypeError, ValueError, IndexError):
        losses.append(float(backend.array(forward.loss).ravel()[0]))
    return losses, _accuracy(backend, batch, forward.prediction)


def _without_dropout(backend: Backend, model: Any) -> None:  # noqa: ANN401
    backend.set_training(model, True)
    for _, module in backend.modules(model):
        if "Dropout" in type(module).__name__:
            backend.set_training(module, False)


def _accuracy(backend: Backend, batch: Batch, prediction: Any) -> float | None:  # noqa: ANN401
    target = batch.target
    if prediction is None or not backend.is_tensor(target) or backend.is_float(target) or len(prediction.shape) < 2:
        return None
    scores, labels = backend.array(prediction), backend.array(target)
    if labels.ndim == scores.ndim and labels.shape[-1] == 1:
        labels = labels[..., 0]
    axis = 1 if scores.ndim > 2 and labels.shape[1:] == scores.shape[2:] else -1
    guesses = scores.argmax(axis=axis)
    return float((guesses == labels).mean()) if guesses.shape == labels.shape and labels.size else None


def _last_loss(losses: list[float]) -> float:
    return losses[-1] if losses and math.isfinite(losses[-1]) else math.inf


def _is_learned(losses: list[float], accuracy: float | None) -> bool:
    return bool(losses) and (
        _last_loss(losses) <= _ENOUGH * abs(losses[0]) or (accuracy == 1.0 and _last_loss(losses) < losses[0])
    )


def _answer(best: tuple[float | None, list[float], float | None]) -> Overfit:
    rate, losses, accuracy = best
    how = "your optimizer" if rate is None else Text("Adam, learning rate {rate}", rate=f"{rate:g}")
    ends = {"first": number(losses[0]), "last": number(losses[-1]), "steps": len(losses) - 1}
    fall = Text("loss {first} to {last} in {steps} steps", **ends)
    if accuracy is not None:
        fall = Text("{fall}, {share} of the samples right", fall=fall, share=f"{accuracy * 100:.0f} %")
    if _is_learned(losses, accuracy):
        verdict, summary = "ok", "The batch was memorised: {fall} ({how})."
    elif not math.isfinite(losses[-1]):
        verdict, summary = "fail", "The loss is not finite: {fall} ({how})."
    elif _last_loss(losses) > 0.5 * losses[0]:
        verdict = "fail"
        summary = (
            "The batch was not learned: {fall} ({how}). Look for a cut graph, a wrong loss, frozen or dead layers."
        )
    else:
        verdict, summary = "warn", "The batch was learned only in part: {fall} ({how}). More steps may do."
    text = Text(summary, fall=fall, how=how)
    return Overfit("Overfit one batch", verdict, text, tuple(losses), accuracy, rate)
