"""Sends a copy of the output from the pump to the keeper without delaying the screen.

A message is two bytes, the kind and the number of the channel, and the content. The socket preserves message
boundaries, so that another reader can take over. When the reader lags, the oldest output is left out and a message
counts it.
"""

from __future__ import annotations

import select
import socket
from collections import deque
from dataclasses import dataclass, field

from labbook.capture.console.notable_lines import notable_spans, open_key_line

DATA, GAP, RESCUED, CLOSED, COMPLETE = range(5)
"""Kinds of messages: output; a gap in the output (a flag byte for an end within a line, 8 bytes with the number of
newlines, then the first line of a private key that is still open); complete lines of that gap that report errors; the
end of a channel; the end of the output that the entry waits for."""

MESSAGE_BYTES = 60_000
_SOCKET_BYTES = 1024 * 1024
_MAX_PENDING_BYTES = 8 * 1024 * 1024
_RESCUED_BYTES = 1024 * 1024
_PATIENT_BYTES = 2 * 1024 * 1024
"""This much of the beginning is never left out: the head of the stored output is complete."""
_PATIENCE_S = 2.0


@dataclass
class _Message:
    kind: int
    channel: int
    content: bytearray = field(default_factory=bytearray)
    lines: int = 0  # of a gap: newlines in it
    cut: bool = False  # of a gap: it ends within a line
    key: bytes = b""  # of a gap: first line of a private key that is open after it

    def encode(self) -> bytes:
        """Returns the bytes to send."""
        content = bytes((self.cut,)) + self.lines.to_bytes(8, "big") + self.key if self.kind == GAP else self.content
        return bytes((self.kind, self.channel)) + content


@dataclass
class Tee:
    """The sending end; it queues output that the socket does not accept, up to a limit."""

    end: socket.socket
    _waiting: deque[_Message] = field(default_factory=deque)
    _pending_bytes: int = 0
    _sent: int = 0
    _rescued: int = 0
    _begun_lines: dict[int, bytes | None] = field(default_factory=dict)
    """What was dropped last of each channel, behind its last newline; `None` where the line's start was sent."""

    def __post_init__(self) -> None:
        self.end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)

    @property
    def pending_bytes(self) -> int:
        """The number of bytes that wait for the socket."""
        return self._pending_bytes

    def add(self, channel: int, data: bytes) -> None:
        """Queues output; `flush` sends it."""
        last = self._waiting[-1] if self._waiting else None
        if last and last.kind == DATA and last.channel == channel and len(last.content) + len(data) <= MESSAGE_BYTES:
            last.content += data
        else:
            for start in range(0, len(data), MESSAGE_BYTES):
                self._waiting.append(_Message(DATA, channel, bytearray(data[start : start + MESSAGE_BYTES])))
        self._pending_bytes += len(data)
        if self._pending_bytes > _MAX_PENDING_BYTES:
            self.flush()
            self._drop_oldest()

    def add_message(self, kind: int, channel: int = 0) -> None:
        """Queues a message without content, after the output that is queued already."""
        self._waiting.append(_Message(kind, channel))

    def flush(self) -> None:
        """Sends as many messages as possible without waiting."""
        while self._waiting:
            entry = self._waiting[0]
            try:
                self.end.send(entry.encode(), socket.MSG_DONTWAIT)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # The reader is gone; the screen still works.
                self._waiting.clear()
                self._pending_bytes = 0
                return
            self._waiting.popleft()
            if entry.kind == DATA:
                self._pending_bytes -= len(entry.content)
                self._sent += len(entry.content)
                self._begun_lines[entry.channel] = b"" if entry.content.endswith(b"\n") else None
            elif entry.kind == RESCUED:
                self._rescued -= len(entry.content)

    def drain(self, wait_s: float) -> bool:
        """Sends all messages, waiting up to `wait_s` for each; returns whether all were sent."""
        ready = select.poll()
        ready.register(self.end, select.POLLOUT)
        self.flush()
        while self._waiting and ready.poll(wait_s * 1000):
            before = len(self._waiting)
            self.flush()
            if len(self._waiting) == before:
                break
        return not self._waiting

    def _drop_oldest(self) -> None:
        """Drops the oldest half of the queued output, except lines that report errors."""
        if self._sent < _PATIENT_BYTES and self.drain(_PATIENCE_S):
            return
        left: list[_Message] = []
        keys: dict[int, bytes] = {}
        while self._waiting and self._pending_bytes > _MAX_PENDING_BYTES // 2:
            entry = self._waiting.popleft()
            if entry.kind != DATA:
                left.append(entry)
                continue
            self._pending_bytes -= len(entry.content)
            keys[entry.channel] = open_key_line(entry.content, keys.get(entry.channel, b""))
            begun = self._begun_lines.get(entry.channel, b"")
            pieces, self._begun_lines[entry.channel] = _replace_by_gaps(entry, begun, self._rescued < _RESCUED_BYTES)
            for piece in pieces:
                if piece.kind == RESCUED:
                    self._rescued += len(piece.content)
                if piece.kind == GAP and left and left[-1].kind == GAP and left[-1].channel == piece.channel:
                    piece.lines += left.pop().lines
                left.append(piece)
            left[-1].key = keys[entry.channel]
        self._waiting.extendleft(reversed(left))


def _replace_by_gaps(entry: _Message, begun: bytes | None, keep_errors: bool) -> tuple[list[_Message], bytes | None]:
    """Returns gaps in place of the output, between them the lines that report errors, and the line that it begins.

    Args:
        entry: The output to drop.
        begun: Start of its first line, dropped before; `None` where it is not known.
        keep_errors: Whether to look for lines that report errors.
    """
    content = (begun or b"") + bytes(entry.content)
    first, last = 0 if begun is not None else content.find(b"\n") + 1, content.rfind(b"\n") + 1
    pieces: list[_Message] = []
    at = 0
    for start, end in notable_spans(content[first:last], hurried=True) if keep_errors else ():
        pieces.append(_Message(GAP, entry.channel, lines=content.count(b"\n", at, first + start)))
        pieces.append(_Message(RESCUED, entry.channel, bytearray(content[first + start : first + end])))
        at = first + end
    pieces.append(_Message(GAP, entry.channel, lines=content.count(b"\n", at), cut=last < len(content)))
    is_known = bool(last) or begun is not None
    return pieces, content[last:] if is_known and len(content) - last <= MESSAGE_BYTES else None
