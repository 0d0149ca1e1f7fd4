"""Rules about metric objects of torchmetrics and paddle, which collect batches, in loops and in trainers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, calls_of, is_call, receiver
from labbook.review.code_index import Code, Kind
from labbook.review.eval_loops import runs_without_gradients
from labbook.review.expressions import made_of, number
from labbook.review.gradient_flow import reached_nodes
from labbook.review.loaders import find_loader
from labbook.review.names import Function, dotted_target, last_name, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_METRICS = re.compile(r"^(?:paddle\.metric|torchmetrics(?:\.\w+)*)\.[A-Z]\w+$")
_FUNCTIONS = re.compile(r"^(?:torchmetrics\.functional|sklearn\.metrics)\.")
_NOT_MEANS = re.compile(
    r"^(?:binary|multiclass|multilabel)?(?:precision|recall|specificity|f1|fbeta|auroc|rocauc|averageprecision|"
    r"matthewscorr|cohenkappa|jaccard|r2score|pearsoncorr|spearmancorr|explainedvariance|balancedaccuracy)"
)
"""Metrics, in lower case without `_`, that are not the mean of their values over parts of the data."""

_IGNORED = -100.0
_WITH_IGNORED = ("CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss")
_COLLATORS = ("DataCollatorForTokenClassification", "DataCollatorForLanguageModeling", "DataCollatorForSeq2Seq")

_TRAINED, _VALIDATED = "training_step", "validation_step"


def _phases(code: Code, source: Source, owner: ast.ClassDef) -> tuple[dict[str, ast.Call], dict[str, ast.Call]]:
    """The metrics that the training and the validation step of a class update -> the call."""
    found = [code.method(source, owner, name) for name in (_TRAINED, _VALIDATED)]
    trained, validated = (_updated_metrics(code, *one) if one is not None else {} for one in found)
    return trained, validated


def _updated_metrics(code: Code, source: Source, method: Function) -> dict[str, ast.Call]:
    """Metrics of a class that a method updates, or that a method it calls updates in any case -> the call."""
    found = {}
    for where, node in reached_nodes(code, source, method.body):
        owner = receiver(node) if is_call(node, "update", "forward") else getattr(node, "func", None)
        name = dotted_target(owner) if owner is not None else ""
        is_chosen = any(isinstance(one, (ast.If, ast.IfExp, ast.Match)) for one in where.parents_of(node))
        if not name.startswith("self.") or (is_chosen and where.function(node) is not method):
            continue
        if _metric_kind(code, where, owner) is not None:
            found[name] = node
    return found  # type: ignore[return-value]


def _metric_kind(code: Code, source: Source, node: ast.expr | None) -> Kind | None:
    """The kind of a metric object; `None` for everything else."""
    kind = code.kind(source, node)
    return kind if kind is not None and _METRICS.match(kind.name) else None


def _uses(source: Source, owner: ast.ClassDef, name: str) -> set[str]:
    """The methods of an attribute that a class calls, "call" for the object itself, "passed" where it is passed on."""
    uses = set()
    for one in of_type(ast.walk(owner), ast.Attribute):
        if dotted_target(one) == name and isinstance(one.ctx, ast.Load):
            outer = source.parents[one]
            is_called = isinstance(outer, ast.Call) and outer.func is one
            uses.add(outer.attr if isinstance(outer, ast.Attribute) else "call" if is_called else "passed")
    return uses


@warning(
    "metric_of_wrong_values",
    "PyTorch Lightning, TorchMetrics in Lightning: separate metrics for training, validation and testing",
)
def metric_shared_by_phases(code: Code, source: Source) -> Iterator[Hit]:
    """One metric object collects the batches of training and of validation, and its value over all of them is read."""
    for owner in source.of_type(ast.ClassDef):
        trained, validated = _phases(code, source, owner)
        for name in sorted(trained.keys() & validated.keys()):
            uses = _uses(source, owner, name)
            if "reset" not in uses and uses & {"compute", "passed"}:
                yield Hit(validated[name], {"metric": name})


@warning(
    "metric_of_wrong_values",
    "TorchMetrics in Lightning, common pitfalls: the mean of the values of batches is not the value of the epoch",
)
def mean_of_batch_values(code: Code, source: Source) -> Iterator[Hit]:
    """A metric that is no mean, or its value so far, is logged for each batch: that of the epoch is their mean."""
    if any(one.arg == "batch_size" and is_call(one.value, "len") for one in source.of_type(ast.keyword)):
        return
    for owner in source.of_type(ast.ClassDef):
        for step in (_TRAINED, _VALIDATED, "test_step"):
            found = code.method(source, owner, step)
            for where, node in reached_nodes(code, found[0], found[1].body) if found is not None else ():
                if is_call(node, "log", "log_dict") and _is_averaged(node, step):
                    computed = next(_values_of_batch(code, where, node), None)
                    if computed is not None:
                        yield Hit(node, {"value": ast.unparse(computed)})


def _is_averaged(call: ast.Call, method: str) -> bool:
    """Whether Lightning logs a mean over the epoch: by default in all steps but that of training."""
    given = argument(call, None, "on_epoch")
    on_epoch = given.value if isinstance(given, ast.Constant) else method != _TRAINED if given is None else False
    return dotted_target(call.func).startswith("self.") and bool(on_epoch)


def _values_of_batch(code: Code, source: Source, log: ast.Call) -> Iterator[ast.Call]:
    """Yield the calls in what is logged that compute a metric of the batch, or of the batches so far."""
    for given in log.args:
        for one in of_type(made_of(code, source, given), ast.Call):
            is_so_far = is_call(one, "compute") and bool(_makers(code, source, receiver(one)))
            calls = [one] if _FUNCTIONS.match(source.dotted(one.func)) else _makers(code, source, one.func)
            if is_so_far or any(_is_no_mean(call) for call in calls):
                yield one


def _makers(code: Code, source: Source, node: ast.expr | None) -> list[ast.Call]:
    """The calls that make a metric object, or those in a collection of them that a name goes through."""
    loops = (one for outer in source.parents_of(node) for one in getattr(outer, "generators", [outer])) if node else ()
    gone_through = next(
        (one.iter for one in loops if isinstance(one, (ast.For, ast.comprehension)) and _binds(one.target, node)), None
    )
    kind = code.kind(source, receiver(gone_through) if isinstance(gone_through, ast.Call) else node)
    calls = of_type(ast.walk(kind.call), ast.Call) if kind is not None else ()
    return [one for one in calls if kind is not None and _METRICS.match(kind.source.dotted(one.func))]


def _binds(target: ast.expr, node: ast.expr | None) -> bool:
    return isinstance(node, ast.Name) and any(one.id == node.id for one in of_type(ast.walk(target), ast.Name))


def _is_no_mean(call: ast.Call) -> bool:
    """Whether a metric, or the object that computes it, is not the mean of its values over the batches."""
    average = argument(call, None, "average")
    is_micro = isinstance(average, ast.Constant) and average.value == "micro"
    return not is_micro and bool(_NOT_MEANS.match(last_name(call.func).lower().replace("_", "")))


_OF_ALL = (
    *("roc_auc_score", "average_precision_score", "f1_score", "fbeta_score", "precision_score", "recall_score"),
    *("balanced_accuracy_score", "matthews_corrcoef", "cohen_kappa_score", "r2_score", "jaccard_score"),
)
"""Functions of scikit-learn whose mean over batches is not their value over all samples."""


@warning("metric_of_wrong_values", "sklearn.metrics: areas and ratios of counts are of all samples")
def ratio_of_each_batch(code: Code, source: Source) -> Iterator[Hit]:
    """An area under a curve, or a ratio of counts, is computed for each batch of an evaluation and averaged."""
    for loop in source.of_type(ast.For):
        loader = find_loader(code, source, loop.iter)
        size = argument(loader.call, 1, "batch_size") if loader is not None else None
        if size is None or number(size) == 1.0 or is_call(size, "len") or not runs_without_gradients(source, loop):
            continue
        for call in calls_of(walk(loop.body), *_OF_ALL):
            statement = source.statement(call)
            value = statement.value if isinstance(statement, ast.Expr) else None
            added = receiver(value) if is_call(value, "append") else getattr(statement, "target", None)
            total = dotted_target(added) if added is not None else ""
            later = (one for one in source.nodes if getattr(one, "lineno", 0) > (loop.end_lineno or 0))
            if source.dotted(call.func).startswith("sklearn.metrics.") and any(_averages(one, total) for one in later):
                yield Hit(call, {"metric": last_name(call.func)})


def _averages(node: ast.AST, total: str) -> bool:
    """Whether this divides a sum of a name, or takes the mean of its items."""
    is_divided = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    is_mean = is_divided or is_call(node, "mean", "fmean", "nanmean")
    return is_mean and bool(total) and any(dotted_target(one) == total for one in ast.walk(node))


@warning("metric_of_wrong_values", "torch.nn.CrossEntropyLoss: ignore_index; the same in paddle")
def ignored_labels_counted(code: Code, source: Source) -> Iterator[Hit]:
    """The loss leaves out labels with one number, and the accuracy divides by the count of all labels."""
    yield from _counted_by_trainer(code, source)
    ignored = [argument(call, None, "ignore_index") for name in _WITH_IGNORED for call in code.calls_in(source, name)]
    names = {ast.unparse(one) for one in ignored if one is not None}
    compared = (side for one in source.of_type(ast.Compare) for side in (one.left, *one.comparators))
    if not names or any(ast.unparse(side) in names for side in compared):
        return
    for loop in source.of_type(ast.For):
        labels = {dotted_target(one) for one in loop.target.elts[-1:]} if isinstance(loop.target, ast.Tuple) else set()
        counts = (one for one in of_type(walk(loop.body), ast.AugAssign) if is_call(one.value, "numel"))
        for node in counts if find_loader(code, source, loop.iter) is not None else ():
            if dotted_target(receiver(node.value) or node) in labels - {""}:  # type: ignore[arg-type]
                yield Hit(node, {"code": ast.unparse(node), "ignored": next(iter(names))})


def _counted_by_trainer(code: Code, source: Source) -> Iterator[Hit]:
    """Yield the mean over all labels in a function that a trainer of transformers is given, whose loss ignores -100."""
    if not _has_ignored_labels(code):
        return
    for given in (one.value for one in source.of_type(ast.keyword) if one.arg == "compute_metrics"):
        found = code.function_named(source, given)
        body = found[1].body if found is not None else []
        nodes = [one for _, one in reached_nodes(code, found[0] if found is not None else source, body)]
        words = " ".join(str(getattr(one, "arg", "")) + last_name(one) for one in nodes).lower()
        if any(number(one) == _IGNORED for one in of_type(nodes, ast.UnaryOp)) or "mask" in words or "ignore" in words:
            continue
        for call in calls_of(nodes, "mean", "accuracy_score"):
            test = call.args[0] if call.args else receiver(call)
            sides = test.comparators if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) else []
            labels = sides or call.args[:2]
            if len(labels) and is_call(call, "accuracy_score") == (not sides):
                yield Hit(call, {"code": ast.unparse(call), "ignored": f"{_IGNORED:.0f}"})
                break


def _has_ignored_labels(code: Code) -> bool:
    """Whether a program gives labels the value -100, or uses a collator that does."""
    filled = any(number(one) == _IGNORED for where in code.sources for one in where.of_type(ast.UnaryOp))
    return filled or any(code.calls.get(name) for name in _COLLATORS)
