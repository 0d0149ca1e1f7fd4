"""Rules about model classes: layers that are unregistered, unused or misused."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code
from labbook.review.definitions import LAYERS
from labbook.review.expressions import axis_of
from labbook.review.names import Function, dotted_target, last_name, of_type, walk
from labbook.review.output_activation import last_operation
from labbook.review.source_file import Source
from labbook.review.violation import Hit, error, note, warning

_DOCS = "documentation of torch.nn and paddle.nn"
_WITH_PARAMETERS = (
    *("Linear", "Conv", "BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "Embedding", "LSTM", "GRU", "RNN"),
    *("MultiheadAttention", "MultiHeadAttention", "Transformer", "Bilinear", "SyncBatchNorm", "PReLU"),
)
_SAMPLED = re.compile(r"monte.?carlo|mc_?dropout|bayesian|uncertaint", re.IGNORECASE)
_REGISTERING = {
    *("ModuleList", "ModuleDict", "LayerList", "LayerDict", "Sequential", "add_module", "add_sublayer", "setattr"),
    *("register_module", "ParameterList", "ParameterDict"),
}
_REGISTERING_ONE = ("add_module", "add_sublayer", "setattr", "register_module", "parameters")
_REFLECTION = {"getattr", "eval", "exec", "locals", "vars", "__getattr__"}
_DROPOUTS = (
    *("torch.nn.functional.dropout", "torch.nn.functional.alpha_dropout"),
    *("torch.nn.functional.feature_alpha_dropout", "paddle.nn.functional.dropout"),
)
_LAYER_ITERATORS = {
    "children", "named_children", "sublayers", "named_sublayers", "_modules", "_sub_layers", "__dict__", "modules",
}  # fmt: skip


def _models(code: Code, source: Source) -> Iterator[ast.ClassDef]:
    for node in source.of_type(ast.ClassDef):
        if code.is_module(source, node):
            yield node


def _has_parameters(code: Code, source: Source, node: ast.expr) -> str:
    """Return the name of the layer with parameters that an expression creates, or ""."""
    if not isinstance(node, ast.Call):
        return ""
    dotted = source.dotted(node.func)
    if dotted.startswith(LAYERS) and dotted.count(".") == 2:
        name = dotted.rsplit(".", 1)[-1]
        if name == "Sequential":
            return name if any(_has_parameters(code, source, one) for one in node.args) else ""
        return name if name.startswith(_WITH_PARAMETERS) else ""
    own = code.class_named(source, node.func)
    if own is not None and code.is_module(*own):
        is_layer = any(
            _has_parameters(code, own[0], one)
            for one in of_type(ast.walk(own[1]), ast.Call)
            if code.class_named(own[0], one.func) is None
        )
        return own[1].name if is_layer else ""
    return ""


def _init(cls: ast.ClassDef) -> Function | None:
    return next((n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)


@warning("param_never_gets_grad", "chosen by us; the check param_never_gets_grad", row="")
def unused_layer(code: Code, source: Source) -> Iterator[Hit]:
    """A layer with parameters is never used in the reviewed files."""
    for cls in _models(code, source):
        init = _init(cls)
        forward = next((n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
        if init is None or forward is None or code.lineage(source, cls)[1:] or _is_derived(code, cls.name):
            continue
        if _iterates_layers(cls) or not _does_something(forward):
            continue
        for node in init.body:
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            target = dotted_target(node.targets[0])
            layer = _has_parameters(code, source, node.value)
            name = target.removeprefix("self.")
            if not target.startswith("self.") or not layer or code.loaded.get(name) or name in code.texts:
                continue
            if any(name in text.split(".") for text in code.texts):
                continue
            # If only this file is reviewed and it does not instantiate the class, other files may use the layer.
            alone = len(code.sources) == 1 and not code.calls.get(cls.name)
            yield Hit(node, {"layer": target, "kind": layer}, "note" if alone else "")


def _is_derived(code: Code, name: str) -> bool:
    return any(last_name(base) == name for many in code.classes.values() for _, one in many for base in one.bases)


def _iterates_layers(cls: ast.ClassDef) -> bool:
    """Whether a class accesses its layers other than by name."""
    nodes = list(ast.walk(cls))
    return any(one.attr in _LAYER_ITERATORS for one in of_type(nodes, ast.Attribute)) or any(
        last_name(one.func) in _REFLECTION for one in of_type(nodes, ast.Call)
    )


def _does_something(forward: Function) -> bool:
    body = [n for n in forward.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    return not all(isinstance(node, (ast.Pass, ast.Raise)) for node in body)


@error("unregistered_parameters", _DOCS)
def layers_in_list(code: Code, source: Source) -> Iterator[Hit]:
    """Layers of a model are stored in plain lists or dicts."""
    for cls in _models(code, source):
        for method in cls.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                yield from _plain_list_hits(code, source, cls, method)


def _plain_list_hits(code: Code, source: Source, cls: ast.ClassDef, init: Function) -> Iterator[Hit]:
    containers: dict[str, tuple[ast.AST, str]] = {}
    empty: set[str] = set()
    for node in walk(init.body):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = dotted_target(node.targets[0])
            if target.startswith("self."):
                layer = _element(code, source, node.value)
                if layer:
                    containers[target] = (node, layer)
                elif _is_empty(node.value):
                    empty.add(target)
                else:
                    containers.pop(target, None)
                    empty.discard(target)
        container, value = _put_in(node)
        layer = _has_parameters(code, source, value) if value is not None and container in empty else ""
        if layer:
            containers.setdefault(container, (node, layer))
    registered = {
        dotted_target(one)
        for call in of_type(ast.walk(cls), ast.Call)
        if last_name(call.func) in (*_REGISTERING, "extend")
        for arg in [*call.args, *(k.value for k in call.keywords)]
        for one in ast.walk(arg)
    }
    # A loop may register the layers of a list.
    one_by_one = any(last_name(call.func) in _REGISTERING_ONE for call in of_type(ast.walk(cls), ast.Call))
    used = {dotted_target(n) for m in cls.body if m is not init for n in ast.walk(m)}
    for target, (node, layer) in containers.items():
        if target not in registered and not one_by_one and target in used:
            yield Hit(node, {"list": target, "kind": layer})


def _put_in(node: ast.AST) -> tuple[str, ast.expr | None]:
    """Return the container that a value is put into, and the value: `self.x[k] = v`, `self.x.append(v)`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
        return dotted_target(node.targets[0].value), node.value
    if is_call(node, "append", "insert") and node.args:
        return dotted_target(receiver(node) or node), node.args[-1]
    return "", None


