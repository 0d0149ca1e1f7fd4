"""A command in a terminal of its own: what the screen showed, line by line, and when each line appeared."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SEQUENCE = re.compile(r"\x1b\[([0-?]*)([ -/]*[@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|[\r\n]|[^\x1b\r\n]+")


@dataclass
class Screen:
    """The lines of a terminal, each with its colors, and the time in seconds at which it appeared."""

    lines: list[str] = field(default_factory=lambda: [""])
    times: list[float] = field(default_factory=lambda: [0.0])
    row: int = 0
    _overwrite: bool = False

    def write(self, text: str, now: float) -> None:
        """Adds output; understands line breaks, carriage returns, cursor up and erased lines, and keeps colors."""
        for found in _SEQUENCE.finditer(text):
            piece, letter = found[0], found[2]
            if piece == "\n":
                self._go_to(self.row + 1, now)
            elif piece == "\r":
                self._overwrite = True
            elif letter == "A":
                self._go_to(max(0, self.row - int(found[1] or 1)), now)
            elif letter == "K":
                self.lines[self.row] = ""
            elif letter == "m" or not piece.startswith("\x1b"):
                self._put(piece, now)

    def _go_to(self, row: int, now: float) -> None:
        self.row, self._overwrite = row, False
        while len(self.lines) <= row:
            self.lines.append("")
            self.times.append(now)

    def _put(self, piece: str, now: float) -> None:
        if self._overwrite:
            self.lines[self.row], self._overwrite = "", False
        if not self.lines[self.row]:
            self.times[self.row] = now
        self.lines[self.row] += piece


def run_in_terminal(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], columns: int
) -> tuple[Screen, int]:
    """The screen after a command, and its exit status.

    Args:
        command: Program and arguments.
        folder: Working folder.
        environment: All environment variables.
        columns: Width of the terminal.
    """
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(command[0], list(command), dict(environment))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    screen, started, rest = Screen(), time.monotonic(), b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux: the other side of the terminal was closed
            chunk = b""
        if not chunk:
            break
        rest += chunk
        whole = rest.decode("utf-8", "ignore") if len(rest) > 4 else ""
        if whole.encode() == rest:
            screen.write(whole, time.monotonic() - started)
            rest = b""
    screen.write(rest.decode("utf-8", "replace"), time.monotonic() - started)
    os.close(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    while screen.lines and not screen.lines[-1].strip():
        screen.lines.pop()
        screen.times.pop()
    return screen, status
