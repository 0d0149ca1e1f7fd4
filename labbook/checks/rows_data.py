"""Rows of the checklist about the batch, the model's output and the first loss."""

from __future__ import annotations

import math
from typing import Any

from labbook.checks.backend import Backend
from labbook.checks.batches import Batch, Forward, Loss
from labbook.checks.results import Row, Text, number, shape_text

_LARGE = 50.0
"""Mean or standard deviation beyond which an input counts as raw. Source: pixels of 0 to 255 have about 100 and 70;
standardised and unit-range data, and counts up to 16, stay far below."""

_OFF = 0.5
"""Tolerance of the first loss around ln(classes), relative and in nats. Source: the catalogue's `init_loss_off`;
no alarm in 14 healthy runs."""

_SAME = 1e-6


def rows(backend: Backend, batch: Batch, spent: bool) -> list[Row]:
    """Rows about the batch."""
    leaves = batch.named_tensors(backend)
    found = [_leaf_row(backend, path, tensor) for path, tensor in leaves]
    if not found:
        return [
            Row("batch", "at least one tensor", "none found", "fail", "the loader gives no tensors of this framework")
        ]
    sizes = {int(tensor.shape[0]) for _, tensor in leaves if len(tensor.shape) > 0}
    verdict = "ok" if len(sizes) <= 1 else "note"
    shown = ", ".join(str(n) for n in sorted(sizes)) or "no axis"
    found.append(Row("batch size", "the same for all tensors", shown, verdict))
    if spent:
        detail = "pass the loader itself, not iter(loader)"
        found.append(Row("loader", "can begin again", "an iterator: one batch was taken from it", "note", detail))
    return found


def _leaf_row(backend: Backend, path: str, tensor: Any) -> Row:  # noqa: ANN401
    import numpy

    values = backend.array(tensor)
    observed: str = f"{shape_text(tensor.shape)} {backend.dtype(tensor)}"
    name = f"batch[{path}]"
    if values.size == 0:
        return Row(name, "not empty", observed, "fail", "this tensor has no elements")
    low, high = number(float(values.min())), number(float(values.max()))
    observed = Text("{tensor}, {low} to {high}", tensor=observed, low=low, high=high)
    if not backend.is_float(tensor):
        return Row(name, "in range", observed, "ok")
    bad = int(values.size - numpy.isfinite(values).sum())
    if bad:
        observed = Text("{values}; {bad} of {count} not finite", values=observed, bad=bad, count=values.size)
        return Row(name, "finite", observed, "fail", "clean the data")
    mean, std = float(values.mean()), float(values.std())
    observed = Text("{values}, mean {mean}, std {std}", values=observed, mean=number(mean), std=number(std))
    if std == 0.0 and values.size > 1:
        return Row(name, "varies", observed, "warn", "every value is the same")
    if abs(mean) > _LARGE or std > _LARGE:
        return Row(
            name, "normalised", observed, "warn", "scale it: subtract the mean, divide by the standard deviation"
        )
    return Row(name, "finite, normalised", observed, "ok")


def output_rows(backend: Backend, batch: Batch, forward: Forward, loss: Loss | None) -> list[Row]:
    """Rows about the model's output, the targets and the loss."""
    found = []
    if forward.prediction is None:
        found.append(Row("model output", "a tensor of numbers", "none found", "note"))
    else:
        found.append(_prediction_row(backend, forward.prediction))
    classes = _classes(backend, batch, forward, loss)
    if classes:
        found.append(_label_row(backend, batch.target, classes))
    if forward.loss is None:
        detail = "pass loss=, or let the model return an object with .loss"
        return [*found, Row("loss", "one number", "none found", "fail", detail)]
    found.append(_loss_row(backend, forward.loss))
    if classes and loss is not None and _is_cross_entropy(loss):
        found += _cross_entropy_rows(backend, batch, forward, classes)
    return found


