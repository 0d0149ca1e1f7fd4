"""Runs the last forward of a PaddlePaddle model again, to find the first layer and operator that gave NaN or infinity.

In the forward every operator is watched from Python, so that infinities which the program writes itself, as in masks,
are told apart. In the backward, which is out of Python's sight, each gradient is looked at by a hook.
"""

from _thread import get_ident
from contextlib import contextmanager

from ..inspection.model_lookup import parameters_of
from ..torch.replay import _FILLS as FILLS
from ..torch.tensor_stats import tensors_in
from ..training.call_site import place_of, user_frame
from .state_snapshot import StateSnapshot

MOST_EVENTS = 200
_REFUSED = {
    "GroupShardedStage3": "its parameters are sharded over ranks",
    "GroupShardedStage2": "its parameters are sharded over ranks",
    "PipelineLayer": "its layers are spread over ranks",
    "PipelineParallel": "its layers are spread over ranks",
    "TensorParallel": "its layers are spread over ranks",
    "SyncBatchNorm": "it talks to other ranks",
    "TranslatedLayer": "it is a loaded program",
}
_DUNDERS = [
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "div",
    "truediv",
    "rdiv",
    "rtruediv",
    "floordiv",
    "pow",
    "rpow",
    "mod",
    "matmul",
    "rmatmul",
    "neg",
    "abs",
]
_PAIRS = frozenset(["full", "full_", "full_like", "scale", "scale_", "assign", "assign_", "assign_value_", "cast"])


class Replay:
    """One search.

    Args:
        paddle: The module.
        inspector: The other eyes.
        call: The `RecordedCall` to run again.
    """

    def __init__(self, paddle, inspector, call):
        self.paddle = paddle
        self.inspector = inspector
        self.call = call
        self.layer = call.root.module()
        if type(self.layer).__name__ == "DataParallel":
            self.layer = self.layer._layers
        self._outputs = []

    def refused(self):
        """Why running it again would be unsafe, "" when it is not."""
        if self.layer is None:
            return "the model is gone"
        for one in self.layer.sublayers(include_self=True):
            kind = type(one).__name__
            if kind in _REFUSED:
                return "%s: %s" % (kind, _REFUSED[kind])
        if self.call.root.hidden:
            return self.call.root.hidden
        if any(p.is_dist() or not p.is_dense() for p in parameters_of(self.layer, "_sub_layers")):
            return "its parameters are no plain tensors"
        if self.inspector.patches.aside or not self.paddle.in_dynamic_mode():
            return "a part of the program is compiled"
        return ""

    def forward(self):
        """Runs the forward again without a graph; what first went wrong in it, or `None`."""
        watcher = NonfiniteWatcher(self.paddle, self.inspector)
        names = {id(one): name for name, one in self.layer.named_sublayers(include_self=True)}
        with self._again() as again, watcher, self.paddle.no_grad():
            output = self.layer(*again.args, **again.kwargs)
        self._outputs = [tensor for _, tensor in tensors_in(output, self.inspector.stats)]
        if not any(watcher.kinds([tensor]) != (False, False) for tensor in self._outputs):
            return None
        event = watcher.cause()
        if event is None:
            return {"finding": "forward", "reason": "which operation is not known"}
        told = dict(event["place"], finding="forward", op=event["op"])
        if event["module"] is not None:
            told["module"] = {"name": names.get(id(event["module"]), ""), "type": type(event["module"]).__name__}
        return told

    @contextmanager
    def _again(self):
        with WithoutObservers(self.inspector), StateSnapshot(self.paddle, self.layer, self.call) as again:
            yield again

    def differs(self):
        """Whether what is still alive of the first outputs is not what came out now."""
        stats = self.inspector.stats
        for held, tensor in zip(self.call.outputs, self._outputs):
            before = held()
            if before is None:
                continue
            one, other = stats.view(before), stats.view(tensor)
            if (
                one is not None
                and other is not None
                and one.shape == other.shape
                and stats.bad(one) != stats.bad(other)
            ):
                return True
        return False

    def backward(self):
        """Runs forward and backward again, and looks at each gradient; where the first bad one arose, or `None`."""
        from .backward_origin import BackwardOrigin  # it watches as the forward is watched here

        trace = BackwardOrigin(self.paddle, self.inspector)
        with self._again() as again, self.paddle.enable_grad():
            with trace:
                output = self.layer(*again.args, **again.kwargs)
            outputs, gradients, guessed = self._roots(output)
            if not outputs or not again.leaves:
                return None
            found = self.inspector.grad(outputs, again.leaves, gradients, allow_unused=True)
            culprit = trace.culprit(again.leaves, found)
        if culprit is None:
            return None
        told = dict(culprit[1], finding="backward", op=culprit[0])
        if guessed:
            told["reason"] = "with ones in place of the gradient of the output, which was not kept"
        return told

    def _roots(self, output):
        """`(outputs, gradients, whether any gradient is a guess)`."""
        outputs, gradients, guessed = [], [], False
        for at, (_, tensor) in enumerate(tensors_in(output, self.inspector.stats)):
            if tensor.stop_gradient:
                continue
            known = self.call.gradients.get(at)
            if known is None or list(known.shape) != list(tensor.shape):
                if self.call.gradients:
                    continue
                guessed = True
                known = self.paddle.ones_like(tensor)
            outputs.append(tensor)
            gradients.append(known)
        return outputs, gradients, guessed


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


