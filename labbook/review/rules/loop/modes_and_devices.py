"""Rules about training and evaluation mode, gradients in evaluation, and devices."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code, Kind
from labbook.review.definitions import LAYERS, LIBRARY_MODELS
from labbook.review.eval_loops import evaluations
from labbook.review.gradient_flow import is_under_no_grad, reached_nodes
from labbook.review.names import LOOPS, Loop, assigns, dotted_target, last_name, loop_of, loops, of_type, walk
from labbook.review.partial_device_move import half_moved
from labbook.review.source_file import Source
from labbook.review.violation import Hit, error, warning

_MODE_LAYERS = ("Dropout", "BatchNorm", "SyncBatchNorm", "AlphaDropout", "InstanceNorm")
_HELD_OUT = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|test|dev|eval)(?:$|[^a-z])", re.IGNORECASE)
_KNOWN_LIBRARIES = ("torch.", "paddle.", "torchvision.")
_GRADIENT_FLAGS = ("requires_grad", "stop_gradient")
_ALIKE = 0.85
_ZOO = ("resnet", "vgg", "densenet", "mobilenet", "efficientnet", "inception", "googlenet", "alexnet", "shufflenet")


def mode_layer(code: Code, kind: Kind | None, depth: int = 0) -> str:
    """Return a layer of a model that depends on the mode ("Dropout"), or ""."""
    if kind is None or depth > 4:
        return ""
    if kind.definition is None:
        name = kind.name.rsplit(".", 1)[-1]
        if kind.name.startswith(("torchvision.models.", "paddle.vision.models.")) and name.lower().startswith(_ZOO):
            return "BatchNorm" if not name.lower().startswith("alexnet") else "Dropout"
        return _name_in_calls(kind.source, kind.call)
    source, cls = kind.definition
    if found := _name_in_calls(source, cls):
        return found
    for node in of_type(ast.walk(cls), ast.Call):
        inner = code.class_named(source, node.func)
        if inner is not None and inner[1] is not cls:
            found = mode_layer(code, Kind(inner[1].name, source, node, inner), depth + 1)
            if found:
                return found
    return ""


def _name_in_calls(source: Source, outer: ast.Call | ast.ClassDef) -> str:
    for node in of_type(ast.walk(outer), ast.Call):
        dotted = source.dotted(node.func)
        name = dotted.rsplit(".", 1)[-1]
        if dotted.startswith(LAYERS) and dotted.count(".") == 2 and name.startswith(_MODE_LAYERS):
            return name
    return ""


def _trains(code: Code) -> bool:
    return bool(code.calls.get("backward")) and any(code.calls.get(name) for name in ("step", "minimize"))


def _sets_mode(code: Code, name: str) -> bool:
    """Whether `eval()` or `train()` of a model is called or passed anywhere."""
    for source, call in code.calls.get(name, ()):
        func = call.func
        if isinstance(func, ast.Attribute) and not source.dotted(func):
            return True
    if name == "eval":
        # `train` with an argument is `model.train(False)`, unless it is a function of the program.
        calls = [call for source, call in code.calls.get("train", ()) if not code.function_named(source, call.func)]
        return any(call.args or call.keywords for call in calls) or bool(code.calls.get("set_mode"))
    return bool(code.calls.get("set_mode"))


@error("eval_in_train_mode", "torch.nn.Module.eval; paddle.nn.Layer.eval", loop=True, row="loop-bug")
def never_eval(code: Code, source: Source) -> Iterator[Hit]:
    """A model with dropout or batch norm is evaluated without any call of `eval()`."""
    for call, kind in _evaluated_without_eval(code, source):
        layer = mode_layer(code, kind)
        if layer:
            yield Hit(call, {"model": dotted_target(call.func), "layer": layer})
            return


@warning(
    "eval_in_train_mode", "torch.nn.Module.train: a program that calls it has a model with modes", loop=True, row=""
)
def only_train(code: Code, source: Source) -> Iterator[Hit]:
    """A model of unknown layers is evaluated, and only `train()` is called, never `eval()`."""
    for call, kind in _evaluated_without_eval(code, source):
        is_unresolved = kind is None or (kind.definition is None and not kind.name.startswith(_KNOWN_LIBRARIES))
        if is_unresolved and _set_to_train(code, dotted_target(call.func)):
            yield Hit(call, {"model": dotted_target(call.func)})
            return


def _evaluated_without_eval(code: Code, source: Source) -> Iterator[tuple[ast.Call, Kind | None]]:
    """Yield the calls of models that evaluate in a program that trains and never calls `eval()`, with their kinds."""
    if not _trains(code) or _sets_mode(code, "eval"):
        return
    for call in (*_calls_under_no_grad(source), *evaluations(code, source), *_measured_beside_steps(source)):
        yield call, code.kind(source, call.func)


def _calls_under_no_grad(source: Source) -> Iterator[ast.Call]:
    """Yield calls under `no_grad` in loops that do not train."""
    for loop in loops(source):
        calls = list(of_type(walk(loop.body), ast.Call))
        if not any(last_name(call.func) in ("backward", "step") for call in calls):
            yield from (c for c in calls if dotted_target(c.func) and c.args and is_under_no_grad(source, c))


def _measured_beside_steps(source: Source) -> Iterator[ast.Call]:
    """Yield calls under `no_grad` in loops that train, of which the same loop computes a metric of held-out data."""
    for loop in loops(source):
        calls = list(of_type(walk(loop.body), ast.Call))
        if not any(last_name(call.func) == "backward" for call in calls):
            continue
        for call in calls:
            statement = source.statement(call) if is_under_no_grad(source, call) else None
            name = dotted_target(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
            later = (one for one in of_type(walk(loop.body), ast.Assign) if one.lineno > call.lineno)
            for one in later if name and dotted_target(call.func) and call.args else ():
                reads = any(dotted_target(part) == name for part in ast.walk(one.value))
                if reads and _HELD_OUT.search(ast.unparse(one)):
                    yield call


def _set_to_train(code: Code, model: str) -> bool:
    """Whether `train()` of that name is called: such code has a model that depends on the mode."""
    return any(
        isinstance(call.func, ast.Attribute) and dotted_target(call.func.value) == model and not call.args
        for _, call in code.calls.get("train", ())
    )


@error("backward_in_eval_mode", "torch.nn.Module.train; research of the project", loop=True)
def never_back_to_train(code: Code, source: Source) -> Iterator[Hit]:
    """A loop calls `eval()` each epoch and trains in the next one without `train()`."""
    for loop in loops(source):
        if loop_of(source, loop) is not None:
            continue
        calls = list(_reached_calls(code, source, loop.body))
        if any(last_name(call.func) in ("train", "set_mode", "requires_grad_") for _, call in calls):
            continue
        back = [call for _, call in calls if last_name(call.func) == "backward"]
        for where, call in calls:
            func = call.func
            if (
                not back
                or not isinstance(func, ast.Attribute)
                or func.attr != "eval"
                or where.dotted(func)
                or call.args
            ):
                continue
            kind = code.kind(where, func.value)
            if kind is not None and kind.definition is None and not kind.name.startswith(_KNOWN_LIBRARIES):
                kind = None
            if kind is None and (where is not source or not _is_optimized_by_name(source, loop, func.value)):
                continue
            layer = "a model" if kind is None else mode_layer(code, kind)
            if kind is not None and (not layer or _is_created_in(source, loop, kind) or not _is_trained(code, kind)):
                continue
            at = call if where is source else _path_to(code, source, loop, call)
            if at is not None:
                severity = "warning" if kind is None else ""
                yield Hit(at, {"model": ast.unparse(func.value), "layer": layer}, severity)
            break


def _reached_calls(code: Code, source: Source, body: list[ast.stmt]) -> Iterator[tuple[Source, ast.Call]]:
    """Yield all calls in statements and in the functions that they call."""
    for where, node in reached_nodes(code, source, body):
        if isinstance(node, ast.Call):
            yield where, node


def _path_to(code: Code, source: Source, loop: Loop, wanted: ast.Call) -> ast.AST | None:
    for node in of_type(walk(loop.body), ast.Call):
        followed = code.function_named(source, node.func)
        if followed is not None and any(
            call is wanted for _, call in _reached_calls(code, followed[0], followed[1].body)
        ):
            return node
    return None


def _is_inside(source: Source, node: ast.AST, loop: ast.AST) -> bool:
    return any(outer is loop for outer in source.parents_of(node))


def _is_created_in(source: Source, loop: ast.AST, kind: Kind) -> bool:
    """Whether a model is created anew in each iteration."""
    return kind.source is source and _is_inside(source, kind.call, loop)


def _is_trained(code: Code, kind: Kind) -> bool:
    """Whether an optimizer has the parameters of the model (not of another one)."""
    for name in ("parameters", "named_parameters"):
        for where, call in code.calls.get(name, ()):
            if isinstance(call.func, ast.Attribute):
                other = code.kind(where, call.func.value)
                outer = where.parents.get(call)
                while isinstance(outer, (ast.List, ast.Dict, ast.keyword, ast.Starred)):
                    outer = where.parents.get(outer)
                optimizer = isinstance(outer, ast.Call) and "optim" in where.dotted(outer.func)
                if optimizer and other is not None and other.call is kind.call:
                    return True
    return False


def _is_optimized_by_name(source: Source, loop: Loop, model: ast.expr) -> bool:
    """Whether an optimizer of the same function has the parameters of that name, and the loop creates no new one.

    A model created elsewhere may have no layer that depends on the mode; then a missing `train()` is harmless.
    """
    name = dotted_target(model)
    scope = source.function(loop)
    body = scope.body if scope is not None else source.tree.body
    if not name or any(assigns(node, name) for node in walk(loop.body)):
        return False
    return any(
        isinstance(node, ast.Call)
        and "optim" in source.dotted(node.func)
        and any(is_call(one, "parameters") and ast.unparse(one.func) == f"{name}.parameters" for one in ast.walk(node))
        for node in walk(body)
    )


@warning("requires_grad_on_module", "torch.Tensor.requires_grad; paddle.Tensor.stop_gradient", row="gradient")
def misspelt_gradient_flag(code: Code, source: Source) -> Iterator[Hit]:
    """`parameter.require_grad = False` makes a new attribute, which nothing reads."""
    read = {node.attr for node in source.of_type(ast.Attribute) if isinstance(node.ctx, ast.Load)}
    for node in source.of_type(ast.Assign):
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Attribute) or not isinstance(value, ast.Constant) or target.attr in read:
            continue
        near = get_close_matches(target.attr, _GRADIENT_FLAGS, n=1, cutoff=_ALIKE)
        if near and near[0] != target.attr and type(value.value) is bool and dotted_target(target.value) != "self":
            yield Hit(node, {"flag": target.attr, "meant": near[0]})


@warning("grad_enabled_in_validation", "torch.no_grad; paddle.no_grad", loop=True, row="")
def grad_in_evaluation(code: Code, source: Source) -> Iterator[Hit]:
    """An evaluation loop builds an autograd graph that is never used."""
    if not _trains(code):
        return
    seen = set()
    for hit in (*_calls_after_eval(code, source), *_named_so(code, source)):
        if hit.node not in seen:
            seen.add(hit.node)
            yield hit


def _named_so(code: Code, source: Source) -> Iterator[Hit]:
    """Models called with gradients in loops that are named as evaluation."""
    for call in evaluations(code, source):
        if (
            is_under_no_grad(source, call)
            or _may_run_without_grad(code, source, call)
            or _wants_gradients(source, call)
        ):
            continue
        kind, model = code.kind(source, call.func), dotted_target(call.func)
        known = kind is not None and (kind.definition is not None or kind.name.startswith(LIBRARY_MODELS))
        if known or _set_to_train(code, model):
            yield Hit(call, {"model": model})
            return


def _calls_after_eval(code: Code, source: Source) -> Iterator[Hit]:
    """Models called with gradients in a loop after their `eval()`."""
    for call in code.calls_in(source, "eval"):
        func = call.func
        if not isinstance(func, ast.Attribute) or call.args or source.dotted(func):
            continue
        model = dotted_target(func.value)
        statement = source.statement(call)
        if not model or statement is None or is_under_no_grad(source, call):
            continue
        kind = code.kind(source, func.value)
        found = _evaluating_loop(source, statement, model)
        if found is None or _wants_gradients(source, call) or _may_run_without_grad(code, source, call):
            continue
        if kind is None and not _is_given(source, call, model):
            continue
        yield Hit(found, {"model": model})


def _evaluating_loop(source: Source, statement: ast.stmt, model: str) -> ast.AST | None:
    """Return the first loop that calls the model between `model.eval()` and `model.train()` in a block."""
    block, index = source.blocks.get(statement, ([], 0))
    for later in block[index + 1 :]:
        calls = list(of_type(walk([later]), ast.Call))
        if any(last_name(n.func) in ("train", "set_grad_enabled", "backward") for n in calls):
            return None
        if isinstance(later, (*LOOPS, ast.With)):
            for node in calls:
                if isinstance(later, ast.With) and not any(isinstance(one, LOOPS) for one in source.parents_of(node)):
                    continue
                if dotted_target(node.func) == model and not is_under_no_grad(source, node):
                    return node
    return None


def _wants_gradients(source: Source, node: ast.AST) -> bool:
    function = source.function(node)
    body = function.body if function is not None else source.tree.body
    words = ("autograd", "requires_grad", ".grad", "set_grad_enabled", "inference_mode", "enable_grad", "stop_gradient")
    if function is None:
        return any(word in ast.unparse(one) for one in body for word in words)
    return any(word in ast.unparse(function) for word in (*words, "backward"))


def _may_run_without_grad(code: Code, source: Source, node: ast.AST) -> bool:
    """Whether the function may be called under `no_grad`."""
    function = source.function(node)
    if function is None:
        return False
    if function.decorator_list:
        return True
    calls = code.callers(source, function)
    return not calls or any(is_under_no_grad(where, call) for where, call in calls)


def _is_given(source: Source, node: ast.AST, model: str) -> bool:
    function = source.function(node)
    return function is not None and model in [arg.arg for arg in function.args.args]


_TO_GPU = ("to", "cuda")
_MOVED_ELSEWHERE = (
    *("DataParallel", "accelerat", "set_default_device"),
    *("set_default_tensor_type", "prefetch", "collate_fn"),
)
"""Words of code in which something else moves the batches."""


@error("device_mismatch", "torch.nn.Module.to", tier=2, loop=True)
def data_not_moved(code: Code, source: Source) -> Iterator[Hit]:
    """A model on the GPU gets batches that are never moved there."""
    text = "\n".join(source.lines)
    if len(code.sources) == 1 and any(word in text for word in _MOVED_ELSEWHERE):
        return
    yield from half_moved(source)
    moves = [(where, call) for name in (*_TO_GPU, "to_device", "place") for where, call in code.calls.get(name, ())]
    moves = [(where, call) for where, call in moves if isinstance(call.func, ast.Attribute)]
    models = [(where, call) for where, call in moves if _moves_model(code, where, call)]
    others = [one for one in moves if one not in models]
    if (
        not models
        or others
        or any(isinstance(n, ast.keyword) and n.arg == "device" for s in code.sources for n in s.nodes)
    ):
        return
    made = {id(kind.call) for where, call in models if (kind := code.kind(where, call.func.value)) is not None}  # type: ignore[attr-defined]
    for loop in (node for node in source.nodes if isinstance(node, (ast.For, ast.AsyncFor))):
        if not _is_over_loader(code, source, loop):
            continue
        given = {dotted_target(one) for one in walk([loop.target])} - {""}
        for node in of_type(walk(loop.body), ast.Call):
            if node.args and dotted_target(node.args[0]) in given:
                kind = code.kind(source, node.func)
                if kind is not None and id(kind.call) in made and dotted_target(node.func):
                    yield Hit(node, {"model": dotted_target(node.func), "data": dotted_target(node.args[0])})
                    return


def _moves_model(code: Code, source: Source, call: ast.Call) -> bool:
    func = call.func
    assert isinstance(func, ast.Attribute)
    is_model = code.is_model(code.kind(source, func.value), "torch.nn.", "torchvision.models.")
    return is_model and (func.attr == "cuda" or _may_be_gpu(code, source, call))


def _may_be_gpu(code: Code, source: Source, call: ast.Call) -> bool:
    if not call.args:
        return False
    texts = [ast.unparse(call.args[0]), *(ast.unparse(value) for _, value in code.origins(source, call.args[0]))]
    return any("cuda" in text or "gpu" in text for text in texts)


def _is_over_loader(code: Code, source: Source, loop: ast.For | ast.AsyncFor) -> bool:
    given = loop.iter
    while is_call(given, "enumerate", "tqdm", "iter") and given.args:
        given = given.args[0]
    kind = code.kind(source, given)
    return kind is not None and kind.name == "torch.utils.data.DataLoader"
