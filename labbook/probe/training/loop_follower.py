"""Follows the training loop of one framework: which backward calls belong to which optimizer step.

Independent of the framework. An adapter reports backward calls and optimizer steps; this module stores what is pending
for each thread, numbers the steps, and passes the numbers to the `StepRecorder` of each optimizer. Values that are
still on a device arrive as pending values (see the `DeviceReader` of an adapter) and are added in order once they can
be read.
"""

import sys
import threading
import time
from collections import deque
from weakref import ref

from ..events.protocol import OPTIMIZER
from ..process.process_info import is_launcher
from ..process.stall_watchdog import StallWatchdog
from .call_site import line_of, user_frame
from .step_recorder import Budget, StepRecorder
from .updates_by_hand import TYPE

_MAX_PENDING = 4096
_BACKWARDS_WITHOUT_STEP = 64
"""Number of backward calls without any optimizer step after which steps are counted by backward calls. Source: chosen
by us; longer than usual gradient accumulation."""

_MAX_WAITING = 64
_LAST_VALUES_S = 2.0
_NOTHING = ((), 0, 0)
_FLOATS = {float}
MAX_OPTIMIZERS = 16
"""Maximum number of optimizers followed at a time; of a program with one per layer, the first ones."""

_MAX_METERS = 256
SETTLED = 32
"""Steps after which set-up is over: the model is described, the first tensors are inspected. Source: chosen by us."""


NOT_DELIVERED = ("loss and gradient norm of some steps", "the device could not deliver them unless waited for")


class Local(threading.local):
    """Pending values of one thread.

    Attributes:
        losses: Values passed to `backward` since the last step: floats, or scalars on a device.
        unscaled: Number of these without the factor of a gradient scaler.
        backwards: Calls of `backward` since the last step.
        starts: Positions in `losses` of what the second call of them was called on, the third, ...
        in_backward: Whether this thread is inside `backward`.
        in_step: Depth of optimizer steps, because a step may call that of its base class.
        before_step: Number of calls of `backward` before this step began; those inside it are of its closure.
        group: Number of updated parameter groups of the current step, if they are updated one by one.
        update: Number of that step.
        clips: Norms from gradient clipping since the last `backward`.
        scales: Whether a gradient scaler has scaled a loss; it adapts its scale by non-finite gradients.
        raw: Whether one has since the last step.
        scaler: A weak reference to the gradient scaler that scaled a loss last.
        scaled: `(weak reference to the scaled loss, the loss)` of the last scaling.
        scaling: The current step of a gradient scaler in this thread.
        fast_step: The recorder of the current step if it is not followed (see `fast_path`).
    """

    def __init__(self):
        self.losses = []
        self.unscaled = 0
        self.backwards = 0
        self.starts, self.taken_starts = [], ()
        self.taken = _NOTHING
        self.in_backward = 0
        self.in_step = self.before_step = 0
        self.group = 0
        self.update = None
        self.recorder = None
        self.closure = False
        self.norm = None
        self.clipped = False
        self.clips = []
        self.scaled = None
        self.scales = self.raw = False
        self.scaler = None
        self.scaling = None
        self.fast_step = None

    def take(self, recorder):
        """Return `(losses, backwards, unscaled)` since the last step, shared by optimizers after one backward."""
        if self.backwards:
            self.taken = (self.losses, self.backwards, self.unscaled)
            self.losses, self.backwards, self.unscaled = [], 0, 0
            self.taken_starts, self.starts = self.starts, []
        elif recorder.seen is self.taken:
            return _NOTHING
        recorder.seen = self.taken
        return self.taken


