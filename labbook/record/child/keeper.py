"""The keeper: receives the output from the pump and feeds it to the sink.

It works at the pace of the redaction and never makes the pump wait for long: output that arrives faster than it can be
redacted is only skimmed for notable lines and counted, except for the beginning and the end.
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
"""During a flood of output the keeper sleeps four times as long as it works: nearly all of it will be left out, and the
command and the screen need the processor. Source: chosen by us."""

_SKIMMED_BYTES_A_SECOND = 32 * 1024 * 1024
_MAYBE_KEY = b"-----BEGIN PRIVATE KEY-----"


class Keeper:
    """Feeds a sink from the messages of one pump.

    Args:
        end: Receiving end of the pump's socket.
        on_closed: Called with the number of a channel that ended.
    """

    def __init__(
        self, end: socket.socket, sink: ConsoleSink, names: Sequence[str], on_closed: Callable[[int], None]
    ) -> None:
        self._end = end
        self._sink = sink
        self._names = names
        self._on_closed = on_closed
        self._head_queue: deque[tuple[int, int, bytes]] = deque()
        self._queue: deque[tuple[int, int, bytes]] = deque()
        self._head_bytes = 0  # bytes that went to `_head_queue`
        self._queued_bytes = 0  # bytes in `_queue`
        self._flood_ends_at = 0.0
        self._resume_at = 0.0
        self._allowance = 1.0  # seconds of thorough skimming
        self._allowed_at = time.monotonic()

    def store_output(self) -> bool:
        """Stores output until the pump has sent all of it; returns false if the pump died before."""
        ended: bool | None = None
        ready = select.poll()
        ready.register(self._end, select.POLLIN)
        while ended is None:
            if self._queued_bytes < _QUEUE_MOST and ready.poll(self._wait_ms()):
                ended = self._receive()
            elif not (self._head_queue or self._queue):
                self._sink.flush()
            self._work()
        self._drop(self._sink.tail_bytes)
        while self._head_queue or self._queue:
            self._feed()
        return ended

    def _wait_ms(self) -> float:
        if self._head_queue:
            return 0.0
        if not self._queue:
            return _IDLE_S * 1000
        return max(0.0, (self._resume_at - time.monotonic()) * 1000)

    def _receive(self) -> bool | None:
        """Queues the messages that have arrived; true after the last one, false when the pump has died."""
        while self._queued_bytes < _QUEUE_MOST:
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
            elif self._head_bytes < self._sink.head_bytes:
                self._head_bytes += len(content)
                self._head_queue.append((kind, channel, content))
            else:
                self._queued_bytes += len(content)
                self._queue.append((kind, channel, content))
        return None

    def _work(self) -> None:
        if self._head_queue:
            self._feed()
        elif self._queued_bytes > _QUEUE_BYTES:
            self._drop(_QUEUE_BYTES // 2)
            self._flood_ends_at = time.monotonic() + 1.0
        elif self._queue and time.monotonic() >= self._resume_at:
            begun = time.monotonic()
            self._feed()
            ended = time.monotonic()
            if ended < self._flood_ends_at:
                self._resume_at = ended + _FLOOD_REST * (ended - begun)

    def _feed(self) -> None:
        queue = self._head_queue or self._queue
        kind, channel, content = queue.popleft()
        if queue is self._queue:
            self._queued_bytes -= len(content)
        if kind == DATA:
            self._sink.feed(self._names[channel], content)
        elif kind == GAP:
            self._sink.gap(self._names[channel], int.from_bytes(content[1:9], "big"), content[9:], cut=bool(content[0]))
        elif kind == RESCUED:
            self._sink.rescue(self._names[channel], content)

    def _drop(self, left: int) -> None:
        """Skims the oldest output until at most `left` bytes are queued."""
        while self._head_queue:
            self._feed()
        while self._queue and self._queued_bytes > left:
            kind, channel, content = self._queue[0]
            if kind == DATA:
                self._queue.popleft()
                self._queued_bytes -= len(content)
                self._sink.skim(self._names[channel], content, hurried=self._is_hurried(len(content)))
            else:
                self._feed()

    def _is_hurried(self, count: int) -> bool:
        """Whether so much was skimmed lately that there is only time to look for errors."""
        now = time.monotonic()
        self._allowance = min(1.0, self._allowance + now - self._allowed_at) - count / _SKIMMED_BYTES_A_SECOND
        self._allowed_at = now
        self._allowance = max(-1.0, self._allowance)
        return self._allowance < 0

    def resume_from(self, end: socket.socket) -> None:
        """Switches to another socket and drops the line that the death of a process truncated."""
        if end is not self._end:
            self._end.close()
        self._end = end
        for name in self._names:
            # A private key may have been in the middle of being printed.
            self._sink.gap(name, 0, _MAYBE_KEY)
