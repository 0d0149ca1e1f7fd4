"""The pump: a process that copies the command's output to the screen and to the keeper.

It is forked before the command starts and does nothing else, so that neither redaction nor the entry delays the screen.
When the recorder dies, the command's output still has a reader, and the pump stores it in the recorder's place.
"""

from __future__ import annotations

import errno
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

ENDED, STORED, COMMAND = b"E", b"K", b"P"
"""Messages of the recorder to the pump: the command has ended; its output is stored; the command's process id."""

_READ_BYTES = 64 * 1024
_BATCH_BYTES = 32 * 1024
_BATCH_S = 0.02
_QUIET_S = 0.3
"""How long after the command's end its streams may stay open before the entry is written: a background process that it
started may never close them. Source: chosen by us."""

_GONE = (errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO)
"""Errors of a stream whose other end is closed."""

_MOST_ERRORS = 100
"""Other errors in reading or writing output after which a stream counts as closed. Source: chosen by us."""

RELAYED_SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)


@dataclass
class Pump:
    """Copies the output until every channel has ended.

    Args:
        tee: Sends a copy to the keeper.
        control: Socket to the recorder; it closes when the recorder dies.
        take_over: Called when the recorder has died: starts storing in its place and returns a function to call after
            the last byte.
        full: Whether the command has the whole terminal; then keys are copied too.
        release: Called when the journal no longer needs the pump.
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
    _ended_at: float = 0.0  # when the command's end became known
    _errors: int = 0
    _batched_at: float = 0.0  # when the oldest output in the tee arrived
    _is_complete: bool = False  # all output that the entry waits for was sent
    _is_stored: bool = False  # and the keeper has stored it
    _has_recorder_died: bool = False
    _finish_storing: Callable[[], None] | None = None

    def run(self) -> None:
        """Copies until all output is stored."""
        for index, channel in enumerate(self.channels):
            if index in self.ended_before:
                continue
            self._open[channel.source] = index
            self._poll.register(channel.source, select.POLLIN)
            if channel.keys >= 0:
                self._poll.register(channel.keys, select.POLLIN)
        self._poll.register(self.control.fileno(), select.POLLIN)
        while self._open or not self._is_stored:
            self._poll_once()
            if (
                self._ended_at
                and not self._is_complete
                and (not self._open or time.monotonic() > self._ended_at + _QUIET_S)
            ):
                self._finish()

    def _poll_once(self) -> None:
        for descriptor, _ in self._poll.poll(self._wait_ms()):
            if descriptor in self._open:
                self._copy(descriptor)
            elif descriptor == self.control.fileno():
                self._read_control()
            elif descriptor == self._command:
                self._poll.unregister(descriptor)
                self._end()
            else:
                self._copy_keys(descriptor)
        if self.tee.pending_bytes and (
            self.tee.pending_bytes > _BATCH_BYTES or time.monotonic() > self._batched_at + _BATCH_S
        ):
            self.tee.flush()
        if self._has_recorder_died and not self._open and self._command < 0:
            self._end()

    def _wait_ms(self) -> float | None:
        """Returns how long to wait for output; short while some is still to be sent."""
        if self._is_complete:
            return None
        if self.tee.pending_bytes:
            return _BATCH_S * 1000
        return None if not self._ended_at else max(1.0, (self._ended_at + _QUIET_S - time.monotonic()) * 1000)

    def _copy(self, source: int) -> None:
        index = self._open[source]
        try:
            data = os.read(source, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            if self._is_passing(error):
                return  # it is ready still, and read again
            data = b""  # the last slave of a pseudo-terminal was closed
        if data and not self._is_complete:
            try:
                self._batched_at = self._batched_at if self.tee.pending_bytes else time.monotonic()
                self.tee.add(index, data)
            except Exception:
                pass  # this piece is not stored; the screen still shows it
        try:
            shown = bool(data) and self._show(self.channels[index].screen, data)
        except Exception:
            shown = self._show(self.channels[index].screen, data)  # it had failed before writing
        if not shown:
            self._close(source)

    def _show(self, screen: int, data: bytes) -> bool:
        """Writes to the user's stream; returns false when its reader is gone."""
        left = memoryview(data)
        while left:
            begun = time.monotonic() if self._ended_at else 0.0
            try:
                left = left[os.write(screen, left) :]
            except BlockingIOError:
                ready = select.poll()
                ready.register(screen, select.POLLOUT)
                ready.poll()
            except OSError as error:
                if not self._is_passing(error):
                    return False
            if self._ended_at:
                # A slow screen does not mean that a background process is running.
                self._ended_at += time.monotonic() - begun
        return True

    def _is_passing(self, error: OSError) -> bool:
        """Whether to try again after an error in reading or writing output."""
        self._errors += 1
        return error.errno not in _GONE and self._errors < _MOST_ERRORS

    def _close(self, source: int) -> None:
        """Ends a channel. If the user's reader is gone, the command sees a closed stream, as without labbook."""
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
        if not self._is_complete:
            self.tee.add_message(CLOSED, index)
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

    def _read_control(self) -> None:
        """Handles a message of the recorder, or its death."""
        try:
            message = self.control.recv(64)
        except OSError:
            message = b""
        if message.startswith(COMMAND) and hasattr(os, "pidfd_open"):
            try:
                self._command = os.pidfd_open(int(message[1:]))
                self._poll.register(self._command, select.POLLIN)
            except OSError:
                return
        elif message == ENDED:
            self._end()
        elif message == STORED:
            self._mark_stored()
        elif not message:
            self._poll.unregister(self.control.fileno())
            if not self._is_stored:
                self._has_recorder_died = True
                self._finish_storing = self.take_over()
                if self._is_complete:
                    self._finish()

    def _end(self) -> None:
        self._ended_at = self._ended_at or time.monotonic()

    def _finish(self) -> None:
        """Sends the keeper the message that the output is complete."""
        self.tee.add_message(COMPLETE)
        self.tee.drain(10.0)
        self._is_complete = True
        if self._finish_storing is not None:
            self._finish_storing()
            self._mark_stored()

    def _mark_stored(self) -> None:
        self._is_complete = self._is_stored = True
        self.release()

    def resize(self, *_: object) -> None:
        """Copies a new window size and signals the group again, which may have read the old size.

        So a program gets SIGWINCH twice: from the user's terminal, and when the size of its own has changed. The first
        cannot be held back without taking the program out of the terminal's foreground group.
        """
        changed = [copy_window_size(channel.screen, channel.source) for channel in self.channels if channel.pty]
        if any(changed) and not self.full:
            os.kill(0, signal.SIGWINCH)


