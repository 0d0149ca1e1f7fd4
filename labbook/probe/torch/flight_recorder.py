"""The flight recorder of PyTorch: keeps what is needed to run the last forward again, and does so once, when it failed.

Kept are references, never copies, and no longer than to the end of a step: the arguments of the last call of a model,
the state of the random generator, and where outputs are small the gradients that reached them.
"""

from weakref import ref

from ..events.protocol import FLIGHT
from ..inspection.nested import tensors_in
from ..training.call_site import place_of, user_frame
from .loss_expression import kind
from .loss_lines import LossLines
from .nonfinite_origin import PARTIAL, STEEP, NonfiniteOrigin
from .replay import Replay
from .tensor_stats import capturing_of

SMALL_BYTES = 4 << 20
"""Outputs up to this size have their incoming gradient kept. Source: chosen by us; a step's memory must not grow."""

MOST_OUTPUTS = 4
MOST_MAY = 6
LONG_STEP_S = 0.0015
"""Shorter steps do not keep the gradients of outputs after the first `ALWAYS` steps: it costs 6 microseconds."""

ALWAYS = 200
SEEN = 8
"""Forwards, one in 16, that were seen to draw no random number before it is taken for granted."""


class RecordedCall:
    """The last call of a model."""

    __slots__ = ("args", "batch", "casts", "cuda", "gradients", "kwargs", "outputs", "root", "state")

    def __init__(self, root, args, kwargs, batch, state):
        self.root = root
        self.args = args
        self.kwargs = kwargs
        self.batch = batch
        self.state = state
        self.cuda = None
        self.casts = self.outputs = ()
        self.gradients = {}