def _is_empty(node: ast.expr) -> bool:
    if isinstance(node, (ast.List, ast.Dict)):
        return not (node.elts if isinstance(node, ast.List) else node.keys)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("list", "dict")
        and not node.args
    )


def _element(code: Code, source: Source, node: ast.expr) -> str:
    """Return the layer in a literal list or dict, or in a comprehension."""
    elements: list[ast.expr] = []
    if isinstance(node, (ast.List, ast.Tuple)):
        elements = node.elts
    elif isinstance(node, ast.Dict):
        elements = list(node.values)
    elif isinstance(node, ast.ListComp):
        elements = [node.elt]
    elif isinstance(node, ast.DictComp):
        elements = [node.value]
    return next((layer for one in elements if (layer := _has_parameters(code, source, one))), "")


@note("missing_nonlinearity", "UMLAUT; NeuraLint")
def no_activation(code: Code, source: Source) -> Iterator[Hit]:
    """Two linear layers follow each other in a sequence."""
    for node in source.of_type(ast.Call):
        if source.dotted(node.func) not in (
            "torch.nn.Sequential",
            "paddle.nn.Sequential",
        ):
            continue
        layers = [one for one in node.args if not _passes_on(source, one)]
        for first, second in itertools.pairwise(layers):
            if _is_linear(source, first) and _is_linear(source, second) and not _narrow(first, second):
                yield Hit(second)
                break


