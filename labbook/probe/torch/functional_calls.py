"""Watches single operations of PyTorch during one forward: activations that the program calls itself, and cut graphs.

A function mode is on the stack for that one forward only. It is taken off when the forward ends, also by an exception,
and only while it is on top; while anything in the program is compiled it is never put on.
"""

import sys
from weakref import ref

from ..inspection.attention_weights import (
    FEATURES,
    PooledPadding,
    describe_attention,
    ignores_order,
    mixed_axes,
    place_share,
    tokens_ahead_of_mask,
)
from ..inspection.model_inputs import HIDDEN, TOKENS, noise_row
from ..inspection.nested import tensors_in
from ..training.call_site import line_of, place_of, user_frame
from ..wrapping import leave_out_one_frame
from .attention_scale import score_scale
from .autograd_graph import cut_mode, take_off
from .compiler import has_compiled

MOST = 64
CALL_S = 3e-6
"""Seconds that a function mode adds to a call. Measured."""

WATCHED = frozenset([
    "relu", "relu_", "leaky_relu", "gelu", "elu", "sigmoid", "sigmoid_", "tanh", "tanh_", "softmax", "log_softmax",
    "dropout",
])  # fmt: skip
_NOISE = frozenset(["randn", "randn_like", "normal", "normal_"])
_MASKS = frozenset(["masked_fill", "masked_fill_", "mul", "mul_", "where"])
_GATES, _POOLS = frozenset(["mul", "mul_", "masked_fill", "masked_fill_"]), frozenset(["sum", "mean"])
_VIEWS = frozenset(["view", "reshape", "flatten"])
_ATTENTION = {"scaled_dot_product_attention": (3, 5, -2), "multi_head_attention_forward": (16, None, 0)}
"""Fused attention -> places of its mask and of `is_causal` among the arguments, and the axis of time."""

_MODULES = ("torch/nn/modules/", "torch\\nn\\modules\\")
_CALLS_RELU = ("torch/nn/modules/transformer.py", "torch\\nn\\modules\\transformer.py")
"""Layers of PyTorch that call their activation as a function, which no module shows."""

_INSIDE = ("torch/nn/functional.py", "torch/overrides.py", "torch/_tensor.py")


