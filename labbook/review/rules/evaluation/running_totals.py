"""Rules about totals over batches and lists of predictions: overwritten, of another length, of classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code, Kind
from labbook.review.eval_loops import runs_without_gradients
from labbook.review.expressions import AS_IS, constant, number, without_form
from labbook.review.loaders import find_loader
from labbook.review.names import (
    LOOPS,
    SCOPES,
    assigned_pairs,
    assigns,
    dotted_target,
    last_name,
    loop_of,
    member_key,
    of_type,
    walk,
)
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_CURVES = ("roc_auc_score", "average_precision_score", "roc_curve", "precision_recall_curve")
JOINING = ("cat", "concat", "concatenate", "array", "stack", "vstack", "hstack")
_MEASURES = re.compile(r"loss|criterion|entropy|accuracy")
_CONVERSIONS = AS_IS | {"cpu", "numpy", "tolist", "item", "int", "long", "ravel", "contiguous"}


@warning("metric_of_wrong_values", "PyTorch tutorials, training a classifier: counts are added up over the batches")
def total_overwritten(code: Code, source: Source) -> Iterator[Hit]:
    """What was 0 before a loop over batches, or is measured in an evaluation, is that of the last batch after it."""
    for loop in source.of_type(ast.For):
        loader = find_loader(code, source, loop.iter)
        if loader is None:
            continue
        is_evaluation = runs_without_gradients(source, loop) and _has_batches(code, loader)
        given = [(one, *pair) for one in loop.body if isinstance(one, ast.Assign) for pair in assigned_pairs(one)]
        for statement, target, its in given:
            name = dotted_target(target)
            start = code.value(source, name, loop) if name else None
            names = [one for one in of_type(walk(loop.body), ast.Name) if one.id == name]
            is_total = start is not None and number(start) == 0.0
            is_measured = is_total and its is not None and any(is_call(one, "sum", "item") for one in walk([its]))
            is_measured |= is_evaluation and its is not None and _is_value_of_batch(its)
            added = [one for one in loop.body if isinstance(one, ast.AugAssign) and dotted_target(one.target) == name]
            is_reset = number(its) == 0.0 and bool(added) and statement.lineno < added[0].lineno
            is_only = len(names) == 1 + len(added)
            if name and (is_measured or is_reset) and is_only and _is_read_after(source, loop, name):
                yield Hit(statement, {"total": name, "code": ast.unparse(statement)})
                break


@warning("loop_left_early", "Python reference: break and return leave the loop", tier=1)
def loop_left_early(code: Code, source: Source) -> Iterator[Hit]:
    """A loop that trains on batches, or adds up over them, always leaves at the end of its first batch."""
    for loop in source.of_type(ast.For):
        end = loop.body[-1]
        if not isinstance(end, (ast.Break, ast.Return)) or any(
            isinstance(one, ast.Continue) for one in walk(loop.body)
        ):
            continue
        trains = _has_call(loop, "backward") and _has_call(loop, "step") and _is_repeated(code, source, loop)
        adds = [one for one in loop.body if isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add)]
        if isinstance(loop.target, ast.Tuple) and (trains or len(adds) > 1):
            yield Hit(
                end, {"code": ast.unparse(end), "loop": f"for {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}"}
            )


def _has_call(loop: ast.For, name: str) -> bool:
    return any(is_call(one, name) for one in walk(loop.body))


def _is_repeated(code: Code, source: Source, loop: ast.For) -> bool:
    """Whether a loop is within another one, or in a function that is called in one: a demonstration runs it once."""
    function = source.function(loop)
    calls = code.calls.get(function.name, ()) if function is not None else ()
    return loop_of(source, loop) is not None or any(loop_of(where, call) is not None for where, call in calls)


def _is_value_of_batch(node: ast.expr) -> bool:
    """Whether a value is what a loss or metric returns, or the mean over all elements."""
    made = without_form(node)
    is_mean = is_call(made, "mean") and not made.args and not made.keywords
    return is_mean or (isinstance(made, ast.Call) and bool(_MEASURES.search(last_name(made.func).lower())))


def _has_batches(code: Code, loader: Kind) -> bool:
    """Whether a loader divides its data as another one does: a size of its own may be that of all held-out data."""
    given = [argument(call, 1, "batch_size") for call in code.calls_in(loader.source, "DataLoader")]
    sizes = [ast.unparse(one) for one in given if one is not None and not is_call(one, "len")]
    own = argument(loader.call, 1, "batch_size")
    is_plain = loader.name.startswith(("torch.utils.", "paddle.io."))
    return is_plain and own is not None and sizes.count(ast.unparse(own)) > 1


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
)
def total_of_other_length(code: Code, source: Source) -> Iterator[Hit]:
    """A total over the batches of one loader is divided by the length of another one, or of more than it delivers."""
    for loop in source.of_type(ast.For):
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
    """Whether this is another loader or its data set, or the data set of a loader that drops its last batch."""
    other = find_loader(code, source, counted)
    if other is not None:
        return other.call is not loader.call
    drops, data = argument(loader.call, None, "drop_last"), argument(loader.call, 0, "dataset")
    is_dropped = isinstance(drops, ast.Constant) and drops.value is True
    if isinstance(data, ast.Name) and isinstance(counted, ast.Name) and data.id != counted.id:
        calls = [*code.calls_in(source, "DataLoader")]
        return counted.id in {dotted_target(one) for call in calls for one in call.args[:1] if call is not loader.call}
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
    "PyTorch Geometric, mini-batches: the nodes of all graphs of a batch are rows of one matrix",
    tier=1,
)
def nodes_over_graphs(code: Code, source: Source) -> Iterator[Hit]:
    """Right nodes of batches of graphs are added up, and divided by the number of graphs."""
    has_graphs = any(name.startswith("torch_geometric.") for name in source.names.values())
    if not has_graphs or code.loaded.get("batch") or any("pool" in name or "aggr" in name for name in code.calls):
        return
    for loop in source.of_type(ast.For):
        sums = [one for one in of_type(walk(loop.body), ast.AugAssign) if _compares_labels(one.value)]
        totals = {dotted_target(one.target) for one in sums} - {""}
        for node in _nodes_after(source, loop):
            total, length = _division(node)
            if length is not None and total in totals and member_key(length.args[0]) == "dataset":
                yield Hit(node, {"total": total, "length": ast.unparse(length)})


def _compares_labels(node: ast.AST) -> bool:
    """Whether predictions are compared with `data.y`."""
    sides = (side for one in of_type(ast.walk(node), ast.Compare) for side in (one.left, *one.comparators))
    return any(member_key(side) == "y" for side in sides)


def calls_method_of(node: ast.AST, name: str, *methods: str) -> bool:
    """Whether this is a call of one of some methods of a name."""
    owner = receiver(node) if is_call(node, *methods) else None
    return owner is not None and dotted_target(owner) == name


@warning("metric_of_wrong_values", "torchvision references: a sample counts once if it is among the k")
def hits_over_k(code: Code, source: Source) -> Iterator[Hit]:
    """A top-k accuracy is the mean over all k predictions of a sample, so that it is at most 1 / k."""
    for call in code.calls_in(source, "mean"):
        given = call.args[0] if source.dotted(call.func) and call.args else receiver(call)
        test = code.made(source, without_form(given)) if given is not None else None
        sides = _sides_of_equality(without_form(test)) if test is not None and not call.keywords else []
        counts = [k for side in sides if (k := _count_of_topk(code, source, side))]
        if len(counts) == 1 and counts[0] > 1 and "precision" not in ast.unparse(source.function(call) or call):
            yield Hit(call, {"code": ast.unparse(call), "k": f"{counts[0]:.0f}"})


def _sides_of_equality(node: ast.expr) -> list[ast.expr]:
    """Both sides of `a == b` and `a.eq(b)`."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
        return [node.left, node.comparators[0]]
    owner = receiver(node) if is_call(node, "eq") else None
    return [owner, *node.args[:1]] if owner is not None else []  # type: ignore[attr-defined]


