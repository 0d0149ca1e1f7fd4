"""Rules about metrics: their threshold, their divisor, the labels and the part of the data that they are of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, calls_of, is_call, receiver
from labbook.review.code_index import Code
from labbook.review.expressions import input_and_axis, names_in, number, signed_terms, without_form
from labbook.review.keras_models import keras_activation, last_keras_layer
from labbook.review.loaders import LABELS, find_loader
from labbook.review.names import assigns, dotted_target, last_name, last_names, named_values, of_type, walk
from labbook.review.output_activation import last_operation
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_WITH_LOGITS = ("BCEWithLogitsLoss", "binary_cross_entropy_with_logits")
METRICS = frozenset({
    "accuracy_score", "balanced_accuracy_score", "f1_score", "precision_score", "recall_score", "roc_auc_score",
    "classification_report", "confusion_matrix", "cohen_kappa_score", "r2_score", "mean_absolute_error",
    "mean_squared_error", "root_mean_squared_error", "mean_absolute_percentage_error", "average_precision_score",
})  # fmt: skip
_ERRORS = frozenset({
    "mean_absolute_error", "mean_squared_error", "root_mean_squared_error", "mean_absolute_percentage_error",
    "r2_score",
})  # fmt: skip
_ORDERED = METRICS - {"accuracy_score", "f1_score", "cohen_kappa_score", "mean_absolute_error", "mean_squared_error",
                       "root_mean_squared_error"}  # fmt: skip
"""Metrics that change if labels and predictions change places."""
_PREDICTED = re.compile(r"(?:^|_)(?:preds?|predicted|predictions?|scores?|probs?|outputs?|y_hat)(?:$|_)")
_GIVEN = re.compile(r"(?:^|_)(?:true|targets?|labels?|gt|truth)(?:$|_)|^y_(?:test|val|valid)$")
_RATES = {
    r"(?:^|_)prec(?:ision)?(?:$|_)": ("tp", "fp"),
    r"(?:^|_)(?:recall|sensitivity|tpr)(?:$|_)": ("tp", "fn"),
    r"(?:^|_)(?:specificity|tnr)(?:$|_)": ("tn", "fp"),
}
_COUNT = re.compile(r"(t|f|true|false)_?(p|n|pos|neg|positives?|negatives?)s?")
_TRAINED = re.compile(r"(?:^|_)(?:train|tr|training)(?:$|_)", re.IGNORECASE)
_HELD_OUT = re.compile(r"(?:^|_)(?:val|valid|validation|test|te|dev)(?:$|_)", re.IGNORECASE)
_ACCURACIES = {"accuracy", "acc", "Accuracy"}
_BINARY_ACCURACIES = {"binary_accuracy", "BinaryAccuracy"}
_CLASS_LOSSES = {
    *("categorical_crossentropy", "CategoricalCrossentropy", "categorical_focal_crossentropy"),
    *("sparse_categorical_crossentropy", "SparseCategoricalCrossentropy", "CategoricalFocalCrossentropy"),
}
_REGRESSION_LOSSES = (
    *("mse", "mae", "mean_squared_error", "mean_absolute_error", "huber", "MSE", "MAE", "MeanSquaredError"),
    *("MeanAbsoluteError", "Huber", "MSELoss", "L1Loss", "SmoothL1Loss"),
)
_PARTS_BY_INDEX = ("Subset", "SubsetRandomSampler")


@warning("metric_of_wrong_values", "torch.nn.BCEWithLogitsLoss: the outputs are logits, 0.5 is a logit of 0")
def logits_over_half(code: Code, source: Source) -> Iterator[Hit]:
    """Outputs are compared with 0.5 although the loss takes them for logits, of which 0 is the middle."""
    if not any(code.calls.get(name) for name in _WITH_LOGITS):
        return
    for node in source.of_type(ast.Compare):
        if number(node.comparators[0]) != 0.5:
            continue
        if not isinstance(node.ops[0], (ast.Gt, ast.GtE)):
            continue
        end = last_operation(code, source, node.left)
        if end in ("linear", "conv"):
            yield Hit(node, {"compared": ast.unparse(node)})


@warning("metric_of_wrong_values", "torch.sigmoid: the outputs are above 0", tier=1)
def probability_over_zero(code: Code, source: Source) -> Iterator[Hit]:
    """Probabilities are compared with 0, which all of them are above: each sample is predicted to be positive."""
    for node in source.of_type(ast.Compare):
        if number(node.comparators[0]) == 0 and isinstance(node.ops[0], (ast.Gt, ast.GtE)):
            end = last_operation(code, source, node.left)
            if end in ("sigmoid", "softmax"):
                yield Hit(node, {"compared": ast.unparse(node), "activation": end})


@warning("metric_of_wrong_values", "torch.argmax: the axis of the classes is 1; the same in paddle")
def argmax_over_batch(code: Code, source: Source) -> Iterator[Hit]:
    """Predicted classes are the largest outputs over the batch instead of those over the classes."""
    for where, call in (*code.calls.get("argmax", ()), *code.calls.get("max", ())):
        if where is not source:
            continue
        given, axis = input_and_axis(source, call)
        if given is None or axis != 0 or last_operation(code, source, given) != "linear":
            continue
        statement = source.statement(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        names = {
            last_name(one) for one in (target.elts if isinstance(target, ast.Tuple) else [target]) if one is not None
        }
        if any(_is_compared(node, names - {"", "_"}, call) for node in source.nodes):
            yield Hit(call, {"call": ast.unparse(call)})


def _is_compared(node: ast.AST, names: set[str], call: ast.Call) -> bool:
    """Whether predictions are compared with labels by `==` or `eq`."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq):
        return False
    return any(one is call or last_name(one) in names for one in ast.walk(node))