def _is_linear(source: Source, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and source.dotted(node.func) in ("torch.nn.Linear", "paddle.nn.Linear")


def _passes_on(source: Source, node: ast.expr) -> bool:
    name = source.dotted(node.func) if isinstance(node, ast.Call) else ""
    return name.startswith(LAYERS) and name.rsplit(".", 1)[-1] in ("Dropout", "Identity")


def _narrow(first: ast.expr, second: ast.expr) -> bool:
    """Whether two layers form a low-rank layer: without bias, or narrower in the middle."""
    calls = [one for one in (first, second) if isinstance(one, ast.Call)]
    if any(k.arg in ("bias", "bias_attr") for one in calls[:1] for k in one.keywords):
        return True
    sizes = [arg.value if isinstance(arg, ast.Constant) else None for one in calls for arg in one.args[:2]]
    if len(sizes) == 4 and all(isinstance(size, int) for size in sizes):
        return sizes[1] < sizes[0] and sizes[1] < sizes[3]  # type: ignore[operator]
    return False


@error("dropout_active_in_eval", "torch.nn.functional.dropout: training=True by default, the same in paddle")
def functional_dropout(code: Code, source: Source) -> Iterator[Hit]:
    """Functional dropout is called without `training=`."""
    for node in source.of_type(ast.Call):
        dotted = source.dotted(node.func)
        if not dotted.startswith(_DROPOUTS):
            continue
        most = 2 if dotted.startswith("torch") else 3
        if len(node.args) > most or any(k.arg in ("training", None) for k in node.keywords):
            continue
        if any(isinstance(one, ast.Starred) for one in node.args):
            continue
        cls, function = source.class_of(node), source.function(node)
        if cls is None or function is None or not code.is_module(source, cls):
            continue
        if any(
            (isinstance(one, (ast.If, ast.IfExp)) and "train" in ast.unparse(one.test))
            or (isinstance(one, ast.If) and "not self" in ast.unparse(one.test))
            for one in source.parents_of(node)
        ):
            continue
        if any(isinstance(one, ast.If) and "train" in ast.unparse(one.test) for one in walk(function.body)):
            continue
        yield Hit(node, {"call": last_name(node.func)})


@warning("softmax_wrong_axis", "torch.nn.functional.softmax", row="")
def softmax_over_batch(code: Code, source: Source) -> Iterator[Hit]:
    """Softmax over axis 0 of the outputs of a linear layer, in a model that gets batches."""
    for cls in _models(code, source):
        forward = next((n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
        if forward is None or not _sees_batches(code, source, forward):
            continue
        for node in of_type(walk(forward.body), ast.Call):
            if last_operation(code, source, _softmax_input(code, source, node)) == "linear":
                yield Hit(node)


def _softmax_input(code: Code, source: Source, call: ast.Call) -> ast.expr | None:
    name, dotted = last_name(call.func), source.dotted(call.func)
    if dotted.startswith(("torch.", "paddle.")) and name in ("softmax", "log_softmax") and call.args:
        return call.args[0] if axis_of(call, 1) == 0 else None
    kind = code.kind(source, call.func) if isinstance(call.func, ast.Attribute) else None
    if kind is not None and kind.name.endswith((".Softmax", ".LogSoftmax")) and call.args:
        return call.args[0] if axis_of(kind.call, 0) == 0 else None
    if not dotted and name in ("softmax", "log_softmax") and kind is None and isinstance(call.func, ast.Attribute):
        return call.func.value if axis_of(call, 0) == 0 else None
    return None


def _sees_batches(code: Code, source: Source, forward: Function) -> bool:
    """Whether a model flattens all but the first axis, contains batch norm, or is convolutional."""
    for node in of_type(walk(forward.body), ast.Call):
        text = ast.unparse(node)
        if last_name(node.func) in ("view", "reshape", "flatten") and any(
            s in text
            for s in ("size(0)", "shape[0]", ", 1)", "(-1,", "start_dim=1", "[-1, ", "start_axis=1", "[0, -1]")
        ):
            return True
        kind = code.kind(source, node.func) if isinstance(node.func, ast.Attribute) else None
        if kind is not None and kind.name.endswith(
            ("BatchNorm1d", "BatchNorm1D", "BatchNorm2d", "BatchNorm2D", "Conv2d", "Conv2D", "nn.Flatten")
        ):
            return True
    return False


@warning("batchnorm_frozen_or_tiny_batch", _DOCS)
def batchnorm_momentum(code: Code, source: Source) -> Iterator[Hit]:
    """Batch norm gets a momentum in the convention of the other framework (torch 0.1 is paddle 0.9)."""
    for node in source.of_type(ast.Call):
        dotted = source.dotted(node.func)
        name = dotted.rsplit(".", 1)[-1]
        if not dotted.startswith(
            ("torch.nn.BatchNorm", "paddle.nn.BatchNorm", "torch.nn.SyncBatchNorm", "paddle.nn.SyncBatchNorm")
        ):
            continue
        given = argument(node, 2 if name != "BatchNorm" else None, "momentum")
        momentum = code.made(source, given)
        if not isinstance(momentum, ast.Constant) or not isinstance(momentum.value, float):
            continue
        value = momentum.value
        if dotted.startswith("paddle.") and 0 < value < 0.5:
            yield Hit(node, {"value": str(value), "turned": f"{1 - value:.4g}", "share": f"{1 - value:.0%}"})
        elif dotted.startswith("torch.") and 0.85 <= value < 1:
            yield Hit(
                node,
                {"value": str(value), "turned": f"{1 - value:.4g}", "share": f"{value:.0%}"},
                "note" if value == 0.9 else "",
            )


@note("dropout_active_in_eval", "Gal and Ghahramani 2016: Monte Carlo dropout", row="loop-bug", explains=True)
def dropout_on_purpose(code: Code, source: Source) -> Iterator[Hit]:
    """A program that speaks of Monte Carlo dropout keeps a dropout active by `training=True`."""
    for node in source.of_type(ast.Call):
        always = any(one.arg == "training" and getattr(one.value, "value", None) is True for one in node.keywords)
        if always and source.dotted(node.func).startswith(_DROPOUTS) and _SAMPLED.search(ast.unparse(source.tree)):
            yield Hit(node, {"call": ast.unparse(node)})
