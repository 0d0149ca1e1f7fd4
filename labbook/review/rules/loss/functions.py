"""Rules about losses: their inputs, their path to the model, the use of their values."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call, receiver
from labbook.review.code_index import Code, Kind
from labbook.review.definitions import LAYERS
from labbook.review.gradient_flow import is_under_no_grad
from labbook.review.names import Loop, assigns, dotted_target, last_name, loop_of, loops, of_type, walk
from labbook.review.output_activation import activation_of_kind, last_operation
from labbook.review.source_file import Source
from labbook.review.violation import Hit, error, warning

_FORUM = "PyTorch documentation: autograd mechanics"
_LOSSES = {
    "cross_entropy": "cross_entropy", "CrossEntropyLoss": "cross_entropy",
    "softmax_with_cross_entropy": "cross_entropy",
    "nll_loss": "nll", "NLLLoss": "nll", "kl_div": "kl", "KLDivLoss": "kl",
    "binary_cross_entropy_with_logits": "bce_logits", "BCEWithLogitsLoss": "bce_logits",
    "binary_cross_entropy": "bce", "BCELoss": "bce",
}  # fmt: skip


def _loss_of(code: Code, source: Source, call: ast.Call) -> str:
    """Return the name of the loss that a call computes, or ""."""
    dotted = source.dotted(call.func)
    at = call
    if not dotted.startswith(("torch.", "paddle.")):
        kind = code.kind(source, call.func)
        if kind is None or kind.definition is not None:
            return ""
        dotted, at = kind.name, kind.call
    elif last_name(call.func)[:1].isupper():
        return ""
    if not dotted.startswith(LAYERS):
        return ""
    loss = _LOSSES.get(dotted.rsplit(".", 1)[-1], "")
    own_softmax = next((k.value for k in at.keywords if k.arg == "use_softmax"), None)
    if own_softmax is None or ast.unparse(own_softmax) == "True":
        return loss
    return "bare_cross_entropy" if ast.unparse(own_softmax) == "False" else ""


def _loss_calls(code: Code, source: Source) -> Iterator[tuple[ast.Call, str, str]]:
    for node in source.of_type(ast.Call):
        given = node.args[0] if node.args else argument(node, None, "input", "logit")
        if given is None or isinstance(given, ast.Starred):
            continue
        loss = _loss_of(code, source, node)
        if loss:
            yield node, loss, last_operation(code, source, given)


@error("softmax_before_cross_entropy", "torch.nn.CrossEntropyLoss, torch.nn.BCEWithLogitsLoss; the same in paddle")
def softmax_before_loss(code: Code, source: Source) -> Iterator[Hit]:
    """A softmax or sigmoid is applied before a loss that includes one."""
    for call, loss, given in _loss_calls(code, source):
        if loss == "cross_entropy" and given == "softmax":
            yield Hit(call, {"given": given, "own": "softmax"})
        elif loss == "bce_logits" and given in ("sigmoid", "softmax", "log_softmax"):
            yield Hit(call, {"given": given, "own": "sigmoid"})
        elif loss == "cross_entropy" and given == "sigmoid":
            yield Hit(call, {"given": given, "own": "softmax"}, "warning")
        elif loss == "cross_entropy" and given == "log_softmax":
            yield Hit(call, {"given": given, "own": "log_softmax"}, "note")
    for call, criterion, given in _skorch_classifiers(code, source):
        if criterion == "CrossEntropyLoss" and given == "softmax":
            yield Hit(call, {"given": given, "own": "softmax"})


def _skorch_classifiers(code: Code, source: Source) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield the classifiers of skorch, the class of their loss, and the last operation of their module."""
    for call in code.calls_in(source, "NeuralNetClassifier"):
        module, criterion = argument(call, 0, "module"), argument(call, 1, "criterion")
        cls = code.class_named(source, module) if module is not None else None
        if cls is not None and source.dotted(call.func).startswith("skorch."):
            end = activation_of_kind(code, Kind(cls[1].name, source, call, cls))
            yield call, "NLLLoss" if criterion is None else last_name(criterion), end


@error("missing_output_activation", "torch.nn.NLLLoss, torch.nn.BCELoss; the same in paddle")
def missing_output_activation(code: Code, source: Source) -> Iterator[Hit]:
    """Raw outputs are passed to a loss that expects probabilities or log-probabilities."""
    for call, loss, given in _loss_calls(code, source):
        if loss in ("nll", "kl") and given in ("linear", "softmax", "conv", "sigmoid"):
            yield Hit(call, {"wants": "log_softmax", "given": given, "other": "cross_entropy"})
        elif loss == "bce" and given in ("linear", "conv", "tanh", "log_softmax"):
            yield Hit(call, {"wants": "sigmoid", "given": given, "other": "binary_cross_entropy_with_logits"})
        elif loss == "bare_cross_entropy" and given in ("linear", "conv", "log_softmax", "tanh"):
            yield Hit(call, {"wants": "softmax", "given": given, "other": "use_softmax=True"})


