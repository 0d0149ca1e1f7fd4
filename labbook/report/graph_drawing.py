"""Draws the recorded autograd graph of a run: as lines for the terminal, as Mermaid, and as a picture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from labbook.model.run import Run
from labbook.report.model_mermaid import escape_mermaid
from labbook.report.svg import frame, svg_text
from labbook.store.text.sentences import Sentences

MOST_BOXES = 60
"""Most boxes that are drawn. Source: chosen by us; a picture that one can still read."""

_AROUND = 3
"""Steps from what was asked for up to which boxes are drawn."""

_WIDTH, _BOX, _HEIGHT, _GAP, _EDGE = 960.0, 300.0, 40.0, 22.0, 14.0
_MOST_NAMES = 12


@dataclass
class Box:
    """Operations that follow each other without a branch.

    Attributes:
        operations: Their names, the one nearest to the loss first.
        parameters: Names of the parameters that they take; "" for another tensor with a gradient.
        below: Numbers of the boxes that they take from.
    """

    operations: list[str]
    parameters: list[str] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


class _Place(NamedTuple):
    """The upper left corner of a drawn box, and its width."""

    x: float
    y: float
    width: float


def is_incomplete(run: Run) -> bool:
    """Whether a graph was recorded that misses trainable parameters, so that its picture belongs into the entry."""
    graph = run.health.get("autograd") or {}
    return bool(graph.get("operations")) and bool(graph.get("unreachable") or graph.get("cut"))


def run_graph_svg(run: Run, words: Mapping[str, str], say: Sentences) -> str:
    """Returns the picture of the graph of a run, near the loss; the operation of the first bad value is marked.

    Args:
        run: A run with `health["autograd"]`.
    """
    graph = run.health["autograd"]
    boxes = fold_graph(graph["operations"])
    missed, remarks = graph.get("unreachable") or [], graph_remarks(run.health, say)
    return graph_svg(boxes, boxes_around(boxes), words, missed, suspect_of(run), remarks)


def suspect_of(run: Run) -> str:
    """Returns the operation that made the first value that is not finite, or "" if none was shown to have."""
    flight = run.health.get("flight") or {}
    operation = str(flight.get("op") or "")
    found = re.search(r"(\w+)!", operation)
    return found.group(1) if found else operation if flight.get("finding") == "forward" else ""


def graph_remarks(health: Mapping[str, Any], say: Sentences) -> list[str]:
    """Returns where the graph of a run was cut and where its first value came from that is not finite."""
    cut, flight = ((health.get("autograd") or {}).get("cut") or {}), health.get("flight") or {}
    lines = [say.line("terminal.graph.cut", op=str(cut["op"]), place=_place_in_code(cut))] if cut.get("op") else []
    if flight.get("finding"):
        operation = str(flight.get("op"))
        lines.append(
            say.line("terminal.graph.flight", step=flight.get("step"), op=operation, place=_place_in_code(flight))
        )
    return lines


def _place_in_code(facts: Mapping[str, Any]) -> str:
    file = Path(str(facts.get("file") or "")).name
    return f"{file}:{facts.get('line')}" if file else "?"


def fold_graph(rows: Sequence[Sequence[Any]]) -> list[Box]:
    """Returns the boxes of a graph, from the loss on; box 0 is that of the first loss.

    An operation is joined with the one it takes from if nothing else takes from that one; a box ends at an operation
    with parameters. What lies between a parameter and the operation, such as a transpose, is left out.

    Args:
        rows: `operations` of the `graph` event; rows of an unexpected form are ignored.
    """
    graph = [_row(row, len(rows)) for row in rows]
    users = [0] * len(graph)
    for _, taken, _ in graph:
        for one in taken:
            users[one] += 1
    leaf = {at: name for at in range(len(graph)) if (name := _leaf_behind(graph, users, at)) is not None}
    starts = [at for at, (_, _, name) in enumerate(graph) if name is None and not users[at]]
    number: dict[int, int] = {}
    boxes: list[Box] = []
    waiting = list(reversed(starts))
    begun: list[tuple[int, Box]] = []
    while waiting:
        at = waiting.pop()
        if at in number:
            continue
        box = Box([])
        number[at] = len(boxes)
        boxes.append(box)
        while True:
            name, taken, _ = graph[at]
            box.operations.append(name)
            box.parameters += [leaf[one] for one in taken if one in leaf]
            real = [one for one in dict.fromkeys(taken) if one not in leaf]
            if len(real) != 1 or users[real[0]] != 1 or box.parameters:
                break
            at = real[0]
        begun += [(one, box) for one in real]
        waiting += reversed(real)
    for at, box in begun:
        box.below.append(number[at])
    return boxes


def _leaf_behind(graph: Sequence[tuple[str, list[int], str | None]], users: Sequence[int], at: int) -> str | None:
    """Returns the parameter that an operation hands on alone, or that a row is; `None` for any other operation."""
    for _ in range(len(graph)):
        _, taken, name = graph[at]
        if name is not None or len(taken) != 1 or users[at] != 1:
            return name
        at = taken[0]
    return None


def _row(row: Sequence[Any], count: int) -> tuple[str, list[int], str | None]:
    if len(row) != 3 or not isinstance(row[1], (list, tuple)):
        return "?", [], None
    taken = [one for one in row[1] if isinstance(one, int) and 0 <= one < count]
    return str(row[0]), taken, None if row[2] is None else str(row[2])


def boxes_around(boxes: Sequence[Box], word: str = "") -> list[int]:
    """Returns the numbers of the boxes to draw: those near a word, or near the loss.

    Args:
        word: Part of the name of an operation or parameter; "" for the loss. Case is ignored.
    """
    if not word:
        return list(range(len(boxes)))[:MOST_BOXES]
    lowered = word.lower()
    near = {at for at, box in enumerate(boxes) if any(lowered in name.lower() for name in _names(box))}
    edges = [(at, below) for at, box in enumerate(boxes) for below in box.below]
    for _ in range(_AROUND if near else 0):
        near |= {a if b in near else b for a, b in edges if (a in near) != (b in near)}
    return sorted(near)[:MOST_BOXES]


def _names(box: Box) -> list[str]:
    return [*box.operations, *box.parameters]


def short_parameters(names: Sequence[str], other: str) -> str:
    """Returns names of parameters by module: "encoder.0: weight, bias".

    Args:
        names: Names; "" for another tensor.
        other: Words for such a tensor.
    """
    modules: dict[str, list[str]] = {}
    for name in names:
        module, _, last = name.rpartition(".")
        modules.setdefault(module, []).append(last or other)
    return "; ".join(
        f"{module}: {', '.join(dict.fromkeys(found))}" if module else ", ".join(dict.fromkeys(found))
        for module, found in modules.items()
    )


def graph_lines(boxes: Sequence[Box], shown: Sequence[int], other: str) -> list[str]:
    """Returns a line for each box; a box that takes from several, or not from the next one, names their numbers."""
    lines = []
    inside = set(shown)
    for place, at in enumerate(shown):
        box = boxes[at]
        text = " → ".join(box.operations)
        if box.parameters:
            text += f"   ({short_parameters(box.parameters, other)})"
        following = shown[place + 1] if place + 1 < len(shown) else None
        if box.below and box.below != [following]:
            text += "   → " + ", ".join(f"[{one + 1}]" + ("" if one in inside else "…") for one in box.below)
        lines.append(f"[{at + 1}]  {text}")
    return lines


def graph_mermaid(boxes: Sequence[Box], shown: Sequence[int], other: str) -> str:
    """Returns the graph in the language of Mermaid, which git hosts draw in a code block."""
    inside = set(shown)
    lines = ["flowchart TD"]
    for at in shown:
        box = boxes[at]
        texts = [" → ".join(box.operations), short_parameters(box.parameters, other) if box.parameters else ""]
        lines.append(f'  b{at + 1}["{"<br/>".join(map(escape_mermaid, filter(None, texts)))}"]')
        lines += [f"  b{at + 1} --> b{one + 1}" for one in box.below if one in inside]
    return "\n".join(lines) + "\n"


def graph_svg(
    boxes: Sequence[Box],
    shown: Sequence[int],
    words: Mapping[str, str],
    unreachable: Sequence[str],
    suspect: str = "",
    remarks: Sequence[str] = (),
) -> str:
    """Returns the picture, from the loss down to the parameters.

    Args:
        shown: Numbers of those to draw.
        words: Labels, `autograd` of the words.
        unreachable: Names of trainable parameters that the graph does not reach; they are listed in red.
        suspect: Name of an operation to mark, if exactly one box has it, as `log_softmax` or `LogSoftmax`.
        remarks: Sentences below the graph.
    """
    levels = _levels(boxes, shown)
    places, top = _places(levels)
    plain = suspect.replace("_", "").lower()
    marked = [at for at in shown if plain and plain in map(str.lower, boxes[at].operations)]
    parts = [_line(words["title"], 24, "t")]
    for at in shown:
        for one in boxes[at].below:
            if one in places:
                # Past the boxes of the rows between, else straight down.
                draw = _bow if levels[one] - levels[at] > 1 else _connection
                parts.append(draw(places[at], places[one]))
    for at in shown:
        parts += _box_elements(boxes[at], *places[at], words["other"], bad=marked == [at])
    if unreachable:
        parts.append(_line(words["missed"], top + 6, "bad"))
        named = list(unreachable)[:_MOST_NAMES]
        parts += [_line(name, top + 24 + 16 * line, "i", _EDGE + 12) for line, name in enumerate(named)]
        top += 30 + 16 * len(named)
    for remark in remarks:
        parts.append(_line(remark, top + 6, "bad"))
        top += 20
    return frame(_WIDTH, top, words["title"], parts)


def _levels(boxes: Sequence[Box], shown: Sequence[int]) -> dict[int, int]:
    """Returns the row of each box: below the boxes that take from it, except where branches meet again."""
    levels = dict.fromkeys(shown, 0)
    for _ in shown:
        changed = False
        for at in shown:
            for one in boxes[at].below:
                if one in levels and levels[one] <= levels[at]:
                    levels[one], changed = levels[at] + 1, True
        if not changed:
            break
    return levels


def _places(levels: Mapping[int, int]) -> tuple[dict[int, _Place], float]:
    """Returns the place of each box, the rows centred, and the height of them all."""
    rows: dict[int, list[int]] = {}
    for at, level in levels.items():
        rows.setdefault(level, []).append(at)
    places: dict[int, _Place] = {}
    top = 42.0
    for _, row in sorted(rows.items()):
        width = min(_BOX, (_WIDTH - 2 * _EDGE - 10 * (len(row) - 1)) / len(row))
        left = (_WIDTH - len(row) * width - 10 * (len(row) - 1)) / 2
        places |= {at: _Place(left + index * (width + 10), top, width) for index, at in enumerate(row)}
        top += _HEIGHT + _GAP
    return places, top


def _line(text: str, y: float, style: str, x: float = _EDGE) -> str:
    return f'<text class="{style}" x="{x:.0f}" y="{y:.0f}">{svg_text(text, 120)}</text>'


def _connection(upper: _Place, lower: _Place) -> str:
    """Returns a line from the middle of a box to that of one in the next row."""
    x, y, to_x = upper.x + upper.width / 2, upper.y + _HEIGHT, lower.x + lower.width / 2
    half = (y + lower.y) / 2
    return (
        f'<path class="l s7" d="M{x:.1f} {y:.1f}C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {lower.y:.1f}"/>'
    )


def _bow(upper: _Place, lower: _Place) -> str:
    """Returns a line past the boxes between two, from right side to right side."""
    x, y, to_x, to_y = upper.x + upper.width, upper.y + _HEIGHT / 2, lower.x + lower.width, lower.y + _HEIGHT / 2
    out = min(max(x, to_x) + 30 + (to_y - y) / 8, _WIDTH - 4)
    return f'<path class="l s1" d="M{x:.1f} {y:.1f}C{out:.1f} {y:.1f} {out:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"/>'


def _box_elements(box: Box, x: float, y: float, width: float, other: str, *, bad: bool) -> list[str]:
    names = short_parameters(box.parameters, other)
    operations = " → ".join(box.operations)
    stroke = "bl" if bad else "s0"
    letters = max(3, int((width - 16) / 6.3))
    middle = y + (17 if names else 25)
    parts = [
        f"<g><title>{svg_text(f'{operations} {names}', 400)}</title>"
        f'<rect class="{stroke}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_HEIGHT:.0f}" rx="6" '
        'style="fill:var(--bg)"/>',
        f'<text class="i" x="{x + 8:.1f}" y="{middle:.1f}">{svg_text(operations, letters)}</text>',
    ]
    if names:
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 32:.1f}">{svg_text(names, letters)}</text>')
    return [*parts, "</g>"]
