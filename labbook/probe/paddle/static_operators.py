"""Reads what a static program computes, from its operators: loss functions, a broadcast difference, uses of parameters.

A program of the older representation, before PaddlePaddle 3, shows none of this.
"""

import os
import re

from ..process.user_files import is_user_file

_DEPTH = 200
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_SHAPING = ("pd_op.reshape", "pd_op.squeeze", "pd_op.unsqueeze", "pd_op.cast", "pd_op.flatten")
_AVERAGES = ("pd_op.mean", "pd_op.mean_all")

_LOSSES = {
    "pd_op.cross_entropy_with_softmax": "cross_entropy",
    "pd_op.sigmoid_cross_entropy_with_logits": "bce_with_logits",
    "pd_op.bce_loss": "binary_cross_entropy",
    "pd_op.nll_loss": "nll_loss",
    "pd_op.huber_loss": "huber",
    "pd_op.kldiv_loss": "kl_div",
}
"""Operator -> name of the loss function in the protocol; its operands begin with input and target."""

_OPTIMIZERS = "sgd momentum merged_momentum adam adamw fused_adam adamax adagrad adadelta rmsprop lamb"
_UPDATES = frozenset(_OPTIMIZERS.split(" "))
"""Operators of optimizers."""

LAYERS = {
    "pd_op.matmul": "Linear",
    "pd_op.mul": "Linear",
    "pd_op.conv2d": "Conv2D",
    "pd_op.depthwise_conv2d": "Conv2D",
    "pd_op.conv3d": "Conv3D",
    "pd_op.embedding": "Embedding",
    "pd_op.batch_norm_": "BatchNorm",
    "pd_op.layer_norm": "LayerNorm",
    "pd_op.add": "Linear",
}
"""Operator that uses a parameter -> the type of layer that it belongs to."""


class LossOperator:
    """An operator of a program that is a loss function.

    Args:
        function: Name of the loss function in the protocol.
        target: Name under which its target is fed, "" where that is computed.
        line: "train.py:41".
        reduction: "mean" or "none".
        activation: Operator that the input comes from, "pd_op.softmax".
        options: Attributes of the operator.

    Attributes:
        is_alone: Whether the loss has no other loss function.
    """

    def __init__(self, function, shape, target, line, reduction, activation, options):
        self.function, self.target, self.line, self.reduction = function, target, line, reduction
        self.calls = 0
        self._shape = shape
        self._options = options
        self._activation = activation
        self._kind = None
        self._first = self._last = self._least = None
        self._seen = self._outside = 0
        self.is_alone = True

    @property
    def classes(self):
        """Length of the class axis, `None` where there is none."""
        return self._shape[-1] if self.function in ("cross_entropy", "nll_loss") and len(self._shape) > 1 else None

    def on_feed(self, leaf, values):
        """Processes what is fed as its target."""
        self._seen += 1
        known = self._kind or {"min": leaf["min"], "max": leaf["max"]}
        self._kind = {"shape": leaf["shape"], "dtype": leaf["dtype"], "zero": leaf["zero"]}
        self._kind.update(min=min(known["min"], leaf["min"]), max=max(known["max"], leaf["max"]))
        if self.function == "cross_entropy" and leaf["integer"]:
            ignored = self._options.get("ignore_index", -100)
            self._outside += int((((values < 0) | (values >= self.classes)) & (values != ignored)).sum())
        elif self.function in ("bce_with_logits", "binary_cross_entropy"):
            self._outside += int(((values < 0) | (values > 1)).sum())

    def values(self, loss):
        """Processes the value of the whole loss, of which this is the only function."""
        if loss is None or not self.is_alone:
            return
        self._first = loss if self._first is None else self._first
        self._last = loss
        self._least = loss if self._least is None or loss < self._least else self._least

    def fields(self):
        """Fields of the event."""
        fields = dict.fromkeys(("broadcast", "negative", "all_ignored", "self_pairs", "self_negatives"), 0)
        fields["not_probabilities"] = 0
        fields.update(dict.fromkeys(("logprob_rows", "prob_columns"), 0.0))
        probable = self._activation == "pd_op.softmax" and self._options.get("use_softmax", True)
        fields.update(
            framework="paddle", fn=self.function, line=self.line, training=True, step=1, calls=self.calls,
            observed=max(self._seen, self.calls), input={"shape": self._shape, "dtype": "float32"},
            target=self._kind, classes=self.classes, reduction=self.reduction, items=None, weight=False,
            soft=bool(self._options.get("soft_label")), ignored=0.0, ignore_index=None, outside=self._outside,
            value_first=self._first, value_last=self._last, value_min=self._least,
            prob_rows=1.0 if probable else 0.0,
            unit_range=1.0 if probable or self._activation == "pd_op.sigmoid" else 0.0,
        )  # fmt: skip
        return fields


