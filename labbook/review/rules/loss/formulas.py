"""Rules about losses that a program writes itself: a score for a loss, a wrong sign, a wrong factor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import is_call
from labbook.review.code_index import Code
from labbook.review.expressions import made_of, names_in, number, signed_terms
from labbook.review.names import dotted_target, last_name, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_SCORE = re.compile(r"(?i:dice|jaccard|tversky|ssim)|IoU|IOU|(?:^|_)[gdcm]?iou(?:_|$)")
_COMMON = re.compile(r"inter|(?:^|_)tp(?:$|_)", re.IGNORECASE)
CROSS_ENTROPY = re.compile(r"cross_entropy|(?:^|_)(?:bce|ce)(?:$|_)|(?:CrossEntropy|BCEWithLogits)Loss", re.IGNORECASE)
_DEPTH = 4


def is_subtracted(source: Source, name: str) -> bool:
    """Whether a name, or the result of a function of this name, is used with a minus anywhere in the file."""
    for node in source.nodes:
        if isinstance(node, (ast.UnaryOp, ast.BinOp)) and isinstance(node.op, (ast.USub, ast.Sub)):
            right = node.operand if isinstance(node, ast.UnaryOp) else node.right
            if any(last_name(one) == name for one in ast.walk(right)):
                return True
    return False


@warning("loss_formula_wrong", "Milletari et al. 2016: the loss is 1 - Dice", row="loop-bug")
def score_as_loss(code: Code, source: Source) -> Iterator[Hit]:
    """A function named as a loss returns the overlap itself, which is larger for better predictions."""
    for table in code.functions.values():
        for where, function in table:
            owner = where.class_of(function)
            called = owner.name if owner is not None and function.name == "forward" else function.name
            if where is not source or "loss" not in called.lower() or not _SCORE.search(called):
                continue
            ends = [node for node in of_type(walk(function.body), ast.Return) if node.value is not None]
            scores = [one for one in ends if one.value is not None and _is_score(code, source, one.value)]
            if ends and len(scores) == len(ends) and not _is_negated_later(source, called):
                yield Hit(ends[-1], {"loss": called, "returned": ast.unparse(ends[-1].value or ends[-1])})


def _is_negated_later(source: Source, called: str) -> bool:
    """Whether the result of a loss, or of an object of its class, is used with a minus."""
    objects = {
        last_name(node.targets[0])
        for node in source.of_type(ast.Assign)
        if isinstance(node.value, ast.Call) and last_name(node.value.func) == called
    }
    return any(is_subtracted(source, name) for name in {called, *objects} - {""})


def _is_score(code: Code, source: Source, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression is an intersection divided by something, without a minus before it."""
    terms = list(signed_terms(node))
    if any(sign < 0 for sign, _ in terms) or depth > _DEPTH:
        return False
    for one in ast.walk(node):
        is_ratio = isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div)
        if is_ratio and any(map(_COMMON.search, names_in(code, source, one.left))):  # type: ignore[attr-defined]
            return True
    value = code.made(source, terms[0][1]) if len(terms) == 1 and dotted_target(terms[0][1]) else None
    return value is not None and _is_score(code, source, value, depth + 1)


@warning("loss_formula_wrong", "Lin et al. 2017, Focal Loss: the probability is exp(-cross entropy)", row="loop-bug")
def probability_of_entropy(code: Code, source: Source) -> Iterator[Hit]:
    """A focal loss takes `exp(cross entropy)`, which is above 1, for the probability of the right class."""
    for node in source.nodes:
        rest = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and number(node.left) == 1.0
        power = code.made(source, node.right) if rest else None  # type: ignore[attr-defined]
        if not is_call(power, "exp"):
            continue
        is_method = isinstance(power.func, ast.Attribute) and not source.dotted(power.func)
        exponent = power.args[0] if power.args else power.func.value if is_method else None  # type: ignore[attr-defined]
        if exponent is None:
            continue
        for sign, term in signed_terms(exponent):
            entropy = code.made(source, term)
            inner = list(signed_terms(entropy)) if entropy is not None else []
            call = inner[0][1] if len(inner) == 1 and inner[0][0] * sign > 0 else None
            if isinstance(call, ast.Call) and CROSS_ENTROPY.search(last_name(call.func)):
                yield Hit(power, {"power": ast.unparse(power), "entropy": ast.unparse(term)})


@warning(
    "loss_formula_wrong", "Kendall and Gal 2017, equation 8: exp(-s) * error + s, with s = log variance", row="loop-bug"
)
def error_times_variance(code: Code, source: Source) -> Iterator[Hit]:
    """A loss adds a log-variance to an error times its exponential: both fall with it, so the loss has no minimum."""
    for node in source.nodes:
        is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
        terms = list(signed_terms(node)) if is_sum else []  # type: ignore[arg-type]
        plain = {(sign, ast.unparse(term)) for sign, term in terms}
        for sign, term in terms:
            factors = list(_factors(term))
            powers = [one for factor in factors for one in _exponent(code, source, factor)]
            grows = any((sign * its, name) in plain for its, name in powers if its > 0)
            if grows and any(_is_error(code, source, one) for one in factors):
                yield Hit(node, {"code": ast.unparse(node), "power": ast.unparse(term)})


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(node.left)
        yield from _factors(node.right)
    else:
        yield node


def _exponent(code: Code, source: Source, node: ast.expr) -> Iterator[tuple[int, str]]:
    """Yield the sign and the name of `s` in `exp(s)`, also where a name was given it."""
    power = code.made(source, node)
    if is_call(power, "exp"):
        given = power.args[0] if power.args else getattr(power.func, "value", power)
        yield from ((sign, ast.unparse(term)) for sign, term in signed_terms(given))


def _is_error(code: Code, source: Source, node: ast.expr) -> bool:
    """Whether a factor is a loss, a square or an absolute value, also where a name was given it."""
    made = code.made(source, node)
    is_square = isinstance(made, ast.BinOp) and isinstance(made.op, ast.Pow) and number(made.right) == 2.0
    return (
        is_square
        or last_name(node) == "loss"
        or is_call(made, "square", "pow", "abs", "mse_loss", "l1_loss", "smooth_l1_loss")
    )


@warning("loss_formula_wrong", "Goodfellow et al. 2016, Deep Learning, 7.1: the penalty is added", row="loop-bug")
def penalty_subtracted(code: Code, source: Source) -> Iterator[Hit]:
    """A penalty on the weights is subtracted from the loss, so that training makes the weights larger."""
    for node in source.of_type(ast.Assign):
        if "loss" not in last_name(node.targets[0]).lower() or any(k in ast.unparse(node) for k in ("elbo", "reward")):
            continue
        terms = list(signed_terms(node.value))
        for _, term in (one for one in terms if one[0] < 0 and len(terms) > 1):
            nodes = list(made_of(code, source, term))
            called = {last_name(one.func) for one in nodes if isinstance(one, ast.Call)}
            if called & {"parameters", "named_parameters"} and called & {"abs", "norm", "pow", "square"}:
                yield Hit(node, {"penalty": ast.unparse(term)})
                break
