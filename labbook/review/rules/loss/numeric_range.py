"""Rules about functions that are infinite at a value which their argument can reach in floating point."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.expressions import AS_IS, both_orders, constant, number, without_form
from labbook.review.gradient_flow import is_under_no_grad
from labbook.review.names import LOOPS, dotted_target, last_name, of_type
from labbook.review.output_activation import last_operation
from labbook.review.source_file import Source
from labbook.review.violation import Hit, note, warning

_LOGARITHMS = ("log", "log2", "log10")
_NOT_EVERYWHERE = (*_LOGARITHMS, "exp", "sqrt", "rsqrt", "acos", "asin", "atanh", "reciprocal")
_PRODUCTS = ("sum", "cosine_similarity", "dot", "bmm", "matmul", "einsum", "trace")
_SPREADS = ("std", "norm", "vector_norm", "bincount", "count_nonzero")
_REPLACING = ("where", "nan_to_num", "nan_to_num_", "masked_fill", "masked_fill_")
_INFINITE = {"acos": "1", "arccos": "1", "acosh": "1", "sqrt": "0"}
_BOUNDED = {
    **dict.fromkeys(("acos", "arccos"), "x.clip(-1 + 1e-7, 1 - 1e-7)"),
    "acosh": "x.clip(min=1 + 1e-7)",
    "sqrt": "x + 1e-12",
}
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
    **dict.fromkeys(("relu", "linear"), "softplus(x) + 1e-6"),
    "1 - tanh ** 2": "2 * (log(2) - x - softplus(-2 * x))",
}
_REACH_0 = ("softmax", "sigmoid", "relu", "linear")


@warning("loss_nonfinite", "torch.nn.functional.softmax: use log_softmax instead; the same in paddle", row="")
def unstable_logarithm(code: Code, source: Source) -> Iterator[Hit]:
    """A logarithm is taken of what can be exactly 0: a probability, a relu, 1 - tanh ** 2."""
    for node in source.of_type(ast.Call):
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
    """Return a key of `_STABLE` for a value that nothing keeps away from 0, else ""."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return _complement(code, source, node, depth)
    if dotted_target(node) and depth < 2:
        value = code.value(source, dotted_target(node), node)
        if isinstance(value, ast.BinOp):
            return _probability(code, source, value, depth + 1)
    kind = last_operation(code, source, node)
    return kind if kind in _REACH_0 else ""


def _complement(code: Code, source: Source, node: ast.BinOp, depth: int) -> str:
    """Return "1 - softmax", "1 - sigmoid" or "1 - tanh ** 2" for such a difference, else ""."""
    if number(node.left) != 1.0:
        return ""
    squared = _squared(code, source, node.right)
    if squared is not None:
        return "1 - tanh ** 2" if last_operation(code, source, squared) == "tanh" else ""
    kind = _probability(code, source, node.right, depth)
    return f"1 - {kind}" if kind in ("softmax", "sigmoid") else ""


@warning(
    "loss_nonfinite",
    "torch.logsumexp: the computation is numerically stabilized; exp(89) is infinite in float32",
    row="",
)
def overflowing_exponential(code: Code, source: Source) -> Iterator[Hit]:
    """The sum of exponentials of unshifted scores is divided by, or its logarithm taken."""
    for node in source.nodes:
        if is_call(node, "log"):
            given = _argument(source, node)
            total = given is not None and _argument_of_sum(code, source, given)
            scores, stable = _argument_of_exp(code, source, total) if total else None, "logsumexp"
            if scores is None and isinstance(given, ast.BinOp) and isinstance(given.op, ast.Div):
                total = _argument_of_sum(code, source, given.right)
                scores, stable = _argument_of_exp(code, source, total) if total else None, "log_softmax"
            if scores is None and given is not None:
                scores, stable = _argument_of_softplus(code, source, given), "softplus"
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
    "nonfinite_gradient",
    "torch issue 8069: the gradient of acos at 1 and -1; issue 4320: the gradient of sqrt at 0",
    row="",
)
def infinite_gradient(code: Code, source: Source) -> Iterator[Hit]:
    """An arc cosine of a cosine that was computed, or a root of a sum of squares in each row, without a bound."""
    for node in source.nodes:
        name = last_name(node.func) if isinstance(node, ast.Call) else ""
        if not isinstance(node, ast.Call) or name not in _INFINITE or (given := _argument(source, node)) is None:
            continue
        value = _value(code, source, given)
        if name == "sqrt":
            computed = _is_row_sum_of_squares(code, source, value)
        else:
            computed = _is_one_and_more(value) if name == "acosh" else _is_cosine(code, source, value)
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


def _argument_of_softplus(code: Code, source: Source, node: ast.expr) -> ast.expr | None:
    """Return x of `1 + exp(x)`."""
    value = _value(code, source, node)
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return None
    for one, other in both_orders(value):
        if number(one) == 1.0:
            return _argument_of_exp(code, source, other)
    return None


