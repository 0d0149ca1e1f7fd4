"""Finds evaluation loops: named as such, and without any training step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from labbook.review.code_index import Code
from labbook.review.names import dotted_target, last_name, last_names, of_type, walk
from labbook.review.source_file import Source

_EVALUATION_WORDS = {
    "val", "valid", "validation", "validate", "test", "testing", "eval", "evaluate", "evaluation", "dev",
}  # fmt: skip
_TRAINING_WORDS = {"train", "training", "fit", "attack", "adversarial", "time", "adapt", "tta"}
"""Words in names of loops that need gradients: training, test-time adaptation, adversarial attacks."""
_TRAINING_CALLS = {
    "backward", "step", "minimize", "zero_grad", "clear_grad", "grad", "requires_grad_", "enable_grad", "scale",
}  # fmt: skip
_METRIC_NAMES = re.compile("loss|criterion|metric|acc", re.IGNORECASE)


def evaluations(code: Code, source: Source) -> Iterator[ast.Call]:
    """Yield the calls of possible models in evaluation loops.

    Only loops of the script and of functions that the code calls: others may be called under `no_grad`.

    Source: chosen by us; neither a name ("test") nor a missing `backward` is enough alone.
    """
    for loop in source.nodes:
        if not isinstance(loop, (ast.For, ast.AsyncFor)) or not _is_named_as_evaluation(source, loop):
            continue
        function = source.function(loop)
        if function is not None and (function.decorator_list or not code.callers(source, function)):
            continue
        body = loop.body if function is None else function.body
        calls = list(of_type(walk(body), ast.Call))
        if any(last_name(call.func) in _TRAINING_CALLS for call in calls):
            continue
        inside = set(_names_in(loop.target))
        for node in of_type(walk(loop.body), ast.Call):
            if dotted_target(node.func) and _takes_batch(node, inside):
                kind = code.kind(source, node.func)
                if not _METRIC_NAMES.search(f"{dotted_target(node.func)} {kind.name if kind is not None else ''}"):
                    yield node


def _is_named_as_evaluation(source: Source, loop: ast.For | ast.AsyncFor) -> bool:
    function = source.function(loop)
    return names_evaluation([*_names_in(loop.iter), *([function.name] if function is not None else [])])


def names_evaluation(names: Iterable[str]) -> bool:
    """Whether these names have a word for evaluation, and none for training."""
    words = {word.lower() for name in names for word in re.split(r"[_\d]+|(?<=[a-z])(?=[A-Z])", name)}
    return bool(words & _EVALUATION_WORDS) and not words & _TRAINING_WORDS


def _takes_batch(call: ast.Call, batch: set[str]) -> bool:
    """Whether a part of the batch is an argument of a call."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(name in batch for one in arguments for name in _names_in(one))


def _names_in(node: ast.AST) -> list[str]:
    return [last_name(one) for one in ast.walk(node) if isinstance(one, (ast.Name, ast.Attribute))]


def runs_without_gradients(source: Source, loop: ast.For) -> bool:
    """Whether a loop runs over all batches without gradients."""
    if any(isinstance(one, ast.Break) for one in walk(loop.body)):
        return False
    function = source.function(loop)
    blocks = [item.context_expr for one in source.parents_of(loop) for item in getattr(one, "items", ())]
    decorators = function.decorator_list if function is not None else []
    return any(last_names(one) & {"no_grad", "inference_mode"} for one in (*blocks, *decorators))
