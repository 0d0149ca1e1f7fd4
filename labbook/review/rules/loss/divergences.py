"""Rules about the divergence of distributions (Kullback-Leibler): its axis, its sign, the order of its arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call
from labbook.review.code_index import Code
from labbook.review.expressions import both_orders, constant, names_in, number, option_default, signed_terms
from labbook.review.names import contains, dotted_target, last_name
from labbook.review.rules.loss.formulas import is_subtracted
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_DIVERGENCE = re.compile(r"(?:^|_)(?:kl|kld|kl_?div|kl_?loss|divergence)(?:$|_)", re.IGNORECASE)
_TEACHER = re.compile(r"teacher|(?:^|_)t_(?:logits?|out|outputs?|prob)", re.IGNORECASE)
_STUDENT = re.compile(r"student|(?:^|_)s_(?:logits?|out|outputs?|prob)", re.IGNORECASE)
_DISTANCES = ("mse_loss", "l1_loss", "smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
_REVERSED = re.compile(r"revers|rkl|mode_seeking|generalized_jsd|js_?div", re.IGNORECASE)


@warning(
    "softmax_wrong_axis",
    'torch.nn.functional.kl_div: "batchmean" divides by the length of axis 0, the batch; the same in paddle',
)
def divergence_over_batch(code: Code, source: Source) -> Iterator[Hit]:
    """A divergence of a batch is given probabilities that add up to 1 over the samples instead of the classes."""
    for call in code.calls_in(source, "kl_div"):
        if not any(getattr(k.value, "value", "") == "batchmean" for k in call.keywords):
            continue
        for given in call.args[:2]:
            made = code.made(source, given)
            if not is_call(made, "softmax", "log_softmax"):
                continue
            place = 1 if source.dotted(made.func) else 0
            axis = argument(made, place, "dim", "axis")
            if axis is not None and constant(code, source, axis) == 0:
                yield Hit(call, {"call": ast.unparse(made)})
                break


@warning("loss_formula_wrong", "Kingma and Welling 2014, appendix B: the divergence of two normals")
def divergence_sign(code: Code, source: Source) -> Iterator[Hit]:
    """The divergence of a variational autoencoder has the opposite sign: it is negative, and training lowers it."""
    if "elbo" in "\n".join(source.lines).lower():
        return
    for node in source.nodes:
        statement = source.statement(node) if isinstance(node, ast.BinOp) else None
        if statement is None or (
            isinstance(source.parents[node], ast.BinOp) and _sign_of_divergence(source.parents[node])
        ):
            continue
        sign = _sign_of_divergence(node)
        if not sign or not isinstance(statement, (ast.Assign, ast.Return)):
            continue
        for outer in source.parents_of(node):
            if outer is statement:
                break
            if isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.USub):
                sign = -sign
            elif isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Mult):
                sign *= -1 if min(number(outer.left) or 0.0, number(outer.right) or 0.0) < 0 else 1
            elif isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Sub) and contains(outer.right, node):
                sign = -sign
        function = source.function(statement)
        name = function.name if isinstance(statement, ast.Return) and function is not None else ""
        name = name or (last_name(statement.targets[0]) if isinstance(statement, ast.Assign) else "")
        if sign > 0 and _DIVERGENCE.search(name) and not is_subtracted(source, name):
            yield Hit(node, {"divergence": name})


def _sign_of_divergence(node: ast.AST) -> int:
    """1 for `1 + log_var - mu**2 - exp(log_var)`, -1 for its opposite, 0 for anything else."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Add, ast.Sub)):
        return 0
    terms = list(signed_terms(node))
    ones = [sign for sign, term in terms if number(term) == 1.0]
    powers = [(sign, _argument_of_exp(term)) for sign, term in terms if _argument_of_exp(term)]
    plain = {dotted_target(term): sign for sign, term in terms if dotted_target(term)}
    if len(terms) != 4 or len(ones) != 1 or len(powers) != 1 or plain.get(powers[0][1]) != ones[0]:
        return 0
    return ones[0] if powers[0][0] == -ones[0] else 0


