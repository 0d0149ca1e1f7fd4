"""Says of a name that a notebook does not know which cell assigns or deletes it, where its cells leave no doubt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches

from labbook.diagnosis.text.ipynb import Cell
from labbook.model.evidence import ObservedException

_UNDEFINED = re.compile(r"name '(\w+)' is not defined")
_MAGIC = re.compile(r"^\s*[%!?].*$", re.MULTILINE)
_HIDDEN = re.compile(r"^\s*%(?:run|load|pylab)\b|^\s*from \S+ import \*|\bexec\(|\bglobals\(\)", re.MULTILINE)
"""Code that may assign names that a cell does not show."""
_ALIKE = 0.8
"""Source: chosen by us: `X_trian` and `X_train` are alike, `X_test` and `y_test` are not."""
_OWN_SCOPE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def describe_missing_name(cells: Sequence[Cell], exceptions: Sequence[ObservedException]) -> dict[str, str]:
    """What the cells say of the name that the last exception misses; empty where they say nothing for sure.

    Returns:
        `assigned_in` (a cell that had not run) and `cell` (the one that failed), `deleted_in` (a cell that had run), or
        `near` (a similar name, where no cell assigns this one).
    """
    missed = (_UNDEFINED.search(one.message) for one in reversed(exceptions) if one.type == "NameError")
    found = next(missed, None)
    ended = [cell for cell in cells if cell.failed and cell.turn is not None]
    if found is None or not ended or (len(ended) > 1 and found[1] not in ended[-1].source):
        return {}
    name, failed = found[1], ended[-1]
    before = [cell for cell in cells if cell.turn is not None and cell.turn < (failed.turn or 0)]
    for cell in sorted(before, key=lambda cell: cell.turn or 0, reverse=True):
        assigned, deleted = _names_of(cell)
        if name in deleted:
            return {"deleted_in": str(cell.number)}
        if name in assigned:
            return {}
    later = [cell for cell in cells if cell not in before and cell is not failed and name in _names_of(cell)[0]]
    if later:
        return {"assigned_in": str(later[0].number), "cell": str(failed.number)}
    if any(_HIDDEN.search(cell.source) or _parse(cell.source) is None for cell in (*before, failed)):
        return {}
    known = {one for cell in (*before, failed) for one in _names_of(cell)[0]}
    return {"near": near[0]} if (near := get_close_matches(name, sorted(known), n=1, cutoff=_ALIKE)) else {}


def _parse(source: str) -> ast.Module | None:
    """The code of a cell without its magics; `None` if it is no Python."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.parse(_MAGIC.sub("pass", source))
    return None


def _names_of(cell: Cell) -> tuple[set[str], set[str]]:
    """The names that a cell assigns, and those that it deletes, outside of functions and classes."""
    assigned: set[str] = set()
    deleted: set[str] = set()
    for name, is_deleted in _changed_names(_parse(cell.source)):
        (deleted if is_deleted else assigned).add(name)
    return assigned, deleted


def _changed_names(node: ast.AST | None) -> Iterator[tuple[str, bool]]:
    """Each name that a block of code assigns or deletes, with whether it deletes it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name, False
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0], False
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id, isinstance(node.ctx, ast.Del)
    elif node is not None and not isinstance(node, _OWN_SCOPE):
        for child in ast.iter_child_nodes(node):
            yield from _changed_names(child)
