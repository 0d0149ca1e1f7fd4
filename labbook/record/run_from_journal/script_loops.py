"""Reads in a script over which written-out values it repeats a training, such as `for strength in (0.1, 0.5):`.

Only what is certain: one place that makes the optimizer, one way to it, and loops that repeat it as often as was
observed. Pure.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Mapping, Sequence

REPEATS = re.compile(r"(.*_)?(seed|fold|split|run|rep|repeat|trial|round|attempt|idx|index)s?(_.*)?", re.IGNORECASE)
"""Names of loops that only repeat."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Value = bool | int | float | str


def repeated_values(text: str, optimizer: str, count: int) -> list[dict[str, Value]]:
    """Returns the values of the loops at each training, in order; empty if they are unknown, or only repeat.

    Args:
        text: The script.
        optimizer: Class of the optimizer.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    loops = _loops_around(tree, parents, optimizer)
    if loops is None:
        return []
    names = [target.id if isinstance(target, ast.Name) else "" for target, _ in loops]
    values = [_written_values(tree, iterable) for _, iterable in loops]
    sizes = [len(each) if each else _size_of_range(iterable) for each, (_, iterable) in zip(values, loops, strict=True)]
    known = math.prod(size for size in sizes if size)
    unknown = [at for at, size in enumerate(sizes) if not size]
    if len(unknown) == 1 and count % known == 0:
        sizes[unknown[0]] = count // known
    if math.prod(sizes) != count:
        return []
    varied = [
        at for at, (name, each) in enumerate(zip(names, values, strict=True)) if name and _are_options(name, each)
    ]
    turns = itertools.product(*map(range, sizes))
    return [{names[at]: values[at][turn[at]] for at in varied} for turn in turns] if varied else []


def _loops_around(
    tree: ast.Module, parents: Mapping[ast.AST, ast.AST], optimizer: str
) -> list[tuple[ast.expr, ast.expr]] | None:
    """Returns target and iterable of the loops around the making of the optimizer, outermost first.

    `None` if there are several ways to it, or a loop or condition that says nothing about its turns.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found: list[tuple[ast.expr, ast.expr]] = []
    name, seen = optimizer, set()
    while name:
        here = [call for call in calls if _name_of(call.func) == name]
        if len(here) != 1 or name in seen:
            return None
        seen.add(name)
        node: ast.AST = here[0]
        name = ""
        while node in parents:
            below, node = node, parents[node]
            if isinstance(node, (ast.For, ast.AsyncFor)) and below in node.body:
                found.append((node.target, node.iter))
            elif isinstance(node, (ast.ListComp, ast.DictComp)) and not isinstance(below, ast.comprehension):
                found += [(each.target, each.iter) for each in reversed(node.generators)]
                if any(each.ifs for each in node.generators):
                    return None
            elif isinstance(node, (ast.While, ast.Lambda, ast.ClassDef, ast.GeneratorExp)):
                return None
            elif isinstance(node, _FUNCTIONS):
                owner = parents[node]
                name = owner.name if node.name == "__init__" and isinstance(owner, ast.ClassDef) else node.name
                break
    return found[::-1]


def _name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _written_values(tree: ast.Module, node: ast.expr) -> list[Value]:
    """Returns the values of a list or tuple that is written out in the script, there or under one name."""
    if isinstance(node, ast.Name):
        node = _bound_value(tree, node.id) or node
    if not isinstance(node, (ast.List, ast.Tuple)):
        return []
    try:
        values = [ast.literal_eval(each) for each in node.elts]
    except (ValueError, TypeError, RecursionError):
        return []
    return values if all(isinstance(value, (bool, int, float, str)) for value in values) else []


def _bound_value(tree: ast.Module, name: str) -> ast.expr | None:
    """Returns what a name is bound to if that happens once in the script, by an assignment."""
    nodes = list(ast.walk(tree))
    bound = [n for n in nodes if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]
    given = [n for n in nodes if isinstance(n, ast.arg) and n.arg == name]
    if len(bound) != 1 or given:
        return None
    return next((n.value for n in nodes if isinstance(n, ast.Assign) and n.targets == bound), None)


def _size_of_range(node: ast.expr) -> int:
    """Returns how often a loop over `range(3)` turns, 0 if unknown."""
    if isinstance(node, ast.Call) and _name_of(node.func) == "range" and not node.keywords:
        try:
            return len(range(*(ast.literal_eval(each) for each in node.args)))
        except (ValueError, TypeError):
            return 0
    return 0


def _are_options(name: str, values: Sequence[Value]) -> bool:
    """Whether the values of a loop are options: not seeds, folds or numbers in a row."""
    if len({*map(str, values)}) < 2 or REPEATS.fullmatch(name):
        return False
    numbers = [value for value in values if isinstance(value, int)]
    in_a_row = numbers == list(range(int(numbers[0]), int(numbers[0]) + len(values))) if numbers else False
    return len(numbers) < len(values) or not (in_a_row or len(name) == 1)
