"""Copies the command's output to the screen and into the journal: connects pump and keeper.

The two processes replace each other. When the recorder dies, the pump stores the output in its place; when the pump
dies, the recorder pumps. The command notices neither.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from labbook.record.child.keeper import Keeper
from labbook.record.child.pump import COMMAND, ENDED, STORED, Pump, run_in_fork
from labbook.record.child.signal_relay import SignalRelay
from labbook.record.child.tee import Tee
from labbook.record.child.terminal import ChildStreams

if TYPE_CHECKING:
    from labbook.capture.console.console_sink import ConsoleSink

_STORE_TIMEOUT_S = 15.0
"""Longest wait for the output after the command's end: a stopped terminal (Ctrl-S) must not block the entry forever."""
_END_TIMEOUT_S = 5.0


class OutputCopier:
    """The pump and the keeper of one command.

    Args:
        lock_descriptors: Descriptors that the pump keeps open until the output is stored.
    """

    def __init__(self, streams: ChildStreams, sink: ConsoleSink, lock_descriptors: Iterable[int]) -> None:
        self._streams = streams
        self._sink = sink
        self._lock_descriptors = list(lock_descriptors)
        self._names = [channel.name for channel in streams.channels]
        self._pump = 0
        self._thread: threading.Thread | None = None
        self._ended = False
        self._is_handed_over = False
        self._has_given_up = False
        self._control, self._pump_control = _socket_pair()
        self._receiving, self._sending = _socket_pair()

    def start(self, relay: SignalRelay) -> None:
        """Forks the pump."""
        channels = self._streams.channels
        ends = (self._sending, self._receiving, self._pump_control)
        numbers = [*self._lock_descriptors, *(end.fileno() for end in ends)]
        for channel in channels:
            numbers += [number for number in (channel.source, channel.screen, channel.keys) if number >= 0]
        self._pump = run_in_fork(self._make_pump, numbers, relay.witness_write, relay.mask)
        relay.close_sending_end()
        self._sending.close()
        self._pump_control.close()

    def start_storing(self, pid: int) -> None:
        """Starts a thread that stores the output, and sends the command's process id to the pump."""
        self._send(COMMAND + str(pid).encode())
        try:
            thread = threading.Thread(target=self._store_output, name="labbook-console", daemon=True)
            thread.start()
        except Exception:
            # The pump stores the output, as if this process had died.
            self._is_handed_over = True
            self._control.close()
            raise
        self._thread = thread

    def finish(self) -> bool:
        """Waits until the output is stored; returns whether another process still has it open."""
        self._ended = True
        if self._is_handed_over:
            return not self._has_pump_ended(_END_TIMEOUT_S)
        self._send(ENDED)
        if self._thread is not None:
            self._thread.join(_STORE_TIMEOUT_S)
            if self._thread.is_alive():
                self._has_given_up = True
                with suppress(OSError):
                    self._receiving.shutdown(socket.SHUT_RDWR)
                self._thread.join(_END_TIMEOUT_S)
        self._sink.close()
        self._send(STORED)
        self._control.close()
        left = bool(self._streams.open_channels)
        if not left:
            self._has_pump_ended(1.0)
        return left

    def _has_pump_ended(self, wait_s: float) -> bool:
        """Whether the pump ends within `wait_s` seconds."""
        deadline = time.monotonic() + wait_s
        while not (gone := _is_gone(self._pump)) and time.monotonic() < deadline:
            time.sleep(0.002)
        return gone

    def abandon(self) -> None:
        """Ends the pump of a command that could not be started."""
        self._streams.close_command_ends()
        self._send(STORED)
        self._control.close()
        if self._pump:
            with suppress(ChildProcessError):
                os.waitpid(self._pump, 0)

    def _send(self, message: bytes) -> None:
        with suppress(OSError):
            self._control.send(message)

    def _make_pump(self) -> Pump:
        """Returns the pump of the forked process."""
        return Pump(
            self._streams.channels, Tee(self._sending), self._pump_control, self._store_in_pump,
            full=self._streams.full, release=self._release,
        )  # fmt: skip

    def _store_output(self) -> None:
        try:
            keeper = Keeper(self._receiving, self._sink, self._names, self._streams.close_source)
            while not keeper.store_output() and not self._has_given_up:
                self._receiving = self._pump_in_thread()
                keeper.resume_from(self._receiving)
        except Exception:
            # The rest of the output is not stored. The pump must not wait for a reader that is gone.
            self._has_given_up = True
            with suppress(OSError):
                self._receiving.shutdown(socket.SHUT_RDWR)

    def _pump_in_thread(self) -> socket.socket:
        """Pumps in a thread of this process, since the pump was killed; returns the socket to read from."""
        receiving, sending = _socket_pair()
        self._control, control = _socket_pair()
        ended = set(range(len(self._names))) - set(self._streams.open_channels)
        pump = Pump(
            self._streams.channels, Tee(sending), control, lambda: lambda: None, full=self._streams.full,
            close_source=self._streams.close_source, ended_before=ended,
        )  # fmt: skip
        threading.Thread(target=pump.run, name="labbook-pump", daemon=True).start()
        if self._ended:
            self._send(ENDED)
        return receiving

    def _store_in_pump(self) -> Callable[[], None]:
        """Stores the output in the pump's process, since the recorder has died; returns a function to end it."""
        keeper = Keeper(self._receiving, self._sink, self._names, lambda number: None)
        keeper.resume_from(self._receiving)
        thread = threading.Thread(target=keeper.store_output, daemon=True)
        thread.start()

        def finish_storing() -> None:
            thread.join()
            self._sink.close()
            # The shell owns the terminal again: restoring its modes must not stop this process.
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            self._streams.restore()

        return finish_storing

    def _release(self) -> None:
        for number in self._lock_descriptors:
            with suppress(OSError):
                os.close(number)
        self._lock_descriptors = []


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _is_gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
