"""Looks at what the layers of a PaddlePaddle model return, in one forward, through the wrapped call of all layers."""

from _thread import get_ident
from time import thread_time

from ..inspection import module_outputs
from ..inspection.module_outputs import FLAT, RECTIFIERS
from ..inspection.nested import first_tensor, tensors_in
from ..wrapping import leave_out_one_frame

_MOST_ELEMENTS = 1 << 20
_ROWS = 64


class ModuleOutputs(module_outputs.ModuleOutputs):
    """The layers of one process that uses PaddlePaddle, at dense forwards.

    Args:
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        ever: `(index of a model, number of a layer)` of each layer that was ever called.
    """

    def __init__(self, paddle, stats, failed):
        super().__init__(stats, failed, thread_time)
        self.paddle = paddle
        self._norms = paddle.nn.layer.norm._BatchNormBase
        self.ever = set()
        self.clear()

    def clear(self):
        """Forgets what the last look has found."""
        super().clear()
        self._thread = None
        self._table = {}

    def begin(self, root, table, first):
        """Prepares for the next forward of a model.

        Args:
            table: id of a layer -> its number.
            first: Whether inputs and outputs are described, for the table of layers.
        """
        self._root = root
        self._table = table
        self._first = first
        self._thread = get_ident()

    def call(self, layer, original, args, kwargs):
        """Calls a layer inside the model, and looks at what it returned."""
        try:
            output = original(layer, *args, **kwargs)
        except BaseException as error:
            leave_out_one_frame(error)
            raise
        number = self._table.get(id(layer))
        if number is not None and get_ident() == self._thread:
            began = self.clock()
            self.ever.add((self._root.index, number))
            try:
                self._inspect(number, layer, args or tuple(kwargs.values()), output)
            except Exception as error:
                self._failed("paddle.look at layer", error)
            self.cost += self.clock() - began
        return output

    def inspect_root(self, layer, given, output):
        """Looks at what the model itself returned; `given` are its arguments, and those by name."""
        args, kwargs = given
        self.ever.add((self._root.index, 0))
        args = args or tuple(kwargs.values())
        self._find_views_of(args)
        self._inspect(0, layer, args, output)
        fields = self.found.get(0)
        if fields is not None and fields["calls"] == 1:
            fields["alike"] = self._are_alike(args)

    def _are_alike(self, args):
        """Whether all samples of all inputs are equal, `None` where there is no batch that can be read."""
        views = [self.stats.whole_view(tensor) for _, tensor in tensors_in(args, self.stats, 4)]
        views = [view for view in views if view is not None and view.ndim and len(view) > 1]
        return all((view[:_ROWS] == view[:1]).all() for view in views) if views else None

    def _inspect_output(self, number, layer, args, tensor):
        given = first_tensor(args, self.stats)
        kind = type(layer).__name__
        fields = {"i": number, "calls": 1, "training": layer.training}
        fields.update(self.stats.inspect(tensor))
        fields["in_bad"] = self._bad_inputs(args)
        fields["sat"] = self.saturated_share(given) if kind in FLAT and given is not None else None
        fields["across"] = self.batch_variation(tensor)
        if kind in RECTIFIERS:
            # Of NaN these rectifiers make 0: that unit is not dead.
            dead = self.dead((id(self._root), number), tensor) if not fields["in_bad"] else {"dead": None, "dead_n": 0}
            fields.update(dead)
        fields["cast"] = cast_dtype(self.paddle)
        if layer.training and given is not None and issubclass(type(layer), self._norms):
            fields["bn"] = self._norm(layer, given)
        return fields

    def _is_plain(self, tensor):
        return tensor._is_initialized() and tensor.is_dense()

    def _row_variance(self, tensor):
        view = self.stats.whole_view(tensor)
        return float(view.var(-1).min()) if view is not None and view.dtype.kind == "f" else None

    def _bad(self, tensor):
        view = self.stats.view(tensor)
        return self.stats.bad(view) if view is not None else 0

    def saturated_share(self, tensor):
        """Share of |input| > 5, `None` where it cannot be read."""
        view = self.stats.view(tensor)
        return self.stats.saturated_share(view) if view is not None and view.dtype.kind == "f" else None

    def batch_variation(self, tensor):
        """V / (v + m): v the variance over samples, averaged over units, m the mean square of units' means."""
        view = self.stats.whole_view(tensor)
        return self.stats.batch_variation(view) if view is not None and view.ndim > 1 else None

    def _silent_units(self, tensor):
        view = self.stats.whole_view(tensor)
        if view is None or view.ndim < 2 or not view.size:
            return None
        while view.size > _MOST_ELEMENTS and view.shape[0] > 1:
            view = view[::2]
        return self.stats.silent_units(view)

    def _size(self, silent):
        return silent.size

    def _norm(self, layer, given):
        """Values for each channel, and how far the running variance is from that of the batch."""
        view = self.stats.whole_view(given)
        if view is None or view.ndim < 2 or not view.size:
            return None
        axis = view.ndim - 1 if getattr(layer, "_data_format", "NCHW") in ("NHWC", "NLC", "NDHWC") else 1
        channels = view.shape[axis]
        fields = {"n": view.size // max(channels, 1), "ratio": None}
        running = self.stats.view(layer._variance)
        if running is not None and fields["n"] > 1:
            fields["ratio"] = self.stats.variance_ratio(view, running, axis)
        return fields


def cast_dtype(paddle):
    """The dtype of the autocast region that this call runs in, `None` outside."""
    tracer = paddle.base.framework._dygraph_tracer()
    if tracer is None or str(tracer._amp_level).endswith("O0"):
        return None
    return str(tracer._amp_dtype)
