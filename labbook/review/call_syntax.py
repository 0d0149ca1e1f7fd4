"""Calls in syntax trees: which function or method they run, on what object, with which arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from labbook.review.names import last_name


def is_call(node: ast.AST | None, *names: str) -> TypeGuard[ast.Call]:
    """Whether a node is a call of a function, method or class with one of these last names."""
    return isinstance(node, ast.Call) and last_name(node.func) in names


def calls_of(nodes: Iterable[ast.AST], *names: str) -> Iterator[ast.Call]:
    """Yield the calls among nodes of functions, methods and classes with these last names."""
    return (node for node in nodes if is_call(node, *names))


def receiver(call: ast.Call) -> ast.expr | None:
    """Return the object whose method is called: `model` of `model.eval()`; `None` for a plain function."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def argument(call: ast.Call, place: int | None, *names: str) -> ast.expr | None:
    """Return an argument of a call by one of its names, else by its place if it has one; `None` if it is not given."""
    found = next((keyword.value for keyword in call.keywords if keyword.arg in names), None)
    return call.args[place] if found is None and place is not None and len(call.args) > place else found
