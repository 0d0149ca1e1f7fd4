"""Reads the ratio of a clipped policy loss, of which the graph of PaddlePaddle keeps no values."""

from types import FunctionType
from weakref import ref

from ..wrapping import wrap_function

_MOST = 64


class PolicyRatio:
    """The results of `exp` that `clip` is called on, in one process.

    Args:
        inspector: The `TensorInspector`.

    Attributes:
        on: Whether they are watched.
    """

    def __init__(self, inspector):
        self._inspector = inspector
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self.on = False
        self._results = []
        self._ones = []

    def install(self, paddle, patches):
        """Puts the wrappers in place."""
        guard = self._inspector.adapter.probe.guard("paddle.ratio")
        for name, after in (("exp", self._exponential), ("clip", self._on_clip)):
            for home in (paddle, paddle.Tensor):
                if type(home.__dict__.get(name)) is FunctionType:
                    patches.replace(home, name, wrap_function(home.__dict__[name], guard, after=after))

    def take(self):
        """For each ratio since the last call: whether it was exactly 1 for all samples."""
        ones, self._ones, self._results = self._ones, [], []
        return ones

    def _exponential(self, result, args, kwargs):
        if self.on and len(self._results) < _MOST and not result.stop_gradient:
            self._results.append(ref(result))

    def _on_clip(self, result, args, kwargs):
        given = args[0] if args else kwargs.get("x")
        if self.on and any(one() is given for one in self._results):
            view = self._inspector.stats.whole_view(given)
            if view is not None:
                self._ones.append(bool((view == 1).all()))
