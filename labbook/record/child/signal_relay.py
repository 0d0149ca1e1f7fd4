"""Passes each signal on to the command once, and waits for the command's end.

A key typed at the terminal signals the whole process group, including the command. The same holds for `kill` of the
group: the pump, also a member, reports it. Signals to the recorder alone are passed on.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from labbook.record.child.pump import RELAYED_SIGNALS

_FROM_KERNEL = 0x80
_FROM_THREAD = -6
_WITNESS_S = 0.25
_REPEAT_S = 1.0
_POLL_S = 1.0


_replaced: dict[int, signal.Handlers] = {}


def ignore_stops() -> None:
    """Has SIGTERM and SIGHUP not end this process until `restore_stops`: without labbook it would have ended already.

    A handler, not `SIG_IGN`, which the programs that write the entry would inherit.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            with suppress(ValueError):  # not the main thread
                signal.signal(number, lambda *_: None)
                _replaced[number] = signal.SIG_DFL


def restore_stops() -> None:
    """Undoes `ignore_stops`."""
    while _replaced:
        signal.signal(*_replaced.popitem())


class SignalRelay:
    """Blocks the recorder's signals inside the block, so that none ends it before the command.

    Args:
        shared: Whether the command is in the recorder's own process group.
        on_stop: Called with the time of the first SIGINT or SIGTERM, s; its exceptions are ignored.

    Attributes:
        stopped: Unix time of the last SIGINT or SIGTERM, 0 if there was none; s.
        heeded: The same without those that the command ignores (`SIG_IGN`): they do not change how it ends.
    """

    def __init__(self, shared: bool, on_stop: Callable[[float], None] = lambda _: None) -> None:
        self._shared, self._on_stop = shared, on_stop
        self._relayed = [number for number in RELAYED_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        self._blocked = {*self._relayed, signal.SIGCHLD}
        self._last: dict[int, float] = {}
        self.mask: Collection[int] = ()
        self.witness_read, self.witness_write = -1, -1
        self.core_dumped = False
        self.stopped = self.heeded = 0.0

    def __enter__(self) -> SignalRelay:
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.witness_read, self.witness_write = os.pipe()
        os.set_blocking(self.witness_read, False)
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C during the last moments must not break the entry.
        while signal.sigtimedwait(self._blocked, 0) is not None:
            pass
        ignore_stops()
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
        for descriptor in (self.witness_read, self.witness_write):
            if descriptor >= 0:
                os.close(descriptor)

    def close_sending_end(self) -> None:
        """Closes the sending end of the witness pipe, which belongs to the pump."""
        os.close(self.witness_write)
        self.witness_write = -1

    def unblock(self) -> None:
        """Restores the signal mask; called in the command's process before it starts."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)

    def wait_for(self, command: subprocess.Popen[bytes]) -> int:
        """Relays signals until the command ends; returns its exit status, negative for a signal."""
        ended = threading.Event()
        with suppress(RuntimeError):  # no thread can be started; SIGCHLD still wakes this one
            threading.Thread(target=_wake_regularly, args=(threading.get_ident(), ended), daemon=True).start()
        try:
            while (status := self._poll_status(command)) is None:
                # Not `sigtimedwait`: when the process was stopped past its timeout, it returns a made-up signal.
                info = signal.sigwaitinfo(self._blocked)
                if info.si_signo != signal.SIGCHLD:
                    self._pass_on(info, command)
                elif info.si_code == _FROM_THREAD:
                    self._read_witness()  # reports of the pump of signals that were handled long ago
            return status
        finally:
            ended.set()

    def _pass_on(self, info: signal.struct_siginfo, command: subprocess.Popen[bytes]) -> None:
        is_first = not self.stopped
        if info.si_signo in (signal.SIGINT, signal.SIGTERM):
            self.stopped = time.time()
            self.heeded = self.heeded if _ignores(command.pid, info.si_signo) else self.stopped
        if self._is_for_command(info.si_signo, info.si_code):
            with suppress(ProcessLookupError):
                command.send_signal(info.si_signo)
        if is_first and self.stopped:
            with suppress(Exception):
                self._on_stop(self.stopped)

    def _poll_status(self, command: subprocess.Popen[bytes]) -> int | None:
        """Returns the exit status, `None` while the command runs; notes a core dump before reaping."""
        with suppress(ChildProcessError):
            ended = os.waitid(os.P_PID, command.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            self.core_dumped = ended is not None and ended.si_code == os.CLD_DUMPED
        return command.poll()

    def _is_for_command(self, number: int, code: int) -> bool:
        typed = code == _FROM_KERNEL and number in (signal.SIGINT, signal.SIGQUIT)
        if self._shared and (typed or self._has_reached_group(number)):
            self._last[number] = time.monotonic()
            return False
        now = time.monotonic()
        if now - self._last.get(number, -_REPEAT_S) < _REPEAT_S:
            return False
        self._last[number] = now
        return True

    def _has_reached_group(self, number: int) -> bool:
        """Whether the pump received the signal too."""
        deadline = time.monotonic() + _WITNESS_S
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.witness_read], [], [], left)[0]:
                return False
            numbers = self._read_witness()
            if not numbers:
                # The pump is dead and cannot report signals.
                time.sleep(max(0.0, deadline - time.monotonic()))
                return False
            if number in numbers:
                return True

    def _read_witness(self) -> bytes:
        try:
            return os.read(self.witness_read, 4096)
        except BlockingIOError:
            return b""


def _ignores(pid: int, number: int) -> bool:
    """Whether a process ignores a signal; false where the system does not say."""
    with suppress(OSError, ValueError):
        status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
        mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:")), "0")
        return bool(int(mask, 16) >> (number - 1) & 1)
    return False


def _wake_regularly(thread: int, ended: threading.Event) -> None:
    """Wakes `thread` every second to poll the command, in case another thread consumed its SIGCHLD."""
    while not ended.wait(_POLL_S):
        signal.pthread_kill(thread, signal.SIGCHLD)
