"""Watches the loss functions of PaddlePaddle, also where its loss layers call them, and dropout under evaluation.

PaddlePaddle is silent where PyTorch raises: labels out of range or of floating point, shapes that broadcast, batches of
which every label is ignored. So the values of some calls are looked at.
"""

import sys
from time import thread_time
from types import FunctionType

from ..torch import loss_wrappers
from ..training.loss_calls import LossCallSites
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
    "triplet_margin_loss": ("triplet", ["input"]),
}
"""Function -> its name in the protocol and its parameters."""

_NO_REDUCTION = ("softmax_with_cross_entropy", "square_error_cost")
_SAME = {"label": "target", "logit": "input", "logits": "input", "log_probs": "input", "labels": "target"}
_CLASSES = ("cross_entropy", "nll_loss")
_POINTWISE = frozenset(["mse_loss", "l1_loss", "smooth_l1", "kl_div", "binary_cross_entropy", "bce_with_logits"])
_DROPOUTS = {"dropout": 3, "dropout2d": 2, "dropout3d": 2, "alpha_dropout": 2}
"""Dropout function -> the place of its parameter `training`."""

_ROWS = 4096
_MOST_ACCURACY = 1 << 20


class LossFunctions(loss_wrappers.LossFunctions):
    """The loss functions of one process.

    Args:
        paddle: The module.
        stats: Looks at tensors.
        without_modes: The context to look in.
        emit: `emit(kind, **fields)` writes an event.
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        monitor: Told of calls; set by the eyes.
        target: The labels of the dense step under way, or `None`.
    """

    def forget(self):
        """Begins anew, in a forked child."""
        self.sites = LossCallSites(self._emit, "paddle")
        self._dropouts = 0

    def install(self, patches):
        """Puts the wrappers in place."""
        functional = sys.modules["paddle.nn.functional"]
        for name, (told, parameters) in LOSSES.items():
            original = getattr(functional, name, None)
            if original is None:
                continue
            fixed = {"reduction": "none"} if name in _NO_REDUCTION else {}
            patches.put(functional, name, self._wrapped(original, told, parameters, fixed))
        # This layer computes by itself.
        squared = self.torch.nn.MSELoss
        patches.put(squared, "forward", self._wrapped(squared.forward, "mse_loss", ["layer", *_POINT], {}))
        for name, place in _DROPOUTS.items():
            original = getattr(functional, name, None)
            if type(original) is FunctionType:
                patches.put(functional, name, self._wrapped_dropout(original, place))

    def _wrapped(self, original, told, parameters, fixed):
        begins, ended, refused, leave = self._begins, self._finished, self._refused_by, leave_out_one_frame
        dynamic = self.torch.in_dynamic_mode

        def loss(*args, **kwargs):
            monitor = self.monitor
            # Nothing is counted where a step is not followed, and nothing is evaluated in it.
            rests = monitor.skipping and not monitor.evaluation.open
            if not rests and not dynamic():
                return original(*args, **kwargs)
            call = None if rests else begins(told)
            if call is None and not rests:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:  # the program's own error, passed on
                call = begins(told) if rests and dynamic() else call
                if call is not None:
                    refused(call, args, kwargs, parameters, fixed)
                leave(error)
                raise
            if not rests:
                ended(call, result, args, kwargs, parameters, fixed)
            return result

        return transparent_wrapper(loss, original)

    def _finished(self, site, result, args, kwargs, parameters, fixed):
        self._busy = False
        monitor = self.monitor
        if site.training:
            monitor.loop.losses_open += 1
        due = site.due(monitor.dense)
        if not due and not monitor.evaluation.open:
            return
        began, used = monitor.clock(), thread_time()
        try:
            self._look(site, _given(args, kwargs, parameters, fixed), result, due)
        except Exception as error:
            self._failed("paddle.loss", error)
        if monitor.dense:
            monitor.cost += thread_time() - used
        monitor.training.overhead_s += monitor.clock() - began

    def _refused_by(self, site, args, kwargs, parameters, fixed):
        """Looks at what a loss function would not take, such as a label outside of the head."""
        self._busy = False
        if site.refused >= loss_wrappers.MOST_REFUSED:
            return
        try:
            given = _given(args, kwargs, parameters, fixed)
            inputs = given.get("input")
            if not self.stats.is_tensor(inputs) or not inputs._is_initialized() or not inputs.place.is_cpu_place():
                return
            site.refused += 1
            site.calls += 1
            site.takes(self._facts(site.function, given, inputs, given.get("target")), None)
            self.sites.tell(site)
        except Exception as error:
            self._failed("paddle.loss", error)

    def _look(self, site, given, result, due):
        inputs, target = given.get("input"), given.get("target")
        if isinstance(result, (tuple, list)) and result:
            result = result[0]
        if not self.stats.is_tensor(inputs) or not inputs._is_initialized():
            return
        evaluation = self.monitor.evaluation
        at_hand = inputs.place.is_cpu_place()
        value = self._value(result) if at_hand or due else None
        if evaluation.open and not site.training and at_hand:
            if value is not None:
                evaluation.loss(site.function, value / self._summed(site.function, given, inputs, target))
            if site.function == "cross_entropy":
                self._accuracy(inputs, target, given.get("ignore_index", -100), given.get("axis", -1))
        if not due:
            return
        site.takes(self._facts(site.function, given, inputs, target), value)
        if site.calls == 1:
            self.sites.tell(site)
        if self.monitor.dense and site.training and self.target is None and self.stats.is_tensor(target):
            self.target = target.detach()

    def _value(self, result):
        view = self.stats.view(result) if self.stats.is_tensor(result) else None
        if view is None or not view.size:
            return None
        return float(view.item()) if view.size == 1 else self.stats.moments(self.stats.flat(view))[0]

    def _summed(self, function, given, inputs, target):
        """How many targets a value is the sum over: 1 where it is their mean."""
        if given.get("reduction", "mean") != "sum" or not self.stats.is_tensor(target):
            return 1
        if given.get("soft_label"):
            return max(inputs.size // max(inputs.shape[_axis(function, given, inputs)], 1), 1)
        return max(target.size, 1)

    def _facts(self, function, given, inputs, target):
        facts = {
            "input": self.stats.look(inputs),
            "reduction": given.get("reduction", "mean"),
            "weight": given.get("weight") is not None or given.get("pos_weight") is not None,
        }
        view = self.stats.view(target) if self.stats.is_tensor(target) else None
        if view is None or not view.size:
            return facts
        facts["target"] = dict(self.stats.stats(view), **self.stats.kind(target))
        facts["items"] = view.size
        if function in _CLASSES and inputs.size:
            facts.update(self._of_classes(function, given, inputs, target, view))
        elif function in _POINTWISE:
            result = broadcast(list(inputs.shape), list(target.shape))
            facts["broadcast"] = result is not None and result not in (list(inputs.shape), list(target.shape))
            if result is not None:
                facts["items"] = loss_wrappers._product(result)
        low, high = facts["input"]["min"], facts["input"]["max"]
        facts["unit_range"] = low is not None and low >= 0.0 and high <= 1.0
        if function in ("binary_cross_entropy", "bce_with_logits"):
            facts["outside"] = int(((view < 0) | (view > 1)).sum())
        return facts

    def _of_classes(self, function, given, inputs, target, view):
        axis = _axis(function, given, inputs)
        classes = inputs.shape[axis]
        told = {"classes": classes, "soft": bool(given.get("soft_label"))}
        if told["soft"]:
            told["items"] = max(view.size // max(classes, 1), 1)
        else:
            ignored = given.get("ignore_index", -100)
            skipped = view == ignored
            told["targets"], told["ignored"] = int(view.size), int(skipped.sum())
            told["items"] = told["targets"] - told["ignored"]
            told["outside"] = int((((view < 0) | (view >= classes)) & ~skipped).sum())
        table = self.stats.whole_view(inputs)
        if table is not None and table.dtype.kind == "f" and classes > 0:
            told.update(self._rows_of(table, axis, classes))
            if not given.get("use_softmax", True):  # asked for: the input is meant to be probabilities
                told["prob_rows"] = False
        return told

    def _rows_of(self, table, axis, classes):
        """Whether the rows of the input are probabilities, or their logarithms, along the axis of the classes."""
        rows = table.swapaxes(axis, -1).reshape(-1, classes)
        if rows.shape[0] > _ROWS:
            rows = rows[:: rows.shape[0] // _ROWS]
        told = {
            "prob_rows": self.stats.rows_sum_to_one(rows, 1, False),
            "logprob_rows": self.stats.rows_sum_to_one(rows, 1, True),
        }
        if (
            table.ndim == 2
            and table.shape[0] >= 2
            and classes > 1
            and not told["prob_rows"]
            and not told["logprob_rows"]
        ):
            columns = self.stats.rows_sum_to_one
            told["prob_columns"] = columns(table, 0, False) or columns(table, 0, True)
        return told

    def _accuracy(self, inputs, target, ignored, axis):
        if not self.stats.is_tensor(target) or inputs.size > _MOST_ACCURACY or not inputs.size or len(inputs.shape) < 2:
            return
        table, labels = self.stats.whole_view(inputs), self.stats.whole_view(target)
        if table is None or labels is None or labels.dtype.kind not in "iu":
            return
        best = table.argmax(axis=axis)
        labels = labels.reshape(best.shape) if labels.size == best.size else None
        if labels is not None:
            kept = labels != ignored
            self.monitor.evaluation.accuracy(int(((best == labels) & kept).sum()), int(kept.sum()))

    def _wrapped_dropout(self, original, place):
        active, dynamic = self._active, self.torch.in_dynamic_mode

        def dropout(*args, **kwargs):
            if dynamic():
                active(args, kwargs, place)
            return original(*args, **kwargs)

        return transparent_wrapper(dropout, original)

    def _active(self, args, kwargs, place):
        monitor = self.monitor
        if monitor.inside is not None and monitor.evaluation.open:
            training = args[place] if len(args) > place else kwargs.get("training", True)
            p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            self._dropout((None, p, training), {})


def _given(args, kwargs, parameters, fixed):
    """The arguments of a call by the names of `LOSSES`."""
    given = dict(zip(parameters, args))
    given.update((_SAME.get(name, name), value) for name, value in kwargs.items())
    given.update(fixed)
    if parameters[0] == "layer":
        given.setdefault("reduction", getattr(args[0], "reduction", "mean"))
    return given


def _axis(function, given, inputs):
    """The axis of the classes."""
    if len(inputs.shape) < 2:
        return 0
    return 1 if function == "nll_loss" else given.get("axis", -1)


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