def _prediction_row(backend: Backend, prediction: Any) -> Row:  # noqa: ANN401
    import numpy

    values = backend.array(prediction)
    observed: str = f"{shape_text(prediction.shape)} {backend.dtype(prediction)}"
    if values.size == 0:
        return Row("model output", "not empty", observed, "fail")
    if not numpy.isfinite(values).all():
        observed = Text("{tensor}, not finite", tensor=observed)
        return Row("model output", "finite", observed, "fail", "labbook.checks.trace finds the layer")
    low, high, std = (number(float(value)) for value in (values.min(), values.max(), values.std()))
    observed = Text("{tensor}, {low} to {high}, std {std}", tensor=observed, low=low, high=high, std=std)
    if values.ndim >= 2 and values.shape[0] > 1:
        across = float(values.std(axis=0).max())
        if across == 0.0 and not values.any():
            observed = Text("{values}, all 0", values=observed)
            return Row("model output", "differs between samples", observed, "note", "a layer is initialised to zero")
        if across <= _SAME * float(abs(values).max()):
            detail = "the inputs do not reach the output: dead units, a wrong axis, or a constant"
            observed = Text("{values}, the same for all samples", values=observed)
            return Row("model output", "differs between samples", observed, "warn", detail)
    return Row("model output", "finite, differs between samples", observed, "ok")


def _classes(backend: Backend, batch: Batch, forward: Forward, loss: Loss | None) -> int:
    """Number of classes if the targets are class indices, else 0."""
    target, prediction = batch.target, forward.prediction
    if loss is None or prediction is None or not backend.is_tensor(target) or backend.is_float(target):
        return 0
    if len(prediction.shape) < 2 or backend.dtype(target) == "bool":
        return 0
    axis = 1 if len(prediction.shape) > 2 and list(target.shape[1:]) == list(prediction.shape[2:]) else -1
    count = int(prediction.shape[axis])
    return count if count > 1 and len(target.shape) <= len(prediction.shape) else 0


def _label_row(backend: Backend, target: Any, classes: int) -> Row:  # noqa: ANN401
    import numpy

    labels = backend.array(target).ravel()
    labels = labels[labels != -100]
    expected = Text("{low} to {high}", low=0, high=classes - 1)
    if labels.size == 0:
        return Row("labels", expected, "all ignored (-100)", "fail", "no label reaches the loss")
    found, counts = numpy.unique(labels, return_counts=True)
    low, high = number(int(found.min())), number(int(found.max()))
    observed = Text("{low} to {high}, {count} different ones", low=low, high=high, count=len(found))
    if found.min() < 0 or found.max() >= classes:
        detail = Text("the model gives {classes} classes, numbered from 0", classes=classes)
        return Row("labels", expected, observed, "fail", detail)
    if len(found) == 1 and labels.size >= 8:
        return Row("labels", "more than one class", observed, "warn", "is the loader shuffled?")
    share = f"{100 * float(counts.max() / labels.size):.0f} %"
    return Row("labels", expected, Text("{labels}, the most frequent {share}", labels=observed, share=share), "ok")


def _loss_row(backend: Backend, loss: Any) -> Row:  # noqa: ANN401
    if not backend.is_tensor(loss):
        return Row("loss", "a tensor", type(loss).__name__, "fail", "no gradient can flow from it")
    values = backend.array(loss)
    if values.size != 1:
        return Row("loss", "one number", shape_text(loss.shape), "fail", "reduce it with mean() or sum()")
    value = float(values.ravel()[0])
    if not math.isfinite(value):
        return Row("loss", "finite", number(value), "fail", "labbook.checks.trace finds the layer")
    return Row("loss", "one finite number", number(value), "ok")


def _is_cross_entropy(loss: Loss) -> bool:
    name = str(getattr(loss, "__name__", type(loss).__name__)).lower().replace("_", "")
    return "crossentropy" in name and "binary" not in name


def _cross_entropy_rows(backend: Backend, batch: Batch, forward: Forward, classes: int) -> list[Row]:
    import numpy

    values = backend.array(forward.prediction)
    axis = 1 if values.ndim > 2 and list(batch.target.shape[1:]) == list(values.shape[2:]) else -1
    sums = values.sum(axis=axis)
    if values.min() >= 0 and numpy.allclose(sums, 1.0, atol=1e-4):
        detail = "cross entropy takes raw scores and applies softmax itself: take the softmax out of the model"
        return [Row("output for cross entropy", "raw scores", "probabilities that sum to 1", "fail", detail)]
    expected, value = math.log(classes), float(backend.array(forward.loss).ravel()[0])
    observed = f"ln({classes}) = {number(expected)}"
    if value - expected > max(_OFF * expected, _OFF):
        detail = "an untrained model should be near chance level: check the last layer's initialisation and the labels"
        return [Row("first loss", observed, number(value), "warn", detail)]
    if expected - value > max(_OFF * expected, _OFF):
        return [
            Row("first loss", observed, number(value), "note", "trained before, or the labels leak into the inputs")
        ]
    return [Row("first loss", observed, number(value), "ok")]
