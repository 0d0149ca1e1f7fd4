"""The flight recorder of PyTorch: see `inspection/flight_recorder.py`."""

from weakref import ref

from ..inspection import flight_recorder
from ..inspection.flight_recorder import MOST_OUTPUTS, RecordedCall
from ..inspection.nested import tensors_in
from .loss_expression import kind
from .loss_lines import LossLines
from .nonfinite_origin import PARTIAL, STEEP, NonfiniteOrigin
from .replay import Replay

SMALL_BYTES = 4 << 20
"""Outputs up to this size have their incoming gradient kept. Source: chosen by us; a step's memory must not grow."""

MOST_MAY = 6
LONG_STEP_S = 0.0015
"""Shorter steps do not keep the gradients of outputs after the first `ALWAYS` steps: it costs 6 microseconds."""

ALWAYS = 200
SUMMED_STEP_S = 0.003
"""Shorter steps on a device do not have their inputs added up: it costs 20 microseconds. Source: chosen by us."""

MOST_SUMMED = 4
SEEN = 8
"""Forwards, one in 16, that were seen to draw no random number before it is taken for granted."""


class FlightRecorder(flight_recorder.FlightRecorder):
    """The flight recorder of one process that uses PyTorch."""

    REPLAY = Replay

    def __init__(self, torch, inspector):
        super().__init__(torch, inspector)
        self._any_cast = getattr(torch._C, "_is_any_autocast_enabled", None)
        self._state = torch.default_generator.get_state
        self._summed = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
        self._has_cuda = bool(torch.version.cuda or getattr(torch.version, "hip", None))
        self.lines = LossLines(torch)
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        super().forget()
        self._drew, self._drew_not = False, 0

    def on_forward(self, root, args, kwargs, batch):
        """Keeps a call of a model; the one before is released.

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
            call.device_states = self._cuda_state()
            if call.device_states is not None and not self.inspector.adapter.values.waits:
                self._add_inputs(call)

    def _add_inputs(self, call):
        """Adds up the inputs on their device, so that a loss that is not finite arrives with the state of its batch.

        Cost: 20 microseconds.
        """
        if 0.0 < self.inspector.monitor.step_s < SUMMED_STEP_S:
            return
        if not self.framework.is_grad_enabled() or not self.inspector.without_modes.is_possible():
            return
        with self.inspector.without_modes:
            for _, leaf in self._inputs(call)[:MOST_SUMMED]:
                if type(leaf) is not self.framework.Tensor or leaf.is_cpu or leaf.dtype not in self._summed:
                    continue
                one = leaf.detach().sum(dtype=self.framework.float32)
                if self._sum is None:
                    self._sum = one
                elif self._sum.device == one.device:
                    self._sum = self._sum + one

    def keep_call(self, root, args, kwargs):
        """Keeps a call of a model in a step that is not followed; the one before is released.

        The state of the random generator is left out where forwards were never seen to draw from it: it costs 1.5
        microseconds, and an output that is another one in the replay is noticed there.

        Cost: 0.5 microseconds.
        """
        if self.lines.open:
            self.lines.end()
        if self.done:
            return
        if self._any_cast is None or self._any_cast() or (self._has_cuda and self.framework.cuda.is_initialized()):
            self.on_forward(root, args, kwargs, None)
        else:
            draws = self._drew or self._drew_not < SEEN
            self._resting = (root, args, kwargs, self._state() if draws else None)

    def on_output(self, root, output):
        """Processes what the model returned: weak references, and its gradients as they come where it is small."""
        call = self.call
        if self.done or call is None or call.root is not root:
            return
        monitor = self.inspector.monitor
        if not self._drew and not monitor.loop.steps & 15 and self.inspector.without_modes.is_possible():
            self._drew = not self.framework.equal(self._state(), call.state)
            self._drew_not += 1
        keeps = monitor.step_s > LONG_STEP_S or monitor.loop.steps < ALWAYS or monitor.dense
        for at, (_, tensor) in enumerate(tensors_in(output, self.inspector.stats, MOST_OUTPUTS)):
            call.outputs.append(ref(tensor))
            if not keeps or not tensor.requires_grad or not self.inspector.without_modes.is_possible():
                continue
            if tensor.numel() * tensor.element_size() <= SMALL_BYTES and not tensor.is_leaf:
                tensor.register_hook(_keeper(call, at, self._failed))
        if (
            monitor.dense
            and self.inspector.without_modes.is_possible()
            and any(o() is not None and o().grad_fn for o in call.outputs)
        ):
            self.lines.begin()

    def backward(self, tensors):
        """Keeps a weak reference to what `backward` is called on; in the first looks the lines of its expression."""
        super().backward(tensors)
        if self.lines.open:
            self.lines.end()
            if self.call is not None and self.call.outputs:
                self.lines.take(NonfiniteOrigin(self.framework, self.inspector.stats, tensors, self.call.outputs).nodes)

    def count_bad(self, tensor):
        """How many values of a tensor are not finite."""
        return self.inspector.stats.bad(tensor)

    def _bad_inputs(self, call):
        bad = [(path, leaf) for path, leaf in self._inputs(call) if self.count_bad(leaf)]
        return "; ".join(self._first_bad(*one) for one in bad[:4])

    def _expression(self, tensors, call, steep):
        """What is known of the expression of a loss: `op`, `made`, `may`, and the place of one operation."""
        names = STEEP if steep else PARTIAL
        with self.inspector.without_modes:
            origin = NonfiniteOrigin(
                self.framework, self.inspector.stats, tensors, call.outputs if call is not None else ()
            )
            made = origin.find_first() if names is PARTIAL and self.inspector.without_modes.is_possible() else None
            marked = made.pop("node") if made is not None else None
            places = dict(zip(origin.nodes, self.lines.find_lines(origin.nodes)))
            may = [] if marked is not None else [{"op": kind(n), **places[n]} for n in origin.may(names)]
            alike = [one for at, one in enumerate(may) if one not in may[:at]][:MOST_MAY]
            fields = {"op": origin.chain(marked), "made": made, "may": alike}
            if marked is not None or len(may) == 1:
                fields.update(places[marked] if marked is not None else {k: v for k, v in may[0].items() if k != "op"})
        return fields

    def _first_bad(self, path, leaf):
        """`input 0[12, 3] = inf`: where the first bad value of a leaf is."""
        where = self.framework.isfinite(leaf.detach()).logical_not().nonzero()[0].tolist()
        return "input %s%s = %s" % (path, where, leaf.detach()[tuple(where)].item())

    def _cuda_state(self):
        cuda = self.framework.cuda
        if not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return None  # the state cannot be asked for in a capture, and nothing is computed in it
        return [cuda.get_rng_state(index) for index in range(cuda.device_count())]

    def _casts(self):
        """What autocast regions the call is made in: [(device, dtype, cache)]."""
        torch = self.framework
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
