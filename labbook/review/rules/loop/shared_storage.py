"""Rules about shared storage: in-place changes, aliases of best weights, stale optimizers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import argument
from labbook.review.code_index import Code
from labbook.review.definitions import LAYERS, LIBRARY_MODELS
from labbook.review.gradient_flow import events, is_optimizer, is_under_no_grad, step_loops
from labbook.review.names import LOOPS, Loop, assigns, dotted_target, last_name, loop_of, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, error

_SAVES_OUTPUT = {
    "relu", "sigmoid", "tanh", "softmax", "log_softmax", "exp", "sqrt", "elu", "rsqrt", "ReLU", "Sigmoid", "Tanh",
    "Softmax",
}  # fmt: skip
_IN_PLACE = {"add_", "mul_", "sub_", "div_", "clamp_", "fill_", "zero_", "copy_", "masked_fill_"}


@error("inplace_on_leaf", "PyTorch: a leaf Variable that requires grad is being used in an in-place operation")
def leaf_in_place(code: Code, source: Source) -> Iterator[Hit]:
    """`w -= lr * w.grad` outside `no_grad`, where `w` is a leaf that requires a gradient."""
    for node in source.nodes:
        target, value = _changed_value(node)
        name = dotted_target(target) if target is not None else ""
        if (
            not name
            or value is None
            or not isinstance(node, (ast.AugAssign, ast.Call))
            or is_under_no_grad(source, node)
        ):
            continue
        if not _reads_grad(value, name) or target is None or not _is_leaf(code, source, target):
            continue
        yield Hit(node, {"name": name})


def _changed_value(node: ast.AST) -> tuple[ast.expr | None, ast.AST | None]:
    if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Sub, ast.Add)):
        return node.target, node.value
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("sub_", "add_")
        and node.args
    ):
        return node.func.value, node
    return None, None


def _reads_grad(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(one, ast.Attribute) and one.attr == "grad" and dotted_target(one.value) == name
        for one in ast.walk(node)
    )


def _is_leaf(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether all values of a name require gradients or are parameters."""
    scope = source.function(node) or source.tree
    values = [value for value in code.assigned_values(scope, dotted_target(node)) if value is not None]
    made = [value for value in values if isinstance(value, ast.Call)]
    return bool(made) and all(
        source.dotted(one.func) in ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
        or (
            source.dotted(one.func).startswith("torch.")
            and any(k.arg == "requires_grad" and ast.unparse(k.value) == "True" for k in one.keywords)
        )
        for one in made
    )


@error("optimizer_non_leaf", "PyTorch: autograd mechanics")
def leaf_replaced(code: Code, source: Source) -> Iterator[Hit]:
    """`w = w - lr * w.grad` in a loop: `w` is then no leaf and has no gradient in the next step."""
    for loop, found in step_loops(code, source):
        if not any(one.what == "backward" for one in found):
            continue
        for node in of_type(walk(loop.body), ast.Assign):
            if len(node.targets) != 1 or not isinstance(node.value, ast.BinOp):
                continue
            name = dotted_target(node.targets[0])
            if not name or not _reads_grad(node.value, name) or not _is_leaf(code, source, node.targets[0]):
                continue
            again = any(
                isinstance(one, ast.Attribute)
                and one.attr in ("requires_grad_", "requires_grad", "retain_grad", "detach")
                and dotted_target(one.value) == name
                for one in walk(loop.body)
            )
            if not again and sum(assigns(one, name) for one in walk(loop.body)) == 1:
                yield Hit(node, {"name": name})


@error("inplace_modified_saved_tensor", "PyTorch: in-place correctness checks")
def saved_in_place(code: Code, source: Source) -> Iterator[Hit]:
    """An in-place change of an output that its operation needs for the gradient (torch)."""
    for cls in (n for n in source.of_type(ast.ClassDef) if code.is_module(source, n)):
        for method in cls.body:
            if (
                isinstance(method, ast.FunctionDef)
                and method.name == "forward"
                and "torch.nn.Module" in code.bases(source, cls)
            ):
                for block in _blocks(method):
                    yield from _saved_in_place_hits(code, source, block)


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    yield function.body
    for node in walk(function.body):
        if isinstance(node, (ast.For, ast.If, ast.While, ast.With)):
            yield node.body


