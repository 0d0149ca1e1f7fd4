"""Watches the loss functions of PyTorch, also where its loss modules call them, and dropout under evaluation.

A wrapper keeps the globals, name and source of the function it wraps, so that TorchScript, warnings with a stack level
and pickles see what they would see without it.
"""

import sys
import types
from time import thread_time

from ..training.call_site import line_of, user_frame
from ..training.loss_calls import LossCallSites
from ..wrapping import as_import_machinery, leave_out_one_frame, transparent_wrapper

_INDEX = ["input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"]
_POINT = ["input", "target", "size_average", "reduce", "reduction", "weight"]
LOSSES = {
    "cross_entropy": ("cross_entropy", _INDEX),
    "nll_loss": ("nll_loss", _INDEX),
    "binary_cross_entropy": (
        "binary_cross_entropy",
        ["input", "target", "weight", "size_average", "reduce", "reduction"],
    ),
    "binary_cross_entropy_with_logits": (
        "bce_with_logits",
        ["input", "target", "weight", "size_average", "reduce", "reduction", "pos_weight"],
    ),
    "mse_loss": ("mse_loss", _POINT),
    "l1_loss": ("l1_loss", _POINT),
    "smooth_l1_loss": ("smooth_l1", ["input", "target", "size_average", "reduce", "reduction", "beta"]),
    "huber_loss": ("huber", ["input", "target", "reduction", "delta", "weight"]),
    "kl_div": ("kl_div", ["input", "target", "size_average", "reduce", "reduction", "log_target"]),
    "ctc_loss": ("ctc", ["input", "target", "input_lengths", "target_lengths", "blank", "reduction", "zero_infinity"]),
    "poisson_nll_loss": ("poisson_nll", ["input", "target"]),
    "gaussian_nll_loss": ("gaussian_nll", ["input", "target", "var", "full", "eps", "reduction"]),
    "hinge_embedding_loss": ("hinge_embedding", ["input", "target"]),
    "multi_margin_loss": ("margin", ["input", "target"]),
    "triplet_margin_loss": ("triplet", ["input"]),
}
"""Function -> its name in the protocol and its parameters."""

_CLASSES = ("cross_entropy", "nll_loss")
_POINTWISE = frozenset(
    ["mse_loss", "l1_loss", "smooth_l1", "huber", "kl_div", "binary_cross_entropy", "bce_with_logits"]
)
_DROPOUTS = ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")
MOST_REFUSED = 20
"""Calls from a line that are looked at although they raised."""

_ROWS = 4096
_MOST_ACCURACY = 1 << 20


