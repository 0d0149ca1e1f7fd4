"""Rules about totals over batches: overwritten instead of added up, divided by another length, metrics never reset."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code, Kind
from labbook.review.expressions import number
from labbook.review.names import LOOPS, SCOPES, assigns, dotted_target, last_name, loop_of, of_type, walk
from labbook.review.rules.data_pipeline import find_loader
from labbook.review.rules.metric_values import METRICS
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_METRICS = re.compile(r"^(?:paddle\.metric|torchmetrics(?:\.\w+)*)\.[A-Z]\w+$")


@warning(
    "metric_of_wrong_values",
    "PyTorch tutorials, training a classifier: counts are added up over the batches",
    row="loop-bug",
)
def total_overwritten(code: Code, source: Source) -> Iterator[Hit]:
    """What was set to 0 before a loop over batches is assigned in it, so that only the last batch counts after it."""
    for loop in of_type(source.nodes, ast.For):
        if find_loader(code, source, loop.iter) is None:
            continue
        for statement in (one for one in loop.body if isinstance(one, ast.Assign)):
            name = dotted_target(statement.targets[0])
            start = code.value(source, name, loop) if name else None
            names = [one for one in of_type(walk(loop.body), ast.Name) if one.id == name]
            is_measured = any(is_call(one, "sum", "item") for one in walk([statement]))
            if (
                start is not None
                and number(start) == 0.0
                and is_measured
                and len(names) == 1
                and _is_read_after(source, loop, name)
            ):
                yield Hit(statement, {"total": name, "code": ast.unparse(statement)})


def _is_read_after(source: Source, loop: ast.For, name: str) -> bool:
    return any(
        isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)
        for one in _nodes_after(source, loop)
    )


def _nodes_after(source: Source, loop: ast.For) -> Iterator[ast.AST]:
    """Yield the nodes below a loop, in the loop or function around it."""
    outer = next((one for one in source.parents_of(loop) if isinstance(one, (*LOOPS, *SCOPES))), source.tree)
    body = outer.body if isinstance(outer, (*LOOPS, ast.FunctionDef, ast.Module)) else []
    return (one for one in walk(body) if getattr(one, "lineno", 0) > (loop.end_lineno or loop.lineno))


@warning(
    "metric_of_wrong_values",
    "torch.utils.data.DataLoader: drop_last leaves out the last batch; the same in paddle",
    tier=1,
    row="loop-bug",
)
def total_of_other_length(code: Code, source: Source) -> Iterator[Hit]:
    """A total over the batches of one loader is divided by the length of another one, or of more than it delivers."""
    for loop in of_type(source.nodes, ast.For):
        loader = find_loader(code, source, loop.iter)
        batches = next(
            (name for one in ast.walk(loop.iter) if (name := dotted_target(one)) and name != "enumerate"), ""
        )
        if loader is None or not batches:
            continue
        totals = {dotted_target(one.target) for one in of_type(walk(loop.body), ast.AugAssign)} - {""}
        for node in _nodes_after(source, loop):
            total, length = _division(node)
            # The total of another loop may have the same name.
            if length is None or total not in totals or _is_written_before(source, loop, node, total):
                continue
            if _is_wrong_length(code, source, loader, length.args[0]):
                yield Hit(node, {"total": total, "length": ast.unparse(length), "loader": batches})


def _is_written_before(source: Source, loop: ast.For, node: ast.AST, name: str) -> bool:
    """Whether a name is assigned between the end of a loop and a node."""
    later = (one for one in _nodes_after(source, loop) if one is not node)
    return any(assigns(one, name) and one.lineno <= getattr(node, "lineno", 0) for one in later)  # type: ignore[attr-defined]


def _is_wrong_length(code: Code, source: Source, loader: Kind, counted: ast.expr) -> bool:
    """Whether this is another loader, or the data set of a loader that drops its last batch."""
    other = find_loader(code, source, counted)
    if other is not None:
        return other.call is not loader.call
    drops, data = argument(loader.call, None, "drop_last"), argument(loader.call, 0, "dataset")
    is_dropped = isinstance(drops, ast.Constant) and drops.value is True
    return is_dropped and data is not None and ast.unparse(counted) == ast.unparse(data)


def _division(node: ast.AST) -> tuple[str, ast.Call | None]:
    """The total and the `len(...)` of `total / len(...)` or `total /= len(...)`."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        left, right = node.target, node.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        left, right = node.left, node.right  # type: ignore[assignment]
    else:
        return "", None
    is_length = is_call(right, "len") and len(right.args) == 1
    return dotted_target(left), right if isinstance(right, ast.Call) and is_length else None


@warning(
    "metric_of_wrong_values",
    "scikit-learn, Metrics and scoring: predictions and labels of one evaluation",
    row="loop-bug",
)
def predictions_pile_up(code: Code, source: Source) -> Iterator[Hit]:
    """A metric in a loop over epochs gets lists that are filled in each epoch, and are made before the loop."""
    for call in of_type(source.nodes, ast.Call):
        names = [dotted_target(one) for one in call.args[:2]] if last_name(call.func) in METRICS else []
        epochs = loop_of(source, call)
        if len(names) < 2 or not all(names) or not isinstance(epochs, ast.For):
            continue
        if all(_is_filled_without_end(code, source, epochs, name) for name in names):
            yield Hit(call, {"metric": last_name(call.func), "list": names[0]})


def _is_filled_without_end(code: Code, source: Source, epochs: ast.For, name: str) -> bool:
    """Whether a list made before a loop over epochs grows in a loop over batches inside, and nothing empties it."""
    start = code.value(source, name, epochs)
    inner = [one for one in walk(epochs.body) if isinstance(one, LOOPS)]
    grown = any(_calls_method_of(one, name, "append", "extend") for loop in inner for one in walk(loop.body))
    emptied = any(
        _calls_method_of(one, name, "clear") or (assigns(one, name) and not isinstance(one, ast.AugAssign))
        for one in walk(epochs.body)
    )
    return isinstance(start, ast.List) and not start.elts and grown and not emptied


def _calls_method_of(node: ast.AST, name: str, *methods: str) -> bool:
    owner = receiver(node) if is_call(node, *methods) else None
    return owner is not None and dotted_target(owner) == name


@warning(
    "metric_of_wrong_values", "paddle.metric.Metric.reset; torchmetrics: reset at the end of each epoch", row="loop-bug"
)
def metric_never_reset(code: Code, source: Source) -> Iterator[Hit]:
    """A metric object collects values in each epoch, and is never reset: it is of all epochs so far."""
    if code.calls.get("reset") or code.calls.get("MetricCollection"):
        return
    for call in code.calls_in(source, "update"):
        owner = receiver(call)
        kind = code.kind(source, owner)
        loops = [one for one in source.parents_of(call) if isinstance(one, LOOPS)]
        inside = kind is not None and any(one is kind.call for outer in loops for one in ast.walk(outer))
        if kind is not None and _METRICS.match(kind.name) and len(loops) > 1 and not inside:
            yield Hit(call, {"metric": ast.unparse(owner or call)})
