"""Looks at what the layers of a PaddlePaddle model return, in one forward, through the wrapped call of all layers."""

from _thread import get_ident
from collections import deque
from time import thread_time
from weakref import ref

from ..inspection.module_outputs import MOST_MODULES, MOST_SAMPLES
from ..inspection.nested import first_tensor, tensors_in
from ..wrapping import leave_out_one_frame

_FLAT = ("Tanh", "Sigmoid")
_RECTIFIERS = ("ReLU", "ReLU6")
_MOST_ELEMENTS = 1 << 20
_ROWS = 64


class ModuleOutputs:
    """The layers of one process, at dense forwards.

    Args:
        paddle: The module.
        stats: Looks at tensors.
        failed: `failed(where, error)` takes failures of ours.
    """

    def __init__(self, paddle, stats, failed):
        self.paddle = paddle
        self.stats = stats
        self._failed = failed
        self._norms = paddle.nn.layer.norm._BatchNormBase
        self._dead = {}
        self.ever = set()
        self._took = 0.0
        self.clear()

    def clear(self):
        """Forgets what the last look has found."""
        self.found = {}
        self.facts = {}
        self.order = []
        self.feeds = []
        self._returned = {}
        self._root = self._thread = None
        self._table = {}

    def begin(self, root, table, first):
        """Prepares for the next forward of a model.

        Args:
            root: The model.
            table: id of a layer -> its number.
            first: Whether inputs and outputs are described, for the table of layers.
        """
        self._root = root
        self._table = table
        self._first = first
        self._thread = get_ident()

    def end(self):
        """Lets go of what a forward has returned."""
        self._returned = {}

    def call(self, layer, original, args, kwargs):
        """Calls a layer inside the model, and looks at what it returned."""
        try:
            output = original(layer, *args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        number = self._table.get(id(layer))
        if number is not None and get_ident() == self._thread:
            began = thread_time()
            self.ever.add((self._root.index, number))
            try:
                self._look(number, layer, args or tuple(kwargs.values()), output)
            except Exception as error:
                self._failed("paddle.look at layer", error)
            self._took += thread_time() - began
        return output

    def took(self):
        """Seconds that looking inside the forward has taken since it was asked last."""
        took, self._took = self._took, 0.0
        return took

    def look_root(self, layer, args, output):
        """Looks at what the model itself returned."""
        self.ever.add((self._root.index, 0))
        self._look(0, layer, args, output)
        told = self.found.get(0)
        if told is not None and told["calls"] == 1:
            told["alike"] = self._are_alike(args)

    def _are_alike(self, args):
        """Whether all samples of all inputs are equal, `None` where there is no batch that can be read."""
        views = [self.stats.whole_view(tensor) for _, tensor in tensors_in(args, self.stats, 4)]
        views = [view for view in views if view is not None and view.ndim and len(view) > 1]
        return all((view[:_ROWS] == view[:1]).all() for view in views) if views else None

    def _look(self, number, layer, args, output):
        known = self.found.get(number)
        tensor = first_tensor(output, self.stats)
        if known is not None:
            known["calls"] += 1
            self._remember(number, tensor)
            return
        self._trace(number, args)
        if self._first:
            self.order.append(number)
            self.facts[number] = {
                "input": [self.stats.kind(t) for _, t in tensors_in(args, self.stats, 4)],
                "output": [self.stats.kind(t) for _, t in tensors_in(output, self.stats, 4)],
            }
        if tensor is None:
            return
        told = self._describe(number, layer, args, tensor)
        self.found[number] = told
        self._remember(number, tensor, told["bad"])

    def _describe(self, number, layer, args, tensor):
        given = first_tensor(args, self.stats)
        kind = type(layer).__name__
        told = {"i": number, "calls": 1, "training": layer.training}
        told.update(self.stats.look(tensor))
        told["in_bad"] = self._bad_inputs(args)
        told["sat"] = self.saturated(given) if kind in _FLAT and given is not None else None
        told["across"] = self.across(tensor)
        if kind in _RECTIFIERS:
            # Of NaN these rectifiers make 0: that unit is not dead.
            dead = self.dead((id(self._root), number), tensor) if not told["in_bad"] else {"dead": None, "dead_n": 0}
            told.update(dead)
        told["cast"] = cast_dtype(self.paddle)
        if layer.training and given is not None and issubclass(type(layer), self._norms):
            told["bn"] = self._norm(layer, given)
        return told

    def _remember(self, number, tensor, bad=0):
        if tensor is not None:
            self._returned[id(tensor)] = (ref(tensor), number, bad)

    def _trace(self, number, args):
        """Notes which layer returned the very tensor that this one was given."""
        given = first_tensor(args, self.stats)
        if given is None or not self._first:
            return
        maker = self._returned.get(id(given))
        if maker is not None and maker[0]() is given and maker[1] != number and len(self.feeds) < MOST_MODULES:
            self.feeds.append([maker[1], number])

    def _bad_inputs(self, args):
        bad = 0
        for _, tensor in tensors_in(args, self.stats, 4):
            maker = self._returned.get(id(tensor))
            if maker is not None and maker[0]() is tensor:
                bad += maker[2]
            else:
                view = self.stats.view(tensor)
                bad += self.stats.bad(view) if view is not None else 0
        return bad

    def saturated(self, tensor):
        """Share of |input| > 5, `None` where it cannot be read."""
        view = self.stats.view(tensor)
        return self.stats.saturated(view) if view is not None and view.dtype.kind == "f" else None

    def across(self, tensor):
        """V / (v + m): v the variance over samples, averaged over units, m the mean square of units' means."""
        view = self.stats.whole_view(tensor)
        return self.stats.across(view) if view is not None and view.ndim > 1 else None

    def dead(self, key, tensor):
        """`dead` and `dead_n` of a rectifier: units that were 0 for all of the last samples, over several looks."""
        view = self.stats.whole_view(tensor)
        if view is None or view.ndim < 2 or not view.size:
            return {"dead": None, "dead_n": 0}
        while view.size > _MOST_ELEMENTS and view.shape[0] > 1:
            view = view[::2]
        silent, samples = self.stats.silent_units(view)
        seen = self._dead.get(key)
        if seen is None or seen[0][1].shape != silent.shape:
            if len(self._dead) > MOST_MODULES:
                self._dead.clear()
            seen = self._dead[key] = deque()
        seen.append((samples, silent))
        while sum(count for count, _ in seen) - seen[0][0] >= MOST_SAMPLES:
            seen.popleft()
        always = silent
        for _, one in seen:
            always = always & one
        return {"dead": float(always.mean()), "dead_n": int(sum(count for count, _ in seen))}

    def _norm(self, layer, given):
        """Values for each channel, and how far the running variance is from that of the batch."""
        view = self.stats.whole_view(given)
        if view is None or view.ndim < 2 or not view.size:
            return None
        axis = view.ndim - 1 if getattr(layer, "_data_format", "NCHW") in ("NHWC", "NLC", "NDHWC") else 1
        channels = view.shape[axis]
        told = {"n": view.size // max(channels, 1), "ratio": None}
        running = self.stats.view(layer._variance)
        if running is not None and told["n"] > 1:
            told["ratio"] = self.stats.variance_ratio(view, running, axis)
        return told


def cast_dtype(paddle):
    """The dtype of the autocast region that this call runs in, `None` outside."""
    tracer = paddle.base.framework._dygraph_tracer()
    if tracer is None or str(tracer._amp_level).endswith("O0"):
        return None
    return str(tracer._amp_dtype)