@warning("metric_of_wrong_values", "PyTorch examples, ImageNet: meters are reset for each epoch")
def total_never_reset(code: Code, source: Source) -> Iterator[Hit]:
    """A total over batches is divided by the length of one epoch, and is never set back to 0 between epochs."""
    for epochs in source.of_type(ast.For):
        counter = last_names(epochs.target)
        for batches in (one for one in epochs.body if isinstance(one, ast.For)):
            sums = {
                dotted_target(one.target)
                for one in of_type(walk(batches.body), ast.AugAssign)
                if isinstance(one.op, ast.Add)
            }
            for name in sums - {""}:
                start = code.value(source, name, epochs)
                again = any(assigns(one, name) and not isinstance(one, ast.AugAssign) for one in walk(epochs.body))
                share = None if again or number(start) != 0.0 else _share_of_epoch(source, epochs, batches, name)
                if share is not None and not counter & names_in(code, source, _outermost_formula(source, share)):
                    yield Hit(share, {"total": name, "share": ast.unparse(share)})


def _outermost_formula(source: Source, node: ast.expr) -> ast.expr:
    """The formula that a division is part of."""
    outer = source.parents[node]
    return _outermost_formula(source, outer) if isinstance(outer, ast.BinOp) else node


def _share_of_epoch(source: Source, epochs: ast.For, batches: ast.For, total: str) -> ast.BinOp | None:
    """The division of a total by a length, after the loop over batches."""
    for node in of_type(walk(epochs.body[epochs.body.index(batches) + 1 :]), ast.BinOp):
        if not isinstance(node.op, ast.Div):
            continue
        length = is_call(node.right, "len")
        if length and total in {dotted_target(one) for one in ast.walk(node.left)}:
            return node
    return None


