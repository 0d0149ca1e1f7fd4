"""Monitors a training: the events of its loop at each step, and its tensors at some steps.

Independent of the framework: it follows the order of forwards, backwards and steps, counts them, and decides when to
inspect tensors; the `inspector` of a framework reads them. One thread is followed, the first that calls `backward`.
"""

from _thread import get_ident
from collections import deque
from time import thread_time

from ..events.measurement_kinds import LOOP
from .batch_fingerprints import Windows
from .evaluation import Evaluation
from .loop_counts import LoopCounts
from .loop_follower import may_read_gradients
from .model_roles import ModelRoles
from .overhead import ProbeOverhead
from .process_memory import ProcessMemory
from .sampling_schedule import Schedule, UsualRange
from .stale_gradients import StaleGradientCheck
from .step_losses import StepLosses, step_loss
from .step_phases import StepPhases
from .step_sampling import StepSampler
from .updates_by_hand import UpdatesByHand


class TrainingMonitor:
    """Monitors the training of one framework in this process.

    Args:
        adapter: The adapter of the framework; its `probe` and `training` are used.
        inspector: Reads tensors; see the methods of `TensorInspector` (`inspection/inspector.py`).
    """

    def __init__(self, adapter, inspector):
        self.probe = adapter.probe
        self.training, self._adapter = adapter.training, adapter
        self.fast_path, self.name = adapter.fast_path, adapter.name
        self.inspector = inspector
        self.clock = adapter.training.clock
        self.level = str(self.probe.settings.get("level") or "normal")
        self._begin()
        inspector.monitor = self
        self.probe.at_steps(self._write_loop)
        self.probe.at_exit(self.finish)
        self.probe.after_fork(self._begin)

    def _begin(self):
        now = self.clock()
        self.thread = None
        few = self.level == "normal" and self.probe.has_short_trials
        self.schedule = Schedule("light" if few else self.level, now)
        self.overhead, self._usual = ProbeOverhead(thread_time), True
        self.dense = True
        self.loop = LoopCounts(self.name)
        self.stale_gradients = StaleGradientCheck(self.training, self.inspector)
        self.step_losses = StepLosses(self.inspector)
        self.phases = StepPhases(self.clock, self.training.total_overhead_s)
        self.evaluation = Evaluation(self.probe.event, self.name, self.inspector.losses.metrics())
        self.windows = Windows(self.probe.event, self.name)
        self.recent = deque(maxlen=20)
        self.ratio = self.fresh = self.inside = None
        self.loaders_seen, self.cost, self.skipping = 0, 0.0, False
        self.step_sampler = StepSampler(now)
        self.memory = ProcessMemory(self.probe.event, self.name, now)
        self.last_root, self.roles = None, ModelRoles()
        self.normal_loss, self._normal_norm = UsualRange(), UsualRange()
        self._forward_began = self._backward_began = self._step_began = None
        self._samples, self._trained_elsewhere = 0, False

    @property
    def step(self):
        """Number of the next optimizer step, from 1."""
        self.fast_path.catch_up()
        return self.step_sampler.steps + 1

    @property
    def step_s(self):
        """Mean duration of a step in seconds, over the last full round of steps; 0 before."""
        return self.step_sampler.step_s

    def is_followed_thread(self):
        """Whether this thread is followed; the first caller is."""
        self.thread = get_ident() if self.thread is None else self.thread
        if self.thread == get_ident():
            return True
        if not self._trained_elsewhere:
            self._trained_elsewhere = True
            self.probe.unobserved("health of training in further threads", "one thread is followed")
        return False

    def is_in_own_work(self):
        """Whether neither a backward nor an optimizer step is under way."""
        return self._backward_began is None and self._step_began is None

    # Events of data loaders and models.

    def batch(self, batch, waited):
        """Process a batch that a loader returned after `waited` seconds."""
        if self.skipping:
            self.fresh = None
            return
        self.phases.data += waited
        self.fresh = batch
        self.loaders_seen = 8

    def forward_begins(self, root, args, kwargs, grad, training):
        """Process the beginning of a call of an outermost model.

        Args:
            root: Facts about the model: `index`, `name`, `stochastic`, `training()`, and `shown`, whether its
                `model` event was written.
            args: Its arguments; not stored longer than a step.
            training: Whether it is in training mode.

        Returns:
            Whether to report its end, too.
        """
        if self.inside not in (None, root) or self.thread not in (None, get_ident()):
            return False
        if self.training.by_hand is not None:
            self.training.by_hand.check()
        if self.skipping and grad and training and not self.evaluation.open:
            if root is self.last_root:
                self.loop.train_grad += 1
                self.inspector.flight_recorder.keep_call(root, args, kwargs)
            root.thread = self.thread
            self.roles.steps[root.index] = self.step
            return False
        self.inside = root
        root.thread = get_ident()
        self.loop.forward(root.index, grad, training)
        batch = self._batch(args, kwargs)
        if batch is None and grad and training and self.windows.evaluated:
            batch = self.windows.trained_counterpart(self.inspector.samples_of(args, kwargs))
        samples = self._samples if batch is None else batch.samples
        other = self.roles.on_forward(self, root, args, kwargs, grad, samples)
        if grad and training:
            if self.evaluation.open:
                self._on_evaluation()
            self.last_root, phase = root, "train"
            if self.probe.requests is not None:
                self.probe.requests.on_forward(root, args, kwargs, batch)
            self.phases.samples += samples
            if not self.dense and not root.shown and self.schedule.affordable(self.clock()):
                self.dense = True
                self.phases.discard_step()
            self.inspector.flight_recorder.on_forward(root, args, kwargs, batch)
            if self.dense:
                self._timed(self.inspector.before_forward, root, args, kwargs, batch)
        else:
            phase = "eval"
            self._evaluation_begins(root, args, kwargs, batch, other, grad, training)
        if batch is not None:
            self.windows.add(batch, phase)
        elif samples:
            self.windows.count(None, phase, samples)
        self._forward_began = self.training.moved = self.clock()
        return True

    def _evaluation_begins(self, root, args, kwargs, batch, other, grad, training):
        """Process the beginning of a call in evaluation mode or without a gradient; `other`: of an untrained model."""
        stochastic = root.has_stochastic_in(training)
        self.inspector.release()
        if grad:
            other = self.loop.trains_another(root.index, self.step)  # a teacher, or a network that judges
            self.last_root = self.last_root if other else root
            self.inspector.flight_recorder.on_forward(root, args, kwargs, batch)
            if self.dense and not self.loop.train_grad:  # it may be trained in this mode
                self._timed(self.inspector.before_forward, root, args, kwargs, batch)
        elif training and stochastic:
            self.loop.without_gradient(root, self.step if other else None, self.inspector.parameter_print)
        self.evaluation.forward(self.step, root.name, training, grad, stochastic, other, self.roles.whole, batch)
        self.inspector.evaluates(root, args, kwargs)

    def forward_ended(self, root, output):
        """Process the end of a call of an outermost model."""
        if self.inside is not root:
            return
        self.inside = None
        began, self._forward_began = self._forward_began, None
        if began is None:
            return
        self.phases.forward += self.clock() - began
        self.inspector.flight_recorder.on_output(root, output)
        self.evaluation.outputs(output)
        if self.dense:
            self._timed(self.inspector.after_forward, root, output)

    def _batch(self, args, kwargs):
        """Return the batch of a call: the last one of a loader, else the arguments of the model."""
        batch, self.fresh = self.fresh, None
        self._samples = 0
        if batch is not None:
            return batch
        if self.loaders_seen:
            self.loaders_seen -= 1
            return None
        wants, rows = self.windows.wants(None, 0)
        if wants or self.dense:
            return self.inspector.batch_of(args, kwargs, wants, rows)
        self._samples = self.inspector.samples_of(args, kwargs)
        return None

    # Events of the autograd engine.

    def backward_begins(self, tensors, losses):
        """Process a call of `backward`, before it runs.

        Args:
            tensors: The tensors it is called on.
            losses: Their known values: floats, or scalars on a device.
        """
        if not self.is_followed_thread():
            return
        self.inside, loop, local = None, self.loop, self.training.local
        if (by_hand := self.training.by_hand) is not None:
            self.training.by_hand = by_hand.successor(self.inspector.leaves, tensors, losses)
        self.step_losses.backward_begins(local, loop, self.skipping)
        if self.skipping:
            loop.backwards += 1
            self._check_losses(losses, tensors)
            return
        loop.backward()
        if (root := self.last_root) is not None:
            loop.backward_mode(root.training(), root.stochastic)
        self.stale_gradients.before_backward(loop, self.dense)
        self.inspector.flight_recorder.backward(tensors)
        self.inspector.graph(loop.backwards, tensors)
        if loop.backwards == 1 and not loop.optimizers_made and not loop.steps and not self.training.steps:
            self.training.by_hand = UpdatesByHand(self._adapter, self, self.inspector.leaves(tensors))
        if self.memory.wants_mark(self.dense, loop.backwards):
            self.memory.mark(self.inspector.mark_graph(tensors))
        self._check_losses(losses, tensors)
        self._backward_began = self.clock()

    def _check_losses(self, losses, tensors):
        for loss in losses:
            if type(loss) is float and loss - loss != 0.0:
                self._timed(self.inspector.flight_recorder.failed, "loss", loss, tensors)
                return

    def backward_ended(self):
        """Process the end of the outermost call of `backward`."""
        if self.thread is not None and self.thread != get_ident():
            return
        self.step_losses.backward_ended()
        began, self._backward_began = self._backward_began, None
        if began is None:
            return
        ended = self.clock()
        self.phases.backward += ended - began
        self.inspector.graph_ended(self.loop.backwards)
        self.training.overhead_s += self.clock() - ended

    # Events of the optimizers.

    def step_begins(self, optimizer, recorder, norm, closure):
        """Process the beginning of an optimizer step, before it changes anything.

        Args:
            norm: Total gradient norm: a float, a scalar on a device, or `None` if it was not measured.
            closure: Whether gradients are computed inside the step.
        """
        if not self.is_followed_thread():
            return
        self.inside = None
        if not (recorder.step or closure):
            self.inspector.first_step(optimizer)
        if self.skipping:
            self._check_norm(norm)
            return
        if not closure:
            self.stale_gradients.before_step(self.loop, optimizer, recorder, norm)
            self._check_norm(norm)
        if self.dense:
            self._timed(self.inspector.before_step, optimizer, recorder, closure)
        self._step_began = self.clock()

    def step_ended(self, optimizer, recorder, norm, backwards):
        """Process the end of an optimizer step.

        Returns:
            Additional fields of its `step` record, or `None`.
        """
        if self.thread is not None and self.thread != get_ident():
            return None
        now = self.clock()
        if self.skipping:
            self.loop.steps += 1
            self.inspector.release()
            self.phases.skip_step(now)
            if self.step_sampler.is_leading(recorder):
                self.next_step(now)
            return None
        if self._step_began is not None:
            self.phases.optimizer += now - self._step_began
            self._step_began = None
        one = self.loop.optimizer(recorder.index)
        if not backwards and one.steps and self.inspector.gradient_version(optimizer) == one.mark:
            one.without_backward += 1
        self.loop.step(recorder.index, backwards)
        one.mark = self.inspector.gradient_version(optimizer) if one.steps < 256 else None
        if self.evaluation.open:
            self._on_evaluation()
        if self.dense:
            self._timed(self.inspector.after_step, optimizer, recorder, norm)
        self.inspector.release()
        extra = self.phases.step(now)
        if self.step_sampler.is_leading(recorder):
            self.next_step(now)
        return extra

    def _on_evaluation(self):
        self.evaluation.end(self.step)
        self._usual = False

    def next_step(self, now):
        """Begin the next step: decide whether it is dense, and whether it is followed."""
        step_sampler = self.step_sampler
        step_sampler.end_of_step(now, self.training.total_overhead_s() - self.overhead.counted - self.cost, self.dense)
        steps = step_sampler.steps
        usual, self._usual = self._usual, True
        if self.dense:
            began = thread_time()
            self.memory.write_event(now, steps, self.inspector.device_memory())
            self.inspector.end_of_step(steps)
            now = self.clock()
            counted, self.cost = self.cost + thread_time() - began, 0.0
            self.schedule.looked(steps, now, self.overhead.looked(steps, counted, usual))
            if self.schedule.looks == 1:
                self.phases.discard_step()
        else:
            self.overhead.on_ordinary_step(steps, usual)
            if self.memory.is_due(now, steps):
                self.memory.write_event(now, steps, self.inspector.device_memory())
        # Profiled steps are those of the program: what is due in them is looked at after them.
        profiled = self.probe.is_profiling
        self.dense = not profiled and self.schedule.is_due(steps + 1, now)
        if self.dense:
            self.phases.discard_step()
        self.skipping = profiled or (step_sampler.fast and not self.dense and step_sampler.is_skipped())
        if self.skipping:
            self.windows.cut()

    def on_clip(self, norm, limit, function):
        """Process a call of a clipping function with the norm before clipping."""
        known = type(norm) is float
        self.loop.on_clip(norm if known else None, limit, "value" if "value" in function else "norm")
        if known and norm - norm != 0.0 and self.is_followed_thread():
            self._check_norm(norm)

    def _check_norm(self, norm):
        """Report a non-finite norm to the flight recorder; with scaled losses such norms are normal."""
        if type(norm) is float and norm - norm != 0.0 and not self.training.local.scales:
            self._timed(self.inspector.flight_recorder.failed, "gradient", norm, None)

    def on_values(self, recorder, losses, rates, norm, extra):
        """Process the numbers of a step, once they are known; abnormal ones start a series of dense steps."""
        loss = step_loss(losses, extra["counted"] if extra is not None and "counted" in extra else None)
        ratio, self.ratio = self.ratio, None
        self.recent.append((recorder.step, loss, norm, rates[0] if rates else None, ratio))
        if extra is not None and "scale" in extra:
            self.loop.scale(extra["scale"])
        normal = loss is None or self.normal_loss.accepts(loss)
        normal = (norm is None or self._normal_norm.accepts(norm)) and normal
        if not normal and self.schedule.alarm(self.step_sampler.steps) and not self.probe.is_profiling:
            self.dense = True
            self.skipping = False
            self.phases.discard_step()

    def _timed(self, look, *args):
        """Call a method of the inspector and measure its time."""
        began = thread_time()
        try:
            look(*args)
        finally:
            self.cost += thread_time() - began

    # Events that are written.

    def _write_loop(self, step=None):
        if not (self.loop.backwards or self.loop.steps or self.loop.losses_open or self.loop.raised):
            return
        self.loop.scaler["skipped"] = sum(m.skipped_in_all for m in self.training.recorders.values())
        if may_read_gradients(self.thread):
            with self.probe.guard(self.name + ".totals"):
                self.inspector.totals(self.loop)
        self.probe.event(LOOP, **self.loop.count_fields())

    def finish(self):
        """Write the data that is only in memory."""
        self.evaluation.end(self.step)
        self.windows.flush()
        self.inspector.finish()
        self._write_loop()
        for what, reason in (self.schedule.left_out(), self.step_sampler.left_out()):
            if reason:
                self.probe.unobserved(what, reason)
