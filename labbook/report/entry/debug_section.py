"""Tables for debugging: modules, batches, layer outputs and parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labbook.model.run import Run
from labbook.report import numbers
from labbook.report.entry.section_limits import Limits, shorten_middle

_MOST_MODELS = 8
"""Most models in one table, such as generator and critic. Source: chosen by us."""

_SHUFFLING = ("", "RandomSampler", "SubsetRandomSampler", "DistributedSampler", "DistributedBatchSampler")
"""Samplers of which it is known that they take each sample once, in random order; others are named."""


def module_rows(run: Run, limits: Limits) -> dict[str, Any]:
    """Returns the table of modules of the first models, without rows if no forward pass was seen.

    Returns:
        `rows`: `name`, `model` (number of the model, at the root of one of several that the program does not name),
        `type`, `shapes`, `parameters` (of the module and all in it), `tied` (module that has one of them, too); `more`:
        number of modules left out.
    """
    models = as_rows(run.health.get("models"))[:_MOST_MODELS]
    names, rows, more = _name_models(run), [], 0
    for model in models:
        known = as_rows(model.get("rows"))
        shown = _limit_depth(known, max(1, limits.rows // len(models)))
        more += len(known) - len(shown) + int(model.get("left_out") or 0)
        rows += [
            {
                "name": shorten_middle(_qualify_name(names, model.get("model"), row.get("name")), limits.cell),
                "model": _number_of(names, model.get("model")) if not row.get("name") else 0,
                "type": str(row.get("type") or ""),
                "tied": shorten_middle(_qualify_name(names, *row["tied"]), limits.cell) if row.get("tied") else "",
                "shapes": _arrow(str(row.get("input") or ""), str(row.get("output") or ""), limits),
                "parameters": _parameters(row),
            }
            for row in shown
        ]
    return {"rows": rows, "more": more}


def _name_models(run: Run) -> dict[Any, str | int]:
    """Returns number of a model -> what the program calls it, or its number from 1; empty where classes tell."""
    models = as_rows(run.health.get("models"))[:_MOST_MODELS]
    names = [str(model.get("variable") or "") for model in models]
    if len(names) == 1 or len({*names} - {""}) < len(names):
        if len({model.get("root") for model in models}) == len(models):
            return {}
        return {model.get("model"): at for at, model in enumerate(models, 1)}
    return {model.get("model"): name for model, name in zip(models, names, strict=True)}


def _qualify_name(names: Mapping[Any, str | int], model: object, module: object) -> str:
    """Returns the name of a module or parameter, with that of its model where there are several: `G.0.weight`."""
    name, module = names.get(model, ""), str(module or "")
    if not isinstance(name, str):
        return module or "(root)"
    return f"{name}.{module}" if name and module else name or module or "(root)"


def _number_of(names: Mapping[Any, str | int], model: object) -> int:
    """Returns the number of one of several models that the program does not name, else 0."""
    name = names.get(model, 0)
    return name if isinstance(name, int) else 0


def _limit_depth(known: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Returns the modules down to the depth at which they fit, in tree order."""
    deepest = max((int(row.get("depth") or 0) for row in known), default=0)
    while deepest > 0 and sum(int(row.get("depth") or 0) <= deepest for row in known) > most:
        deepest -= 1
    return [row for row in known if int(row.get("depth") or 0) <= deepest][:most]


def _arrow(before: str, after: str, limits: Limits) -> str:
    return (
        f"{shorten_middle(before, limits.cell // 2)} → {shorten_middle(after, limits.cell // 2)}"
        if before or after
        else ""
    )


def _parameters(row: Mapping[str, Any]) -> str:
    every = int(row.get("total", row.get("parameters")) or 0)
    trainable = int(row.get("total_trainable", row.get("trainable")) or 0)
    if not every:
        return ""
    return numbers.count(every) if every == trainable else f"{numbers.count(every)} ({numbers.count(trainable)})"


