"""What the batches of a training held: their input tensors, and whether fingerprints keep their samples apart."""

from __future__ import annotations

import math

from labbook.model.events.data_kinds import Leaf
from labbook.model.signals import Signals

_DISTINCT = 300
"""Samples of an epoch: where any two had the same fingerprint by chance in 1 of 20,000 pairs, 2 of them would."""


def input_leaves(signals: Signals) -> dict[str, list[tuple[int, int, Leaf]]]:
    """Returns path of an input leaf -> (step, samples, leaf) of the training batches that were inspected."""
    found: dict[str, list[tuple[int, int, Leaf]]] = {}
    for batch in signals.batches:
        if batch.get("phase") != "train":
            continue
        for leaf in batch.get("leaves", []):
            if leaf.get("role") == "input" and leaf.get("shape", (1,)):  # a scalar is a setting, not data
                look = (batch.get("step", 0), batch.get("samples", 0), leaf)
                found.setdefault(leaf.get("path", ""), []).append(look)
    return found


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
