"""Removes text that a terminal would have overwritten, such as states of progress bars.

There are two modes. Plain: the text after the last carriage return of each line. Window: an emulated terminal of 32
lines, started by the first "cursor up" or backspace, as nested bars print them; it ends after some lines without any.
Both withhold a line that can still change, so that only final lines are returned.
"""

from __future__ import annotations

import re

WINDOW_LINES = 32
"""How far up a bar may move the cursor. Source: measured, three nested epochs of 50 leave 4 lines, not 161."""

LONGEST_LINE = 64 * 1024
"""A longer line is returned in pieces of this size. Source: the carry-over of the redactor."""

_LONGEST_ESCAPE = 4096
_BAR_PATIENCE = 8
"""Lines after a finished bar until it is final: the next bar may still move the cursor up to it."""
_WINDOW_PATIENCE = 64
_STRING_LIMIT = 4 * 1024 * 1024

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NEEDS_WINDOW = re.compile("\x1b\\[[0-9]*[AF]|\x08|\x1bM")
_RETURNS = re.compile("\r{2,}")
_COLUMN_ONE = re.compile("\x1b\\[[01]?G")
_CSI = "\x1b\\[[0-?]*[ -/]*[@-~]"
_STRIPPED = (
    "\x1b\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)"  # operating system command: titles, links
    "|\x1b[PX^_][^\x1b]*\x1b\\\\"  # device control and other strings
    "|\x1b[ -/]*[0-~]"
    "|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_PLAIN = re.compile(f"{_CSI}|{_STRIPPED}")
_TOKENS = re.compile(f"\n|\r|\x08+|{_CSI}|{_STRIPPED}")
_OPEN_ESCAPE = re.compile("\x1b(?:\\[[0-?]*[ -/]*|\\][^\x07\x1b\n]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)\\Z")


class LineFolder:
    """Turns the text of one stream into final lines, the same for every split of the text."""

    def __init__(self) -> None:
        self._escape = ""  # an incomplete escape sequence
        self._skipped = 0  # characters of an endless string sequence (an inline image) dropped so far
        self._line = ""  # plain: the unfinished line; only its last complete state and the growing one
        self._rows: list[str] = []  # lines that a cursor movement can still change
        self._calm = 0  # finished lines since the last sign of a bar
        self._window = False
        self._row = 0
        self._column = 0
        self._growing = ""  # window: text after the last control, not applied until the next one

    def feed(self, text: str) -> str:
        """Returns the lines that are final after the next text, each with a newline."""
        if self._skipped:
            text = self._skip_string(text)
        if self._escape:
            text, self._escape = self._escape + text, ""
        if not self._window and not self._rows and "\r" not in self._line and not _CONTROL.search(text):
            return self._pass_through(text)
        if "\x1b" in text:
            text = self._split_open_escape(text)
        final = ""
        while text:
            # The mode switches at a position in the text, not at the end of a block: every split must fold alike.
            if self._window:
                done, text = self._run_window(text)
                final += done
                continue
            match = _NEEDS_WINDOW.search(text)
            final += self._collapse(text[: match.start()] if match else text)
            text = text[match.start() :] if match else ""
            if match:
                self._open_window()
        return final

    def changeable_lines(self) -> list[str]:
        """Returns the lines on the screen that can still change, without text that is still growing."""
        rows = list(self._rows)
        if not self._window:
            states = self._line.split("\r")
            rows += states[-2:-1]
        return [row.rstrip() for row in rows if row.strip()]

    def count_pending(self) -> int | None:
        """Returns the number of finished lines that can still change; `None` within a line or a window."""
        return None if self._window or self._line or self._escape else len(self._rows)

    def finish(self) -> str:
        """Returns the remaining lines at the end of the stream, with a final newline."""
        if self._window:
            self._write(self._growing)
            rest = self._rows
        else:
            rest = [*self._rows, *([_last_state(self._line)] if self._line else [])]
        while self._window and rest and not rest[-1].strip():
            rest.pop()
        return "".join(row.rstrip() + "\n" for row in rest)

    def _pass_through(self, text: str) -> str:
        done, newline, rest = text.rpartition("\n")
        if newline:
            done, self._line = self._line + done + newline, rest
        else:
            self._line += rest
        if len(self._line) > LONGEST_LINE:
            done, self._line = done + self._line, ""
        return done

    def _collapse(self, text: str) -> str:
        text = self._line + _PLAIN.sub("", _COLUMN_ONE.sub("\r", text))
        done, newline, rest = _RETURNS.sub("\r", text).rpartition("\n")
        out: list[str] = []
        for line in done.split("\n") if newline else ():
            is_bar = "\r" in line.rstrip("\r")
            state = _last_state(line)
            if not (is_bar or self._rows):
                out.append(state)
                continue
            self._rows.append(state)
            self._calm = 0 if is_bar else self._calm + 1
            if self._calm >= _BAR_PATIENCE:
                out += self._rows
                self._rows = []
            elif len(self._rows) > WINDOW_LINES:
                out.append(self._rows.pop(0))
        states = rest.rsplit("\r", 2)
        self._line = "\r".join(states[-2:])
        final = "".join(f"{line}\n" for line in out)
        if len(self._line) > LONGEST_LINE:
            final += "".join(f"{row}\n" for row in self._rows) + _last_state(self._line)
            self._rows, self._line = [], ""
        return final

    def _open_window(self) -> None:
        self._window = True
        self._calm = 0
        self._rows.append("")
        self._row = len(self._rows) - 1
        self._column = 0
        *states, self._growing = self._line.split("\r")
        if states:
            self._write(states[-1])
            self._column = 0
        self._line = ""

    def _run_window(self, text: str) -> tuple[str, str]:
        """Returns final lines, and the rest of the text after the window mode has ended."""
        out: list[str] = []
        at = 0
        for token in _TOKENS.finditer(text):
            self._write(self._growing + text[at : token.start()])
            self._growing = ""
            at = token.end()
            self._control(token[0], out)
            if self._calm >= _WINDOW_PATIENCE and self._row == len(self._rows) - 1 and not self._rows[-1]:
                out += self._rows[:-1]
                self._rows, self._window, self._calm = [], False, 0
                return _join_lines(out), text[at:]
        self._growing += text[at:]
        if len(self._growing) + self._column > LONGEST_LINE:
            self._write(self._growing)
            self._growing = ""
            out += self._rows
            self._clear()
        return _join_lines(out), ""

    def _write(self, text: str) -> None:
        if not text:
            return
        row, end = self._rows[self._row], self._column + len(text)
        self._rows[self._row] = row[: self._column].ljust(self._column) + text + row[end:]
        self._column = end

    def _clear(self) -> None:
        self._rows, self._row, self._column = [""], 0, 0

    def _control(self, token: str, out: list[str]) -> None:
        if token == "\n":
            self._move_down(out)
        elif token == "\r":
            self._column = 0
        elif token[0] == "\x08":
            self._column = max(0, self._column - len(token))
            self._calm = 0
        elif token == "\x1bM":
            self._row = max(0, self._row - 1)
        elif token.startswith("\x1b["):
            first = token[2:-1].split(";")[0]
            self._move(token[-1], int(first) if first.isascii() and first.isdigit() else 0, out)

    def _move_down(self, out: list[str]) -> None:
        self._row += 1
        self._column = 0
        self._calm += 1
        if self._row == len(self._rows):
            self._rows.append("")
        if len(self._rows) > WINDOW_LINES:
            out.append(self._rows.pop(0))
            self._row -= 1

    def _move(self, final: str, number: int, out: list[str]) -> None:
        count = max(1, number)
        if final in "AF":
            self._row = max(0, self._row - count)
            self._calm = 0
        elif final in "BE":
            self._row = min(len(self._rows) - 1, self._row + count)
        elif final == "C":
            self._column = min(LONGEST_LINE, self._column + count)
        elif final == "D":
            self._column = max(0, self._column - count)
        elif final == "G":
            self._column = min(LONGEST_LINE, count - 1)
        elif final == "K":
            row = self._rows[self._row]
            erased = {0: row[: self._column], 1: " " * self._column + row[self._column :], 2: ""}
            self._rows[self._row] = erased.get(number, row)
        elif final == "J" and number == 0:
            self._rows[self._row] = self._rows[self._row][: self._column]
            del self._rows[self._row + 1 :]
        elif final == "J" and number in (2, 3):
            out += [row for row in self._rows if row.strip()]
            self._clear()
        elif final in "Hf":
            self._row = self._column = 0
        if final in "EF":
            self._column = 0

    def _split_open_escape(self, text: str) -> str:
        """Removes an incomplete escape sequence from the end of the text and stores it."""
        start = text.rfind("\x1b")
        before = text.rfind("\x1b", 0, start) if start == len(text) - 1 else -1
        if before >= 0 and _OPEN_ESCAPE.match(text, before):
            start = before
        if not _OPEN_ESCAPE.match(text, start):
            return text
        text, self._escape = text[:start], text[start:]
        if len(self._escape) > _LONGEST_ESCAPE:
            # An image or a clipboard copy is skipped to its end; anything else was no sequence.
            self._skipped = 1 if self._escape[1] in "]PX^_" else 0
            text += "" if self._skipped else self._escape[1:]
            self._escape = ""
        return text

    def _skip_string(self, text: str) -> str:
        end = re.search("\x07|\x1b\\\\?", text)
        if end is None and self._skipped < _STRING_LIMIT:
            self._skipped += len(text)
            return ""
        self._skipped = 0
        return text[end.end() :] if end else text


def _join_lines(lines: list[str]) -> str:
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _last_state(line: str) -> str:
    if "\r" not in line:
        return line
    return line.rstrip("\r").rpartition("\r")[2].rstrip()