def run_in_fork(make: Callable[[], Pump], descriptors: Iterable[int], witness: int, mask: Collection[int]) -> int:
    """Forks a process that pumps, and returns its process id.

    Args:
        make: Creates the pump, in the new process.
        descriptors: Descriptors that the pump needs; all others are closed.
        witness: Descriptor to which the number of each signal is written that reaches the pump. A signal that the pump
            receives too was sent to the whole group, hence also to the command.
        mask: Signals that were blocked before the recorder blocked its own.
    """
    with warnings.catch_warnings():
        # Only the forking thread continues in the child, and it acquires no lock that another thread may own.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
        if not pid:
            try:
                gc.freeze()
                _close_other_descriptors({*descriptors, witness})
                pump = make()
                os.set_blocking(witness, False)
                signal.set_wakeup_fd(witness, warn_on_full_buffer=False)
                for number in RELAYED_SIGNALS:
                    if signal.getsignal(number) != signal.SIG_IGN:
                        signal.signal(number, _ignore_signal)
                signal.signal(signal.SIGWINCH, pump.resize)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                pump.run()
            finally:
                os._exit(0)  # also where leaving this block would raise: the command must not run twice
    return pid


def _ignore_signal(*_: object) -> None:
    """Does nothing: a signal ends the command, and the pump ends with the command's output."""


def _close_other_descriptors(needed: set[int]) -> None:
    # First: a thread of the recorder may have had the last free descriptor open when it forked.
    begin = 3
    for number in sorted(number for number in needed if number > 2):
        os.closerange(begin, number)
        begin = number + 1
    most = os.sysconf("SC_OPEN_MAX")
    os.closerange(begin, most if most > 0 else 1 << 20)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        if number not in needed:
            os.dup2(null, number)
    if null > 2:
        os.close(null)
