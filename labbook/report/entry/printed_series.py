"""Compares the series that a program prints with those that were measured or logged."""

from __future__ import annotations

import math
from collections.abc import Sequence

from labbook.model.metric_kinds import metric_kind
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.report.series_choice import base_name, point_at_share

_FEWEST_PRINTED = 3


def printed_otherwise(run: Run, series: Series) -> Series | None:
    """Returns what the program prints under the name of a measured series, where it must be another quantity.

    A printed value, of a step or the mean of some, lies among the values measured around that time: those of the same
    share of the run, and half as many before and after. Source: chosen by us; 5 % beyond them, for most of at least 3.
    """
    printed = next((p for p in run.printed if p.name.lower() == series.name.lower() and series.source == "probe"), None)
    if printed is None or run.trains_in_turn:
        return None  # of several trainings or phases it is not known which one prints a value
    if any(s.name.startswith(f"{series.name}.") for s in run.series):
        return None  # what is printed as `lr` may be that of another parameter group
    values = [v for v in printed.values if math.isfinite(v)]
    lows, highs = series.low or series.values, series.high or series.values
    if len(values) < _FEWEST_PRINTED or len(lows) < len(values):
        return None
    outside = 0
    for place, value in enumerate(values):
        begin, end = (point_at_share(series, (place + k) / len(values)) for k in (-0.5, 1.5))
        near = [v for v in (*lows[begin : end + 1], *highs[begin : end + 1]) if math.isfinite(v)]
        margin = 0.05 * max(map(abs, near), default=math.inf)
        outside += bool(near) and not min(near) - margin <= value <= max(near) + margin
    return printed if outside * 2 > len(values) else None


def without_repeats(run: Run, series: Sequence[Series]) -> list[Series]:
    """Returns the series without printed ones that repeat a logged one: `val_acc` printed, `val/accuracy` logged.

    Of optimizers that share one loss, as those of Pyro do for each parameter, the loss and the learning rate are
    listed once.
    """
    if not run.trains_in_turn:
        shared = {(base_name(s.name), s.steps, s.values): s for s in reversed(series) if s.source == "probe"}
        series = [s for s in series if shared.get((base_name(s.name), s.steps, s.values), s) is s]
    logged = [s for s in series if s.source not in ("text", "probe") and metric_kind(s.name).quantity]
    return [s for s in series if s.source != "text" or not any(repeats_values(s, other) for other in logged)]


def repeats_values(printed: Series, logged: Series) -> bool:
    """Whether printed values are the logged ones of the same quantity and data, rounded to at least two digits.

    The last one may be printed once more, as by an evaluation of the end that is logged at the same step.
    """
    one, other = metric_kind(printed.name), metric_kind(logged.name)
    longer = len(printed.values) - len(logged.values)
    if (one.quantity, one.split) != (other.quantity, other.split) or longer not in (0, 1):
        return False
    wanted = (*logged.values, *logged.values[-1:])
    return all(_is_rounded(a, b) for a, b in zip(printed.values, wanted, strict=False))


def is_part_of(printed: Series, whole: Series) -> bool:
    """Whether printed values are some of those of a longer series, in their order, rounded to at least two digits."""
    rest = iter(whole.values)
    return len(printed.values) < len(whole.values) and all(any(_is_rounded(a, b) for b in rest) for a in printed.values)


def _is_rounded(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=0.005, abs_tol=5e-4) or (math.isnan(one) and math.isnan(other))
