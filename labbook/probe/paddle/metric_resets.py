"""Finds metric objects of PaddlePaddle that collect several passes over the data without a `reset`.

A pass is one iteration over a data loader; where the program has none, an evaluation phase.
"""

from weakref import WeakKeyDictionary

from ..training.call_site import line_of, user_frame
from ..wrapping import wrap_function

_KINDS = ("Accuracy", "Precision", "Recall", "Auc")


class Collected:
    """What a metric object has collected since its last reset.

    Attributes:
        passes: Those that its values are from.
        carried: How many of them began after its value had been read.
        is_read: Whether its value was read.
    """

    def __init__(self):
        self.passes, self.carried, self.is_read = set(), 0, False


class MetricObjects:
    """The metric objects of one process.

    Args:
        inspector: The `TensorInspector`.
    """

    def __init__(self, inspector):
        self._inspector = inspector
        self._known = WeakKeyDictionary()

    def install(self, paddle, patches):
        """Watches the metric classes of PaddlePaddle; a subclass is seen where it calls their methods."""
        guard = self._inspector.adapter.probe.guard("paddle.metrics")
        watched = (("update", self._updated), ("accumulate", self._read), ("reset", self._reset))
        for kind in (getattr(paddle.metric, name, None) for name in _KINDS):
            for name, after in watched:
                if kind is not None and name in kind.__dict__:
                    mine = wrap_function(kind.__dict__[name], guard, after=after)
                    patches.replace(kind, name, mine, in_static=True)

    def _updated(self, _, args, __):
        monitor = self._inspector.loaders.monitor
        metric = args[0]
        known = self._known.get(metric)
        if known is None:
            known = self._known[metric] = Collected()
        now = self._inspector.loaders.current
        if monitor is None or (now is None and not monitor.evaluation.open):
            return
        now = monitor.evaluation.phases if now is None else now
        if now in known.passes:
            return
        known.passes.add(now)
        known.carried += known.is_read
        worst = monitor.loop.facts.get("metrics_carried", {})
        if known.carried > worst.get("count", 0):
            fields = {"count": known.carried, "function": type(metric).__name__, "line": line_of(user_frame())}
            monitor.loop.facts["metrics_carried"] = fields

    def _read(self, _, args, __):
        known = self._known.get(args[0])
        if known is not None:
            known.is_read = bool(known.passes)

    def _reset(self, _, args, __):
        self._known.pop(args[0], None)
