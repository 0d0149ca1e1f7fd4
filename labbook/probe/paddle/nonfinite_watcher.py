"""Watches the operators of a PaddlePaddle forward from Python: those that give NaN or infinity are noted.

So infinities which the program writes itself, as in masks, are distinguished.
"""

from _thread import get_ident

from ..inspection import nonfinite_watcher
from ..inspection.nested import tensors_in
from ..wrapping import TemporaryPatches

_DUNDERS = [
    "add", "radd", "sub", "rsub", "mul", "rmul", "div", "truediv", "rdiv", "rtruediv", "floordiv", "pow", "rpow",
    "mod", "matmul", "rmatmul", "neg", "abs",
]  # fmt: skip
_COPIES = frozenset(["full", "full_", "full_like", "scale", "scale_", "assign", "assign_", "assign_value_", "cast"])


class NonfiniteWatcher(nonfinite_watcher.NonfiniteWatcher):
    """The operators of one forward whose results are not finite, while it is entered.

    Args:
        inspector: The `TensorInspector`.
    """

    FILLS = nonfinite_watcher.FILLS | _COPIES

    def __init__(self, paddle, inspector):
        super().__init__(inspector.stats)
        self.paddle = paddle
        self._patches = TemporaryPatches()
        self._busy = False

    def __enter__(self):
        for name, original in list(vars(self.paddle._C_ops).items()):
            if callable(original) and not name.startswith("_"):
                self._patches.put(self.paddle._C_ops, name, self._operator(name, original))
        tensor = self.paddle.Tensor
        for short in _DUNDERS:
            name = "__%s__" % short
            if name in tensor.__dict__:
                self._patches.put(tensor, name, self._operator(name, tensor.__dict__[name]))
        self._patches.put(self.paddle.nn.Layer, "__call__", self._layer(self.paddle.nn.Layer.__call__))
        return self

    def __exit__(self, *error):
        self._patches.remove()

    def _layer(self, original):
        layers, thread = self.modules, get_ident()

        def call_layer(layer, *args, **kwargs):
            if get_ident() != thread:
                return original(layer, *args, **kwargs)
            layers.append(layer)
            try:
                return original(layer, *args, **kwargs)
            finally:
                layers.pop()

        return call_layer

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
                self.on_operation(name.strip("_"), before, result)
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
