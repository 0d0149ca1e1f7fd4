"""The flight recorder: keeps what is needed to run the last forward again, and does so once, when it failed.

Kept are references, never copies, and no longer than to the end of a step: the arguments of the last call of a model,
the state of the random generator, and where outputs are small the gradients that reached them.
"""

from weakref import ref

from ..events.measurement_kinds import FLIGHT
from ..training.call_site import place_of, user_frame
from .nested import tensors_in

MOST_OUTPUTS = 4
_MOST_NAMES = 20


class RecordedCall:
    """The last call of a model.

    Attributes:
        root: The `RootModule`.
        batch: The `Batch` that it was given, or `None`.
        state: State of the random generator of the host before it.
        device_states: Those of the devices, or `None`.
        casts: The automatic casts that were on, in the form of the framework; empty or `None` without any.
        outputs: Weak references to the tensors that it returned.
        gradients: Position of an output -> the gradient that reached it.
    """

    __slots__ = ("args", "batch", "casts", "device_states", "gradients", "kwargs", "outputs", "root", "state")

    def __init__(self, root, args, kwargs, batch, state):
        self.root = root
        self.args = args
        self.kwargs = kwargs
        self.batch = batch
        self.state = state
        self.casts = self.device_states = None
        self.outputs = []
        self.gradients = {}


