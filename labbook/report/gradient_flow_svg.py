"""Draws the gradient over the depth of the model, for runs with a failed check."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.run import Run
from labbook.report.axes import Axis, tick_label
from labbook.report.svg import frame, svg_text

_WIDTH, _HEIGHT = 760.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 14.0, 34.0, 66.0
_LINES = (("gradient", "gradient norm"), ("update", "update / weight"))


_FLOWING = ("gradient", "activation", "numeric", "convergence")
"""Families of checks that the gradient over depth says something about."""


def is_worth_drawing(run: Run) -> bool:
    """Whether a check of what flows through the model failed or warned, and three weight matrices have a gradient."""
    flagged = any(check.verdict in ("fail", "warn") and check.family in _FLOWING for check in run.checks)
    return flagged and sum(_number(row.get("gradient")) is not None for row in _rows(run)) >= 3


def flow_svg(run: Run) -> str:
    """Returns a picture of the median gradient norm and update ratio of each weight matrix, in layer order.

    On the logarithmic scale, vanishing or exploding gradients are a falling or rising line. The picture works on light
    and dark pages and loads no other file.
    """
    rows = _rows(run)
    positive = [value for row in rows for key, _ in _LINES if (value := _number(row.get(key))) is not None]
    low, high = min(positive), max(positive)
    up = Axis(low / 2, high * 2, _HEIGHT - _BOTTOM, _TOP, log=True)
    across = Axis(0, max(1, len(rows) - 1), _LEFT + 14, _WIDTH - _RIGHT - 10)
    parts = [f'<text class="t" x="14" y="20">{svg_text("gradient flow, input to output", 60)}</text>']
    for tick in up.ticks(5):
        at = up.position_of(tick)
        parts.append(f'<path class="g" d="M{_LEFT:.0f} {at:.1f}H{_WIDTH - _RIGHT:.0f}"/>')
        parts.append(f'<text class="y" x="{_LEFT - 6:.0f}" y="{at + 4:.1f}">{tick_label(tick)}</text>')
    for place, (key, label) in enumerate(_LINES):
        parts += _line(rows, key, across, up, place)
        at = _WIDTH - _RIGHT - 130 * (len(_LINES) - place)
        parts.append(f'<circle class="f{place}" cx="{at:.0f}" cy="16" r="3.5"/>')
        parts.append(f'<text x="{at + 8:.0f}" y="20">{svg_text(label, 30)}</text>')
    parts += _names(rows, across)
    return frame(_WIDTH, _HEIGHT, run.title, parts)


def _rows(run: Run) -> list[Mapping[str, Any]]:
    found = run.health.get("flow")
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, (list, tuple)) else []


def _number(value: object) -> float | None:
    """Returns a number that a logarithmic axis can show, or `None`."""
    if isinstance(value, (int, float)) and math.isfinite(value) and value > 0:
        return float(value)
    return None


def _line(rows: Sequence[Mapping[str, Any]], key: str, across: Axis, up: Axis, place: int) -> list[str]:
    points = [
        (across.position_of(i), up.position_of(v))
        for i, row in enumerate(rows)
        if (v := _number(row.get(key))) is not None
    ]
    if not points:
        return []
    path = " ".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dots = "".join(f'<circle class="f{place}" cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>' for x, y in points)
    return [f'<path class="l s{place}" d="M{path}"/>', dots]


def _names(rows: Sequence[Mapping[str, Any]], across: Axis) -> list[str]:
    """Returns the names of as many weights as there is room for, always including the first and the last."""
    stride = max(1, math.ceil(len(rows) / 12))
    shown = {*range(0, len(rows) - stride // 2, stride), len(rows) - 1}
    y = _HEIGHT - _BOTTOM + 18
    return [
        f'<text style="text-anchor:end" transform="rotate(-24 {across.position_of(i):.1f} {y:.0f})" '
        f'x="{across.position_of(i):.1f}" y="{y:.0f}">{svg_text(_tail(str(rows[i].get("name") or "")), 24)}</text>'
        for i in sorted(shown)
    ]


def _tail(name: str) -> str:
    """Returns the end of a long name, where names of weights differ."""
    return name if len(name) <= 18 else "…" + name[-17:]
