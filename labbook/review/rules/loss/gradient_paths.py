"""Rules about gradients that are cut, or should be: samples, twin networks."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.gradient_flow import is_under_no_grad
from labbook.review.names import last_name
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_NORMALS = ("torch.distributions.Normal", "torch.distributions.normal.Normal", "paddle.distribution.Normal")
_FIXED = ("zeros", "ones", "zeros_like", "ones_like", "tensor", "to_tensor", "full")
_DIVERGENCE = re.compile(r"(?:^|_)kld?(?:$|_)|kl_div", re.IGNORECASE)
_ANCHORS = re.compile(
    r"detach|no_grad|stop_gradient|cross_entropy|logsumexp|softmax|temperature|margin|mse_loss|MSELoss|\.(?:var|std)\("
    r"|\bexp\(|pdist|cov|CrossEntropy|Triplet|nll|requires_grad|momentum_update|ema",
)
"""What keeps twin networks apart: a stopped gradient, negatives, variance, another loss."""


@warning(
    "detached_graph",
    "torch.distributions: rsample is reparameterised, sample is not; the same in paddle",
    row="loop-bug",
)
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
    row="loop-bug",
)
def twins_collapse(code: Code, source: Source) -> Iterator[Hit]:
    """A model is trained to give two views the same output, and nothing keeps it from giving all samples the same."""
    if not code.calls.get("backward") or _ANCHORS.search(ast.unparse(source.tree)):
        return
    views = Counter(
        (source.function(node) or source.tree, ast.unparse(node.func))
        for node in source.of_type(ast.Call)
        if not source.dotted(node.func) and _is_model(code, source, node.func)
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


def _is_model(code: Code, source: Source, func: ast.expr) -> bool:
    return code.is_model(code.kind(source, func), "torch.nn.Sequential", "paddle.nn.Sequential")


def _is_similarity(source: Source, node: ast.AST) -> bool:
    """Whether this is the cosine similarity of two values that are computed."""
    if not is_call(node, "cosine_similarity") or len(node.args) < 2:
        return False
    return source.dotted(node.func).startswith(("torch.", "paddle."))
