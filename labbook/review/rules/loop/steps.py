"""Rules about hand-written training loops: missing calls and wrong order."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code
from labbook.review.gradient_flow import Event, events, is_optimizer, is_scheduler, step_loops
from labbook.review.names import LOOPS, dotted_target, last_name, loop_of, loops, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, error, note, warning

_RECIPE = "Karpathy, A Recipe for Training Neural Networks (2019)"
_PAPER = "Humbatova et al., Taxonomy of Real Faults in Deep Learning Systems (ICSE 2020)"


def _has_event(found: list[Event], what: str) -> bool:
    return any(event.what == what for event in found)


def _is_step(event: Event, found: list[Event]) -> bool:
    """Whether a step belongs to an optimizer: a known class, or one whose gradients the same loop clears."""
    same = any(one.what == "zero" and one.on == event.on for one in found)
    return event.what == "step" and bool(event.on) and (event.sure or same)


def _events_around(code: Code, source: Source, node: ast.AST) -> list[Event]:
    """Return the events of the function that contains a loop."""
    function = source.function(node)
    return events(code, source, function.body if function is not None else source.tree.body)


def _is_manual_update(loop: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Whether a loop reads `.grad` (a manual update, an attack on the input)."""
    return any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in walk(loop.body))


@error("grad_not_cleared", _RECIPE, loop=True)
def missing_zero_grad(code: Code, source: Source) -> Iterator[Hit]:
    """A loop calls `backward` and `step`, but clears no gradients."""
    for _, found in step_loops(code, source):
        steps = [one for one in found if one.what == "step"]
        back = next((one for one in found if one.what == "backward" and _is_call_of_loss(one)), None)
        if not steps or back is None or _has_event(found, "zero") or _has_event(found, "unknown"):
            continue
        if not all(one.sure for one in steps) and _named_anywhere(code):
            continue
        if any(last_name(_func(one)) == "minimize" for one in steps):
            continue
        yield Hit(back.inner or back.node, {"optimizer": steps[0].on or "optimizer", "clear": _clear(source)})


def _is_call_of_loss(event: Event) -> bool:
    node = event.inner or event.node
    return is_call(node, "backward")


@error("grad_not_cleared", _RECIPE, loop=True)
def missing_zero_grad_by_hand(code: Code, source: Source) -> Iterator[Hit]:
    """A loop updates leaves with their `.grad`, but never clears it."""
    for loop, found in step_loops(code, source):
        whats = {one.what for one in found}
        if "backward" not in whats or whats & {"zero", "step", "unknown"}:
            continue
        for node in of_type(walk(loop.body), ast.AugAssign):
            if not isinstance(node.op, ast.Sub):
                continue
            target = node.target
            name = dotted_target(
                target.value if isinstance(target, ast.Attribute) and target.attr == "data" else target
            )
            read = of_type(walk([node.value]), ast.Attribute)
            used = any(one.attr == "grad" and dotted_target(one.value) == name for one in read)
            made_here = any(name in map(dotted_target, one.targets) for one in of_type(walk(loop.body), ast.Assign))
            if name and used and not made_here and not any(_leaves_loop(one) for one in walk(loop.body)):
                yield Hit(node, {"optimizer": name, "clear": f"{name}.grad = None"})
                break


def _leaves_loop(node: ast.AST) -> bool:
    return isinstance(node, (ast.Break, ast.Return)) or (is_call(node, "requires_grad_", "detach_", "grad"))


def _func(event: Event) -> ast.AST:
    return event.node.func if isinstance(event.node, ast.Call) else event.node


def _named_anywhere(code: Code) -> bool:
    return any(code.calls.get(name) for name in ("zero_grad", "clear_grad", "clear_gradients", "reset_grad"))


def _clear(source: Source) -> str:
    return "clear_grad()" if _is_paddle(source) else "zero_grad()"


def _is_paddle(source: Source) -> bool:
    roots = {name.split(".")[0] for name in source.names.values()}
    return "paddle" in roots and "torch" not in roots


@error("step_without_backward", _PAPER, loop=True)
def missing_backward(code: Code, source: Source) -> Iterator[Hit]:
    """A loop clears gradients and calls `step`, but never `backward`."""
    for loop, found in step_loops(code, source):
        step = next((one for one in found if _is_step(one, found)), None)
        cleared = [one for one in found if one.what == "zero"]
        if (
            step is None
            or not cleared
            or _has_event(found, "backward")
            or _has_event(found, "unknown")
            or _is_manual_update(loop)
        ):
            continue
        if not any(isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) for node in walk(loop.body)):
            continue
        yield Hit(step.inner or step.node, {"optimizer": step.on})


