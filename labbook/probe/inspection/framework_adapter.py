"""The adapter that `torch/` and `paddle/` derive from: facts of the run, the gradient norm, the end of a step."""

from math import prod

from ..events.protocol import FRAMEWORK, STATE
from ..training import seeds
from ..training.device_values import Step, merge_fields
from ..training.fast_path import FastPath
from ..training.grad_scaler import note_raw_step
from ..training.loop_follower import NOT_DELIVERED, Training, are_floats
from .model_lookup import TrainedModels


class FrameworkAdapter:
    """A framework as `Training` wants to see it.

    Args:
        module: The imported framework.
        values: The `Scalars` of the framework.

    Attributes:
        name: Name of the framework in events.
        facts: The module `framework_state` of the framework.
        children: Name of the attribute that holds the submodules of a module.
        capturing: `capturing()` is true while reading a value would make the capture of a device graph fail.
        elements: `elements(tensor)` is the number of elements.
    """

    name = ""
    facts = None
    children = ""
    capturing = bool
    elements = staticmethod(lambda tensor: prod(tensor.shape))

    def __init__(self, module, probe, values):
        self.module = module
        self.probe = probe
        self.values = values
        values.waits = probe.settings.get("level") == "deep"
        self.training = Training(probe, self.name, self.describe)
        self.monitor = None
        self.fast_path = FastPath(self)
        self.models = TrainedModels(self.children)
        self.written_state = {}
        self.attached = None
        self.casts = {}
        self.seed_at_import = self.facts.initial_seed(module)
        probe.at_exit(self.write_state)
        probe.after_fork(self.forget)

    def install(self, signals):
        """Installs hooks, of which each may fail, by the name that the `framework` event lists.

        Returns:
            `(attached, declined)`: the names of those that were installed, and the errors of the others by name.
        """
        attached, declined = [], {}
        for signal, install in signals.items():
            try:
                install(self)
                attached.append(signal)
            except Exception as error:
                declined[signal] = "%s: %s" % (type(error).__name__, error)
                self.probe.failed("%s.attach %s" % (self.name, signal), error)
        return attached, declined

    def write_facts(self, attached, declined):
        """Writes the `framework` event."""
        with self.probe.guard(self.name + ".facts"):
            facts = self.facts.framework_facts(self.module)
            self.probe.event(FRAMEWORK, name=self.name, attached=attached, declined=declined, **facts)
        self.attached = (attached, declined)

    def forget(self):
        """Begins anew, in a forked child or a further recording."""
        self.models.forget()
        self.written_state.clear()
        if self.probe.role != "fork" and self.attached:
            self.write_facts(*self.attached)

    def describe(self, optimizer, closure):
        """Fields of the `optimizer` event; what is known of the model and the process is written beside it."""
        model = {}
        with self.probe.guard(self.name + ".model"):
            own = self.facts.parameters(optimizer)
            model = self.models.add(optimizer, own, self.find_model, self.facts.model_facts)
            self.write_state()
        return dict(self.facts.optimizer_facts(optimizer, closure), **model)

    def write_state(self):
        """Writes the facts that have changed since they were last written; a fork that trains nothing writes none."""
        if self.probe.role == "fork" and not self.models and not self.training.backwards:
            return
        state = self.read_state()
        changed = self.changed_state(state)
        self.written_state.update(state)
        if changed:
            self.probe.event(STATE, framework=self.name, **changed)

    def read_state(self):
        """Fields of the `state` event as they are now."""
        state = self.facts.state_facts(self.module, self.seed_at_import, self.mode())
        state["seeds"] = dict(seeds.unseeded_generators(), **seeds.SEEN, **state["seeds"])
        state["amp"] = list(self.casts.values()) or None
        state.update(self.models.state_fields())
        return state

    def changed_state(self, state):
        """Those fields of `state` that differ from what was last written."""
        written = self.written_state
        return {name: value for name, value in state.items() if name not in written or written[name] != value}

    def measure(self, recorder, optimizer, scratch, pairs=None):
        """Total gradient norm of an optimizer, before clipping where the program clips; `None` when it is not due.

        Args:
            recorder: The `StepRecorder` of the optimizer.
            scratch: A dict that belongs to the optimizer.
            pairs: The optimizer's parameters with gradients, where the framework hands them over.

        Returns:
            A float, or a scalar on the device.
        """
        training = self.training
        local = training.local
        local.clipped = False
        found = {}
        for clip in local.clips:
            share = clip.share_of(scratch, optimizer, self.facts.parameters, self.values.gradient)
            found.setdefault(share, clip)
        whole = found.get("all")
        if self.monitor is not None and not found.keys() <= {"none"}:
            self.monitor.loop.optimizer(recorder.index).norms["after" if whole is None else "before"] += 1
        if whole is not None:
            local.clipped = True
            scratch["local"] = whole.local
            return whole.norm
        if not recorder.budget.is_due(recorder.step + 1) or self.probe.is_profiling or self.capturing():
            return None
        began = training.clock()
        value = self.gradient_norm(optimizer, scratch, pairs)
        recorder.budget.cost(training.clock() - began)
        return value

    def finish_slow_step(self, optimizer, recorder, norm):
        """Numbers a step that did not take the fast path, and hands its values on."""
        training = self.training
        local = training.local
        rates = self.rates(optimizer)
        if recorder is training.fused:
            training.on_step_in_backward(rates, norm)
            return
        losses, backwards, unscaled = local.take(recorder)
        extra = {"local": True} if norm is not None and recorder.scratch.get("local") else None
        inputs = None
        if self.monitor is not None:
            inputs = self.monitor.inspector.flight_recorder.take_sum()
            if backwards > 1 or not recorder.step:
                step_losses, first = self.monitor.step_losses, not recorder.step
                extra = merge_fields(
                    extra, step_losses.select_losses(optimizer, losses, backwards, local.taken_starts, first)
                )
            if backwards > 1:
                self.monitor.loop.accumulated(
                    recorder.index, self.monitor.step_losses.use_of_gradients(optimizer, backwards)
                )
            if local.raw:
                note_raw_step(local, self.is_scaled, self.monitor.loop.scaler)
            extra = merge_fields(extra, self.monitor.step_ended(optimizer, recorder, norm, backwards))
        scaling = local.scaling
        if scaling is None and (norm is None or type(norm) is float) and are_floats(losses):
            training.step(recorder, losses, rates, norm, backwards, extra, None)
            return
        step = Step(losses, norm, inputs, extra)
        if scaling is not None:
            scaling.complete(step, local.clipped, unscaled, *self.scaler_results(optimizer))
        if step.send(self.values):
            training.step(recorder, (), rates, None, backwards, extra, step)
        else:
            training.step(recorder, (), rates, None, backwards, extra, None)
            training.unobserved(*NOT_DELIVERED)

    # what the frameworks do in their own way

    def mode(self):
        """How the program computes: "dynamic", "static" or "compiled"."""
        raise NotImplementedError

    def find_model(self, parameters, sweep=True):
        """The module that owns these parameters and no other trained one, and the outermost around it: `find_root`."""
        raise NotImplementedError

    def loss_values(self, tensors):
        """The scalars that were passed to `backward`, without the factor of a gradient scaler where that is known."""
        local = self.training.local
        if not isinstance(tensors, (tuple, list)):
            tensors = (tensors,)
        losses = []
        for tensor in tensors:
            if self.elements(tensor) != 1:
                continue
            if local.scaled is not None and local.scaled[0]() is tensor:
                tensor = local.scaled[1]
                local.unscaled += 1
            value = self.values.scalar(tensor)
            if value is not None:
                losses.append(value)
        local.scaled = None
        return losses

    def is_scaled(self, local):
        """Whether the gradients of a thread still carry the factor of the scaler that scaled its loss."""
        raise NotImplementedError

    def gradient_norm(self, optimizer, scratch, pairs):
        """Total gradient norm of an optimizer now; arguments and result are those of `measure`."""
        raise NotImplementedError

    def scaler_results(self, optimizer):
        """`(divisor, found)` of a step under a gradient scaler: see `Step.record_scaling`."""
        raise NotImplementedError
