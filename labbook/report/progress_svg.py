"""Draws the primary metric of an experiment over its runs, and the best value so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from labbook.report.axes import Axis, make_axis, tick_label
from labbook.report.best_runs import counts_as_result
from labbook.report.run_row import RunRow
from labbook.report.svg import frame, svg_text

_WIDTH, _HEIGHT = 760.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 16.0, 40.0, 34.0
_MAX_RUNS = 200
"""Most runs that are drawn, the newest; the best value so far counts all of them."""
_FEWEST = 3


def progress_svg(rows: Sequence[RunRow], since: float, labels: tuple[str, str]) -> str:
    """Returns the picture of an experiment, "" if fewer than three runs have a value to compare.

    Args:
        rows: All its runs until the end of the period, in any order.
        since: Begin of the period, Unix seconds; runs before it are drawn pale.
        labels: Legend of a run and of the best value so far.
    """
    measured = sorted((row for row in rows if counts_as_result(row)), key=lambda row: row.started)
    if not measured:
        return ""
    metric = Counter(row.metric for row in measured).most_common(1)[0][0]
    measured = [row for row in measured if row.metric == metric]
    if len(measured) < _FEWEST or not any(row.started >= since for row in measured):
        return ""
    best = _best_so_far(measured)
    shown, best = measured[-_MAX_RUNS:], best[-_MAX_RUNS:]
    up = make_axis([*_values(shown), *best], _HEIGHT - _BOTTOM, _TOP, log_from=1e4)
    across = Axis(0, max(1, len(shown) - 1), _LEFT + 10, _WIDTH - _RIGHT - 10)
    parts = [f'<text class="t" x="14" y="20">{svg_text(f"{shown[-1].experiment}: {metric}", 80)}</text>']
    for tick in up.ticks(4):
        at = up.position_of(tick)
        parts.append(f'<path class="g" d="M{_LEFT:.0f} {at:.1f}H{_WIDTH - _RIGHT:.0f}"/>')
        parts.append(f'<text class="y" x="{_LEFT - 6:.0f}" y="{at + 4:.1f}">{svg_text(tick_label(tick), 12)}</text>')
    for place, value in enumerate(_values(shown)):
        pale = "" if shown[place].started >= since else ' opacity=".35"'
        parts.append(
            f'<circle class="f0" cx="{across.position_of(place):.1f}" cy="{up.position_of(value):.1f}" r="3"{pale}/>'
        )
    line = f"M{across.position_of(0):.1f} {up.position_of(best[0]):.1f}" + "".join(
        f"H{across.position_of(place):.1f}V{up.position_of(value):.1f}" for place, value in enumerate(best[1:], 1)
    )
    parts.append(f'<path class="l s1" d="{line}"/>')
    parts += _legend(labels)
    for place, side in ((0, "start"), (len(shown) - 1, "end")):
        day = datetime.fromtimestamp(shown[place].started).strftime("%Y-%m-%d")
        at = across.position_of(place)
        parts.append(f'<text style="text-anchor:{side}" x="{at:.1f}" y="{_HEIGHT - 12:.0f}">{day}</text>')
    return frame(_WIDTH, _HEIGHT, f"{shown[-1].experiment}: {metric}", parts)


def _values(rows: Sequence[RunRow]) -> list[float]:
    return [row.best for row in rows if row.best is not None]


def _best_so_far(rows: Sequence[RunRow]) -> list[float]:
    better = max if rows[-1].direction == "max" else min
    found: list[float] = []
    for value in _values(rows):
        found.append(better(found[-1], value) if found else value)
    return found


def _legend(labels: tuple[str, str]) -> list[str]:
    run, best = (svg_text(label, 30) for label in labels)
    x = _WIDTH - _RIGHT - 190
    return [
        f'<circle class="f0" cx="{x:.0f}" cy="16" r="3"/><text x="{x + 8:.0f}" y="20">{run}</text>',
        f'<path class="l s1" d="M{x + 74:.0f} 16h14"/><text x="{x + 94:.0f}" y="20">{best}</text>',
    ]