@error("backward_but_no_step", _PAPER, loop=True)
def missing_step(code: Code, source: Source) -> Iterator[Hit]:
    """A loop clears the gradients of an optimizer and calls `backward`, but never `step`."""
    for loop, found in step_loops(code, source):
        back = next((one for one in found if one.what == "backward" and one.direct), None)
        if back is None or _has_event(found, "step") or _has_event(found, "unknown") or _is_manual_update(loop):
            continue
        zero = next(
            (one for one in found if one.what == "zero" and one.direct and _is_on_optimizer(code, source, one)), None
        )
        if zero is None or any(
            one.what in ("step", "unknown") and one.on == zero.on for one in _events_around(code, source, loop)
        ):
            continue
        if any(_mentions(node, zero.on) for node in walk(loop.body)) or any(
            isinstance(node, ast.Attribute) and node.attr == "grad" for node in source.nodes
        ):
            continue
        yield Hit(back.node, {"optimizer": zero.on})


def _is_on_optimizer(code: Code, source: Source, event: Event) -> bool:
    func = _func(event)
    kind = code.kind(source, func.value) if isinstance(func, ast.Attribute) else None
    # An optimizer passed to the function is recognised by its name.
    return is_optimizer(kind.name) if kind is not None else "optim" in event.on.lower()


def _mentions(node: ast.AST, name: str) -> bool:
    """Whether an optimizer is used other than by calling its methods."""
    if not isinstance(node, ast.Call):
        return False
    given = [*node.args, *(k.value for k in node.keywords)]
    return any(dotted_target(one) == name for one in given) or (
        isinstance(node.func, ast.Attribute) and last_name(node.func) == "step" and ast.unparse(node.func.value) == name
    )


@error("step_with_no_gradient", _PAPER, loop=True)
def cleared_before_step(code: Code, source: Source) -> Iterator[Hit]:
    """A loop has no `backward` between clearing the gradients of an optimizer and its step."""
    for loop, found in step_loops(code, source):
        direct = [one for one in found if one.what in ("zero", "step", "backward", "unknown")]
        steps = [one for one in direct if one.always and _is_step(one, direct)]
        if not any(one.what == "backward" for one in direct) or any(one.what == "unknown" for one in direct):
            continue
        if any(isinstance(node, (ast.Continue, ast.Break)) for node in walk(loop.body)):
            continue
        for step in steps:
            before = _events_before(direct, step)
            # Backwards from the step: its gradients are cleared before any `backward` call.
            deciding = (one for one in before if one.what == "backward" or _clears_gradients_of(one, step, direct))
            first = next(deciding, None)
            again = any(one.what == "step" and one.on == step.on and one is not step for one in direct)
            if first is not None and first.what == "zero" and first.always and not again:
                yield Hit(step.node, {"optimizer": step.on, "clear": _call_text(first), "line": _line(source, first)})


def _events_before(found: list[Event], step: Event) -> list[Event]:
    """Yield the events before a step, nearest first, continuing in the previous iteration."""
    at = next(number for number, one in enumerate(found) if one is step)
    return [*reversed(found[:at]), *reversed(found[at + 1 :])]


def _clears_gradients_of(event: Event, step: Event, found: list[Event]) -> bool:
    """Whether an event clears the gradients of a step: of the same optimizer, or of the only one's model."""
    if event.what != "zero":
        return False
    optimizers = {one.on for one in found if one.what == "step"}
    return event.on == step.on or (len(optimizers) == 1 and "opt" not in event.on.lower())


def _call_text(event: Event) -> str:
    return f"{event.on}.{last_name(_func(event))}()" if isinstance(event.node, ast.Call) else "grad = None"


def _line(source: Source, event: Event) -> str:
    return str(source.line(event.node)[0])


