"""The short way for steps that are not followed: of very short steps most, and each takes its toll.

Knows no framework. What is told of a step is the same as on the long way, which takes every step that is anything but
ordinary: several optimizers in one, closures, gradient scalers, clipping, values on a device or not finite.

A loop whose last step went the short way is steady until something is out of the ordinary: then a call that the program
makes meets a handful of instructions. In the middle of a training step nothing of ours is in a cache, and each of them
costs several times what it costs alone. So the steps of a steady loop are only put aside, with their numbers, and all
that is to be done for them is done for several at once (`catch_up`), before anybody asks for what it changes.
"""

from _thread import get_ident
from math import inf
from sys import float_info

from .step_recorder import AT_ONCE, SHORTEST_S
from .step_sampling import ROUND

RARE = 32
"""Gradient norms are taken at most so rarely on this way, at steps that are multiples of it: taking one costs three
times what the clock beside it tells. Source: chosen by us; the loss is looked at in each step."""


class Lane:
    """The short way of one process.

    Args:
        adapter: The adapter of the framework; its `training`, `rates(optimizer)` and `measure(meter, optimizer,
            scratch, pairs)`, the gradient norm, are used.

    Attributes:
        steady: The optimizer of a loop that is steady; `None` where the next step is to be looked at closely.
    """

    __slots__ = (
        "_adapter",
        "_backwards",
        "_clock",
        "_forwards",
        "_health",
        "_held",
        "_highest",
        "_local",
        "_meter",
        "_nested",
        "_rates",
        "_release",
        "_rests",
        "_room",
        "_thread",
        "_training",
        "_until",
        "_until_s",
        "_wait_s",
        "steady",
    )

    def __init__(self, adapter):
        self._adapter = adapter
        self._training = adapter.training
        self._local = adapter.training.local
        self._clock = adapter.training.clock
        self._rates = adapter.rates
        self.forget()
        adapter.training.probe.after_fork(self.forget)
        adapter.training.probe.before_reading(self.catch_up)
        adapter.training.catch_up = self.catch_up

    def forget(self):
        """Begins anew, in a forked child: the steps that were put aside are those of the parent."""
        self._meter = self.steady = self._health = self._release = self._rests = self._thread = None
        self._nested = False
        self._held = []
        self._room = self._backwards = self._forwards = self._until = 0
        self._until_s = self._wait_s = self._highest = -inf

    def backward(self, losses):
        """Takes a call of `backward` with the values passed to it, before it runs.

        Returns:
            Whether it is not followed and its values are finite, so that nothing else is to be done.
        """
        health = self._adapter.health
        if not health.resting or health.thread != get_ident():
            return False
        for loss in losses:
            if type(loss) is not float or loss - loss != 0.0:
                return False
        health.inside = None
        health.loop.backwards += 1
        return True

    def takes(self, value):
        """Takes a call of `backward` in a steady loop, before it runs, in place of `Training.root` and `backward`.

        Args:
            value: The one value it was called on, a float; `None` where it was called on anything else.

        Returns:
            Whether that is all; if not, nothing has happened, and the loop is steady no more.
        """
        if get_ident() != self._thread:
            return False
        state = self._local.__dict__
        # Neither comparison holds for a NaN, and only the first for an infinity: `_highest` is finite.
        if value is not None and -inf < value <= self._highest and not state["backwards"] and not state["clips"]:
            state["backwards"], state["losses"] = 1, [value]
            self._backwards += 1
            return True
        self.leave()
        return False

    def begins(self, optimizer, local, pairs=None):
        """Takes the beginning of an optimizer step without a closure, before it changes anything.

        Args:
            optimizer: It.
            local: What the thread has pending.
            pairs: Its parameters with gradients, where the framework hands them over.

        Returns:
            Whether the step goes this way; if not, nothing has happened.

        Cost: 2 microseconds, and that of the gradient norm where it is due.
        """
        health = self._adapter.health
        self.leave()
        if health is None or not health.resting or health.thread != get_ident():
            self._until = 0
            return False
        if local.lane is not None and local.in_step:
            self._nested = True
        if local.in_step or local.in_backward or local.clips or local.scaling is not None:
            return False
        training = self._training
        meter = training.meters.get(id(optimizer))
        if meter is None or meter.owner() is not optimizer or meter.waiting or training.probe.asked is not None:
            return False
        for value in local.losses:
            if type(value) is not float:
                return False
        local.norm = None
        if self._due(meter):
            norm = self._adapter.measure(meter, optimizer, meter.scratch, pairs)
            if type(norm) is not float or norm - norm != 0.0 or meter.scratch.get("local"):
                return False
            local.norm = norm
        health.inside = None
        local.lane = meter
        local.in_step = 1
        return True

    def ended(self, optimizer, local):
        """Takes the end of a step that began this way.

        Returns:
            Whether it did.

        Cost: 8 microseconds.
        """
        meter = local.lane
        if meter is None or local.in_step != 1:
            return False
        local.lane = None
        local.in_step = 0
        now = self._clock()
        training, health = self._training, self._adapter.health
        norm, local.norm = local.norm, None
        losses, backwards, _ = local.take(meter)
        health.loop.steps += 1
        health.eyes.release()
        health.phases.rest(now)
        if health.pace.leads(meter):
            self._turn(health, now)
        training.steps += 1
        training.moved = now
        meter.budget.stepped(now)
        rates = self._adapter.rates(optimizer)
        meter.add(losses, rates, norm, now, backwards)
        health.arrived(meter, losses, rates, norm, None)
        training.probe.step = meter.step
        self._settle(optimizer, meter, health, backwards, now)
        return True

    def _settle(self, optimizer, meter, health, backwards, now):
        """Finds out whether the loop is steady from here to its next step."""
        if backwards == 1 and not self._nested and meter.step >= AT_ONCE and health.pace.leads(meter):
            self._meter, self._health, self._thread = meter, health, health.thread
            self._release, self._rests = health.eyes.flight.release, health.eyes.flight.rests
            self._goes_on(optimizer, now)

    def _goes_on(self, optimizer, now):
        """Finds out whether the loop is steady still, and for how many steps, or how long, nothing is due in it."""
        health, meter = self._health, self._meter
        if not health.resting or self._due(meter):
            self.steady = None
            return
        self._room = max(min(RARE - 1 - meter.step % RARE or RARE, self._until - health.pace.steps), 1)
        self._wait_s = min(self._until_s, meter.ready_s if meter.ready_s > now else now + SHORTEST_S)
        self._highest = min(health.normal_loss.highest(), float_info.max)
        self.steady = optimizer

    def _due(self, meter):
        """Whether the norm of the gradients is due at the next step of an optimizer."""
        step = meter.step + 1
        return step % RARE == 0 and meter.budget.due(step)

    def forward(self, root, args, kwargs):
        """Takes a training forward in a steady loop, in place of `Health.forward_begins`.

        Returns:
            Whether that is all; if not, nothing has happened.
        """
        health = self._health
        if root is not health.last_root or health.evaluation.open or get_ident() != self._thread:
            return False
        self._forwards += 1
        self._rests(root, args, kwargs or {})
        return True

    def passes(self, optimizer):
        """Takes the beginning of a step of a steady loop.

        Args:
            optimizer: Which steps, `steady`.

        Returns:
            Whether it is as the ones before, so that `passed` is to be called when it has ended.
        """
        state = self._local.__dict__
        if (
            state["backwards"] == 1
            and not state["clips"]
            and state["scaling"] is None
            and not state["in_step"]
            and not state["in_backward"]
            and get_ident() == self._thread
        ):
            state["lane"], state["in_step"] = self._meter, 1
            return True
        self.leave()
        return False

    def passed(self, optimizer):
        """Takes the end of a step that began in `passes`: puts it aside.

        Returns:
            Whether that is all; else `ended` is to be called.

        Cost: 1 microsecond, and 5 more of `catch_up`.
        """
        state = self._local.__dict__
        losses = state["losses"]
        if state["in_step"] != 1 or state["backwards"] != 1 or len(losses) != 1:
            self.leave()
            return False
        state["lane"], state["in_step"], state["backwards"], state["losses"] = None, 0, 0, []
        now = self._clock()
        self._release()
        held = self._held
        held.append((losses, self._rates(optimizer), now))
        if len(held) >= self._room or now >= self._wait_s:
            self.catch_up()
            self._goes_on(optimizer, now)
        return True

    def leave(self):
        """Lets the next step be looked at closely; nothing in another thread than the one that is followed."""
        if self.steady is not None and get_ident() == self._thread:
            self.catch_up()
            self.steady = None

    def catch_up(self):
        """Does for the steps that were put aside what is done for others at once; nothing in another thread.

        Returns:
            Nothing. Counts, curves and the schedule are then where they would be without this way.
        """
        if not (self._held or self._backwards or self._forwards) or get_ident() != self._thread:
            return
        began = self._clock()
        training, health, meter = self._training, self._health, self._meter
        held, self._held = self._held, []
        training.backwards += self._backwards
        loop = health.loop
        loop.backwards += self._backwards
        loop.train_grad += self._forwards
        self._backwards = self._forwards = 0
        left = len(held)
        for losses, rates, now in held:
            left -= 1
            loop.steps += 1
            self._turn(health, now)
            if left:
                meter.hold(losses, rates, now)
            else:
                self._local.taken = meter.seen = (losses, 1, 0)
                training.moved = now
                health.phases.rest(now)
                meter.add(losses, rates, None, now, 1)
            health.arrived(meter, losses, rates, None, None)
        if held:
            training.steps += len(held)
            meter.budget.stepped(now, len(held))
            training.probe.step = meter.step
        if not health.resting:
            self.steady = None
        training.spent += self._clock() - began

    def _turn(self, health, now):
        if health.pace.steps + 1 < self._until and now < self._until_s:
            health.pace.steps += 1
        else:
            health.turn(now)
            self._plan(health)

    def _plan(self, health):
        """Finds out up to which step, and until when, a step need not be asked for what it means to the schedule."""
        steps = health.pace.steps
        step, at_s = health.schedule.next()
        self._until = min(steps - steps % ROUND + ROUND, step - 1, health.memory.next_step)
        self._until_s = min(at_s, health.memory.next_s())
