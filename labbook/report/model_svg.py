"""Draws the modules of a model as nested boxes in the order in which they run, with their health."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from labbook.model.run import Run
from labbook.report import numbers
from labbook.report.axes import Axis
from labbook.report.svg import frame, svg_text

_WIDTH, _ROW, _GAP, _INDENT = 760.0, 22.0, 4.0, 13.0
_LEFT, _OUTPUT, _PARAMETERS, _GRADIENT, _HEALTH = 14.0, 324.0, 490.0, 498.0, 604.0
_COLUMNS = _OUTPUT - 8
_MOST_ROWS = 74
"""Most rows of all models together; a picture of them has under 60 kB."""

_ENLARGED = "<style>@media(min-width:900px){svg{width:100%;height:auto}}</style>"
"""Opened alone in a window, the picture fills it; inside a page it has its own width."""

_PAINT = {
    "nonfinite": "--bad",
    "exploding": "--bad",
    "vanishing": "--c3",
    "no_gradient": "--c4",
    "dead": "--c6",
    "saturated": "--c1",
    "frozen": "--c0",
    "not_called": "--c7",
}
"""State -> its colour. The words beside it say the same."""

_HARMLESS = ("frozen", "not_called")
_SHARES = ("dead", "saturated")


def has_diagram(run: Run) -> bool:
    """Whether the modules of a model were observed, so that there is something to draw."""
    return bool(drawn_models(run))


def model_svg(run: Run, labels: Mapping[str, str]) -> str:
    """Returns the picture of the models of a run, at most 74 rows.

    It works on light and dark pages and loads no other file. What lies on a row is a text that appears on it.

    Args:
        run: A run with `health["models"]`.
        labels: The section `diagram` of the words file.
    """
    trees = drawn_models(run)
    rows = [row for model in trees for row in model["tree"]]
    worst = _worst_rows(rows)
    axis = _axis(rows)
    parts = [_ENLARGED]
    top = 12.0
    for number, model in enumerate(trees):
        parts += _heading(model, labels, top, columns=not number)
        top += 30
        drawn, top = _draw(model["tree"], 0, top, labels, axis, worst)
        parts += drawn
        top += 8
        if model.get("unobserved"):
            parts.append(
                _text(_LEFT, top + 8, labels["left_out"].format(count=numbers.count(int(model["unobserved"]))), 90)
            )
            top += 20
    legend, top = _legend(rows, labels, top, axis, clips=run.clips_by_call)
    return frame(_WIDTH, top + 4, run.title, parts + legend)


def drawn_models(run: Run) -> list[Mapping[str, Any]]:
    """Returns the models of a run whose modules were observed, as far as they have room together."""
    models = run.health.get("models")
    found: list[Mapping[str, Any]] = []
    for model in models if isinstance(models, (list, tuple)) else ():
        tree = model.get("tree") if isinstance(model, Mapping) else None
        if tree and sum(len(one["tree"]) for one in found) + len(tree) <= _MOST_ROWS:
            found.append(model)
    return found


def _worst_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """State -> id of the row that shows its worst value."""
    found: dict[str, tuple[float, int]] = {}
    for row in rows:
        for one in row["states"]:
            state, value = one["state"], one["value"]
            badness = -value if state == "vanishing" else value
            if state not in _HARMLESS and (state not in found or badness > found[state][0]):
                found[state] = badness, id(row)
    return {state: row for state, (_, row) in found.items()}


def _axis(rows: Sequence[Mapping[str, Any]]) -> Axis | None:
    norms = [norm for row in rows for norm in row["gradient"] if norm > 0 and math.isfinite(norm)]
    if not norms:
        return None
    low, high = min(norms), max(norms)
    return Axis(min(low, high / 10) / 2, high, 3, _HEALTH - _GRADIENT - 26, log=True)


def _heading(model: Mapping[str, Any], labels: Mapping[str, str], top: float, *, columns: bool) -> list[str]:
    root = model["tree"][0]
    summary = labels["summary"].format(
        parameters=numbers.count(int(root["parameters"])), trainable=numbers.count(int(root["trainable"]))
    )
    parts = [_text(_LEFT, top + 13, summary, 50)] if root["parameters"] else []
    if columns:
        y = top + 13
        parts += [
            _text(_OUTPUT, y, labels["output"], 20),
            _text(_PARAMETERS, y, labels["parameters"], 20, "y"),
            _text(_GRADIENT + 8, y, labels["gradient"], 20),
            _text(_HEALTH, y, labels["health"], 20),
        ]
    return parts


def _draw(
    rows: Sequence[Mapping[str, Any]],
    at: int,
    top: float,
    labels: Mapping[str, str],
    axis: Axis | None,
    worst: Mapping[str, int],
) -> tuple[list[str], float]:
    """Returns the box of row `at` with all boxes inside it, and its lower edge."""
    row = rows[at]
    depth = int(row["depth"])
    lines = max(1, min(3, len(row["states"])))
    bottom = top + _ROW + 14 * (lines - 1)
    inside: list[str] = []
    for place in range(at + 1, len(rows)):
        below = int(rows[place]["depth"])
        if below <= depth:
            break
        if below == depth + 1:
            more, bottom = _draw(rows, place, bottom + _GAP, labels, axis, worst)
            inside += more
    has_inside = bool(inside)
    bottom += _GAP if has_inside else 0
    own = [*_box(row, top, bottom), *_texts(row, top, labels, axis, worst)]
    points = ";".join(" ".join(f"{value:g}" for value in point) for point in row.get("history") or ())
    if points.count(";"):  # the site draws it at a click
        own = [f'<g data-history="{points}">', *own, "</g>"]
    return [*own, *inside], bottom


def _box(row: Mapping[str, Any], top: float, bottom: float) -> list[str]:
    x, right = _LEFT + _INDENT * row["depth"], _WIDTH - 14 - 2 * row["depth"]
    state = row["states"][0]["state"] if row["states"] else ""
    paint = _PAINT.get(state, "")
    look = (
        f'fill="var({paint})" fill-opacity=".13" stroke="var({paint})"'
        if paint
        else 'fill="var(--bg)" stroke="var(--edge)"'
    )
    dashes = ' stroke-dasharray="4 3"' if state in _HARMLESS else ""
    stack = ""
    if row["count"] > 1 and row["type"]:  # a pile of boxes
        stack = f'<path d="M{x + 5:.0f} {bottom + 2.5:.1f}H{right + 2.5:.1f}V{top + 5:.1f}" class="a"/>'
    return [
        stack,
        f'<rect x="{x:.0f}" y="{top:.1f}" width="{right - x:.0f}" height="{bottom - top:.1f}" rx="4" {look}{dashes}/>',
    ]


def _texts(
    row: Mapping[str, Any],
    top: float,
    labels: Mapping[str, str],
    axis: Axis | None,
    worst: Mapping[str, int],
) -> list[str]:
    x, y = _LEFT + _INDENT * row["depth"] + 8, top + 15
    parts = [_title(x, y, row, labels)]
    if row["output"]:
        parts.append(_text(_OUTPUT, y, row["output"], 16))
    if row["parameters"]:
        parts.append(_text(_PARAMETERS, y, numbers.count(int(row["parameters"])), 14, "y"))
    norms = row["gradient"]
    if norms and axis is not None:
        parts.append(_text(_GRADIENT + 8, y - 1, _range(norms), 18))
        parts.append(
            f'<rect class="f2" x="{_GRADIENT + 8:.0f}" y="{y + 2:.1f}" '
            f'width="{axis.position_of(max(norms)):.1f}" height="2.5"/>'
        )
    for number, one in enumerate(row["states"][:3]):
        parts += _state(one, y + 14 * number, row, labels, worst)
    return parts


def _title(x: float, y: float, row: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Returns the type and the name of a row, cut to the room in front of the columns."""
    room = _COLUMNS - x
    kind, name = row_words(row, labels)
    cut = svg_text(kind, max(8, int(room / 7.2)))
    left = int((room - 7.2 * len(kind)) / 5.9) - 1
    rest = f'<tspan class="p" dx="6">{svg_text(name, left)}</tspan>'
    return f'<text class="t" x="{x:.0f}" y="{y:.1f}">{cut}{rest if left >= 6 and name else ""}</text>'


