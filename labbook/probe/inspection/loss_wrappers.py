"""Watches loss functions, also where loss modules call them, and dropout under evaluation.

A framework's `loss_wrappers.py` lists the functions, puts the wrappers in place and reads tensors.
"""

from math import prod
from time import thread_time

from ..training.call_site import line_of, user_frame
from ..training.loss_calls import LossCallSites
from .contrastive_pairs import MOST_CLASSES, ROWS, compare_pairs
from .nested import first_batch
from .output_metrics import HeldOutMetrics, compare

CLASSES = ("cross_entropy", "nll_loss")
"""Loss functions whose target is a class."""

POINTWISE = frozenset(
    ["mse_loss", "l1_loss", "smooth_l1", "huber", "kl_div", "binary_cross_entropy", "bce_with_logits"]
)
COMPARED_S, COMPARED_SHARE = 0.2, 0.005
"""Seconds, and share of the elapsed time, that comparing outputs with labels may take."""

MOST_REFUSED = 20
"""Calls from a line that are looked at although they raised."""

MOST_ACCURACY = 1 << 20
"""Elements of the input up to which the accuracy is computed."""
MOST_PAIRED = 32
"""Classes up to which predictions are counted for each target."""

_ROWS = 4096


class LossFunctions:
    """The loss functions of one process.

    A framework implements the methods that read its tensors:

    * `_named_arguments(args, kwargs, ...)`: the arguments of a call by name;
    * `_is_readable(tensor)`, `_is_at_hand(tensor)`: whether its values can be read, and are in host memory;
    * `_takes_gradient(tensor)`: whether a backward pass goes through it;
    * `_count(values)`: the number of elements; `_value(result)`: the mean of a loss, or `None`;
    * `_evaluate(function, given, value, at_hand)`: counts a call of an evaluation;
    * `_array(tensor)`: all its values, without a graph, or `None` where they are not in host memory;
    * `_values(target)`: what `==`, `<`, `>` and `sum` work on, or `None`; `_describe(target, values)`: its facts;
    * `_broadcast(inputs, target)`: the shape of a pointwise result of two different shapes, or `None`;
    * `_is_soft(given, target)`: whether the target has probabilities; `_class_axis(function, given, inputs)`;
    * `_table(inputs)`: its real numbers, or `None`; `_class_rows(table, axis, classes)`: a row for each choice;
    * `_sums_to_one(rows, axis, logs)`: whether rows, or their exponentials, are probabilities along an axis.

    Args:
        module: The module of the framework.
        failed: `failed(where, error)` takes failures of ours.

    Attributes:
        monitor: Takes the calls; set by the inspector.
        target: The labels of the dense step under way, or `None`.
        ignored: Label that a loss of classes left out, or `None`.
    """

    FRAMEWORK = ""

    def __init__(self, module, stats, without_modes, emit, failed):
        self.module = module
        self.stats = stats
        self.without_modes = without_modes
        self.monitor = None
        self.target = self.ignored = None
        self._compared_s = 0.0
        self._emit = emit
        self._failed = failed
        self._busy = False
        self.forget()

    def forget(self):
        """Begins anew, in a forked child."""
        self.sites = LossCallSites(self._emit, self.FRAMEWORK)

    def _begins(self, function):
        """The site of a call, `None` for calls from inside another and for other threads."""
        if self._busy:
            return None
        monitor = self.monitor
        try:
            if monitor.thread is not None and not monitor.is_followed_thread():
                return None
            frame = user_frame()
            training = self.module.is_grad_enabled()
            key = None if frame is None else (frame.f_code.co_filename, frame.f_lineno, frame.f_lasti)
            site = self.sites.find(function, key, training)
            if site is None:
                site = self.sites.add(function, key, training, line_of(frame), monitor.step)
            if site is not None:
                self._busy = True
            return site
        except Exception as error:
            self._failed(self.FRAMEWORK + ".loss", error)
            return None

    def _inspect_refused(self, site, *call):
        """Looks at what a loss function would not take, such as a label outside of the head.

        Args:
            call: Arguments of `_given`.
        """
        self._busy = False
        if site is None or site.refused >= MOST_REFUSED:
            return
        try:
            given = self._named_arguments(*call)
            inputs = given.get("input")
            if not self.without_modes.is_possible() or not self.stats.is_tensor(inputs):
                return
            if not self._is_at_hand(inputs):
                return
            site.refused += 1
            with self.without_modes:
                if self._is_readable(inputs):
                    site.calls += 1
                    site.add_call(self._facts(site.function, given, inputs, given.get("target")), None)
                    self.sites.write_event(site)
        except Exception as error:
            self._failed(self.FRAMEWORK + ".loss", error)

    def _inspect(self, site, given, result, due):
        inputs, target = given.get("input"), given.get("target")
        if not self.stats.is_tensor(inputs) or not self._is_readable(inputs):
            return
        at_hand = self._is_at_hand(inputs)
        value = self._value(result) if at_hand or due else None
        # The loss of a validation is often computed behind the block without gradients.
        learns = site.training and self._takes_gradient(inputs)
        if self.monitor.evaluation.open and not learns:
            self._evaluate(site.function, given, value, at_hand)
        if not due:
            return
        site.add_call(self._facts(site.function, given, inputs, target), value)
        if site.calls == 1:
            self.sites.write_event(site)
        if self.monitor.dense and learns and self.target is None and self.stats.is_tensor(target):
            self.target = target.detach()

    def metrics(self):
        """The metrics of the evaluation phases of this process."""
        return HeldOutMetrics(self.compare)

    def compare(self, output, targets):
        """What a model returned against the labels of its batch: a row of `PassMetrics`, or `None`.

        Cost: 60 microseconds for a small batch; at most 0.2 s, and one part in 200 of the elapsed time.
        """
        training, began = self.monitor.training, thread_time()
        outputs = first_batch(output, self.stats)
        is_due = self._compared_s < COMPARED_S + COMPARED_SHARE * (training.moved - training.began)
        if outputs is None or not is_due or not self.without_modes.is_possible():
            return None
        with self.without_modes:
            row = compare(outputs, targets, self._array, self.ignored)
        self._compared_s += thread_time() - began
        return row

    def _targets_in_sum(self, function, given):
        """How many targets a value is the sum over: 1 where it is their mean."""
        inputs, target = given.get("input"), given.get("target")
        if given.get("reduction", "mean") != "sum" or not self.stats.is_tensor(target):
            return 1
        if function in CLASSES and self._is_soft(given, target):
            axis = self._class_axis(function, given, inputs)
            return max(self._count(inputs) // max(inputs.shape[axis], 1), 1)
        return max(self._count(target), 1)

    def _facts(self, function, given, inputs, target):
        facts = {
            "input": self.stats.inspect(inputs),
            "reduction": given.get("reduction", "mean"),
            "weight": given.get("weight") is not None or given.get("pos_weight") is not None,
            "class_weights": self._class_weights(function, given),
        }
        if function == "triplet" and self.stats.is_tensor(given.get("positive")):
            facts["self_pairs"] = facts["input"] == self.stats.inspect(given["positive"])
            facts["near"], facts["far"] = (self._distance(inputs, given.get(name)) for name in ("positive", "negative"))
            facts["margin"] = given.get("margin", 1.0)
        values = self._values(target) if self.stats.is_tensor(target) else None
        if values is None or not self._count(values):
            return facts
        facts["target"] = self._describe(target, values)
        facts["target_trained"] = bool(self._takes_gradient(target))
        facts["items"] = self._count(values)
        if function in CLASSES and self._count(inputs):
            facts.update(self._inspect_classes(function, given, inputs, target, values))
        elif function in POINTWISE:
            result = self._broadcast(inputs, target)
            facts["broadcast"] = result is not None and result not in (list(inputs.shape), list(target.shape))
            if result is not None:
                facts["items"] = prod(result)
        low, high = facts["input"]["min"], facts["input"]["max"]
        facts["unit_range"] = low is not None and low >= 0.0 and high <= 1.0
        if function in ("binary_cross_entropy", "bce_with_logits"):
            facts["outside"] = int(((values < 0) | (values > 1)).sum())
        if function == "binary_cross_entropy":
            facts["not_probabilities"] = low is not None and not facts["unit_range"]
            facts["prob_rows"] = facts["unit_range"] and self._is_softmax_of_several(inputs, target)
        return facts

    def _class_weights(self, function, given):
        """The weight of each class, of a binary loss with one `pos_weight` those of 0 and 1; `None` without."""
        name = "weight" if function in CLASSES else "pos_weight"
        weights = self._table(given[name]) if self.stats.is_tensor(given.get(name)) else None
        if weights is None or not 0 < self._count(weights) <= MOST_PAIRED:
            return None
        listed = [float(weight) for weight in weights.reshape([-1])]
        return listed if name == "weight" else [1.0, *listed] if len(listed) == 1 else None

    def _distance(self, anchors, others):
        """Mean distance of the anchors of a triplet loss from their positives or negatives."""
        one, other = self._table(anchors), self._table(others) if self.stats.is_tensor(others) else None
        if one is None or other is None or tuple(one.shape) != tuple(other.shape):
            return None
        return float((((one - other) ** 2).sum(-1) ** 0.5).mean())

    def _is_softmax_of_several(self, inputs, target):
        """Whether the rows of the input sum to 1, and those of the target, with several labels, do not."""
        given, wanted = self._table(inputs), self._table(target)
        if given is None or wanted is None or list(given.shape) != list(wanted.shape) or len(given.shape) != 2:
            return False
        is_table = given.shape[1] > 2 and self._sums_to_one(given[:_ROWS], 1, False)
        return bool(is_table and not self._sums_to_one(wanted[:_ROWS], 1, False))

    def _inspect_classes(self, function, given, inputs, target, values):
        axis = self._class_axis(function, given, inputs)
        classes = inputs.shape[axis]
        facts = {"classes": classes, "soft": self._is_soft(given, target)}
        facts["smoothing"] = given.get("label_smoothing") or None
        if facts["soft"]:
            facts["items"] = max(self._count(values) // max(classes, 1), 1)
        else:
            skipped = values == given.get("ignore_index", -100)
            facts["targets"], facts["ignored"] = int(self._count(values)), int(skipped.sum())
            facts["ignore_index"] = int(given.get("ignore_index", -100)) if facts["ignored"] else None
            facts["items"] = facts["targets"] - facts["ignored"]
            self.ignored = facts["ignore_index"] if facts["ignored"] else self.ignored
            if facts["ignored"] and facts["items"]:
                kept = values[~skipped]
                facts["target"] = dict(self._describe(target, values), min=float(kept.min()), max=float(kept.max()))
            facts["outside"] = int((((values < 0) | (values >= classes)) & ~skipped).sum())
        table = self._table(inputs) if classes > 0 else None
        if table is not None:
            facts.update(self._probabilities(table, axis, classes))
            if not given.get("use_softmax", True):  # then probabilities are what it expects
                facts.update(not_probabilities=not facts["prob_rows"], prob_rows=False)
            if len(table.shape) == 2 and table.shape[0] == classes <= MOST_CLASSES and not facts["soft"]:
                facts.update(compare_pairs(table[:ROWS].tolist(), values.reshape(-1)[:ROWS].tolist()))
        return facts

    def _probabilities(self, table, axis, classes):
        """Whether the rows of the input are probabilities, or their logarithms, along the axis of the classes."""
        rows = self._class_rows(table, axis, classes)
        if rows.shape[0] > _ROWS:
            rows = rows[:: rows.shape[0] // _ROWS]
        prob, logprob = self._sums_to_one(rows, 1, False), self._sums_to_one(rows, 1, True)
        facts = {"prob_rows": prob, "logprob_rows": logprob}
        if len(table.shape) == 2 and table.shape[0] >= 2 and classes > 1 and not prob and not logprob:
            facts["prob_columns"] = self._sums_to_one(table, 0, False) or self._sums_to_one(table, 0, True)
        return facts

    def _dropout(self, args, kwargs, place):
        """Counts a dropout that is active although the model is evaluated.

        Args:
            place: Index of the parameter `training`.
        """
        monitor = self.monitor
        root = monitor.inside
        if root is None or not monitor.evaluation.open:
            return
        try:
            training = args[place] if len(args) > place else kwargs.get("training", True)
            p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            if training and p and not root.training():
                monitor.evaluation.dropout(line_of(user_frame()))
        except Exception as error:
            self._failed(self.FRAMEWORK + ".dropout", error)