class FunctionalCalls:
    """The watched functions of the dense forward under way.

    Args:
        inspector: The `TensorInspector` of the process.
    """

    def __init__(self, torch, inspector):
        self.torch = torch
        self.inspector = inspector
        self.found = {}
        self._weights = {}
        self.pooled = PooledPadding(lambda tensor: tensor.requires_grad, self._leaves_padding)
        self._mode = None
        self._root = None
        self._armed = None
        self._cuts = []
        self._reaches = False
        self.calls = 0

    def begin(self, root):
        """Puts the mode on for the forward that is about to run, from the second step on."""
        self.end()
        self.found, self._weights, self.pooled.gated = {}, {}, {}
        first = self.inspector.monitor.step < 2 and self._armed is None
        if first or has_compiled() or not hasattr(self.torch.overrides, "TorchFunctionMode"):
            return
        if not self.inspector.without_modes.only_devices(self.torch):
            return
        self._root = root
        if self._armed is not None and self._armed[0] is root:
            self._cuts = []
            self._mode = cut_mode(self.torch, self._take_cut)
        else:
            self._mode = self._watching()
        self._mode.__enter__()

    def end(self):
        """Removes the mode, where it is on top."""
        mode, self._mode = self._mode, None
        if mode is None:
            return
        take_off(self.torch, mode)
        root, self._root = self._root, None
        if self._armed is not None and self._armed[0] is root:
            self._write_cut()

    def take(self):
        """What was found since the last look, once."""
        found, self.found = self.found, {}
        return list(found.values())

    def take_seconds(self):
        """About how many seconds the mode itself took since this was asked last."""
        calls, self.calls = self.calls, 0
        return calls * CALL_S

    # activations

    def _watching(self):
        look, failed, functions = self._inspect, self.inspector.failed, self

        class Watching(self.torch.overrides.TorchFunctionMode):
            off = False

            def __torch_function__(self, func, types, args=(), kwargs=None):
                kwargs = kwargs or {}
                functions.calls += 1
                try:
                    result = func(*args, **kwargs)
                except BaseException as error:
                    leave_out_one_frame(error)
                    raise
                name = getattr(func, "__name__", "")
                if name in _VIEWS and not self.off:
                    functions._inspect_view(args, result)
                elif (name in WATCHED or name in _ATTENTION or name in _NOISE) and not self.off:
                    try:
                        if name in WATCHED:
                            look(name.rstrip("_"), args, kwargs, result)
                        elif name in _NOISE:
                            functions.found.setdefault(("noise", tuple(result.shape)), noise_row(result.shape))
                        else:
                            functions._inspect_attention(name, args, kwargs)
                    except Exception as error:
                        failed("torch.look at function", error)
                if not self.off and (name in _GATES or (functions.pooled.gated and name in _POOLS)):
                    functions._follow_pooling(name, args, result)
                if functions._weights and (name in _MASKS or name == "dropout"):
                    functions._follow_weights(name, (*args, *kwargs.values()), result)
                return result

        return Watching()

    def _inspect(self, name, args, kwargs, result):
        inspector = self.inspector
        frame = _caller()
        if frame is None and name == "softmax" and result.dim() > 2:
            frame = user_frame()  # of the weights of an attention, also where `nn.Softmax` gave them
        if frame is None or not inspector.stats.is_tensor(result) or not inspector.without_modes.is_possible():
            return
        line = line_of(frame)
        known = self.found.get((name, line))
        if known is not None:
            known["calls"] += 1
            return
        if len(self.found) >= MOST:
            return
        given = args[0] if args else kwargs.get("input")
        with inspector.without_modes:
            facts = {"fn": name, "line": line, "calls": 1, "training": True}
            facts.update(inspector.stats.inspect(result))
            is_tensor = inspector.stats.is_tensor(given)
            facts["in_bad"] = inspector.stats.bad(given) if is_tensor and facts["bad"] else 0
            facts["sat"] = (
                inspector.modules._saturated_share(given) if is_tensor and name in ("tanh", "sigmoid") else None
            )
            facts["across"] = inspector.modules.batch_variation(result)
            facts["cast"] = None
            if name == "relu":
                facts.update(inspector.modules.dead((name, line), result))
            elif name in ("softmax", "log_softmax"):
                dim = args[1] if len(args) > 1 else kwargs.get("dim")
                if type(dim) is int and result.dim():
                    facts["dim"] = dim % result.dim()
                    facts["size"] = result.shape[dim]
                    if facts["dim"] == result.dim() - 1 and inspector.stats.is_plain(result):
                        exact = result.dtype in (self.torch.float32, self.torch.float64)
                        facts.update(describe_attention(result.detach(), exact, inspector.batches))
                        self._weights[id(result)] = (ref(result), facts)
                        facts["scale"] = score_scale(given) if is_tensor and result.dim() > 2 else None
            elif name == "dropout":
                facts["training"] = bool(args[2] if len(args) > 2 else kwargs.get("training", True))
        self.found[name, line] = facts

    def _follow_weights(self, name, given, result):
        """Describes the weights of an attention as a mask leaves them that comes after the softmax."""
        try:
            found = (self._weights.get(id(one)) for one in given[:3])
            weak, facts = next((one for one in found if one is not None), (None, None))
            if weak is None or not any(weak() is one for one in given) or result.shape != weak().shape:
                return
            self._weights[id(result)] = (ref(result), facts)
            if name in _MASKS and self.inspector.stats.is_plain(result) and self.inspector.without_modes.is_possible():
                with self.inspector.without_modes:
                    facts.update(describe_attention(result.detach(), False, self.inspector.batches))
        except Exception as error:
            self.inspector.failed("torch.look at weights", error)

    def _follow_pooling(self, name, args, result):
        try:
            sides = args[:2]
            if name in _POOLS and args:
                self.pooled.pool(args[0], result, self.found, MOST)
            elif len(sides) == 2 and all(map(self.inspector.stats.is_tensor, (*sides, result))):
                self.pooled.multiply(sides, result, name.startswith("masked_fill"))
        except Exception as error:
            self.inspector.failed("torch.look at pooling", error)

    def _leaves_padding(self, mask, fills):
        with self.inspector.without_modes:
            hidden = mask.detach()[..., 0] != 0
        return self._is_padding_all(hidden, attends=not fills)

    def _inspect_view(self, args, result):
        """Notes that the axes of heads and of time are exchanged by a new shape alone."""
        try:
            if args and len(self.found) < MOST and mixed_axes(args[0].shape, result.shape):
                line = line_of(user_frame())
                shapes = {"viewed": list(args[0].shape), "shape": list(result.shape)}
                self.found.setdefault(("view", line), dict(shapes, fn="view", line=line, calls=1, training=True))
        except Exception as error:
            self.inspector.failed("torch.look at view", error)

    def _inspect_attention(self, name, args, kwargs):
        """Notes whether an attention over one sequence hides anything from it."""
        mask, causal, axis = _ATTENTION[name]
        query, key = (args[at] if len(args) > at else kwargs.get(word) for at, word in enumerate(("query", "key")))
        masked = kwargs.get("attn_mask") is not None or bool(kwargs.get("is_causal"))
        masked = masked or (causal is not None and len(args) > causal and bool(args[causal]))
        masked = masked or (len(args) > mask and args[mask] is not None)
        key_of = ("attention", "%d %s" % (query.shape[axis], masked))
        known = self.found.get(key_of)
        if known is not None:
            known["calls"] += 1
        elif len(self.found) < MOST:
            facts = {"fn": "attention", "line": "", "calls": 1, "training": True, "masked": masked}
            given = kwargs.get("key_padding_mask") if causal is None else kwargs.get("attn_mask")
            if given is None and causal is not None and len(args) > mask:
                given = args[mask]
            facts["hides"] = masked or given is not None
            facts["padding_only"] = self._is_padding_all(given, attends=causal is not None)
            added = args[mask] if len(args) > mask else kwargs.get("attn_mask")
            facts["ahead"], facts["flags"] = self._tokens_ahead(added, causal), self._is_flags(added)
            facts["even"] = self._is_even(query, key) if causal is not None else None
            is_bare = added is None or not added.is_floating_point()
            facts.update(self._compare_equal_tokens(key, axis) if is_bare and not facts["even"] else {})
            self.found[key_of] = dict(facts, shape=[query.shape[axis], key.shape[axis]])

    def _tokens_ahead(self, mask, causal):
        """How many later tokens a mask over queries and keys leaves; `causal` is `None` where true hides."""
        if mask is None or not self.inspector.stats.is_plain(mask) or not self.inspector.without_modes.is_possible():
            return None
        with self.inspector.without_modes:
            mask = mask.detach()
            hidden = mask <= HIDDEN if mask.is_floating_point() else mask.bool() != (causal is not None)
            return tokens_ahead_of_mask(hidden)

    def _is_flags(self, mask):
        """Whether a mask that is added to the scores has zeros and ones, and nothing else."""
        if mask is None or not self.inspector.stats.is_plain(mask) or not self.inspector.without_modes.is_possible():
            return None
        with self.inspector.without_modes:
            ones = (mask.detach() == 1).sum().item() if mask.is_floating_point() else 0
            return 0 < ones < mask.numel() and ones == mask.count_nonzero().item()

    def _is_even(self, query, key):
        """Whether the queries are 0 or the keys of each sample are all equal, so that all weights are."""
        stats = self.inspector.stats
        if not (stats.is_plain(query) and stats.is_plain(key) and self.inspector.without_modes.is_possible()):
            return None
        with self.inspector.without_modes:
            query, key = query.detach(), key.detach()
            if key.shape[-2] < 2 or not query.numel():
                return None
            return not query.count_nonzero().item() or self.torch.equal(key, key[..., :1, :].expand_as(key))

    def _compare_equal_tokens(self, key, axis):
        """`unordered` and `placed`, of the keys of equal tokens of the first sample; `axis` is that of time."""
        tokens = self.inspector.batches.tokens_of_sample(key.shape[axis])
        if tokens is None or not self.inspector.stats.is_plain(key) or not self.inspector.without_modes.is_possible():
            return {}
        with self.inspector.without_modes:
            sample = key.detach()[:, 0] if axis == 0 else key.detach()[(0,) * (key.dim() - 2)]
            rows = sample[:, :FEATURES].T.tolist()
            return {"unordered": ignores_order(rows, tokens), "placed": place_share(rows, tokens)}

    def _is_padding_all(self, mask, attends):
        """Whether a mask over keys leaves only padding.

        Args:
            mask: Booleans, or what is added to scores.
            attends: Whether true means that a position is attended to.
        """
        if mask is None or not self.inspector.stats.is_plain(mask) or not self.inspector.without_modes.is_possible():
            return None
        with self.inspector.without_modes:
            is_4d = mask.dim() == 4 and mask.shape[1] == 1 and mask.shape[2] > 0
            keys = mask[:, 0, 0] if is_4d else mask
            if keys.dim() != 2 or not 0 < keys.numel() <= TOKENS:
                return None
            if is_4d and not self.torch.equal(mask, mask[:, :, :1].expand_as(mask)):
                return None  # it differs between the queries
            mask = keys
            hidden = mask <= HIDDEN if mask.is_floating_point() else mask.bool() != attends
            return self.inspector.batches.is_padding_all(mask.shape, hidden.flatten().tolist())

    # cuts

    def arm(self, root, missing, frame):
        """Has the next training forward of a model watched for the place where the graph of some parameters is cut.

        Args:
            missing: `(name, parameter, module, root)` of what the graph did not reach.
            frame: The user's frame that called `backward`.
        """
        if self._armed is None and not has_compiled():
            self._armed = (root, {id(parameter) for _, parameter, _, _ in missing}, place_of(frame))
            self.inspector.monitor.dense = True
            self.inspector.monitor.phases.discard_step()

    def looks_at_output(self, root, output):
        """Processes the output of the watched forward: does it reach what the loss did not?"""
        if self._armed is None or self._armed[0] is not root or self._mode is None:
            return
        tensors = [t for _, t in tensors_in(output, self.inspector.stats) if t.requires_grad]
        leaves = self.inspector.graphs.reach(tensors)
        self._reaches = not self._armed[1].isdisjoint(leaves)

    def _take_cut(self, op, place):
        if place and len(self._cuts) < MOST:
            self._cuts.append(dict(place, op=op))

    def _write_cut(self):
        _, _, place = self._armed
        self._armed = None
        if self._reaches:
            self.inspector.graphs.on_cut(dict(place, op="after the model"))
        elif self._cuts:
            self.inspector.graphs.on_cut(self._cuts[0])


def _caller():
    """The user's frame that called a function, `None` where a module of PyTorch called it, save a transformer layer."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.endswith(_CALLS_RELU):
            return user_frame()
        if any(part in name for part in _MODULES):
            return None
        if not name.endswith(_INSIDE) and "/torch/" not in name and frame.f_globals.get("__package__") != __package__:
            break
        frame = frame.f_back
    return user_frame()
