"""The flight recorder of PaddlePaddle: keeps what is needed to run the last forward again, and does so once.

Kept are references, never copies, and no longer than to the end of a step: the arguments of the last call of a model,
the state of the random generator, and where outputs are small the gradients that reached them.
"""

from math import prod
from time import perf_counter
from weakref import ref

from ..events.protocol import FLIGHT
from ..inspection.nested import tensors_in
from ..training.call_site import place_of, user_frame
from . import framework_state
from .loss_expression import LossExpression
from .replay import Replay

SMALL = 1 << 20
"""Elements of outputs up to which their incoming gradient is kept. Source: chosen by us; memory must not grow."""

SLOW_S = 0.005
"""Steps that take as long have the gradients of their outputs kept: a hook in the backward costs 30 microseconds."""

MOST_OUTPUTS = 4
MOST_OTHERS = 4
"""Models that were called before the last one in a step, of which a call is kept."""


class RecordedCall:
    """The last call of a model."""

    __slots__ = ("args", "batch", "cast", "device_states", "gradients", "kwargs", "outputs", "root", "state")


class FlightRecorder:
    """The flight recorder of one process.

    Args:
        paddle: The module.
        inspector: The other eyes.

    Attributes:
        done: Whether something was found already, so that nothing is kept any more.
        last_state: State of the random generator when the last forward began.
    """

    def __init__(self, paddle, inspector):
        self.paddle = paddle
        self.inspector = inspector
        self._state = paddle.base.core.default_cpu_generator().get_state
        self._tracer = paddle.base.framework._dygraph_tracer
        self._off = paddle.base.core.AmpLevel.O0
        self._tensor = paddle.Tensor
        self._cuda = paddle.device.is_compiled_with_cuda()
        self._failed = inspector.failed
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self.done = False
        self.call = self._resting = None
        self._others = []
        self.last_state = None
        self._loss = None
        self._gap_s = self._before = 0.0

    def began(self, root, args, kwargs, batch):
        """Keeps a call of a model; the one before is let go.

        Cost: 2 microseconds.
        """
        if self.done:
            return
        now = perf_counter()
        self._gap_s, self._before = now - self._before, now
        self._unfold()
        if self.call is not None and self.call.root is not root and len(self._others) < MOST_OTHERS:
            self._others.append(self.call)
        call = self.call = RecordedCall()
        call.root, call.args, call.kwargs, call.batch = root, args, kwargs, batch
        call.state = self.last_state = self._state()
        call.device_states = None
        if self._cuda and framework_state.awake(self.paddle):
            call.device_states = self.paddle.get_cuda_rng_state()
        call.cast = self._cast()
        call.outputs, call.gradients = [], {}

    def rests(self, root, args, kwargs):
        """Keeps a call of a model in a step that is not followed; it is made a `RecordedCall` only where it is needed.

        Cost: 1 microsecond.
        """
        if self.done:
            return
        casts = self.inspector.adapter.ever_cast and self._cast() is not None
        if self.call is not None or self._cuda or casts:
            self.began(root, args, kwargs, None)
        else:
            self._resting = (root, args, kwargs, self._state())

    def _unfold(self):
        """Makes the call of a step that is not followed one like any other."""
        held, self._resting = self._resting, None
        if held is not None:
            self.call = RecordedCall()
            self.call.root, self.call.args, self.call.kwargs, self.call.state = held
            self.call.batch = self.call.device_states = self.call.cast = None
            self.call.outputs, self.call.gradients = [], {}

    def _cast(self):
        """`(level, dtype)` of the automatic casts that are on now, or `None`."""
        tracer = self._tracer()
        level = self._off if tracer is None else tracer._amp_level
        return None if level == self._off else (level, tracer._amp_dtype)

    def ended(self, root, output):
        """Takes what the model returned: weak references, and its gradients as they come where it is small."""
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
        self.call = self._resting = None
        if self._others:
            self._others = []

    def backward(self, tensors):
        """Keeps a weak reference to what `backward` is called on."""
        if not self.done and tensors:
            self._loss = ref(tensors[0])

    def failed(self, trigger, value, tensors):
        """Finds out where a value that is not finite came from, the first time, and writes it.

        Args:
            trigger: "loss", "gradient" or "parameter".
            value: It.
            tensors: What `backward` is called on, for a loss.
        """
        if self.done:
            return
        self.done = True
        self._unfold()
        call, others = self.call, self._others
        self.release()
        try:
            told = self._find(trigger, call, tensors)
            if told["finding"] in ("not replayed", "not reproduced") and others and call is not None:
                told = self._before_others(told, trigger, others)
        except Exception as error:
            self._failed("paddle.flight", error)
            told = {"finding": "not replayed", "reason": "the search itself failed: %s" % type(error).__name__}
        self._tell(trigger, value, told, call)

    def _find(self, trigger, call, tensors):
        frame = place_of(user_frame())
        if call is None:
            return dict(self._parameters(None), reason="no forward of a model was seen before it", **frame)
        bad = [path for path, leaf in self._inputs(call) if self._bad(leaf)]
        if bad:
            return {"finding": "bad batch", "op": "input " + ", ".join(bad[:4])}
        layer = call.root.module()
        found = self._parameters(layer)
        if found["finding"] == "bad parameters":
            return found
        replay = Replay(self.paddle, self.inspector, call)
        reason = replay.refused()
        if reason:
            return dict(finding="not replayed", reason=reason, **frame)
        found = replay.forward()
        if found is None and trigger == "loss":
            if replay.differs():
                return {"finding": "not reproduced", "reason": "the forward gave other values when it ran again"}
            return dict(frame, finding="loss expression", **self._expression(tensors, call, steep=False))
        return found if found is not None else self._backward(replay, call, frame)

    def _backward(self, replay, call, frame):
        """Where the gradient of a finite loss went wrong."""
        if any(self._bad(gradient) for gradient in call.gradients.values()):
            told = self._expression([self._held()], call, steep=True)
            return dict(frame, finding="loss expression", reason="its gradient is not finite, its value is", **told)
        found = replay.backward()
        if found is not None:
            return found
        if not call.gradients:
            reason = "the backward of the model is finite for a gradient of ones, so it began with another one"
            expression = self._expression([self._held()], call, steep=True)
            return dict(frame, finding="loss expression", reason=reason, **expression)
        reason = "the gradients were finite when they were computed again"
        return dict(finding="not reproduced", reason=reason, **frame)

    def _held(self):
        return self._loss() if self._loss is not None else None

    def _expression(self, tensors, call, steep):
        """What is known of the expression of a loss: `op`, `may`, and the place of one operation."""
        return LossExpression(tensors, call.outputs).told(steep, self.inspector.functions.lines)

    def _before_others(self, told, trigger, others):
        """For models that were called before the last one, as a body before its head, which alone was run again."""
        for call in others if trigger == "gradient" else ():
            if any(self._bad(gradient) for gradient in call.gradients.values()):
                reason = "the gradient that reaches the output of %s is not finite, the loss is" % call.root.name
                expression = self._expression([self._held()], call, steep=True)
                return dict(told, finding="loss expression", reason=reason, **expression)
        return dict(
            told, reason="%s; only the last of %d models was run again" % (told.get("reason", ""), len(others) + 1)
        )

    def _bad(self, tensor):
        view = self.inspector.stats.view(tensor)
        return self.inspector.stats.bad(view) if view is not None else 0

    def _inputs(self, call):
        return tensors_in(call.args, self.inspector.stats) + tensors_in(call.kwargs, self.inspector.stats)

    def _parameters(self, layer):
        """Parameters with bad values: of the model, or of all optimizers."""
        if layer is not None:
            named = list(layer.named_parameters()) + list(layer.named_buffers())
        else:
            named = [("parameter %d" % at, p) for at, p in enumerate(self.inspector.held_by_optimizers())]
        names = []
        for name, value in named:
            if len(names) < 20 and self._bad(value):
                names.append(name)
        return {"finding": "bad parameters", "parameters": names} if names else {"finding": "not replayed"}

    def _tell(self, trigger, value, told, call):
        monitor = self.inspector.monitor
        leaves = []
        if call is not None:
            leaves = [self.inspector.batches.leaf(path, leaf, "input", None) for path, leaf in self._inputs(call)[:16]]
        batch = call.batch if call is not None else None
        fields = {"reason": "", "module": None, "op": "", "file": "", "line": None, "function": "", "source": ""}
        fields.update(parameters=[], made=None, may=[])
        fields.update(told)
        self.inspector.emit(
            FLIGHT,
            framework="paddle",
            step=monitor.step,
            trigger=trigger,
            value=str(float(value)),
            batch={"leaves": leaves, "print": batch.print if batch is not None else None, "indices": None},
            recent=[
                {"step": step, "loss": loss, "grad_norm": norm, "lr": rate, "ratio": ratio}
                for step, loss, norm, rate, ratio in monitor.recent
            ],
            **fields,
        )


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
