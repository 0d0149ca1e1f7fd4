"""Follows the training loop of one framework: which backward calls belong to which optimizer step.

Knows no framework. An adapter tells it of backward calls and optimizer steps; it keeps what is pending for each thread,
numbers the steps, and hands the numbers to a `Meter` for each optimizer. Values that are still on a device come with a
letter (see the `Mailbox` of an adapter) and are added, in order, once they have arrived.
"""

import os
import sys
import threading
import time
from collections import deque
from weakref import ref

from ..events.protocol import OPTIMIZER, STATE
from ..process.stall_watchdog import Pulse
from .step_recorder import Budget, Meter

_MAX_PENDING = 4096
_LONELY_BACKWARDS = 64
"""After so many backward calls without any optimizer step, steps are counted by backward. Source: chosen by us; longer
than usual gradient accumulation."""

_MAX_WAITING = 64
_LAST_LETTERS_S = 2.0
_NOTHING = ((), 0, 0)
_FLOATS = {float}
MAX_OPTIMIZERS = 16
"""Optimizers that are followed at a time; a program with one for each layer is told by its first ones."""

_MAX_METERS = 256
_MAX_INTERVALS = 64
"""Changes of the interval between gradient norms that are told; later ones at 128, 256 ...: where it swings for ever,
each is worth little."""

SETTLED = 32
"""Steps after which set-up is over: the model was found and described, the first looks taken. Source: chosen by us."""


NOT_DELIVERED = ("loss and gradient norm of some steps", "the device could not deliver them unless waited for")


class Local(threading.local):
    """What one thread has pending.

    Attributes:
        losses: Values passed to `backward` since the last step: floats, or scalars on a device.
        unscaled: How many of them are known without the factor of a gradient scaler.
        backwards: Calls of `backward` since the last step.
        in_backward: Whether this thread is inside `backward`.
        in_step: Depth of optimizer steps, because a step may call that of its base class.
        group: How many parameter groups of the step under way are updated, where that is done one by one.
        update: Which step that is.
        clips: Norms that gradient clipping has told since the last `backward`.
        scales: Whether a gradient scaler has scaled a loss: it looks for its scale by gradients that are not finite.
        scaler: A weak reference to the gradient scaler that scaled a loss last.
        scaled: `(weak reference to the scaled loss, the loss)` of the last scaling.
        scaling: The step of a gradient scaler that this thread is in.
        lane: The meter of the step under way, where that is not followed (see `fast_path`).
    """

    def __init__(self):
        self.losses = []
        self.unscaled = 0
        self.backwards = 0
        self.taken = _NOTHING
        self.in_backward = 0
        self.in_step = 0
        self.group = 0
        self.update = None
        self.meter = None
        self.closure = False
        self.norm = None
        self.clipped = False
        self.clips = []
        self.scaled = None
        self.scales = False
        self.scaler = None
        self.scaling = None
        self.lane = None

    def take(self, meter):
        """`(losses, backwards, unscaled)` since the last step; optimizers that step after one backward share them."""
        if self.backwards:
            self.taken = (self.losses, self.backwards, self.unscaled)
            self.losses, self.backwards, self.unscaled = [], 0, 0
        elif meter.seen is self.taken:
            return _NOTHING
        meter.seen = self.taken
        return self.taken


