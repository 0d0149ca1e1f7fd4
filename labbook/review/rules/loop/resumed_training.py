"""Rules about checkpoints: what a resumed training loads, and the mode of a model that is loaded to predict."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import calls_of, is_call, receiver
from labbook.review.code_index import Code
from labbook.review.gradient_flow import is_optimizer, is_under_no_grad
from labbook.review.names import Function, dotted_target, last_name, of_type, returned_values, walk
from labbook.review.rules.loop.modes_and_devices import mode_layer
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_COUNTERS = frozenset(("epoch", "epochs", "step", "steps", "iter", "iteration", "global_step", "start_epoch"))
_LOADS = ("load_state_dict", "set_state_dict", "set_dict")
_MAKERS = ("load_from_checkpoint", "from_pretrained")
"""Methods of libraries that return a new model."""
_PLAIN = ("SGD", "Momentum")


@warning("optimizer_state_not_restored", "PyTorch: saving a general checkpoint", loop=True, resumed=True)
def resumed_without_optimizer(code: Code, source: Source) -> Iterator[Hit]:
    """A training goes on at the epoch of a checkpoint, of which it loads the weights, and no state of the optimizer."""
    made = [call for call in source.of_type(ast.Call) if is_optimizer(source.dotted(call.func))]
    if not made or not any(_has_state(call) for call in made) or _loads_optimizer(code):
        return
    for weights in calls_of(source.nodes, *_LOADS):
        function = source.function(weights)
        body = list(of_type(walk(function.body if function is not None else source.tree.body), ast.Assign))
        states = {dotted_target(node.targets[0]) for node in body if _is_loaded(source, node.value, set())} - {""}
        counters = [
            dotted_target(node.targets[0])
            for node in body
            if _is_loaded(source, node.value, states) and any(_key(one) in _COUNTERS for one in ast.walk(node.value))
        ]
        is_resumed = any(_begins_range(source, name) for name in counters)
        if weights.args and _is_loaded(source, weights.args[0], states) and is_resumed:
            yield Hit(weights, {"code": ast.unparse(weights), "optimizer": last_name(made[0].func)})
            return


@warning("eval_in_train_mode", "torch.nn.Module.eval: a new module is in training mode")
def loaded_without_eval(code: Code, source: Source) -> Iterator[Hit]:
    """A model with dropout or batch norm is made and loaded, and predicts under `no_grad` without `eval()`."""
    for made in of_type(source.nodes, ast.Assign):
        name, function = dotted_target(made.targets[0]), source.function(made)
        layer = mode_layer(code, code.kind(source, made.value)) if isinstance(made.value, ast.Call) and name else ""
        if not layer:
            continue
        body = walk(function.body if function is not None else source.tree.body)
        reads = (
            node for node in body if dotted_target(node) == name and isinstance(getattr(node, "ctx", None), ast.Load)
        )
        uses = [(node, source.parents.get(node)) for node in reads]
        methods = {outer.attr for _, outer in uses if isinstance(outer, ast.Attribute)}
        called = [outer for node, outer in uses if isinstance(outer, ast.Call) and outer.func is node]
        # Another use may set the mode: the model is given to a function, returned or stored.
        is_all = len(uses) == len(called) + sum(isinstance(outer, ast.Attribute) for _, outer in uses)
        if is_all and methods <= {*_LOADS, "to", "cuda"} and not methods.isdisjoint(_LOADS):
            yield from (
                Hit(call, {"model": name, "layer": layer}) for call in called[:1] if is_under_no_grad(source, call)
            )


@warning("partial_state_load", "Lightning: load_from_checkpoint is a class method and returns a model")
def loaded_model_dropped(code: Code, source: Source) -> Iterator[Hit]:
    """A class method that returns a loaded model is called on another model, and nothing keeps what it returns."""
    for call in (one.value for one in source.of_type(ast.Expr)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        name, model = call.func.attr, call.func.value
        followed = code.function_named(source, call.func)
        is_maker = _makes_loaded(followed[1], name) if followed is not None else name in _MAKERS
        if is_maker and dotted_target(model) and isinstance(code.made(source, model), ast.Call):
            yield Hit(call, {"code": ast.unparse(call), "model": ast.unparse(model)})


def _makes_loaded(function: Function, name: str) -> bool:
    """Whether a function of the program is a class method by its decorator, is named as a loader, and returns."""
    is_bound = any(last_name(one) in ("classmethod", "staticmethod") for one in function.decorator_list)
    return is_bound and ("load" in name or name.startswith("from_")) and bool(returned_values(function))


def _has_state(call: ast.Call) -> bool:
    """Whether an optimizer has a state beside its parameters: all but plain gradient descent."""
    return last_name(call.func) not in _PLAIN or any(k.arg in ("momentum", None) for k in call.keywords)


def _loads_optimizer(code: Code) -> bool:
    """Whether a state is loaded into an optimizer, or an optimizer is given to a function that loads one."""
    for name in _LOADS:
        for source, call in code.calls.get(name, ()):
            made = code.made(source, receiver(call))
            is_made = isinstance(made, ast.Call) and is_optimizer(source.dotted(made.func))
            if is_made or "opt" in ast.unparse(call).lower():
                return True
    loaders = [call for name, calls in code.calls.items() if "load" in name or "resume" in name for _, call in calls]
    return any("opt" in ast.unparse(argument).lower() for call in loaders for argument in (*call.args, *call.keywords))


def _is_loaded(source: Source, node: ast.expr, states: set[str]) -> bool:
    """Whether an expression reads a file of the framework, or what was loaded of one under a name."""
    parts = list(ast.walk(node))
    calls = (source.dotted(one.func) for one in of_type(parts, ast.Call))
    return any(called in ("torch.load", "paddle.load") for called in calls) or any(
        dotted_target(part) in states for part in parts
    )


def _reads(node: ast.expr, name: str) -> bool:
    return any(dotted_target(part) == name for part in ast.walk(node))


def _key(node: ast.AST) -> str:
    """The key that an expression reads: "epoch" of `state["epoch"]` and `state.get("epoch", 0)`."""
    if is_call(node, "get") and receiver(node) is not None:
        node = node.args[0] if node.args else node
    elif isinstance(node, ast.Subscript):
        node = node.slice
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _begins_range(source: Source, name: str) -> bool:
    """Whether a loop counts from the value of a name on, or of that attribute of another method."""
    ranges = [loop.iter for loop in source.of_type(ast.For)]
    calls = [call for outer in ranges for call in calls_of(ast.walk(outer), "range", "trange", "count")]
    return any(len(call.args) > 1 and _reads(call.args[0], name) for call in calls if name)