def row_words(row: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[str, str]:
    """Returns the type of a row, with the number of equal modules, and its name."""
    count = int(row["count"])
    kind = str(row["type"]) or labels["between"].format(count=count)
    kind = f"{count} × {kind}" if count > 1 and row["type"] else kind
    name = str(row["name"])
    if row["last"]:
        head, _, end = str(row["last"]).rpartition(".")
        name += f" … {end if head and name.startswith(head + '.') else row['last']}"
    if row["inside"]:
        name += f" ({labels['inside'].format(count=row['inside'])})"
    return kind, name


def state_words(one: Mapping[str, Any], row: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Returns the words of a state of a row: `dead 100 % (3/8)`."""
    state = str(one["state"])
    text = str(labels.get(state, state))
    if state in _SHARES:
        text += f" {numbers.percent(one['value'])}"
    return f"{text} ({one['modules']}/{row['total']})" if row["total"] > 1 else text


def _state(
    one: Mapping[str, Any], y: float, row: Mapping[str, Any], labels: Mapping[str, str], worst: Mapping[str, int]
) -> list[str]:
    state, text = str(one["state"]), state_words(one, row, labels)
    mark = f'<text class="i" x="{_HEALTH - 12:.0f}" y="{y:.1f}">▲</text>' if worst.get(state) == id(row) else ""
    summary = svg_text(labels["in_modules"].format(count=one["modules"], name=one["name"]), 120)
    title = f"<title>{summary}</title>" if row["total"] > 1 else ""
    paint = _PAINT.get(state, "--c7")
    return [
        f'<rect x="{_HEALTH:.0f}" y="{y - 8:.1f}" width="8" height="8" rx="2" fill="var({paint})"/>',
        f'<text class="i" x="{_HEALTH + 12:.0f}" y="{y:.1f}">{title}{svg_text(text, 24)}</text>',
        mark,
    ]


def _legend(
    rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str], top: float, axis: Axis | None, *, clips: bool
) -> tuple[list[str], float]:
    """Returns what the colours that occur represent, and the lower edge."""
    found = {one["state"] for row in rows for one in row["states"]}
    entries = [(f"var({paint})", labels[state]) for state, paint in _PAINT.items() if state in found]
    entries += [("var(--c2)", labels["scale_clipped" if clips else "scale"])] if axis is not None else []
    parts, x, y = [], _LEFT, top + 8
    if any(state not in _HARMLESS for state in found):
        entries.append(("", f"▲ {labels['worst']}"))
    for paint, text in entries:
        width = 26 + sum(12.0 if ord(c) > 0x2E80 else 6.2 for c in text)
        if x + width > _WIDTH - 14:
            x, y = _LEFT, y + 17
        if paint:
            parts.append(f'<rect x="{x:.0f}" y="{y - 8:.1f}" width="8" height="8" rx="2" fill="{paint}"/>')
        parts.append(_text(x + (12 if paint else 0), y, text, 60))
        x += width
    return parts, y + 10 if entries else top


def _range(norms: Sequence[float]) -> str:
    low, high = numbers.number(min(norms), 2), numbers.number(max(norms), 2)
    return low if low == high else f"{low} – {high}"


def _text(x: float, y: float, text: str, limit: int, kind: str = "") -> str:
    css = f' class="{kind}"' if kind else ""
    return f'<text{css} x="{x:.0f}" y="{y:.1f}">{svg_text(str(text), limit)}</text>'
