"""Runs the last forward of a PaddlePaddle model again, to find the first layer and operator that gave NaN or infinity.

In the backward, which is out of Python's sight, each gradient is looked at by a hook.
"""

from contextlib import contextmanager

from ..inspection import replay
from ..inspection.model_lookup import parameters_of
from ..inspection.nested import tensors_in
from .backward_origin import BackwardOrigin
from .nonfinite_watcher import NonfiniteWatcher
from .state_snapshot import StateSnapshot

_REFUSED = {
    "GroupShardedStage3": "its parameters are sharded over ranks",
    "GroupShardedStage2": "its parameters are sharded over ranks",
    "PipelineLayer": "its layers are spread over ranks",
    "PipelineParallel": "its layers are spread over ranks",
    "TensorParallel": "its layers are spread over ranks",
    "SyncBatchNorm": "it talks to other ranks",
    "TranslatedLayer": "it is a loaded program",
}


class Replay(replay.Replay):
    """One search; see the base class."""

    REFUSED = _REFUSED
    WRAPPER = ("DataParallel", "_layers")

    def _modules(self):
        return self.module.sublayers(include_self=True)

    def _refusal_reason(self):
        if any(p.is_dist() or not p.is_dense() for p in parameters_of(self.module, "_sub_layers")):
            return "its parameters are no plain tensors"
        if self.inspector.patches.aside or not self.framework.in_dynamic_mode():
            return "a part of the program is compiled"
        return ""

    def _forward(self):
        watcher = NonfiniteWatcher(self.framework, self.inspector)
        names = {id(one): name for name, one in self.module.named_sublayers(include_self=True)}
        with self._run_again() as again, watcher, self.framework.no_grad():
            output = self.module(*again.args, **again.kwargs)
        self._outputs = [tensor for _, tensor in tensors_in(output, self.inspector.stats)]
        bad = any(watcher.kinds([tensor]) != (False, False) for tensor in self._outputs)
        return names, bad, watcher.cause()

    @contextmanager
    def _run_again(self):
        with WithoutObservers(self.inspector), StateSnapshot(self.framework, self.module, self.call) as again:
            yield again

    def _differ(self, before, now):
        stats = self.inspector.stats
        one, other = stats.view(before), stats.view(now)
        if one is None or other is None:
            return False
        return one.shape == other.shape and stats.bad(one) != stats.bad(other)

    def _takes_gradient(self, tensor):
        return not tensor.stop_gradient

    def _ones_like(self, tensor):
        return self.framework.ones_like(tensor)

    def backward(self):
        """Runs forward and backward again, and looks at each gradient; where the first bad one arose, or `None`."""
        trace = BackwardOrigin(self.framework, self.inspector)
        with self._run_again() as again, self.framework.enable_grad():
            with trace:
                output = self.module(*again.args, **again.kwargs)
            outputs, gradients, guessed = self._outputs_with_gradients(output)
            if not outputs or not again.leaves:
                return None
            found = self.inspector.grad(outputs, again.leaves, gradients, allow_unused=True)
            culprit = trace.find_culprit(again.leaves, found)
        if culprit is None:
            return None
        fields = dict(culprit[1], finding="backward", op=culprit[0])
        if guessed:
            fields["reason"] = "with ones in place of the gradient of the output, which was not kept"
        return fields


class WithoutObservers:
    """A context in which calls of models and losses are none of the program's."""

    def __init__(self, inspector):
        self._roots = inspector.roots
        self._losses = inspector.losses

    def __enter__(self):
        self._before = self._roots.inside.on, self._roots.look, self._losses._busy
        self._roots.inside.on, self._roots.look, self._losses._busy = True, None, True

    def __exit__(self, *error):
        self._roots.inside.on, self._roots.look, self._losses._busy = self._before