class LossFunctions:
    """The loss functions of one process.

    Args:
        torch: The module.
        stats: Looks at tensors.
        without_modes: The context to look in.
        emit: `emit(kind, **fields)` writes an event.
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        monitor: Told of calls; set by the eyes.
        target: The labels of the dense step under way: `(path, target)`, or `None`.
    """

    def __init__(self, torch, stats, without_modes, emit, failed):
        self.torch = torch
        self.stats = stats
        self.without_modes = without_modes
        self.monitor = None
        self.target = None
        self._emit = emit
        self._failed = failed
        self._busy = False
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self.sites = LossCallSites(self._emit, "torch")
        self._dropouts = 0

    def install(self, is_compiling):
        """Puts the wrappers in place."""
        functional = sys.modules["torch.nn.functional"]
        for name, (told, parameters) in LOSSES.items():
            original = getattr(functional, name, None)
            if type(original) is types.FunctionType or original is not None:
                setattr(functional, name, self._watched(original, told, parameters, is_compiling))
        for name in _DROPOUTS:
            original = getattr(functional, name, None)
            if type(original) is types.FunctionType:
                setattr(functional, name, self._watched_dropout(original, is_compiling))

    def _watched(self, original, told, parameters, is_compiling):
        begins, ended = self.without_modes.wrap(self._begins), self.without_modes.wrap(self._ended)
        refused = self.without_modes.wrap(self._refused)

        def loss(*args, **kwargs):
            if is_compiling():
                return original(*args, **kwargs)
            monitor = self.monitor
            rests = monitor.skipping and not monitor.evaluation.open
            call = None if rests else begins(told)
            if call is None and not rests:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:  # the program's own error, passed on
                refused(begins(told) if rests else call, args, kwargs, parameters)
                leave(error)
                raise
            if not rests:
                ended(call, result, args, kwargs, parameters)
            return result

        leave = leave_out_one_frame
        return in_place_of(loss, original)

    def _begins(self, told):
        """The site of a call, `None` for calls from inside another and for other threads."""
        if self._busy:
            return None
        monitor = self.monitor
        try:
            if monitor.thread is not None and not monitor.is_followed_thread():
                return None
            frame = user_frame()
            training = self.torch.is_grad_enabled()
            key = None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
            site = self.sites.find(told, key, training)
            if site is None:
                site = self.sites.add(told, key, training, line_of(frame), monitor.step)
            if site is not None:
                self._busy = True
            return site
        except Exception as error:
            self._failed("torch.loss", error)
            return None

    def _ended(self, site, result, args, kwargs, parameters):
        self._busy = False
        if site is None:
            return
        monitor = self.monitor
        began, used = monitor.clock(), thread_time() if monitor.dense else 0.0
        try:
            if site.training:
                monitor.loop.losses_open += 1
            due = site.due(monitor.dense)
            if (due or monitor.evaluation.open) and self.without_modes.is_possible():
                given = dict(zip(parameters, args))
                given.update(kwargs)
                with self.without_modes:
                    self._look(site, given, result, due)
            if monitor.dense:
                monitor.cost += thread_time() - used
        except Exception as error:
            self._failed("torch.loss", error)
        monitor.training.overhead_s += monitor.clock() - began

    def _refused(self, site, args, kwargs, parameters):
        """Looks at what a loss function would not take, such as a label outside of the head."""
        self._busy = False
        if site is None or site.refused >= MOST_REFUSED:
            return
        try:
            given = dict(zip(parameters, args))
            given.update(kwargs)
            inputs = given.get("input")
            if not self.without_modes.is_possible() or not self.stats.is_tensor(inputs) or not inputs.is_cpu:
                return
            site.refused += 1
            with self.without_modes:
                if self.stats.is_plain(inputs):
                    site.calls += 1
                    site.takes(self._facts(site.function, given, inputs, given.get("target")), None)
                    self.sites.tell(site)
        except Exception as error:
            self._failed("torch.loss", error)

    def _look(self, site, given, result, due):
        inputs, target = given.get("input"), given.get("target")
        if not self.stats.is_tensor(inputs) or not self.stats.is_plain(inputs):
            return
        at_hand = inputs.is_cpu
        evaluation = self.monitor.evaluation
        value = None
        if self.stats.is_tensor(result) and result.numel() and (at_hand or due) and self.stats.is_plain(result):
            value = float(result.detach().to(self.torch.float32).mean().item())
        if evaluation.open and not site.training and value is not None:
            evaluation.loss(site.function, value / self._summed(site.function, given, inputs, target))
        if site.function == "cross_entropy" and evaluation.open and not site.training and at_hand:
            self._accuracy(inputs, target, given.get("ignore_index", -100))
        if not due:
            return
        site.takes(self._facts(site.function, given, inputs, target), value)
        if site.calls == 1:
            self.sites.tell(site)
        if self.monitor.dense and site.training and self.target is None and self.stats.is_tensor(target):
            self.target = target.detach()

    def _summed(self, function, given, inputs, target):
        """How many targets a value is the sum over: 1 where it is their mean."""
        if given.get("reduction", "mean") != "sum" or not self.stats.is_tensor(target):
            return 1
        if function in _CLASSES and target.is_floating_point():
            return max(inputs.numel() // max(inputs.shape[1 if inputs.dim() > 1 else 0], 1), 1)
        return max(target.numel(), 1)

    def _facts(self, function, given, inputs, target):
        facts = {
            "input": self.stats.look(inputs),
            "reduction": given.get("reduction", "mean"),
            "weight": given.get("weight") is not None or given.get("pos_weight") is not None,
        }
        if not self.stats.is_tensor(target) or not self.stats.is_plain(target) or not target.numel():
            return facts
        facts["target"] = self.stats.look(target)
        facts["items"] = target.numel()
        if function in _CLASSES and inputs.numel():
            facts.update(self._of_classes(inputs, target, given.get("ignore_index", -100)))
        elif function in _POINTWISE:
            result = self.torch.broadcast_shapes(inputs.shape, target.shape) if inputs.shape != target.shape else None
            facts["broadcast"] = result is not None and result != inputs.shape and result != target.shape
            if result is not None:
                facts["items"] = _product(result)
        low, high = facts["input"]["min"], facts["input"]["max"]
        facts["unit_range"] = low is not None and low >= 0.0 and high <= 1.0
        if function in ("binary_cross_entropy", "bce_with_logits"):
            facts["outside"] = int(((target < 0) | (target > 1)).sum().item())
        return facts

    def _of_classes(self, inputs, target, ignored):
        axis = 1 if inputs.dim() > 1 else 0
        classes = inputs.shape[axis]
        told = {"classes": classes, "soft": target.is_floating_point()}
        if told["soft"]:
            told["items"] = max(target.numel() // max(classes, 1), 1)
        else:
            skipped = target == ignored
            told["targets"], told["ignored"] = target.numel(), int(skipped.sum().item())
            told["items"] = told["targets"] - told["ignored"]
            told["outside"] = int((((target < 0) | (target >= classes)) & ~skipped).sum().item())
        told.update(self._rows(inputs, axis, classes))
        return told

    def _rows(self, inputs, axis, classes):
        """Whether the rows of the input are probabilities, or their logarithms, along the axis of the classes."""
        if classes < 1 or not inputs.is_floating_point():
            return {}
        rows = inputs.detach().movedim(axis, -1).reshape(-1, classes)
        if rows.shape[0] > _ROWS:
            rows = rows[:: rows.shape[0] // _ROWS]
        rows = rows.to(self.torch.float32)
        prob = self._sums_to_one(rows, 1)
        logprob = bool((rows <= 1e-4).all().item()) and self._sums_to_one(rows.exp(), 1)
        told = {"prob_rows": prob, "logprob_rows": logprob}
        if inputs.dim() == 2 and inputs.shape[0] >= 2 and classes > 1 and not prob and not logprob:
            whole = inputs.detach().to(self.torch.float32)
            columns = self._sums_to_one(whole, 0)
            told["prob_columns"] = columns or (bool((whole <= 1e-4).all().item()) and self._sums_to_one(whole.exp(), 0))
        return told

    def _sums_to_one(self, rows, axis):
        if not bool((rows >= 0).all().item()):
            return False
        return bool(((rows.sum(axis) - 1.0).abs() <= 1e-4).all().item())

    def _accuracy(self, inputs, target, ignored):
        if not self.stats.is_tensor(target) or target.is_floating_point() or inputs.numel() > _MOST_ACCURACY:
            return
        axis = 1 if inputs.dim() > 1 else 0
        if inputs.dim() != target.dim() + 1 or not inputs.numel():
            return
        kept = target != ignored
        right = (inputs.argmax(axis) == target) & kept
        self.monitor.evaluation.accuracy(int(right.sum().item()), int(kept.sum().item()))

    def _watched_dropout(self, original, is_compiling):
        active = self._dropout

        def dropout(*args, **kwargs):
            if is_compiling():
                return original(*args, **kwargs)
            active(args, kwargs)
            return original(*args, **kwargs)

        return in_place_of(dropout, original)

    def _dropout(self, args, kwargs):
        """Counts a dropout that is active although the model is evaluated."""
        monitor = self.monitor
        root = monitor.inside
        if root is None or not monitor.evaluation.open:
            return
        try:
            training = args[2] if len(args) > 2 else kwargs.get("training", True)
            p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            if training and p and not root.training():
                monitor.evaluation.dropout(line_of(user_frame()))
        except Exception as error:
            self._failed("torch.dropout", error)


def in_place_of(wrapper, original):
    """`wrapper` with the globals, name, defaults and documentation of `original`, invisible to stack levels."""
    wrapper = as_import_machinery(wrapper)
    names = getattr(original, "__globals__", None)
    if names is not None:
        wrapper = types.FunctionType(
            wrapper.__code__, names, wrapper.__name__, wrapper.__defaults__, wrapper.__closure__
        )
    return transparent_wrapper(wrapper, original)


def _product(shape):
    product = 1
    for length in shape:
        product *= length
    return product
