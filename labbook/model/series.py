"""A measured quantity over the steps of a run."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from labbook.frozen import dataclass

_WINDOW_SHARE = 10
_LEAST_WINDOW = 3
"""The best of a value measured on batches is the best median of a tenth of the points, at least three, that follow one
another, see `best_level`. Source: chosen by us; one batch says nothing of a model, nor does the first value of a
running mean."""


@dataclass(frozen=True)
class Series:
    """The history of one number.

    Args:
        name: Quantity: `loss`, `grad_norm`, `lr`, `step_time_s`, or the name that the program logged.
        source: Origin: "probe", "labbook", "tensorboard", "visualdl", "wandb", "mlflow", "text" (read from
            the console), or the path of a table that the run wrote.
        steps: Step of each point, ascending. Shape: `(n,)`.
        values: Value of each point; may contain NaN and infinities. Shape: `(n,)`.
        low: Smallest value in the window of a point; equal to `values` if each point is one step.
        high: Largest value in that window.
        count: Number of measured values; at least `len(values)`.
        nonfinite: Number of NaN and infinite values.
        rank: Rank in distributed training, else `None`.
        starts: Index of each point at which printed epochs begin anew, as in one training after another; the first is
            0. Empty where they do not.
        axis: What `steps` number: "step", "epoch", or "number" of the values themselves; "" is unknown, "line" an epoch
            or a step: the number that printed lines begin with; "fraction" what a bare "[12/20]" counts.
    """

    name: str
    source: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    count: int = 0
    nonfinite: int = 0
    rank: int | None = None
    starts: tuple[int, ...] = ()
    axis: str = ""

    @classmethod
    def of_values(
        cls,
        name: str,
        source: str,
        steps: Iterable[int],
        values: Iterable[float],
        *,
        rank: int | None = None,
        starts: tuple[int, ...] = (),
        axis: str = "",
    ) -> Series:
        """Returns a series of which each point is one measured value."""
        measured = tuple(values)
        bad = sum(not math.isfinite(value) for value in measured)
        return cls(name, source, tuple(steps), measured, measured, measured, len(measured), bad, rank, starts, axis)

    @property
    def is_from_text(self) -> bool:
        """Whether it was read from the console or a table: values may be rounded, and steps may be epochs."""
        return self.source == "text" or self.source.lower().endswith((".csv", ".tsv", ".jsonl"))

    @property
    def first(self) -> float | None:
        """First value, or `None` if the series is empty."""
        return self.values[0] if self.values else None

    @property
    def last(self) -> float | None:
        """Last value, or `None` if the series is empty."""
        return self.values[-1] if self.values else None

    @property
    def median(self) -> float | None:
        """Median of the finite values, or `None` if there are none."""
        finite = [value for value in self.values if math.isfinite(value)]
        return statistics.median(finite) if finite else None

    @property
    def last_step(self) -> int | None:
        """Step of the last point, or `None`; also where `steps` are epochs or numbers of values."""
        return self.steps[-1] if self.steps and self.axis in ("", "step") else None


def join_series(series: Sequence[Series]) -> list[Series]:
    """Returns one series with the values of all, of optimizers that step one after another; none of none."""
    values = [value for one in series for value in one.values]
    return [Series.of_values(series[0].name, series[0].source, range(1, len(values) + 1), values)] if values else []


def unequal_steps(series: Sequence[Series], steps: int) -> tuple[int, ...]:
    """Returns the steps of each optimizer where several take turns unequally often, as those of a critic; else nothing.

    Args:
        series: Those of a run.
        steps: Steps of the run, which add up those of optimizers that came one after the other.
    """
    counts: dict[str, int] = {}
    for one in series:
        name, _, optimizer = one.name.partition(".")
        if name in ("loss", "lr") and "group" not in optimizer and one.source == "probe" and not one.rank:
            counts[optimizer] = max(counts.get(optimizer, 0), one.last_step or 0)
    found = tuple(counts.values())
    return found if len(set(found)) > 1 and max(found) == steps else ()


def window_of(series: Series) -> int:
    """Returns the number of points of which values of single batches are the median."""
    return max(_LEAST_WINDOW, len(series.values) // _WINDOW_SHARE)


def best_level(values: Sequence[float], window: int, *, max_first: bool) -> float | None:
    """Returns the best median of `window` successive finite values, or `None` if there are none.

    The last value counts, too, where all values of the last window improved: it is not good by chance.
    """
    levels: list[float] = []
    recent: list[float] = []  # the last finite values, sorted: sorting each window anew takes ten times as long
    for end, value in enumerate(values):
        if not math.isfinite(value):
            recent.clear()
            continue
        insort(recent, value)
        if len(recent) > window:
            del recent[bisect_left(recent, values[end - window])]
        if len(recent) == window:
            levels.append(statistics.median(recent))
    last = values[-window:]
    if len(recent) == window and list(last) == sorted(set(last), reverse=not max_first):
        levels.append(last[-1])
    return (max if max_first else min)(levels) if levels else None
