"""Whether more or less of a value is better: by its name, what it is computed of, and the words it is printed with."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

from labbook.model.metric_kinds import metric_kind
from labbook.review.call_syntax import is_call, receiver
from labbook.review.code_index import Code
from labbook.review.expressions import number, signed_terms, without_form
from labbook.review.names import dotted_target, last_name, last_names, of_type, returned_values, walk
from labbook.review.printed_values import bare_value, templates, words_before
from labbook.review.source_file import Source

_LOSS = re.compile(r"(?:torch|paddle)\.nn\.(?:\w+Loss|functional\.(?:\w+_loss|cross_entropy))")
_DEPTH = 4


def direction_of(code: Code, source: Source, node: ast.expr) -> str:
    """Return "max" or "min" for a value of which more or less is better, "" if the code does not say it.

    A name is not enough where the code says otherwise: `score` that is printed as `val_loss`.
    """
    name = metric_name(node)
    named = metric_kind(name).direction if name else ""
    said = _direction_of_value(code, source, node) or _direction_as_printed(source, node)
    return "" if named and said and named != said else named or said


def metric_name(node: ast.expr) -> str:
    """Return the name of a value: of a variable, a key, an attribute."""
    while isinstance(node, ast.Call) and not node.keywords:
        inner = (
            node.func.value if isinstance(node.func, ast.Attribute) and not node.args else next(iter(node.args), None)
        )
        if inner is None:
            return ""
        node = inner
    if isinstance(node, ast.Subscript):
        key = node.slice
        is_key = isinstance(key, ast.Constant) and isinstance(key.value, str)
        return str(key.value) if is_key else metric_name(node.value)  # type: ignore[attr-defined]
    return last_name(node)


def _direction_of_value(code: Code, source: Source, node: ast.expr, depth: int = _DEPTH) -> str:
    """Return the direction of a loss, a mean of errors or of right answers, or of what a function returns of them."""
    bare, negative = bare_value(code.made(source, node) or node)
    made = without_form(bare)
    if negative:
        return {"min": "max", "max": "min"}.get(_direction_of_value(code, source, made, depth - 1), "") if depth else ""
    if dotted_target(made) and depth and made is not node:
        return _direction_of_value(code, source, made, depth - 1)
    if not isinstance(made, ast.Call):
        return ""
    if _LOSS.fullmatch(source.dotted(made.func) or getattr(code.kind(source, made.func), "name", "")):
        return "min"
    if is_call(made, "mean"):
        given = made.args[0] if source.dotted(made.func) and made.args else receiver(made)
        return _direction_of_elements(code, source, given)
    followed = code.function_named(source, made.func)
    ends = returned_values(followed[1]) if followed is not None else []
    if followed is None or len(ends) != 1 or ends[0] is None:
        return ""
    found = _direction_of_value(code, followed[0], ends[0], depth - 1) if depth else ""
    # What is added up over the batches, and divided by their number.
    names = {dotted_target(term) for _, term in signed_terms(ends[0])} - {""}
    added = [one.value for one in of_type(walk(followed[1].body), ast.AugAssign) if dotted_target(one.target) in names]
    directions = {found, *(metric_kind(name).direction for one in added for name in last_names(one))} - {""}
    return directions.pop() if len(directions) == 1 else ""


def _direction_of_elements(code: Code, source: Source, node: ast.expr | None) -> str:
    """Return "max" for comparisons with `==`, "min" for squares and absolute values of differences, else ""."""
    node = without_form(code.made(source, node) or node) if node is not None else None
    owner = receiver(node) if isinstance(node, ast.Call) else None
    if is_call(node, "eq") or (isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq)):
        return "max"
    is_power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and number(node.right) == 2.0
    base = node.left if is_power else None  # type: ignore[union-attr]
    if is_call(node, "square", "abs", "pow") and owner is not None:
        base = node.args[0] if source.dotted(node.func) and node.args else owner
    base = code.made(source, base) or base if base is not None else None
    return "min" if isinstance(base, ast.BinOp) and isinstance(base.op, ast.Sub) else ""


def _direction_as_printed(source: Source, node: ast.expr) -> str:
    """Return the direction of the words that texts of the same function print before a name: `val_loss {val:.4f}`."""
    name, scope = dotted_target(node), source.function(node)
    if not name:
        return ""
    found = set()
    for text, parts in templates(source):
        for before, part in pairwise(parts) if source.function(text) is scope else ():
            value, negative = bare_value(part) if isinstance(part, ast.expr) else (None, False)
            if value is not None and isinstance(before, str) and dotted_target(value) == name and not negative:
                found.add(metric_kind(words_before(before)).direction)
    return found.pop() if len(found) == 1 else ""
