"""Watches in a few steps what is added to a PyTorch loss without having a gradient: a term that is a mere number.

Where the graph of the first losses shows such a sum, additions of tensors are looked at three times from the end of a
step to the next `backward` of each optimizer. Between these moments `torch.Tensor` is as it was.
"""

from ..training.call_site import line_of, user_frame
from ..wrapping import TemporaryPatches, as_import_machinery, transparent_wrapper
from .compiler import has_compiled
from .loss_expression import kind, nodes

STEPS = 3
_METHODS = ("__add__", "__radd__", "__iadd__", "__sub__", "add", "sub", "add_")
_MOST_OPTIMIZERS = 3
_MOST = 200
_EQUAL = 1e-6


class LossTerms:
    """The terms without gradient of one process.

    Args:
        inspector: The `TensorInspector` of the process.
    """

    def __init__(self, torch, inspector):
        self.torch = torch
        self.inspector = inspector
        self._patches = TemporaryPatches()
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self.end()
        self._left = 0
        self._losses = self._awaited = 1
        self._armed = False
        self._noted = []
        self._values = {}

    def arm(self, tensors, optimizers):
        """Has the next steps of each optimizer watched where something without a gradient is added to the loss."""
        if self._armed or has_compiled():
            return
        for node, _ in nodes(tensors):
            if kind(node) in ("Add", "Sub") and None in [following for following, _ in node.next_functions]:
                fields = getattr(node, "_input_metadata", None)
                if fields and not tuple(fields[0].shape):
                    self._left, self._armed = STEPS, True
                    self._losses = min(max(optimizers, 1), _MOST_OPTIMIZERS)
                    return

    def begin(self):
        """Watches from here to the next call of `backward` for each optimizer, where that was asked for."""
        if not self._left or self._patches or has_compiled():
            return
        self._left -= 1
        self._awaited = self._losses
        kept = self.torch.Tensor.__dict__
        for name in _METHODS:
            if name not in kept:  # as PyTorch made it: inherited
                self._patches.put(self.torch.Tensor, name, self._wrap(getattr(self.torch.Tensor, name)))

    def end(self):
        """Leaves `torch.Tensor` as it was."""
        self._patches.remove()

    def _wrap(self, original):
        note, failed = self._note, self.inspector.failed

        def add(*args, **kwargs):
            result = original(*args, **kwargs)
            try:
                note(args, kwargs, result)
            except Exception as error:
                failed("torch.terms", error)
            return result

        return transparent_wrapper(as_import_machinery(add), original)

    def _note(self, args, kwargs, result):
        inspector = self.inspector
        if type(result) is not self.torch.Tensor or result.dim() or result.grad_fn is None or len(args) < 2:
            return
        if (
            len(self._noted) >= _MOST
            or kwargs
            or not inspector.without_modes.is_possible()
            or not inspector.monitor.is_followed_thread()
        ):
            return
        one, other = args[:2]
        if not self._is_constant(other):
            one, other = other, one
        if not self._is_constant(other) or not inspector.stats.is_tensor(one) or not one.is_cpu:
            return
        with inspector.without_modes:
            value, beside = float(other), float(one.detach())
        if value and abs(value - beside) > _EQUAL * abs(value):  # x - x.detach() is a trick, and intended
            self._noted.append((result.grad_fn, line_of(user_frame()), value, type(other) in (int, float)))

    def _is_constant(self, thing):
        if type(thing) in (int, float):
            return True
        return self.inspector.stats.is_tensor(thing) and not thing.requires_grad and thing.numel() == 1 and thing.is_cpu

    def backward(self, tensors):
        """Processes a call of `backward`: what was added on the way to its loss counts.

        Returns:
            The terms, once there are any: [{`line`, `number`, `values`}, ...] of those that changed; else `None`.
        """
        if not self._patches:
            return None
        self._awaited -= 1
        if not self._awaited:
            self.end()
        noted, self._noted = self._noted, []
        within = {node for node, _ in nodes(tensors)}
        seen = set()
        for node, line, value, number in noted:
            if node in within and line not in seen:
                seen.add(line)
                self._values.setdefault((line, number), []).append(value)
        changing = [
            {"line": line, "number": number, "values": values[:STEPS]}
            for (line, number), values in self._values.items()
            if len(values) >= STEPS and max(values) - min(values) > 1e-4 * max(map(abs, values))
        ]
        if changing:
            self.end()
            self._left = 0
        return changing or None
