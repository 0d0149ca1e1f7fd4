"""Names in syntax trees: what an expression is called, and what a statement assigns to it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from labbook.review.source_file import Node, Source

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)
ASSIGNING = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor, ast.NamedExpr, ast.withitem)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def parameters(function: Function) -> list[str]:
    """Names of the parameters, in order."""
    args = function.args
    return [one.arg for one in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def defaults(function: Function) -> dict[str, ast.expr]:
    """Return the default values of the parameters that have one."""
    args = function.args
    positional = [one.arg for one in (*args.posonlyargs, *args.args)]
    found = dict(zip(reversed(positional), reversed(args.defaults), strict=False))
    found.update({one.arg: value for one, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if value})
    return found


def dotted_target(node: ast.AST) -> str:
    """Return the name of an expression ("x", "self.net"), or ""."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return f"self.{node.attr}"
    return ""


def member_key(node: ast.AST) -> str | int | None:
    """Return the key of an item ("net" of `kit["net"]`), or the name of an attribute ("net" of `kit.net`)."""
    if isinstance(node, ast.Attribute):
        return node.attr
    key = node.slice if isinstance(node, ast.Subscript) else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, (str, int)) else None


def last_name(node: ast.AST) -> str:
    """Return the last part of a name: "step" of `self.optimizer.step`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def last_names(node: ast.AST) -> set[str]:
    """Return the last names of all names, attributes and calls in a tree."""
    return {last_name(one) for one in ast.walk(node)} - {""}


def contains(outer: ast.AST, node: ast.AST) -> bool:
    """Whether a node is in a tree."""
    return any(one is node for one in ast.walk(outer))


def of_type(nodes: Iterable[ast.AST], kind: type[Node]) -> Iterator[Node]:
    """Yield the nodes of one kind of syntax."""
    return (node for node in nodes if isinstance(node, kind))


def loops(source: Source) -> list[Loop]:
    """Return all loops of a file, in order."""
    return [node for node in source.nodes if isinstance(node, LOOPS)]


def loop_of(source: Source, node: ast.AST) -> Loop | None:
    """Return the innermost loop around a node, or `None`."""
    return next((outer for outer in source.parents_of(node) if isinstance(outer, LOOPS)), None)


def walk(body: Sequence[ast.AST], into: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes of statements in source order; nested functions and classes only with `into`."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if into or not isinstance(node, SCOPES):
            waiting += reversed(list(ast.iter_child_nodes(node)))


def returned_values(function: Function) -> list[ast.expr | None]:
    """Return the expressions that a function returns, in order; `None` for a bare `return`."""
    return [node.value for node in of_type(walk(function.body), ast.Return)]


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor, ast.NamedExpr)):
        return [node.target]
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return [node.optional_vars]
    return []


def assigned_names(node: ast.AST) -> list[str]:
    """Names that a node assigns."""
    found = []
    for outer in _targets(node):
        for one in [outer] if not isinstance(outer, (ast.Tuple, ast.List)) else walk([outer]):
            name = dotted_target(one)
            if name and not isinstance(getattr(one, "ctx", None), ast.Load):
                found.append(name)
    return found


def assigns(node: ast.AST, target: str) -> bool:
    """Whether a node assigns a name."""
    return isinstance(node, ASSIGNING) and target in assigned_names(node)


def assigned_value(node: ast.AST, target: str) -> ast.expr | None:
    """Return the expression assigned to a name; `None` if it is unpacked from a larger one."""
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        for one in _targets(node):
            for left, right in _pairs(one, node.value):
                if dotted_target(left) == target:
                    return right
    return None


def _pairs(target: ast.expr, value: ast.expr | None) -> list[tuple[ast.expr, ast.expr | None]]:
    """Return the parts of a target with what each is given; one pair where a call returns what is unpacked."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def assigned_values(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    """Yield what a name is assigned within a scope, alone or in a tuple."""
    pairs = (pair for node in of_type(ast.walk(scope), ast.Assign) for pair in assigned_pairs(node))
    yield from (value for one, value in pairs if value is not None and dotted_target(one) == name)


def assigned_pairs(node: ast.Assign) -> list[tuple[ast.expr, ast.expr | None]]:
    """Return the targets of an assignment, each with what it is given; those that a call returns together are one."""
    return [pair for one in node.targets for pair in _pairs(one, node.value)]


def named_values(source: Source) -> Iterator[tuple[str, ast.expr | None, ast.AST]]:
    """Yield what is given a name: by an assignment, as an item of a dictionary, by a keyword, or by a method's name.

    Returns:
        The last part of the name ("val" of `self.val`, `loaders["val"]` and `dict(val=...)`), the value, and the node.
    """
    for node in source.nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            for target, its in _pairs(node.targets[0], node.value):
                yield str(member_key(target) or dotted_target(target)), its, node
        elif isinstance(node, ast.Dict):
            for key, its in zip(node.keys, node.values, strict=True):
                yield str(getattr(key, "value", "")), its, its
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg, node.value, node.value
        elif isinstance(node, ast.Return) and node.value is not None and source.class_of(node) is not None:
            function = source.function(node)
            yield function.name if function is not None else "", node.value, node


def last_value_in(block: list[ast.stmt], target: str) -> ast.expr | bool | None:
    """Return the last value of a name in a block; `False` if it is uncertain, `None` if it is not assigned."""
    for statement in reversed(block):
        if isinstance(statement, SCOPES):
            continue
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            inner = last_value_in(statement.body, target)
            if inner is not None:
                return inner
        if any(assigns(node, target) for node in walk([statement])):
            return assigned_value(statement, target) or False
    return None
