"""Reads expressions for several rules: their summands with signs, and what the names in them were made of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call
from labbook.review.code_index import Code
from labbook.review.names import defaults, dotted_target, last_name, of_type
from labbook.review.source_file import Source

JOINING = frozenset({"mean", "sum", "stack", "cat", "concat", "add_n"})
AS_IS = frozenset(
    {"detach", "to_tensor", "tensor", "squeeze", "unsqueeze", "reshape", "view", "flatten", "astype", "to", "float"}
)
"""Calls that return the same values in another form."""
_DEPTH = 4


def signed_terms(node: ast.expr, sign: int = 1) -> Iterator[tuple[int, ast.expr]]:
    """Yield the summands of an expression with their signs; through divisions, numbers as factors, means, sums."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from signed_terms(node.operand, -sign)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from signed_terms(node.left, sign)
        yield from signed_terms(node.right, -sign if isinstance(node.op, ast.Sub) else sign)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield from signed_terms(node.left, sign)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and (factor := _number_in(node)):
        yield from signed_terms(node.right if number(node.left) == factor else node.left, sign if factor > 0 else -sign)
    elif is_call(node, *JOINING) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        yield from signed_terms(node.args[0] if node.args and _is_framework(owner) else owner, sign)
    else:
        yield sign, node


def both_orders(node: ast.BinOp) -> tuple[tuple[ast.expr, ast.expr], tuple[ast.expr, ast.expr]]:
    """The operands of a sum or product as written, and exchanged."""
    return (node.left, node.right), (node.right, node.left)


def without_form(node: ast.expr) -> ast.expr:
    """Return what an expression is a form of: `x` of `x.detach().squeeze(1)` and of `torch.tensor(x)`."""
    while is_call(node, *AS_IS):
        is_method = isinstance(node.func, ast.Attribute) and not _is_framework(node.func.value)
        inner = node.func.value if is_method else next(iter(node.args), None)  # type: ignore[attr-defined]
        if inner is None:
            break
        node = inner
    return node


def _is_framework(node: ast.expr) -> bool:
    return dotted_target(node) in ("torch", "paddle", "np")


def _number_in(product: ast.BinOp) -> float:
    """The number that is a factor of a product; 0 if none is."""
    return number(product.left) or number(product.right) or 0.0


def number(node: ast.expr | None) -> float | None:
    """Return the value of a number in the code, negative ones too, or `None`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = number(node.operand)
        return None if value is None else -value
    is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return float(node.value) if is_number else None  # type: ignore[union-attr]


def constant(code: Code, source: Source, node: ast.expr, depth: int = 0) -> float | None:
    """Return the number that an expression has through names, parameters and attributes; `None` if it is not known."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        left, right = (constant(code, source, one, depth) for one in (node.left, node.right))
        return None if left is None or right is None else left - right
    if number(node) is not None or depth > _DEPTH:
        return number(node)
    found = {constant(code, where, value, depth + 1) for where, value in code.origins(source, node)}
    return found.pop() if len(found) == 1 else default_number(source, node)


def default_number(source: Source, node: ast.expr) -> float | None:
    """Return the default of a parameter that is a number: of the function or, for `self.name`, of its `__init__`."""
    name, function = dotted_target(node), source.function(node)
    owner = source.class_of(node) if name.startswith("self.") else None
    if owner is not None:
        name = name.removeprefix("self.")
        function = next((f for f in owner.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
    if function is None:
        return None
    return number(defaults(function).get(name))


def option_default(code: Code, node: ast.expr) -> float | None:
    """Return the default that `add_argument` gives an option of the last part of a name, if it is a number."""
    option = last_name(node).replace("_", "-")
    for _, call in code.calls.get("add_argument", ()):
        name = call.args[-1].value if call.args and isinstance(call.args[-1], ast.Constant) else ""
        if str(name).lstrip("-").replace("_", "-") == option:
            return number(next((one.value for one in call.keywords if one.arg == "default"), None))
    return None


def made_of(code: Code, source: Source, node: ast.AST, depth: int = _DEPTH) -> Iterator[ast.AST]:
    """Yield the nodes of an expression, and of what the names in it were last given in the same function.

    The names of a comprehension are its own, whatever else has such a name: they are left out.
    """
    nodes = list(ast.walk(node))
    bound = {name.id for one in of_type(nodes, ast.comprehension) for name in of_type(ast.walk(one.target), ast.Name)}
    for one in nodes:
        if isinstance(one, ast.Name) and one.id in bound:
            continue
        yield one
        is_read = isinstance(one, (ast.Name, ast.Attribute)) and isinstance(one.ctx, ast.Load)
        value = code.made(source, one) if is_read and depth and dotted_target(one) else None  # type: ignore[arg-type]
        if value is not None:
            yield from made_of(code, source, value, depth - 1)


def names_in(code: Code, source: Source, node: ast.AST) -> set[str]:
    """Return the last parts of all names that an expression was made of."""
    return {last_name(one) for one in made_of(code, source, node)} - {""}


def input_and_axis(source: Source, call: ast.Call) -> tuple[ast.expr | None, int | None]:
    """Returns the tensor of `x.argmax(1)` and `torch.argmax(x, dim=1)`, and the axis along which it is reduced."""
    if isinstance(call.func, ast.Attribute) and not source.dotted(call.func):
        return call.func.value, axis_of(call, 0)
    return next(iter(call.args), None), axis_of(call, 1)


def axis_of(call: ast.Call, place: int) -> int | None:
    """Returns the axis of a call, by its name or position; `None` if it is not written as a number."""
    axis = number(argument(call, place, "dim", "axis"))
    return int(axis) if axis is not None else None