def functions_of(losses, samples):
    """Reads what losses are made of.

    Args:
        losses: Values of a program.
        samples: Length of an axis whose length the program leaves open.

    Returns:
        `(loss functions, blown, operators)`: as `LossOperator`, what is broadcast by mistake as in the event, `None`
        else, and how many operators were read, 0 where the program does not show them.
    """
    found, blown, seen = [], None, set()
    waiting = [(loss, False) for loss in losses if is_value(loss)]
    while waiting and len(seen) < _DEPTH:
        value, averaged = waiting.pop(0)
        operator = value.get_defining_op()
        if operator is None or operator.id() in seen:
            continue
        seen.add(operator.id())
        name, operands = operator.name(), [one for one in operator.operands_source() if one.initialized()]
        averaged = averaged or name in _AVERAGES
        is_square = name == "pd_op.square" and _name_of(operands[0]) == "pd_op.subtract"
        if is_square or name == "pd_op.abs":
            blown = blown or _find_broadcast(operands[0].get_defining_op(), samples)
        if name in _LOSSES or is_square:
            pair = operands[0].get_defining_op().operands_source() if is_square else operands
            target, source = _source_of(pair[1]), _source_of(pair[0])
            options = {} if is_square else operator.attrs()
            found.append(
                LossOperator(
                    "mse_loss" if is_square else _LOSSES[name], [samples if n < 0 else n for n in pair[0].shape],
                    _fed_name(target), line_of_operator(operator),
                    "mean" if averaged else "none", source.name() if source is not None else "", options,
                )
            )  # fmt: skip
            continue
        waiting += [(one, averaged) for one in operands]
    for function in found:
        function.is_alone = len(found) == len(losses) == 1
    return found, blown, len(seen)


def _find_broadcast(operator, samples):
    """A difference of a column and a row, as the event has it; `None` for any other operator."""
    if operator is None or operator.name() != "pd_op.subtract":
        return None
    one, other = (list(value.shape) for value in operator.operands_source())
    column, row = (one, other) if len(one) > len(other) else (other, one)
    if len(column) != 2 or column[1] != 1 or len(row) != 1 or row[0] == 1:
        return None
    result, one = ([samples if n < 0 else n for n in form] for form in (operator.results()[0].shape, one))
    fields = {"shape": result, "of": one, "op": "subtract", "sure": True}
    return dict(fields, line=line_of_operator(operator))


def uses_of(program):
    """Name of a parameter -> `(operator that uses it first, its place)`."""
    found = {}
    for place, operator in enumerate(program.global_block().ops if _has_operators(program) else ()):
        name = operator.name()
        if name in LAYERS:
            for value in operator.operands_source():
                made = value.get_defining_op() if value.initialized() else None
                if made is not None and made.name() == "builtin.parameter":
                    found.setdefault(value.name, (name, place))
    return found


def updates_parameters(program):
    """Whether operators of an optimizer are in a program."""
    return any(name in _UPDATES for name, _ in _named_operators(program))


def trains_layers(program):
    """Whether a program has dropout, or batch normalisation, as in training."""
    return any(
        name in ("dropout", "batch_norm") and not is_test("is_test") for name, is_test in _named_operators(program)
    )


def parameter_names(program):
    """Names of the parameters that a program uses."""
    return {parameter.name for parameter in program.global_block().all_parameters()}


def _named_operators(program):
    """`(name, attribute)` of each operator, of both representations; `attribute(name)` is the value of one."""
    for operator in program.global_block().ops:
        if _has_operators(program):
            yield operator.name().rpartition(".")[2].rstrip("_"), operator.attrs().get
        else:
            yield operator.type, operator.attr


def line_of_operator(operator):
    """The innermost line of the user's code that an operator was built in, "train.py:41"; "" where none is known."""
    for text in reversed(operator.callstack or ()):
        place = _FRAME.search(text)
        if place is not None and is_user_file(place.group(1)):
            return "%s:%s" % (os.path.basename(place.group(1)), place.group(2))
    return ""


def _source_of(value):
    """The operator that a value comes from, apart from changes of its shape or type."""
    operator = value.get_defining_op()
    while operator is not None and operator.name() in _SHAPING:
        operator = operator.operands_source()[0].get_defining_op()
    return operator


def _fed_name(operator):
    return operator.attrs().get("name", "") if operator is not None and operator.name() == "pd_op.data" else ""


def _name_of(value):
    operator = value.get_defining_op()
    return operator.name() if operator is not None else ""


def is_value(thing):
    """Whether it is a value of the intermediate representation whose operators can be read."""
    return hasattr(thing, "get_defining_op") and hasattr(thing, "is_same")


def _has_operators(program):
    return type(program).__module__.endswith("pir")