class Training:
    """All training of one framework in this process.

    Args:
        describe: `describe(optimizer, closure)` returns the fields of the `optimizer` event, at its first step.
    """

    def __init__(self, probe, framework, describe):
        self.probe = probe
        self.framework = framework
        self.steps_hidden = ""
        self.local = Local()
        self.describe = describe
        self.monitor = None
        self.clock = time.perf_counter
        self.catch_up = _do_nothing
        self._forget()
        if probe.watchdog is None:
            probe.watchdog = StallWatchdog(probe)
        probe.watchdog.follow(self)
        probe.at_steps(self._settle)
        probe.at_exit(self.finish)
        probe.after_fork(self._forget)

    def _settle(self, step):
        if step >= SETTLED:
            self._hand_over()
            self.probe.mark_warm(step)

    def _hand_over(self):
        """Report the time spent in following the training since the last call to the probe."""
        self.probe.add_overhead(self.overhead_s)
        self._handed_over += self.overhead_s
        self.overhead_s = 0.0

    def total_overhead_s(self):
        """Seconds spent in following the training so far."""
        return self._handed_over + self.overhead_s

    def _forget(self):
        self.recorders = {}
        self.count = 0
        self.steps = 0
        self.backwards = 0
        self.overhead_s = self._handed_over = 0.0
        self.moved = self.began = self.clock()
        self.running = 0
        self.inside = 0
        self.fused = None
        self.without_optimizer = self.by_hand = None
        self.returns_gradients = False
        self._reported = set()
        self._closed = False
        self.local.__init__()

    def recorder(self, optimizer, closure=False):
        """Return the recorder of an optimizer, `None` if there are too many; first writes the `optimizer` event."""
        recorder = self.recorders.get(id(optimizer))
        if recorder is None or recorder.owner() is not optimizer:
            recorder = self._begin_recorder(optimizer, closure)
        return recorder

    def _begin_recorder(self, optimizer, closure):
        for known, recorder in list(self.recorders.items()):
            if recorder.owner() is None:
                recorder.flush()
                del self.recorders[known]
        if len(self.recorders) >= MAX_OPTIMIZERS or self.count >= _MAX_METERS:
            self.unobserved("steps of some optimizers", "more than %d optimizers are in use" % len(self.recorders))
            return None
        recorder = self._new_recorder(ref(optimizer))
        self.recorders[id(optimizer)] = recorder
        self._write_optimizer(recorder, optimizer, closure, "")
        return recorder

    def _write_optimizer(self, recorder, optimizer, closure, how):
        if optimizer is self.by_hand:
            self.unobserved("learning rate", "parameters are updated without an optimizer of the framework")
        else:
            self.by_hand = None
        with self.probe.guard(self.framework + ".describe"):
            fields = self.describe(optimizer, closure)
            fields["type"] = TYPE if optimizer is self.by_hand else fields["type"] + how
            if threading.current_thread() is not threading.main_thread():
                fields["thread"] = threading.get_ident()
            fields["line"] = line_of(user_frame())
            self.probe.event(OPTIMIZER, framework=self.framework, index=recorder.index, **fields)
        self.probe.begin_optimizer()

    def _new_recorder(self, owner):
        recorder = StepRecorder(self.probe.event, self.framework, self.count)
        self.count += 1
        recorder.owner = owner
        recorder.budget = Budget(self.probe.settings.get("budget") or 0.01)
        recorder.waiting = deque()
        recorder.seen = None
        recorder.scratch = {}
        if self.probe.requests is not None:
            self.probe.requests.listen(recorder, self.framework)
        return recorder

    def on_backward(self, losses):
        """Process a call of `backward`, before it runs, with the values passed to it."""
        if self.by_hand is not None:
            self.by_hand.check()
        state = self.local.__dict__
        if state["backwards"] and len(state["starts"]) < _MAX_PENDING:
            state["starts"].append(len(state["losses"]))
        state["backwards"] += 1
        self.backwards += 1
        if losses and len(state["losses"]) < _MAX_PENDING:
            state["losses"] += losses
        if state["clips"]:
            state["clips"] = []

    def backward_ended(self):
        """Process the end of `backward`: merge steps inside it; count it as a step if no optimizer steps."""
        if self.fused is not None and self.inside:
            self._step_fused()
            return
        by_hand = self.by_hand
        if by_hand is not None and not self.local.in_step and not self.returns_gradients:
            by_hand.backward_ended()
        if self.steps or self.local.in_step:
            return
        if by_hand is not None and by_hand.is_certain:
            if self.local.backwards == _BACKWARDS_WITHOUT_STEP:
                self.unobserved("training steps", "%d calls of backward changed no parameter" % self.local.backwards)
            return
        if self.without_optimizer is not None or self.local.backwards >= _BACKWARDS_WITHOUT_STEP:
            self._count_backwards()

    def _count_backwards(self):
        """Count backward calls as steps, in a loop with manual updates or a compiled training function."""
        first = self.without_optimizer is None
        if first:
            self._begin_without_optimizer()
        losses, backwards, _ = self.local.take(self.without_optimizer)
        now = self.clock()
        numbers = [value for value in losses if type(value) is float]
        if len(numbers) != backwards:
            self.without_optimizer.add(numbers, (), None, now, backwards)
            return
        for value in numbers:
            if first:
                self.without_optimizer.untimed()
            self.without_optimizer.add([value], (), None, now, 1)

    def _begin_without_optimizer(self):
        self.without_optimizer = self._new_recorder(None)
        self.probe.event(
            OPTIMIZER,
            framework=self.framework,
            index=self.without_optimizer.index,
            type="none seen, steps are counted by backward",
            options={},
            groups=[],
            closure=False,
        )
        reason = "none was seen in %d calls of backward: updates are made by hand or inside a compiled function"
        self.unobserved("optimizer steps, learning rate and gradient norm", reason % _BACKWARDS_WITHOUT_STEP)

    def fused_recorder(self, optimizer):
        """Return the common recorder of all optimizers that step inside `backward`, each for some parameters."""
        if self.fused is None:
            self.fused = self._new_recorder(None)
            self.fused.parts = {}
            self.fused.squares, self.fused.measured = 0.0, True
            self._write_optimizer(self.fused, optimizer, False, " inside backward")
        return self.fused

    def on_step_in_backward(self, rates, norm):
        """Process an optimizer step inside `backward`, one of many in one backward call."""
        fused = self.fused
        self.inside += 1
        fused.rates = rates
        if norm is not None and type(norm) is float:
            fused.squares += norm * norm
        else:
            fused.measured = False

    def _step_fused(self):
        recorder = self.fused
        norm = recorder.squares**0.5 if recorder.measured else None
        losses, backwards, _ = self.local.take(recorder)
        recorder.squares, recorder.measured, self.inside = 0.0, True, 0
        self.step(recorder, losses, recorder.rates, norm, backwards, None, None)

    def step(self, recorder, losses, rates, norm, backwards, extra, pending):
        """Process one step of one optimizer; with a pending value, its losses and norm are still on a device."""
        now = self.clock()
        self.steps += 1
        self.moved = now
        recorder.budget.on_steps(now)
        if pending is None and not recorder.waiting:
            self._add(recorder, losses, rates, norm, now, backwards, extra)
        else:
            recorder.waiting.append((losses, rates, norm, now, backwards, extra, pending))
            if self.probe.requests is not None and self.probe.requests.exact:
                self.probe.requests.wait_for(recorder)
            self.collect(recorder, len(recorder.waiting) > _MAX_WAITING)
        totals = self.probe.totals
        totals["backwards"] = self.backwards
        self.probe.step = recorder.step + len(recorder.waiting)

    def collect(self, recorder, force=False):
        """Add pending steps whose values have arrived, oldest first; `force` drops the values of the oldest."""
        waiting = recorder.waiting
        while waiting:
            losses, rates, norm, now, backwards, extra, pending = waiting[0]
            if pending is not None and pending.is_ready():
                read = pending.read()
                if read is None:
                    waiting.popleft()
                    recorder.skip()
                    continue
                losses, norm, extra = read
                if pending.bad_inputs and self.monitor is not None and any(loss - loss != 0.0 for loss in losses):
                    self.monitor.inspector.flight_recorder.record_bad_inputs(recorder.step + 1)
            elif pending is not None:
                if not force:
                    return
                force = False
                losses, norm = (), None
                self.unobserved(*NOT_DELIVERED)
            waiting.popleft()
            self._add(recorder, losses, rates, norm, now, backwards, extra)

    def _add(self, recorder, losses, rates, norm, now, backwards, extra):
        recorder.add(losses, rates, norm, now, backwards, extra)
        if self.monitor is not None:
            self.monitor.on_values(recorder, losses, rates, norm, extra)

    def unobserved(self, what, reason):
        """Record once that something was not observed."""
        if what not in self._reported:
            self._reported.add(what)
            self.probe.unobserved(what, reason)

    def finish(self):
        """Write pending values at the end of the process; waits at most `_LAST_VALUES_S` for a device."""
        if self._closed:
            return
        self._closed = True
        with self.probe.guard(self.framework + ".finish"):
            self.catch_up()
            if self.by_hand is not None:
                self.by_hand.check(is_over=True)
        deadline = time.monotonic() + _LAST_VALUES_S
        for recorder in list(self.recorders.values()) + [
            m for m in (self.fused, self.without_optimizer) if m is not None
        ]:
            with self.probe.guard(self.framework + ".finish"):
                self.collect(recorder)
                while recorder.waiting and time.monotonic() < deadline:
                    time.sleep(0.01)
                    self.collect(recorder)
                while recorder.waiting:
                    self.collect(recorder, force=True)
            recorder.flush()
        if self.steps or self.backwards:
            self.probe.totals["backwards"] = self.backwards
        elif self.probe.role != "fork" and not is_launcher():
            evaluates = self.monitor is not None and self.monitor.evaluation.has_phase()
            nothing = "this process imported %s and made no optimizer step and no backward call" % self.framework
            if evaluates:
                nothing = "this process evaluated a model and made no optimizer step and no backward call"
            self.unobserved("training steps", self.steps_hidden or nothing)
        self._hand_over()


def _do_nothing():
    """Default for the function that processes queued steps (see `fast_path`)."""


def are_floats(values):
    """Whether all values are numbers."""
    return set(map(type, values)) <= _FLOATS


def may_read_gradients(thread):
    """Whether this thread may read the gradients of the training thread (or `None`).

    A backward call replaces them without the interpreter's lock; reading one at that moment crashes.
    """
    return thread in (None, threading.get_ident()) or thread not in sys._current_frames()


def is_engine_thread():
    """Whether this thread was started by an autograd engine (to run hooks), not by Python."""
    return threading.get_ident() not in threading._active