def _is_cosine(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether an expression is a product of vectors or a trace, perhaps with a number added or as a factor."""
    node = _value(code, source, node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return True
    if isinstance(node, ast.BinOp):
        numbers = [number(one) is not None for one in (node.left, node.right)]
        return any(numbers) and _is_cosine(code, source, node.right if numbers[0] else node.left)
    if is_call(node, "abs") and (inner := _argument(source, node)) is not None:
        return _is_cosine(code, source, inner)
    return is_call(node, *_PRODUCTS)


def _is_one_and_more(node: ast.expr) -> bool:
    """Whether an expression is `1 + x`, which is 1 where x is 0."""
    is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    return is_sum and 1.0 in (number(node.left), number(node.right))  # type: ignore[attr-defined]


def _is_row_sum_of_squares(code: Code, source: Source, node: ast.expr) -> bool:
    inner = _operand(source, node, "sum")
    if inner is None or not isinstance(node, ast.Call):
        return False
    axes = len(node.args) - (source.dotted(node.func) != "") + len(node.keywords)
    return axes > 0 and _squared(code, source, inner) is not None


def _squared(code: Code, source: Source, node: ast.expr) -> ast.expr | None:
    """Return x of `x ** 2`, `x * x`, `x.square()` and `x.pow(2)`, else `None`."""
    square = _value(code, source, node)
    if isinstance(square, ast.BinOp) and isinstance(square.op, ast.Pow):
        return square.left if number(square.right) == 2.0 else None
    if isinstance(square, ast.BinOp) and isinstance(square.op, ast.Mult) and _is_same(square.left, square.right):
        return square.left
    return _operand(source, square, "square") or _operand(source, square, "pow")


@note("loss_nonfinite", "IEEE 754: 0 / 0 is NaN; torch.Tensor.std of equal values is 0")
def divisor_of_zero(code: Code, source: Source) -> Iterator[Hit]:
    """Tensors are divided by a spread, a norm, counts or a sum, which nothing keeps away from 0."""
    for node in source.nodes:
        divided_by = _divisor(source, node)
        value = _vanishing(code, source, divided_by) if divided_by is not None else None
        if value is None or divided_by is None or is_under_no_grad(source, node):
            continue
        if _is_guarded(source, node, divided_by):
            continue
        # Data that is scaled once, before the training, was looked at; counts and degrees depend on it.
        is_count = _is_call_of(value, ("bincount",)) or divided_by is not getattr(node, "right", None)
        if is_count or _is_repeated(code, source, node):
            yield Hit(node, {"divisor": ast.unparse(divided_by), "value": ast.unparse(value)})


def _divisor(source: Source, node: ast.AST) -> ast.expr | None:
    """Return y of `x / y`, `y ** -1`, `y.pow(-0.5)` and `y.rsqrt()`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Pow)):
        is_power = isinstance(node.op, ast.Pow)
        return node.right if not is_power else node.left if (number(node.right) or 0.0) < 0 else None
    if not isinstance(node, ast.Call):
        return None
    is_negative = bool(node.args) and (number(node.args[-1]) or 0.0) < 0
    return _operand(source, node, "rsqrt") or (_operand(source, node, "pow") if is_negative else None)


def _vanishing(code: Code, source: Source, node: ast.expr, depth: int = 0) -> ast.expr | None:
    """Return what is 0 in a divisor for equal, empty or absent values: a call, through names and products."""
    node = without_form(_value(code, source, node))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and depth < 2:
        found = (_vanishing(code, source, one, depth + 1) for one in (node.left, node.right))
        return next((one for one in found if one is not None), None)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sums = [_argument_of_sum(code, source, one) for one in (node.left, node.right)]
        return node if all(one is not None and not _is_positive(code, source, one) for one in sums) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        sides = (_operand(source, one, "t") or one for one in (node.left, node.right))
        return node if any(_argument_of_exp(code, source, one) is not None for one in sides) else None
    root = _operand(source, node, "sqrt")
    if root is not None:
        inner = _value(code, source, root)
        spread = any(_operand(source, inner, name) is not None for name in ("var", "mean"))
        squares = _argument_of_sum(code, source, inner)
        return node if spread or (squares is not None and _squared(code, source, squares) is not None) else None
    if any(_operand(source, node, name) is not None for name in _SPREADS):
        return node
    summed = _operand(source, node, "sum")
    return node if summed is not None and _can_be_all_zero(code, source, summed) else None