class FlightRecorder:
    """The flight recorder of one process.

    Args:
        torch: The module.
        inspector: The other eyes.

    Attributes:
        done: Whether something was found already, so that nothing is kept any more.
        last_state: State of the random generator when the last forward began.
    """

    def __init__(self, torch, inspector):
        self.torch = torch
        self.inspector = inspector
        self._any_cast = getattr(torch._C, "_is_any_autocast_enabled", None)
        self._state = torch.default_generator.get_state
        self._has_cuda = bool(torch.version.cuda or getattr(torch.version, "hip", None))
        self._capturing = capturing_of(torch)
        self.lines = LossLines(torch)
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self.done = False
        self.call = self._resting = None
        self.last_state = None
        self._loss = None
        self._drew, self._drew_not = False, 0

    def began(self, root, args, kwargs, batch):
        """Keeps a call of a model; the one before is let go.

        Cost: 2 microseconds.
        """
        if self.lines.open:
            self.lines.end()
        if self.done:
            self.last_state = self._state() if self.inspector.monitor.dense else None
            return
        state = self.last_state = self._state()
        self._resting = None
        call = self.call = RecordedCall(root, args, kwargs, batch, state)
        if self._any_cast is None or self._any_cast():
            call.casts = self._casts()
        if self._has_cuda:
            call.cuda = self._cuda_state()

    def rests(self, root, args, kwargs):
        """Keeps a call of a model in a step that is not followed; the one before is let go.

        The state of the random generator is left out where forwards were never seen to draw from it: it costs 1.5
        microseconds, and an output that is another one in the replay is noticed there.

        Cost: 0.5 microseconds.
        """
        if self.lines.open:
            self.lines.end()
        if self.done:
            return
        if self._any_cast is None or self._any_cast() or (self._has_cuda and self.torch.cuda.is_initialized()):
            self.began(root, args, kwargs, None)
        else:
            draws = self._drew or self._drew_not < SEEN
            self._resting = (root, args, kwargs, None, self._state() if draws else None)

    def ended(self, root, output):
        """Takes what the model returned: weak references, and its gradients as they come where it is small."""
        call = self.call
        if self.done or call is None or call.root is not root:
            return
        monitor = self.inspector.monitor
        if not self._drew and not monitor.loop.steps & 15 and self.inspector.without_modes.is_possible():
            self._drew = not self.torch.equal(self._state(), call.state)
            self._drew_not += 1
        keeps = monitor.step_s > LONG_STEP_S or monitor.loop.steps < ALWAYS or monitor.dense
        call.outputs = []
        for at, (_, tensor) in enumerate(tensors_in(output, self.inspector.stats, MOST_OUTPUTS)):
            call.outputs.append(ref(tensor))
            if not keeps or not tensor.requires_grad or not self.inspector.without_modes.is_possible():
                continue
            if tensor.numel() * tensor.element_size() <= SMALL_BYTES and not tensor.is_leaf:
                tensor.register_hook(_keeper(call, at, self.inspector.failed))
        if (
            monitor.dense
            and self.inspector.without_modes.is_possible()
            and any(o() is not None and o().grad_fn for o in call.outputs)
        ):
            self.lines.begin()

    def release(self):
        """Lets go of the last call."""
        self.call = self._resting = None

    def backward(self, tensors):
        """Keeps a weak reference to what `backward` is called on; in the first looks the lines of its expression."""
        if not self.done and tensors:
            self._loss = ref(tensors[0])
        if self.lines.open:
            self.lines.end()
            if self.call is not None and self.call.outputs:
                self.lines.take(NonfiniteOrigin(self.torch, self.inspector.stats, tensors, self.call.outputs).nodes)

    def failed(self, trigger, value, tensors):
        """Finds out where a value that is not finite came from, the first time, and writes it.

        Args:
            trigger: "loss", "gradient" or "parameter".
            value: It.
            tensors: What `backward` is called on, for a loss.
        """
        if self.done or self._capturing():
            return
        self.done = True
        call = self.call if self._resting is None else RecordedCall(*self._resting)
        self.release()
        try:
            told = self._find(trigger, call, tensors)
        except Exception as error:
            self.inspector.failed("torch.flight", error)
            told = {"finding": "not replayed", "reason": "the search itself failed: %s" % type(error).__name__}
        self._tell(trigger, value, told, call)

    def _find(self, trigger, call, tensors):
        frame = place_of(user_frame())
        if call is None:
            return dict(self._parameters(None), reason="no forward of a model was seen before it", **frame)
        with self.inspector.without_modes:
            bad = [(path, leaf) for path, leaf in self._inputs(call) if self.inspector.stats.bad(leaf)]
            if bad:
                return {"finding": "bad batch", "op": "; ".join(self._first_bad(*one) for one in bad[:4])}
        found = self._parameters(call.root.module())
        if found["finding"] == "bad parameters":
            return found
        replay = Replay(self.torch, self.inspector, call)
        reason = replay.refused()
        if reason:
            return dict(finding="not replayed", reason=reason, **frame)
        found = replay.forward()
        if found is None and trigger == "loss":
            if replay.differs():
                found = {"finding": "not reproduced", "reason": "the forward gave other values when it ran again"}
            else:
                found = dict(frame, finding="loss expression", **self._expression(tensors, call, PARTIAL))
        elif found is None:
            found = self._backward(replay, call, frame)
        return found

    def _backward(self, replay, call, frame):
        """Where the gradient of a finite loss went wrong."""
        with self.inspector.without_modes:
            bad = any(self.inspector.stats.bad(gradient) for gradient in call.gradients.values())
        if bad:
            loss = self._loss() if self._loss is not None else None
            told = self._expression([loss], call, STEEP)
            return dict(frame, finding="loss expression", reason="its gradient is not finite, its value is", **told)
        found = replay.backward()
        if found is not None:
            return found
        return dict(finding="not reproduced", reason="the gradients were finite when they were computed again", **frame)

    def _expression(self, tensors, call, names):
        """What is known of the expression of a loss: `op`, `made`, `may`, and the place of one operation."""
        with self.inspector.without_modes:
            origin = NonfiniteOrigin(self.torch, self.inspector.stats, tensors, call.outputs)
            made = origin.made() if names is PARTIAL and self.inspector.without_modes.is_possible() else None
            marked = made.pop("node") if made is not None else None
            places = dict(zip(origin.nodes, self.lines.of(origin.nodes)))
            may = [] if marked is not None else [{"op": kind(n), **places[n]} for n in origin.may(names)]
            alike = [one for at, one in enumerate(may) if one not in may[:at]][:MOST_MAY]
            told = {"op": origin.chain(marked), "made": made, "may": alike}
            if marked is not None or len(may) == 1:
                told.update(places[marked] if marked is not None else {k: v for k, v in may[0].items() if k != "op"})
        return told

    def _first_bad(self, path, leaf):
        """`input 0[12, 3] = inf`: where the first bad value of a leaf is."""
        where = self.torch.isfinite(leaf.detach()).logical_not().nonzero()[0].tolist()
        return "input %s%s = %s" % (path, where, leaf.detach()[tuple(where)].item())

    def _inputs(self, call):
        return tensors_in(call.args, self.inspector.stats) + tensors_in(call.kwargs, self.inspector.stats)

    def _parameters(self, module):
        """Parameters with bad values: of the model, or of all optimizers."""
        if module is not None:
            named = list(module.named_parameters()) + list(module.named_buffers())
        else:
            named = [("parameter %d" % at, p) for at, p in enumerate(self._held())]
        names = []
        with self.inspector.without_modes:
            for name, value in named:
                if len(names) < 20 and self.inspector.stats.bad(value):
                    names.append(name)
        if names:
            return {"finding": "bad parameters", "parameters": names}
        return {"finding": "not replayed"}

    def _held(self):
        return [p for one in list(self.inspector.optimizers) for group in one.param_groups for p in group["params"]]

    def _tell(self, trigger, value, told, call):
        monitor = self.inspector.monitor
        leaves = []
        if call is not None and self.inspector.without_modes.is_possible():
            with self.inspector.without_modes:
                leaves = [self.inspector.batches.leaf(path, leaf, "input", None) for path, leaf in self._inputs(call)]
        batch = call.batch if call is not None else None
        fields = {"reason": "", "module": None, "op": "", "file": "", "line": None, "function": "", "source": ""}
        fields.update(parameters=[], made=None, may=[])
        fields.update(told)
        self.inspector.emit(
            FLIGHT,
            framework="torch",
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

    def _cuda_state(self):
        cuda = self.torch.cuda
        if not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return None  # the state cannot be asked for in a capture, and nothing is computed in it
        return [cuda.get_rng_state(index) for index in range(cuda.device_count())]

    def _casts(self):
        """What autocast regions the call is made in: [(device, dtype, cache)]."""
        torch = self.torch
        found = []
        for device in ("cpu", "cuda"):
            try:
                if torch.is_autocast_enabled(device):
                    found.append((device, torch.get_autocast_dtype(device), torch.is_autocast_cache_enabled()))
            except (TypeError, RuntimeError, AttributeError):  # an older PyTorch asks without a device
                continue
        return found


def _keeper(call, at, failed):
    """A hook that keeps the gradient of an output; it dies with the graph."""
    gradients = call.gradients

    def keep(gradient):
        try:
            gradients[at] = gradient.detach()
        except Exception as error:
            failed("torch.output gradient", error)

    return keep
