"""Watches the loss functions of PyTorch, also where its loss modules call them, and dropout under evaluation.

A wrapper keeps the globals, name and source of the function it wraps, so that TorchScript, warnings with a stack level
and pickles see what they would see without it.
"""

import sys
import types
from time import thread_time

from ..inspection import loss_wrappers
from ..inspection.loss_wrappers import MOST_ACCURACY, MOST_PAIRED
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
    "triplet_margin_loss": ("triplet", ["input", "positive", "negative"]),
}
"""Function -> its name in the protocol and its parameters."""

_KERAS = {
    "mean_squared_error": "mse_loss",
    "mean_absolute_error": "l1_loss",
    "huber": "huber",
    "categorical_crossentropy": "cross_entropy",
}
"""Functions of Keras that call none of PyTorch, and their names in the protocol."""

_KERAS_ENTROPIES = {
    "categorical_crossentropy": "cross_entropy",
    "sparse_categorical_crossentropy": "cross_entropy",
    "binary_crossentropy": "binary_cross_entropy",
}
"""Those that take probabilities unless `from_logits` is true."""

_DROPOUTS = ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")


class LossFunctions(loss_wrappers.LossFunctions):
    """The loss functions of one process that uses PyTorch."""

    FRAMEWORK = "torch"

    def install(self, is_compiling):
        """Puts the wrappers in place."""
        functional = sys.modules["torch.nn.functional"]
        for name, (function, parameters) in LOSSES.items():
            original = getattr(functional, name, None)
            if original is not None:
                setattr(functional, name, self._wrap(original, function, parameters, is_compiling))
        for name in _DROPOUTS:
            original = getattr(functional, name, None)
            if type(original) is types.FunctionType:
                setattr(functional, name, self._wrap_dropout(original, is_compiling))

    def install_in_keras(self, losses, is_compiling):
        """Watches the functions of the losses that Keras makes, which its metrics call as well.

        Args:
            losses: The module `keras.src.losses.losses`.
        """
        pairs = [(getattr(losses, name, None), known) for name, known in _KERAS.items()]
        watched = [(fn, self._wrap(fn, known, ["target", "input"], is_compiling)) for fn, known in pairs if fn]
        pairs = [(getattr(losses, name, None), known) for name, known in _KERAS_ENTROPIES.items()]
        given = ["target", "input", "from_logits"]
        entropies = [(fn, self._wrap(fn, known, given, is_compiling)) for fn, known in pairs if fn]
        original = losses.LossFunctionWrapper.__init__

        def init(loss, fn, *args, **kwargs):
            # From scores most call functions of PyTorch, which are watched themselves.
            known = watched if kwargs.get("from_logits") else entropies + watched
            original(loss, next((wrapper for one, wrapper in known if one is fn), fn), *args, **kwargs)

        losses.LossFunctionWrapper.__init__ = imitate(init, original)

    def _wrap(self, original, function, parameters, is_compiling):
        begins, ended = self.without_modes.wrap(self._begins), self.without_modes.wrap(self._on_result)
        refused = self.without_modes.wrap(self._inspect_refused)

        def loss(*args, **kwargs):
            if is_compiling():
                return original(*args, **kwargs)
            monitor = self.monitor
            rests = monitor.skipping and not monitor.evaluation.open
            call = None if rests else begins(function)
            if call is None and not rests:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:  # the program's own error, passed on
                refused(begins(function) if rests else call, args, kwargs, parameters)
                leave(error)
                raise
            if not rests:
                ended(call, result, args, kwargs, parameters)
            return result

        leave = leave_out_one_frame
        return imitate(loss, original)

    def _on_result(self, site, result, args, kwargs, parameters):
        self._busy = False
        if site is None:
            return
        monitor = self.monitor
        began, used = monitor.clock(), thread_time() if monitor.dense else 0.0
        try:
            if site.training:
                monitor.loop.losses_open += 1
            due = site.is_due(monitor.dense)
            if (due or monitor.evaluation.open) and self.without_modes.is_possible():
                with self.without_modes:
                    self._inspect(site, self._named_arguments(args, kwargs, parameters), result, due)
            if monitor.dense:
                monitor.cost += thread_time() - used
        except Exception as error:
            self._failed("torch.loss", error)
        monitor.training.overhead_s += monitor.clock() - began

    def _named_arguments(self, args, kwargs, parameters):
        """The arguments of a call by the names of `LOSSES`."""
        given = dict(zip(parameters, args))
        given.update(kwargs)
        if "from_logits" in parameters:
            given["use_softmax"] = False
            if self.stats.is_tensor(given["target"]) and given["target"].shape != given["input"].shape:
                given["target"] = given["target"].long()  # Keras converts the numbers of classes
        return given

    def _is_readable(self, tensor):
        return self.stats.is_plain(tensor)

    def _is_at_hand(self, tensor):
        return tensor.is_cpu

    def _takes_gradient(self, tensor):
        return tensor.requires_grad

    def _array(self, tensor):
        return tensor.detach() if self.stats.is_plain(tensor) and tensor.is_cpu else None

    def _count(self, tensor):
        return tensor.numel()

    def _value(self, result):
        if not self.stats.is_tensor(result) or not result.numel() or not self.stats.is_plain(result):
            return None
        return float(result.detach().to(self.module.float32).mean().item())

    def _evaluate(self, function, given, value, at_hand):
        if value is not None:
            self.monitor.evaluation.loss(function, value / self._targets_in_sum(function, given))
        if at_hand and self.stats.is_tensor(given.get("target")):
            self.monitor.evaluation.pair(given["input"], given["target"])
        if function == "cross_entropy" and at_hand:
            self._accuracy(given["input"], given.get("target"), given.get("ignore_index", -100))

    def _values(self, target):
        return target if self.stats.is_plain(target) else None

    def _describe(self, target, values):
        return self.stats.inspect(target)

    def _broadcast(self, inputs, target):
        """The shape of a pointwise result of two different shapes, `None` where they are equal."""
        return list(self.module.broadcast_shapes(inputs.shape, target.shape)) if inputs.shape != target.shape else None

    def _is_soft(self, given, target):
        return target.is_floating_point()

    def _class_axis(self, function, given, inputs):
        return 1 if inputs.dim() > 1 else 0

    def _table(self, inputs):
        return inputs.detach() if inputs.is_floating_point() else None

    def _class_rows(self, table, axis, classes):
        return table.movedim(axis, -1).reshape(-1, classes)

    def _sums_to_one(self, rows, axis, logs):
        rows = rows.to(self.module.float32)
        if logs:
            if not bool((rows <= 1e-4).all().item()):
                return False
            rows = rows.exp()
        if not bool((rows >= 0).all().item()):
            return False
        return bool(((rows.sum(axis) - 1.0).abs() <= 1e-4).all().item())

    def _accuracy(self, inputs, target, ignored):
        if not self.stats.is_tensor(target) or target.is_floating_point() or inputs.numel() > MOST_ACCURACY:
            return
        axis = 1 if inputs.dim() > 1 else 0
        if inputs.dim() != target.dim() + 1 or not inputs.numel():
            return
        kept = target != ignored
        best, classes, pairs = inputs.argmax(axis), inputs.shape[axis], ()
        if classes <= MOST_PAIRED and not (kept & ((target < 0) | (target >= classes))).any():
            # On a GPU some versions warn of `bincount` where deterministic algorithms are asked for.
            places = (best * classes + target)[kept].cpu()
            pairs = self.module.bincount(places, minlength=classes * classes).tolist()
        self.monitor.evaluation.accuracy(int(((best == target) & kept).sum().item()), int(kept.sum().item()), pairs)

    def _wrap_dropout(self, original, is_compiling):
        active = self._dropout

        def dropout(*args, **kwargs):
            if is_compiling():
                return original(*args, **kwargs)
            active(args, kwargs, 2)
            return original(*args, **kwargs)

        return imitate(dropout, original)


def imitate(wrapper, original):
    """`wrapper` with the globals, name, defaults and documentation of `original`, invisible to stack levels."""
    wrapper = as_import_machinery(wrapper)
    names = getattr(original, "__globals__", None)
    if names is not None:
        wrapper = types.FunctionType(
            wrapper.__code__, names, wrapper.__name__, wrapper.__defaults__, wrapper.__closure__
        )
    return transparent_wrapper(wrapper, original)
