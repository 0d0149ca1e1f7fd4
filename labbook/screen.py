"""The terminal: tables, Markdown and progress for people. The only module that imports Rich.

Whatever is printed here passes through `harmless`: text that a program printed cannot move the cursor, change colours
or the title of the reader's terminal. `NO_COLOR` is respected; on a pipe tables are plain columns, never cut.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_ESCAPES = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # control sequences
    "|\x1b[PX^_\\]][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"  # strings: titles, links, device control
    "|\x1b[ -/]*[0-~]?"  # short escapes
    "|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_PATIENCE_S = 0.5
"""Work that takes less shows no bar. Source: chosen by us."""

_BETWEEN_DRAWINGS_S = 0.1

_PARTS = re.compile(
    "`[^`]*`[!-/:-@\\[-_{-~]*"  # a command or a name, whole, with the mark behind it
    "|(?<![^\\s(\"'])[!-.0-~]*/\\S*"  # a path, also with a Chinese name in it
    "|(?:[!-_a-~]+|.)[，。、；：！？）》”]*"
)
"""What stays on one line: words of ASCII, paths, text in backticks. A line may end after any Chinese character, and
begins with no punctuation mark."""

STATUS_STYLES = {
    "finished": ("✓", "green"),
    "failed": ("✗", "red"),
    "interrupted": ("■", "yellow"),
    "killed": ("✗", "red"),
    "lost": ("?", "magenta"),
    "running": ("●", "cyan"),
    "healthy": ("✓", "green"),
    "suspect": ("!", "yellow"),
    "unhealthy": ("✗", "red"),
    "unknown": ("?", "dim"),
}
"""Status or verdict -> mark and colour; the word is always beside them."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        right: Whether it is aligned to the right.
        flexible: Whether it takes the room that is left and is cut where there is too little.
        keep: Rank when the terminal is narrow: columns with the smallest go first; 9 never goes.
    """

    name: str
    right: bool = False
    flexible: bool = False
    keep: int = 5


@dataclass(frozen=True)
class Cell:
    """Text of a cell in a Rich style ("red", "dim")."""

    text: str
    style: str = ""


def print_error(message: str, advice: str) -> None:
    """Prints an error and, if there is one, the advice below it, on standard error."""
    with contextlib.suppress(OSError):  # standard error may be full or closed: the exit code remains
        click.echo(f"labbook: {message}", err=True)
        if advice:
            click.echo(f"         {advice}", err=True)


def harmless(text: str) -> str:
    """`text` without terminal escapes, control characters and marks that turn the writing direction."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def is_terminal() -> bool:
    """Whether standard output is a terminal: then there are colours, and long lines are cut."""
    return sys.stdout.isatty()


def status_cell(status: str, label: str = "") -> Cell:
    """Returns a status with its mark and colour.

    Args:
        label: The word to show; by default the status itself.
    """
    mark, style = STATUS_STYLES.get(status, ("·", ""))
    text = label or status
    return Cell(f"{mark} {text}" if _can_print(mark) else text, style)


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]]) -> None:
    """Prints a table; on a pipe as plain columns in full width."""
    cells = [[_one_line(cell if isinstance(cell, Cell) else Cell(cell)) for cell in row] for row in rows]
    if not is_terminal():
        _print_plain(columns, cells)
        return
    from rich.table import Table

    console = _console()
    shown = _fitting_columns(columns, cells, console.width)
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False, padding=(0, 2, 0, 0))
    for index in shown:
        column = columns[index]
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if column.flexible else None,
        )
    for row in cells:
        table.add_row(*(_text(row[index]) for index in shown))
    table.expand = any(columns[index].flexible for index in shown)
    console.print(table)


def print_line(*parts: Cell | str) -> None:
    """Prints one line; on a terminal a long one is broken between words."""
    from rich.text import Text

    line = Text()
    for part in parts:
        line.append_text(_text(part if isinstance(part, Cell) else Cell(part)))
    console = _console()
    for piece in _break_line(line, console.width) if is_terminal() else [line]:
        console.print(piece, soft_wrap=True)


def _break_line(line: Text, width: int) -> list[Text]:
    """A styled line as the lines that `wrapped` makes of its text, styles kept."""
    from rich.text import Text

    pieces: list[Text] = []
    at = 0
    for shown in wrap_line(line.plain, width):
        body = shown.lstrip(" ") if pieces else shown
        start = line.plain.find(body, at)
        at = start + len(body)
        pieces.append(Text(" " * (len(shown) - len(body))).append_text(line[start:at]))
    return pieces


def terminal_lines(text: str, indent: int = 0) -> list[str]:
    """Returns a line for standard error: as lines that fit where it is a terminal, unchanged elsewhere."""
    if not sys.stderr.isatty():
        return [text]
    import shutil

    return wrap_line(text, max(40, shutil.get_terminal_size().columns), indent)


