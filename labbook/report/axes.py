"""Axes of a diagram: positions of values, and tick labels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.frozen import dataclass
from labbook.report.numbers import number

_LARGEST = 1e150
"""Larger values are drawn at the end of the axis, so that nothing overflows."""


@dataclass(frozen=True)
class Axis:
    """Maps values from `low`..`high` to positions from `start`..`end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def position_of(self, value: float) -> float:
        """Returns the position of a finite value, clipped to the axis."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log10(max(value, self.low)), math.log10(low), math.log10(high)
        share = 0.5 if high <= low else (value - low) / (high - low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self, wanted: int) -> list[float]:
        """Returns about `wanted` round values inside the axis, ascending."""
        return _log_ticks(self.low, self.high, wanted) if self.log else _linear_ticks(self.low, self.high, wanted)


def make_axis(values: Sequence[float], start: float, end: float, *, log_from: float) -> Axis:
    """Returns an axis over all finite values, with a margin at both ends.

    Args:
        values: Any numbers; those that are not finite are ignored.
        start: Position of the low end.
        end: Position of the high end.
        log_from: Smallest ratio of largest to smallest value for a logarithmic axis; all values must be positive.
    """
    finite = [v for v in values if abs(v) <= _LARGEST]
    if not finite:
        return Axis(0.0, 1.0, start, end)
    low, high = min(finite), max(finite)
    if low > 1 / _LARGEST and high / low >= log_from and _is_mostly_small(finite, high):
        room = (high / low) ** 0.04
        return Axis(low / room, high * room, start, end, log=True)
    span = high - low
    if span <= abs(high) * 1e-9:
        span = abs(high) or 1.0
        return Axis(low - 0.5 * span, high + 0.5 * span, start, end)
    # A curve that comes near zero is drawn with zero on the axis.
    bottom = 0.0 if 0 <= low <= 0.25 * high else low - 0.06 * span
    return Axis(bottom, high + 0.06 * span, start, end)


def _is_mostly_small(values: Sequence[float], high: float) -> bool:
    """Whether a third of the values would be at the bottom of a linear axis.

    Source: chosen by us; a cosine schedule that ends near zero reads better on a linear axis, a loss that fell by
    three decades does not.
    """
    return sum(v < 0.05 * high for v in values) >= len(values) / 3


def _linear_ticks(low: float, high: float, wanted: int) -> list[float]:
    rough = (high - low) / max(1, wanted)
    if rough <= 0 or not math.isfinite(rough):
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    if not step:
        return [low]
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(times * step, 12 - math.floor(math.log10(step))) for times in range(first, last + 1)]


def _log_ticks(low: float, high: float, wanted: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first >= 2:
        stride = max(1, math.ceil((last - first + 1) / max(2, wanted)))
        return [10.0**power for power in range(first, last + 1, stride)]
    fine = [m * 10.0**power for power in range(first - 1, last + 1) for m in (1, 2, 5)]
    return [value for value in fine if low <= value <= high]


def tick_label(value: float) -> str:
    """Returns a short label of a tick: "0.5", "1e-5", "1,000", "20k", "1.5M"."""
    for limit, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if limit <= abs(value) < 1e12:
            return f"{value / unit:.6g}{letter}"
    if 1000 <= abs(value) < 1e4 and value == int(value):
        return f"{int(value):,}"
    return number(value, 6).replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