@error("missing_output_activation", "skorch.NeuralNetClassifier.get_loss: it takes the logarithm", row="loop-bug")
def logarithm_by_skorch(code: Code, source: Source) -> Iterator[Hit]:
    """Skorch takes the logarithm of what a module returns, which are no probabilities."""
    for call, criterion, given in _skorch_classifiers(code, source):
        if criterion == "NLLLoss" and given in ("linear", "conv", "log_softmax", "tanh"):
            yield Hit(call, {"given": given})


@error("name_shadowed_callable", "reports of `'Tensor' object is not callable`")
def shadowed_callable(code: Code, source: Source) -> Iterator[Hit]:
    """A loop assigns the result of a call to the name of the called object."""
    for node in source.of_type(ast.Assign):
        if len(node.targets) != 1 or not isinstance(node.value, ast.Call):
            continue
        name = dotted_target(node.targets[0])
        call = node.value
        if not name or dotted_target(call.func) != name or not call.args or code.function_named(source, call.func):
            continue
        loop = loop_of(source, node)
        if loop is None or source.function(loop) is not source.function(node) or source.leaves_loop(node):
            continue
        if sum(assigns(one, name) for one in walk(loop.body)) != 1 or assigns(loop, name):
            continue
        outer = code.value(source, name, loop)
        scope = source.function(node)
        if outer is None and scope is not None and not code.assigned_values(scope, name)[1:]:
            continue
        kind = code.kind(source, outer)
        if kind is not None and kind.call is outer and code.is_model(kind, *LAYERS):
            yield Hit(node, {"name": name, "kind": kind.name.rsplit(".", 1)[-1]})


@warning("memory_graph_retained", "PyTorch FAQ: My model reports out of memory", tier=1, row="")
def loss_accumulated(code: Code, source: Source) -> Iterator[Hit]:
    """The loss of each step is added to a total without detaching it."""
    for loop in loops(source):
        back = {
            dotted_target(node.func.value): node
            for node in of_type(walk(loop.body), ast.Call)
            if isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
        }
        back.pop("", None)
        for node in walk(loop.body):
            total, added = _added_names(node)
            if not total or added not in back or total == added or total in back:
                continue
            if loop_of(source, node) is not loop:
                continue
            if any(isinstance(one, (ast.Break, ast.Return)) for one in loop.body) or is_under_no_grad(source, node):
                continue
            if _is_reset_in(loop, total) or not _is_still_loss(loop, node, added, back[added]):
                continue
            if _cut(source, loop, total):
                continue
            yield Hit(node, {"total": total, "loss": added})


def _added_names(node: ast.AST) -> tuple[str, str]:
    """Return the names (total, summand) of `total += loss`, `total = total + loss`, `losses.append(loss)`."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return dotted_target(node.target), _weighted(node.value)
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp):
        total, value = dotted_target(node.targets[0]), node.value
        if isinstance(value.op, ast.Add) and dotted_target(value.left) == total:
            return total, _weighted(value.right)
    if is_call(node, "append") and len(node.args) == 1:
        assert isinstance(node.func, (ast.Attribute, ast.Name))
        owner = node.func.value if isinstance(node.func, ast.Attribute) else node
        return dotted_target(owner), dotted_target(node.args[0])
    return "", ""


def _weighted(node: ast.expr) -> str:
    """Return the name in `loss`, `loss * n`, `n * loss`, `loss / n`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        return dotted_target(node.left) or (dotted_target(node.right) if isinstance(node.op, ast.Mult) else "")
    return dotted_target(node)


def _is_reset_in(loop: Loop, name: str) -> bool:
    """Whether a total is reset in each iteration of the loop."""
    return any(
        isinstance(node, ast.Assign)
        and any(dotted_target(one) == name for one in node.targets)
        and _added_names(node)[0] != name
        for node in walk(loop.body)
    )


def _is_still_loss(loop: Loop, at: ast.AST, name: str, back: ast.AST) -> bool:
    """Whether a name still refers to the loss of the `backward` call, not to its number."""
    for node in walk(loop.body):
        if not assigns(node, name) or not isinstance(node, (ast.Assign, ast.AugAssign)):
            continue
        text = ast.unparse(node.value)
        if any(word in text for word in (".item(", ".detach(", ".data", "float(", ".numpy(", "no_grad")):
            return False
        first = min(getattr(at, "lineno", 0), getattr(back, "lineno", 0))
        if first < node.lineno < max(getattr(at, "lineno", 0), getattr(back, "lineno", 0)):
            return False
    return True


def _cut(source: Source, loop: ast.AST, total: str) -> bool:
    """Whether a total is detached in the loop, or `backward` is called on it."""
    scope = source.function(loop) or source.tree
    for node in of_type(ast.walk(scope), ast.Call):
        if isinstance(node.func, ast.Attribute):
            inner = dotted_target(node.func.value)
            if inner == total and node.func.attr in ("backward", "detach_", "clear", "pop"):
                return True
            if node.func.attr == "backward" and any(dotted_target(one) == total for one in ast.walk(node.func.value)):
                return True
    return False


_NETWORKS = ("torch.nn.Sequential", "paddle.nn.Sequential", "torch.nn.Linear", "paddle.nn.Linear")
_PASSING = {"float", "to", "cuda", "squeeze", "view", "reshape", "mean", "sum"}
"""Methods whose result has the graph of the tensor."""

