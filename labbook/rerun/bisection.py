"""Searches the differences of two runs for the one that changed the result, with few short runs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from labbook.compare.run_settings import list_rows
from labbook.errors import UsageError
from labbook.frozen import dataclass
from labbook.rerun.run_differences import Difference

_NUMBER = re.compile(r"\d")
_NEAR_LINES = 2
_FAR = 1e300
"""A number in the place of a value that is not finite."""

Judge = Callable[[Mapping[str, Any]], bool | None]
"""`run.json` -> whether the run is bad; `None` if it is neither like the good nor like the bad run."""

Try = Callable[[Sequence[Difference]], bool | None]
"""Runs the good run with some differences -> whether it is bad."""


@dataclass(frozen=True)
class Bisection:
    """The result of a search.

    Args:
        guilty: The smallest known set of differences that makes the good run bad.
        proven: Whether a run with just these was bad.
        candidates: Number of differences that were searched.
    """

    guilty: tuple[Difference, ...]
    proven: bool
    runs: int
    candidates: int


def likelihood(difference: Difference, bad: Mapping[str, Any]) -> float:
    """Returns how likely a difference is guilty, compared with others.

    A hunk is likelier where the traceback of the bad run passes, and less likely if it has only comments; an option is
    less likely if its value is a text. Source: chosen by us.
    """
    if difference.kind == "environment":
        return 0.5
    if difference.kind == "argument":
        return 1.0 if _NUMBER.search(difference.now) else 0.5
    lines = [line.strip() for text in (difference.before, difference.now) for line in text.split("; ")]
    if not any(line and not line.startswith("#") for line in lines) and difference.patch[1]:
        return 0.1
    name, _, line = difference.name.rpartition(":")
    for exception in list_rows(bad, "exceptions"):
        for frame in list_rows(exception, "frames"):
            is_near = line.isdigit() and abs(int(frame.get("line") or 0) - int(line)) <= _NEAR_LINES
            if is_near and str(frame.get("file") or "").endswith(name):
                return 4.0
    return 1.0


def add_required(chosen: Sequence[Difference], required: Mapping[Difference, set[Difference]]) -> list[Difference]:
    """Returns differences with those that they do not run without."""
    found = list(chosen)
    for one in found:
        found += sorted(required.get(one, set()) - set(found), key=lambda other: other.name)
    return found


def _likely_half(left: Sequence[Difference], weights: Mapping[Difference, float]) -> list[Difference]:
    """Returns the first differences that have about half of the likelihood, at least one and not all."""
    total, summed = sum(weights[one] for one in left), 0.0
    for number, one in enumerate(left[:-1], 1):
        summed += weights[one]
        if 2 * summed >= total - 1e-9 or abs(2 * summed - total) <= abs(2 * (summed + weights[left[number]]) - total):
            return list(left[:number])
    return list(left[:-1])


def bisect(candidates: Sequence[Difference], attempt: Try, most: int, likelihoods: Sequence[float] = ()) -> Bisection:
    """Searches for the smallest set of differences that makes the result bad.

    The likelier half is tried; if it is bad, the search goes on in it, else in the other half. One difference is left,
    and it is tried alone. If it is not bad alone, several act together, and differences are taken away as long as the
    result stays bad.

    Args:
        candidates: The differences, the likeliest first; all of them together are the bad run.
        attempt: Runs with some of them.
        likelihoods: How likely each is guilty; equally likely without.
    """
    weights = dict(zip(candidates, likelihoods or [1.0] * len(candidates), strict=True))
    left, known, runs = list(candidates), list(candidates), 0
    proven = False
    while len(left) > 1 and runs < most:
        half = _likely_half(left, weights)
        bad = attempt(half)
        runs += 1
        if bad is None and runs < most:
            # A part of a change that does not run alone: what is not in it may.
            half = left[len(half) :]
            bad = attempt(half)
            runs += 1
            if bad is None:
                break
        if bad:
            left, known, proven = half, half, True
        else:
            left = [one for one in left if one not in half]
            proven = False
    if len(left) == 1 and not proven and runs < most:
        runs += 1
        if attempt(left):
            known, proven = left, True
        else:
            left = known
    elif proven:
        known = left
    if not proven or len(known) > 1:
        known, more, proven = _reduce(known, attempt, most - runs, proven=proven)
        runs += more
    return Bisection(tuple(known), proven, runs, len(candidates))


def _reduce(
    known: Sequence[Difference], attempt: Try, most: int, *, proven: bool
) -> tuple[list[Difference], int, bool]:
    """Takes differences away while the result stays bad; returns the rest, the number of runs, whether it was tried."""
    kept, runs, size = list(known), 0, max(1, len(known) // 2)
    while size and runs < most and len(kept) > 1:
        taken = False
        for begin in range(0, len(kept), size):
            rest = kept[:begin] + kept[begin + size :]
            if not rest or runs >= most:
                break
            runs += 1
            if attempt(rest):
                kept, taken, proven = rest, True, True
                break
        if not taken:
            size //= 2
    return kept, runs, proven


def make_judge(good: Mapping[str, Any], bad: Mapping[str, Any]) -> Judge:
    """Returns what distinguishes a bad run from a good one: the failure, else the symptom, else the primary metric.

    Raises:
        UsageError: The two runs have the same result.
    """
    if bad.get("status") != "finished" and good.get("status") == "finished":
        failure = _failure(bad)

        def failed(run: Mapping[str, Any]) -> bool | None:
            if run.get("status") == "finished":
                return False
            return True if _failure(run) == failure else None

        return failed
    ends = {good.get("status"), bad.get("status")}
    own = [name for name in bad.get("symptoms") or () if name not in (good.get("symptoms") or ())]
    if own:
        return lambda run: own[0] in (run.get("symptoms") or ()) if run.get("status") in ends else None
    name = str(good.get("primary") or bad.get("primary") or "")
    one, other = _value(good, name), _value(bad, name)
    if one is None or other is None or one == other:
        raise UsageError("errors.rerun.same_result", good=good.get("id"), bad=bad.get("id"), metric=name or "a metric")

    def is_closer_to_bad(run: Mapping[str, Any]) -> bool | None:
        value = _value(run, name)
        if (
            run.get("status") not in ends
            or value is None
            or (abs(value) == _FAR and _FAR not in (abs(one), abs(other)))
        ):
            return None
        return abs(value - other) < abs(value - one)

    return is_closer_to_bad


def _failure(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns what names a failure: its first symptom, else the class of the exception, else how it ended."""
    symptoms = [str(name) for name in run.get("symptoms") or ()]
    if symptoms:
        return ("symptom", symptoms[0])
    types = [str(row.get("type")) for row in list_rows(run, "exceptions")]
    return ("exception", types[-1]) if types else ("end", str(run.get("exit_code")), str(run.get("signal")))


def _value(run: Mapping[str, Any], name: str) -> float | None:
    """Returns the last value of a metric; a value that is not finite is as far away as can be."""
    for row in list_rows(run, "series"):
        values = row.get("values") or ()
        if row.get("name") == name and row.get("rank") in (None, 0) and values:
            value = float(values[-1])
            return value if math.isfinite(value) else math.copysign(_FAR, value)
    return None
