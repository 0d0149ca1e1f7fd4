"""Loops that evaluate a model by all that can be read: their names say so, and nothing in them trains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.code_index import Code, dotted_target, last_name, walk
from labbook.review.source_file import Source

_SAYS_SO = {"val", "valid", "validation", "validate", "test", "testing", "eval", "evaluate", "evaluation", "dev"}
_TRAINS = {"train", "training", "fit", "attack", "adversarial", "time", "adapt", "tta"}
"""Words in names of loops that train, or that need gradients: test time adaptation, attacks on a model."""
_STEPS = {"backward", "step", "minimize", "zero_grad", "clear_grad", "grad", "requires_grad_", "enable_grad", "scale"}
_MEASURES = re.compile("loss|criterion|metric|acc", re.IGNORECASE)


def evaluations(code: Code, source: Source) -> Iterator[ast.Call]:
    """The calls of what may be a model in loops that are named as ones that evaluate.

    Only loops of the script itself and of functions that the code calls: others may be called under `no_grad`.

    Source: chosen by us; a name alone ("test") says too little, and so does a loop without `backward`.
    """
    for loop in source.nodes:
        if not isinstance(loop, (ast.For, ast.AsyncFor)) or not _is_named_so(source, loop):
            continue
        function = source.function(loop)
        if function is not None and (function.decorator_list or not code.callers(source, function)):
            continue
        body = loop.body if function is None else function.body
        calls = [node for node in walk(body) if isinstance(node, ast.Call)]
        if any(last_name(call.func) in _STEPS for call in calls):
            continue
        inside = set(_names_in(loop.target))
        for node in walk(loop.body):
            if isinstance(node, ast.Call) and dotted_target(node.func) and _takes_batch(node, inside):
                kind = code.kind(source, node.func)
                if not _MEASURES.search(f"{dotted_target(node.func)} {kind.name if kind is not None else ''}"):
                    yield node


def _is_named_so(source: Source, loop: ast.For | ast.AsyncFor) -> bool:
    function = source.function(loop)
    names = [*_names_in(loop.iter), *([function.name] if function is not None else [])]
    words = {word for name in names for word in re.split(r"[_\d]+|(?<=[a-z])(?=[A-Z])", name)}
    lower = {word.lower() for word in words}
    return bool(lower & _SAYS_SO) and not lower & _TRAINS


def _takes_batch(call: ast.Call, batch: set[str]) -> bool:
    """Whether a call is given something that the loop takes its batches apart into."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(name in batch for one in given for name in _names_in(one))


def _names_in(node: ast.AST) -> list[str]:
    return [last_name(one) for one in ast.walk(node) if isinstance(one, (ast.Name, ast.Attribute))]
