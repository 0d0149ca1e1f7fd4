"""Keras models in the code: their last layer, and its activation."""

from __future__ import annotations

import ast

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code
from labbook.review.names import dotted_target
from labbook.review.source_file import Source


def last_keras_layer(code: Code, source: Source, model: ast.expr | None) -> ast.Call | None:
    """Return the `Dense` that a `Sequential` or a functional model ends in; `None` if it ends otherwise."""
    kind = code.kind(source, model)
    if kind is None or model is None:
        return None
    if kind.name.endswith("Sequential"):
        layers = list(getattr(next(iter(kind.call.args), None), "elts", []))
        added = (one for one in code.calls_in(source, "add") if one.args)
        layers += [one.args[0] for one in added if dotted_target(receiver(one) or one) == dotted_target(model)]
        last = layers[-1] if layers else None
    else:
        outputs = argument(kind.call, 1, "outputs") if kind.name.endswith("Model") else None
        made = code.made(kind.source, outputs) if outputs is not None else None
        last = made.func if isinstance(made, ast.Call) else None
    return last if is_call(last, "Dense") else None


def keras_activation(layer: ast.Call) -> str:
    """Return the name of a layer's activation, "linear" without one, "" where it is no text."""
    given = argument(layer, 1, "activation")
    return "linear" if given is None else str(given.value) if isinstance(given, ast.Constant) else ""
