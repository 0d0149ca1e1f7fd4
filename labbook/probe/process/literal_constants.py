"""Finds the constants of a source file: variables that are assigned once, and to a literal."""

import ast

from .user_files import read_source

_LARGEST = 100 * 1024
_LONGEST = 200
_CHANGES = object()
"""Stands for a value that is assigned within a loop, as a learning rate by a schedule."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)
_OPERATORS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
}


def literal_constants(file):
    """Return the names that a file binds, by the first line of their function, or 0 for the module.

    Each has the value of a constant, or `None`; what is only imported, or assigned in a loop, is not among them. A name
    that is assigned a second time, or by a function that declares it `global`, is no constant: it counts or collects.
    In a function, neither is one that is assigned under a condition.

    Cost: 10 ms for 1,000 lines.
    """
    source = read_source(file)
    if not source or len(source) > _LARGEST:
        return {}
    scopes, declared = {0: {}}, set()
    try:
        _collect(ast.parse(source).body, scopes[0], scopes, declared, (ast.For, ast.AsyncFor, ast.While))
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return {}
    scopes[0].update(dict.fromkeys(declared))
    return {
        at: {n: v if is_setting(v) else None for n, v in names.items() if v is not _CHANGES}
        for at, names in scopes.items()
    }


def is_setting(value):
    """Whether a value is a number, a truth value or a line of text."""
    if type(value) is str:
        return len(value) <= _LONGEST and "\n" not in value
    return type(value) in (int, float, bool)


def _collect(nodes, names, scopes, declared, uncertain):
    """Add what statements bind to `names`: the value of a literal, else `None`, as within the `uncertain` kinds."""
    for node in nodes:
        if isinstance(node, _SCOPES):
            if not isinstance(node, ast.Lambda):
                names[node.name] = None
            inner = {}
            if isinstance(node, _FUNCTIONS):
                inner = dict.fromkeys(one.arg for one in [*node.args.args, *node.args.kwonlyargs])
                scopes[min([node.lineno, *(one.lineno for one in node.decorator_list)])] = inner
            body = node.body if isinstance(node.body, list) else []
            _collect(body, inner, scopes, declared, (ast.For, ast.AsyncFor, ast.While, ast.If, ast.Try))
            continue
        parts = ast.iter_child_nodes(node)
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            declared.update(node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            parts = [node.value]
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for name, value in _pairs(target, None if isinstance(node, ast.AugAssign) else node.value):
                    names[name] = _CHANGES if uncertain is None else None if name in names else _evaluate(value)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names[node.id] = None
        _collect(
            parts, names, scopes, declared, None if uncertain is None or isinstance(node, uncertain) else uncertain
        )


def _pairs(target, value):
    """Yield each name of a target with what is assigned to it, `None` where that is not written."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, (ast.Tuple, ast.List)):
        parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        for at, one in enumerate(target.elts):
            yield from _pairs(one, parts[at] if len(parts) == len(target.elts) else None)
    elif isinstance(target, ast.Starred):
        yield from _pairs(target.value, None)


def _evaluate(value):
    """Return the value of a literal, or of numbers with operators; `None` for other expressions."""
    if isinstance(value, ast.Constant):
        return value.value
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        number = _evaluate(value.operand)
        return -number if type(number) in (int, float) else None
    if isinstance(value, ast.BinOp) and type(value.op) in _OPERATORS:
        pair = _evaluate(value.left), _evaluate(value.right)
        return _OPERATORS[type(value.op)](*pair) if all(type(one) in (int, float) for one in pair) else None
    return None