def _count_of_topk(code: Code, source: Source, node: ast.expr) -> float | None:
    """The k of the indices that `topk` returns, through names; `None` for anything else."""
    made = code.made(source, without_form(node))
    if made is None:
        made = _pair_of(source, without_form(node))
    elif member_key(made) in ("indices", 1):
        made = made.value  # type: ignore[attr-defined]
    k = argument(made, 1 if source.dotted(made.func) else 0, "k") if is_call(made, "topk") else None
    return constant(code, source, k) if k is not None else None


def _pair_of(source: Source, node: ast.expr) -> ast.expr | None:
    """The call that returns a name as the second of two values: `torch.max(out, 1)` of `_, guess`."""
    scope = source.function(node) or source.tree
    pairs = (one for one in of_type(walk(scope.body), ast.Assign) if isinstance(one.targets[0], ast.Tuple))
    calls = {dotted_target(one.targets[0].elts[-1]): one.value for one in pairs}  # type: ignore[attr-defined]
    return calls.get(dotted_target(node)) if dotted_target(node) else None


@warning("metric_of_wrong_values", "sklearn.metrics.roc_auc_score: y_score are probabilities or decision values")
def curve_of_classes(code: Code, source: Source) -> Iterator[Hit]:
    """The area under a curve is computed of predicted classes: it has one threshold instead of all."""
    for node in source.of_type(ast.Call):
        scores = argument(node, 1, "y_score") if last_name(node.func) in _CURVES else None
        given = list(_values(code, source, scores)) if scores is not None else []
        if given and all(_is_class(source, one) for one in given):
            yield Hit(node, {"metric": last_name(node.func), "scores": ast.unparse(given[0])})


