"""Runs the last forward of a model again, to find the first module and operation that gave NaN or infinity.

What the forward changes is put back bitwise: random states, buffers, plain attributes of modules, gradients. The
program's own hooks do not run.
"""

from types import MappingProxyType

from .nested import tensors_in


class Replay:
    """One search.

    A framework implements `_modules`, `_refusal_reason`, `_forward`, `_differ`, `_takes_gradient`, `_ones_like` and
    `backward`.

    Args:
        framework: The module `torch` or `paddle`.
        inspector: The `TensorInspector`.
        call: The `RecordedCall` to run again.
    """

    REFUSED = MappingProxyType({})
    """Classes of modules that are never run again, with the reason."""

    WRAPPER = ("", "")
    """Class of the wrapper for data parallelism that is looked through, and its attribute with the model."""

    def __init__(self, framework, inspector, call):
        self.framework = framework
        self.inspector = inspector
        self.call = call
        self.module = call.root.module()
        kind, inner = self.WRAPPER
        if type(self.module).__name__ == kind:
            self.module = getattr(self.module, inner)
        self._outputs = []

    def refusal_reason(self):
        """Why running it again would be unsafe, "" when it is not."""
        if self.module is None:
            return "the model is gone"
        for one in self._modules():
            reason = self._module_refusal(one, type(one).__name__)
            if reason:
                return reason
        return self.call.root.hidden or self._refusal_reason()

    def _module_refusal(self, module, kind):
        return "%s: %s" % (kind, self.REFUSED[kind]) if kind in self.REFUSED else ""

    def forward(self):
        """Runs the forward again without a graph; what first went wrong in it, or `None`."""
        names, bad, event = self._forward()
        if not bad:
            return None
        if event is None:
            return {"finding": "forward", "reason": "which operation is not known"}
        fields = dict(event["place"], finding="forward", op=event["op"])
        if event["module"] is not None:
            fields["module"] = {"name": names.get(id(event["module"]), ""), "type": type(event["module"]).__name__}
        return fields

    def differs(self):
        """Whether what is still alive of the first outputs is not what came out now."""
        for weak, tensor in zip(self.call.outputs, self._outputs):
            before = weak()
            if before is not None and self._differ(before, tensor):
                return True
        return False

    def _outputs_with_gradients(self, output):
        """`(outputs, gradients, whether any gradient is a guess)`."""
        outputs, gradients, guessed = [], [], False
        for at, (_, tensor) in enumerate(tensors_in(output, self.inspector.stats)):
            if not self._takes_gradient(tensor):
                continue
            known = self.call.gradients.get(at)
            if known is None or list(known.shape) != list(tensor.shape):
                if self.call.gradients:
                    continue
                guessed = True
                known = self._ones_like(tensor)
            outputs.append(tensor)
            gradients.append(known)
        return outputs, gradients, guessed
