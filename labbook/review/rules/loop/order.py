"""Rules about places in a loop: a step after the loop over batches, a clip after the step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.code_index import Code
from labbook.review.expressions import made_of
from labbook.review.gradient_flow import Event, events, is_under_no_grad, step_loops
from labbook.review.names import assigns, dotted_target, last_name, loop_of, walk
from labbook.review.rules.model.outputs import CRITIC, GENERATOR
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning


@warning("accumulation_discarded", "PyTorch recipes: zeroing out gradients in PyTorch", loop=True, row="gradient")
def step_after_batches(code: Code, source: Source) -> Iterator[Hit]:
    """Gradients are cleared for each batch, and the optimizer steps once, after the loop over the batches."""
    if any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in source.nodes):
        return
    for batches in source.of_type(ast.For):
        found = events(code, source, batches.body)
        cleared = [one for one in found if one.what == "zero" and one.always and one.direct]
        others = {one.what for one in found} & {"step", "unknown"}
        if not cleared or others or not any(one.what == "backward" and one.always for one in found):
            continue
        block, index = source.blocks.get(batches, ([], 0))
        for step in events(code, source, block[index + 1 :]):
            outer = loop_of(source, batches)
            if outer is not None and step.what == "step" and step.direct and step.always and step.on == cleared[0].on:
                yield Hit(step.node, {"optimizer": step.on, "loop": ast.unparse(batches.iter)})
                break


@warning(
    "clip_without_gradient", "torch.nn.utils.clip_grad_norm_: between backward and step", loop=True, row="gradient"
)
def clipped_after_step(code: Code, source: Source) -> Iterator[Hit]:
    """Gradients are clipped after the step that used them, and cleared before the next one."""
    for _, found in step_loops(code, source):
        order = [one.what for one in found if one.what != "schedule"]
        if sorted(order) != ["backward", "clip", "step", "zero"]:
            continue
        clip, zero, backward, step = (order.index(one) for one in ("clip", "zero", "backward", "step"))
        places = [one.inner or one.node for one in found if one.what in ("step", "clip")]
        blocks = {id(source.blocks[where][0]) for one in places if (where := source.statement(one)) in source.blocks}
        call = places[-1]
        # A clip with an infinite limit measures the norm.
        measures = "inf" in ast.unparse(call)
        if backward < step < clip and not step < zero < clip and len(blocks) == 1 and not measures:
            yield Hit(call, {"clip": ast.unparse(call.func) if isinstance(call, ast.Call) else "clip_grad_norm_"})


@warning(
    "grad_not_cleared", "PyTorch DCGAN tutorial: the discriminator is given fake.detach()", loop=True, row="gradient"
)
def critic_trains_generator(code: Code, source: Source) -> Iterator[Hit]:
    """The loss of a discriminator reaches the generator, whose gradients are not cleared before its own loss."""
    for _, found in step_loops(code, source):
        order = [one for one in found if one.what in ("backward", "step", "zero", "unknown")]
        backs = [at for at, one in enumerate(order) if one.what == "backward" and one.direct]
        if len(backs) < 2 or any(one.what == "unknown" or not one.always for one in order):
            continue
        call = order[backs[0]].node
        loss = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        fakes = _generated(code, source, loss) if loss is not None else {}
        steps = {one.on for one in order[: backs[1]] if one.what == "step"}
        for name, made in fakes.items():
            optimizer = next(
                (one.on for one in order if one.what == "step" and _has_weights(code, source, one, name)), ""
            )
            between = {one.on for one in order[backs[0] : backs[1]] if one.what == "zero"}
            if optimizer and steps and optimizer not in steps and not between & {optimizer, name, "*"}:
                yield Hit(made, {"generator": name, "loss": ast.unparse(loss or made), "optimizer": optimizer})


def _generated(code: Code, source: Source, loss: ast.expr) -> dict[str, ast.Call]:
    """Models that made, with gradients, what a discriminator is given in a loss; with the calls that made it."""
    found = {}
    for critic in made_of(code, source, loss):
        if not isinstance(critic, ast.Call) or len(critic.args) != 1 or not CRITIC.search(dotted_target(critic.func)):
            continue
        made = code.made(source, critic.args[0])
        name = dotted_target(made.func) if isinstance(made, ast.Call) else ""
        if isinstance(made, ast.Call) and GENERATOR.search(name) and not is_under_no_grad(source, made):
            found[name] = made
    return found


@warning("accumulation_not_scaled", "accelerate.Accelerator.backward: it divides by gradient_accumulation_steps itself")
def divided_by_accelerate_too(code: Code, source: Source) -> Iterator[Hit]:
    """A loss is divided by the accumulation steps of accelerate, whose `backward` divides it as well."""
    for node in source.of_type(ast.With):
        if not any(last_name(getattr(item.context_expr, "func", node)) == "accumulate" for item in node.items):
            continue
        inner = list(walk(node.body))
        called = [one for one in inner if isinstance(one, ast.Call) and last_name(one.func) == "backward" and one.args]
        losses = {dotted_target(one.args[0]) for one in called} - {""}
        for one in inner:
            if isinstance(one, ast.Assign) and isinstance(one.value, ast.BinOp) and isinstance(one.value.op, ast.Div):
                divisor = one.value.right
            elif isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Div):
                divisor = one.value
            else:
                continue
            if any(assigns(one, loss) for loss in losses) and last_name(divisor).endswith("accumulation_steps"):
                yield Hit(one, {"divisor": ast.unparse(divisor)})


def _has_weights(code: Code, source: Source, step: Event, model: str) -> bool:
    """Whether the optimizer of a step was created with the parameters of a model."""
    func = step.node.func if isinstance(step.node, ast.Call) else None
    kind = code.kind(source, func.value) if isinstance(func, ast.Attribute) else None
    return kind is not None and f"{model}.parameters()" in ast.unparse(kind.call)
