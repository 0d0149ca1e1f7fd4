"""Draws the curves of a run as one compact SVG, and writes them as CSV."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from labbook.model.downsampling import downsample
from labbook.model.series import Series
from labbook.report.axes import Axis, make_axis, tick_label
from labbook.report.entry.section_limits import shorten_middle
from labbook.report.numbers import count, number
from labbook.report.panels import Panel, choose_panels
from labbook.report.svg import frame, svg_text

_WIDTH, _MARGIN, _GAP = 760, 14, 16
_LEFT, _TOP, _BOTTOM = 46, 30, 22
_HEIGHTS = {True: 210, False: 156}
_POINT_BUDGET = 1300
"""Most points of all lines together. Source: about 33 bytes for line and band of a point keep the SVG under 60 KB."""
_LOG_FROM = {"lr": 1000.0}
_CSV_ROWS = 4000


def drawable(series: Sequence[Series]) -> bool:
    """Whether at least one series has two points."""
    return bool(choose_panels(series)[0])


def curves_svg(series: Sequence[Series], title: str, primary: str = "", axes: Mapping[str, str] | None = None) -> str:
    """Returns the curves as one SVG picture, "" if there is nothing to draw.

    Loss, gradient norm, learning rate and logged metrics have a panel each. Where a point is the mean of several steps,
    a band shows their smallest and largest value. The picture works on light and dark pages and loads no other file.

    Args:
        primary: Name of the main metric, which is drawn first.
        axes: Names of the axes in the language of the reader.
    """
    panels, more = choose_panels(series, primary)
    if not panels:
        return ""
    points = max(24, min(300, _POINT_BUDGET // sum(len(p.lines) for p in panels)))
    parts: list[str] = []
    y = float(_MARGIN)
    for row in _rows(panels):
        height = _HEIGHTS[len(row) == 1 and row[0] is panels[0]]
        width = (_WIDTH - 2 * _MARGIN - _GAP * (len(row) - 1)) / len(row)
        for number_in_row, panel in enumerate(row):
            parts += _panel(panel, _MARGIN + number_in_row * (width + _GAP), y, width, height, points, axes or {})
        y += height + _GAP
    if more:
        parts.append(f'<text x="{_MARGIN}" y="{y}">and {count(more)} more in metrics.csv</text>')
        y += 12
    total = y - _GAP + _MARGIN if not more else y + 4
    return frame(_WIDTH, total, title, parts)


def _rows(panels: list[Panel]) -> Iterator[list[Panel]]:
    """Returns the panels by row: the first one alone, then two in each row."""
    yield panels[:1]
    for start in range(1, len(panels), 2):
        yield panels[start : start + 2]


def _panel(
    panel: Panel, x: float, y: float, width: float, height: float, points: int, axes: Mapping[str, str]
) -> list[str]:
    lines = [(label, downsample(each, points)) for label, each in panel.lines]
    left, right, top, bottom = x + _LEFT, x + width - 6, y + _TOP, y + height - _BOTTOM
    steps = [s for _, each in lines for s in (each.steps[0], each.steps[-1])]
    across = Axis(min(steps), max(steps), left, right)
    values = [v for _, each in lines for v in (*each.values, *each.low, *each.high)]
    up = make_axis(values, bottom, top, log_from=_LOG_FROM.get(panel.key, 100.0))
    parts = [_heading(panel, lines, x, y, right, log=up.log)]
    axis = lines[0][1].axis or "step"
    parts += _grid(across, up, left, right, bottom, axes.get(axis, axis))
    for place, (_, each) in enumerate(lines):
        parts.append(_band(each, across, up, place))
        parts.append(_line(each, across, up, place))
    parts += _not_finite([each for _, each in lines], across, top, bottom)
    return [part for part in parts if part]


def _heading(panel: Panel, lines: list[tuple[str, Series]], x: float, y: float, right: float, *, log: bool) -> str:
    """Returns title, legend, and the last value at the right."""
    title = shorten_middle(panel.title, 40)
    text = f'<text class="t" x="{x:.0f}" y="{y + 14:.0f}">{svg_text(title, 44)}'
    text += '<tspan font-weight="400" font-size="11" fill="var(--soft)"> log scale</tspan></text>' if log else "</text>"
    only = lines[0][1]
    if len(lines) == 1:
        return text + f'<text class="v" x="{right:.0f}" y="{y + 14:.0f}">{number(only.last)}</text>'
    at = right
    for place, (label, _) in reversed(list(enumerate(lines))):
        shown = shorten_middle(label, 24)
        at -= _width(shown) + 8
        if at < x + _width(title) * 1.2 + 24:
            break
        text += f'<circle class="f{place}" cx="{at - 7:.0f}" cy="{y + 10:.0f}" r="3.5"/>'
        text += f'<text x="{at:.0f}" y="{y + 14:.0f}">{svg_text(shown, 30)}</text>'
        at -= 14
    return text


def _width(text: str) -> float:
    """Returns the approximate width of a text at 11 px; Chinese characters are twice as wide."""
    return sum(11.0 if ord(c) > 0x2E80 else 6.0 for c in text)


def _grid(across: Axis, up: Axis, left: float, right: float, bottom: float, name: str) -> list[str]:
    parts = []
    for tick in up.ticks(4):
        at = up.position_of(tick)
        parts.append(f'<path class="g" d="M{left:.0f} {at:.1f}H{right:.0f}"/>')
        parts.append(f'<text class="y" x="{left - 6:.0f}" y="{at + 4:.1f}">{tick_label(tick)}</text>')
    parts.append(f'<path class="a" d="M{left:.0f} {bottom:.1f}H{right:.0f}"/>')
    wanted = max(2, int((right - left) / 70))
    steps = [t for t in across.ticks(wanted) if t == int(t)]
    word_at = right - _width(name)
    for tick in steps:
        at = across.position_of(tick)
        label = tick_label(tick)
        if at + _width(label) / 2 < word_at - 4:
            parts.append(f'<text class="x" x="{at:.1f}" y="{bottom + 15:.0f}">{label}</text>')
            parts.append(f'<path class="a" d="M{at:.1f} {bottom:.1f}v3"/>')
    parts.append(f'<text class="y" x="{right:.0f}" y="{bottom + 15:.0f}">{svg_text(name, 30)}</text>')
    return parts


def _line(series: Series, across: Axis, up: Axis, place: int) -> str:
    """Returns the values as one path with gaps where they are not finite; a single value is a dot."""
    parts = []
    for run in _finite_segments(series):
        at = [f"{across.position_of(series.steps[i]):.1f} {up.position_of(series.values[i]):.1f}" for i in run]
        parts.append("M" + " ".join(at) + ("h.01" if len(at) == 1 else ""))
    return f'<path class="l s{place}" d="{"".join(parts)}"/>' if parts else ""


def _band(series: Series, across: Axis, up: Axis, place: int) -> str:
    if not series.low or (series.low == series.values and series.high == series.values):
        return ""
    parts = []
    for run in _finite_segments(series):
        if len(run) < 2:
            continue
        above = [f"{across.position_of(series.steps[i]):.1f} {up.position_of(series.high[i]):.1f}" for i in run]
        below = [
            f"{across.position_of(series.steps[i]):.1f} {up.position_of(series.low[i]):.1f}" for i in reversed(run)
        ]
        parts.append("M" + " ".join(above + below) + "z")
    return f'<path class="b f{place}" d="{"".join(parts)}"/>' if parts else ""


def _finite_segments(series: Series) -> Iterator[list[int]]:
    run: list[int] = []
    for index, value in enumerate(series.values):
        if math.isfinite(value):
            run.append(index)
        elif run:
            yield run
            run = []
    if run:
        yield run


_TOUCHING, _MOST_STROKES = 8.0, 60
"""Gap in pixels below which two marks become one, and most marks of a panel."""


def _not_finite(lines: list[Series], across: Axis, top: float, bottom: float) -> list[str]:
    """Returns a dashed line with the step from which values are not finite, and a mark for each such point."""
    found = sorted(
        (step, value)
        for each in lines
        for step, value in zip(each.steps, each.values, strict=True)
        if not math.isfinite(value)
    )
    if not found:
        return []
    step, value = found[0]
    at = across.position_of(step)
    word = "NaN" if math.isnan(value) else "inf"
    side = "end" if at > (across.start + across.end) / 2 else "start"
    text_at = at - 5 if side == "end" else at + 5
    axis = "value" if lines[0].axis == "number" else lines[0].axis or "step"
    marks = _marks([across.position_of(s) for s, _ in found], bottom)
    return [
        f'<path class="bl" d="M{at:.1f} {top:.0f}V{bottom:.1f}"/>',
        f'<path d="{marks}" stroke="var(--bad)" stroke-width="3"/>',
        f'<text class="bad" x="{text_at:.1f}" y="{top + 9:.0f}" text-anchor="{side}">'
        f"{word} from {axis} {count(step)}</text>",
    ]


def _marks(places: Sequence[float], height: float) -> str:
    """Returns a path with a stroke along `height` for each place; strokes that touch become one, at most 60."""
    strokes: list[list[float]] = []
    for place in places:
        if strokes and place - strokes[-1][1] <= _TOUCHING:
            strokes[-1][1] = place
        else:
            strokes.append([place, place])
    while len(strokes) > _MOST_STROKES:
        strokes = [[one[0], other[1]] for one, other in zip(strokes[::2], [*strokes[1::2], strokes[-1]], strict=False)]
    return "".join(f"M{first - 0.8:.1f} {height:.1f}H{last + 0.8:.1f}" for first, last in strokes)


def metrics_csv(series: Sequence[Series]) -> str:
    """Returns all series in long form: `series,source,rank,step,value,low,high,axis`.

    `axis` says whether `step` is a step, an epoch or the number of the value. A row of a long series covers the steps
    since the previous row; `low` and `high` are their extremes. Numbers that are not finite are `nan`, `inf`, `-inf`.
    """
    from labbook.store.text.escape import csv_cell

    known = [s for s in series if s.values]
    points = max(16, _CSV_ROWS // max(1, len(known)))
    rows = ["series,source,rank,step,value,low,high,axis"]
    for each in known:
        short = downsample(each, points)
        head = f"{csv_cell(each.name)},{csv_cell(each.source)},{'' if each.rank is None else each.rank}"
        low, high = short.low or short.values, short.high or short.values
        rows += [
            f"{head},{step},{v:.9g},{a:.9g},{b:.9g},{each.axis or 'step'}"
            for step, v, a, b in zip(short.steps, short.values, low, high, strict=True)
        ]
    return "\n".join(rows) + "\n"