def data_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns batches and DataLoaders, or `None` if no batch was seen.

    Returns:
        `rows`: `phase`, `step`, `part`, `role`, `leaf`, `shape`, `dtype`, `range`, `spread` (mean and standard
        deviation), `note` (classes, values that are not finite); `loaders`: the settings of the first loaders.
    """
    found = as_rows(run.health.get("batches"))
    loaders = as_rows(run.health.get("loaders"))
    if not found and not loaders:
        return None
    return {
        "rows": [
            {
                "phase": str(row.get("phase") or ""),
                "step": numbers.count(int(row.get("step") or 0)),
                "part": int(row.get("part") or 0),
                **_leaf(row, limits),
                **_spread_cells(row),
                "classes": int(row.get("classes") or 0),
                "bad": int(row.get("bad") or 0),
            }
            for row in found[: limits.rows]
        ],
        "loaders": _drop_duplicates(
            {
                "dataset": shorten_middle(str(row.get("dataset") or ""), limits.cell),
                "length": numbers.count(row["length"]) if isinstance(row.get("length"), int) else "",
                "share": numbers.count(row["share"]) if isinstance(row.get("share"), int) else "",
                "ranks": row.get("ranks"),
                "batch_size": row.get("batch_size"),
                "workers": row.get("workers"),
                "shuffle": bool(row.get("shuffle")),
                "sampler": _unknown_order(row),
                "iterable": bool(row.get("iterable")),
                "number": int(row.get("alike") or 0) + 1,
            }
            for row in loaders
        ),
    }


def _unknown_order(loader: Mapping[str, Any]) -> str:
    """Returns the class of a sampler that may choose the samples in any way, "" where that is known."""
    sampler = str(loader.get("sampler") or "")
    return sampler if loader.get("shuffle") and sampler not in _SHUFFLING else ""


def _drop_duplicates(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows once, with the number of those of other data: a loader is often created for each epoch."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = found.setdefault(str(row | {"number": 0}), row)
        known["number"] = max(known["number"], row["number"])
    return list(found.values())


def _leaf(row: Mapping[str, Any], limits: Limits) -> dict[str, str]:
    """Returns the path of a tensor in its batch, and its role where the path is only a number or missing."""
    path, role = str(row.get("leaf") or ""), str(row.get("role") or "")
    is_known = not path or (path.replace(".", "").isdigit() and role in ("input", "label"))
    return {"role": role if is_known else "", "leaf": shorten_middle(path, limits.cell)}


def _spread_cells(row: Mapping[str, Any]) -> dict[str, str]:
    low, high = _number(row.get("low")), _number(row.get("high"))
    mean, std = _number(row.get("mean")), _number(row.get("std"))
    return {
        "shape": str(row.get("shape") or ""),
        "dtype": str(row.get("dtype") or ""),
        "range": f"{low} to {high}" if low and high else "",
        "low": low,
        "high": high,
        "spread": f"{mean} / {std}" if mean and std else "",
    }


def debug_section(run: Run, limits: Limits) -> dict[str, Any] | None:
    """Returns layer outputs of the first and last observed step and parameters of the last, or `None`.

    Returns:
        `steps`: the observed steps; `layers`: `name`, `type`, `looks` (for each step: `range`, `spread`, `zero`,
        `bad`); `weights`: `name`, `shape`, `weight`, `gradient`, `ratio` (update / weight), `zero`, `bad`; `inspected`:
        their steps; `clipped`: whether gradients were clipped before; `more_layers`, `more_weights`: rows left out.
    """
    layers, weights = _table(run.health.get("layers")), _table(run.health.get("weights"))
    if not layers and not weights:
        return None
    layer_rows, weight_rows = as_rows(layers.get("rows")), as_rows(weights.get("rows"))
    names = _name_models(run) if len({row.get("model") for row in weight_rows}) > 1 else {}
    named = _name_models(run) if len(as_rows(run.health.get("models"))) > 1 else {}
    return {
        "steps": [numbers.count(int(step)) for step in layers.get("steps") or ()],
        "layers": [
            {
                "name": shorten_middle(_qualify_layer(named, row), limits.cell),
                "type": str(row.get("type") or ""),
                "looks": [_layer(look) for look in as_rows(row.get("looks"))],
            }
            for row in layer_rows[: limits.rows]
        ],
        "more_layers": max(0, len(layer_rows) - limits.rows) + int(layers.get("left_out") or 0),
        "inspected": [numbers.count(int(step)) for step in weights.get("steps") or [weights.get("step") or 0]],
        "clipped": run.clips_by_call,
        "weights": [
            _weight(row, names, limits) | {"step": row.get("step") if len(weights.get("steps") or ()) > 1 else None}
            for row in weight_rows[: limits.rows]
        ],
        "more_weights": max(0, len(weight_rows) - limits.rows) + int(weights.get("left_out") or 0),
    }


def _qualify_layer(names: Mapping[Any, str | int], row: Mapping[str, Any]) -> str:
    """Returns the name of a layer, with that of its model where that has one, or its class."""
    model = row.get("model", 0)
    if isinstance(names.get(model), str):
        return _qualify_name(names, model, row.get("name"))
    return str(row.get("name") or row.get("type"))


def _layer(look: Mapping[str, Any]) -> dict[str, Any]:
    if not look:
        return {"range": "", "spread": "", "zero": "", "bad": 0, "shape": ""}
    zero = look.get("zero")
    share = numbers.percent(zero) if isinstance(zero, (int, float)) and zero > 0 else ""
    return {**_spread_cells(look), "zero": share, "bad": int(look.get("bad") or 0)}


def _weight(row: Mapping[str, Any], names: Mapping[Any, str | int], limits: Limits) -> dict[str, Any]:
    zero = row.get("zero")
    return {
        "name": shorten_middle(_qualify_name(names, row.get("model"), row.get("name")), limits.cell),
        "model": _number_of(names, row.get("model")),
        "shape": str(row.get("shape") or ""),
        "trainable": bool(row.get("trainable")),
        "weight": _number(row.get("weight")),
        "gradient": _number(row.get("gradient")),
        "ratio": _number(row.get("update")),
        "zero": numbers.percent(zero) if isinstance(zero, (int, float)) and zero > 0 else "",
        "bad": int(row.get("bad") or 0),
        "gradient_bad": int(row.get("gradient_bad") or 0),
    }


def _number(value: object) -> str:
    return numbers.number(float(value)) if isinstance(value, (int, float)) else ""


def as_rows(value: object) -> list[Mapping[str, Any]]:
    """Returns the mappings in a list; an entry of another version may have any other value."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, (list, tuple)) else []


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
