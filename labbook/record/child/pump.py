"""The pump: a process of its own that copies the command's output to the screen and, beside it, to the keeper.

It is forked before the command starts and does nothing else, so that neither redaction nor the entry ever holds up the
screen, and the command keeps its output when the recorder dies: then the pump keeps the output too, in its place.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from labbook.record.child.tee import CLOSED, COMPLETE, Tee
from labbook.record.child.terminal import Channel, copy_window_size

ENDED, KEPT, COMMAND = b"E", b"K", b"P"
"""What the recorder tells the pump: the command has ended; its output is kept; the command's process id."""

_READ_BYTES = 64 * 1024
_BATCH_BYTES = 32 * 1024
_BATCH_S = 0.02
_QUIET_S = 0.3
"""How long after the command's end its streams may stay open before the entry is made: a process that it left behind
holds them. Source: mechanisms, section 4.4."""

HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@dataclass
class Pump:
    """Copies until every channel has ended.

    Args:
        channels: What to copy.
        tee: Where it goes beside the screen.
        control: Socket to the recorder; its end is the recorder's death.
        take_over: Called when the recorder has died: starts keeping in its place and returns what to call when the last
            byte has been passed on.
        full: Whether the command has the whole terminal; the keys are copied too.
        release: Called when the journal needs the pump no more.
        close_source: Closes the source of a channel, by its number; by default its descriptor is closed.
        ended_before: Numbers of channels that have ended already.
    """

    channels: Sequence[Channel]
    tee: Tee
    control: socket.socket
    take_over: Callable[[], Callable[[], None]]
    full: bool = False
    release: Callable[[], None] = lambda: None
    close_source: Callable[[int], None] | None = None
    ended_before: Collection[int] = ()
    _open: dict[int, int] = field(default_factory=dict)
    _poll: select.poll = field(default_factory=select.poll)
    _command: int = -1
    _ended: float = 0.0  # when the command's end became known
    _batched: float = 0.0  # when the first of the output that waits in the tee came
    _complete: bool = False  # everything that the entry can wait for has been said
    _left: bool = False  # and it is kept
    _alone: bool = False
    _kept: Callable[[], None] | None = None

    def run(self) -> None:
        """Copies; returns when all is done."""
        for index, channel in enumerate(self.channels):
            if index in self.ended_before:
                continue
            self._open[channel.source] = index
            self._poll.register(channel.source, select.POLLIN)
            if channel.keys >= 0:
                self._poll.register(channel.keys, select.POLLIN)
        self._poll.register(self.control.fileno(), select.POLLIN)
        while self._open or not self._left:
            self._turn()
            if self._ended and not self._complete and (not self._open or time.monotonic() > self._ended + _QUIET_S):
                self._finish()

    def _turn(self) -> None:
        for descriptor, _ in self._poll.poll(self._wait_ms()):
            if descriptor in self._open:
                self._copy(descriptor)
            elif descriptor == self.control.fileno():
                self._heed()
            elif descriptor == self._command:
                self._poll.unregister(descriptor)
                self._end()
            else:
                self._copy_keys(descriptor)
        if self.tee.held and (self.tee.held > _BATCH_BYTES or time.monotonic() > self._batched + _BATCH_S):
            self.tee.flush()
        if self._alone and not self._open and self._command < 0:
            self._end()

    def _wait_ms(self) -> float | None:
        """Time to wait for output: none of it while some is to be passed on."""
        if self._complete:
            return None
        if self.tee.held:
            return _BATCH_S * 1000
        return None if not self._ended else max(1.0, (self._ended + _QUIET_S - time.monotonic()) * 1000)

    def _copy(self, source: int) -> None:
        index = self._open[source]
        try:
            data = os.read(source, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # the last slave of a pseudo-terminal was closed
        if data and not self._complete:
            try:
                self._batched = self._batched if self.tee.held else time.monotonic()
                self.tee.add(index, data)
            except Exception:
                pass  # this piece is not kept; the screen gets it all the same
        try:
            shown = bool(data) and self._show(self.channels[index].screen, data)
        except Exception:
            shown = self._show(self.channels[index].screen, data)  # it failed before it wrote
        if not shown:
            self._close(source)

    def _show(self, screen: int, data: bytes) -> bool:
        """Writes to the user's stream; false when nobody reads it any more."""
        left = memoryview(data)
        while left:
            begun = time.monotonic() if self._ended else 0.0
            try:
                left = left[os.write(screen, left) :]
            except BlockingIOError:
                ready = select.poll()
                ready.register(screen, select.POLLOUT)
                ready.poll()
            except OSError:
                return False
            if self._ended:
                # A slow screen is no sign of a process left behind.
                self._ended += time.monotonic() - begun
        return True

    def _close(self, source: int) -> None:
        """Ends a channel; with the reader gone the command is told so by the closed stream, as without us."""
        index = self._open.pop(source)
        keys = self.channels[index].keys
        self._poll.unregister(source)
        if keys >= 0:
            with suppress(KeyError):
                self._poll.unregister(keys)
        if self.close_source is None:
            os.close(source)
        else:
            self.close_source(index)
        if not self._complete:
            self.tee.say(CLOSED, index)
            self.tee.flush()

    def _copy_keys(self, keys: int) -> None:
        channel = next(channel for channel in self.channels if channel.keys == keys)
        if channel.source not in self._open:
            return
        try:
            data = os.read(keys, 4096)
        except OSError:
            data = b""
        if not data:
            self._poll.unregister(keys)
        while data:
            data = data[os.write(channel.source, data) :]

    def _heed(self) -> None:
        """Hears what the recorder says, or that it has died."""
        try:
            said = self.control.recv(64)
        except OSError:
            said = b""
        if said.startswith(COMMAND) and hasattr(os, "pidfd_open"):
            try:
                self._command = os.pidfd_open(int(said[1:]))
                self._poll.register(self._command, select.POLLIN)
            except OSError:
                return
        elif said == ENDED:
            self._end()
        elif said == KEPT:
            self._leave()
        elif not said:
            self._poll.unregister(self.control.fileno())
            if not self._left:
                self._alone = True
                self._kept = self.take_over()
                if self._complete:
                    self._finish()

    def _end(self) -> None:
        self._ended = self._ended or time.monotonic()

    def _finish(self) -> None:
        """Tells the keeper that everything worth waiting for has been said."""
        self.tee.say(COMPLETE)
        self.tee.drain(10.0)
        self._complete = True
        if self._kept is not None:
            self._kept()
            self._leave()

    def _leave(self) -> None:
        self._complete = self._left = True
        self.release()

    def resize(self, *_: object) -> None:
        """Passes a new window size on, and tells the group once more: its members may have read the old one."""
        changed = [copy_window_size(channel.screen, channel.source) for channel in self.channels if channel.pty]
        if any(changed) and not self.full:
            os.kill(0, signal.SIGWINCH)


def run_in_fork(
    make: Callable[[], Pump], kept_open: Iterable[int], witness: int, mask: Collection[signal.Signals]
) -> int:
    """Forks a process that pumps, and returns its id.

    Args:
        make: Makes the pump, in the new process.
        kept_open: Descriptors that it needs; everything else is closed in it.
        witness: Descriptor that the number of each signal is written to which reaches it: by that the recorder tells a
            signal to the whole group, which the command has got too, from one to the recorder alone.
        mask: Signals that were blocked before the recorder blocked its own.
    """
    with warnings.catch_warnings():
        # Only the forking thread goes on in the copy, and it takes no lock that another one may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        gc.freeze()
        _keep_only({*kept_open, witness})
        pump = make()
        os.set_blocking(witness, False)
        signal.set_wakeup_fd(witness, warn_on_full_buffer=False)
        for number in HEEDED:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _stay)
        signal.signal(signal.SIGWINCH, pump.resize)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        pump.run()
    finally:
        os._exit(0)


def _stay(*_: object) -> None:
    """Signals end the command; the pump ends with its output."""


def _keep_only(kept: set[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        if number not in kept:
            os.dup2(null, number)
    begin = 3
    for number in sorted(number for number in kept if number > 2):
        os.closerange(begin, number)
        begin = number + 1
    most = os.sysconf("SC_OPEN_MAX")
    os.closerange(begin, most if most > 0 else 1 << 20)
