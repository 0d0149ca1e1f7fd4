"""Rules about losses that a program writes itself: a wrong sign, exchanged arguments, weights the wrong way round."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from labbook.review.call_syntax import argument, is_call
from labbook.review.code_index import Code
from labbook.review.expressions import both_orders, constant, made_of, names_in, number, signed_terms
from labbook.review.gradient_flow import is_under_no_grad
from labbook.review.names import SCOPES, Function, dotted_target, last_name, of_type, walk
from labbook.review.source_file import Source
from labbook.review.violation import Hit, warning

_SCORE = re.compile(r"(?i:dice|jaccard|tversky|ssim)|IoU|IOU|(?:^|_)[gdcm]?iou(?:_|$)")
_COMMON = re.compile(r"inter|(?:^|_)tp(?:$|_)", re.IGNORECASE)
_DIVERGENCE = re.compile(r"(?:^|_)(?:kl|kld|kl_?div|kl_?loss|divergence)(?:$|_)", re.IGNORECASE)
_TEACHER = re.compile(r"teacher|(?:^|_)t_(?:logits?|out|outputs?|prob)", re.IGNORECASE)
_STUDENT = re.compile(r"student|(?:^|_)s_(?:logits?|out|outputs?|prob)", re.IGNORECASE)
_REVERSED = re.compile(r"revers|rkl|mode_seeking|generalized_jsd|js_?div", re.IGNORECASE)
_POSITIVE = re.compile(r"(?:^|_)(?:n_?|num_?)?(?:pos|positives?)(?:$|_)", re.IGNORECASE)
_NEGATIVE = re.compile(r"(?:^|_)(?:n_?|num_?)?(?:neg|negatives?)(?:$|_)", re.IGNORECASE)
_ENTROPY = re.compile(r"cross_entropy|(?:^|_)(?:bce|ce)(?:$|_)|(?:CrossEntropy|BCEWithLogits)Loss", re.IGNORECASE)
_DEPTH = 4
_WITH_LABELS = ("cross_entropy", "criterion", "loss_fn", "loss_func")

_SMOOTHING = re.compile(r"(?:^|_)(?:eps|epsilon|smooth|smoothing|alpha)(?:$|_)")


@warning(
    "softmax_wrong_axis",
    'torch.nn.functional.kl_div: "batchmean" divides by the length of axis 0, the batch; the same in paddle',
    row="loop-bug",
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


def _is_turned(source: Source, name: str) -> bool:
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
    return any(_is_turned(source, name) for name in {called, *objects} - {""})


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
            if isinstance(call, ast.Call) and _ENTROPY.search(last_name(call.func)):
                yield Hit(power, {"power": ast.unparse(power), "entropy": ast.unparse(term)})


@warning("loss_formula_wrong", "Kingma and Welling 2014, appendix B: the divergence of two normals", row="loop-bug")
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
            elif isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Sub) and _contains(outer.right, node):
                sign = -sign
        function = source.function(statement)
        name = function.name if isinstance(statement, ast.Return) and function is not None else ""
        name = name or (last_name(statement.targets[0]) if isinstance(statement, ast.Assign) else "")
        if sign > 0 and _DIVERGENCE.search(name) and not _is_turned(source, name):
            yield Hit(node, {"divergence": name})


def _contains(outer: ast.AST, node: ast.AST) -> bool:
    return any(one is node for one in ast.walk(outer))


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


@warning("loss_formula_wrong", "torch.nn.functional.kl_div: input, then target; the same in paddle", row="loop-bug")
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


@warning("loss_formula_wrong", "Zhang et al. 2018, mixup: inputs and targets are mixed alike", row="loop-bug")
def labels_not_mixed(code: Code, source: Source) -> Iterator[Hit]:
    """Two samples are mixed, and the loss has the label of the first one alone: the share is read nowhere else."""
    labelled = any(code.calls.get(name) for name in _WITH_LABELS)
    for node in source.nodes if labelled else ():
        share = _share_of_mixing(node)
        if not share:
            continue
        function = source.function(node)
        body = function.body if function is not None else source.tree.body
        outside = [one for one in _reads(body, share) if not _contains(node, one)]
        ends = {source.statement(one) for one in outside}
        if function is None or not all(isinstance(one, ast.Return) for one in ends):
            is_read = bool(outside)
        else:
            is_read = any(_is_result_read(code, one, function, share) for one in ends)
        if not is_read:
            yield Hit(node, {"share": share, "mixed": ast.unparse(node)})


def _reads(body: list[ast.stmt], name: str) -> list[ast.AST]:
    return [one for one in of_type(walk(body), ast.Name) if one.id == name and isinstance(one.ctx, ast.Load)]


def _share_of_mixing(node: ast.AST) -> str:
    """The name of the share in `share * x + (1 - share) * x[order]`, or ""."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return ""
    sides = [one for one in (node.left, node.right) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)]
    if len(sides) != 2:
        return ""
    shares = [dotted_target(sides[0].left), ast.unparse(sides[1].left)]
    first, second = dotted_target(sides[0].right), sides[1].right
    again = isinstance(second, ast.Subscript) and not isinstance(second.slice, (ast.Slice, ast.Constant, ast.Tuple))
    is_mixed = again and first and dotted_target(second.value) == first  # type: ignore[attr-defined]
    return shares[0] if is_mixed and shares[1] in (f"1 - {shares[0]}", f"1.0 - {shares[0]}") else ""


