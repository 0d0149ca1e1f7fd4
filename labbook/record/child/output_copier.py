"""Copies the command's output to the screen and into the journal: brings pump and keeper together.

Two processes look after each other. When the recorder dies, the pump keeps the output in its place; when the pump dies,
the recorder pumps. Either way the command never notices.
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
from labbook.record.child.pump import COMMAND, ENDED, KEPT, Pump, run_in_fork
from labbook.record.child.signal_relay import SignalRelay
from labbook.record.child.tee import Tee
from labbook.record.child.terminal import Wiring

if TYPE_CHECKING:
    from labbook.capture.console.console_sink import ConsoleSink

_KEEP_S = 15.0
"""Longest wait for the output after the command's end: a stopped terminal (Ctrl-S) must not hold the entry for ever."""
_LAST_S = 5.0


class Copying:
    """The pump and the keeper of one command.

    Args:
        wiring: The command's streams.
        sink: Keeps the output.
        held: Descriptors that the pump holds until the output is kept.
    """

    def __init__(self, wiring: Wiring, sink: ConsoleSink, held: Iterable[int]) -> None:
        self._wiring = wiring
        self._sink = sink
        self._held = list(held)
        self._names = [channel.name for channel in wiring.channels]
        self._pump = 0
        self._thread: threading.Thread | None = None
        self._ended = False
        self._is_handed_over = False
        self._given_up = False
        self._control, self._pump_control = _socket_pair()
        self._receiving, self._sending = _socket_pair()

    def start(self, relay: SignalRelay) -> None:
        """Forks the pump."""
        channels = self._wiring.channels
        ends = (self._sending, self._receiving, self._pump_control)
        numbers = [*self._held, *(end.fileno() for end in ends)]
        for channel in channels:
            numbers += [number for number in (channel.source, channel.screen, channel.keys) if number >= 0]
        self._pump = run_in_fork(self._make_pump, numbers, relay.witnessed, relay.mask)
        relay.close_sending_end()
        self._sending.close()
        self._pump_control.close()

    def keep(self, pid: int) -> None:
        """Starts keeping, in a thread, and tells the pump the command's process id."""
        self._tell(COMMAND + str(pid).encode())
        try:
            thread = threading.Thread(target=self._keep, name="labbook-console", daemon=True)
            thread.start()
        except Exception:
            # The pump keeps the output, as if this process had died.
            self._is_handed_over = True
            self._control.close()
            raise
        self._thread = thread

    def finish(self) -> bool:
        """Waits until the output is kept and closes the sink; tells whether a process left behind still holds it."""
        self._ended = True
        if self._is_handed_over:
            return not self._has_pump_ended(_LAST_S)
        self._tell(ENDED)
        if self._thread is not None:
            self._thread.join(_KEEP_S)
            if self._thread.is_alive():
                self._given_up = True
                with suppress(OSError):
                    self._receiving.shutdown(socket.SHUT_RDWR)
                self._thread.join(_LAST_S)
        self._sink.close()
        self._tell(KEPT)
        self._control.close()
        left = bool(self._wiring.open_channels)
        if not left:
            self._has_pump_ended(1.0)
        return left

    def _has_pump_ended(self, wait_s: float) -> bool:
        """Waits so long for the pump's end."""
        deadline = time.monotonic() + wait_s
        while not (gone := _is_gone(self._pump)) and time.monotonic() < deadline:
            time.sleep(0.002)
        return gone

    def abandon(self) -> None:
        """Ends the pump when the command could not be started."""
        self._wiring.close_command_ends()
        self._tell(KEPT)
        self._control.close()
        if self._pump:
            with suppress(ChildProcessError):
                os.waitpid(self._pump, 0)

    def _tell(self, message: bytes) -> None:
        with suppress(OSError):
            self._control.send(message)

    def _make_pump(self) -> Pump:
        """The pump of the forked process."""
        return Pump(
            self._wiring.channels, Tee(self._sending), self._pump_control, self._keep_alone,
            full=self._wiring.full, release=self._release,
        )  # fmt: skip

    def _keep(self) -> None:
        try:
            keeper = Keeper(self._receiving, self._sink, self._names, self._wiring.close_source)
            while not keeper.keep() and not self._given_up:
                self._receiving = self._pump_here()
                keeper.go_on(self._receiving)
        except Exception:
            # The rest of the output is not kept. The pump must not wait for a reader that is gone.
            self._given_up = True
            with suppress(OSError):
                self._receiving.shutdown(socket.SHUT_RDWR)

    def _pump_here(self) -> socket.socket:
        """Pumps in a thread of this process, as the pump has been killed; returns where to read from."""
        receiving, sending = _socket_pair()
        self._control, control = _socket_pair()
        ended = set(range(len(self._names))) - set(self._wiring.open_channels)
        pump = Pump(
            self._wiring.channels, Tee(sending), control, lambda: lambda: None, full=self._wiring.full,
            close_source=self._wiring.close_source, ended_before=ended,
        )  # fmt: skip
        threading.Thread(target=pump.run, name="labbook-pump", daemon=True).start()
        if self._ended:
            self._tell(ENDED)
        return receiving

    def _keep_alone(self) -> Callable[[], None]:
        """Keeps the output in the pump's process, as the recorder has died; returns what to call at its end."""
        keeper = Keeper(self._receiving, self._sink, self._names, lambda number: None)
        keeper.go_on(self._receiving)
        thread = threading.Thread(target=keeper.keep, daemon=True)
        thread.start()

        def kept() -> None:
            thread.join()
            self._sink.close()
            # The shell has the terminal again: giving back its modes must not stop us.
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            self._wiring.restore()

        return kept

    def _release(self) -> None:
        for number in self._held:
            with suppress(OSError):
                os.close(number)
        self._held = []


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _is_gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