class Training:
    """All training of one framework in this process.

    Args:
        probe: The probe of this process.
        framework: Its name.
        describe: `describe(optimizer, closure)` gives the fields of the `optimizer` event, at its first step.
    """

    def __init__(self, probe, framework, describe):
        self.probe = probe
        self.framework = framework
        self.local = Local()
        self.describe = describe
        self.health = None
        self.clock = time.perf_counter
        self.catch_up = _nothing
        self._forget()
        if probe.pulse is None:
            probe.pulse = Pulse(probe)
        probe.pulse.follow(self)
        probe.at_steps(self._settle)
        probe.at_exit(self.finish)
        probe.after_fork(self._forget)

    def _settle(self, step):
        if step >= SETTLED:
            self._hand_over()
            self.probe.settled(step)

    def _hand_over(self):
        """Gives the probe the time that following the training took since this was done last."""
        self.probe.spent(self.spent)
        self._handed_over += self.spent
        self.spent = 0.0

    def spent_in_all(self):
        """Seconds that following the training took so far."""
        return self._handed_over + self.spent

    def _forget(self):
        self.meters = {}
        self.count = 0
        self.intervals = 0
        self.steps = 0
        self.backwards = 0
        self.spent = self._handed_over = 0.0
        self.moved = self.began = self.clock()
        self.running = 0
        self.inside = 0
        self.together = None
        self.lonely = None
        self.said = set()
        self._closed = False
        self.local.__init__()

    def meter(self, optimizer, closure=False):
        """The meter of an optimizer, `None` where too many are in use; the first call writes the `optimizer` event."""
        meter = self.meters.get(id(optimizer))
        if meter is None or meter.owner() is not optimizer:
            meter = self._begin_meter(optimizer, closure)
        return meter

    def _begin_meter(self, optimizer, closure):
        for known, meter in list(self.meters.items()):
            if meter.owner() is None:
                meter.flush()
                del self.meters[known]
        if len(self.meters) >= MAX_OPTIMIZERS or self.count >= _MAX_METERS:
            self.unobserved("steps of some optimizers", "more than %d optimizers are in use" % len(self.meters))
            return None
        meter = self._new_meter(ref(optimizer))
        self.meters[id(optimizer)] = meter
        self._tell_optimizer(meter, optimizer, closure, "")
        return meter

    def _tell_optimizer(self, meter, optimizer, closure, how):
        with self.probe.guard(self.framework + ".describe"):
            fields = self.describe(optimizer, closure)
            fields["type"] += how
            self.probe.event(OPTIMIZER, framework=self.framework, index=meter.index, **fields)

    def _new_meter(self, owner):
        def tell(interval):
            self.intervals += 1
            if self.intervals <= _MAX_INTERVALS or not self.intervals & (self.intervals - 1):
                self.probe.event(STATE, framework=self.framework, grad_norm_every=interval)

        meter = Meter(self.probe.event, self.framework, self.count)
        self.count += 1
        meter.owner = owner
        meter.budget = Budget(self.probe.settings.get("budget") or 0.01, tell)
        meter.waiting = deque()
        meter.seen = None
        meter.scratch = {}
        if self.probe.asked is not None:
            self.probe.asked.listen(meter, self.framework)
        return meter

    def root(self, losses):
        """Takes a call of `backward`, before it runs, with the values that were passed to it."""
        state = self.local.__dict__
        state["backwards"] += 1
        self.backwards += 1
        if losses and len(state["losses"]) < _MAX_PENDING:
            state["losses"] += losses
        if state["clips"]:
            state["clips"] = []

    def backward_ended(self):
        """Closes a call of `backward`: steps taken inside it become one, steps that nobody takes are counted by it."""
        if self.together is not None and self.inside:
            self._step_together()
            return
        if self.steps or self.local.in_step:
            return
        if self.lonely is not None or self.local.backwards >= _LONELY_BACKWARDS:
            self._step_alone()

    def _step_alone(self):
        """Counts backward calls as steps, in a loop whose updates are made by hand or inside a compiled function."""
        first = self.lonely is None
        if first:
            self._begin_lonely()
        losses, backwards, _ = self.local.take(self.lonely)
        now = self.clock()
        numbers = [value for value in losses if type(value) is float]
        if len(numbers) != backwards:
            self.lonely.add(numbers, (), None, now, backwards)
            return
        for value in numbers:
            if first:
                self.lonely.untimed()
            self.lonely.add([value], (), None, now, 1)

    def _begin_lonely(self):
        self.lonely = self._new_meter(None)
        self.probe.event(
            OPTIMIZER,
            framework=self.framework,
            index=self.lonely.index,
            type="none seen, steps are counted by backward",
            options={},
            groups=[],
            closure=False,
        )
        reason = "none was seen in %d calls of backward: updates are made by hand or inside a compiled function"
        self.unobserved("optimizer steps, learning rate and gradient norm", reason % _LONELY_BACKWARDS)

    def together_meter(self, optimizer):
        """The one meter of all optimizers that step inside `backward`, each for a part of the parameters."""
        if self.together is None:
            self.together = self._new_meter(None)
            self.together.parts = {}
            self.together.squares, self.together.measured = 0.0, True
            self._tell_optimizer(self.together, optimizer, False, " inside backward")
        return self.together

    def inside_step(self, rates, norm):
        """Takes the step of an optimizer that was made inside `backward`, one of many for one backward call."""
        together = self.together
        self.inside += 1
        together.rates = rates
        if norm is not None and type(norm) is float:
            together.squares += norm * norm
        else:
            together.measured = False

    def _step_together(self):
        meter = self.together
        norm = meter.squares**0.5 if meter.measured else None
        losses, backwards, _ = self.local.take(meter)
        extra = {"in_backward": self.inside}
        meter.squares, meter.measured, self.inside = 0.0, True, 0
        self.step(meter, losses, meter.rates, norm, backwards, extra, None)

    def step(self, meter, losses, rates, norm, backwards, extra, letter):
        """Takes one step of one optimizer; with a letter its losses and norm are still on their way from a device."""
        now = self.clock()
        self.steps += 1
        self.moved = now
        meter.budget.stepped(now)
        if letter is None and not meter.waiting:
            self._add(meter, losses, rates, norm, now, backwards, extra)
        else:
            meter.waiting.append((losses, rates, norm, now, backwards, extra, letter))
            if self.probe.asked is not None and self.probe.asked.exact:
                self.probe.asked.wait_for(meter)
            self.collect(meter, len(meter.waiting) > _MAX_WAITING)
        totals = self.probe.totals
        totals["backwards"] = self.backwards
        self.probe.step = meter.step + len(meter.waiting)

    def collect(self, meter, force=False):
        """Adds the waiting steps whose values have arrived, oldest first; `force` gives up the values of the oldest."""
        waiting = meter.waiting
        while waiting:
            losses, rates, norm, now, backwards, extra, letter = waiting[0]
            if letter is not None and letter.arrived():
                read = letter.read()
                if read is None:
                    waiting.popleft()
                    meter.skip()
                    continue
                losses, norm, extra = read
            elif letter is not None:
                if not force:
                    return
                force = False
                losses, norm = (), None
                self.unobserved(*NOT_DELIVERED)
            waiting.popleft()
            self._add(meter, losses, rates, norm, now, backwards, extra)

    def _add(self, meter, losses, rates, norm, now, backwards, extra):
        meter.add(losses, rates, norm, now, backwards, extra)
        if self.health is not None:
            self.health.arrived(meter, losses, rates, norm, extra)

    def unobserved(self, what, reason):
        """Says once that something was not observed."""
        if what not in self.said:
            self.said.add(what)
            self.probe.unobserved(what, reason)

    def finish(self):
        """Writes what is pending at the end of the process. Never waits longer than `_LAST_LETTERS_S` for a device."""
        if self._closed:
            return
        self._closed = True
        with self.probe.guard(self.framework + ".finish"):
            self.catch_up()
        deadline = time.monotonic() + _LAST_LETTERS_S
        for meter in list(self.meters.values()) + [m for m in (self.together, self.lonely) if m is not None]:
            with self.probe.guard(self.framework + ".finish"):
                self.collect(meter)
                while meter.waiting and time.monotonic() < deadline:
                    time.sleep(0.01)
                    self.collect(meter)
                while meter.waiting:
                    self.collect(meter, force=True)
            meter.flush()
        if self.steps or self.backwards:
            self.probe.totals["backwards"] = self.backwards
        elif self.probe.role != "fork" and not is_launcher():
            self.unobserved(
                "training steps",
                "this process imported %s and made no optimizer step and no backward call" % self.framework,
            )
        self._hand_over()


def _nothing():
    """In place of what catches up with steps that were put aside (see `fast_path`)."""


def are_floats(values):
    """Whether all of them are numbers already."""
    return set(map(type, values)) <= _FLOATS


def may_read_gradients(thread):
    """Whether this thread may ask for the gradients that another one (or `None`) trains with.

    A backward call replaces them without the interpreter's lock; who reads one at that moment crashes.
    """
    return thread in (None, threading.get_ident()) or thread not in sys._current_frames()


def is_engine_thread():
    """Whether this thread was not started by Python: one that an autograd engine runs hooks in."""
    return threading.get_ident() not in threading._active


_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "fleetrun")
_LAUNCHER_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "paddle.distributed.launch",
    "accelerate.commands",
)


def is_launcher():
    """Whether this process only starts the ones that train."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    name = getattr(main, "name", "") or ""
    program = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return program in _LAUNCHERS or name.startswith(_LAUNCHER_MODULES)
