"""Keys of a configuration file that no line of the program reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.names import last_name, parameters
from labbook.review.source_file import Source
from labbook.review.unread_options import HARMLESS, read_code

_LOADS = frozenset(("safe_load", "full_load", "unsafe_load", "load", "loads"))
_LOADERS = ("yaml.", "json.", "toml.", "tomllib.", "tomli.", "ruamel.yaml.")
_NAMES = frozenset(("cfg", "config", "conf", "configs", "configuration", "settings"))
_ELSEWHERE = ""
_FAR_FROM_SIGHT = frozenset(("setattr", "vars", "Namespace", "SimpleNamespace", "create", "to_object", "from_dict"))


def unread_keys(keys: Iterable[str], files: Sequence[Path]) -> list[str]:
    """Returns the keys that are read nowhere in the files: of a section that is not read, its name alone.

    The configuration must be kept in sight for that: what is read of it by a constant key may go anywhere, but if a
    section, or the whole, is passed on, unpacked or walked through (`Model(**cfg["model"])`, `for k in cfg`), all
    below it counts as read. The result is empty if no file loads a configuration, or one cannot be parsed.

    Args:
        keys: Keys of values with the sections around them: "model.width".
        files: All source files that the program loaded.
    """
    code = read_code(files)
    if code is None:
        return []
    loads = [(source, call) for name in _LOADS for source, call in code.calls.get(name, ()) if _is_load(source, call)]
    if not loads or not all(isinstance(source.parents[call], (ast.Assign, ast.Return)) for source, call in loads):
        return []
    names = _names_of_configuration(code, set(_NAMES))
    if _ELSEWHERE in names or any(code.calls.get(name) for name in _FAR_FROM_SIGHT):
        return []
    opened: set[str] = set()
    for source in code.sources:
        for node in source.nodes:
            if not isinstance(node, (ast.Name, ast.Attribute)) or last_name(node) not in names:
                continue
            if isinstance(node.ctx, ast.Load) and not _is_followed(code, source, node, opened):
                return []
    words = {word for text in code.texts for word in text.replace(".", " ").split()} | set(code.loaded)
    found: list[str] = []
    for key in keys:
        parts = key.split(".")
        if opened.isdisjoint(parts[:-1]):
            unread = next((at for at, part in enumerate(parts, 1) if part not in words), 0)
            found += [".".join(parts[:unread])] if unread else []
    return list(dict.fromkeys(found))


def _is_load(source: Source, node: ast.AST | None) -> bool:
    """Whether a parser of YAML, JSON or TOML is called."""
    if not is_call(node, *_LOADS):
        return False
    return (source.dotted(node.func) or "").startswith(_LOADERS)


def _names_of_configuration(code: Code, names: set[str]) -> set[str]:
    """Returns all names that a configuration has, as a parameter and as a result, too; `_ELSEWHERE` if it has none."""
    found = set(names)
    for source in code.sources:
        for node in source.nodes:
            value = node.value if isinstance(node, (ast.Assign, ast.Return)) else None
            if value is None or not (_is_load(source, value) or _is_named(value, names)):
                continue
            function = source.function(node)
            if isinstance(node, ast.Assign):
                found |= {last_name(target) or _ELSEWHERE for target in node.targets}
            elif function is not None:
                calls = code.calls.get(function.name, ())
                found |= {name for where, call in calls for name in _assigned_names(where.parents[call])}
    for called in (*code.functions, *code.classes):
        for _, call in code.calls.get(called, ()):
            found |= {one.arg for one in call.keywords if one.arg and _is_named(one.value, names)}
            for place, value in enumerate(call.args):
                found |= _parameters_at(code, called, place) if _is_named(value, names) else set()
    return found if found == names else _names_of_configuration(code, found)


def _is_named(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute)) and last_name(node) in names


def _assigned_names(outer: ast.AST) -> set[str]:
    """Returns the names that the value of a call is assigned to."""
    if isinstance(outer, ast.Assign):
        return {last_name(target) or _ELSEWHERE for target in outer.targets}
    return {_ELSEWHERE}


def _parameters_at(code: Code, called: str, place: int) -> set[str]:
    """Returns the names of the parameter at a place of a call, of a function or of a constructor."""
    functions = [one for _, one in code.functions.get(called, ())]
    bodies = (one for _, cls in code.classes.get(called, ()) for one in cls.body)
    functions += [one for one in bodies if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    named = (parameters(function) for function in functions)
    return {name for row in named for name in row[int(row[:1] == ["self"]) :][place : place + 1]}


def _is_followed(code: Code, source: Source, node: ast.expr, opened: set[str]) -> bool:
    """Whether it is seen what is read of a configuration here; `opened` gets the keys of what is passed on whole."""
    outer = source.parents[node]
    if isinstance(outer, ast.Subscript) and outer.value is node:
        return _is_read(code, source, outer, outer.slice, opened)
    if isinstance(outer, ast.Attribute):
        call = source.parents[outer]
        if not isinstance(call, ast.Call) or call.func is not outer or outer.attr not in ("get", "pop", "setdefault"):
            return False
        return bool(call.args) and _is_read(code, source, call, call.args[0], opened)
    if isinstance(outer, ast.Call) and outer.func is not node:
        called = last_name(outer.func)
        return called in HARMLESS or called in code.functions or called in code.classes or called in ("dump", "dumps")
    if isinstance(outer, (ast.Assign, ast.AnnAssign)):
        targets = outer.targets if isinstance(outer, ast.Assign) else [outer.target]
        return all(last_name(target) in _NAMES for target in targets)
    return isinstance(outer, (ast.Return, ast.FormattedValue, ast.Expr)) or _is_test(outer, node)


def _is_read(code: Code, source: Source, value: ast.expr, key: ast.expr, opened: set[str]) -> bool:
    """Whether the key of a value that is read is a constant; what is read of it again, is followed."""
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return False
    outer = source.parents[value]
    is_section = isinstance(outer, (ast.Subscript, ast.Attribute)) and outer.value is value
    if not (is_section and _is_followed(code, source, value, opened)):
        opened.add(key.value)
    return True


def _is_test(outer: ast.AST, node: ast.expr) -> bool:
    return (
        isinstance(outer, ast.Compare) and node in outer.comparators and isinstance(outer.ops[0], (ast.In, ast.NotIn))
    )
