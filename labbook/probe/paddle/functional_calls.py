"""Looks at what functions the program itself calls in a dense forward: activations, and reads out of bounds.

PaddlePaddle 3.3 does not check the bounds of tensor indices on a CPU: they return values that are in no tensor.
"""

import sys
from _thread import get_ident
from time import thread_time
from types import FunctionType
from weakref import ref

from ..inspection.attention_weights import PooledPadding, describe_attention, mixed_axes
from ..inspection.model_inputs import HIDDEN, TOKENS, noise_row
from ..inspection.nested import first_tensor
from ..training.call_site import line_of, user_frame
from ..wrapping import TemporaryPatches, leave_out_one_frame, transparent_wrapper, wrap_function
from .elementwise_losses import ElementwiseLosses
from .loss_lines import LossLines
from .module_outputs import cast_dtype
from .policy_ratio import PolicyRatio

MOST = 64
MOST_READS = 20
WATCHED = (
    "relu", "leaky_relu", "gelu", "elu", "sigmoid", "tanh", "softmax", "log_softmax", "dropout",
)  # fmt: skip
_NOISE = ("randn", "normal", "standard_normal", "randn_like")
_VIEWS = ("reshape", "view", "flatten")
_PRODUCTS, _POOLS = ("__mul__", "__rmul__", "multiply"), ("sum", "mean")
_FLAT = ("sigmoid", "tanh")
_NORMALISING = ("softmax", "log_softmax")


