"""Draws all trials of a sweep as lines over their options and the metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from labbook.model.run_fields import as_number
from labbook.report.axes import make_axis, tick_label
from labbook.report.numbers import number
from labbook.report.svg import frame, svg_text
from labbook.sweep.sweep_summary import SweepSummary

_MOST_AXES = 8
_MOST_LINES = 500
_MOST_LABELS = 8
_GAP = 120.0
_LINE = 13.0
_HALO = "paint-order:stroke;stroke:var(--bg);stroke-width:3px"
_TOP, _BOTTOM, _SIDE = 48.0, 240.0, 64.0


def parallel_coordinates(summary: SweepSummary, title: str) -> str:
    """Returns the SVG picture, or "" with fewer than two trials that have the metric.

    The best trials are drawn last and in colour, the others grey.
    """
    trials = [
        trial for trial in summary.trials if trial.row.metric == summary.metric and _metric(trial.row) is not None
    ]
    trials = trials[:_MOST_LINES]
    if len(trials) < 2 or not summary.options:
        return ""
    options = summary.options[:_MOST_AXES]
    columns = [[trial.values.get(name) for trial in trials] for name in options]
    columns.append([_metric(trial.row) for trial in trials])
    parts: list[str] = []
    places: list[list[float | None]] = []
    for index, (name, values) in enumerate(zip((*options, summary.metric), columns, strict=True)):
        x = _SIDE + index * _GAP
        heights, labels = _axis(values)
        places.append(heights)
        parts.append(f'<line class="a" x1="{x:.0f}" x2="{x:.0f}" y1="{_TOP:.0f}" y2="{_BOTTOM:.0f}"/>')
        parts.append(f'<text class="t x" x="{x:.0f}" y="{_TOP - 18:.0f}">{svg_text(name, 16)}</text>')
        parts += [
            f'<text class="y" style="{_HALO}" x="{x - 5:.0f}" y="{height + 4:.1f}">{svg_text(label, 10)}</text>'
            for label, height in _separate_labels(labels)
        ]
    best = max(1, len(trials) // 10)
    lines = []
    for at in reversed(range(len(trials))):
        points = " ".join(
            f"{_SIDE + index * _GAP:.0f},{height:.1f}"
            for index, column in enumerate(places)
            if (height := column[at]) is not None
        )
        look = 'class="l s0"' if at < best else 'class="l s7" opacity=".35"'
        lines.append(f'<polyline {look} points="{points}"/>')
    return frame(2 * _SIDE + _GAP * len(options), _BOTTOM + 24, title, [*lines, *parts])


def _separate_labels(labels: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Returns labels that do not cover each other: the outermost ones first, then from the bottom up."""
    ordered = sorted(labels, key=lambda each: -each[1])
    shown: list[tuple[str, float]] = []
    for label, height in [*ordered[:1], *ordered[-1:], *ordered[1:-1]]:
        if all(abs(height - other) >= _LINE for _, other in shown):
            shown.append((label, height))
    return shown


def _axis(values: Sequence[Any]) -> tuple[list[float | None], list[tuple[str, float]]]:
    """Returns the height of each value, and labels with their heights."""
    numbers = [as_number(value) for value in values]
    if all(
        value is None or (made is not None and math.isfinite(made)) for value, made in zip(values, numbers, strict=True)
    ):
        axis = make_axis([made for made in numbers if made is not None], _BOTTOM, _TOP, log_from=30.0)
        different = sorted({made for made in numbers if made is not None})
        few = len(different) <= 6
        labels = [
            (number(each) if few else tick_label(each), axis.position_of(each))
            for each in (different if few else axis.ticks(5))
        ]
        return [None if made is None else axis.position_of(made) for made in numbers], labels
    names = sorted({str(value) for value in values if value is not None})
    step = (_BOTTOM - _TOP) / max(1, len(names) - 1)
    heights = {name: _BOTTOM - step * place for place, name in enumerate(names)}
    shown = names[:: max(1, math.ceil(len(names) / _MOST_LABELS))]
    found = [None if value is None else heights[str(value)] for value in values]
    return found, [(name, heights[name]) for name in shown]


def _metric(row: Any) -> float | None:  # noqa: ANN401 - a row
    value = row.best if row.best is not None else row.last
    return value if value is not None and math.isfinite(value) else None