def _saved_in_place_hits(code: Code, source: Source, block: list[ast.stmt]) -> Iterator[Hit]:
    held: dict[str, str] = {}
    for node in block:
        changed = ""
        if isinstance(node, ast.AugAssign):
            changed = dotted_target(node.target)
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.func.attr in _IN_PLACE
        ):
            changed = dotted_target(node.value.func.value)
        if changed in held and not is_under_no_grad(source, node):
            yield Hit(node, {"name": changed, "operation": held.pop(changed)})
        for name in list(held):
            if any(assigns(one, name) for one in walk([node])):
                held.pop(name)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Call):
            operation = _saving(code, source, node.value)
            name = dotted_target(node.targets[0])
            if operation and name and not name.startswith("self."):
                held[name] = operation


def _saving(code: Code, source: Source, call: ast.Call) -> str:
    dotted = source.dotted(call.func)
    if dotted.startswith("torch."):
        return last_name(call.func) if last_name(call.func) in _SAVES_OUTPUT else ""
    kind = code.kind(source, call.func) if isinstance(call.func, ast.Attribute) else None
    name = (
        kind.name.rsplit(".", 1)[-1]
        if kind is not None and kind.name.startswith("torch.nn.") and kind.definition is None
        else ""
    )
    return name if name in _SAVES_OUTPUT else ""


@error("best_checkpoint_alias", "PyTorch: saving and loading models")
def best_alias(code: Code, source: Source) -> Iterator[Hit]:
    """The best weights are stored as `model.state_dict()`, whose tensors change with the next step."""
    for node in source.of_type(ast.Assign):
        if len(node.targets) != 1:
            continue
        name = dotted_target(node.targets[0])
        stored = _stored_model(node.value)
        if not name or stored is None:
            continue
        loop = loop_of(source, node)
        if loop is None or source.function(loop) is not source.function(node):
            continue
        branch = next((one for one in source.parents_of(node) if isinstance(one, (ast.If, *LOOPS))), None)
        if not isinstance(branch, ast.If):
            # Stored in every iteration: it is the last state anyway.
            continue
        if not _is_loaded_again(source, loop, stored, name) and not _is_best(code, source, loop, stored, name):
            continue
        if not _is_trained_in(code, source, loop):
            continue
        if _used_at_once(source, node, name) or not _used_later(source, loop, name) or source.leaves_loop(node):
            continue
        yield Hit(node, {"name": name, "value": ast.unparse(node.value)})


def _is_best(code: Code, source: Source, loop: ast.AST, stored: ast.expr, name: str) -> bool:
    """Whether a name suggests the best state of a known model that the loop does not create anew."""
    kind = code.kind(source, stored) if dotted_target(stored) and "best" in name.lower() else None
    if kind is None or (kind.source is source and any(one is loop for one in source.parents_of(kind.call))):
        return False
    return code.is_model(kind, *LIBRARY_MODELS)


def _is_loaded_again(source: Source, loop: Loop, stored: ast.expr, name: str) -> bool:
    """Whether the same model loads the stored state after the loop."""
    if any(assigns(one, dotted_target(stored)) for one in walk(loop.body)) or not isinstance(stored, ast.Name):
        return False
    scope = source.function(loop) or source.tree
    return any(
        isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr in ("load_state_dict", "set_state_dict", "set_dict")
        and ast.unparse(one.func.value) == ast.unparse(stored)
        and bool(one.args)
        and dotted_target(one.args[0]) == name
        and one.lineno > (loop.end_lineno or 0)
        for one in ast.walk(scope)
    )


