"""Rules about gradients that are cut, or should be: samples, twin networks."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.definitions import LAYERS
from labbook.review.expressions import made_of
from labbook.review.gradient_flow import is_under_no_grad, step_loops
from labbook.review.names import contains, dotted_target, last_name, last_names, loop_of, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_NORMALS = ("torch.distributions.Normal", "torch.distributions.normal.Normal", "paddle.distribution.Normal")
_FIXED = ("zeros", "ones", "zeros_like", "ones_like", "tensor", "to_tensor", "full")
_DIVERGENCE = re.compile(r"(?:^|_)kld?(?:$|_)|kl_div", re.IGNORECASE)
_ANCHORS = re.compile(
    r"detach\(\)(?!\.(?:cpu|numpy|item|mean|norm|std)\b)|stop_gradient|cross_entropy|logsumexp|softmax|temperature|margin|mse_loss|MSELoss|\.(?:var|std)\("
    r"|\bexp\(|pdist|cov|CrossEntropy|Triplet|nll|requires_grad|momentum_update|ema",
)
"""What keeps twin networks apart: a stopped gradient, negatives, variance, another loss."""
_EVALUATES = re.compile(r"eval|valid|test|embed|extract|features|probe|knn|plot|visual|predict|accuracy", re.IGNORECASE)
_TERM = re.compile(r"(?:^|_)(?:loss|penalty|gp|reg|bc|ic|residual)(?:$|_)", re.IGNORECASE)
_HELD_OUT = re.compile(r"val|test|eval|dev|metric|best|ema", re.IGNORECASE)
_DERIVATIVES = ("torch.autograd.grad", "paddle.grad", "paddle.autograd.grad")
_LOGGED = ("item", "detach", "numpy", "tolist", "cpu")
_LOGGERS = ("print", "float", "format", "info", "add_scalar", "log")


@warning("detached_graph", "torch.distributions: rsample is reparameterised, sample is not; the same in paddle")
def sampled_without_gradient(code: Code, source: Source) -> Iterator[Hit]:
    """The code of a variational autoencoder is drawn by `sample()`, through which no gradient reaches the encoder."""
    calls = {last_name(node.func) for node in source.of_type(ast.Call)}
    names = calls | {last_name(node) for node in source.nodes if isinstance(node, (ast.Name, ast.Attribute))}
    if "log_prob" in calls or "backward" not in calls or not any(map(_DIVERGENCE.search, names)):
        return
    for node in source.of_type(ast.Call):
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "sample":
            continue
        drawn = code.kind(source, node.func.value)
        given = drawn.call.args[:2] if drawn is not None and drawn.name in _NORMALS else []
        if given and not is_under_no_grad(source, node) and not any(_is_fixed(code, source, one) for one in given):
            yield Hit(node, {"call": ast.unparse(node.func)})


def _is_fixed(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether a parameter of a distribution is a number, or made without a model: that of a prior."""
    value = code.made(source, node)
    return isinstance(value, (ast.Constant, ast.UnaryOp)) or (is_call(value, *_FIXED))


@warning(
    "twins_without_stop_gradient",
    "Chen and He 2021, SimSiam, figure 2: without stop-gradient all outputs collapse to a constant",
)
def twins_collapse(code: Code, source: Source) -> Iterator[Hit]:
    """A model is trained to give two views the same output, and nothing keeps it from giving all samples the same."""
    if not code.calls.get("backward") or _ANCHORS.search(ast.unparse(source.tree)) or _stops_gradient(code, source):
        return
    views = Counter(
        (source.function(node) or source.tree, ast.unparse(node.func))
        for node in source.of_type(ast.Call)
        if not source.dotted(node.func) and _is_model(code, source, node.func) and not is_under_no_grad(source, node)
    )
    if not views or max(views.values()) < 2:
        return
    for node in source.nodes:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = node.operand
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.left, ast.Constant):
            inner = node.right
        else:
            continue
        similarity = next((one for one in ast.walk(inner) if _is_similarity(source, one)), None)
        if similarity is not None:
            yield Hit(similarity, {"similarity": ast.unparse(similarity)})
            return


def _stops_gradient(code: Code, source: Source) -> bool:
    """Whether `no_grad` is anywhere but in an evaluation: after or around the loop of the steps, or by its name."""
    trained = [(loop, source.function(loop)) for loop, _ in step_loops(code, source)]
    for call in (node for node in source.of_type(ast.Call) if last_name(node.func) in ("no_grad", "inference_mode")):
        function = source.function(call)
        beside = any(function is its and not contains(loop, call) for loop, its in trained)
        if not beside and (function is None or not _EVALUATES.search(function.name)):
            return True
    return False


def _is_model(code: Code, source: Source, func: ast.expr) -> bool:
    return code.is_model(code.kind(source, func), "torch.nn.Sequential", "paddle.nn.Sequential")


def _is_similarity(source: Source, node: ast.AST) -> bool:
    """Whether this is the cosine similarity of two values that are computed."""
    if not is_call(node, "cosine_similarity") or len(node.args) < 2:
        return False
    return source.dotted(node.func).startswith(("torch.", "paddle."))


@warning(
    "target_not_detached", "Hinton et al. 2015, Distilling the Knowledge in a Neural Network: the teacher is fixed"
)
def teacher_trained(code: Code, source: Source) -> Iterator[Hit]:
    """A distillation compares with a teacher that is trained by the same loss: it moves towards the student."""
    for call in code.calls_in(source, "kl_div", "mse_loss"):
        loop = loop_of(source, call)
        if len(call.args) < 2 or loop is None:
            continue
        nodes = list(made_of(code, source, call.args[1]))
        teachers = [one for one in of_type(nodes, ast.Call) if "teacher" in dotted_target(one.func).lower()]
        if len(teachers) != 1 or is_under_no_grad(source, teachers[0]) or any(is_call(one, "detach") for one in nodes):
            continue
        teacher = dotted_target(teachers[0].func)
        for step in of_type(walk(loop.body), ast.Call):
            made = code.made(source, step.func.value) if isinstance(step.func, ast.Attribute) else None
            if last_name(step.func) == "step" and made is not None and f"{teacher}.parameters()" in ast.unparse(made):
                yield Hit(call, {"teacher": teacher, "optimizer": ast.unparse(step.func.value)})  # type: ignore[attr-defined]
                break


