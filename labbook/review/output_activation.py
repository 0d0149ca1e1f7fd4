"""Finds the last operation behind an expression: softmax, linear layer, or the last layer of a model."""

from __future__ import annotations

import ast

from labbook.review.code_index import Code, Kind
from labbook.review.definitions import LAYERS
from labbook.review.names import Function, dotted_target, last_name, returned_values, walk
from labbook.review.source_file import Source

_SHAPES = {
    *("view", "reshape", "squeeze", "unsqueeze", "flatten", "float", "double", "half", "to", "cuda", "cpu", "permute"),
    *("transpose", "contiguous", "clone", "astype", "cast", "type", "t"),
}
_FUNCTIONS = {
    "softmax": "softmax", "log_softmax": "log_softmax", "sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu",
    "linear": "linear", "logsigmoid": "logsigmoid",
}  # fmt: skip
_LAYERS = {
    "Softmax": "softmax", "Softmax2d": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid", "Tanh": "tanh",
    "Linear": "linear", "ReLU": "relu", "Conv2d": "conv", "Conv2D": "conv", "Conv1d": "conv", "Conv1D": "conv",
}  # fmt: skip
_IDENTITIES = {"Dropout", "Identity", "Flatten", "Dropout2d", "Dropout2D"}
_DEEP = 8


def last_operation(code: Code, source: Source, node: ast.expr | None, depth: int = 0) -> str:
    """Return the operation that produced a value ("softmax", "log_softmax", "sigmoid", "linear", ...), or ""."""
    if node is None or depth > _DEEP:
        return ""
    if isinstance(node, ast.Call):
        return _activation_of_call(code, source, node, depth)
    ends = {last_operation(code, where, value, depth + 1) for where, value in code.origins(source, node)}
    if not ends and isinstance(node, ast.Subscript) and _selects_rows(node.slice):
        return last_operation(code, source, node.value, depth + 1)
    return ends.pop() if len(ends) == 1 else ""


def _selects_rows(index: ast.expr) -> bool:
    """Whether an index keeps some rows, as those of the training nodes of a graph, and all axes."""
    return isinstance(index, (ast.Slice, ast.Compare)) or "mask" in last_name(index)


def _activation_of_call(code: Code, source: Source, call: ast.Call, depth: int) -> str:
    func, name, dotted = call.func, last_name(call.func), source.dotted(call.func)
    if dotted.startswith(("torch.", "paddle.")):
        if name in _FUNCTIONS and not name[0].isupper():
            return _FUNCTIONS[name]
        if name in _SHAPES and call.args:
            return last_operation(code, source, call.args[0], depth + 1)
        return ""
    if isinstance(func, ast.Attribute) and not dotted_target(func):
        if name in ("softmax", "log_softmax", "sigmoid") and not _is_module_like(func.value):
            return name
        if name in _SHAPES:
            return last_operation(code, source, func.value, depth + 1)
    if isinstance(func, ast.Attribute) and name in _SHAPES and code.kind(source, func) is None:
        return last_operation(code, source, func.value, depth + 1)
    owner = source.class_of(func) if isinstance(func, ast.Name) and func.id == "self" else None
    if owner is not None:
        return _activation_of_class(code, source, owner, depth + 1)
    kind = code.kind(source, func)
    if kind is not None:
        return activation_of_kind(code, kind, depth + 1, call)
    followed = code.function_named(source, func)
    return _end_of_function(code, *followed, depth) if followed is not None else ""


def _is_module_like(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "F", "nn")


def activation_of_kind(code: Code, kind: Kind, depth: int = 0, call: ast.Call | None = None) -> str:
    """Return the last operation of an object's call: by its class or, for a sequence, by its last layer."""
    if depth > _DEEP:
        return ""
    if kind.definition is not None:
        return _activation_of_class(code, *kind.definition, depth)
    if kind.name in ("torch.nn.Sequential", "paddle.nn.Sequential"):
        return _activation_of_sequence(code, kind, depth, call)
    if kind.name.startswith(LAYERS) and kind.name.count(".") == 2:
        return _LAYERS.get(kind.name.rsplit(".", 1)[-1], "")
    return ""


def _activation_of_sequence(code: Code, kind: Kind, depth: int, call: ast.Call | None) -> str:
    for layer in reversed(kind.call.args):
        if isinstance(layer, ast.Tuple) and len(layer.elts) == 2:
            layer = layer.elts[1]
        if isinstance(layer, ast.Starred):
            return ""
        inner = code.kind(kind.source, layer)
        if inner is None:
            return ""
        if inner.name.rsplit(".", 1)[-1] in _IDENTITIES and inner.definition is None:
            continue
        return activation_of_kind(code, inner, depth + 1, call)
    return ""


def _activation_of_class(code: Code, source: Source, cls: ast.ClassDef, depth: int) -> str:
    if not code.is_module(source, cls):
        return ""
    forward = code.method(source, cls, "forward")
    return _end_of_function(code, *forward, depth) if forward is not None else ""


def _end_of_function(code: Code, source: Source, function: Function, depth: int) -> str:
    returns = returned_values(function)
    ends = {last_operation(code, source, value, depth + 1) for value in returns}
    # Code that reads `self.training` may return something else in training.
    reads_mode = any(isinstance(node, ast.Attribute) and node.attr == "training" for node in walk(function.body))
    return ends.pop() if len(ends) == 1 and not (reads_mode and len(returns) > 1) else ""
