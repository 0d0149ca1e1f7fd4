"""The metric that the code of a program watches, as a series of its run and as the goal of the run."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from labbook.capture.metric_names import data_split, has_split
from labbook.capture.metrics_text import metrics_from_console
from labbook.findings.code_checks import source_files
from labbook.model.downsampling import downsample
from labbook.model.metric_kinds import MetricGoal, metric_kind, name_words, named_metric
from labbook.model.run import Run
from labbook.model.series import Series
from labbook.review.printed_values import NUMBER
from labbook.review.watched_values import EVALUATED, PRINTED_LAST, STOPPED, find_watched_values, says_nothing_of_model

if TYPE_CHECKING:
    from labbook.review.printed_values import PrintedValue
    from labbook.review.value_flow import WatchedValue

_LONGEST_LINE = 400
_NEVER = 99
_HEADER_LINES = 3
_SERIES_POINTS = 2000
_TRAINERS = ("transformers", "lightning", "paddle")


def add_watched_metric(run: Run, text: str) -> Run:
    """Adds the watched value that the program prints as a series, and as the primary one of the run.

    Lines of other statements do not count: a summary at the end, the value before the training.

    Args:
        text: The output.
    """
    watched, labels = _read_program(run)
    shown = [label for label in labels if label in text]  # as masked: words of the code are not
    run = replace(run, series=tuple(_with_whole_name(series, shown) for series in run.series))
    for value in watched:
        if (found := _printed_series(value, text)) is None:
            continue
        series, negative, begin = found
        known = _find_known(run, series)
        if known is not None and len(series.values) == 1 < len(known.values):
            series = known  # of which the line at the end repeats one
        elif known is not None and metric_kind(known.name).quantity:
            series = known if known.values == series.values else replace(series, name=known.name)
        elif known is not None and name_words(known.name) == name_words(series.name):
            series = replace(series, name=known.name)
        series = _find_logged(run, series) or series
        if says_nothing_of_model(series.name):
            continue
        rest = tuple(s for s in run.series if s is not known and s.name != series.name)
        added = replace(run, series=(*rest, series))
        # The output is read again only where another metric may take the place of this one.
        past = _ended_before(added, series, text, begin) if _is_held_out(added, series.name) else []
        if goal := _goal(added, value, series.name, negative=negative, past=past):
            return _with_goal(added, goal, value.how, past)
    return run


def _ended_before(run: Run, series: Series, text: str, begin: int) -> list[str]:
    """Returns the printed series whose last value is before the first one of another: those of the training before."""
    printed = [s for s in run.series if s.source == "text" and len(s.values) > 1]
    if len(series.values) < 2 or len(printed) < 2:
        return []
    later = {s.name: s for s in metrics_from_console("\n".join(text.splitlines()[begin:]))}
    return [s.name for s in printed if s.name != series.name and s.name not in later]


def _with_goal(run: Run, goal: MetricGoal, how: int, past: Sequence[str] = ()) -> Run:
    """Returns the run with a watched metric as its primary one."""
    watched = {"metric": goal.metric, "direction": goal.direction, "how": how, **({"past": past} if past else {})}
    return replace(run, primary=goal.metric, direction=goal.direction, captured={**run.captured, "watched": watched})


def trainer_goal(run: Run) -> MetricGoal | None:
    """Returns the metric by which the program has its trainer choose the best model or stop.

    "loss" is the trainer's own in transformers, that of the evaluation in PaddlePaddle.
    """
    for source, values in ((one.source, one.values) for one in run.arguments if one.source in _TRAINERS):
        monitor, metric = values.get("monitor"), values.get("metric_for_best_model")
        if source == "paddle" and isinstance(monitor, str):
            monitor = f"val/{monitor}"
        if isinstance(metric, str) and metric not in ("", "loss"):
            monitor = f"eval_{metric.removeprefix('eval_')}"
        name = named_metric([s.name for s in run.series], monitor) if isinstance(monitor, str) else ""
        if name:
            greater = values.get("greater_is_better", {"max": True, "min": False}.get(str(values.get("mode"))))
            return MetricGoal(name, "" if greater is None else "max" if greater else "min")
    return None


def add_watched_goal(run: Run) -> Run:
    """Adds the watched metric that is logged, where none that is printed is watched as surely."""
    watched = run.facts("watched")
    if watched.get("how") == PRINTED_LAST and _is_held_out(run, watched["metric"], watched.get("past", ())):
        rest = tuple(s for s in run.series if s.name != watched["metric"] or len(s.values) > 1)
        run = replace(run, series=rest, primary="", direction="", captured={**run.captured, "watched": {}})
    for value in _read_program(run)[0]:
        if value.how >= run.facts("watched").get("how", _NEVER):
            break
        printed = [(line.label, negative) for line, negative in value.lines if not line.is_copy and line.in_loop]
        for label, negative in (*printed, *value.labels):
            name = _find_labelled(run, label)
            goal = _goal(run, value, name, negative=negative) if name else None
            if goal is not None:
                return _with_goal(run, goal, value.how)
    return run


def _goal(run: Run, value: WatchedValue, name: str, *, negative: bool, past: Sequence[str] = ()) -> MetricGoal | None:
    """Returns the goal of a watched series; `None` if what another one says of the model counts more.

    Args:
        past: Series of a training that had ended before.
    """
    kind = metric_kind(name)
    if says_nothing_of_model(name):
        return None
    is_loss = kind.quantity == "loss"
    if value.how == PRINTED_LAST and kind.is_training and (is_loss or kind.split):
        return None
    if value.how == EVALUATED and (not is_loss or kind.split):
        return None  # what other values are of, their names say
    if _is_held_out(run, name, past) and (
        (is_loss and kind.is_training) or value.how == PRINTED_LAST or (value.how > STOPPED and is_loss)
    ):
        return None
    direction = value.direction_as(negative=negative) or next(
        (found for line, _ in value.lines if (found := metric_kind(line.label).direction)), ""
    )
    if kind.direction and direction and direction != kind.direction and value.how > STOPPED:
        return None  # the range of a plot, say
    return MetricGoal(name, direction or kind.direction)


def _is_held_out(run: Run, name: str, past: Sequence[str] = ()) -> bool:
    """Whether the names alone would choose another metric, of held-out data."""
    from labbook.report.series_choice import primary_series

    others = tuple(s for s in run.series if s.name not in (name, *past))
    by_name = primary_series(replace(run, series=others, primary="", direction=""))
    return bool(by_name) and not metric_kind(by_name).is_training


def _with_whole_name(series: Series, labels: list[str]) -> Series:
    """Returns a series read from the output with all words of its name: "mse on expert states", not "states"."""
    whole = [label for label in labels if label.endswith(series.name) and not metric_kind(series.name).quantity]
    if series.source != "text" or len(whole) != 1 or whole[0][-len(series.name) - 1 : -len(series.name)].isalnum():
        return series
    return replace(series, name=whole[0])


def _read_program(run: Run) -> tuple[list[WatchedValue], frozenset[str]]:
    """Returns the watched values and the words before values in the code of a program."""
    files = source_files(run)
    try:
        return _read_code(tuple((path, path.stat().st_mtime_ns) for path in files))
    except Exception:
        # Unreadable code costs the choice, never the entry.
        return [], frozenset()


@lru_cache(maxsize=4)
def _read_code(files: tuple[tuple[Path, int], ...]) -> tuple[list[WatchedValue], frozenset[str]]:
    return find_watched_values([path for path, _ in files])


def _printed_series(value: WatchedValue, text: str) -> tuple[Series, bool, int] | None:
    """Returns the series that the lines of a watched value print, whether it is the negative, and its first line.

    A line is of the statement whose pattern begins first in it. Of statements one after the other, as those of the
    phases of a training, those with the same words before the same call count together, else the last one; of others
    the one with most values.
    """
    lines = text.splitlines()
    patterns = [(re.compile(printed.pattern), printed) for printed, _ in value.lines]
    matches: list[dict[int, re.Match[str]]] = [{} for _ in patterns]
    for number, line in enumerate(lines):
        found = [
            (match.start(), at, match)
            for at, (pattern, printed) in enumerate(patterns)
            if len(line) <= _LONGEST_LINE and printed.anchor in line and (match := pattern.search(line))
        ]
        first = min(found, key=lambda one: one[0])[0] if found else 0
        for start, at, match in found:
            if start == first:
                matches[at][number] = match
    ways = []
    for own, (printed, negative) in zip(matches, value.lines, strict=True):
        name = printed.label or (_column_name(lines, *next(iter(own.items()))) if own else "")
        series = _series_of(printed, list(own.values()), [name, *(label for label, _ in value.labels)])
        is_result = value.how == PRINTED_LAST and series is not None and bool(metric_kind(series.name).split)
        if series is not None and (printed.in_loop or len(own) > 1 or is_result):
            ways.append((printed, min(own), max(own), series, negative))
    ways = [one for one in ways if not one[0].is_copy] or ways
    if not ways:
        return _read_keys(value, text)
    ways.sort(key=lambda one: one[1])
    in_turn = all(one[2] < other[1] for one, other in pairwise(ways))
    phases = [one for one in ways if one[0].in_loop]
    if in_turn and len({(one[0].call, one[3].name, one[4]) for one in phases}) == 1 < len(phases) and phases[0][0].call:
        values = [value for one in phases for value in one[3].values]
        whole = Series.of_values(phases[0][3].name, "text", range(1, len(values) + 1), values, axis="number")
        return downsample(whole, _SERIES_POINTS), phases[0][4], phases[0][1]
    best = max(ways, key=lambda one: (one[0].in_loop, one[1] if in_turn else 0, len(one[3].values)))
    return best[3], best[4], best[1]


def _column_name(lines: list[str], number: int, match: re.Match[str]) -> str:
    """Returns the title above a value in a table with bars, commas or blanks; "" where there is none."""
    bar = next((each for each in "|," if lines[number].count(each) > 1), None)
    place = len(lines[number][: match.start("value")].split(bar)) - (bar is not None)
    for line in reversed(lines[max(0, number - _HEADER_LINES) : number]):
        titles = line.split(bar)
        is_row = len(titles) == len(lines[number].split(bar)) > place  # a value may be within a word
        if is_row and re.search(r"[^\W\d]", titles[place]):
            return titles[place].strip()
    return ""


def _read_keys(value: WatchedValue, text: str) -> tuple[Series, bool, int] | None:
    """Returns the series printed behind the key of a watched value, as `balanced=0.81`, of lines that begin alike."""
    for label, negative in value.labels:
        pattern = re.compile(rf"(?<!\w){re.escape(label)}['\"]?\s*[:=]\s*(?P<value>{NUMBER})(?![\w.]*\d)")
        lines: dict[str, list[float]] = {}
        for line in text.splitlines():
            if len(line) <= _LONGEST_LINE and (match := pattern.search(line)):
                lines.setdefault(re.sub(r"[-+.\d]+(?:e[-+]?\d+)?", "#", line[: match.start()]), []).append(
                    float(match["value"])
                )
        begin = max(lines, key=lambda one: len(lines[one]), default="")
        if len(values := lines.get(begin, [])) > 1:
            split = data_split(begin)
            name = f"{split}/{label}" if split and not has_split(label) else label
            return Series.of_values(name, "text", range(1, len(values) + 1), values, axis="number"), negative, 0
    return None


def _series_of(printed: PrintedValue, matches: list[re.Match[str]], names: list[str]) -> Series | None:
    values = [float(found["value"]) for found in matches]
    if not values or not any(map(math.isfinite, values)):
        return None
    places = [int(found["place"]) for found in matches if "place" in found.groupdict()]
    starts = [n for n in range(1, len(places)) if places[n] <= places[n - 1]]
    is_placed = bool(places) and not starts and bool(printed.unit)
    steps = tuple(places) if is_placed else tuple(range(1, len(values) + 1))
    axis = printed.unit if is_placed else "number"
    name = next(filter(None, names), "")
    series = Series.of_values(name, "text", steps, values, starts=(0, *starts) if starts else (), axis=axis)
    return downsample(series, _SERIES_POINTS) if name else None


def _find_known(run: Run, series: Series) -> Series | None:
    """Returns the printed series that has the same values, or is named alike."""
    printed = [s for s in run.series if s.source == "text"]
    name = named_metric([s.name for s in printed], series.name)
    return next((s for s in printed if _is_same(s, series)), next((s for s in printed if s.name == name), None))


def _find_logged(run: Run, series: Series) -> Series | None:
    """Returns the values that a logger has under this name, if they are not fewer than those that were printed."""
    logged = (s for s in run.series if s.source not in ("text", "probe") and s.name == series.name)
    return next((s for s in logged if len(s.values) >= len(series.values)), None)


def _is_same(one: Series, other: Series) -> bool:
    """Whether a series read from the output has the values of the other, and perhaps a few of other lines."""
    if not 0 <= len(one.values) - len(other.values) <= 2:
        return False
    rest = iter(one.values)
    return all(any(math.isclose(value, each, rel_tol=1e-9) for each in rest) for value in other.values)


def _find_labelled(run: Run, label: str) -> str:
    """Returns the series of a label: of the same words, else the only one that ends with them."""
    names = [s.name for s in run.series if s.source != "probe"]
    words = name_words(label)
    if exact := named_metric(names, label):
        return exact
    ending = [name for name in names if words and name_words(name)[-len(words) :] == words]
    return ending[0] if len(set(ending)) == 1 else ""
