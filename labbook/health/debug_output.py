"""Batches, outputs and parameters at the first and the last inspected step, for the debugging tables of an entry."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from labbook.health.evidence.layer_history import Module, modules_of, parameters_of
from labbook.health.evidence.training_kind import ignored_labels
from labbook.health.evidence.trend_tests import median
from labbook.model.events.data_kinds import Batch, Leaf
from labbook.model.events.inspection_kinds import ModuleInspection
from labbook.model.series import Series
from labbook.model.signals import Signals

_LAYERS = 60
_PARAMETERS = 60
_MOST_OF_THEM = 0.8
_LEAVES = 6
_CLASSES = 200
"""Classes of a batch that are written; where there are as many, there may be more."""


def batches(signals: Signals, in_phases: bool = False) -> list[dict[str, Any]]:
    """Returns the first and last batch of each phase, of several trainings the first one, leaf by leaf.

    Returns:
        Rows of `phase`, `step`, `part` (number of the optimizer whose steps these are, from 1, where the training has
        several in turn; else 0), `leaf` (its path), `role`, `shape` (as "64x1x8x8"), `dtype`, `low`, `high`, `mean`,
        `std`, `bad` (values that are not finite), and `classes` (number of classes in the batch) for labels.
    """
    found = []
    ignored, ends = ignored_labels(signals), [end for _, end in signals.spans.values()] if in_phases else []
    for phase in ("train", "eval"):
        looks = [b for b in signals.batches if b.get("phase") == phase and b.get("leaves", [])]
        for batch in looks[:1] + (looks[1:][-1:] if not signals.trainings else []):  # the last is of another training
            part = min(len(ends), 1 + sum(end < batch.get("t", 0.0) for end in ends))
            rows = [_leaf(batch, leaf, ignored) | {"part": part} for leaf in batch.get("leaves", [])[:_LEAVES]]
            found += _merge_labels(rows)
    return found


def _merge_labels(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows of a batch; labels that are also an input of the model have the name of the input.

    Not the first input if that is a sequence of whole numbers: its target may be the same ones in another order.
    """
    found: list[dict[str, Any]] = []
    for row in rows:
        is_sequence = "int" in row["dtype"] and "x" in row["shape"]
        others = found[is_sequence:] if row["role"] == "label" else ()
        twin = next((other for other in others if _looks(other) == _looks(row)), None)
        if twin is None:
            found.append(row)
        else:
            # An autoencoder has its input as target; whole numbers are labels that the model was given, too.
            is_label = twin["role"] != "input" or "int" in row["dtype"]
            twin.update(role="label" if is_label else "input", classes=row["classes"])
    return found


def _looks(row: dict[str, Any]) -> list[Any]:
    return [value for name, value in row.items() if name not in ("leaf", "role", "classes")]


def _leaf(batch: Batch, leaf: Leaf, ignored: set[str]) -> dict[str, Any]:
    counts = batch.get("labels", {}).get("histogram", {})
    classes = set(counts)
    # The classes may be those of another loss than the first one, as of boxes, or of a column of ids in the data.
    counted = leaf.get("role") == "label" and 0 < len(classes) < _CLASSES and _are_values(leaf, counts)
    return {
        "phase": batch.get("phase", ""),
        "step": batch.get("step", 0),
        "leaf": leaf.get("path", ""),
        "role": leaf.get("role", ""),
        **_tensor(leaf),
        "classes": len(classes - ignored) if counted else 0,
    }


def _are_values(leaf: Leaf, counts: Mapping[str, int]) -> bool:
    """Whether counted classes are the values of a tensor: their lowest, highest and, where all are counted, mean."""
    try:
        numbers = {float(name): count for name, count in counts.items()}
    except ValueError:
        return False
    mean = sum(number * count for number, count in numbers.items()) / sum(numbers.values())
    is_whole = math.prod(leaf.get("shape", ())) == sum(numbers.values())
    is_mean = not is_whole or math.isclose(mean, leaf.get("mean", mean) or 0.0, rel_tol=1e-3, abs_tol=1e-3)
    return is_mean and [min(numbers), max(numbers)] == [leaf.get("min"), leaf.get("max")]


def _tensor(facts: Leaf | ModuleInspection) -> dict[str, Any]:
    return {
        "shape": "x".join(str(n) for n in facts.get("shape", ())) or "scalar",
        "dtype": facts.get("dtype", ""),
        "low": _round_value(facts.get("min")),
        "high": _round_value(facts.get("max")),
        "mean": _round_value(facts.get("mean")),
        "std": _round_value(facts.get("std")),
        "bad": facts.get("bad", 0),
    }


