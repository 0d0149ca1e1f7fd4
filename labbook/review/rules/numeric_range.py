"""Rules about functions that are infinite at a value which their argument can reach in floating point."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.code_index import Code, dotted_target, last_name
from labbook.review.gradient_flow import is_under_no_grad
from labbook.review.output_activation import last_operation
from labbook.review.source_file import Source
from labbook.review.violation import Hit, Rule

_LOGARITHMS = ("log", "log2", "log10")
_STABLE = {
    "softmax": "log_softmax(x)",
    "sigmoid": "logsigmoid(x)",
    "1 - softmax": "log(-expm1(log_softmax(x)))",
    "1 - sigmoid": "logsigmoid(-x)",
}


def unstable_logarithm(code: Code, source: Source) -> Iterator[Hit]:
    """A logarithm is taken of probabilities that can be exactly 0: of a softmax, a sigmoid, or 1 minus one of them."""
    for node in source.nodes:
        if not isinstance(node, ast.Call) or last_name(node.func) not in _LOGARITHMS:
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


RULES = (
    Rule(
        "unstable-logarithm", "loss_nonfinite", "warning", 2, unstable_logarithm,
        "torch.nn.functional.softmax: use log_softmax instead; the same in paddle",
    ),
)  # fmt: skip