def _values(code: Code, source: Source, node: ast.expr) -> Iterator[ast.expr]:
    """Yield what a value is a form of: through names, conversions, and the items that a list is given."""
    node = _without_conversions(node)
    if is_call(node, *JOINING) and node.args:
        yield from _values(code, source, node.args[0])
        return
    made = code.made(source, node) if dotted_target(node) else None
    if made is not None and not isinstance(made, ast.List):
        yield from _values(code, source, made)
    elif items := list(_items_given(source, node)):
        for item in items:
            yield from _values(code, source, item)
    else:
        yield node


def _without_conversions(node: ast.expr) -> ast.expr:
    """Return `x.round()` of `x.round().cpu().numpy()`."""
    while is_call(node, *_CONVERSIONS) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return node


def _items_given(source: Source, node: ast.expr) -> Iterator[ast.expr]:
    """Yield what is appended to a list, or added to it by `+=`, in the function of a node."""
    name = dotted_target(node)
    for one in walk((source.function(node) or source.tree).body) if name else ():
        if calls_method_of(one, name, "append", "extend"):
            yield from one.args[:1]  # type: ignore[attr-defined]
        elif isinstance(one, ast.AugAssign) and dotted_target(one.target) == name:
            yield one.value


def _is_class(source: Source, node: ast.expr) -> bool:
    """Whether a value is a class: `argmax`, `round`, the place of a maximum, or a comparison with a threshold."""
    is_above = isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Gt, ast.GtE))
    return is_above or is_call(node, "argmax", "round") or is_call(_pair_of(source, node), "max")


@warning(
    "metric_divided_by_batches", "torch.utils.data.DataLoader: its length is the number of batches; the same in paddle"
)
def metric_over_batches(code: Code, source: Source) -> Iterator[Hit]:
    """The number of right predictions is divided by the number of batches."""
    for node in source.of_type(ast.BinOp):
        if not isinstance(node.op, ast.Div) or not isinstance(node.right, ast.Call):
            continue
        counted = node.left
        while isinstance(counted, ast.BinOp) and isinstance(counted.op, ast.Mult):
            counted = counted.right if isinstance(counted.left, ast.Constant) else counted.left
        name, length = dotted_target(counted), node.right
        if not name or last_name(length.func) != "len" or len(length.args) != 1:
            continue
        loader = find_loader(code, source, length.args[0])
        size = argument(loader.call, 1, "batch_size") if loader is not None else None
        if size is None or (isinstance(size, ast.Constant) and size.value in (1, None)):
            continue
        scope = source.function(node) or source.tree
        sums = [one.value for one in of_type(ast.walk(scope), ast.AugAssign) if dotted_target(one.target) == name]
        if sums and all(_counts_right(one) for one in sums):
            yield Hit(node, {"count": name, "loader": ast.unparse(length.args[0])})


def _counts_right(node: ast.expr) -> bool:
    """Whether this is the number of equal elements: `(prediction == label).sum().item()`."""
    called = {last_name(one.func) for one in of_type(ast.walk(node), ast.Call)}
    equal = any(isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Eq) for one in ast.walk(node))
    divided = any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div) for one in ast.walk(node))
    return "sum" in called and (equal or "eq" in called) and "mean" not in called and not divided
