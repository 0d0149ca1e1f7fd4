"""Batches of which one part is moved to the device and another is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.code_index import dotted_target, last_name, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit

_MOVES = ("to", "cuda")
_DATA = re.compile(r"^(?:x|y|t|img|imgs|image|images|inputs?|data|batch_[xy]|[xy]_batch|labels?|targets?|gts?|masks?)$")
"""What the parts of a batch are called that have to be where the model is; lengths and names need not."""
_USES = re.compile(
    r"model|net$|^net|criterion|loss|cross_entropy|encoder|decoder|backbone|classifier|generator", re.IGNORECASE
)


def half_moved(source: Source) -> Iterator[Hit]:
    """Training loops that move one part of each batch, and give another one to the model or the loss as it came.

    Args:
        source: A file. Nothing is said of loops that go over anything else than names, or hand the part to a function
            that may move it.
    """
    for loop in (node for node in source.nodes if isinstance(node, (ast.For, ast.AsyncFor))):
        nodes = list(walk(loop.body))
        if not any(isinstance(node, ast.Call) and last_name(node.func) == "backward" for node in nodes):
            continue
        given = {dotted_target(one) for one in walk([loop.target]) if isinstance(one, ast.Name)}
        moved = {name for node in nodes if (name := _moved(node)) in given}
        if not moved:
            continue
        set_anew = {dotted_target(one) for node in nodes for one in _targets(node)}
        for node in nodes:
            if not isinstance(node, ast.Call) or not _USES.search(last_name(node.func)):
                continue
            left = [one.id for one in node.args if isinstance(one, ast.Name) and one.id in given - moved - set_anew]
            raw = next((name for name in left if _DATA.match(name)), "")
            if raw:
                yield Hit(node, {"model": sorted(moved)[0], "data": raw})
                return


def _moved(node: ast.AST) -> str:
    """The name that `name.to(...)` or `name.cuda()` moves, or ""."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MOVES:
        return dotted_target(node.func.value)
    return ""


def _targets(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Assign):
        return [one for target in node.targets for one in ast.walk(target)]
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    return []
