"""Draws lines of a terminal as SVG: a still picture, or an animation in which lines appear at their times.

The picture holds text, no font and no script, so it stays small and sharp, and loads nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.text import Text

_CHAR, _LINE, _FONT, _MARGIN, _BAR = 8.1, 19, 13.5, 14, 30
_FACE = "ui-monospace,'SF Mono','Cascadia Mono','DejaVu Sans Mono','Noto Sans Mono CJK SC',Menlo,Consolas,monospace"
_INK, _PAPER, _FRAME = "#d6dde6", "#161b22", "#30363d"
_COLORS = ("#484f58", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#d6dde6")
"""Black, red, green, yellow, blue, magenta, cyan, white."""


@dataclass(frozen=True)
class Line:
    """One line of a terminal.

    Args:
        text: With escape sequences for its colors.
        at: Seconds from the beginning at which it appears.
        typed: Seconds that typing it takes; 0 for output.
    """

    text: str
    at: float = 0.0
    typed: float = 0.0


def still(lines: Sequence[Line], columns: int, title: str) -> str:
    """A picture of all lines, each wrapped at `columns` as a terminal does."""
    rows = [row for line in lines for row in _wrapped(line.text, columns)]
    drawn = "".join(_row(segments, number) for number, segments in enumerate(rows))
    return _document(drawn, columns, len(rows), title, "")


def animation(lines: Sequence[Line], columns: int, height: int, title: str, pause: float = 5.0) -> str:
    """An animation of `height` rows that scrolls up as lines appear, pauses at the end and begins again.

    A viewer whose system is set to reduced motion sees the last rows, without any.
    """
    total = max(line.at + line.typed for line in lines) + pause
    rules, drawn, scroll, number = [], [], [(0.0, 0)], 0
    for index, line in enumerate(lines):
        start = 100 * line.at / total
        rules.append(f"@keyframes a{index}{{0%{{opacity:0}}{start:.2f}%,100%{{opacity:1}}}}")
        rules.append(f".a{index}{{animation-name:a{index}}}")
        rows = _wrapped(line.text, columns)
        body = "".join(_row(segments, number + offset) for offset, segments in enumerate(rows))
        if line.typed:
            body += _curtain(rows[0], number, index)
            end = 100 * (line.at + line.typed) / total
            letters, width = _cells(rows[0]), _cells(rows[0]) * _CHAR
            rules.append(
                f"@keyframes c{index}{{0%,{start:.2f}%{{transform:none;animation-timing-function:steps({letters})}}"
                f"{end:.2f}%,100%{{transform:translateX({width:.0f}px)}}}}.c{index}{{animation-name:c{index}}}"
            )
        drawn.append(f'<g class="a{index}">{body}</g>')
        number += len(rows)
        if number > height:
            scroll.append((start, (number - height) * _LINE))
    steps = "".join(f"{at:.2f}%{{transform:translateY(-{up}px)}}" for at, up in scroll)
    last = scroll[-1][1]
    style = (
        f"g,rect.c{{animation-duration:{total:.1f}s;animation-iteration-count:infinite;"
        "animation-timing-function:step-end}.s{animation-name:s}"
        f"@keyframes s{{{steps}100%{{transform:translateY(-{last}px)}}}}{''.join(rules)}"
        "@media(prefers-reduced-motion:reduce){g,rect.c{animation:none!important}"
        f".s{{transform:translateY(-{last}px)}}rect.c{{display:none}}}}"
    )
    return _document(f'<g class="s">{"".join(drawn)}</g>', columns, height, title, style)


def _wrapped(text: str, columns: int) -> list[list[Segment]]:
    console = Console(width=columns, force_terminal=True, color_system="truecolor", legacy_windows=False)
    segments = Text.from_ansi(text).render(console)
    rows = Segment.split_and_crop_lines(segments, 10_000, pad=False, include_new_lines=False)
    return [part for row in rows for part in _folded(list(row), columns)] or [[]]


def _folded(row: list[Segment], columns: int) -> list[list[Segment]]:
    """A row cut at the width of the terminal, wherever that is: terminals know no words."""
    width = sum(segment.cell_length for segment in row)
    cuts = [*range(columns, width, columns), width]
    return [list(part) for part in Segment.divide(row, cuts)] if width > columns else [row]


def _cells(row: list[Segment]) -> int:
    return sum(segment.cell_length for segment in row)


def _row(row: list[Segment], number: int) -> str:
    spans, column = [], 0
    for segment in row:
        for text in _runs(segment.text):
            cells = cell_len(text)
            if text.strip():
                spans.append(
                    f'<text x="{column * _CHAR:.1f}" y="{number * _LINE + 14}" '
                    f'textLength="{cells * _CHAR:.1f}"{_look(segment)}>{escape(text, quote=False)}</text>'
                )
            column += cells
    return "".join(spans)


def _runs(text: str) -> Iterator[str]:
    """Parts of a text with characters of one width, so that each part has the letter spacing of its script."""
    for _, run in groupby(text, key=lambda character: (cell_len(character), character == " ")):
        yield "".join(run)


def _curtain(row: list[Segment], number: int, index: int) -> str:
    """A rectangle over a command line, which moves to the right as if the line was typed."""
    size = f'width="{_cells(row) * _CHAR:.0f}" height="{_LINE}"'
    return f'<rect class="c c{index}" x="16" y="{number * _LINE}" {size} fill="{_PAPER}"/>'


def _look(segment: Segment) -> str:
    style = segment.style
    if style is None:
        return ""
    look = ""
    if style.color is not None and not style.color.is_default:
        number = style.color.number
        color = style.color.get_truecolor().hex if number is None or number > 15 else _COLORS[number % 8]
        look += f' fill="{color}"'
    if style.bold:
        look += ' font-weight="700"'
    if style.italic:
        look += ' font-style="italic"'
    if style.dim:
        look += ' opacity=".62"'
    return look


def _document(body: str, columns: int, rows: int, title: str, style: str) -> str:
    width, inner = round(columns * _CHAR) + 2 * _MARGIN, rows * _LINE + 4
    height = inner + _BAR + _MARGIN
    lamps = "".join(
        f'<circle cx="{18 + 18 * n}" cy="15" r="5" fill="{color}"/>'
        for n, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"<title>{escape(title)}</title><style>text{{white-space:pre}}{style}</style>"
        f'<rect width="{width}" height="{height}" rx="9" fill="{_PAPER}" stroke="{_FRAME}"/>{lamps}'
        f'<svg x="{_MARGIN}" y="{_BAR}" width="{width - 2 * _MARGIN}" height="{inner}" fill="{_INK}" '
        f'font-family="{_FACE}" font-size="{_FONT}" xml:space="preserve">{body}</svg></svg>\n'
    )
