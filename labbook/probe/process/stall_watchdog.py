"""Detects a stalled training, and writes the stacks of its threads.

The training stores the time of each step, batch and forward in `Training.moved`. A thread of the probe reads it every
few seconds, but only in a process that already has other threads: the first additional one would make `fork` warn. The
thread is stopped while a child is forked. At SIGTERM, which would end the process silently, the interpreter writes the
stacks, unless the program handles that signal.
"""

import _signal
import os
import sys
import time
from _thread import allocate_lock, get_native_id, start_new_thread

from ..events.protocol import STACKS, STACKS_ENDING
from ..wrapping import transparent_wrapper, wrap_function
from . import thread_stacks

SILENCE_S = 10.0
"""Minimum silence after which the stacks are written; the recorder decides whether it is a stall. Source: chosen by
us."""

SILENT_STEPS = 10.0
"""Minimum silence as a multiple of the step time. Source: the rule of debuggers for stalled training."""

_LOOK_S = 5.0
_AGAIN = 6.0
_MOST_STACKS = 30
_STOPS_IN_S = 1.0
_FAULTS = ("SIGSEGV", "SIGFPE", "SIGABRT", "SIGBUS", "SIGILL")


class StallWatchdog:
    """The watchdog of one process. No method raises."""

    def __init__(self, probe):
        self._probe = probe
        self._silence_s = float(probe.settings.get("silence_s") or SILENCE_S)
        self._look_s = min(_LOOK_S, self._silence_s / 2)
        self._trainings = []
        self._hooked = False
        self._held = None
        self._terms = self._faults = False
        self._forget()
        probe.at_steps(self._on_step)
        with probe.guard("pulse"):
            self._take_faults()
        probe.after_fork(self._after_fork)
        probe.at_exit(self.finish)

    def _forget(self):
        self._wake = self._gone = None
        self._native = 0
        self._written = 0
        self._has_written = False
        self._seen, self._limit = None, 0.0

    def follow(self, training):
        """Register the training of a framework."""
        self._trainings.append(training)

    def silent_s(self):
        """Return seconds since the last step, batch or forward; `None` before the first step."""
        last = max((t.moved for t in self._trainings if t.steps or t.backwards), default=None)
        return None if last is None else max(time.perf_counter() - last, 0.0)

    def interrupted(self, error):
        """Write the stacks at Ctrl-C."""
        if self._probe.step is not None or len(sys._current_frames()) > 1:
            thread_stacks.write_stacks(self._probe, "interrupt", self.silent_s(), error.__traceback__)

    def begin(self):
        """Start watching, unless already started, if the process has other threads."""
        if self._wake is not None or self._probe.step is None:
            return
        with self._probe.guard("pulse"):
            if len(os.listdir("/proc/self/task")) < 2:
                return
            if not self._hooked:
                os.register_at_fork(before=self.end)
                self._hooked = True
            self._wake, self._gone = allocate_lock(), allocate_lock()
            self._wake.acquire()
            self._gone.acquire()
            start_new_thread(self._watch, (self._wake, self._gone))

    def end(self):
        """Stop watching, and wait for the end of the thread."""
        wake, self._wake = self._wake, None
        if wake is None:
            return
        wake.release()
        if self._gone.acquire(timeout=_STOPS_IN_S):
            task, deadline = "/proc/self/task/%d" % self._native, time.perf_counter() + 0.05
            while os.path.exists(task) and time.perf_counter() < deadline:
                time.sleep(0.0005)

    def finish(self):
        """Stop watching at the end of the process, and remove an empty file of stacks."""
        self.end()
        with self._probe.guard("pulse"):
            self._leave_signal()

    def _on_step(self, step):
        if step == 1:
            with self._probe.guard("pulse"):
                self._take_signal()
        self.begin()

    def _after_fork(self):
        self._forget()
        with self._probe.guard("pulse"):
            self._leave_signal(fork=True)

    def _watch(self, wake, gone):
        try:
            self._native = get_native_id()
            # The threads of the program handle all signals.
            _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
            while not wake.acquire(timeout=self._look_s):
                with self._probe.guard("pulse"):
                    self._check()
        finally:
            gone.release()

    def _check(self):
        silent = self.silent_s()
        if silent is None:
            return
        moved = time.perf_counter() - silent
        if self._seen is None or moved > self._seen + self._look_s / 100:
            if self._has_written:
                self._has_written = False
                self._probe.event(STACKS, reason="moved", silent_s=None, step=self._probe.step, threads=[])
            self._seen, self._limit = moved, max(self._silence_s, SILENT_STEPS * self._step_s())
        elif silent >= self._limit and self._written < _MOST_STACKS:
            self._limit *= _AGAIN
            self._written += 1
            self._has_written = True
            thread_stacks.write_stacks(self._probe, "silence", silent)

    def _step_s(self):
        """Return the mean duration of a step, in seconds."""
        return max(((t.moved - t.began) / t.steps for t in self._trainings if t.steps), default=0.0)

    def _take_faults(self):
        """Make the interpreter write the stacks at a crash in native code, unless the program does."""
        import faulthandler

        if faulthandler.is_enabled() or not _is_default(*_FAULTS):
            return
        self._open_file()
        faulthandler.enable(file=self._held[0], all_threads=True)
        self._faults = True
        guard, is_enabled = self._probe.guard("pulse"), faulthandler.is_enabled
        # A program that asks first, as several servers do, must not find it enabled and leave it at that.
        faulthandler.is_enabled = transparent_wrapper(lambda: is_enabled() and not self._faults, is_enabled)
        for name in ("enable", "disable"):
            setattr(
                faulthandler, name, wrap_function(getattr(faulthandler, name), guard, before=self._on_faulthandler_call)
            )

    def _on_faulthandler_call(self, args, kwargs):
        """Disable it, because the program uses `faulthandler`."""
        self._faults = False

    def _take_signal(self):
        if not self._terms and _is_default("SIGTERM"):
            import faulthandler

            # faulthandler passes the signal on, and the process ends by it as without the probe.
            self._open_file()
            faulthandler.register(_signal.SIGTERM, file=self._held[0], all_threads=True, chain=True)
            self._terms = True

    def _open_file(self):
        if self._held is None:
            self._held = self._probe.writer.open_beside(STACKS_ENDING)

    def _leave_signal(self, fork=False):
        held, self._held = self._held, None
        if held is None:
            return
        import faulthandler

        if self._terms:
            faulthandler.unregister(_signal.SIGTERM)
        if self._faults:
            faulthandler.disable()
        self._terms = self._faults = False
        descriptor, path = held
        # A program that closed foreign descriptors may have opened a file with this number.
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            os.close(descriptor)
        if not fork and not os.path.getsize(path):
            os.unlink(path)


def _is_default(*names):
    """Whether signals have their default action, in the interpreter and in the system: libraries set handlers, too."""
    numbers = [getattr(_signal, name) for name in names]
    if any(_signal.getsignal(number) != _signal.SIG_DFL for number in numbers):
        return False
    with open("/proc/self/status", "rb") as stream:
        masks = dict(line.split(b":", 1) for line in stream if line.startswith((b"SigIgn", b"SigCgt", b"SigBlk")))
    return len(masks) == 3 and not any(int(m, 16) >> (n - 1) & 1 for m in masks.values() for n in numbers)
