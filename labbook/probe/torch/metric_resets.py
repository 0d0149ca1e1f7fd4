"""Finds metric objects of torchmetrics that collect several passes over the data without a `reset`.

torchmetrics counts the updates since the last reset itself. A value that is read in another pass than the one before,
and is of more updates than those since then, has that earlier pass in it.
"""

from weakref import ref

from ..training.call_site import line_of, user_frame
from ..wrapping import transparent_wrapper, wrap_function

_MOST = 64


class Collected:
    """What is known of a metric object.

    Attributes:
        since: Updates since its value was read last.
        read_in: The pass in which that was, `None` before.
        carried: How often its value had an earlier pass in it.
        inside: Whether its `forward` runs, which resets and reads it for the values of a batch.
    """

    def __init__(self, metric):
        self.metric = ref(metric)
        self.since = self.carried = 0
        self.read_in = None
        self.inside = False


class MetricObjects:
    """The metric objects of one process.

    Args:
        inspector: The `TensorInspector`.
    """

    def __init__(self, inspector):
        self._inspector = inspector
        self._known = {}

    def install(self, module):
        """Watches the base class in `torchmetrics.metric`, which wraps the methods of each object itself."""
        kind, guard = module.Metric, self._inspector.adapter.probe.guard("torch.metrics")
        for name, after in (("_wrap_update", self.on_update), ("_wrap_compute", self.on_read)):
            setattr(kind, name, _wrap_maker(getattr(kind, name), guard, after))
        begins, ended = (lambda args, _: self.on_forward(args[0], 1)), (lambda _, args, __: self.on_forward(args[0], 0))
        kind.forward = wrap_function(kind.forward, guard, before=begins, after=ended)

    def _find(self, metric):
        known = self._known.get(id(metric))
        if known is None or known.metric() is not metric:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[id(metric)] = Collected(metric)
        return known

    def on_forward(self, metric, begins):
        """Processes the begin or the end of a call of a metric object with a batch."""
        known = self._find(metric)
        known.inside = bool(begins)
        known.since += not begins

    def on_update(self, metric):
        """Processes an update."""
        known = self._find(metric)
        known.since += not known.inside

    def on_read(self, metric):
        """Processes that the value of a metric object was read."""
        known, loaders = self._find(metric), self._inspector.loaders
        monitor = loaders.monitor
        if known.inside or monitor is None:
            return
        now = loaders.current
        if now is None and monitor.evaluation.open:
            now = monitor.evaluation.phases
        if now is not None and known.read_in not in (None, now) and metric._update_count > known.since > 0:
            known.carried += 1
            worst = monitor.loop.facts.get("metrics_carried", {})
            if known.carried > worst.get("count", 0):
                fields = {"count": known.carried, "function": type(metric).__name__, "line": line_of(user_frame())}
                monitor.loop.facts["metrics_carried"] = fields
        known.read_in, known.since = now, 0


def _wrap_maker(original, guard, after):
    """A method that wraps a method of one object, with an observer around what it returns."""

    def make(metric, method):
        owner = ref(metric)

        def observe(result, args, kwargs):
            if owner() is not None:
                after(owner())

        return wrap_function(original(metric, method), guard, after=observe)

    return transparent_wrapper(make, original)
