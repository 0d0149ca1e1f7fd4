"""Command-line options whose values no line of the program reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.names import last_name
from labbook.review.source_file import Source, Unreadable, read_source

_PARSING = ("parse_args", "parse_known_args", "parse_intermixed_args")
_USUAL_NAMES = frozenset(("args", "opt", "opts", "options", "flags", "hparams", "parsed", "arguments"))
HARMLESS = frozenset(("print", "str", "repr", "getattr", "hasattr", "setattr", "isinstance", "type", "pprint"))


def unread_options(names: Iterable[str], files: Sequence[Path]) -> list[str]:
    """Returns the options that are parsed by argparse and read nowhere in the files.

    The options must be kept in sight for that: as soon as they are passed as a whole to anything but a function or
    class of these files (`vars(args)`, `Trainer(args)` of a library, `json.dump(args, ...)`), the result is empty. So
    it is if a file cannot be parsed.

    Args:
        names: Names of options as attributes: "batch_size".
        files: All source files that the program loaded.
    """
    code = read_code(files)
    if code is None or not code.calls.get("add_argument") or any(_escapes(code, source) for source in code.sources):
        return []
    declared = _declared_options(code)
    texts = _other_texts(code)
    return [name for name in names if name in declared and not code.loaded.get(name) and name not in texts]


def read_code(files: Sequence[Path]) -> Code | None:
    """Returns the index of the files, `None` if one of them cannot be parsed."""
    try:
        return Code([read_source(path, path.name) for path in files])
    except Unreadable:
        return None


def _declared_options(code: Code) -> set[str]:
    """Returns the options that `add_argument` declares by a constant name and that store a value."""
    found = set()
    for _, call in code.calls["add_argument"]:
        given = {k.arg: k.value.value for k in call.keywords if k.arg and isinstance(k.value, ast.Constant)}
        named = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        long = next((name for name in named if name.startswith("--")), "")
        if "action" not in given or str(given["action"]).startswith("store"):
            found.add(str(given.get("dest") or long.lstrip("-").replace("-", "_")))
    return found


def _other_texts(code: Code) -> set[str]:
    """Returns the words of all strings outside `add_argument`: an option may be read by its name."""
    declaring = {node for _, call in code.calls["add_argument"] for node in ast.walk(call)}
    return {
        word
        for source in code.sources
        for node in source.of_type(ast.Constant)
        if isinstance(node.value, str) and node not in declaring
        for word in node.value.replace(".", " ").split()
    }


def _escapes(code: Code, source: Source) -> bool:
    """Whether parsed options are used as a whole where the files do not show what is read."""
    names = _USUAL_NAMES | {
        last_name(target)
        for node in source.of_type(ast.Assign)
        if is_call(node.value, *_PARSING)
        for target in (node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets)
    }
    for node in source.nodes:
        if is_call(node, *_PARSING):
            if not isinstance(source.parents[node], (ast.Assign, ast.AnnAssign, ast.Return, ast.Attribute)):
                return True
        elif (
            isinstance(node, (ast.Name, ast.Attribute))
            and isinstance(node.ctx, ast.Load)
            and last_name(node) in names
            and not _is_traceable_use(code, source, node)
        ):
            return True
    return False


def _is_traceable_use(code: Code, source: Source, node: ast.Name | ast.Attribute) -> bool:
    """Whether one use of the options is a read of an attribute, or hands them to code of these files."""
    outer = source.parents[node]
    if isinstance(outer, ast.keyword):
        outer = source.parents[outer]
    if isinstance(outer, ast.Attribute):
        return outer.attr != "__dict__" and not outer.attr.startswith("_")
    if isinstance(outer, ast.Call):
        if outer.func is node:
            return False
        called = last_name(outer.func)
        return called in HARMLESS or called in code.functions or called in code.classes
    if isinstance(outer, (ast.Assign, ast.AnnAssign)):
        targets = outer.targets if isinstance(outer, ast.Assign) else [outer.target]
        return all(last_name(target) in _USUAL_NAMES for target in targets)
    return isinstance(outer, (ast.Return, ast.FormattedValue, ast.Expr))