@warning("value_never_used", "chosen by us: a term that costs a forward or a derivative and is only shown")
def term_only_logged(code: Code, source: Source) -> Iterator[Hit]:
    """A term of the loss is computed from the model in each step and only printed: `backward` does not get it."""
    for back in code.calls_in(source, "backward"):
        loop = loop_of(source, back)
        if loop is None or not isinstance(back.func, ast.Attribute):
            continue
        parts = set(made_of(code, source, back.func.value))
        minimised = {one for node in parts for one in last_names(node)}
        for node in (one for one in of_type(walk(loop.body), ast.Assign) if len(one.targets) == 1):
            name = node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
            if not _TERM.search(name) or name in minimised or _HELD_OUT.search(ast.unparse(node)):
                continue
            scope = source.function(node) or source.tree
            reads = [one for one in of_type(ast.walk(scope), ast.Name) if one.id == name and not _is_stored(one)]
            used = is_under_no_grad(source, node) or any(not _is_shown(source, one) for one in reads)
            if not used and _costs_gradient(code, source, node.value, parts):
                yield Hit(node, {"term": name, "loss": ast.unparse(back.func.value)})
                break


def _is_stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def _is_shown(source: Source, name: ast.Name) -> bool:
    """Whether a value is only shown here: `x.item()`, `float(x)`, `f"{x}"`, `print(x)`."""
    parent = source.parents.get(name)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _LOGGED
    return isinstance(parent, ast.FormattedValue) or (is_call(parent, *_LOGGERS) and name in parent.args)


def _costs_gradient(code: Code, source: Source, value: ast.expr, minimised: set[ast.AST]) -> bool:
    """Whether the model of the loss is called once more for a value, or a derivative that has a graph of its own."""
    names = {name for node in minimised for name in last_names(node)}
    for call in (one for part in _only_for(code, source, value) for one in of_type(ast.walk(part), ast.Call)):
        if dotted_target(call.func) in names and code.is_model(code.kind(source, call.func), *LAYERS):
            return True
        where, function = code.function_named(source, call.func) or (source, call)
        inner = of_type(ast.walk(function), ast.Call)
        if any(where.dotted(one.func) in _DERIVATIVES and "create_graph" in ast.unparse(one) for one in inner):
            return True
    return False


def _only_for(code: Code, source: Source, value: ast.expr) -> Iterator[ast.expr]:
    """Yield a value, and what the names in it were given that nothing else reads."""
    yield value
    scope = source.function(value) or source.tree
    for name in of_type(ast.walk(value), ast.Name):
        reads = [one for one in of_type(ast.walk(scope), ast.Name) if one.id == name.id and not _is_stored(one)]
        made = code.made(source, name) if len(reads) == 1 else None
        if made is not None:
            yield made


@warning("custom_backward_wrong", "Ganin and Lempitsky 2015, equation 9: the backward is -lambda * grad")
def gradient_not_reversed(code: Code, source: Source) -> Iterator[Hit]:
    """A layer that is named after the reversal of gradients passes them on with their sign."""
    for cls in source.of_type(ast.ClassDef):
        back = next((one for one in cls.body if isinstance(one, ast.FunctionDef) and one.name == "backward"), None)
        is_reversal = re.search(r"revers|grl", cls.name, re.IGNORECASE) and "Function" in "".join(
            map(ast.unparse, cls.bases)
        )
        text = ast.unparse(back) if back is not None else ""
        if back is not None and is_reversal and not re.search(r"-|neg|sub|revers", text.partition("\n")[2]):
            yield Hit(back, {"name": cls.name})


@warning("value_never_used", "Python reference: an assignment binds the name anew")
def term_overwritten(code: Code, source: Source) -> Iterator[Hit]:
    """A loop computes a loss for each head or task, and only the last one reaches `backward`."""
    for loop in source.of_type(ast.For):
        statement, outer = loop.body[-1], loop_of(source, loop)
        name = dotted_target(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
        if outer is None or len(loop.body) > 2 or "loss" not in name.lower() or not isinstance(statement, ast.Assign):
            continue
        nodes = list(walk(loop.body))
        read = {one.id for one in of_type(nodes, ast.Name) if not _is_stored(one)}
        given = {one.id for one in of_type(ast.walk(loop.target), ast.Name)} & read
        # A value that the loop carries on is judged at its end, on purpose.
        carried = any(_is_carried(loop, one) for one in last_names(statement.value))
        leaves = any(isinstance(one, (ast.Break, ast.Continue)) or is_call(one, "backward") for one in nodes)
        later = (one for one in of_type(walk(outer.body), ast.Call) if one.lineno > loop.lineno)
        ends = any(is_call(one, "backward") and name in last_names(one) for one in later)
        if given and name not in read and not carried and not leaves and ends:
            yield Hit(statement, {"term": name, "code": ast.unparse(statement)})


def _is_carried(loop: ast.For, name: str) -> bool:
    """Whether a name is read before it is assigned in each pass of a loop."""
    first = next((one for one in loop.body if name in last_names(one)), None)
    return isinstance(first, ast.Assign) and first is not loop.body[-1] and name in last_names(first.value)
