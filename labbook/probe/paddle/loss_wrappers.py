"""Watches the loss functions of PaddlePaddle, also where its loss layers call them, and dropout under evaluation.

PaddlePaddle is silent where PyTorch raises: labels out of range or of floating point, shapes that broadcast, batches of
which every label is ignored. So the values of some calls are looked at.
"""

import sys
from time import thread_time
from types import FunctionType

from ..inspection import loss_wrappers
from ..inspection.loss_wrappers import MOST_ACCURACY, MOST_PAIRED
from ..wrapping import leave_out_one_frame, transparent_wrapper

_POINT = ["input", "target", "reduction"]
LOSSES = {
    "cross_entropy": (
        "cross_entropy",
        [
            "input",
            "target",
            "weight",
            "ignore_index",
            "reduction",
            "soft_label",
            "axis",
            "use_softmax",
            "label_smoothing",
        ],
    ),
    "softmax_with_cross_entropy": (
        "cross_entropy",
        ["input", "target", "soft_label", "ignore_index", "numeric_stable_mode", "return_softmax", "axis"],
    ),
    "nll_loss": ("nll_loss", ["input", "target", "weight", "ignore_index", "reduction"]),
    "binary_cross_entropy": ("binary_cross_entropy", ["input", "target", "weight", "reduction"]),
    "binary_cross_entropy_with_logits": ("bce_with_logits", ["input", "target", "weight", "reduction", "pos_weight"]),
    "log_loss": ("binary_cross_entropy", ["input", "target"]),
    "mse_loss": ("mse_loss", _POINT),
    "square_error_cost": ("mse_loss", ["input", "target"]),
    "l1_loss": ("l1_loss", _POINT),
    "smooth_l1_loss": ("smooth_l1", ["input", "target", "reduction", "delta"]),
    "kl_div": ("kl_div", ["input", "target", "reduction", "log_target"]),
    "ctc_loss": ("ctc", ["input", "target", "input_lengths", "target_lengths", "blank", "reduction"]),
    "poisson_nll_loss": ("poisson_nll", ["input", "target"]),
    "gaussian_nll_loss": ("gaussian_nll", ["input", "target"]),
    "hinge_embedding_loss": ("hinge_embedding", ["input", "target"]),
    "multi_margin_loss": ("margin", ["input", "target"]),
    "margin_ranking_loss": ("margin", ["input", "other", "target"]),
    "triplet_margin_loss": ("triplet", ["input", "positive", "negative"]),
}
"""Function -> its name in the protocol and its parameters."""

_NO_REDUCTION = ("softmax_with_cross_entropy", "square_error_cost", "log_loss")
_SAME = {"label": "target", "logit": "input", "logits": "input", "log_probs": "input", "labels": "target"}
_DROPOUTS = {"dropout": 3, "dropout2d": 2, "dropout3d": 2, "alpha_dropout": 2}
"""Dropout function -> the place of its parameter `training`."""