class FunctionalCalls:
    """The watched functions of one process, at dense steps.

    Args:
        inspector: The `TensorInspector` of the process.
    """

    def __init__(self, paddle, inspector):
        self.paddle = paddle
        self.inspector = inspector
        self.stats = inspector.stats
        self._on = False
        self._outputs = None
        self._took = 0.0
        self._root = None
        self._busy = False
        self._pooling = TemporaryPatches()
        self.pairs = ElementwiseLosses(paddle, inspector.failed)
        self.lines = LossLines(paddle, inspector.failed)
        self.ratios = PolicyRatio(inspector)
        self.pooled = PooledPadding(lambda tensor: not tensor.stop_gradient, self._leaves_padding)
        self.found = {}
        self.reads = {}

    def forget(self):
        """Begins anew, in a forked child."""
        self._on = self._busy = False
        self._outputs = None
        self.pairs.forget()
        self.lines.forget()
        self.ratios.forget()
        self.found, self.reads = {}, {}

    def begin(self, root):
        """Looks until the end of the forward that is about to run."""
        self.found, self.pooled.gated = {}, {}
        self._root = root
        self._on = True
        self._watch_pooling()

    def watch_loss(self, root, tensors):
        """Goes on looking for what the loss is made of, until `end`.

        Args:
            root: The model whose forward has ended.
        """
        self._pooling.remove()
        if root.hidden or (self._on and self._root is root):
            self._outputs = [ref(tensor) for tensor in tensors]
            self.pairs.begin(self._outputs)
            # What a compiled model does is not seen; what the program does with its outputs is.
            if not root.hidden:
                self.lines.begin()

    def backward(self, tensors):
        """Processes what `backward` is called on, and ends the look."""
        self.pairs.backward(tensors)
        self.lines.backward()
        self.end()

    def end(self):
        """Ends the look."""
        self._pooling.remove()
        self.pairs.end()
        self.lines.end()
        self._on = False
        self._outputs = None

    def take(self):
        """What was found, once."""
        found, self.found = list(self.found.values()), {}
        return found

    def take_seconds(self):
        """Seconds that looking inside the forward has taken since it was asked last."""
        took, self._took = self._took, 0.0
        return took

    def install(self, patches):
        """Puts the wrappers in place."""
        paddle, functional = self.paddle, sys.modules["paddle.nn.functional"]
        for name in WATCHED:
            for home in (functional, paddle):
                original = home.__dict__.get(name)
                if type(original) is FunctionType or callable(original):
                    patches.replace(home, name, self._wrap(original, name))
        for name in _NOISE:
            if type(paddle.__dict__.get(name)) is FunctionType:
                patches.replace(paddle, name, self._drawing(paddle.__dict__[name]))
        for name in _VIEWS:
            for home in (paddle, paddle.Tensor):
                if name in home.__dict__:
                    patches.replace(home, name, self._viewing(home.__dict__[name]))
        self.ratios.install(paddle, patches)
        patches.replace(functional, "embedding", self._embedding(functional.embedding))
        layers = sys.modules.get("paddle.nn.layer.transformer")
        if type(getattr(layers, "_convert_attention_mask", None)) is FunctionType:
            patches.replace(layers, "_convert_attention_mask", self._masking(layers._convert_attention_mask))
        tensor = paddle.Tensor
        if "__getitem__" in tensor.__dict__:
            patches.replace(tensor, "__getitem__", self._indexing(tensor.__getitem__))

    def _wrap(self, original, name):
        def function(*args, **kwargs):
            is_watched = self._on
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise
            if not is_watched:
                return result
            began = thread_time()
            if self._outputs is None:
                self._on_activation(name, args, kwargs, result)
            elif name in _NORMALISING:
                self._on_softmax(name, args, kwargs, result)
            self._took += thread_time() - began
            return result

        return transparent_wrapper(function, original)

    def _on_activation(self, name, args, kwargs, result):
        """Processes a call of an activation by the program itself, not by a layer of PaddlePaddle."""
        try:
            caller = sys._getframe(2)
            if self._busy or user_frame() is not caller:
                return
            self._note(name, args, kwargs, result, caller)
        except Exception as error:
            self.inspector.failed("paddle.look at function", error)

    def _on_softmax(self, name, args, kwargs, result):
        """Processes a softmax between the model and its loss, by whomever; not one that only shows predictions."""
        try:
            frame = user_frame()
            if frame is None or result.stop_gradient or get_ident() != self.inspector.monitor.thread:
                return
            self._note(name, args, kwargs, result, frame)
        except Exception as error:
            self.inspector.failed("paddle.look at function", error)

    def _note(self, name, args, kwargs, result, frame):
        """Counts a call of a line of the program; describes the first one."""
        key = (name, frame.f_code.co_filename, frame.f_lineno)
        known = self.found.get(key)
        if known is not None:
            known["calls"] += 1
        elif len(self.found) < MOST:
            fields = self._describe(name, args, kwargs, result, key)
            if fields is not None:
                self.found[key] = dict(fields, line=line_of(frame))

    def _describe(self, name, args, kwargs, result, key):
        given = first_tensor(args or tuple(kwargs.values()), self.stats)
        if not self.stats.is_tensor(result) or given is None:
            return None
        modules = self.inspector.modules
        fields = {"fn": name, "calls": 1, "training": self._root.training()}
        fields.update(self.stats.inspect(result))
        view = self.stats.view(given)
        fields["in_bad"] = self.stats.bad(view) if view is not None else 0
        fields["sat"] = modules.saturated_share(given) if name in _FLAT else None
        fields["across"] = modules.batch_variation(result)
        if name == "relu":
            fields.update(
                modules.dead((id(self._root), *key), result) if not fields["in_bad"] else {"dead": None, "dead_n": 0}
            )
        fields["cast"] = cast_dtype(self.paddle)
        if name in ("softmax", "log_softmax"):
            axis = args[1] if len(args) > 1 else kwargs.get("axis", kwargs.get("dim", -1))
            if type(axis) is int and result.shape:
                fields["dim"] = axis % len(result.shape)
                fields["size"] = result.shape[axis]
                weights = self.stats.view(result) if fields["dim"] == len(result.shape) - 1 else None
                if weights is not None:
                    fields.update(describe_attention(weights, weights.itemsize >= 4, self.inspector.batches))
                fields["of_output"] = any(output() is given for output in self._outputs or ())
        return fields

    def _drawing(self, original):
        def on_random_call(result, args, kwargs):
            if self._on and self._outputs is None and self.stats.is_tensor(result):
                shape = tuple(result.shape)
                self.found.setdefault(("noise", shape), noise_row(shape))

        return wrap_function(original, self.inspector.adapter.probe.guard("paddle.noise"), after=on_random_call)

    def _viewing(self, original):
        def on_view(result, args, kwargs):
            if self._on and self._outputs is None and args and mixed_axes(args[0].shape, result.shape):
                line = line_of(user_frame())
                shapes = {"viewed": list(args[0].shape), "shape": list(result.shape)}
                self.found.setdefault(("view", line), dict(shapes, fn="view", line=line, calls=1, training=True))

        return wrap_function(original, self.inspector.adapter.probe.guard("paddle.view"), after=on_view)

    def _watch_pooling(self):
        """Has products and sums looked at until the forward ends."""
        self._pooling.remove()
        for home, name in ((home, name) for home in (self.paddle, self.paddle.Tensor) for name in _PRODUCTS + _POOLS):
            original = home.__dict__.get(name)
            if original is not None:
                look = self._pool if name in _POOLS else self._multiply
                self._pooling.put(home, name, self._following(original, look))

    def _following(self, original, look):
        def on_call(result, args, kwargs):
            if self.stats.is_tensor(result) and get_ident() == self.inspector.monitor.thread:
                look(result, [*args, *kwargs.values()][:2])

        return wrap_function(original, self.inspector.adapter.probe.guard("paddle.pooling"), after=on_call)

    def _multiply(self, result, sides):
        if len(sides) == 2 and all(map(self.stats.is_tensor, sides)):
            self.pooled.multiply(sides, result)

    def _pool(self, result, given):
        self.pooled.pool(given[0], result, self.found, MOST)

    def _leaves_padding(self, mask, fills):
        view = self.stats.whole_view(mask) if mask.shape[0] * mask.shape[1] <= TOKENS else None
        if view is None:
            return None
        return self.inspector.batches.is_padding_all(view.shape[:2], (view[..., 0] == 0).reshape(-1).tolist())

    def _masking(self, original):
        def convert(*args, **kwargs):
            mask = original(*args, **kwargs)
            if self._on and self._outputs is None and mask is not None:
                try:
                    self._inspect_mask(mask)
                except Exception as error:
                    self.inspector.failed("paddle.mask", error)
            return mask

        return transparent_wrapper(convert, original)

    def _inspect_mask(self, mask):
        """Notes whether what is added to the scores of an attention leaves only padding, or has zeros and ones."""
        shape = list(mask.shape)
        key = ("attention_mask", "", shape[-1])
        known = self.found.get(key)
        if known is not None:
            known["calls"] += 1
        elif 0 < mask.size <= TOKENS and len(self.found) < MOST:
            view = self.stats.whole_view(mask)
            if view is not None and view.dtype.kind == "f":
                fields = {"fn": "attention_mask", "line": "", "calls": 1, "training": True, "shape": shape}
                ones = int((view == 1).sum())
                fields["flags"] = 0 < ones < view.size and ones == int((view != 0).sum())
                if len(shape) == 4 and shape[1:3] == [1, 1]:
                    hidden = (view.reshape(-1) <= HIDDEN).tolist()
                    fields["padding_only"] = self.inspector.batches.is_padding_all((shape[0], shape[3]), hidden)
                self.found[key] = fields

    def _check(self, name, index, low, size):
        view = self.stats.view(index)
        if view is not None and view.dtype.kind in "iu":
            self._judge(name, view, low, size)

    def _judge(self, name, view, low, size):
        if not view.size:
            return
        least, most = int(view.min()), int(view.max())
        if least >= low and most < size:
            return
        frame = user_frame()
        key = (name, line_of(frame))
        known = self.reads.get(key)
        if known is None and len(self.reads) < MOST_READS:
            known = self.reads[key] = {"op": name, "line": key[1], "max": most, "min": least, "size": size, "count": 0}
        if known is not None:
            known["count"] += 1
            known["max"], known["min"] = max(known["max"], most), min(known["min"], least)

    def _embedding(self, original):
        def embedding(*args, **kwargs):
            if self.inspector.is_looking():
                try:
                    named = dict(zip(("x", "weight"), args), **kwargs)
                    if self.stats.is_tensor(named.get("x")):
                        self._check("embedding", named["x"], 0, named["weight"].shape[0])
                except Exception as error:
                    self.inspector.failed("paddle.bounds", error)
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise

        return transparent_wrapper(embedding, original)

    def _indexing(self, original):
        def get_item(tensor, item):
            if self.inspector.is_looking():
                self._index(tensor, item)
            try:
                return original(tensor, item)
            except BaseException as error:
                leave_out_one_frame(error)
                raise

        return transparent_wrapper(get_item, original)

    def _index(self, tensor, item):
        try:
            items = item if type(item) is tuple else (item,)
            if any(one is None or one is Ellipsis or type(one) is bool for one in items):
                return
            for axis, one in enumerate(items):
                if self.stats.is_tensor(one) and one.shape and axis < len(tensor.shape):
                    if "int" not in self.stats.dtype(one):
                        return
                    self._check("index", one, -tensor.shape[axis], tensor.shape[axis])
        except Exception as error:
            self.inspector.failed("paddle.bounds", error)
