"""The flight recorder of PaddlePaddle: see `inspection/flight_recorder.py`."""

from math import prod
from time import perf_counter
from weakref import ref

from ..inspection import flight_recorder
from ..inspection.flight_recorder import MOST_OUTPUTS, RecordedCall
from ..inspection.nested import tensors_in
from . import framework_state
from .loss_expression import LossExpression
from .replay import Replay

SMALL = 1 << 20
"""Elements of outputs up to which their incoming gradient is kept. Source: chosen by us; memory must not grow."""

SLOW_S = 0.005
"""Steps that take as long have the gradients of their outputs kept: a hook in the backward costs 30 microseconds."""

MOST_OTHERS = 4
"""Models that were called before the last one in a step, of which a call is kept."""


class FlightRecorder(flight_recorder.FlightRecorder):
    """The flight recorder of one process that uses PaddlePaddle."""

    REPLAY = Replay

    def __init__(self, paddle, inspector):
        super().__init__(paddle, inspector)
        self._state = paddle.base.core.default_cpu_generator().get_state
        self._tracer = paddle.base.framework._dygraph_tracer
        self._off = paddle.base.core.AmpLevel.O0
        self._tensor = paddle.Tensor
        self._cuda = paddle.device.is_compiled_with_cuda()
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        super().forget()
        self._others = []
        self._gap_s = self._before = 0.0

    def on_forward(self, root, args, kwargs, batch):
        """Keeps a call of a model; the one before is released.

        Cost: 2 microseconds.
        """
        if self.done:
            return
        now = perf_counter()
        self._gap_s, self._before = now - self._before, now
        self._unfold()
        if self.call is not None and self.call.root is not root and len(self._others) < MOST_OTHERS:
            self._others.append(self.call)
        state = self.last_state = self._state()
        call = self.call = RecordedCall(root, args, kwargs, batch, state)
        if self._cuda and framework_state.is_gpu_in_use(self.framework):
            call.device_states = self.framework.get_cuda_rng_state()
        call.casts = self._cast()

    def keep_call(self, root, args, kwargs):
        """Keeps a call of a model in a step that is not followed; it is made a `RecordedCall` only where it is needed.

        Cost: 1 microsecond.
        """
        if self.done:
            return
        casts = self.inspector.adapter.ever_cast and self._cast() is not None
        if self.call is not None or self._cuda or casts:
            self.on_forward(root, args, kwargs, None)
        else:
            self._resting = (root, args, kwargs, self._state())

    def _cast(self):
        """`(level, dtype)` of the automatic casts that are on now, or `None`."""
        tracer = self._tracer()
        level = self._off if tracer is None else tracer._amp_level
        return None if level == self._off else (level, tracer._amp_dtype)

    def on_output(self, root, output):
        """Processes what the model returned: weak references, and its gradients as they come where it is small."""
        call = self.call
        if self.done or call is None or call.root is not root:
            return
        monitor = self.inspector.monitor
        keeps = monitor.dense or self._gap_s > SLOW_S
        if type(output) is self._tensor:
            tensors = (output,)
        else:
            tensors = [tensor for _, tensor in tensors_in(output, self.inspector.stats, MOST_OUTPUTS)]
        for at, tensor in enumerate(tensors):
            call.outputs.append(ref(tensor))
            # Its `grad_fn` is not read here: PaddlePaddle 3.3 never frees what that returns.
            if keeps and not tensor.stop_gradient and not tensor.is_leaf and prod(tensor.shape) <= SMALL:
                tensor._register_grad_hook(Keeper(call, at))

    def release(self):
        """Lets go of the last calls."""
        super().release()
        if self._others:
            self._others = []

    def _calls_before(self):
        return self._others

    def _search_calls_before(self, finding, trigger, others):
        """For models that were called before the last one, as a body before its head, which alone was run again."""
        for call in others if trigger == "gradient" else ():
            if self._is_any_gradient_bad(call):
                reason = "the gradient that reaches the output of %s is not finite, the loss is" % call.root.name
                expression = self._expression([self._last_loss()], call, True)
                return dict(finding, finding="loss expression", reason=reason, **expression)
        return dict(
            finding,
            reason="%s; only the last of %d models was run again" % (finding.get("reason", ""), len(others) + 1),
        )

    def _note_finite_replay(self, call, frame):
        if call.gradients:
            return super()._note_finite_replay(call, frame)
        reason = "the backward of the model is finite for a gradient of ones, so it began with another one"
        expression = self._expression([self._last_loss()], call, True)
        return dict(frame, finding="loss expression", reason=reason, **expression)

    def _expression(self, tensors, call, steep):
        """What is known of the expression of a loss: `op`, `may`, and the place of one operation."""
        outputs = call.outputs if call is not None else ()
        return LossExpression(tensors, outputs).expression_fields(steep, self.inspector.functions.lines)

    def count_bad(self, tensor):
        """How many values of a tensor are not finite."""
        view = self.inspector.stats.view(tensor)
        return self.inspector.stats.bad(view) if view is not None else 0

    def _bad_inputs(self, call):
        bad = [path for path, leaf in self._inputs(call) if self.count_bad(leaf)]
        return "input " + ", ".join(bad[:4]) if bad else ""


class Keeper:
    """A hook that keeps the gradient of an output; it dies with the graph."""

    __slots__ = ("_at", "_gradients")

    def __init__(self, call, at):
        self._gradients = call.gradients
        self._at = at

    def __call__(self, gradient):
        """Keeps it, and leaves it as it is."""
        self._gradients[self._at] = gradient
        return