@warning("metric_of_wrong_values", "torch.utils.data.DataLoader: shuffle=True changes the order of samples")
def shuffled_predictions(code: Code, source: Source) -> Iterator[Hit]:
    """Predictions of a loader that shuffles are compared with labels in the order of the data set."""
    for loop in source.of_type(ast.For):
        loader = find_loader(code, source, loop.iter)
        shuffle = argument(loader.call, None, "shuffle") if loader is not None else None
        if not (isinstance(shuffle, ast.Constant) and shuffle.value is True):
            continue
        filled = {
            dotted_target(one.func.value) if isinstance(one, ast.Call) else dotted_target(one.target)  # type: ignore[attr-defined]
            for one in walk(loop.body)
            if (is_call(one, "append", "extend") and isinstance(one.func, ast.Attribute))
            or (isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add))
        }
        made = {dotted_target(one) for one in of_type(ast.walk(loop), ast.Name) if isinstance(one.ctx, ast.Store)}
        for call in calls_of(source.nodes, *METRICS):
            if source.function(call) is not source.function(loop) or len(call.args) < 2 or call.lineno < loop.lineno:
                continue
            later = (one for one in source.of_type(ast.For) if (loop.end_lineno or 0) < one.lineno < call.lineno)
            own = (filled | made) - {""} - {dotted_target(name) for one in later for name in ast.walk(one.target)}
            inside = [bool(names_in(code, source, one) & own) for one in call.args[:2]]
            if sorted(inside) == [False, True] and names_in(code, source, call.args[inside.index(False)]):
                labels = ast.unparse(call.args[inside.index(False)])
                yield Hit(call, {"labels": labels, "loader": ast.unparse(loop.iter)})


@warning("metric_of_wrong_values", "scikit-learn, TransformedTargetRegressor: predictions are transformed back")
def scaled_predictions(code: Code, source: Source) -> Iterator[Hit]:
    """The model learns scaled targets, and its predictions are compared with targets that are not scaled."""
    for where, fit in code.calls.get("fit_transform", ()):
        scaler = dotted_target(fit.func.value) if isinstance(fit.func, ast.Attribute) and where is source else ""
        rows = next((name for one in ast.walk(fit) if _is_training_target(name := last_name(one))), "")
        uses = [node.attr for node in source.of_type(ast.Attribute) if dotted_target(node.value) == scaler]
        if not scaler or not rows or set(uses) - {"fit_transform", "fit"} or code.loaded.get("inverse_transform"):
            continue
        for call in calls_of(source.nodes, *_ERRORS):
            raw = next((name for one in call.args[:2] if (name := dotted_target(one)) in _twins(rows)), "")
            if raw and call.lineno > fit.lineno and not _is_given_between(source, raw, fit, call):
                yield Hit(call, {"raw": raw, "scaler": scaler})
                break


def _is_training_target(name: str) -> bool:
    return bool(
        re.fullmatch(r"(?:y|targets?|labels?)_(?:train|tr)|(?:train|tr)_(?:y|targets?|labels?)|y(?:train|tr)", name)
    )


def _is_given_between(source: Source, name: str, first: ast.Call, last: ast.Call) -> bool:
    """Whether a name is assigned between two calls."""
    return any(assigns(one, name) and first.lineno < getattr(one, "lineno", 0) < last.lineno for one in source.nodes)


def _twins(rows: str) -> set[str]:
    """Names of the same values of held-out data: `y_test` of `y_train`."""
    return {re.sub(r"train|tr$|^tr", part, rows) for part in ("test", "te", "val", "valid")} - {rows}


@warning("metric_of_wrong_values", "chosen by us: the same expression under the names of two parts")
def part_under_another_name(code: Code, source: Source) -> Iterator[Hit]:
    """A name of held-out data, or of their metric, is given the same part of the data as that of training."""
    if any(code.calls.get(name) for name in _PARTS_BY_INDEX):
        return
    given: dict[tuple[ast.AST | None, str], list[tuple[str, ast.expr]]] = {}
    for name, its, node in named_values(source):
        if isinstance(its, ast.Call) and isinstance(node, ast.Assign):
            given.setdefault((source.function(node), ast.unparse(its)), []).append((name, its))
    for (_, text), pairs in given.items():
        names = [last_name(one) for one in ast.walk(pairs[0][1])]
        if not any(map(_TRAINED.search, names)) or any(map(_HELD_OUT.search, names)):
            continue
        trained = [name for name, _ in pairs if _TRAINED.search(name)]
        held_out = [(name, value) for name, value in pairs if _HELD_OUT.search(name) and not _TRAINED.search(name)]
        if trained and held_out:
            yield Hit(held_out[0][1], {"name": held_out[0][0], "other": trained[0], "code": text})


