"""What the batches of a training held: their input tensors, and whether fingerprints keep their samples apart."""

from __future__ import annotations

import math

from labbook.health.evidence.layer_history import modules_of
from labbook.health.evidence.trend_tests import median
from labbook.model.events.data_kinds import Leaf
from labbook.model.events.inspection_kinds import ModuleOptions
from labbook.model.message import Message, message
from labbook.model.signals import Signals

_DISTINCT = 300
"""Samples of an epoch: where any two had the same fingerprint by chance in 1 of 20,000 pairs, 2 of them would."""


def input_leaves(signals: Signals) -> dict[str, list[tuple[int, int, Leaf]]]:
    """Returns path of an input leaf -> (step, samples, leaf) of the training batches that were inspected.

    The state of a recurrent layer that a program carries from batch to batch is no data.
    """
    found: dict[str, list[tuple[int, int, Leaf]]] = {}
    recurrent = [module.options for module in modules_of(signals) if "hidden_size" in module.options]
    for batch in signals.batches:
        if batch.get("phase") != "train":
            continue
        for leaf in batch.get("leaves", []):
            if leaf.get("role") != "input" or not leaf.get("shape", (1,)):  # a scalar is a setting, not data
                continue
            if not any(_is_state(leaf, options) for options in recurrent):
                look = (batch.get("step", 0), batch.get("samples", 0), leaf)
                found.setdefault(leaf.get("path", ""), []).append(look)
    return found


def _is_state(leaf: Leaf, options: ModuleOptions) -> bool:
    """Whether an input that is not the first one has the form of the state of a recurrent layer or cell."""
    form, layers = leaf.get("shape", ()), options.get("num_layers")
    if leaf.get("integer") or leaf.get("path") == "0" or not form or form[-1] != options["hidden_size"]:
        return False
    return len(form) == 2 if layers is None else len(form) == 3 and form[0] in (layers, 2 * layers)


def training_loaders(signals: Signals) -> set[int]:
    """Returns the numbers of the loaders with batches that the program trained on."""
    return {event["loader"] for event in signals.prints if event.get("phase") == "train" and "loader" in event}


def has_distinct_fingerprints(signals: Signals) -> bool:
    """Whether different samples surely have different fingerprints, which cover only some of their numbers.

    Source: chosen by us; at least 8 numbers, half of them not 0, and whole numbers only of a wide range or many. Or at
    least 300 samples of an epoch were seen, and no two of them have the same one.
    """
    epochs = [[row[0] for row in e.get("rows", [])] for e in signals.prints if e.get("phase") == "train"]
    long = [rows for rows in epochs if len(rows) >= _DISTINCT]
    if long and all(len(set(rows)) == len(rows) for rows in long):
        return True
    leaves = [leaf for looks in input_leaves(signals).values() for _, _, leaf in looks[:1]]
    if not leaves:
        return False
    leaf = leaves[0]
    numbers = math.prod(leaf.get("shape", ())[1:])
    wide = (leaf.get("max") or 0.0) - (leaf.get("min") or 0.0) >= 100
    whole = leaf.get("integer") and not (wide or numbers >= 16)
    return numbers >= 8 and not whole and (leaf.get("zero") or 0.0) < 0.5


def spreading_inputs(signals: Signals) -> Message | None:
    """The standard deviations of an input that ends at twice that of the beginning or more, as in a curriculum."""
    for looks in input_leaves(signals).values():
        spreads = [std for _, _, leaf in looks if (std := leaf.get("std")) is not None and math.isfinite(std)]
        first, last = (median(part) if part else 0.0 for part in (spreads[:3], spreads[-3:]))
        if len(spreads) >= 6 and last >= 2 * first > 0:
            return message("health.loss_diverging.inputs", first=first, last=last)
    return None
