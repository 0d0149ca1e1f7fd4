"""Folds what a terminal would have overwritten: progress bars to their last state, escape sequences to nothing.

Two ways, chosen by what the program prints. Plain: of each line, what stands after its last carriage return. Window: a
small terminal of 32 lines, switched on by the first "cursor up" or backspace, as nested bars use them; it switches
itself off when none came for a while. Both hold back a line that can still change, so that only final lines leave.
"""

from __future__ import annotations

import re

WINDOW_LINES = 32
"""How far up a bar may reach. Source: mechanisms, section 4.4: three nested epochs of 50 keep 4 lines, not 161."""

LONGEST_LINE = 64 * 1024
"""A longer line leaves in pieces of this size. Source: security, section 5, the carry-over of the redactor."""

_LONGEST_ESCAPE = 4096
_BAR_PATIENCE = 8
"""Lines after a finished bar until it is taken as final: the next bar may still move the cursor up to it."""
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
    """Text of one stream in, final lines out. Every split of the input gives the same lines."""

    def __init__(self) -> None:
        self._escape = ""  # an escape sequence whose end has not come yet
        self._swallowed = 0  # characters of an endless string sequence (an inline image) dropped so far
        self._line = ""  # plain: the unfinished line; of its states only the last complete one and the one growing
        self._rows: list[str] = []  # lines that a cursor movement can still change
        self._calm = 0  # finished lines since the last sign of a bar
        self._window = False
        self._row = 0
        self._column = 0
        self._growing = ""  # window: text after the last control, not applied until the next one

    def feed(self, text: str) -> str:
        """Takes the next text and returns the lines that are final now, each with its newline."""
        if self._swallowed:
            text = self._swallow(text)
        if self._escape:
            text, self._escape = self._escape + text, ""
        if not self._window and not self._rows and "\r" not in self._line and not _CONTROL.search(text):
            return self._pass(text)
        if "\x1b" in text:
            text = self._hold_open_escape(text)
        final = ""
        while text:
            # The switch stands at a place in the text, not at the end of a block: every split must fold alike.
            if self._window:
                done, text = self._emulate(text)
                final += done
                continue
            found = _NEEDS_WINDOW.search(text)
            final += self._collapse(text[: found.start()] if found else text)
            text = text[found.start() :] if found else ""
            if found:
                self._open_window()
        return final

    def settled(self) -> list[str]:
        """The lines as they stand on the screen and may still change, without text that is still growing."""
        rows = list(self._rows)
        if not self._window:
            states = self._line.split("\r")
            rows += states[-2:-1]
        return [row.rstrip() for row in rows if row.strip()]

    def finish(self) -> str:
        """The rest, when the stream has ended; the last line is given a newline."""
        if self._window:
            self._write(self._growing)
            rest = self._rows
        else:
            rest = [*self._rows, *([_last_state(self._line)] if self._line else [])]
        while self._window and rest and not rest[-1].strip():
            rest.pop()
        done = "".join(row.rstrip() + "\n" for row in rest)
        self.__init__()  # type: ignore[misc]
        return done

    def _pass(self, text: str) -> str:
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
        *settled, self._growing = self._line.split("\r")
        if settled:
            self._write(settled[-1])
            self._column = 0
        self._line = ""

    def _emulate(self, text: str) -> tuple[str, str]:
        """Final lines, and what is left of the text when the window has closed."""
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
                return _joined(out), text[at:]
        self._growing += text[at:]
        if len(self._growing) + self._column > LONGEST_LINE:
            self._write(self._growing)
            self._growing = ""
            out += self._rows
            self._clear()
        return _joined(out), ""

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
            self._down(out)
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

    def _down(self, out: list[str]) -> None:
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
            kept = {0: row[: self._column], 1: " " * self._column + row[self._column :], 2: ""}
            self._rows[self._row] = kept.get(number, row)
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

    def _hold_open_escape(self, text: str) -> str:
        """Keeps back a sequence that the end of the text cuts."""
        start = text.rfind("\x1b")
        before = text.rfind("\x1b", 0, start) if start == len(text) - 1 else -1
        if before >= 0 and _OPEN_ESCAPE.match(text, before):
            start = before
        if not _OPEN_ESCAPE.match(text, start):
            return text
        text, self._escape = text[:start], text[start:]
        if len(self._escape) > _LONGEST_ESCAPE:
            # An image or a clipboard copy goes on until its end; anything else was no sequence.
            self._swallowed = 1 if self._escape[1] in "]PX^_" else 0
            text += "" if self._swallowed else self._escape[1:]
            self._escape = ""
        return text

    def _swallow(self, text: str) -> str:
        end = re.search("\x07|\x1b\\\\?", text)
        if end is None and self._swallowed < _STRING_LIMIT:
            self._swallowed += len(text)
            return ""
        self._swallowed = 0
        return text[end.end() :] if end else text


def _joined(lines: list[str]) -> str:
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _last_state(line: str) -> str:
    if "\r" not in line:
        return line
    return line.rstrip("\r").rpartition("\r")[2].rstrip()