@warning("lr_schedule_wrong", "torch.optim: how to adjust learning rate (since 1.1)", tier=1, loop=True, row="")
def scheduler_before_optimizer(code: Code, source: Source) -> Iterator[Hit]:
    """A loop always steps a scheduler before the optimizer."""
    for loop in loops(source):
        if not any(is_call(node, "step") for node in walk(loop.body)):
            continue
        found = events(code, source, loop.body)
        if _has_event(found, "unknown"):
            continue
        number = next((n for n, one in enumerate(found) if one.what == "schedule"), None)
        if number is None or not found[number].direct or not found[number].always or not found[number].sure:
            continue
        call = found[number].node
        stepped = [n for n, one in enumerate(found) if one.what == "step"]
        if not stepped or min(stepped) < number or not isinstance(call, ast.Call) or call.args or call.keywords:
            continue
        if loop_of(source, call) is not loop:
            continue
        yield Hit(call, {"scheduler": found[number].on, "optimizer": found[min(stepped)].on or "optimizer"})


_COSINES = ("CosineAnnealingLR", "CosineAnnealingDecay")


@warning("lr_schedule_wrong", "torch.optim.lr_scheduler.CosineAnnealingLR", loop=True, row="")
def schedule_per_batch(code: Code, source: Source) -> Iterator[Hit]:
    """A cosine schedule with a period in epochs is stepped for each batch."""
    for call in code.calls_in(source, "step"):
        scheduler = receiver(call) if not call.args and not call.keywords else None
        kind = code.kind(source, scheduler)
        if scheduler is None or kind is None or not is_scheduler(kind.name) or not kind.name.endswith(_COSINES):
            continue
        inner = loop_of(source, call)
        outer = loop_of(source, inner) if inner is not None else None
        period = argument(kind.call, 1, "T_max")
        if (
            not isinstance(inner, (ast.For, ast.AsyncFor))
            or not isinstance(outer, (ast.For, ast.AsyncFor))
            or not period
        ):
            continue
        epochs = _epochs(outer.iter)
        if epochs and ast.unparse(period) in epochs and not _is_range(inner.iter) and kind.source is source:
            yield Hit(call, {"period": ast.unparse(period), "scheduler": ast.unparse(scheduler)})


def _is_range(node: ast.expr) -> bool:
    return is_call(node, "range", "trange")


def _epochs(node: ast.expr) -> set[str]:
    while is_call(node, "tqdm", "enumerate") and node.args:
        node = node.args[0]
    if isinstance(node, ast.Call) and _is_range(node) and node.args:
        return {ast.unparse(node.args[-1] if len(node.args) < 3 else node.args[1])}
    return set()


@warning("step_changed_nothing", "chosen by us", loop=True, row="")
def hidden_failures(code: Code, source: Source) -> Iterator[Hit]:
    """A handler for all exceptions around a training step does nothing."""
    for node in source.of_type(ast.Try):
        if loop_of(source, node) is None:
            continue
        if not any(is_call(one, "backward") for one in walk(node.body)):
            continue
        for handler in node.handlers:
            caught = "" if handler.type is None else ast.unparse(handler.type)
            if caught in ("", "Exception", "BaseException", "RuntimeError") and all(
                isinstance(one, (ast.Pass, ast.Continue)) for one in handler.body
            ):
                yield Hit(handler, {"caught": f"except {caught}".strip()})


@note("memory_graph_retained", "torch.autograd.backward", loop=True)
def retained_each_step(code: Code, source: Source) -> Iterator[Hit]:
    """`retain_graph=True` in a loop with a single `backward` call."""
    for loop, found in step_loops(code, source):
        back = [one for one in found if one.what == "backward"]
        if (
            len(back) != 1
            or not back[0].direct
            or not isinstance(back[0].node, ast.Call)
            or _has_event(found, "unknown")
        ):
            continue
        keeps = any(
            k.arg == "retain_graph" and isinstance(k.value, ast.Constant) and k.value.value is True
            for k in back[0].node.keywords
        )
        if keeps and loop_of(source, back[0].node) is loop:
            yield Hit(back[0].node)


@note("seeds_set", "PyTorch: Reproducibility", loop=True)
def no_seed(code: Code, source: Source) -> Iterator[Hit]:
    """A training script sets no seed."""
    if code.calls.get("manual_seed") or any("seed" in name.lower() for name in code.calls):
        return
    if any("seed" in name.lower() for name in code.functions) or any("seed" in n.lower() for n in source.names):
        return
    is_script = any(
        isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in source.tree.body
    ) or any(isinstance(node, LOOPS) for node in source.tree.body)
    if not is_script:
        return
    for _, found in step_loops(code, source):
        step = next((one for one in found if one.what == "step" and one.direct and one.sure), None)
        if step is not None and _has_event(found, "backward"):
            yield Hit(step.node, {"seed": "paddle.seed(0)" if _is_paddle(source) else "torch.manual_seed(0)"})
            return
