"""Draws which earlier runs wrote what a run read."""

from __future__ import annotations

from labbook.model.run import Run
from labbook.model.run_files import Parent
from labbook.report import numbers
from labbook.report.svg import frame, svg_text

_WIDTH = 760.0
_BOX, _HEIGHT, _GAP = 236.0, 46.0, 14.0
_MOST = 6
"""Most runs, and most kept files, that are drawn. Source: chosen by us; the entry lists all of them."""


def lineage_svg(run: Run) -> str:
    """Returns a picture of the parents, the run and its kept files, from left to right.

    The picture works on light and dark pages and loads no other file.
    """
    parents = _group_by_run(run.parents)
    left = [(name, files, name == run.resumed_from) for name, files in list(parents.items())[:_MOST]]
    right = [artifact for artifact in run.artifacts if artifact.digest][:_MOST]
    rows = max(len(left), len(right), 1)
    height = 24 + rows * (_HEIGHT + _GAP)
    middle = height / 2
    columns = [14.0, (_WIDTH - _BOX) / 2, _WIDTH - _BOX - 14]
    parts = []
    for number, (name, files, resumed) in enumerate(left):
        at = _center(number, len(left), middle)
        parts += [_edge(columns[0] + _BOX, at, columns[1], middle, thick=resumed)]
        parts += _box(columns[0], at, name, ", ".join(dict.fromkeys(parent.path for parent in files)), "s0")
    for number, artifact in enumerate(right):
        at = _center(number, len(right), middle)
        parts += [_edge(columns[1] + _BOX, middle, columns[2], at)]
        digest = artifact.digest.partition(":")[2][:8]
        parts += _box(columns[2], at, artifact.name, f"{numbers.size(artifact.size_bytes)}  {digest}", "s2")
    parts += _box(columns[1], middle, run.id, run.title, "s1")
    return frame(_WIDTH, height, run.title, parts)


def _group_by_run(parents: tuple[Parent, ...]) -> dict[str, list[Parent]]:
    grouped: dict[str, list[Parent]] = {}
    for parent in parents:
        grouped.setdefault(parent.run, []).append(parent)
    return grouped


def _center(number: int, count: int, middle: float) -> float:
    return middle + (number - (count - 1) / 2) * (_HEIGHT + _GAP)


def _edge(x: float, y: float, to_x: float, to_y: float, *, thick: bool = False) -> str:
    half = (x + to_x) / 2
    width = ' style="stroke-width:2.6"' if thick else ""
    curve = f"M{x:.0f} {y:.1f}C{half:.0f} {y:.1f} {half:.0f} {to_y:.1f} {to_x:.0f} {to_y:.1f}"
    return f'<path class="l s7"{width} d="{curve}"/>'


def _box(x: float, middle: float, title: str, detail: str, stroke: str) -> list[str]:
    top = middle - _HEIGHT / 2
    return [
        f'<rect class="{stroke}" x="{x:.0f}" y="{top:.1f}" width="{_BOX:.0f}" height="{_HEIGHT:.0f}" rx="6" '
        'fill="var(--bg)"/>',
        f'<text class="t" x="{x + 10:.0f}" y="{top + 19:.1f}">{svg_text(title, 30)}</text>',
        f'<text x="{x + 10:.0f}" y="{top + 36:.1f}">{svg_text(detail, 36)}</text>',
    ]
