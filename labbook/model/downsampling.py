"""Downsampling of long series that keeps their extremes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from labbook.model.series import Series

_MAX_TRANSITIONS = 32
"""Changes between finite and non-finite values that keep a point of their own. Source: chosen by us; `nonfinite` counts
the others."""


def downsample(series: Series, points: int) -> Series:
    """Return the series with at most about `points` points, each with the minimum and maximum of its window.

    The first and last point, the extremes, and the points where the values stop or start being finite are kept; the
    others are merged in windows of equal length. A merged point has the step and value of the last point of its window,
    or of the first non-finite value, so that a NaN is never hidden.

    Args:
        series: Returned itself if it is short enough.
        points: At least 8.
    """
    n = len(series.values)
    if n <= points:
        return series
    fixed = _fixed_points(series)
    windows = list(_windows(n, fixed, max(1, points - len(fixed))))
    low, high = series.low or series.values, series.high or series.values
    chosen = [_representative(series, start, stop) for start, stop in windows]
    return replace(
        series,
        steps=tuple(
            series.steps[stop - 1] if i != stop - 1 and math.isfinite(series.values[i]) else series.steps[i]
            for i, (_, stop) in zip(chosen, windows, strict=True)
        ),
        values=tuple(series.values[i] for i in chosen),
        low=tuple(_extreme(low[a:b], least=True) for a, b in windows),
        high=tuple(_extreme(high[a:b], least=False) for a, b in windows),
        starts=(),
    )


def _representative(series: Series, start: int, stop: int) -> int:
    """Return the index of a window's first non-finite value, else of its last value."""
    return next((i for i in range(start, stop) if not math.isfinite(series.values[i])), stop - 1)


def _extreme(values: tuple[float, ...], *, least: bool) -> float:
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return values[0]
    return min(finite) if least else max(finite)


def _fixed_points(series: Series) -> list[int]:
    """Return the indices of the points that are never merged, ascending."""
    values = series.values
    low, high = series.low or values, series.high or values
    finite = [math.isfinite(v) for v in values]
    changes = [i for i in range(1, len(values)) if finite[i] != finite[i - 1]][:_MAX_TRANSITIONS]
    lows = [i for i in range(len(values)) if math.isfinite(low[i])]
    highs = [i for i in range(len(values)) if math.isfinite(high[i])]
    extremes = [min(lows, key=lambda i: low[i])] if lows else []
    extremes += [max(highs, key=lambda i: high[i])] if highs else []
    return sorted({0, len(values) - 1, *extremes, *changes})


def _windows(n: int, fixed: list[int], wanted: int) -> Iterator[tuple[int, int]]:
    """Yield ascending half-open ranges that cover `0..n`; each index in `fixed` is a range of its own."""
    length = max(1, math.ceil((n - len(fixed)) / wanted))
    start = 0
    for stop in (*fixed, n):
        while start < stop:
            end = min(stop, start + length)
            yield start, end
            start = end
        if stop < n:
            yield stop, stop + 1
            start = stop + 1
