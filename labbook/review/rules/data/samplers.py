"""Rules about the weights of a sampler: one per sample, not one per class."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call
from labbook.review.code_index import Code
from labbook.review.names import last_name, last_names
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_COUNTS = {"bincount", "Counter", "value_counts", "unique"}
_DEPTH = 4
_MOST_CLASSES = 20
"""Weights that are written out one by one are those of classes, up to this number. Source: chosen by us."""


@warning(
    "sampler_weights_per_class", "torch.utils.data.WeightedRandomSampler: a weight for each sample", tier=1, row="data"
)
def sampler_of_classes(code: Code, source: Source) -> Iterator[Hit]:
    """A sampler is given a weight for each class, so that it draws the first few samples only."""
    for call in code.calls_in(source, "WeightedRandomSampler"):
        weights = argument(call, 0, "weights")
        made = code.made(source, weights)
        if weights is None or made is None:
            continue
        literal = isinstance(made, (ast.List, ast.Tuple)) and len(made.elts) <= _MOST_CLASSES
        if literal or _is_counted(code, source, weights):
            yield Hit(call, {"weights": ast.unparse(weights)})


@warning(
    "sampler_weights_per_class",
    "torch.utils.data.WeightedRandomSampler: num_samples is the number of samples to draw",
    row="data",
)
def samples_of_classes(code: Code, source: Source) -> Iterator[Hit]:
    """A sampler draws as many samples in an epoch as there are classes, or as a batch has."""
    for where, call in code.calls.get("WeightedRandomSampler", ()):
        drawn = argument(call, 1, "num_samples") if where is source else None
        names = last_names(drawn) if drawn is not None else set()
        if drawn is None or names & {"min", "max", "sum"}:
            continue
        lengths = [one for one in ast.walk(drawn) if is_call(one, "len")]
        counted = any(_is_counted(code, source, one.args[0]) for one in lengths if one.args)
        if counted or names == {"batch_size"}:
            yield Hit(call, {"drawn": ast.unparse(drawn)})


def _is_counted(code: Code, source: Source, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression has one value for each class: counts, or what is computed of them without an index."""
    made = code.made(source, node) or node
    if isinstance(made, ast.Call):
        parts = [*made.args[:1], *([made.func.value] if isinstance(made.func, ast.Attribute) else [])]
        is_count = last_name(made.func) in _COUNTS
    else:
        parts = [made.left, made.right] if isinstance(made, ast.BinOp) else []
        is_count = False
    return is_count or (depth < _DEPTH and any(_is_counted(code, source, one, depth + 1) for one in parts))
