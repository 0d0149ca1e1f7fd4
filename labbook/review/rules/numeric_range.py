"""Rules about functions that are infinite at a value which their argument can reach in floating point."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.gradient_flow import is_under_no_grad
from labbook.review.names import dotted_target, last_name, of_type
from labbook.review.output_activation import last_operation
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_LOGARITHMS = ("log", "log2", "log10")
_INFINITE = {"acos": "1", "arccos": "1", "sqrt": "0"}
_BOUNDED = {"acos": "x.clip(-1 + 1e-7, 1 - 1e-7)", "arccos": "x.clip(-1 + 1e-7, 1 - 1e-7)", "sqrt": "x + 1e-12"}
_LIMITED = {
    *("clamp", "clip", "clamp_", "clip_", "minimum", "tanh", "sigmoid", "log", "log_softmax", "logsigmoid", "log_prob"),
    *("cosine_similarity", "normalize", "sub", "neg", "abs", "sqrt"),
}
"""Calls after which scores are hardly above 88, or were shifted."""
_STABLE = {
    "softmax": "log_softmax(x)",
    "sigmoid": "logsigmoid(x)",
    "1 - softmax": "log(-expm1(log_softmax(x)))",
    "1 - sigmoid": "logsigmoid(-x)",
}


@warning("loss_nonfinite", "torch.nn.functional.softmax: use log_softmax instead; the same in paddle")
def unstable_logarithm(code: Code, source: Source) -> Iterator[Hit]:
    """A logarithm is taken of probabilities that can be exactly 0: of a softmax, a sigmoid, or 1 minus one of them."""
    for node in of_type(source.nodes, ast.Call):
        if last_name(node.func) not in _LOGARITHMS:
            continue
        given = _argument(source, node)
        if given is not None and (kind := _probability(code, source, given, 0)) and not is_under_no_grad(source, node):
            yield Hit(node, {"given": kind, "stable": _STABLE[kind]})


def _argument(source: Source, call: ast.Call) -> ast.expr | None:
    """What a logarithm of torch or paddle is taken of."""
    if source.dotted(call.func).startswith(("torch.", "paddle.")):
        return call.args[0] if call.args else None
    is_method = isinstance(call.func, ast.Attribute) and not source.dotted(call.func) and not call.args
    return call.func.value if is_method and isinstance(call.func, ast.Attribute) else None


def _probability(code: Code, source: Source, node: ast.expr, depth: int) -> str:
    """Return "softmax", "sigmoid", "1 - softmax" or "1 - sigmoid" for a value that nothing keeps away from 0."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        is_one = isinstance(node.left, ast.Constant) and node.left.value == 1
        kind = _probability(code, source, node.right, depth) if is_one else ""
        return f"1 - {kind}" if kind in ("softmax", "sigmoid") else ""
    if dotted_target(node) and depth < 2:
        value = code.value(source, dotted_target(node), node)
        if isinstance(value, ast.BinOp):
            return _probability(code, source, value, depth + 1)
    kind = last_operation(code, source, node)
    return kind if kind in ("softmax", "sigmoid") else ""


@warning("loss_nonfinite", "torch.logsumexp: the computation is numerically stabilized; exp(89) is infinite in float32")
def overflowing_exponential(code: Code, source: Source) -> Iterator[Hit]:
    """The sum of exponentials of unshifted scores is divided by, or its logarithm taken."""
    for node in source.nodes:
        if is_call(node, "log"):
            given = _argument(source, node)
            total = given is not None and _argument_of_sum(code, source, given)
            scores, stable = _argument_of_exp(code, source, total) if total else None, "logsumexp"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            total = _argument_of_sum(code, source, node.right)
            above = _argument_of_exp(code, source, node.left) if total else None
            scores, stable = _argument_of_exp(code, source, total) if total else None, "softmax"
            scores = scores if above is not None and scores is not None and _is_same(above, scores) else None
        else:
            continue
        if scores is not None and not _is_shifted(code, source, scores) and not is_under_no_grad(source, node):
            yield Hit(node, {"given": ast.unparse(scores), "stable": stable})


@warning(
    "nonfinite_gradient", "torch issue 8069: the gradient of acos at 1 and -1; issue 4320: the gradient of sqrt at 0"
)
def infinite_gradient(code: Code, source: Source) -> Iterator[Hit]:
    """An arc cosine of a cosine that was computed, or a root of a sum of squares in each row, without a bound."""
    for node in source.nodes:
        name = last_name(node.func) if isinstance(node, ast.Call) else ""
        if not isinstance(node, ast.Call) or name not in _INFINITE or (given := _argument(source, node)) is None:
            continue
        value = _value(code, source, given)
        computed = _is_cosine(value) if name != "sqrt" else _is_row_sum_of_squares(code, source, value)
        if computed and not is_under_no_grad(source, node):
            # A root is fine where no two rows are equal, as the distances of atoms.
            severity = "note" if name == "sqrt" else ""
            yield Hit(node, {"function": name, "value": _INFINITE[name], "stable": _BOUNDED[name]}, severity)


def _value(code: Code, source: Source, node: ast.expr) -> ast.expr:
    """The expression that a name was given, else the expression itself."""
    value = code.value(source, dotted_target(node), node) if dotted_target(node) else None
    return value if isinstance(value, ast.expr) else node


def _operand(source: Source, node: ast.expr, name: str) -> ast.expr | None:
    """What an operation of this name, a function of the framework or a method, is applied to."""
    if not isinstance(node, ast.Call) or last_name(node.func) != name:
        return None
    if source.dotted(node.func).startswith(("torch.", "paddle.")):
        return node.args[0] if node.args else None
    return node.func.value if isinstance(node.func, ast.Attribute) and not source.dotted(node.func) else None


def _argument_of_sum(code: Code, source: Source, node: ast.expr) -> ast.expr | None:
    return _operand(source, _value(code, source, node), "sum")


def _argument_of_exp(code: Code, source: Source, node: ast.expr) -> ast.expr | None:
    return _operand(source, _value(code, source, node), "exp")


def _is_same(one: ast.expr, other: ast.expr) -> bool:
    return ast.dump(one) == ast.dump(other)


def _is_shifted(code: Code, source: Source, scores: ast.expr) -> bool:
    """Whether scores had something subtracted, are negative, or are bounded by a call: they may not overflow."""
    value = _value(code, source, scores)
    subtracted = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)
    return subtracted or _is_negative(value) or (is_call(value, *_LIMITED))


def _is_negative(node: ast.expr) -> bool:
    """Whether there is a minus: `-x / 2`, `-0.5 * x`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Mult)):
        return _is_negative(node.left) or _is_negative(node.right)
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _is_cosine(node: ast.expr) -> bool:
    return is_call(node, "sum", "cosine_similarity", "dot", "bmm", "einsum")


def _is_row_sum_of_squares(code: Code, source: Source, node: ast.expr) -> bool:
    inner = _operand(source, node, "sum")
    if inner is None or not isinstance(node, ast.Call):
        return False
    axes = len(node.args) - (source.dotted(node.func) != "") + len(node.keywords)
    square = _value(code, source, inner)
    if isinstance(square, ast.BinOp) and isinstance(square.op, ast.Pow):
        return axes > 0 and isinstance(square.right, ast.Constant) and square.right.value == 2
    base = _operand(source, square, "square") or _operand(source, square, "pow")
    return axes > 0 and base is not None