def _is_positive(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether a tensor has a value above 0 in any case: a softmax, a sigmoid, an exponential."""
    positive = last_operation(code, source, node) in ("softmax", "sigmoid")
    return positive or _argument_of_exp(code, source, node) is not None


def _can_be_all_zero(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether a tensor is a mask, which may select nothing, a product, as with a mask, or the output of a relu."""
    value = _value(code, source, node)
    while isinstance(value, ast.Subscript) or (isinstance(value, ast.Call) and last_name(value.func) in AS_IS):
        inner = value.value if isinstance(value, ast.Subscript) else without_form(value)
        if inner is value:
            break
        value = _value(code, source, inner)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return number(value.left) is None and number(value.right) is None
    return isinstance(value, ast.Compare) or last_operation(code, source, node) == "relu"


def _is_repeated(code: Code, source: Source, node: ast.AST, depth: int = 0) -> bool:
    """Whether a node is in a loop, in a forward, or in a function that is called there."""
    if any(isinstance(one, LOOPS) for one in source.parents_of(node)):
        return True
    function = source.function(node)
    if function is None or function.name == "forward" or depth > 2:
        return function is not None and function.name == "forward"
    return any(_is_repeated(code, where, call, depth + 1) for where, call in code.calls.get(function.name, ()))


def _is_guarded(source: Source, node: ast.AST, divisor: ast.expr) -> bool:
    """Whether the division is in a branch, or its result selected, by a test of what it divides by."""
    names = {one.id for one in of_type(ast.walk(divisor), ast.Name)}
    for outer in source.parents_of(node):
        if isinstance(outer, ast.Call) and last_name(outer.func) in _REPLACING:
            return True
        test = outer.test if isinstance(outer, (ast.If, ast.IfExp, ast.While)) else None
        if test is not None and names & {one.id for one in of_type(ast.walk(test), ast.Name)}:
            return True
    return False


@note("loss_nonfinite", "torch.xlogy: x * log(y) is NaN where x and y are 0")
def logarithm_times_itself(code: Code, source: Source) -> Iterator[Hit]:
    """A term p * log(p), or p * log(p / q), is NaN where p is 0, as in a target of one class."""
    for node in source.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult) or is_under_no_grad(source, node):
            continue
        for factor, other in both_orders(node):
            logarithm = _value(code, source, other)
            given = _argument(source, logarithm) if _is_call_of(logarithm, _LOGARITHMS) else None
            if given is not None and isinstance(given, ast.BinOp) and isinstance(given.op, ast.Div):
                given = given.left
            if given is None or not _is_same(given, factor) or not dotted_target(factor):
                continue
            made = _value(code, source, factor)
            if not _is_call_of(made, ("exp", "clamp", "clip", "softmax", "sigmoid")):
                yield Hit(node, {"factor": ast.unparse(factor), "logarithm": ast.unparse(other)})


def _is_call_of(node: ast.expr, names: Sequence[str]) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and last_name(node.func) in names


@warning("nonfinite_gradient", "torch issue 23156: the gradient of the branch that where() did not take", row="")
def gradient_of_branch_not_taken(code: Code, source: Source) -> Iterator[Hit]:
    """`where` selects against an operation that is not finite elsewhere; the backward pass computes 0 * inf there."""
    for node in source.nodes:
        is_where = _is_call_of(node, ("where",)) and source.dotted(node.func) in ("torch.where", "paddle.where")  # type: ignore[arg-type]
        if not is_where or len(node.args) != 3 or is_under_no_grad(source, node):  # type: ignore[attr-defined]
            continue
        tested = {ast.dump(one) for one in ast.walk(node.args[0])}  # type: ignore[attr-defined]
        for branch in node.args[1:]:  # type: ignore[attr-defined]
            for one in ast.walk(branch):
                given = _argument(source, one) if _is_call_of(one, _NOT_EVERYWHERE) else None  # type: ignore[arg-type]
                if given is not None and dotted_target(given) and ast.dump(given) in tested:
                    severity = "note" if last_name(one.func) == "exp" else ""  # type: ignore[attr-defined]
                    yield Hit(node, {"operation": ast.unparse(one), "argument": ast.unparse(given)}, severity)


@warning("loss_nonfinite", "torch.pow: a negative base with an exponent that is no integer gives NaN", row="")
def power_of_negative(code: Code, source: Source) -> Iterator[Hit]:
    """A difference, or a sum with a learned shift, is raised to a power that is learned or no integer."""
    for node in source.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            # Of `**` with a number it is not known whether it is one of tensors.
            base, is_power = node.left, _is_learned(code, source, node.right)
            exponent = node.right
        elif isinstance(node, ast.Call) and node.args and (given := _operand(source, node, "pow")) is not None:
            base, exponent = given, node.args[-1]
            is_power = _is_fraction(code, source, exponent) or _is_learned(code, source, exponent)
        else:
            continue
        if is_power and _is_signed(code, source, _value(code, source, base)) and not is_under_no_grad(source, node):
            yield Hit(node, {"base": ast.unparse(base), "exponent": ast.unparse(exponent)})


def _is_fraction(code: Code, source: Source, node: ast.expr) -> bool:
    known = constant(code, source, node)
    return known is not None and known != int(known)


def _is_learned(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether a name was given a leaf that requires a gradient."""
    made = [ast.unparse(value) for _, value in code.origins(source, node)] if dotted_target(node) else []
    return bool(made) and all("requires_grad=True" in one or "Parameter(" in one for one in made)


def _is_signed(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether a value may be below 0: a difference without a number, as `1 - p` has, or a sum with a learned shift."""
    if not isinstance(node, ast.BinOp):
        return False
    if isinstance(node.op, ast.Sub):
        return number(node.left) is None and number(node.right) is None
    return isinstance(node.op, ast.Add) and any(_is_learned(code, source, one) for one in (node.left, node.right))