class NonfiniteWatcher:
    """Notes the operators of one forward whose results are not finite, while it is entered.

    Args:
        paddle: The module.
        inspector: The other eyes.
    """

    def __init__(self, paddle, inspector):
        self.paddle = paddle
        self.stats = inspector.stats
        self._layers = []
        self._events = []
        self._put_back = []
        self._busy = False

    def __enter__(self):
        for name, original in list(vars(self.paddle._C_ops).items()):
            if callable(original) and not name.startswith("_"):
                self._put(self.paddle._C_ops, name, self._operator(name, original))
        tensor = self.paddle.Tensor
        for short in _DUNDERS:
            name = "__%s__" % short
            if name in tensor.__dict__:
                self._put(tensor, name, self._operator(name, tensor.__dict__[name]))
        self._put(self.paddle.nn.Layer, "__call__", self._layer(self.paddle.nn.Layer.__call__))
        return self

    def __exit__(self, *error):
        while self._put_back:
            home, name, original = self._put_back.pop()
            setattr(home, name, original)

    def _put(self, home, name, mine):
        self._put_back.append((home, name, home.__dict__[name]))
        setattr(home, name, mine)

    def _layer(self, original):
        layers, thread = self._layers, get_ident()

        def called(layer, *args, **kwargs):
            if get_ident() != thread:
                return original(layer, *args, **kwargs)
            layers.append(layer)
            try:
                return original(layer, *args, **kwargs)
            finally:
                layers.pop()

        return called

    def _operator(self, name, original):
        thread = get_ident()

        def operator(*args, **kwargs):
            if self._busy or get_ident() != thread:
                return original(*args, **kwargs)
            self._busy = True
            try:
                before = self.kinds((args, kwargs))
            finally:
                self._busy = False
            result = original(*args, **kwargs)
            self._busy = True
            try:
                self._takes(name.strip("_"), before, result)
            finally:
                self._busy = False
            return result

        return operator

    def kinds(self, things):
        """`(NaN among them, infinity among them)`."""
        nan = inf = False
        for _, tensor in tensors_in(things, self.stats):
            view = self.stats.view(tensor)
            bad = self.stats.bad(view) if view is not None else 0
            if bad:
                nans = self.stats.nans(view)
                nan, inf = nan or nans > 0, inf or bad > nans
        return nan, inf

    def _takes(self, name, before, result):
        nan, inf = self.kinds([result])
        frame = user_frame()
        if ((nan and not before[0]) or (inf and not any(before))) and len(self._events) < MOST_EVENTS:
            layer = self._layers[-1] if self._layers else None
            event = {"op": name, "nan": nan, "from_inf": before[1], "module": layer, "place": place_of(frame)}
            self._events.append(event)

    def cause(self):
        """The operation where it began: the first NaN, or the infinity that it came from; `None` without one."""
        made = [event for event in self._events if event["op"] not in FILLS and event["op"] not in _PAIRS]
        first = next((event for event in made if event["nan"]), None)
        if first is None:
            return made[0] if made else (self._events[0] if self._events else None)
        if first["from_inf"]:
            before = made[: made.index(first)]
            return next((event for event in before if not event["nan"]), first)
        return first