def layers(signals: Signals) -> dict[str, Any]:
    """Returns the outputs of each layer at the first and at the last look; empty when no output was inspected.

    Returns:
        `steps`: the numbers of the two looks (one where there was one). `left_out`: layers beyond the first 60.
        `rows`: `name`, `model`, `type`, and `looks`: for each step `shape`, `dtype`, `low`, `high`, `mean`, `std`,
        `bad`, `zero` (share of zeros), or nothing where the layer did not run then. Of several models those that are
        looked at together with the first one.
    """
    seen = [m for m in modules_of(signals) if m.history]
    looks: dict[int, set[int]] = {}
    for module in seen:
        looks.setdefault(module.model, set()).update(step for step, _ in module.history)
    last = {model: max(steps) for model, steps in looks.items()}
    together = [steps for model, steps in looks.items() if last[model] == last[min(last)]]
    seen = [m for m in seen if last[m.model] == last[min(last)]]
    steps = sorted(set.intersection(*together)) if together else []
    if not steps:
        return {}
    ends = sorted({steps[0], steps[-1]})
    return {
        "steps": ends,
        "left_out": max(0, len(seen) - _LAYERS),
        "rows": [
            {"name": m.name, "model": m.model, "type": m.type, "looks": [_look(m, step) for step in ends]}
            for m in seen[:_LAYERS]
        ],
    }


def _look(module: Module, step: int) -> dict[str, Any]:
    row = next((row for at, row in module.history if at == step), None)
    if row is None:
        return {}
    return {**_tensor(row), "zero": _round_value(row.get("zero"))}


def parameters(signals: Signals) -> dict[str, Any]:
    """Returns the parameters of each model at the last step at which most of them were inspected; empty without one.

    Returns:
        `steps` (in each of which those of one model were inspected), `left_out`, and `rows`: `name`, `model`, `step`,
        `shape`, `trainable`, `weight` and `gradient` (2-norms), `zero` (share of zeros in the gradient), `update` (its
        norm / norm of the weight), `bad` and `gradient_bad` (values that are not finite).
    """
    seen = [p for p in parameters_of(signals) if p.history]
    # Before a model has run through, the parameters of an optimizer have no names; later they are listed with theirs.
    seen = [p for p in seen if p.module] or seen
    if not seen:
        return {}
    last: dict[int, int] = {}
    for model in sorted({p.model for p in seen}):
        # Several optimizers have steps of their own.
        looks = Counter(step for p in seen if p.model == model for step, _ in p.history)
        last[model] = max(step for step, count in looks.items() if count >= _MOST_OF_THEM * max(looks.values()))
    seen = [p for p in seen if any(step == last[p.model] for step, _ in p.history)]
    seen.sort(key=lambda p: p.model)
    return {
        "steps": sorted({*last.values()}),
        "left_out": max(0, len(seen) - _PARAMETERS),
        "rows": [
            {
                "name": p.name,
                "model": p.model,
                "step": last[p.model],
                "shape": "x".join(map(str, p.shape)) or ("scalar" if p.module else ""),
                "trainable": p.trainable,
                "weight": _round_value(row.get("w")),
                "gradient": _round_value(row.get("g")),
                "zero": _round_value(row.get("g_zero")),
                "update": _round_value(row.get("ratio")),
                "bad": row.get("bad", 0),
                "gradient_bad": row.get("g_bad", 0),
            }
            for p in seen[:_PARAMETERS]
            for row in [dict(p.history)[last[p.model]]]
        ],
    }


def update_ratios(signals: Signals) -> tuple[Series, ...]:
    """Norm of the update / norm of the weight, the median over the matrices that each optimizer trains, at each look.

    `low` and `high` are the smallest and largest of them.
    """
    optimizers = sorted({event.get("opt", 0) for event in signals.tensors})
    if len(optimizers) > 1:
        parts = [[event for event in signals.tensors if event.get("opt", 0) == one] for one in optimizers]
        return tuple(each for part in parts for each in update_ratios(replace(signals, tensors=tuple(part))))
    by_step: dict[int, list[float]] = {}
    for parameter in parameters_of(signals):
        if parameter.is_matrix and parameter.trainable:
            for step, row in parameter.history:
                ratio = row.get("ratio")
                if ratio is not None:
                    by_step.setdefault(step, []).append(ratio)
    if not by_step:
        return ()
    steps = sorted(by_step)
    name = f"update_ratio.opt{optimizers[0]}" if optimizers[0] else "update_ratio"
    ratios = Series(
        name=f"{signals.label}/{name}" if signals.label else name,
        source="probe",
        steps=tuple(steps),
        values=tuple(median(by_step[step]) for step in steps),
        low=tuple(min(by_step[step]) for step in steps),
        high=tuple(max(by_step[step]) for step in steps),
        count=len(steps),
        rank=signals.rank,
    )
    return (ratios,)


def _round_value(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
