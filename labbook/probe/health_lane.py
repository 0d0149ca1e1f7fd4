"""The short way for steps that are not followed: of very short steps most, and each takes its toll.

Knows no framework. What is told of a step is the same as on the long way, which takes every step that is anything but
ordinary: several optimizers in one, closures, gradient scalers, clipping, values on a device or not finite.

A loop whose last step went the short way is steady until something is out of the ordinary: then a call that the program
makes meets a handful of instructions. In the middle of a training step nothing of ours is in a cache, and each of them
costs several times what it costs alone.
"""

from _thread import get_ident
from math import inf

from .health_pace import ROUND

RARE = 16
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

    __slots__ = ("_adapter", "_clock", "_local", "_meter", "_nested", "_training", "_until", "_until_s", "steady")

    def __init__(self, adapter):
        self._adapter = adapter
        self._training = adapter.training
        self._local = adapter.training.local
        self._meter = self.steady = None
        self._nested = False
        self._clock = adapter.training.clock
        self._until = 0
        self._until_s = -inf

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
        self.steady = None
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
        self._settle(optimizer, meter, health, backwards)
        return True

    def _settle(self, optimizer, meter, health, backwards):
        """Finds out whether the loop is steady from here to its next step."""
        if backwards == 1 and health.resting and not self._nested and not self._due(meter) and health.pace.leads(meter):
            self._meter = meter
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
        health = self._adapter.health
        if root is not health.last_root or health.evaluation.open or health.thread != get_ident() or not health.resting:
            return False
        health.loop.train_grad += 1
        health.eyes.flight.rests(root, args, kwargs or {})
        return True

    def passes(self, optimizer):
        """Takes the beginning of a step of a steady loop.

        Args:
            optimizer: Which steps, `steady`.

        Returns:
            Whether it is as the ones before, so that `passed` is to be called when it has ended.
        """
        state, health = self._local.__dict__, self._adapter.health
        if (
            health.resting
            and state["backwards"] == 1
            and not state["clips"]
            and state["scaling"] is None
            and not state["in_step"]
            and not state["in_backward"]
            and health.thread == get_ident()
            and self._meter.owner() is optimizer
            and not self._meter.waiting
        ):
            state["lane"], state["in_step"] = self._meter, 1
            return True
        self.steady = None
        return False

    def passed(self, optimizer):
        """Takes the end of a step that began in `passes`.

        Returns:
            Whether that is all; else `ended` is to be called.

        Cost: 3 microseconds.
        """
        state = self._local.__dict__
        meter, losses = self._meter, state["losses"]
        if state["in_step"] != 1 or state["backwards"] != 1 or len(losses) != 1 or type(losses[0]) is not float:
            self.steady = None
            return False
        state["lane"], state["in_step"] = None, 0
        now = self._clock()
        training, health = self._training, self._adapter.health
        state["taken"] = meter.seen = (losses, 1, state["unscaled"])
        state["losses"], state["backwards"], state["unscaled"] = [], 0, 0
        health.loop.steps += 1
        health.eyes.release()
        health.phases.rest(now)
        self._turn(health, now)
        training.steps += 1
        training.moved = now
        meter.budget.stepped(now)
        rates = self._adapter.rates(optimizer)
        meter.add(losses, rates, None, now, 1)
        health.arrived(meter, losses, rates, None, None)
        training.probe.step = meter.step
        if not health.resting or self._due(meter):
            self.steady = None
        training.spent += self._clock() - now
        return True

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
