"""Finds batches of which only a part is moved to the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.names import dotted_target, last_name, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit

_MOVES = ("to", "cuda")
_DATA = re.compile(r"^(?:x|y|t|img|imgs|image|images|inputs?|data|batch_[xy]|[xy]_batch|labels?|targets?|gts?|masks?)$")
"""Names of batch parts that must be on the device of the model; lengths and names need not."""
_USES = re.compile(
    r"model|net$|^net|criterion|loss|cross_entropy|encoder|decoder|backbone|classifier|generator", re.IGNORECASE
)


def half_moved(source: Source) -> Iterator[Hit]:
    """Find training loops that move one part of each batch, but pass another part unmoved to the model or the loss.

    Args:
        source: A file. Loops with targets other than names, and loops that pass the part to a function that may move
            it, are skipped.
    """
    for loop in (node for node in source.nodes if isinstance(node, (ast.For, ast.AsyncFor))):
        nodes = list(walk(loop.body))
        if not any(is_call(node, "backward") for node in nodes):
            continue
        targets = {dotted_target(one) for one in of_type(walk([loop.target]), ast.Name)}
        moved = {name for node in nodes if (name := _moved_name(node)) in targets}
        if not moved:
            continue
        set_anew = {dotted_target(one) for node in nodes for one in _targets(node)}
        for node in of_type(nodes, ast.Call):
            if not _USES.search(last_name(node.func)):
                continue
            unmoved = [
                one.id for one in node.args if isinstance(one, ast.Name) and one.id in targets - moved - set_anew
            ]
            raw = next((name for name in unmoved if _DATA.match(name)), "")
            if raw:
                yield Hit(node, {"model": min(moved), "data": raw})
                return


def _moved_name(node: ast.AST) -> str:
    """Return the name in `name.to(...)` or `name.cuda()`, or ""."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MOVES:
        return dotted_target(node.func.value)
    return ""


def _targets(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Assign):
        return [one for target in node.targets for one in ast.walk(target)]
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    return []
