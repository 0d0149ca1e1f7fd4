"""Reads the options of a sweep and makes its trials: the whole grid, or a random sample of it. Pure."""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Iterator, Sequence

from labbook.errors import UsageError
from labbook.frozen import dataclass
from labbook.store.experiments import slug_part

MOST_TRIALS = 10_000
"""Largest number of trials. Source: chosen by us; at a minute each, that is a week."""

_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(-?\d{1,18}))?")
_LIKE_RANGE = re.compile(r"[-+.\deE]+?\.\.[-+.\deE]*")
Trial = tuple[tuple[str, str], ...]
"""Names and values of the options of one trial."""


@dataclass(frozen=True)
class Axis:
    """One option of a sweep with its values as text."""

    name: str
    values: Sequence[str]


@dataclass(frozen=True)
class _Numbers(Sequence[str]):
    """A range of integers as text, not stored."""

    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return str(self.numbers[index])


def parse_axes(words: Sequence[str]) -> list[Axis]:
    """Returns the options of a sweep.

    Args:
        words: `lr=0.001,0.01`, `seed=0..4`, `width=64..256..64`.

    Raises:
        UsageError: There are no values, a range is backwards or not of integers, or an option is named twice.
    """
    axes: list[Axis] = []
    for word in words:
        name, equals, values = word.partition("=")
        name = name.lstrip("-")
        if not equals or not name:
            raise UsageError("sweep.no_option", word=word, advice="sweep.option_advice")
        if any(axis.name == name for axis in axes):
            raise UsageError("sweep.twice", name=name)
        axes.append(Axis(name, _values(name, values)))
    if not axes:
        raise UsageError("sweep.no_options", advice="sweep.option_advice")
    return axes


def _values(name: str, text: str) -> Sequence[str]:
    found = _RANGE.fullmatch(text)
    if found is not None:
        low, high, step = int(found[1]), int(found[2]), int(found[3] or 1)
        if high < low or step <= 0:
            low, high = min(low, high), max(low, high)
            raise UsageError("sweep.backwards", name=name, values=text, low=str(low), high=str(high))
        return _Numbers(range(low, high + 1, step))
    if _LIKE_RANGE.fullmatch(text):
        raise UsageError("sweep.no_integers", name=name, values=text, advice="sweep.list_advice")
    values = list(dict.fromkeys(text.split(",")))
    if not text or "" in values:
        raise UsageError("sweep.no_values", name=name, values=text, advice="sweep.option_advice")
    return values


def make_trials(axes: Sequence[Axis], sample: int | None, seed: int) -> list[Trial]:
    """Returns the trials: all combinations in order, or a random sample without repeats, the same for the same seed.

    Raises:
        UsageError: There are more than `MOST_TRIALS`.
    """
    count = math.prod(len(axis.values) for axis in axes)
    wanted = count if sample is None else min(sample, count)
    if wanted > MOST_TRIALS:
        raise UsageError("sweep.too_many", count=f"{wanted:,}", most=str(MOST_TRIALS))
    numbers = range(count) if wanted == count else sorted(_sample_indexes(count, wanted, seed))
    return [tuple(_combination(axes, number)) for number in numbers]


def _sample_indexes(count: int, wanted: int, seed: int) -> set[int]:
    rng, found = random.Random(seed), set[int]()
    while len(found) < wanted:  # a `range` of more than 2^63 numbers has no length to sample from
        found.add(rng.randrange(count))
    return found


def _combination(axes: Sequence[Axis], number: int) -> Iterator[tuple[str, str]]:
    """Yields the options of one combination; the last axis changes fastest."""
    places = []
    for axis in reversed(axes):
        number, place = divmod(number, len(axis.values))
        places.append((axis.name, axis.values[place]))
    yield from reversed(places)


def sweep_name(script: str, words: Sequence[str], rest: Sequence[str]) -> str:
    """Returns the name of a sweep: the same for the same command line, so that it can be resumed."""
    names = "-".join(word.partition("=")[0].lstrip("-") for word in words)
    digest = hashlib.sha256("\0".join([script, *words, "--", *rest]).encode("utf-8", "surrogateescape")).hexdigest()
    stem = slug_part(f"{script.rpartition('/')[2].removesuffix('.py')}-{names}")
    return f"{stem or 'sweep'}-{digest[:4]}"
