"""The short way for steps that are not followed: of very short steps most, and each takes its toll.

Knows no framework. What is told of a step is the same as on the long way, which takes every step that is anything but
ordinary: several optimizers in one, closures, gradient scalers, clipping, values on a device or not finite.
"""

from _thread import get_ident
from math import inf

from .health_pace import ROUND


class Lane:
    """The short way of one process.

    Args:
        adapter: The adapter of the framework; its `training`, `rates(optimizer)` and `measure(meter, optimizer,
            scratch, pairs)`, the gradient norm, are used.
    """

    __slots__ = ("_adapter", "_clock", "_training", "_until", "_until_s")

    def __init__(self, adapter):
        self._adapter = adapter
        self._training = adapter.training
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
        if health is None or not health.resting or health.thread != get_ident():
            self._until = 0
            return False
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
        if meter.budget.due(meter.step + 1):
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
        pace = health.pace
        if pace.leads(meter):
            if pace.steps + 1 < self._until and now < self._until_s:
                pace.steps += 1
            else:
                health.turn(now)
                self._plan(health)
        training.steps += 1
        training.moved = now
        meter.budget.stepped(now)
        rates = self._adapter.rates(optimizer)
        meter.add(losses, rates, norm, now, backwards)
        health.arrived(meter, losses, rates, norm, None)
        training.probe.step = meter.step
        return True

    def _plan(self, health):
        """Finds out up to which step, and until when, a step need not be asked for what it means to the schedule."""
        steps = health.pace.steps
        step, at_s = health.schedule.next()
        self._until = min(steps - steps % ROUND + ROUND, step - 1)
        self._until_s = min(at_s, health.memory.next_s())
