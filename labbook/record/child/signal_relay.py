"""Passes signals on to the command, each once, and waits for its end.

A key typed at the terminal reaches the whole group: the command has got it already. So has it when somebody signals the
group; the pump, a member too, bears witness to that. What was sent to the recorder alone is passed on.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from types import TracebackType

from labbook.record.child.pump import HEEDED

_FROM_KERNEL = 0x80
_FROM_THREAD = -6
_WITNESS_S = 0.25
_REPEAT_S = 1.0
_LOOK_S = 1.0


class SignalRelay:
    """Holds the recorder's signals back while the block runs, so that none ends it before the command.

    Args:
        shared: Whether the command is in the recorder's own process group.
    """

    def __init__(self, shared: bool) -> None:
        self._shared = shared
        self._relayed = [number for number in HEEDED if signal.getsignal(number) != signal.SIG_IGN]
        self._waited = {*self._relayed, signal.SIGCHLD}
        self._last: dict[int, float] = {}
        self.mask: Collection[signal.Signals] = ()
        self.witness, self.witnessed = -1, -1
        self.core_dumped = False

    def __enter__(self) -> SignalRelay:
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.witness, self.witnessed = os.pipe()
        os.set_blocking(self.witness, False)
        old = signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)
        self.mask = {signal.Signals(number) for number in old}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C during the last moments must not break the entry.
        while signal.sigtimedwait(self._waited, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
        for descriptor in (self.witness, self.witnessed):
            if descriptor >= 0:
                os.close(descriptor)

    def close_sending_end(self) -> None:
        """Leaves the sending end of the witness to the pump."""
        os.close(self.witnessed)
        self.witnessed = -1

    def unblock(self) -> None:
        """Gives the command the signals as they were; called in it before it starts."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)

    def wait_for(self, command: subprocess.Popen[bytes]) -> int:
        """Relays until the command has ended; its exit status, negative for a signal."""
        ended = threading.Event()
        with suppress(RuntimeError):  # no thread can be started; the signal of the command's end wakes us all the same
            threading.Thread(target=_ring, args=(threading.get_ident(), ended), daemon=True).start()
        try:
            while (status := self._looked_at(command)) is None:
                # Not `sigtimedwait`: stopped for longer than its time, it answers with a signal that it made up.
                heard = signal.sigwaitinfo(self._waited)
                if heard.si_signo != signal.SIGCHLD:
                    self._pass_on(heard, command)
                elif heard.si_code == _FROM_THREAD:
                    self._forget_witnessed()
            return status
        finally:
            ended.set()

    def _pass_on(self, heard: signal.struct_siginfo, command: subprocess.Popen[bytes]) -> None:
        if self._is_for_command(heard.si_signo, heard.si_code):
            with suppress(ProcessLookupError):
                command.send_signal(heard.si_signo)

    def _looked_at(self, command: subprocess.Popen[bytes]) -> int | None:
        """Exit status of the command, `None` while it runs; whether a core was dumped is known before it is reaped."""
        with suppress(ChildProcessError):
            ended = os.waitid(os.P_PID, command.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            self.core_dumped = ended is not None and ended.si_code == os.CLD_DUMPED
        return command.poll()

    def _is_for_command(self, number: int, code: int) -> bool:
        typed = code == _FROM_KERNEL and number in (signal.SIGINT, signal.SIGQUIT)
        if self._shared and (typed or self._reached_group(number)):
            self._last[number] = time.monotonic()
            return False
        now = time.monotonic()
        if now - self._last.get(number, -_REPEAT_S) < _REPEAT_S:
            return False
        self._last[number] = now
        return True

    def _reached_group(self, number: int) -> bool:
        """Whether the pump has got the signal too."""
        deadline = time.monotonic() + _WITNESS_S
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.witness], [], [], left)[0]:
                return False
            heard = self._read_witness()
            if not heard:
                # The pump is dead: nobody can tell.
                time.sleep(max(0.0, deadline - time.monotonic()))
                return False
            if number in heard:
                return True

    def _read_witness(self) -> bytes:
        try:
            return os.read(self.witness, 4096)
        except BlockingIOError:
            return b""

    def _forget_witnessed(self) -> None:
        """Drops what the pump has told of signals that have long been dealt with."""
        self._read_witness()


def _ring(thread: int, ended: threading.Event) -> None:
    """Wakes `thread` every second to look at the command, in case that somebody else took the signal of its end."""
    while not ended.wait(_LOOK_S):
        signal.pthread_kill(thread, signal.SIGCHLD)
