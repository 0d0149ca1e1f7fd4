"""What the pump passes to the keeper beside the screen: whole messages over a socket, never waited for by the screen.

A message is two bytes, kind and number of the channel, and its content. The socket keeps messages whole, so that
whoever takes over the reading finds their beginning. When the reader lags, the oldest output is left out and a message
says how much.
"""

from __future__ import annotations

import select
import socket
from collections import deque
from dataclasses import dataclass, field

from labbook.capture.console.notable_lines import key_line, notable_spans

DATA, GAP, RESCUED, CLOSED, COMPLETE = range(5)
"""Output; output that was left out (a byte that tells whether it ends within a line, 8 bytes with the number of
newlines, then the first line of a private key that is still open); whole lines out of it that tell of errors; a channel
that ended; everything that the entry can wait for has been said."""

MESSAGE_BYTES = 60_000
_SOCKET_BYTES = 1024 * 1024
_HELD_BYTES = 8 * 1024 * 1024
_RESCUED_BYTES = 1024 * 1024
_PATIENT_BYTES = 2 * 1024 * 1024
"""So much of the beginning is never left out: the head of the kept output is to be whole."""
_PATIENCE_S = 2.0


@dataclass
class _Entry:
    kind: int
    channel: int
    content: bytearray = field(default_factory=bytearray)
    lines: int = 0  # of a gap: newlines in it
    cut: bool = False  # of a gap: it ends within a line
    key: bytes = b""  # of a gap: first line of a private key that is open after it

    def message(self) -> bytes:
        """What is sent for it."""
        content = bytes((self.cut,)) + self.lines.to_bytes(8, "big") + self.key if self.kind == GAP else self.content
        return bytes((self.kind, self.channel)) + content


@dataclass
class Tee:
    """The sending end. It holds back what the socket does not take, up to a limit."""

    end: socket.socket
    _waiting: deque[_Entry] = field(default_factory=deque)
    _held: int = 0
    _sent: int = 0
    _rescued: int = 0

    def __post_init__(self) -> None:
        self.end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)

    @property
    def held(self) -> int:
        """Bytes that wait for the socket."""
        return self._held

    def add(self, channel: int, data: bytes) -> None:
        """Takes output; it is sent by `flush`."""
        last = self._waiting[-1] if self._waiting else None
        if last and last.kind == DATA and last.channel == channel and len(last.content) + len(data) <= MESSAGE_BYTES:
            last.content += data
        else:
            for start in range(0, len(data), MESSAGE_BYTES):
                self._waiting.append(_Entry(DATA, channel, bytearray(data[start : start + MESSAGE_BYTES])))
        self._held += len(data)
        if self._held > _HELD_BYTES:
            self.flush()
            self._make_room()

    def say(self, kind: int, channel: int = 0) -> None:
        """Takes a message without content; it keeps its place after the output before it."""
        self._waiting.append(_Entry(kind, channel))

    def flush(self) -> None:
        """Sends what goes without waiting."""
        while self._waiting:
            entry = self._waiting[0]
            try:
                self.end.send(entry.message(), socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # Nobody will ever read: the screen goes on.
                self._waiting.clear()
                self._held = 0
                return
            self._waiting.popleft()
            if entry.kind == DATA:
                self._held -= len(entry.content)
                self._sent += len(entry.content)
            elif entry.kind == RESCUED:
                self._rescued -= len(entry.content)

    def drain(self, wait_s: float) -> bool:
        """Sends what there is, waiting for the reader so long for each message; whether all went."""
        ready = select.poll()
        ready.register(self.end, select.POLLOUT)
        self.flush()
        while self._waiting and ready.poll(wait_s * 1000):
            before = len(self._waiting)
            self.flush()
            if len(self._waiting) == before:
                break
        return not self._waiting

    def _make_room(self) -> None:
        """Leaves out the oldest output, half of what is held, except for lines that tell of errors."""
        if self._sent < _PATIENT_BYTES and self.drain(_PATIENCE_S):
            return
        left: list[_Entry] = []
        keys: dict[int, bytes] = {}
        while self._waiting and self._held > _HELD_BYTES // 2:
            entry = self._waiting.popleft()
            if entry.kind != DATA:
                left.append(entry)
                continue
            self._held -= len(entry.content)
            keys[entry.channel] = key_line(entry.content, keys.get(entry.channel, b""))
            for piece in _thinned(entry, keep_errors=self._rescued < _RESCUED_BYTES):
                if piece.kind == RESCUED:
                    self._rescued += len(piece.content)
                if piece.kind == GAP and left and left[-1].kind == GAP and left[-1].channel == piece.channel:
                    piece.lines += left.pop().lines
                left.append(piece)
            left[-1].key = keys[entry.channel]
        self._waiting.extendleft(reversed(left))


def _thinned(entry: _Entry, keep_errors: bool) -> list[_Entry]:
    """Gaps in place of output, and between them the lines that tell of errors."""
    content = bytes(entry.content)
    first, last = content.find(b"\n") + 1, content.rfind(b"\n") + 1
    pieces: list[_Entry] = []
    at = 0
    for start, end in notable_spans(content[first:last], hurried=True) if keep_errors else ():
        pieces.append(_Entry(GAP, entry.channel, lines=content.count(b"\n", at, first + start)))
        pieces.append(_Entry(RESCUED, entry.channel, bytearray(content[first + start : first + end])))
        at = first + end
    pieces.append(_Entry(GAP, entry.channel, lines=content.count(b"\n", at), cut=last < len(content)))
    return pieces