class LossFunctions(loss_wrappers.LossFunctions):
    """The loss functions of one process that uses PaddlePaddle."""

    FRAMEWORK = "paddle"

    def install(self, patches):
        """Puts the wrappers in place."""
        functional = sys.modules["paddle.nn.functional"]
        for name, (function, parameters) in LOSSES.items():
            original = getattr(functional, name, None)
            if original is None:
                continue
            fixed = {"reduction": "none"} if name in _NO_REDUCTION else {}
            patches.replace(functional, name, self._wrap(original, function, parameters, fixed))
        # This layer computes by itself.
        squared = self.module.nn.MSELoss
        patches.replace(squared, "forward", self._wrap(squared.forward, "mse_loss", ["layer", *_POINT], {}))
        for name, place in _DROPOUTS.items():
            original = getattr(functional, name, None)
            if type(original) is FunctionType:
                patches.replace(functional, name, self._wrap_dropout(original, place))

    def _wrap(self, original, function, parameters, fixed):
        begins, ended, refused, leave = self._begins, self._on_result, self._inspect_refused, leave_out_one_frame
        dynamic = self.module.in_dynamic_mode

        def loss(*args, **kwargs):
            monitor = self.monitor
            # Nothing is counted where a step is not followed, and nothing is evaluated in it.
            rests = monitor.skipping and not monitor.evaluation.open
            call = begins(function) if not rests and dynamic() else None
            try:
                result = original(*args, **kwargs)
            except BaseException as error:  # the program's own error, passed on
                call = begins(function) if rests and dynamic() else call
                if call is not None:
                    refused(call, args, kwargs, parameters, fixed)
                leave(error)
                raise
            if call is not None:
                ended(call, result, args, kwargs, parameters, fixed)
            return result

        return transparent_wrapper(loss, original)

    def _on_result(self, site, result, args, kwargs, parameters, fixed):
        self._busy = False
        monitor = self.monitor
        if site.training:
            monitor.loop.losses_open += 1
        due = site.is_due(monitor.dense)
        if not due and not monitor.evaluation.open:
            return
        began, used = monitor.clock(), thread_time()
        try:
            self._inspect(site, self._named_arguments(args, kwargs, parameters, fixed), result, due)
        except Exception as error:
            self._failed("paddle.loss", error)
        if monitor.dense:
            monitor.cost += thread_time() - used
        monitor.training.overhead_s += monitor.clock() - began

    def _named_arguments(self, args, kwargs, parameters, fixed):
        """The arguments of a call by the names of `LOSSES`."""
        given = dict(zip(parameters, args))
        given.update((_SAME.get(name, name), value) for name, value in kwargs.items())
        given.update(fixed)
        if parameters[0] == "layer":
            given.setdefault("reduction", getattr(args[0], "reduction", "mean"))
        return given

    def _is_readable(self, tensor):
        return tensor._is_initialized()

    def _is_at_hand(self, tensor):
        return tensor._is_initialized() and tensor.place.is_cpu_place()

    def _takes_gradient(self, tensor):
        return not tensor.stop_gradient

    def _array(self, tensor):
        return self.stats.whole_view(tensor) if tensor.place.is_cpu_place() else None

    def _count(self, tensor):
        return tensor.size

    def _value(self, result):
        if isinstance(result, (tuple, list)) and result:
            result = result[0]
        view = self.stats.view(result) if self.stats.is_tensor(result) else None
        if view is None or not view.size:
            return None
        return float(view.item()) if view.size == 1 else self.stats.moments(self.stats.flat(view))[0]

    def _evaluate(self, function, given, value, at_hand):
        if not at_hand:
            return
        if value is not None:
            self.monitor.evaluation.loss(function, value / self._targets_in_sum(function, given))
        if self.stats.is_tensor(given.get("target")):
            self.monitor.evaluation.pair(given["input"], given["target"])
        if function == "cross_entropy":
            ignored, axis = given.get("ignore_index", -100), given.get("axis", -1)
            self._accuracy(given["input"], given.get("target"), ignored, axis)

    def _values(self, target):
        return self.stats.view(target)

    def _describe(self, target, values):
        return dict(self.stats.stats(values), **self.stats.kind(target))

    def _broadcast(self, inputs, target):
        return broadcast(list(inputs.shape), list(target.shape))

    def _is_soft(self, given, target):
        return bool(given.get("soft_label"))

    def _class_axis(self, function, given, inputs):
        if len(inputs.shape) < 2:
            return 0
        return 1 if function == "nll_loss" else given.get("axis", -1)

    def _table(self, inputs):
        table = self.stats.whole_view(inputs)
        return table if table is not None and table.dtype.kind == "f" else None

    def _class_rows(self, table, axis, classes):
        return table.swapaxes(axis, -1).reshape(-1, classes)

    def _sums_to_one(self, rows, axis, logs):
        return self.stats.rows_sum_to_one(rows, axis, logs)

    def _accuracy(self, inputs, target, ignored, axis):
        if not self.stats.is_tensor(target) or inputs.size > MOST_ACCURACY or not inputs.size or len(inputs.shape) < 2:
            return
        table, labels = self.stats.whole_view(inputs), self.stats.whole_view(target)
        if table is None or labels is None or labels.dtype.kind not in "iu":
            return
        best = table.argmax(axis=axis)
        labels = labels.reshape(best.shape) if labels.size == best.size else None
        if labels is not None:
            kept, classes, pairs = labels != ignored, table.shape[axis], ()
            if classes <= MOST_PAIRED and not (kept & ((labels < 0) | (labels >= classes))).any():
                places = (best * classes + labels)[kept].tolist()
                pairs = [0] * (classes * classes)
                for place in places:
                    pairs[place] += 1
            self.monitor.evaluation.accuracy(int(((best == labels) & kept).sum()), int(kept.sum()), pairs)

    def _wrap_dropout(self, original, place):
        active, dynamic = self._dropout, self.module.in_dynamic_mode

        def dropout(*args, **kwargs):
            if dynamic():
                active(args, kwargs, place)
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                leave_out_one_frame(error)
                raise

        return transparent_wrapper(dropout, original)


def broadcast(one, other):
    """The shape of a pointwise result of two different shapes; `None` where they are equal or do not fit."""
    if one == other:
        return None
    length = max(len(one), len(other))
    result = []
    for a, b in zip([1] * (length - len(one)) + one, [1] * (length - len(other)) + other):
        if a != b and 1 not in (a, b):
            return None
        result.append(max(a, b))
    return result
