"""Rules about totals and lists of predictions that are made before the epochs, and grow in each of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.eval_loops import runs_without_gradients
from labbook.review.expressions import number, signed_terms, without_form
from labbook.review.gradient_flow import is_optimizer, reached_nodes
from labbook.review.names import LOOPS, assigns, dotted_target, last_name, loop_of, walk
from labbook.review.rules.evaluation.metric_values import METRICS
from labbook.review.rules.evaluation.running_totals import JOINING, calls_method_of
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning


@warning("metric_of_wrong_values", "PyTorch tutorials, training a classifier: counts begin at 0 in each evaluation")
def counted_since_first_epoch(code: Code, source: Source) -> Iterator[Hit]:
    """The accuracy of each epoch is that of all epochs so far: its two counts are 0 before the first one only."""
    for node in source.of_type(ast.BinOp):
        epochs, terms = loop_of(source, node), list(signed_terms(node.left))
        names = [dotted_target(without_form(one)) for one in (*(term for _, term in terms), node.right)]
        if not isinstance(node.op, ast.Div) or epochs is None or len(set(names)) != 2 or "" in names:
            continue
        is_training = any(is_call(one, "backward") for one in walk(epochs.body)) and not _makes_model(
            code, source, epochs
        )
        if is_training and all(_grows_in_all_epochs(code, source, epochs, name) for name in names):
            yield Hit(node, {"code": ast.unparse(node), "total": names[0], "count": names[1]})


def _makes_model(code: Code, source: Source, loop: ast.AST) -> bool:
    """Whether a loop makes an optimizer, or calls what makes one: a fold, whose counts are added up on purpose."""
    called = (one for _, one in reached_nodes(code, source, getattr(loop, "body", [])))
    return any(isinstance(one, ast.Call) and is_optimizer(source.dotted(one.func)) for one in called)


def _grows_in_all_epochs(code: Code, source: Source, epochs: ast.AST, name: str) -> bool:
    """Whether a name is 0 before a loop, and all that the loop does to it is to add in evaluations."""
    start = code.value(source, name, epochs) if name else None
    writes = [one for one in walk(getattr(epochs, "body", [])) if assigns(one, name)] if start is not None else []
    inner = [loop_of(source, one) for one in writes]
    return (
        number(start) == 0.0
        and bool(writes)
        and all(isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add) for one in writes)
        and all(isinstance(one, ast.For) and one is not epochs and runs_without_gradients(source, one) for one in inner)
    )


@warning("metric_of_wrong_values", "scikit-learn, Metrics and scoring: predictions and labels of one evaluation")
def predictions_pile_up(code: Code, source: Source) -> Iterator[Hit]:
    """A metric in a loop over epochs gets lists that are filled in each epoch, and are made before the loop."""
    for call in source.of_type(ast.Call):
        given = call.args[:2] if last_name(call.func) in METRICS else []
        names = [dotted_target(one.args[0] if is_call(one, *JOINING) and one.args else one) for one in given]
        epochs = loop_of(source, call)
        if len(names) < 2 or not all(names):
            continue
        in_loop = isinstance(epochs, ast.For)
        if all(in_loop and _is_filled_without_end(code, source, epochs, name) for name in names) or all(  # type: ignore[arg-type]
            _is_attribute_without_end(code, source, call, name) for name in names
        ):
            yield Hit(call, {"metric": last_name(call.func), "list": names[0]})


def _is_attribute_without_end(code: Code, source: Source, call: ast.Call, name: str) -> bool:
    """Whether a method that is called in a loop fills a list of its object that only `__init__` makes."""
    owner, method = source.class_of(call), source.function(call)
    if owner is None or method is None or not name.startswith("self.") or method.name == "__init__":
        return False
    nodes = list(ast.walk(owner))
    made = {getattr(source.function(one), "name", "") for one in nodes if assigns(one, name)}
    grown = any(calls_method_of(one, name, "append", "extend") for one in walk(method.body))
    emptied = any(calls_method_of(one, name, "clear") for one in nodes)
    again = any(loop_of(where, one) is not None for where, one in code.calls.get(method.name, ()))
    return made == {"__init__"} and grown and not emptied and again


def _is_filled_without_end(code: Code, source: Source, epochs: ast.For, name: str) -> bool:
    """Whether a list made before a loop over epochs grows in a loop over batches inside, and nothing empties it."""
    start = code.value(source, name, epochs)
    inner = [one for one in walk(epochs.body) if isinstance(one, LOOPS)]
    grown = any(calls_method_of(one, name, "append", "extend") for loop in inner for one in walk(loop.body))
    emptied = any(
        calls_method_of(one, name, "clear") or (assigns(one, name) and not isinstance(one, ast.AugAssign))
        for one in walk(epochs.body)
    )
    return isinstance(start, ast.List) and not start.elts and grown and not emptied