def _stored_model(node: ast.expr) -> ast.expr | None:
    """Return the model whose state is stored: `m` in `m.state_dict()`, or `m` itself."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "state_dict":
        return node.func.value
    return node if isinstance(node, (ast.Name, ast.Attribute)) else None


def _is_trained_in(code: Code, source: Source, loop: Loop) -> bool:
    whats = {one.what for one in events(code, source, loop.body)}
    return "step" in whats and "backward" in whats


def _used_at_once(source: Source, node: ast.stmt, name: str) -> bool:
    block, index = source.blocks.get(node, ([], 0))
    return any(
        dotted_target(one) == name
        for later in block[index + 1 :]
        for one in walk([later])
        if isinstance(getattr(one, "ctx", None), ast.Load)
    )


def _used_later(source: Source, loop: ast.AST, name: str) -> bool:
    """Whether the stored state is used after the loop."""
    end = getattr(loop, "end_lineno", 0)
    scope = source.function(loop) or source.tree
    return any(
        dotted_target(one) == name
        and isinstance(getattr(one, "ctx", None), ast.Load)
        and getattr(one, "lineno", 0) > end
        for one in ast.walk(scope)
    )


@error("optimizer_params_stale", "torch.optim: constructing it")
def stale_optimizer(code: Code, source: Source) -> Iterator[Hit]:
    """A layer of a model, or the model, is replaced after the optimizer was created."""
    for node in source.of_type(ast.Assign):
        if not isinstance(node.value, ast.Call) or not is_optimizer(source.dotted(node.value.func)):
            continue
        model = _all_parameters_of(node.value)
        if not model or len(node.targets) != 1:
            continue
        block, index = source.blocks.get(node, ([], 0))
        optimizer = dotted_target(node.targets[0])
        for later in block[index + 1 :]:
            if any(assigns(one, optimizer) for one in walk([later])) or "add_param_group" in ast.unparse(later):
                break
            if isinstance(later, ast.FunctionDef):
                continue
            if isinstance(later, SCOPES_AND_LOOPS):
                break
            replaced = _replaces(code, source, later, model)
            if replaced:
                if _is_recreated(block[index + 1 :], optimizer):
                    break
                yield Hit(
                    later, {"optimizer": optimizer or "optimizer", "line": str(source.line(node)[0]), "what": replaced}
                )
                break


SCOPES_AND_LOOPS = (*LOOPS, ast.FunctionDef, ast.ClassDef, ast.If, ast.Try, ast.Delete, ast.With)


def _is_recreated(block: list[ast.stmt], optimizer: str) -> bool:
    return any(assigns(one, optimizer) for later in block for one in walk([later]))


def _all_parameters_of(call: ast.Call) -> str:
    """Return the model whose parameters are all passed to an optimizer, or ""."""
    given = argument(call, 0, "params", "parameters")
    if (
        isinstance(given, ast.Call)
        and isinstance(given.func, ast.Attribute)
        and given.func.attr == "parameters"
        and not given.args
    ):
        return dotted_target(given.func.value)
    return ""


_REPLACED_LAYERS = tuple(f"{part}{kind}" for part in LAYERS for kind in ("Linear", "Conv", "Sequential"))


def _replaces(code: Code, source: Source, node: ast.stmt, model: str) -> str:
    """Return the part of a model that an assignment replaces by a new layer, or ""."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.value, ast.Call):
        return ""
    target = node.targets[0]
    inner = target
    while isinstance(inner, (ast.Attribute, ast.Subscript)) and dotted_target(inner) != model:
        inner = inner.value
    if dotted_target(inner) != model:
        return ""
    kind = code.kind(source, node.value)
    if kind is None or kind.call is not node.value or kind.wrapped:
        return ""
    if any(dotted_target(one) == model for arg in node.value.args for one in ast.walk(arg)) and inner is target:
        return ""
    of_zoo = kind.name.startswith(("torchvision.models.", "paddle.vision.models.")) and inner is target
    return ast.unparse(target) if of_zoo or code.is_model(kind, *_REPLACED_LAYERS) else ""
