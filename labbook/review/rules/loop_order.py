"""Rules about places in a loop: a step after the loop over batches, a clip after the step; weights of a sampler."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.code_index import LOOPS, Code, last_name, walk
from labbook.review.expressions import made_of
from labbook.review.gradient_flow import events, step_loops
from labbook.review.rules.data_pipeline import argument
from labbook.review.source_file import Source
from labbook.review.violation import Hit, rule

_CLIPS = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")
_COUNTS = {"bincount", "Counter", "value_counts", "unique"}
_MOST_CLASSES = 20
"""Weights that are written out one by one are those of classes, up to this number. Source: chosen by us."""


@rule(
    "accumulation_discarded",
    "warning",
    2,
    "PyTorch recipes: zeroing out gradients in PyTorch",
    loop=True,
    row="gradient",
)
def step_after_batches(code: Code, source: Source) -> Iterator[Hit]:
    """Gradients are cleared for each batch, and the optimizer steps once, after the loop over the batches."""
    if any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in source.nodes):
        return
    for batches in (node for node in source.nodes if isinstance(node, ast.For)):
        found = events(code, source, batches.body)
        cleared = [one for one in found if one.what == "zero" and one.always and one.direct]
        others = {one.what for one in found} & {"step", "unknown"}
        if not cleared or others or not any(one.what == "backward" and one.always for one in found):
            continue
        block, index = source.blocks.get(batches, ([], 0))
        for step in events(code, source, block[index + 1 :]):
            outer = next((one for one in source.parents_of(batches) if isinstance(one, LOOPS)), None)
            if outer is not None and step.what == "step" and step.direct and step.always and step.on == cleared[0].on:
                yield Hit(step.node, {"optimizer": step.on, "loop": ast.unparse(batches.iter)})
                break


@rule(
    "clip_without_gradient",
    "warning",
    2,
    "torch.nn.utils.clip_grad_norm_: between backward and step",
    loop=True,
    row="gradient",
)
def clipped_after_step(code: Code, source: Source) -> Iterator[Hit]:
    """Gradients are clipped after the step that used them, and cleared before the next one."""
    for loop, found in step_loops(code, source):
        clips = [one for one in walk(loop.body) if isinstance(one, ast.Call) and last_name(one.func) in _CLIPS]
        once = {
            what: [one.node for one in found if one.what == what and one.direct and one.always]
            for what in ("zero", "backward", "step")
        }
        if (
            len(clips) != 1
            or any(len(nodes) != 1 for nodes in once.values())
            or any(one.what == "unknown" for one in found)
        ):
            continue
        clip, zero, backward, step = (
            getattr(one, "lineno", 0) for one in (clips[0], *(nodes[0] for nodes in once.values()))
        )
        if backward < step < clip and not step < zero < clip:
            yield Hit(clips[0], {"clip": ast.unparse(clips[0].func)})


@rule(
    "sampler_weights_per_class",
    "warning",
    1,
    "torch.utils.data.WeightedRandomSampler: a weight for each sample",
    row="data",
)
def sampler_of_classes(code: Code, source: Source) -> Iterator[Hit]:
    """A sampler is given a weight for each class, so that it draws the first few samples only."""
    for where, call in code.calls.get("WeightedRandomSampler", ()):
        weights = argument(call, 0, "weights") if where is source else None
        made = code.made(source, weights) if weights is not None else None
        if weights is None or made is None:
            continue
        nodes = list(made_of(code, source, weights))
        indexed = any(isinstance(one, (ast.Subscript, ast.ListComp, ast.GeneratorExp)) for one in nodes)
        counted = {last_name(one) for one in nodes} & _COUNTS
        literal = isinstance(made, (ast.List, ast.Tuple)) and len(made.elts) <= _MOST_CLASSES
        if (counted and not indexed) or literal:
            yield Hit(call, {"weights": ast.unparse(weights)})