def wrap_line(text: str, width: int, indent: int = 0) -> list[str]:
    """Returns one line as lines of at most `width` columns, broken between words and between Chinese characters.

    What one copies stays whole, also where it is wider: paths, and commands in backticks or in a line of their own.

    Args:
        indent: Further blanks before all lines but the first; they begin where the text of the first one does.
    """
    body = text.lstrip(" ")
    if display_width(text) <= width or re.match(r"\$ |> |labbook [\w-]|git ", body):
        return [text]
    margin = " " * min(len(text) - len(body) + indent, width // 2)
    lines, line = [], text[: len(text) - len(body)]
    for part in _PARTS.findall(body):
        if line.strip() and display_width(line + part.rstrip()) > width:
            lines.append(line.rstrip())
            line = margin
        line += part if line.strip() or not lines else part.lstrip()
    return [*lines, line.rstrip()]


def print_panel(title: str, lines: Sequence[str]) -> None:
    """Prints lines in a frame with a title; on a pipe the title and the lines."""
    if not is_terminal():
        print_line(title)
        for text in lines:
            print_line(f"  {text}")
        return
    from rich.panel import Panel
    from rich.text import Text

    body = Text("\n").join(Text(harmless(text)) for text in lines)
    _console().print(Panel(body, title=Text(harmless(title)), title_align="left", border_style="dim"))


def print_markdown(text: str, *, paged: bool = False) -> None:
    """Prints Markdown for reading; links keep their words only, pictures their description.

    Args:
        paged: Whether to open the pager of the user (`PAGER`, else `less`) if the text is longer than the terminal.
    """
    from rich.markdown import Markdown

    console = _console()
    page = Markdown(harmless(text), hyperlinks=False, code_theme="ansi_dark")
    if not (paged and is_terminal() and sys.stdin.isatty()):
        console.print(page, width=min(console.width, 110))
        return
    with console.capture() as shown:
        console.print(page, width=min(console.width, 110))
    if shown.get().count("\n") < console.height:
        click.echo(shown.get(), nl=False)
    else:
        click.echo_via_pager(shown.get())


def highlight(text: str, words: Sequence[str], style: str = "bold") -> list[Cell]:
    """`text` as cells in which the given words stand out."""
    wanted = sorted(
        {w.strip("* ").lower() for w in words if len(w.strip("* ")) > 1 or not w.isascii()}, key=len, reverse=True
    )
    if not wanted:
        return [Cell(text)]
    pattern = re.compile("|".join(re.escape(word) for word in wanted[:100]), re.IGNORECASE)
    cells = []
    position = 0
    for match in pattern.finditer(text):
        cells += [Cell(text[position : match.start()]), Cell(match.group(), style)]
        position = match.end()
    return [cell for cell in [*cells, Cell(text[position:])] if cell.text]


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error for work that takes long; nothing where that is no terminal.

    It starts no thread, so that processes can be forked meanwhile.

    Yields:
        A function that is called with (done, total). The bar appears when the work has taken half a second, and
        disappears when all is done.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, console=Console(stderr=True, highlight=False), transient=True, auto_refresh=False)
    task = bar.add_task(harmless(title), total=None)
    started = drawn = time.monotonic()

    def notify(done: int, total: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if done >= total:
            bar.stop()
        elif now - started >= _PATIENCE_S and now - drawn >= _BETWEEN_DRAWINGS_S:
            drawn = now
            bar.start()
            bar.update(task, completed=done, total=total, refresh=True)

    try:
        yield notify
    finally:
        bar.stop()


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _text(cell: Cell) -> Text:
    from rich.text import Text

    return Text(harmless(cell.text), style=cell.style)


def _one_line(cell: Cell) -> Cell:
    return Cell(" ".join(harmless(cell.text).split()), cell.style)


def _fitting_columns(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """Indexes of the columns that fit: a flexible one wants at least 20 characters."""
    wanted = [
        20
        if column.flexible
        else max([display_width(column.name), *(display_width(row[index].text) for row in rows)]) + 2
        for index, column in enumerate(columns)
    ]
    shown = list(range(len(columns)))
    while sum(wanted[index] for index in shown) > width:
        spare = [index for index in shown if columns[index].keep < 9]
        if not spare:
            break
        shown.remove(min(spare, key=lambda index: (columns[index].keep, -index)))
    return shown


def _print_plain(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    table = [[column.name for column in columns], *([cell.text for cell in row] for row in rows)]
    widths = [max(display_width(row[index]) for row in table) for index in range(len(columns))]
    for row in table:
        parts = [
            " " * (widths[i] - display_width(text)) + text
            if columns[i].right
            else text + " " * (widths[i] - display_width(text))
            for i, text in enumerate(row)
        ]
        print("  ".join(parts).rstrip())


def display_width(text: str) -> int:
    """Returns the number of terminal columns of a text; wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _can_print(mark: str) -> bool:
    try:
        mark.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
