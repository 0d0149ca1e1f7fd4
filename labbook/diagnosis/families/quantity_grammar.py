"""How messages of torch and paddle compare quantities: "expected <quantity> <value> but got <value>".

The kind of quantity (sizes, types, devices) gives the family; the particular operation does not matter.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from labbook.diagnosis.toml_data import compile_patterns

_RE = compile_patterns(__file__)

_FAR = 240
_NEAR = 60


def value_differs(sentence: str, quantity: str) -> bool:
    """Whether one value of a quantity ("size", "type" or "device") was expected and another one came."""
    return any(
        _RE["expected"].search(sentence, max(0, first.start() - _FAR), first.start())
        and _RE["received"].search(sentence, first.end(), second.start())
        for first, second in _unequal(sentence, _RE[quantity], _FAR)
    )


def is_versus(sentence: str, quantity: str) -> bool:
    """Whether two values of a quantity, see `value_differs`, are set against each other: "(4, 8) and (10, 2)"."""
    pairs = _unequal(sentence, _RE[quantity], _FAR // 3)
    return any(_RE["against"].search(sentence, first.end(), second.start()) for first, second in pairs)


def is_apart(sentence: str) -> bool:
    """Whether two things are on different devices: "on device cuda:0 ... on device cpu"."""
    return len({found["device"].lower() for found in _RE["placed"].finditer(sentence)}) > 1


def count_differs(sentence: str) -> bool:
    """Whether so many were expected and another number came, in any order: "expected 3 dimensions, got 2"."""
    for first, second in _unequal(sentence, _RE["count"], _NEAR):
        before = sentence[max(0, first.start() - _NEAR) : first.start()]
        between = sentence[first.end() : second.start()]
        counted = _RE["counted"].search(f"{before} {between} {sentence[second.end() : second.end() + 20]}")
        forward = _RE["expected"].search(before) and _RE["received"].search(between)
        if counted and (forward or "expect" in between.lower()):
            return True
    return False


def are_near(sentence: str, first: re.Pattern[str], second: re.Pattern[str]) -> bool:
    """Whether both patterns fit close to each other without the end of a sentence in between."""
    for one in first.finditer(sentence):
        before = _RE["part"].split(sentence[max(0, one.start() - _NEAR) : one.start()])[-1]
        after = _RE["part"].split(sentence[one.end() : one.end() + _NEAR])[0]
        if second.search(before) or second.search(after):
            return True
    return False


def _unequal(sentence: str, values: re.Pattern[str], most: int) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """Neighbouring values that are not equal and at most so many letters apart."""
    for first, second in itertools.pairwise(values.finditer(sentence)):
        if first.group() != second.group() and second.start() - first.end() <= most:
            yield first, second