def _is_result_read(code: Code, end: ast.AST | None, function: Function, share: str) -> bool:
    """Whether a caller reads the value that a function returns under a name."""
    value = end.value if isinstance(end, ast.Return) else None
    if not isinstance(value, ast.Tuple):
        return True
    place = next((at for at, one in enumerate(value.elts) if dotted_target(one) == share), None)
    for where, call in code.calls.get(function.name, ()):
        statement, caller = where.statement(call), where.function(call)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if place is None or not isinstance(target, ast.Tuple) or len(target.elts) != len(value.elts):
            return True
        if _reads(caller.body if caller is not None else where.tree.body, dotted_target(target.elts[place])):
            return True
    return not code.calls.get(function.name)


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


@warning("loss_formula_wrong", "torch.nn.BCEWithLogitsLoss: pos_weight is negatives / positives", row="loop-bug")
def weights_inverted(code: Code, source: Source) -> Iterator[Hit]:
    """A loss gives the frequent class the larger weight: `positives / negatives`, `counts / total`."""
    for node in source.of_type(ast.Call):
        if not last_name(node.func)[:1]:
            continue
        positive, weight = argument(node, None, "pos_weight"), argument(node, None, "weight")
        if positive is not None:
            share = _ratio(code, source, positive)
            sides = [_side(code, source, one) for one in (share.left, share.right)] if share is not None else []
            if sides == ["positive", "negative"]:
                yield Hit(
                    node, {"weight": "pos_weight", "made": ast.unparse(share or node), "right": "negatives / positives"}
                )
        if weight is not None and _ENTROPY.search(last_name(node.func)) and _is_frequency(code, source, weight):
            made = _ratio(code, source, weight)
            yield Hit(node, {"weight": "weight", "made": ast.unparse(made or weight), "right": "total / counts"})


def _ratio(code: Code, source: Source, node: ast.expr) -> ast.BinOp | None:
    """The division that an argument is, through names and calls that make a tensor of it."""
    made = code.made(source, node)
    while isinstance(made, ast.Call) and (made.args or isinstance(made.func, ast.Attribute)):
        inner = made.args[0] if made.args and source.dotted(made.func) else getattr(made.func, "value", None)
        if isinstance(inner, ast.List) and len(inner.elts) == 1:
            inner = inner.elts[0]
        made = code.made(source, inner)
    return made if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Div) else None


def _side(code: Code, source: Source, node: ast.expr) -> str:
    """Whether a number counts the positive or the negative samples, by its name or by how it was counted."""
    names = {last_name(one) for one in ast.walk(node)} - {""}
    if any(map(_POSITIVE.search, names)) != any(map(_NEGATIVE.search, names)):
        return "positive" if any(map(_POSITIVE.search, names)) else "negative"
    tests = {number(one.comparators[0]) for one in made_of(code, source, node) if isinstance(one, ast.Compare)}
    return "positive" if tests == {1.0} else "negative" if tests == {0.0} else ""


def _is_frequency(code: Code, source: Source, weight: ast.expr) -> bool:
    """Whether weights of classes are their counts divided by the sum of the counts."""
    share = _ratio(code, source, weight)
    if share is None or not isinstance(share.left, (ast.Name, ast.Call)):
        return False
    counted = names_in(code, source, share.left) & {"bincount", "Counter", "value_counts"}
    total = share.right
    is_total = last_name(getattr(total, "func", total)) in ("len", "sum") and not isinstance(
        source.parents[share], SCOPES
    )
    return bool(counted) and is_total and not _has_division(code, source, share.left)


def _has_division(code: Code, source: Source, node: ast.expr) -> bool:
    return any(isinstance(one, (ast.Div, ast.Pow, ast.Sub)) for one in made_of(code, source, node))


@warning(
    "loss_formula_wrong",
    "Szegedy et al. 2016, section 7: (1 - eps) * one_hot + eps / classes",
    row="loop-bug",
)
def smoothing_not_divided(code: Code, source: Source) -> Iterator[Hit]:
    """Labels are smoothed by adding the whole share to each class: a row has a sum above 1."""
    for node in (one for one in source.of_type(ast.BinOp) if isinstance(one.op, ast.Add)):
        for product, share in both_orders(node):
            name = dotted_target(share)
            factors = [ast.unparse(product.left), ast.unparse(product.right)] if _is_product(product) else []  # type: ignore[attr-defined]
            is_rest = name and {f"1 - {name}", f"1.0 - {name}"} & set(factors)
            if is_rest and _SMOOTHING.search(name) and names_in(code, source, product) & {"one_hot", "eye", "scatter_"}:
                yield Hit(node, {"code": ast.unparse(node), "share": name})


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


@warning("padding_in_loss", "torch.nn.CrossEntropyLoss: ignore_index", row="loop-bug")
def padding_only_in_metric(code: Code, source: Source) -> Iterator[Hit]:
    """The metric leaves out padded labels, and a loss that the program writes itself counts them."""
    if not code.calls.get("pad_sequence") or re.search("ignore_index|reduction=|lengths", "\n".join(source.lines)):
        return
    tests = [one for one in source.of_type(ast.Compare) if isinstance(one.ops[0], ast.NotEq)]
    padded = {dotted_target(one.left) for one in tests if number(one.comparators[0]) == 0.0} - {""}
    if not padded or not all(is_under_no_grad(source, one) for one in tests):
        return
    for node in source.of_type(ast.Assign):
        call = node.value
        own = code.function_named(source, call.func) if isinstance(call, ast.Call) else None
        names = {dotted_target(one) for one in call.args} if isinstance(call, ast.Call) else set()
        is_masked = own is not None and re.search(r"mask|pad|> 0|\bne\(", ast.unparse(own[1])) is not None
        is_loss = "loss" in last_name(node.targets[0]) and not is_under_no_grad(source, node)
        if own is not None and is_loss and not is_masked and names & padded:
            yield Hit(node, {"loss": own[1].name, "labels": next(iter(names & padded))})
