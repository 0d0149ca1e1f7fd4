"""Rules about what draws samples: weights of a sampler for each sample, seeds of all generators."""

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
_GENERATORS = {"numpy.random": "numpy.random.seed", "random": "random.seed"}
_NO_DRAWS = ("seed", "get_state", "set_state", "getstate", "setstate")
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


@warning("seeds_set", "PyTorch: Reproducibility", row="environment")
def generator_left_out(code: Code, source: Source) -> Iterator[Hit]:
    """A function for seeds leaves out the generator of Python or NumPy, from which the program draws numbers."""
    seeds = [*code.calls.get("manual_seed", ()), *(pair for pair in code.calls.get("seed", ()))]
    seeded = {where.dotted(call.func) for where, call in seeds}
    makers = [(where.function(call), call) for where, call in seeds if where is source]
    named = [one for one, _ in makers if one is not None and "seed" in one.name.lower()]
    if not named or not seeded & {"torch.manual_seed", "paddle.seed"}:
        return
    for generator, seed in _GENERATORS.items():
        calls = (pair for name, pairs in code.calls.items() if name not in _NO_DRAWS for pair in pairs)
        draws = (call for where, call in calls if where.dotted(call.func).rpartition(".")[0] == generator)
        first = next((call for call in draws if last_name(call.func)[:1].islower()), None)
        if first is not None and seed not in seeded and last_name(first.func) != "default_rng":
            yield Hit(named[0], {"function": named[0].name, "call": ast.unparse(first.func), "seed": f"{seed}(...)"})
            return