class FlightRecorder:
    """The flight recorder of one process.

    A framework implements `on_forward(root, args, kwargs, batch)` before a forward, `keep_call(root, args, kwargs)` in
    its place in steps that are not followed, `on_output(root, output)` after it, `_bad_inputs(call)`: where the first
    values of its arguments are that are not finite, in words, "" without any, `count_bad(tensor)`: how many values of a
    tensor are not finite, and `_expression(tensors, call, steep)`: what is known of the expression of a loss.

    Args:
        framework: The module `torch` or `paddle`.
        inspector: The `TensorInspector` of the process.

    Attributes:
        REPLAY: The framework's `Replay`.
        done: Whether something was found already, so that nothing is kept any more.
        last_state: State of the random generator when the last forward began.
    """

    REPLAY = None

    def __init__(self, framework, inspector):
        self.framework = framework
        self.inspector = inspector
        self._failed = inspector.failed

    def forget(self):
        """Begins anew, in a forked child."""
        self.done = False
        self.call = self._resting = None
        self.last_state = None
        self._loss = self._sum = None

    def take_sum(self):
        """The sum of the inputs since the last step, on their device, which is not read here; `None` if unknown."""
        total, self._sum = self._sum, None
        return total

    def record_bad_inputs(self, step):
        """Write that inputs of an earlier step on a device were not finite; its values have arrived only now."""
        if not self.done and not self.inspector.adapter.capturing():
            self.done = True
            self.release()
            self._write_event("loss", float("nan"), {"finding": "bad batch", "step": step}, None)

    def release(self):
        """Lets go of the last call."""
        self.call = self._resting = None

    def backward(self, tensors):
        """Keeps a weak reference to what `backward` is called on."""
        if not self.done and tensors:
            self._loss = ref(tensors[0])

    def failed(self, trigger, value, tensors):
        """Finds out where a value that is not finite came from, the first time, and writes it.

        Args:
            trigger: "loss", "gradient", "parameter", or "end" for a loss that the program left with.
            tensors: What `backward` is called on, or would have been.
        """
        if self.done or self.inspector.adapter.capturing():
            return
        self.done = True
        self._unfold()
        call, others = self.call, self._calls_before()
        self.release()
        try:
            finding = self._find(trigger, call, tensors)
            if finding["finding"] in ("not replayed", "not reproduced") and others and call is not None:
                finding = self._search_calls_before(finding, trigger, others)
        except Exception as error:
            self._failed(self.inspector.adapter.name + ".flight", error)
            finding = {"finding": "not replayed", "reason": "the search itself failed: %s" % type(error).__name__}
        self._write_event(trigger, value, finding, call)

    def _unfold(self):
        """Makes the call of a step that is not followed one like any other."""
        held, self._resting = self._resting, None
        if held is not None:
            root, args, kwargs, state = held
            self.call = RecordedCall(root, args, kwargs, None, state)

    def _calls_before(self):
        """The calls of other models before the last one in this step, as far as they are kept."""
        return ()

    def _search_calls_before(self, finding, trigger, others):
        """Return the finding with the calls of `_calls_before`, if the last call explains nothing."""
        return finding

    def _find(self, trigger, call, tensors):
        frame = place_of(user_frame()) if trigger != "end" else {}
        if call is None:
            return self._find_without_model(trigger, tensors, frame)
        with self.inspector.without_modes:
            bad = self._bad_inputs(call)
        if bad:
            return {"finding": "bad batch", "op": bad}
        found = self._parameters(call.root.module())
        if found["finding"] == "bad parameters":
            return found
        replay = self.REPLAY(self.framework, self.inspector, call)
        reason = replay.refusal_reason()
        if reason:
            return dict(finding="not replayed", reason=reason, **frame)
        found = replay.forward()
        if found is None and trigger in ("loss", "end"):
            if replay.differs():
                return {"finding": "not reproduced", "reason": "the forward gave other values when it ran again"}
            return dict(frame, finding="loss expression", **self._expression(tensors, call, False))
        return found if found is not None else self._backward(replay, call, frame)

    def _find_without_model(self, trigger, tensors, frame):
        """Where the value came from in a program that computes its loss without calling a module."""
        found = self._parameters(None)
        losses = tensors if trigger in ("loss", "end") else [self._last_loss()]
        if found["finding"] == "bad parameters" or trigger == "parameter" or not losses or losses[0] is None:
            return dict(found, reason="no forward of a model was seen before it", **frame)
        return dict(frame, finding="expression", **self._expression(losses, None, trigger == "gradient"))

    def _backward(self, replay, call, frame):
        """Where the gradient of a finite loss went wrong."""
        if self._is_any_gradient_bad(call):
            expression = self._expression([self._last_loss()], call, True)
            reason = "its gradient is not finite, its value is"
            return dict(frame, finding="loss expression", reason=reason, **expression)
        found = replay.backward()
        return found if found is not None else self._note_finite_replay(call, frame)

    def _note_finite_replay(self, call, frame):
        """Return the finding if the backward of the model gave finite gradients when it ran again."""
        reason = "the gradients were finite when they were computed again"
        return dict(finding="not reproduced", reason=reason, **frame)

    def _is_any_gradient_bad(self, call):
        with self.inspector.without_modes:
            return any(self.count_bad(gradient) for gradient in call.gradients.values())

    def _last_loss(self):
        """What `backward` was last called on, `None` when it is gone."""
        return self._loss() if self._loss is not None else None

    def _inputs(self, call):
        return tensors_in(call.args, self.inspector.stats) + tensors_in(call.kwargs, self.inspector.stats)

    def _parameters(self, module):
        """Parameters with bad values: of the model, or of all optimizers."""
        if module is not None:
            named = list(module.named_parameters()) + list(module.named_buffers())
        else:
            named = [("parameter %d" % at, p) for at, p in enumerate(self.inspector.trained_parameters())]
        names = []
        with self.inspector.without_modes:
            for name, value in named:
                if len(names) < _MOST_NAMES and self.count_bad(value):
                    names.append(name)
        return {"finding": "bad parameters", "parameters": names} if names else {"finding": "not replayed"}

    def _write_event(self, trigger, value, finding, call):
        inspector = self.inspector
        leaves = []
        if call is not None and inspector.without_modes.is_possible():
            with inspector.without_modes:
                leaves = [inspector.batches.leaf(path, leaf, "input", None) for path, leaf in self._inputs(call)]
        batch = call.batch if call is not None else None
        fields = {
            "step": inspector.monitor.step,
            "reason": "",
            "module": None,
            "op": "",
            "file": "",
            "line": None,
            "function": "",
            "source": "",
        }
        fields.update(parameters=[], made=None, may=[])
        fields.update(finding)
        inspector.emit(
            FLIGHT,
            framework=inspector.adapter.name,
            trigger=trigger,
            value=str(float(value)),
            batch={"leaves": leaves, "print": batch.print if batch is not None else None, "indices": None},
            recent=[
                {"step": step, "loss": loss, "grad_norm": norm, "lr": rate, "ratio": ratio}
                for step, loss, norm, rate, ratio in inspector.monitor.recent
            ],
            **fields,
        )