_OF_SAME_MODEL = {"cpu", "squeeze", "view", "float", "reshape", "argmax"}
"""Methods whose result still comes from the model that made the tensor."""

_CUTS = {"detach", "numpy", "item", "tolist"}


@error("detached_graph", _FORUM)
def detached_loss(code: Code, source: Source) -> Iterator[Hit]:
    """`backward` is called on a loss that is detached from the model."""
    for call in code.calls_in(source, "backward"):
        loss = receiver(call)
        if loss is None or source.dotted(call.func) or not dotted_target(loss):
            continue
        found = _find_detaching(code, source, loss, 0)
        if found is not None:
            yield Hit(found[0], {"how": found[1], "loss": dotted_target(loss)})


def _find_detaching(code: Code, source: Source, node: ast.expr, depth: int) -> tuple[ast.AST, str] | None:
    """Return the node that detaches a value from the model, and how; `None` if that is uncertain."""
    if depth > 6:
        return None
    if dotted_target(node):
        value = code.value(source, dotted_target(node), node)
        return _find_detaching(code, source, value, depth + 1) if value is not None else None
    if isinstance(node, ast.Attribute) and node.attr == "data":
        return (node, ".data") if _is_from_model(code, source, node.value, 0) else None
    if not isinstance(node, ast.Call):
        return None
    name, dotted = last_name(node.func), source.dotted(node.func)
    if isinstance(node.func, ast.Attribute) and name in _CUTS and not dotted:
        return (node, f".{name}()") if _is_from_model(code, source, node.func.value, 0) else None
    if (
        dotted in ("torch.tensor", "torch.from_numpy", "paddle.to_tensor", "torch.Tensor", "torch.FloatTensor")
        and node.args
    ):
        inner = node.args[0]
        if _is_from_model(code, source, inner, 0):
            return node, f"{name}(...)"
        return _find_detaching(code, source, inner, depth + 1)
    if _loss_of(code, source, node) or _is_loss_like(code, source, node):
        if not node.args:
            return None
        if any(_is_from_model(code, source, arg, 0) for arg in node.args[1:]):
            return None
        return _find_detaching(code, source, node.args[0], depth + 1)
    if isinstance(node.func, ast.Attribute) and name in _PASSING:
        return _find_detaching(code, source, node.func.value, depth + 1)
    return None


def _is_loss_like(code: Code, source: Source, call: ast.Call) -> bool:
    dotted = source.dotted(call.func)
    if not dotted:
        kind = code.kind(source, call.func)
        dotted = kind.name if kind is not None and kind.definition is None else ""
    return dotted.startswith(LAYERS) and dotted.lower().endswith(("loss", "cross_entropy"))


def _is_from_model(code: Code, source: Source, node: ast.expr, depth: int) -> bool:
    """Whether a value is the output of a model or of a loss."""
    if depth > 5:
        return False
    if dotted_target(node):
        value = code.value(source, dotted_target(node), node)
        return value is not None and _is_from_model(code, source, value, depth + 1)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _OF_SAME_MODEL:
            return _is_from_model(code, source, node.func.value, depth + 1)
        if is_under_no_grad(source, node):
            return False
        kind = code.kind(source, node.func) if not source.dotted(node.func) else None
        return code.is_model(kind, *_NETWORKS) or bool(_loss_of(code, source, node))
    return False


@error("detached_graph", _FORUM, tier=2)
def forced_gradient(code: Code, source: Source) -> Iterator[Hit]:
    """`requires_grad` is set on a loss before `backward`, which then ends at the loss."""
    for call in code.calls_in(source, "backward"):
        loss, statement = receiver(call), source.statement(call)
        name = dotted_target(loss) if loss is not None else ""
        if loss is None or not name or statement is None or _find_detaching(code, source, loss, 0) is not None:
            continue
        block, index = source.blocks.get(statement, ([], 0))
        for before in reversed(block[:index]):
            forced = _forces(source, before, name)
            if forced is not None:
                yield Hit(forced, {"loss": name})
                break
            if any(assigns(node, name) for node in walk([before])):
                break


def _forces(source: Source, node: ast.stmt, name: str) -> ast.AST | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        call = node.value
        if call.func.attr == "requires_grad_" and dotted_target(call.func.value) == name:  # type: ignore[attr-defined]
            return node
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        one = node.targets[0]
        if isinstance(one, ast.Attribute) and dotted_target(one.value) == name:
            value = ast.unparse(node.value)
            if (one.attr, value) in (("requires_grad", "True"), ("stop_gradient", "False")):
                return node
        if dotted_target(one) == name and isinstance(node.value, ast.Call):
            dotted = source.dotted(node.value.func)
            flag = {k.arg: ast.unparse(k.value) for k in node.value.keywords}
            if dotted in ("torch.autograd.Variable", "torch.tensor") and flag.get("requires_grad") == "True":
                inner = node.value.args[:1]
                return node if inner and not isinstance(inner[0], (ast.Constant, ast.List)) else None
    return None
