"""The fast path of a steady loop with very short steps: steps are counted, and processed in batches.

Independent of the framework. The records of a step are the same as on the slow path, which processes unusual steps:
several optimizers in one, closures, gradient scalers, clipping, values on a device or not finite.

A loop whose last step took the fast path is steady until a step is unusual. In the middle of a training step none of
the probe's code is in a cache, and each instruction costs several times what it costs alone. So the steps of a steady
loop are only queued with their numbers, and processed in batches (`catch_up`) before their results are read.
"""

from _thread import get_ident
from math import inf
from sys import float_info

from .step_recorder import AT_ONCE, SHORTEST_S
from .step_sampling import ROUND

RARE = 32
"""Maximum interval of gradient norms on the fast path, at multiples of it: one costs three times its measured duration.
Source: chosen by us; the loss is read in each step."""


class FastPath:
    """The fast path of one process.

    Args:
        adapter: The adapter of the framework; its `training`, `rates(optimizer)` and `measure(meter, optimizer,
            scratch, pairs)`, the gradient norm, are used.

    Attributes:
        steady: The optimizer of a steady loop; `None` if the next step takes the slow path.
    """

    __slots__ = (
        "_adapter",
        "_backwards",
        "_clock",
        "_forwards",
        "_held",
        "_highest",
        "_local",
        "_monitor",
        "_nested",
        "_rates",
        "_recorder",
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
        """Reset in a forked child: the queued steps are those of the parent."""
        self._recorder = self.steady = self._monitor = self._release = self._rests = self._thread = None
        self._nested = False
        self._held = []
        self._room = self._backwards = self._forwards = self._until = 0
        self._until_s = self._wait_s = self._highest = -inf

    def accept_unfollowed_backward(self, losses):
        """Process a call of `backward` with the values passed to it, before it runs.

        Returns:
            Whether it is not followed and its values are finite, so that no other processing is needed.
        """
        monitor = self._adapter.monitor
        if not monitor.skipping or monitor.thread != get_ident():
            return False
        for loss in losses:
            if type(loss) is not float or loss - loss != 0.0:
                return False
        if self._local.backwards > 1:
            if monitor.step_losses.wants_look(monitor.loop):
                return False
            monitor.step_losses.not_looked()
        monitor.inside = None
        monitor.loop.backwards += 1
        return True

    def accept_backward(self, value):
        """Process a call of `backward` in a steady loop, instead of `Training.on_backward`.

        Args:
            value: The only value it was called on, a float; `None` for anything else.

        Returns:
            Whether it was processed; if not, nothing has changed, and the loop is no longer steady.
        """
        if get_ident() != self._thread:
            return False
        state = self._local.__dict__
        # Both comparisons are false for NaN, and the second for infinity: `_highest` is finite.
        if value is not None and -inf < value <= self._highest and not state["backwards"] and not state["clips"]:
            state["backwards"], state["losses"] = 1, [value]
            self._backwards += 1
            return True
        self.stop()
        return False

    def begin_unfollowed_step(self, optimizer, local, pairs=None):
        """Process the beginning of an optimizer step without a closure, before it changes anything.

        Args:
            local: Pending values of the thread.
            pairs: The optimizer's parameters with gradients, if the framework passes them.

        Returns:
            Whether the step takes the fast path; if not, nothing has changed.

        Cost: 2 microseconds, plus the gradient norm if it is due.
        """
        monitor = self._adapter.monitor
        self.stop()
        if monitor is None or not monitor.skipping or monitor.thread != get_ident():
            self._until = 0
            return False
        if local.fast_step is not None and local.in_step:
            self._nested = True
        if local.in_step or local.in_backward or local.clips or local.scaling is not None:
            return False
        training = self._training
        recorder = training.recorders.get(id(optimizer))
        if (
            recorder is None
            or recorder.owner() is not optimizer
            or recorder.waiting
            or training.probe.requests is not None
        ):
            return False
        for value in local.losses:
            if type(value) is not float:
                return False
        local.norm = None
        if self._is_norm_due(recorder):
            norm = self._adapter.measure(recorder, optimizer, recorder.scratch, pairs)
            if type(norm) is not float or norm - norm != 0.0 or recorder.scratch.get("local"):
                return False
            local.norm = norm
        monitor.inside = None
        local.fast_step = recorder
        local.in_step = 1
        return True

    def finish_unfollowed_step(self, optimizer, local):
        """Process the end of a step that began on the fast path.

        Returns:
            Whether it began there.

        Cost: 8 microseconds.
        """
        recorder = local.fast_step
        if recorder is None or local.in_step != 1:
            return False
        local.fast_step = None
        local.in_step = 0
        now = self._clock()
        training, monitor = self._training, self._adapter.monitor
        norm, local.norm = local.norm, None
        losses, backwards, _ = local.take(recorder)
        monitor.loop.steps += 1
        monitor.step_sampler.unfollowed += 1
        monitor.inspector.release()
        monitor.phases.skip_step(now)
        if monitor.step_sampler.is_leading(recorder):
            self._turn(monitor, now)
        training.steps += 1
        training.moved = now
        recorder.budget.on_steps(now)
        rates = self._adapter.rates(optimizer)
        extra = (
            monitor.step_losses.select_losses(optimizer, losses, backwards, local.taken_starts)
            if backwards > 1
            else None
        )
        recorder.add(losses, rates, norm, now, backwards, extra)
        monitor.on_values(recorder, losses, rates, norm, extra)
        training.probe.step = recorder.step
        self._settle(optimizer, recorder, monitor, backwards, now)
        return True

    def _settle(self, optimizer, recorder, monitor, backwards, now):
        """Determine whether the loop is steady from here to its next step."""
        if (
            backwards == 1
            and not self._nested
            and recorder.step >= AT_ONCE
            and monitor.step_sampler.is_leading(recorder)
        ):
            self._recorder, self._monitor, self._thread = recorder, monitor, monitor.thread
            self._release, self._rests = (
                monitor.inspector.flight_recorder.release,
                monitor.inspector.flight_recorder.keep_call,
            )
            self._extend(optimizer, now)

    def _extend(self, optimizer, now):
        """Determine whether the loop is still steady, and for how many steps or seconds nothing is due."""
        monitor, recorder = self._monitor, self._recorder
        if not monitor.skipping or self._is_norm_due(recorder):
            self.steady = None
            return
        self._room = max(min(RARE - 1 - recorder.step % RARE or RARE, self._until - monitor.step_sampler.steps), 1)
        self._wait_s = min(self._until_s, recorder.ready_s if recorder.ready_s > now else now + SHORTEST_S)
        self._highest = min(monitor.normal_loss.highest_usual(), float_info.max)
        self.steady = optimizer

    def _is_norm_due(self, recorder):
        """Whether the norm of the gradients is due at the next step of an optimizer."""
        step = recorder.step + 1
        return step % RARE == 0 and recorder.budget.is_due(step)

    def accept_forward(self, root, args, kwargs):
        """Process a training forward in a steady loop, instead of `TrainingMonitor.forward_begins`.

        Returns:
            Whether it was processed; if not, nothing has changed.
        """
        monitor = self._monitor
        if root is not monitor.last_root or monitor.evaluation.open or get_ident() != self._thread:
            return False
        self._forwards += 1
        self._rests(root, args, kwargs or {})
        return True

    def begin_step(self, optimizer):
        """Process the beginning of a step of a steady loop.

        Args:
            optimizer: The optimizer, equal to `steady`.

        Returns:
            Whether it is like the previous ones; then call `finish_step` at its end.
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
            state["fast_step"], state["in_step"] = self._recorder, 1
            return True
        self.stop()
        return False

    def finish_step(self, optimizer):
        """Queue a step that began in `begin_step`, at its end.

        Returns:
            Whether it was processed; else call `finish_unfollowed_step`.

        Cost: 1 microsecond, and 5 more of `catch_up`.
        """
        state = self._local.__dict__
        losses = state["losses"]
        if state["in_step"] != 1 or state["backwards"] != 1 or len(losses) != 1:
            self.stop()
            return False
        state["fast_step"], state["in_step"], state["backwards"], state["losses"] = None, 0, 0, []
        now = self._clock()
        self._release()
        held = self._held
        held.append((losses, self._rates(optimizer), now))
        if len(held) >= self._room or now >= self._wait_s:
            self.catch_up()
            self._extend(optimizer, now)
        return True

    def stop(self):
        """Let the next step take the slow path; does nothing in other threads than the followed one."""
        if self.steady is not None and get_ident() == self._thread:
            self.catch_up()
            self.steady = None

    def catch_up(self):
        """Process the queued steps; does nothing in other threads.

        Counts, curves and the schedule are then the same as on the slow path.
        """
        if not (self._held or self._backwards or self._forwards) or get_ident() != self._thread:
            return
        began = self._clock()
        training, monitor, recorder = self._training, self._monitor, self._recorder
        held, self._held = self._held, []
        self._room -= len(held)  # else what is due is seen in the middle of a step, after its first forward
        training.backwards += self._backwards
        loop = monitor.loop
        loop.backwards += self._backwards
        loop.train_grad += self._forwards
        self._backwards = self._forwards = 0
        left = len(held)
        monitor.step_sampler.unfollowed += left
        for losses, rates, now in held:
            left -= 1
            loop.steps += 1
            self._turn(monitor, now)
            if left:
                recorder.defer(losses, rates, now)
            else:
                self._local.taken = recorder.seen = (losses, 1, 0)
                training.moved = now
                monitor.phases.skip_step(now)
                recorder.add(losses, rates, None, now, 1)
            monitor.on_values(recorder, losses, rates, None, None)
        if held:
            training.steps += len(held)
            recorder.budget.on_steps(now, len(held))
            training.probe.step = recorder.step
        if not monitor.skipping:
            self.steady = None
        training.overhead_s += self._clock() - began

    def _turn(self, monitor, now):
        if monitor.step_sampler.steps + 1 < self._until and now < self._until_s:
            monitor.step_sampler.steps += 1
        else:
            monitor.next_step(now)
            self._plan(monitor)

    def _plan(self, monitor):
        """Determine up to which step, and until when, the schedule needs no evaluation."""
        steps = monitor.step_sampler.steps
        step, at_s = monitor.schedule.next_dense_step()
        self._until = min(steps - steps % ROUND + ROUND, step - 1, monitor.memory.next_step)
        self._until_s = min(at_s, monitor.memory.next_s())