@warning(
    "metric_of_wrong_values", "scikit-learn, Metrics and scoring: precision is tp / (tp + fp), recall is tp / (tp + fn)"
)
def rate_of_other_counts(code: Code, source: Source) -> Iterator[Hit]:
    """A precision, a recall or a specificity is divided by other counts than its formula has."""
    for node in (one for one in source.of_type(ast.Assign) if len(one.targets) == 1):
        rate = next((its for name, its in _RATES.items() if re.search(name, last_name(node.targets[0]).lower())), None)
        for ratio in (one for one in of_type(ast.walk(node.value), ast.BinOp) if isinstance(one.op, ast.Div)):
            above = _count(without_form(ratio.left))
            terms = [term for _, term in signed_terms(ratio.right) if number(term) is None]
            counts = [one for one in map(_count, map(without_form, terms)) if one]
            if rate and len(terms) == len(counts) == 2 and above in rate and above in counts and {*counts} != {*rate}:
                other = next(one for one in rate if one != above)
                right = f"{above} / ({above} + {other})"
                yield Hit(node, {"metric": last_name(node.targets[0]), "code": ast.unparse(ratio), "right": right})


def _count(node: ast.expr) -> str:
    """The cell of a confusion matrix that a name is of: "tp" of `true_positives`, `self.tp[c]`; or ""."""
    while isinstance(node, ast.Subscript):
        node = node.value
    match = _COUNT.fullmatch(last_name(node).lower())
    return match[1][0] + match[2][0] if match is not None else ""


@warning(
    "metric_of_wrong_values", "Everingham et al. 2010, Pascal VOC: intersection over union, area + area - intersection"
)
def union_counts_twice(code: Code, source: Source) -> Iterator[Hit]:
    """An intersection over union is divided by the sum of both areas, which contains the intersection twice."""
    for node in (one for one in source.of_type(ast.BinOp) if isinstance(one.op, ast.Div)):
        function, statement = source.function(node), source.statement(node)
        names = [function.name if function is not None else ""]
        names += [last_name(one) for one in statement.targets] if isinstance(statement, ast.Assign) else []
        if not any(re.search(r"(?:^|_)m?(?:iou|jaccard)(?:$|_)", name.lower()) for name in names):
            continue
        above, below = _summands(code, source, node.left), _summands(code, source, node.right)
        is_overlap = len(above) == 1 and "inter" in ast.unparse(node.left).lower()
        areas = [one for sign, one in below if sign > 0 and re.search(r"sum\(|area", ast.unparse(one))]
        if is_overlap and len(areas) == len(below) == 2:
            yield Hit(node, {"code": ast.unparse(node), "areas": " + ".join(map(ast.unparse, areas))})


def _summands(code: Code, source: Source, node: ast.expr) -> list[tuple[int, ast.expr]]:
    """The summands of a value with their signs, through names, without what only keeps it away from 0."""
    found = []
    for sign, term in _signed_summands(node, 1):
        made = code.made(source, term) if dotted_target(term) else None
        if isinstance(made, ast.BinOp) and made is not node:
            found += [(sign * inner, one) for inner, one in _signed_summands(made, 1)]
        elif number(term) is None and not re.search(r"eps|smooth", last_name(term).lower()):
            found.append((sign, term))
    return found


