"""Compares metrics that a program logs with what the outputs and labels of its validation passes give.

A logged metric that fits no usual definition and, value by value, one that is a common mistake is computed so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from statistics import median

from labbook.frozen import dataclass
from labbook.health.evidence.measurements import finite_points
from labbook.model.events.training_kinds import ComparedPass
from labbook.model.metric_kinds import SPLITS, metric_kind, name_words
from labbook.model.run import Run
from labbook.model.signals import Signals

_USUAL = "all"
"""The variant that is the usual definition."""

_FEWEST = 3
"""Values that have to differ from the usual definition and from each other. Source: chosen by us."""

_CLEAR = 4
"""Rounding errors by which two values differ clearly."""

_HALF = 0.51
"""Share of the last digit by which a rounded value is off."""

_ACCURACY = {"acc", "accuracy", "top1", "准确率", "正确率"}
_PLAIN = {*_ACCURACY, "pixel", "token", "tokens", *SPLITS}
_NAMES = {
    "accuracy": _PLAIN,
    "f1": {"f1", "score", *SPLITS},
    "macro": {"f1", "macro", "score", *SPLITS},
    "mse": {"mse", *SPLITS},
    "mae": {"mae", "l1", *SPLITS},
    "rmse": {"rmse", *SPLITS},
}
_WORDS = {"accuracy": _ACCURACY, "macro": {"f1"}}
_SHARES = ("accuracy", "f1", "macro")


@dataclass(frozen=True)
class WrongDefinition:
    """A logged metric that is computed in another way than its name says.

    Args:
        how: Name of the variant, as in the event `evaluation`, or "carried", "carried_mean", "divided".
        logged: Its last value.
        right: That of the usual definition.
        passes: Number of passes that it was compared in.
        samples: Labels of the last pass.
        divisor: What a number of right answers was divided by.
    """

    name: str
    how: str
    logged: float
    right: float
    passes: int
    samples: int
    is_share: bool
    divisor: int = 0


def is_plain_accuracy(name: str) -> bool:
    """Whether a metric is the share of right answers: not of top 5 or of whole sequences, and no mean over classes."""
    kind = metric_kind(name)
    return kind.quantity == "accuracy" and kind.split != "train" and {*name_words(name)} <= _PLAIN


def find_wrong_definition(run: Run, signals: Signals) -> WrongDefinition | None:
    """Returns the first logged metric of held-out data that is computed in a wrong way, in each of its values.

    None where the program logs the usual one as well: then the other is a display, as of a batch in a progress bar.
    """
    passes: dict[int | None, list[ComparedPass]] = {}
    for phase in signals.evaluations:
        for row in phase.get("compared", []):
            passes.setdefault(row.get("loader"), []).append(row)
    lengths, candidates = _known_lengths(signals), []
    for series in run.series:
        values = finite_points(series)[1]
        if series.source == "probe" or len(values) < _FEWEST:
            continue
        rows = [part for one in passes.values() for part in _aligned(one, len(values))]
        tries = [_Comparison(values, quantity, part) for quantity in _quantities(series.name) for part in rows]
        tries = [one for one in tries if one.is_known]
        if any(one.fits(one.right) for one in tries):
            return None
        candidates += [(series.name, *mistake) for one in tries for mistake in one.mistakes(lengths)]
    if not candidates:
        return None
    name, one, how, wrong, divisor = candidates[0]
    samples, logged, right = one.rows[-1].get("n", 0), wrong[-1], one.right[-1]
    return WrongDefinition(name, how, logged, right, len(wrong), samples, one.is_share, divisor)


def _quantities(name: str) -> list[str]:
    """The metrics that a name may stand for; none for those of training data, and for repeated best values."""
    kind, words = metric_kind(name), {*name_words(name)}
    if kind.split == "train" or kind.running_best:
        return []
    return [one for one, known in _NAMES.items() if words <= known and words & _WORDS.get(one, {one})]


def _aligned(rows: list[ComparedPass], count: int) -> Iterator[list[ComparedPass]]:
    """Yield the passes that so many values may be of: all, the last or first ones, every second and so on."""
    if len(rows) >= count:
        yield rows[-count:]
    if len(rows) > count:
        yield rows[:count]
        every = len(rows) // count
        if every > 1:
            yield rows[every - 1 :: every][:count]


def _known_lengths(signals: Signals) -> set[int]:
    """Lengths of the data, numbers of batches and of samples in full batches."""
    found = set()
    for loader in signals.loaders:
        batches, size = loader.get("batches") or 0, loader.get("batch_size") or 0
        found |= {loader.get("length") or 0, batches, size, batches * size}
    return found - {0}


class _Comparison:
    """The values of a series beside as many passes.

    Args:
        values: Logged values.
        quantity: The metric of the passes that they are compared with.

    Attributes:
        right: The values of the usual definition.
        is_known: Whether all passes have this metric.
    """

    def __init__(self, values: Sequence[float], quantity: str, rows: list[ComparedPass]) -> None:
        self.values, self.rows = values, rows
        self.is_share, self._is_count = quantity in _SHARES, quantity == "accuracy"
        self._tables = [row.get("values", {}).get(quantity, {}) for row in rows]
        self.is_known = all(self._tables)
        self.right = [table.get(_USUAL, math.nan) for table in self._tables]
        self._unit = next((10.0**-d for d in range(7) if all(abs(v - round(v, d)) < 1e-9 for v in values)), 0.0)

    def fits(self, expected: Sequence[float]) -> bool:
        """Whether all values are these, but for rounding."""
        return any(self._fits(expected, scale) for scale in self._scales())

    def _scales(self) -> tuple[float, ...]:
        return (1.0, 100.0) if self.is_share else (1.0,)

    def _fits(self, expected: Sequence[float], scale: float) -> bool:
        pairs = zip(self.values, expected, strict=True)
        return all(abs(value / scale - one) <= self._rounding(one, scale) for value, one in pairs)

    def _rounding(self, value: float, scale: float) -> float:
        return _HALF * self._unit / scale + (1e-6 if self.is_share else 1e-4 * abs(value))

    def mistakes(self, lengths: set[int]) -> Iterator[tuple[_Comparison, str, list[float], int]]:
        """Yield the wrong definitions that fit all values: this, name, values, divisor."""
        variants = ((how, [table.get(how, math.nan) for table in self._tables], 0) for how in sorted(self._tables[0]))
        for how, wrong, divisor in (*variants, *self._carried(), *self._divided(lengths)):
            for scale in self._scales():
                if how != _USUAL and self._fits(wrong, scale) and self._is_clear(wrong, scale):
                    yield self, how, wrong, divisor

    def _carried(self) -> Iterator[tuple[str, list[float], int]]:
        """Yield sums and means over the passes so far of one loader from its first one on."""
        if [row.get("epoch") for row in self.rows] == [*range(len(self.rows))]:
            for variant in (_USUAL, "mean"):
                sums = [*accumulate(table.get(variant, math.nan) for table in self._tables)]
                yield "carried", sums, 0
                yield "carried_mean", [total / number for number, total in enumerate(sums, 1)], 0

    def _divided(self, lengths: set[int]) -> Iterator[tuple[str, list[float], int]]:
        """Yield the numbers of right answers divided by another length than that of the pass."""
        right = [row.get("right", 0) for row in self.rows] if self._is_count else []
        for divisor in sorted(lengths - {row.get("n", 0) for row in self.rows}) if any(right) else ():
            yield "divided", [one / divisor for one in right], divisor

    def _is_clear(self, wrong: Sequence[float], scale: float) -> bool:
        """Whether the values of a wrong definition differ clearly from those of the usual one, and enough to matter."""
        parts = [(w, abs(w - r), _CLEAR * self._rounding(r, scale)) for w, r in zip(wrong, self.right, strict=True)]
        distinct = {round(value / max(step, 1e-9)) for value, off, step in parts if off > step}
        needed = 0.01 if self.is_share else 0.02 * median(map(abs, self.right))
        return len(distinct) >= _FEWEST and max(off for _, off, _ in parts) > needed