def _argument_of_exp(node: ast.expr) -> str:
    if not is_call(node, "exp"):
        return ""
    given = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else node
    return dotted_target(given)


@warning("loss_formula_wrong", "torch.nn.functional.kl_div: input, then target; the same in paddle")
def divergence_swapped(code: Code, source: Source) -> Iterator[Hit]:
    """`kl_div` of a distillation is given the teacher as the input and the student as the target."""
    if _REVERSED.search("\n".join(source.lines)):
        return
    for call in code.calls_in(source, "kl_div"):
        if len(call.args) < 2:
            continue
        given = [" ".join(names_in(code, source, one)) for one in call.args[:2]]
        first, second = ({"t": bool(_TEACHER.search(one)), "s": bool(_STUDENT.search(one))} for one in given)
        if first == {"t": True, "s": False} and second == {"t": False, "s": True}:
            yield Hit(call, {"call": ast.unparse(call.func)})


@warning("posterior_collapse", "Kingma and Welling 2014, 2.3: both terms are sums for a sample")
def divergence_outweighs(code: Code, source: Source) -> Iterator[Hit]:
    """The divergence of an autoencoder is summed over its dimensions, the reconstruction averaged over all elements."""
    for node, summed, averaged in _summed_beside_averaged(code, source):
        if any(_sign_of_divergence(one) for one in ast.walk(summed)):
            yield Hit(node, {"averaged": ast.unparse(averaged), "summed": ast.unparse(summed)})


@warning("regularisation_dominates", "Ng 2011, Sparse autoencoder: the penalty is weighted by a number", row="gradient")
def sparsity_outweighs(code: Code, source: Source) -> Iterator[Hit]:
    """A penalty on activations is summed over them with a weight of 1 or more, and the loss averaged over elements."""
    for node, summed, averaged in _summed_beside_averaged(code, source):
        if any(is_call(one, "abs", "norm") for one in ast.walk(summed)):
            yield Hit(node, {"averaged": ast.unparse(averaged), "summed": ast.unparse(summed)})


def _summed_beside_averaged(code: Code, source: Source) -> Iterator[tuple[ast.BinOp, ast.expr, ast.expr]]:
    """The sums of a distance averaged over all elements and of a term that is summed within a sample, weight 1 or more.

    Returns:
        The addition, what is summed, and what is averaged.
    """
    for node in (one for one in source.of_type(ast.BinOp) if isinstance(one.op, ast.Add)):
        for one, other in both_orders(node):
            averaged = code.made(source, one)
            if averaged is None or not _is_averaged_distance(averaged):
                continue
            factors = [(1.0, other)]
            if isinstance(other, ast.BinOp) and isinstance(other.op, ast.Mult):
                pairs = both_orders(other)
                known = [constant(code, source, one) or option_default(code, one) or 0.0 for one, _ in pairs]
                factors = [(weight, term) for weight, (_, term) in zip(known, pairs, strict=True)]
            for weight, term in factors:
                summed = code.made(source, term)
                calls = (one for one in ast.walk(summed) if isinstance(one, ast.Call)) if summed is not None else ()
                if weight >= 1 and summed is not None and any(last_name(call.func) == "sum" for call in calls):
                    yield node, summed, averaged


def _is_averaged_distance(node: ast.expr) -> bool:
    """Whether this is a distance of each element, averaged over all: `F.mse_loss(a, b)`, `(a - b).pow(2).mean()`."""
    if not isinstance(node, ast.Call):
        return False
    if last_name(node.func) in _DISTANCES:
        return not any(one.arg in ("reduction", "reduce", "size_average") for one in node.keywords)
    inner = node.func.value if is_call(node, "mean") and isinstance(node.func, ast.Attribute) else None
    text = ast.unparse(inner) if inner is not None and not node.args and not node.keywords else ""
    return " - " in text and bool(re.search(r"\.(?:pow\(2\)|square\(\)|abs\(\))$|\*\* 2$", text))
