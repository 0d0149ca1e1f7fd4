"""Formats numbers for people: metrics, durations, sizes, counts."""

from __future__ import annotations

import math
from typing import TypeVar

_Value = TypeVar("_Value")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: float | None, digits: int = 4) -> str:
    """Returns a value with `digits` significant digits and without trailing zeros, "-" for `None`.

    Whole numbers up to ten million have all their digits; very small and large ones have an exponent (`1e-05`,
    `2.5e+09`).
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == int(value) and abs(value) < 1e7:
        return str(int(value))
    return f"{value:.{digits}g}"


def without_noise(value: _Value) -> _Value | float:
    """Returns a value without the last digits that arithmetic leaves in it: 0.01 for 0.010000000000000002."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


def listed_value(value: float) -> float:
    """Returns a value with five significant digits, enough for lists and to tell which of several runs is the best.

    With one more where it would be shown with other digits than the value itself: 0.993254 is 0.9933, 0.99325 is not.
    """
    short = float(f"{value:.5g}")
    return short if f"{short:.4g}" == f"{value:.4g}" else float(f"{value:.6g}")


def pair(before: float | None, now: float | None) -> tuple[str, str]:
    """Returns two values with as many digits (4 to 8) as are needed to tell them apart.

    Values of which one is the other as it is printed, rounded to four or more digits, are equal: 0.5417 and 0.54166667.
    """
    digits = digits_apart(before, now)
    return number(before, digits), number(now, digits)


def digits_apart(before: float | None, now: float | None) -> int:
    """Returns the number of digits with which `pair` shows two values."""
    digits = 4
    if before is not None and now is not None and _is_rounded(before, now):
        return digits
    while digits < 8 and before != now and number(before, digits) == number(now, digits):
        digits += 1
    return digits


def _is_rounded(one: float, other: float) -> bool:
    """Whether the value with fewer digits is the other one, rounded."""
    short, long = sorted((one, other), key=lambda value: len(repr(value)))
    digits = repr(short).lower().partition("e")[0].replace(".", "").lstrip("-0")
    return 4 <= len(digits) < 8 and f"{long:.{len(digits)}g}" == f"{short:.{len(digits)}g}"


def count(value: int) -> str:
    """Returns a whole number with commas between thousands."""
    return f"{value:,}"


def duration(seconds: float | None) -> str:
    """Returns a time span: "0.35 ms", "84 s", "12 min 5 s", "3 h 20 min", "2 d 4 h"; "-" for none."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    whole = int(round(seconds, 1) + 0.5)  # as rounded in the front matter, from which lists show it
    if whole < 100:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def size(n_bytes: float | None) -> str:
    """Returns an amount of data with three digits: "512 B", "1.5 MiB"; "-" for `None` or a negative one."""
    if n_bytes is None or n_bytes < 0:
        return "-"
    amount = float(n_bytes)
    unit = 0
    while amount >= 1023.5 and unit < len(_UNITS) - 1:
        amount /= 1024
        unit += 1
    shown = f"{amount:.0f}" if unit == 0 or amount >= 99.95 else f"{amount:.3g}"
    return f"{shown} {_UNITS[unit]}"


def percent(fraction: float | None) -> str:
    """Returns a share as a percentage: "0.6 %", "12 %", "under 0.1 %"; "-" for none."""
    if fraction is None or not math.isfinite(fraction):
        return "-"
    value = fraction * 100
    if 0 < value < 0.1:
        return "under 0.1 %"
    return f"{value:.2g} %" if value < 10 else f"{value:.0f} %"