def _signed_summands(node: ast.expr, sign: int) -> Iterator[tuple[int, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _signed_summands(node.left, sign)
        yield from _signed_summands(node.right, -sign if isinstance(node.op, ast.Sub) else sign)
    else:
        yield sign, node


@warning("metric_of_wrong_values", "sklearn.metrics: labels first, predictions second")
def labels_given_second(code: Code, source: Source) -> Iterator[Hit]:
    """A metric that is not symmetric gets the predictions as its labels."""
    for node in source.nodes:
        if not isinstance(node, ast.Call) or not source.dotted(node.func).startswith("sklearn.metrics."):
            continue
        names = [last_name(_without_calls(one)).lower() for one in node.args[:2]]
        predicted = [bool(_PREDICTED.search(name)) for name in names]
        is_label = len(names) == 2 and (_GIVEN.search(names[1]) or LABELS.fullmatch(names[1]))
        if last_name(node.func) in _ORDERED and predicted == [True, False] and is_label:
            yield Hit(node, {"metric": last_name(node.func), "predictions": names[0], "labels": names[1]})


def _without_calls(node: ast.expr) -> ast.expr:
    """Return the tensor of `tensor.detach().cpu().numpy()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        node = node.func.value
    return node


@warning("metric_of_wrong_values", "scikit-learn, TransformedTargetRegressor: predictions are transformed back")
def logarithm_not_undone(code: Code, source: Source) -> Iterator[Hit]:
    """The model learns logarithms of the targets, and its predictions are compared with targets of other rows."""
    turned = ("exp", "expm1", "power", "inverse_transform")
    undone = [call.lineno for name in turned for where, call in code.calls.get(name, ()) if where is source]
    logs = [node for node in source.of_type(ast.Call) if last_name(node.func) in ("log", "log1p", "log10", "log2")]
    read = (one for call in logs for given in (*call.args, call.func) for one in ast.walk(given))
    taken = set(map(dotted_target, read)) - {""}
    for call in logs:
        rows = dotted_target(call.args[0]) if call.args else ""
        is_kept = _TRAINED.search(rows) and all(line < call.lineno for line in undone)
        raw = _twins(rows) - taken if is_kept else set()
        for node in source.of_type(ast.BinOp):
            sides = {dotted_target(node.left), dotted_target(node.right)} if isinstance(node.op, ast.Sub) else set()
            name = next(iter(sides & raw), "")
            if name and node.lineno > call.lineno:
                yield Hit(node, {"rows": rows, "raw": name, "code": ast.unparse(call)})
                return


@warning("metric_of_wrong_values", "scikit-learn, Metrics and scoring: accuracy is of classes, not of numbers")
def accuracy_of_numbers(code: Code, source: Source) -> Iterator[Hit]:
    """A regression is measured by its accuracy: the share of outputs that equal their targets exactly."""
    for call in code.calls_in(source, "compile", "prepare"):
        loss = argument(call, 1, "loss")
        metrics = argument(call, 2 if is_call(call, "prepare") else 3, "metrics")
        if loss is None or metrics is None or _name_of(loss) not in _REGRESSION_LOSSES:
            continue
        if _names_in(metrics) & _ACCURACIES and (
            is_call(call, "prepare") or _ends_in_one_number(code, source, receiver(call))
        ):
            yield Hit(call, {"loss": ast.unparse(loss)})


@warning("metric_of_wrong_values", "keras.metrics.BinaryAccuracy: each output is compared with 0.5")
def accuracy_of_each_class(code: Code, source: Source) -> Iterator[Hit]:
    """The loss chooses one of several classes, and the accuracy counts the outputs on the right side of 0.5."""
    for call in code.calls_in(source, "compile"):
        loss, metrics = argument(call, 1, "loss"), argument(call, 3, "metrics")
        named = _names_in(metrics) & _BINARY_ACCURACIES if metrics is not None else set()
        if loss is not None and named and _name_of(loss) in _CLASS_LOSSES:
            yield Hit(call, {"loss": _name_of(loss), "metric": min(named)})


def _names_in(node: ast.expr) -> set[str]:
    return {str(one.value) if isinstance(one, ast.Constant) else last_name(one) for one in ast.walk(node)}


def _name_of(loss: ast.expr) -> str:
    return str(loss.value) if isinstance(loss, ast.Constant) else last_name(getattr(loss, "func", loss))


def _ends_in_one_number(code: Code, source: Source, model: ast.expr | None) -> bool:
    """Whether the last layer of a Keras model is a `Dense(1)` without an activation."""
    last = last_keras_layer(code, source, model)
    return last is not None and number(argument(last, 0, "units")) == 1 and keras_activation(last) == "linear"
