"""The keeper: takes what the pump passes on and gives it to the sink, at the pace that redaction allows.

It never makes the pump wait for long: what comes faster than it can be redacted is only skimmed for notable lines and
counted, except for the beginning and the end of the run's output.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from labbook.record.child.tee import CLOSED, COMPLETE, DATA, GAP, MESSAGE_BYTES, RESCUED

if TYPE_CHECKING:
    from labbook.capture.console.console_sink import ConsoleSink

_QUEUE_BYTES = 8 * 1024 * 1024
_QUEUE_MOST = 48 * 1024 * 1024
_IDLE_S = 1.0
_FLOOD_REST = 4.0
"""In a flood the keeper rests four times as long as it works: nearly all of it will be left out, and the command and
the screen need the processor. Source: chosen by us."""

_SKIMMED_BYTES_A_SECOND = 32 * 1024 * 1024
_MAYBE_KEY = b"-----BEGIN PRIVATE KEY-----"


class Keeper:
    """Feeds a sink from the messages of one pump.

    Args:
        end: Receiving end of the pump's socket.
        sink: Where the output is kept.
        names: Names of the channels.
        on_closed: Called with the number of a channel that ended.
    """

    def __init__(
        self, end: socket.socket, sink: ConsoleSink, names: Sequence[str], on_closed: Callable[[int], None]
    ) -> None:
        self._end = end
        self._sink = sink
        self._names = names
        self._on_closed = on_closed
        self._first: deque[tuple[int, int, bytes]] = deque()
        self._rest: deque[tuple[int, int, bytes]] = deque()
        self._begun = 0  # bytes that went to `_first`
        self._queued = 0  # bytes in `_rest`
        self._calm_at = 0.0  # until then a flood is going on
        self._rested_at = 0.0
        self._allowance = 1.0  # seconds of skimming at full care
        self._allowed_at = time.monotonic()

    def keep(self) -> bool:
        """Works until the pump has said everything; false when it died before."""
        ended: bool | None = None
        ready = select.poll()
        ready.register(self._end, select.POLLIN)
        while ended is None:
            if self._queued < _QUEUE_MOST and ready.poll(self._wait_ms()):
                ended = self._receive()
            elif not (self._first or self._rest):
                self._sink.flush()
            self._work()
        self._drop(self._sink.tail_bytes)
        while self._first or self._rest:
            self._feed()
        return ended

    def _wait_ms(self) -> float:
        if self._first:
            return 0.0
        if not self._rest:
            return _IDLE_S * 1000
        return max(0.0, (self._rested_at - time.monotonic()) * 1000)

    def _receive(self) -> bool | None:
        """Takes what has come; true when all has been said, false when nobody can say more."""
        while self._queued < _QUEUE_MOST:
            try:
                message = self._end.recv(MESSAGE_BYTES + 64, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except OSError:
                return False
            if not message or message[0] == COMPLETE:
                return bool(message)
            kind, channel, content = message[0], message[1], message[2:]
            if kind == CLOSED:
                self._on_closed(channel)
            elif self._begun < self._sink.head_bytes:
                self._begun += len(content)
                self._first.append((kind, channel, content))
            else:
                self._queued += len(content)
                self._rest.append((kind, channel, content))
        return None

    def _work(self) -> None:
        if self._first:
            self._feed()
        elif self._queued > _QUEUE_BYTES:
            self._drop(_QUEUE_BYTES // 2)
            self._calm_at = time.monotonic() + 1.0
        elif self._rest and time.monotonic() >= self._rested_at:
            begun = time.monotonic()
            self._feed()
            ended = time.monotonic()
            if ended < self._calm_at:
                self._rested_at = ended + _FLOOD_REST * (ended - begun)

    def _feed(self) -> None:
        queue = self._first or self._rest
        kind, channel, content = queue.popleft()
        if queue is self._rest:
            self._queued -= len(content)
        if kind == DATA:
            self._sink.feed(self._names[channel], content)
        elif kind == GAP:
            self._sink.gap(self._names[channel], int.from_bytes(content[1:9], "big"), content[9:], cut=bool(content[0]))
        elif kind == RESCUED:
            self._sink.rescue(self._names[channel], content)

    def _drop(self, left: int) -> None:
        """Skims the oldest output until no more than `left` bytes wait."""
        while self._first:
            self._feed()
        while self._rest and self._queued > left:
            kind, channel, content = self._rest[0]
            if kind == DATA:
                self._rest.popleft()
                self._queued -= len(content)
                self._sink.skim(self._names[channel], content, hurried=self._is_hurried(len(content)))
            else:
                self._feed()

    def _is_hurried(self, count: int) -> bool:
        """Whether so much has been skimmed lately that only errors can be looked for."""
        now = time.monotonic()
        self._allowance = min(1.0, self._allowance + now - self._allowed_at) - count / _SKIMMED_BYTES_A_SECOND
        self._allowed_at = now
        self._allowance = max(-1.0, self._allowance)
        return self._allowance < 0

    def go_on(self, end: socket.socket) -> None:
        """Reads from here from now on; the line that was cut by the death of whoever pumped or kept is dropped."""
        if end is not self._end:
            self._end.close()
        self._end = end
        for name in self._names:
            # Nobody knows whether a private key was just being printed.
            self._sink.gap(name, 0, _MAYBE_KEY)
