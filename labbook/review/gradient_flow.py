"""Effects of statements on gradients in execution order, including called functions of the program."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from labbook.frozen import dataclass
from labbook.review.call_syntax import is_call, receiver
from labbook.review.code_index import Code
from labbook.review.names import (
    LOOPS,
    SCOPES,
    Function,
    Loop,
    dotted_target,
    last_name,
    loops,
    of_type,
    parameters,
    walk,
)
from labbook.review.source_file import Source

_MAX_DEPTH = 4
_ZERO = {"zero_grad", "clear_grad", "clear_gradients", "clear_gradient", "reset_grad"}
CLIPS = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")
_HARMLESS = {
    *("torch", "paddle", "numpy", "math", "time", "os", "sys", "logging", "tqdm", "random", "copy", "json", "warnings"),
    *("torchvision", "sklearn", "PIL", "cv2", "matplotlib", "datetime", "collections", "itertools", "functools", "re"),
    *("pathlib", "wandb", "tensorboardX", "scipy", "pandas", "torchmetrics", "einops", "gc", "pickle", "string", "csv"),
}
"""Libraries whose functions neither clear gradients nor step. Source: chosen by us."""

_BUILTIN = set(dir(builtins)) - {"exec", "eval"}
_HARMLESS_METHODS = {
    *("append", "item", "update", "set_description", "set_postfix", "info", "write", "format", "add_scalar", "train"),
    *("eval", "parameters", "named_parameters", "state_dict", "load_state_dict", "set_state_dict", "to", "cuda", "cpu"),
    *("debug", "warning", "log", "extend", "get_lr", "get_last_lr", "set_epoch", "size", "numpy", "detach", "modules"),
    *("children", "close", "flush", "keys", "values", "items", "get", "join", "split", "mean", "sum", "unscale_"),
}
"""Names of methods that do not affect gradients."""


_TRAINING_WORDS = (
    *("zero", "clear", "train", "step", "optim", "update", "backward", "fit", "learn", "iterat", "epoch", "closure"),
    *("prepare", "run", "process", "main", "execute", "callback", "hook", "apply", "grad", "batch"),
)
"""Words in names of functions that train or clear gradients. Source: chosen by us, from public training code."""

_MODEL_WORDS = (
    "model", "net", "crit", "loss", "head", "encoder", "decoder", "classifier", "generator", "discriminator",
)  # fmt: skip
"""Words in names of attributes that hold models and losses."""


@dataclass(frozen=True)
class Event:
    """An operation on gradients.

    Args:
        what: "zero", "backward", "clip", "step", "schedule" or "unknown" (a call that may do any of them).
        on: Name of the optimizer, model or scheduler in the loop, or "".
        node: The call in the loop, also if the operation is in a called function.
        sure: Whether the object is resolved, not just recognised by the name of the method.
        always: Whether it runs in every iteration (not in a branch, nested loop or handler).
        source: The file of `node`.
        direct: Whether it is in the loop, not in a called function.
        inner: The operation in a called function of the same file, else `None`.
    """

    what: str
    on: str
    node: ast.AST
    sure: bool
    always: bool
    source: Source
    direct: bool = True
    inner: ast.AST | None = None


def events(code: Code, source: Source, body: Sequence[ast.stmt]) -> list[Event]:
    """Return the events of statements, in order."""
    key = ("events", id(body))
    if key not in code.remembered:
        code.remembered[key] = list(_events(code, source, body, {}, 0))
    found: list[Event] = code.remembered[key]
    return found


@dataclass(frozen=True)
class _Call:
    """A call in a loop, or in a function that the loop calls.

    Args:
        named: Parameter of that function -> its name in the loop.
        depth: Number of calls between the loop and this one.
        always: Whether it runs in every iteration.
    """

    code: Code
    source: Source
    node: ast.Call
    named: dict[str, str]
    depth: int
    always: bool

    @property
    def on(self) -> str:
        """Name that the object of the method has in the loop, "" for a function."""
        return self.name_in_loop(receiver(self.node))

    def name_in_loop(self, node: ast.expr | None) -> str:
        """Return the name that an object has in the loop: parameters and `self` are replaced."""
        text = _text(node) if node is not None else ""
        first = text.partition(".")[0].partition("[")[0]
        return f"{self.named[first]}{text.removeprefix(first)}" if first in self.named else text

    def event(self, what: str, on: str | None = None, *, sure: bool = True) -> Event:
        """Return an event of this call, on its object unless another is named."""
        named = self.on if on is None else on
        return Event(what, named, self.node, sure, self.always, self.source, self.depth == 0)


def _events(code: Code, source: Source, body: Sequence[ast.AST], named: dict[str, str], depth: int) -> Iterator[Event]:
    for node, always in _iter_in_order(body, True):
        if isinstance(node, ast.Call):
            yield from _events_of_call(_Call(code, source, node, named, depth, always))
        elif isinstance(node, ast.Assign) and any(_is_grad(one) for one in node.targets):
            yield Event("zero", "*", node, True, always, source)


def _iter_in_order(body: Sequence[ast.AST], always: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield nodes in execution order: arguments before their call."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            # A closure runs when it is called, by a line search for instance.
            yield from _iter_in_order(node.body, False)
            continue
        if isinstance(node, (ast.ClassDef, ast.Lambda)):
            continue
        branch = isinstance(node, (ast.If, *LOOPS, ast.Try, ast.IfExp, ast.BoolOp, ast.Match))
        yield from _iter_in_order(list(ast.iter_child_nodes(node)), always and not branch)
        yield node, always


def _is_grad(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _events_of_call(call: _Call) -> Iterator[Event]:
    name, func = last_name(call.node.func), call.node.func
    if name in _ZERO or ("grad" in name and any(word in name for word in ("zero", "clear", "reset"))):
        # A function may clear the gradients of several optimizers.
        inside = list(_events_of_other(call)) if isinstance(func, ast.Name) else []
        cleared = [one for one in inside if one.what == "zero"]
        yield from cleared or [call.event("zero", "*" if isinstance(func, ast.Name) else None)]
    elif name == "zero_" and ".grad" in call.on:
        yield call.event("zero", "*")
    elif name == "backward" or call.source.dotted(func) in ("torch.autograd.grad", "paddle.grad"):
        yield call.event("backward")
    elif name in CLIPS:
        yield call.event("clip")
    elif name == "minimize":
        yield call.event("backward", sure=False)
        yield call.event("step", sure=False)
    elif name in ("step", "step_") and isinstance(func, ast.Attribute):
        yield from _events_of_step(call)
    else:
        yield from _events_of_other(call)


def _events_of_step(call: _Call) -> Iterator[Event]:
    kind, on, given = call.code.kind(call.source, receiver(call.node)), call.on, call.node.args
    name = kind.name if kind is not None and kind.definition is None else ""
    if name.endswith("GradScaler") and given:
        inner = call.code.kind(call.source, given[0])
        yield call.event("step", call.name_in_loop(given[0]), sure=is_optimizer(inner.name if inner else ""))
    elif is_optimizer(name):
        # With a closure, step() clears gradients and calls backward.
        if given and not isinstance(given[0], ast.Constant):
            yield call.event("unknown")
        yield call.event("step")
    elif is_scheduler(name) or _contains_word(on, ("sched", "lr_")):
        yield call.event("schedule", sure=is_scheduler(name))
    elif _contains_word(on, ("optim", "opt", "solver")) and not _contains_word(on, ("option",)):
        yield call.event("step", sure=False)
        # The step of a custom optimizer class (a proximal one, a wrapper) may do anything.
        own = kind is not None and (kind.definition is not None or kind.name.rsplit(".", 1)[-1][:1].isupper())
        if given or own:
            yield call.event("unknown", sure=False)
    elif _contains_word(on, ("scaler",)) and given:
        yield call.event("step", call.name_in_loop(given[0]), sure=False)
    elif not name and not _contains_word(on, ("env", "profiler", "prof", "timer", "bar")):
        yield call.event("unknown", sure=False)


def is_optimizer(name: str) -> bool:
    """Whether a dotted name is an optimizer of torch or paddle."""
    if name.startswith("torch.optim."):
        return not name.startswith("torch.optim.lr_scheduler") and name.rsplit(".", 1)[-1][0].isupper()
    return name.startswith("paddle.optimizer.") and not name.startswith("paddle.optimizer.lr.")


def is_scheduler(name: str) -> bool:
    """Whether a dotted name is a learning rate scheduler of torch or paddle."""
    return name.startswith(("torch.optim.lr_scheduler.", "paddle.optimizer.lr."))


def _contains_word(on: str, parts: tuple[str, ...]) -> bool:
    last = on.lower().split(".")[-1].split("[")[0]
    return any(part in last for part in parts)


def _events_of_other(call: _Call) -> Iterator[Event]:
    """Yield the events of the function that a call runs, or an unknown one where it is not known and may matter."""
    code, source, node = call.code, call.source, call.node
    followed = code.function_named(source, node.func)
    if followed is not None and call.depth < _MAX_DEPTH:
        where, function = followed
        names = parameters(function)
        given: list[ast.expr | None] = [*node.args]
        if where.class_of(function) is not None and names[:1] == ["self"]:
            owner = receiver(node) if last_name(node.func) == function.name else None
            given.insert(0, owner or node.func)
        arguments = dict(zip(names, given, strict=False)) | {k.arg: k.value for k in node.keywords if k.arg}
        named = {name: call.name_in_loop(value) for name, value in arguments.items()}
        for event in _events(code, where, function.body, named, call.depth + 1):
            inner = (event.inner or event.node) if where is source else None
            yield Event(event.what, event.on, node, event.sure, call.always and event.always, source, False, inner)
    elif not _harmless(code, source, node):
        yield call.event("unknown", sure=False)


def _harmless(code: Code, source: Source, call: ast.Call) -> bool:
    """Whether an unresolved call cannot clear gradients, call backward or step."""
    func = call.func
    root = source.dotted(func).split(".")[0]
    if root:
        return root in _HARMLESS or _only_reads(code, source, call)
    if isinstance(func, ast.Name):
        return func.id in _BUILTIN or code.kind(source, func) is not None or _only_reads(code, source, call)
    name = last_name(func)
    if name in _HARMLESS_METHODS or name.startswith("__"):
        return True
    if isinstance(func, ast.Attribute):
        kind = code.kind(source, func.value)
        if kind is not None and kind.definition is None and kind.name.split(".")[0] in _HARMLESS:
            return True
        if isinstance(func.value, ast.Name) and func.value.id == "self":
            # `self.model(x)`, `self.criterion(...)`: objects of a known library or class are models.
            owner = source.class_of(func)
            is_assigned = owner is not None and bool(code.assigned_values(owner, f"self.{name}"))
            if code.kind(source, func) is not None or (is_assigned and _contains_word(name, _MODEL_WORDS)):
                return True
            # A method of a base class in another package.
            return not any(part in name.lower() for part in _TRAINING_WORDS)
        if _contains_word(_text(func.value), ("scaler", "env", "tracker", "meter", "logger", "writer", "memory")):
            return True
        return _only_reads(code, source, call) and not _contains_word(
            _text(func.value), ("train", "learn", "agent", "engine", "model", "net", "algo", "optim", "solver", "self")
        )
    return False


def _only_reads(code: Code, source: Source, call: ast.Call) -> bool:
    """Whether an unresolved call gets no trainable object, or its name does not suggest training."""
    if not _has_training_argument(code, source, call):
        return True
    if last_name(call.func) in ("setattr", "partial"):
        return False
    for arg in [*call.args, *(k.value for k in call.keywords)]:
        arg = arg.value if isinstance(arg, ast.Starred) else arg
        kind = code.kind(source, arg) if dotted_target(arg) else None
        # A function with access to the optimizer may do anything.
        if _contains_word(dotted_target(arg) or "", ("opt", "args", "state", "self")) or (
            kind and is_optimizer(kind.name)
        ):
            return False
    return not any(part in last_name(call.func).lower() for part in _TRAINING_WORDS)


def _has_training_argument(code: Code, source: Source, call: ast.Call) -> bool:
    """Whether an optimizer, a model, a loss or `self` is an argument of a call."""
    for arg in [*call.args, *(k.value for k in call.keywords)]:
        arg = arg.value if isinstance(arg, ast.Starred) else arg
        if isinstance(arg, ast.Name) and arg.id == "self":
            return True
        if dotted_target(arg) and _contains_word(
            dotted_target(arg), ("opt", "model", "net", "loss", "scaler", "args", "state")
        ):
            return True
        kind = code.kind(source, arg) if dotted_target(arg) else None
        if kind is not None and (is_optimizer(kind.name) or kind.definition is not None):
            return True
    return False


def _text(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else ""


def reached_nodes(
    code: Code, source: Source, body: Sequence[ast.AST], depth: int = 0
) -> Iterator[tuple[Source, ast.AST]]:
    """Yield the nodes of statements and of the functions that they call."""
    for node in walk(body):
        yield source, node
        followed = code.function_named(source, node.func) if isinstance(node, ast.Call) and depth < _MAX_DEPTH else None
        if followed is not None:
            yield from reached_nodes(code, followed[0], followed[1].body, depth + 1)


def step_loops(code: Code, source: Source) -> list[tuple[Loop, list[Event]]]:
    """Return the innermost loops that contain a training event, with their events."""
    key = ("step_loops", source)
    if key not in code.remembered:
        code.remembered[key] = list(_step_loops(code, source))
    found: list[tuple[Loop, list[Event]]] = code.remembered[key]
    return found


def _step_loops(code: Code, source: Source) -> Iterator[tuple[Loop, list[Event]]]:
    for loop in loops(source):
        own = [
            node
            for node in of_type(walk(loop.body), ast.Call)
            if (last_name(node.func) in ("backward", "step", *_ZERO) or _calls_backward(code, source, node))
        ]
        if not any(_nearest_loop(source, node) is loop for node in own):
            continue
        yield loop, events(code, source, loop.body)


def _calls_backward(code: Code, source: Source, call: ast.Call) -> bool:
    """Whether a call runs a function of the program that calls backward outside loops."""
    followed = code.function_named(source, call.func)
    if followed is None:
        return False
    where, function = followed
    return any(is_call(node, "backward") and _nearest_loop(where, node) is function for node in walk(function.body))


def _nearest_loop(source: Source, node: ast.AST) -> ast.AST | None:
    for outer in source.parents_of(node):
        if isinstance(outer, (*LOOPS, *SCOPES)):
            return outer
    return None


def is_under_no_grad(source: Source, node: ast.AST) -> bool:
    """Whether a node is under `no_grad`, `inference_mode` or `set_grad_enabled`, by block or decorator."""
    for outer in source.parents_of(node):
        if isinstance(outer, (ast.With, ast.AsyncWith)) and any(_turns_off(one.context_expr) for one in outer.items):
            return True
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
            _turns_off(one) for one in outer.decorator_list
        ):
            return True
    return False


def computes_without_gradients(function: Function) -> bool:
    """Whether a function turns gradients off for all that it computes, or in a block of it."""
    blocks = (item.context_expr for block in of_type(walk(function.body), ast.With) for item in block.items)
    return any(_turns_off(one) for one in (*function.decorator_list, *blocks))


def _turns_off(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return any(word in text for word in ("no_grad", "inference_mode", "set_grad_enabled", "grad_enabled"))


def trains(code: Code) -> bool:
    """Whether a loop of the code calls `backward`."""
    return any(
        found
        for source in code.sources
        for _, found in step_loops(code, source)
        if any(e.what == "backward" for e in found)
    )
