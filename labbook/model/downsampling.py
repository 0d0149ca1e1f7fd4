"""Fewer points for the same story: long series made short without hiding an extreme."""

from __future__ import annotations

import math
from collections.abc import Iterator

from labbook.model.series import Series

_MAX_TRANSITIONS = 32
"""How many changes between finite and not finite keep a point of their own. Source: chosen by us; a loss that flickers
more often than that is told by `nonfinite`."""


def thinned(series: Series, points: int) -> Series:
    """The same series with at most about `points` points, each with the smallest and largest value it stands for.

    The first and last point, the extremes, and the points where the values stop or start being finite are kept as they
    are; the others are joined in windows of equal length. A joined point has the step and value of the last one in its
    window, or the window's first value that is not finite, so that a NaN is never averaged away.

    Args:
        series: Any series; it is returned itself when it is short enough.
        points: At least 8.
    """
    n = len(series.values)
    if n <= points:
        return series
    alone = _kept_alone(series)
    windows = list(_windows(n, alone, max(1, points - len(alone))))
    low, high = series.low or series.values, series.high or series.values
    chosen = [_representative(series, start, stop) for start, stop in windows]
    return Series(
        name=series.name,
        source=series.source,
        steps=tuple(
            series.steps[stop - 1] if i != stop - 1 and math.isfinite(series.values[i]) else series.steps[i]
            for i, (_, stop) in zip(chosen, windows, strict=True)
        ),
        values=tuple(series.values[i] for i in chosen),
        low=tuple(_extreme(low[a:b], least=True) for a, b in windows),
        high=tuple(_extreme(high[a:b], least=False) for a, b in windows),
        count=series.count,
        nonfinite=series.nonfinite,
        rank=series.rank,
    )


def _representative(series: Series, start: int, stop: int) -> int:
    """Index of the value that a window shows: its first that is not finite, else its last."""
    return next((i for i in range(start, stop) if not math.isfinite(series.values[i])), stop - 1)


def _extreme(values: tuple[float, ...], *, least: bool) -> float:
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return values[0]
    return min(finite) if least else max(finite)


def _kept_alone(series: Series) -> list[int]:
    """Indices of the points that keep a window of their own, ascending."""
    values = series.values
    low, high = series.low or values, series.high or values
    finite = [math.isfinite(v) for v in values]
    changes = [i for i in range(1, len(values)) if finite[i] != finite[i - 1]][:_MAX_TRANSITIONS]
    lows = [i for i in range(len(values)) if math.isfinite(low[i])]
    highs = [i for i in range(len(values)) if math.isfinite(high[i])]
    extremes = [min(lows, key=lambda i: low[i])] if lows else []
    extremes += [max(highs, key=lambda i: high[i])] if highs else []
    return sorted({0, len(values) - 1, *extremes, *changes})


def _windows(n: int, alone: list[int], wanted: int) -> Iterator[tuple[int, int]]:
    """Ascending half-open ranges that cover `0..n`; each index in `alone` is a range of its own."""
    length = max(1, math.ceil((n - len(alone)) / wanted))
    start = 0
    for stop in (*alone, n):
        while start < stop:
            end = min(stop, start + length)
            yield start, end
            start = end
        if stop < n:
            yield stop, stop + 1
            start = stop + 1
