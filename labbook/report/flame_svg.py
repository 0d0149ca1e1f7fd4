"""Draws a profile: a flame graph of the time in operators, and the allocated memory over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labbook.report import numbers
from labbook.report.profile_trace import Memory, ProfileTrace, Stack
from labbook.report.svg import frame, svg_text

_WIDTH, _EDGE, _ROW = 960.0, 14.0, 17.0
_NARROWEST = 1.0
"""Narrowest box in pixels; what is narrower is in the speedscope file."""

_DEEPEST = 24
_LETTER = 6.1
_COLORS = {"forward": 0, "backward": 1, "optimizer": 2, "gpu": 3}
_HEIGHT = 110.0


def flame_svg(trace: ProfileTrace, labels: Sequence[str], words: Mapping[str, Any], steps: int) -> str:
    """Returns a flame graph: each box is a function below the one that calls it, as wide as its time.

    A box shows its name, its time per step and its share when the pointer is on it.

    Args:
        trace: What the profiler has written.
        words: Labels in the language of the notebook, `profile` of the words.
        steps: Number of profiled steps.
    """
    parts = [f'<text class="t" x="{_EDGE:.0f}" y="22">{svg_text(words["flame"], 100)}</text>']
    at = _EDGE
    seen = {stack.kind for root in trace.threads for stack in root.stacks()}
    for kind, color in _COLORS.items():
        if kind not in seen:
            continue
        text = str(words["kinds"][kind])
        parts.append(
            f'<rect class="f{color}" x="{at:.0f}" y="32" width="10" height="10" rx="2" opacity=".55"/>'
            f'<text x="{at + 15:.0f}" y="41">{svg_text(text, 30)}</text>'
        )
        at += 40 + _LETTER * sum(2 if ord(c) > 0x2000 else 1 for c in text)
    top = 56.0
    for root, label in zip(trace.threads, labels, strict=True):
        whole = root.total_us
        if whole <= 0:
            continue
        outside = f", {words['outside']} {numbers.percent(root.own_us / whole)}" if root.own_us else ""
        caption = f"{label}: {numbers.number(whole / steps / 1e3, 4)} ms {words['per_step']}{outside}"
        parts.append(f'<text class="i" x="{_EDGE:.0f}" y="{top + 12:.0f}">{svg_text(caption, 140)}</text>')
        boxes, depth = _boxes(root, whole, steps, top + 20)
        parts += boxes
        top += 20 + depth * _ROW + 18
    return frame(_WIDTH, top, str(words["flame"]), parts)


def _boxes(root: Stack, whole: float, steps: int, top: float) -> tuple[list[str], int]:
    """Returns the boxes of one thread, and the number of rows."""
    scale = (_WIDTH - 2 * _EDGE) / whole
    parts: list[str] = []
    deepest = 0
    waiting = [(root, _EDGE, 0)]
    while waiting:
        stack, left, depth = waiting.pop()
        for below in sorted(stack.below.values(), key=lambda one: -one.total_us):
            width = below.total_us * scale
            if width < _NARROWEST or depth >= _DEEPEST:
                break
            y = top + depth * _ROW
            ms = numbers.number(below.total_us / steps / 1e3, 3)
            share = numbers.percent(below.total_us / whole)
            letters = int((width - 6) / _LETTER)
            text = svg_text(below.name, letters) if letters >= 3 else ""
            parts.append(
                f"<g><title>{svg_text(f'{below.name}: {ms} ms, {share}, {below.calls}x', 300)}</title>"
                f'<rect class="f{_COLORS[below.kind]}" x="{left:.1f}" y="{y:.1f}" width="{max(width - 0.6, 0.6):.1f}" '
                f'height="{_ROW - 1:.0f}" rx="2" opacity=".38"/>'
                + (f'<text class="i" x="{left + 3:.1f}" y="{y + 12:.1f}">{text}</text>' if text else "")
                + "</g>"
            )
            deepest = max(deepest, depth + 1)
            waiting.append((below, left, depth + 1))
            left += width
    return parts, deepest


def memory_svg(memory: Sequence[Memory], words: Mapping[str, Any]) -> str:
    """Returns the allocated memory of each device over the profiled steps, with the peak.

    Args:
        memory: As read from the trace; at least one device.
    """
    parts = [f'<text class="t" x="{_EDGE:.0f}" y="22">{svg_text(words["memory"], 100)}</text>']
    top = 36.0
    left, width = 90.0, _WIDTH - 90.0 - _EDGE
    span = max((one.times_us[-1] for one in memory), default=0.0) or 1.0
    for number, one in enumerate(memory):
        low, high = min(0, *one.allocated), max(1, *one.allocated)

        def y(value: float, top: float = top, low: int = low, high: int = high) -> float:
            return top + 18 + (_HEIGHT - 18) * (1 - (value - low) / ((high - low) or 1))

        points = []
        before = one.allocated[0]
        for time, value in zip(one.times_us, one.allocated, strict=True):
            x = left + width * time / span
            points += [f"{x:.1f} {y(before):.1f}", f"{x:.1f} {y(value):.1f}"]
            before = value
        where = f", {one.peak_in}" if one.peak_in else ""
        caption = f"{one.device}: {words['peak']} {numbers.size(one.peak_bytes)}{where}"
        parts += [
            f'<text class="i" x="{left:.0f}" y="{top + 10:.0f}">{svg_text(caption, 120)}</text>',
            f'<path class="g" d="M{left:.0f} {y(high):.1f}h{width:.0f}M{left:.0f} {y(low):.1f}h{width:.0f}"/>',
            f'<text class="y" x="{left - 6:.0f}" y="{y(high) + 4:.1f}">{numbers.size(high)}</text>',
            f'<text class="y" x="{left - 6:.0f}" y="{y(low) + 4:.1f}">{_format_signed(low)}</text>',
            f'<path class="l s{number % 8}" d="M{"L".join(points)}"/>',
        ]
        top += _HEIGHT + 18
    parts.append(f'<text class="y" x="{left + width:.0f}" y="{top + 2:.0f}">{numbers.duration(span / 1e6)}</text>')
    return frame(_WIDTH, top + 14, str(words["memory"]), parts)


def _format_signed(value: int) -> str:
    return f"-{numbers.size(-value)}" if value < 0 else numbers.size(value)
